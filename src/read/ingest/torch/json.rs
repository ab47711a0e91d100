//! JSON text, value by value. An event has fifteen values, of which five are kept: each is passed over and checked
//! once, and what is kept is read from where it stands. Accepts what `serde_json` accepts, whatever the depth.

use std::borrow::Cow;

/// The text is no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value<'a> {
    pub(super) kind: Kind,
    /// As it stands in the file.
    pub(super) json: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A text with escapes.
    Escaped,
    Number,
    List,
    /// An object, a truth value or `null`.
    Other,
}

impl<'a> Value<'a> {
    /// A text, or the digits of a number; everything else is empty.
    #[inline(always)]
    pub(super) fn text(self) -> Result<Cow<'a, str>, Invalid> {
        Ok(match self.kind {
            Kind::Text => Cow::Borrowed(self.inner()),
            Kind::Escaped => Cow::Owned(self.unescaped()?),
            Kind::Number => Cow::Borrowed(self.json),
            Kind::List | Kind::Other => Cow::Borrowed(""),
        })
    }

    /// What stands between the quotes.
    pub(super) fn inner(self) -> &'a str {
        &self.json[1..self.json.len() - 1]
    }

    #[cold]
    fn unescaped(self) -> Result<String, Invalid> {
        // A half of a surrogate pair is no text.
        serde_json::from_str(self.json).map_err(|_| Invalid)
    }
}

/// A text of JSON and how far it is read.
#[derive(Debug)]
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
    /// The brackets that close what is open, within a value that is passed over.
    open: Vec<u8>,
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            open: Vec::new(),
        }
    }

    /// Reads a list, of which `element` reads each element.
    pub(super) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.expect(b'[')?;
        let mut more = !self.closes(b']');
        while more {
            element(self)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Reads an object, of which `member` reads the value of each key.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.expect(b'{')?;
        let mut more = !self.closes(b'}');
        while more {
            let key = self.value()?;
            self.expect(b':')?;
            let unescaped;
            let name = match key.kind {
                Kind::Text => key.inner(),
                Kind::Escaped => {
                    unescaped = key.unescaped()?;
                    &unescaped
                }
                _ => return Err(Invalid),
            };
            member(self, name)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    /// Passes over a value of any kind.
    // Inlined: a value that is returned in memory is read back before it is written, which takes as long as reading it.
    #[inline(always)]
    pub(super) fn value(&mut self) -> Result<Value<'a>, Invalid> {
        let first = self.peek().ok_or(Invalid)?;
        let start = self.at;
        let kind = match first {
            b'[' | b'{' => self.nested(first)?,
            _ => self.single(first)?,
        };
        Ok(Value {
            kind,
            json: &self.text[start..self.at],
        })
    }

    /// True if an object comes next.
    pub(super) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// Nothing follows.
    pub(super) fn end(&mut self) -> Result<(), Invalid> {
        self.peek().map_or(Ok(()), |_| Err(Invalid))
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    #[inline]
    fn expect(&mut self, expected: u8) -> Result<(), Invalid> {
        if self.closes(expected) {
            Ok(())
        } else {
            Err(Invalid)
        }
    }

    /// Passes over `bracket` if it comes next.
    #[inline]
    fn closes(&mut self, bracket: u8) -> bool {
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        closes
    }

    /// Passes over what follows an element: a comma, or the bracket that closes.
    #[inline]
    fn more(&mut self, close: u8) -> Result<bool, Invalid> {
        let more = !self.closes(close);
        if more {
            self.expect(b',')?;
        }
        Ok(more)
    }

    /// Passes over a list or an object, iteratively.
    fn nested(&mut self, first: u8) -> Result<Kind, Invalid> {
        self.open.clear();
        loop {
            let mut closed = match self.peek().ok_or(Invalid)? {
                b'[' => self.enter(b']')?,
                b'{' => self.enter(b'}')?,
                first => self.single(first).map(|_| true)?,
            };
            while closed {
                let Some(close) = self.open.last().copied() else {
                    return Ok(if first == b'[' {
                        Kind::List
                    } else {
                        Kind::Other
                    });
                };
                closed = !self.more(close)?;
                if closed {
                    self.open.pop();
                } else {
                    self.name(close)?;
                }
            }
        }
    }

    /// Opens a list or an object; whether it is empty, and closed again.
    fn enter(&mut self, close: u8) -> Result<bool, Invalid> {
        self.at += 1;
        let closed = self.closes(close);
        if !closed {
            self.open.push(close);
            self.name(close)?;
        }
        Ok(closed)
    }

    /// Passes over the key of a member, if the bracket closes an object.
    fn name(&mut self, close: u8) -> Result<(), Invalid> {
        if close == b'}' {
            let Some(b'"') = self.peek() else {
                return Err(Invalid);
            };
            self.string()?;
            self.expect(b':')?;
        }
        Ok(())
    }

    /// Passes over a text, a number or a word.
    fn single(&mut self, first: u8) -> Result<Kind, Invalid> {
        match first {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            _ => self.word("null"),
        }
    }

    fn word(&mut self, word: &str) -> Result<Kind, Invalid> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Invalid);
        }
        self.at += word.len();
        Ok(Kind::Other)
    }

    #[inline]
    fn string(&mut self) -> Result<Kind, Invalid> {
        let mut kind = Kind::Text;
        self.at += 1;
        loop {
            self.at += plain(&self.text.as_bytes()[self.at..]);
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                _ => return Err(Invalid),
            }
            kind = Kind::Escaped;
        }
        self.at += 1;
        Ok(kind)
    }

    #[cold]
    fn escape(&mut self) -> Result<(), Invalid> {
        self.at += match &self.text.as_bytes()[self.at + 1..] {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', hex @ ..] if hex.len() >= 4 && hex[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return Err(Invalid),
        };
        Ok(())
    }

    fn number(&mut self) -> Result<Kind, Invalid> {
        self.at += usize::from(self.byte() == Some(b'-'));
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Result<(), Invalid> {
        let digits = self.text.as_bytes()[self.at..].iter();
        let count = digits.take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(()) } else { Err(Invalid) }
    }
}

/// Bytes before the first quote, backslash or control character: eight at a time.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    let (words, rest) = bytes.as_chunks();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quotes = below(word ^ (ONES * u64::from(b'"')), 1);
        let escapes = below(word ^ (ONES * u64::from(b'\\')), 1);
        // The highest bit of a byte; a borrow may set those of higher bytes, never one of a lower.
        let stops = (quotes | escapes | below(word, b' ')) & (ONES << 7);
        if stops != 0 {
            return nth * 8 + stops.trailing_zeros() as usize / 8;
        }
    }
    let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    words.len() * 8 + rest.iter().position(stop).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use super::{Json, Kind, Value, plain};

    fn value(text: &str) -> Option<Value<'_>> {
        let mut json = Json::new(text);
        let value = json.value().ok()?;
        json.end().ok()?;
        Some(value)
    }

    /// All texts of up to `longest` parts.
    fn all(parts: &[&str], longest: usize, visit: &mut impl FnMut(&str)) {
        let mut texts = vec![String::new()];
        for _ in 0..longest {
            texts = texts
                .iter()
                .flat_map(|text| parts.iter().map(move |part| text.clone() + part))
                .collect();
            texts.iter().for_each(|text| visit(text));
        }
    }

    #[test]
    fn it_accepts_what_serde_json_accepts() {
        let mut accepted = 0;
        let mut check = |text: &str| {
            let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
            assert_eq!(value(text).is_some(), expected, "{text}");
            accepted += usize::from(expected);
        };
        let brackets = ["[", "]", "{", "}", ",", ":", "\"a\"", "1", " ", "null"];
        all(&brackets, 5, &mut check);
        all(&["[", "]", "{\"\":", "}", ",", "0"], 6, &mut check);
        all(&["0", "1", "-", "+", ".", "e", "E", "\n"], 6, &mut check);
        all(
            &["\"", "\\", "u", "00", "d8", "n", "\u{1}", "é"],
            6,
            &mut check,
        );
        all(
            &["t", "r", "u", "e", "true", "false", "nul", "l"],
            4,
            &mut check,
        );
        assert!(accepted > 1000, "{accepted}");
    }

    #[test]
    fn texts_are_those_of_serde_json() {
        let mut read = 0;
        all(
            &["a", "\\", "u", "00e9", "d83d", "de00", "n", "é", "\""],
            6,
            &mut |inner| {
                let text = format!("\"{inner}\"");
                let expected = serde_json::from_str::<String>(&text).ok();
                assert_eq!(
                    value(&text).and_then(|value| value.text().ok()),
                    expected.as_deref().map(Into::into),
                    "{text}"
                );
                read += usize::from(expected.is_some());
            },
        );
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn values_stand_as_in_the_file() {
        for (json, kind) in [
            (r#"{"a": [1, {}]}"#, Kind::Other),
            (r#"[ 1 , "]" ]"#, Kind::List),
            ("-1.50e+3", Kind::Number),
            (r#""a,b""#, Kind::Text),
            (r#""a\n""#, Kind::Escaped),
            ("false", Kind::Other),
        ] {
            assert_eq!(value(&format!(" {json}\n")), Some(Value { kind, json }));
        }
    }

    #[test]
    fn a_text_ends_at_the_first_byte_that_is_not_plain() {
        let stop = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
        for first in 0..=u8::MAX {
            for second in [
                0, 0x1f, b' ', b'!', b'"', b'#', b'[', b'\\', b']', 0x7f, 0x80, 0xff,
            ] {
                for position in 0..40 {
                    let mut bytes = [b'a'; 41];
                    (bytes[position], bytes[position + 1]) = (first, second);
                    let expected = bytes.iter().position(stop).unwrap_or(bytes.len());
                    assert_eq!(plain(&bytes), expected, "{first} {second} {position}");
                }
            }
        }
    }
}
