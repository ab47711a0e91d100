//! A text that is looked for however programs spell it: plain, escaped as in JSON, Python, shells, addresses or HTML,
//! or in base64.

use std::ops::Range;

use memchr::memmem::Finder;

/// Characters of a longer text that are looked for at once.
const PIECE: usize = 64;

/// Shorter pieces of base64 are found everywhere by chance.
const SHORTEST: usize = 6;

/// One text.
struct Needle {
    /// How each character may be spelt.
    characters: Vec<Vec<Vec<u8>>>,
    /// Characters at the beginning that stay.
    kept: usize,
    /// Characters that have one spelling, by which the text is found; empty if it has none.
    anchor: Range<usize>,
    finder: Finder<'static>,
}

/// Texts that are looked for together.
#[derive(Default)]
pub(super) struct Needles {
    all: Vec<Needle>,
    /// Bytes that one of them may begin with.
    begins: Vec<bool>,
    /// Bytes of the longest one in its longest spelling.
    longest: usize,
}

impl Needles {
    /// Adds a text, and its forms in base64.
    pub(super) fn add(&mut self, text: &str) {
        let characters: Vec<char> = text.chars().collect();
        // The last piece is no shorter than the others.
        let pieces = (characters.len() / PIECE).max(1);
        for piece in 0..pieces {
            let end = if piece + 1 == pieces {
                characters.len()
            } else {
                (piece + 1) * PIECE
            };
            let piece: String = characters[piece * PIECE..end].iter().collect();
            self.push(&piece, 0);
            for text in base64(piece.as_bytes())
                .iter()
                .filter(|text| text.len() >= SHORTEST)
            {
                self.push(text, 0);
            }
        }
    }

    /// Adds a text that is covered only where it stands behind another one, which stays.
    pub(super) fn add_behind(&mut self, before: &str, text: &str) {
        self.push(&format!("{before}{text}"), before.chars().count());
    }

    fn push(&mut self, text: &str, kept: usize) {
        let characters: Vec<Vec<Vec<u8>>> = text.chars().map(spellings).collect();
        let anchor = anchor(text);
        let plain: String = text.chars().skip(anchor.start).take(anchor.len()).collect();
        let finder = Finder::new(plain.as_bytes()).into_owned();
        let longest = |one: &Vec<Vec<u8>>| one.iter().map(Vec::len).max().unwrap_or(0);
        self.longest = self
            .longest
            .max(characters.iter().map(longest).sum::<usize>());
        self.begins.resize(256, false);
        for spelling in characters.first().into_iter().flatten() {
            self.begins[usize::from(spelling[0].to_ascii_lowercase())] = true;
            self.begins[usize::from(spelling[0].to_ascii_uppercase())] = true;
        }
        self.all.push(Needle {
            characters,
            kept,
            anchor,
            finder,
        });
    }

    /// Where bytes are to be covered, in no order; ranges may overlap.
    pub(super) fn scan(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for needle in &self.all {
            if needle.anchor.is_empty() {
                let begins = |at: &usize| self.begins[usize::from(bytes[*at])];
                found.extend(
                    (0..bytes.len())
                        .filter(begins)
                        .filter_map(|at| needle.at(bytes, at)),
                );
            } else {
                let places = needle.finder.find_iter(bytes);
                found.extend(places.filter_map(|at| needle.at(bytes, at)));
            }
        }
        found
    }

    /// Where the bytes end in what may be the beginning of a text; their length if nowhere.
    pub(super) fn open_end(&self, bytes: &[u8]) -> usize {
        let tail = bytes.len().saturating_sub(self.longest)..bytes.len();
        let is_open = |at: &usize| {
            self.begins[usize::from(bytes[*at])]
                && self.all.iter().any(|needle| needle.is_cut(&bytes[*at..]))
        };
        tail.into_iter().find(is_open).unwrap_or(bytes.len())
    }

    /// Whether nothing is looked for.
    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Needle {
    /// What is to be covered of the text whose anchor is at an offset.
    fn at(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let (before, after) = (
            &self.characters[..self.anchor.start],
            &self.characters[self.anchor.end..],
        );
        let mut starts = vec![at];
        for spellings in before.iter().rev() {
            starts = step(&starts, spellings, |start, spelling| {
                let from = start.checked_sub(spelling.len())?;
                is_spelt(&bytes[from..start], spelling).then_some(from)
            });
        }
        let start = starts.into_iter().min()?;
        let ends = forward(bytes, at + self.anchor.len(), after);
        let end = ends.into_iter().max()?;
        let kept = forward(bytes, start, &self.characters[..self.kept]);
        Some(kept.into_iter().max()?..end)
    }

    /// Whether the bytes end before the text does.
    fn is_cut(&self, bytes: &[u8]) -> bool {
        let mut places = vec![0];
        for spellings in &self.characters {
            let is_cut = |at: &usize| {
                let rest = &bytes[*at..];
                let begins = |spelling: &Vec<u8>| {
                    rest.len() < spelling.len() && is_spelt(rest, &spelling[..rest.len()])
                };
                spellings.iter().any(begins)
            };
            if places.iter().any(is_cut) {
                return true;
            }
            places = step(&places, spellings, |at, spelling| {
                let end = at + spelling.len();
                bytes
                    .get(at..end)
                    .filter(|bytes| is_spelt(bytes, spelling))
                    .map(|_| end)
            });
            if places.is_empty() {
                return false;
            }
        }
        false
    }
}

/// Where these characters may end if they begin at an offset.
fn forward(bytes: &[u8], at: usize, characters: &[Vec<Vec<u8>>]) -> Vec<usize> {
    let mut ends = vec![at];
    for spellings in characters {
        ends = step(&ends, spellings, |end, spelling| {
            let next = end + spelling.len();
            bytes
                .get(end..next)
                .filter(|bytes| is_spelt(bytes, spelling))
                .map(|_| next)
        });
        if ends.is_empty() {
            break;
        }
    }
    ends
}

/// All places that one more character leads to.
fn step(
    places: &[usize],
    spellings: &[Vec<u8>],
    one: impl Fn(usize, &[u8]) -> Option<usize>,
) -> Vec<usize> {
    let mut next = Vec::new();
    for place in places {
        next.extend(
            spellings
                .iter()
                .filter_map(|spelling| one(*place, spelling)),
        );
    }
    next.sort_unstable();
    next.dedup();
    next
}

/// Digits of escapes are of either case.
fn is_spelt(bytes: &[u8], spelling: &[u8]) -> bool {
    match spelling {
        [one] => bytes == [*one],
        _ => bytes.eq_ignore_ascii_case(spelling),
    }
}

/// Whether nobody escapes such a character.
const fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The longest run of characters with one spelling.
fn anchor(text: &str) -> Range<usize> {
    let (mut best, mut start) = (0..0, 0);
    for (at, character) in text.chars().chain(['\0']).enumerate() {
        if !is_plain(character) {
            if at - start > best.len() {
                best = start..at;
            }
            start = at + 1;
        }
    }
    best
}

/// How programs write a character.
fn spellings(character: char) -> Vec<Vec<u8>> {
    if is_plain(character) {
        return vec![vec![character as u8]];
    }
    let (code, text) = (u32::from(character), character.to_string());
    let each = |form: &dyn Fn(u8) -> String| text.bytes().map(form).collect::<String>();
    let mut units = [0; 2];
    let units = character.encode_utf16(&mut units);
    let mut all = vec![
        text.clone(),
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        format!("\\u{{{code:x}}}"),
        format!("\\U{code:08x}"),
        format!("&#{code};"),
        format!("&#x{code:x};"),
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("\\x{byte:02x}")),
        each(&|byte| format!("\\{byte:03o}")),
    ];
    if code < 256 {
        all.push(format!("\\x{code:02x}"));
    }
    if character.is_ascii_punctuation() {
        all.push(format!("\\{character}"));
    }
    let named: &[&str] = match character {
        '\n' => &["\\n"],
        '\t' => &["\\t"],
        '\r' => &["\\r"],
        ' ' => &["+", "\\ "],
        '&' => &["&amp;"],
        '<' => &["&lt;"],
        '>' => &["&gt;"],
        '"' => &["&quot;"],
        '\'' => &["&apos;", "''"],
        // The other alphabet of base64.
        '+' => &["-"],
        '/' => &["_"],
        _ => &[],
    };
    all.extend(named.iter().map(|text| (*text).to_owned()));
    // Text in text: JSON in JSON, an address in an address.
    let again: Vec<String> = all
        .iter()
        .flat_map(|text| {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
            [escaped, text.replace('%', "%25")]
        })
        .collect();
    all.extend(again);
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(String::into_bytes).collect()
}

/// What base64 makes of the bytes wherever they lie in what is encoded: the digits that are theirs alone.
fn base64(bytes: &[u8]) -> [String; 3] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    [0, 1, 2].map(|before| {
        let bit = |at: usize| usize::from(bytes[at / 8 - before] >> (7 - at % 8) & 1);
        let (first, last) = ((8 * before).div_ceil(6), 8 * (before + bytes.len()) / 6);
        let digit = |at: usize| (6 * at..6 * at + 6).fold(0, |digit, at| 2 * digit + bit(at));
        (first..last)
            .map(|at| char::from(DIGITS[digit(at)]))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, bytes: &str) -> Vec<String> {
        let mut needles = Needles::default();
        needles.add(text);
        let found = needles.scan(bytes.as_bytes());
        found
            .into_iter()
            .map(|range| bytes[range].to_owned())
            .collect()
    }

    /// Spellings by Python: `json.dumps`, `repr`, `ascii`, `urllib.parse.quote` and `quote_plus`, `html.escape`,
    /// `json.dumps` twice.
    #[test]
    fn a_text_is_found_in_all_its_spellings() {
        let secret = "p\"a\\ß/w'o r\n&€";
        for spelt in [
            secret,
            r#"p\"a\\\u00df/w'o r\n&\u20ac"#,
            r#"p\"a\\\u00DF\/w'o r\n\u0026\u20AC"#,
            r#"p"a\\ß/w\'o r\n&€"#,
            r#"p"a\\\xdf/w\'o r\n&\u20ac"#,
            r#"p"a\\\xc3\x9f/w\'o r\n&\xe2\x82\xac"#,
            r#"p"a\\\303\237/w\'o r\n&\342\202\254"#,
            "p%22a%5C%C3%9F/w%27o%20r%0A%26%E2%82%AC",
            "p%22a%5c%c3%9f%2fw%27o+r%0a%26%e2%82%ac",
            "p&quot;a\\ß/w&#x27;o r\n&amp;€",
            r#"p\\\"a\\\\\\u00df/w'o r\\n&\\u20ac"#,
        ] {
            assert_eq!(found(secret, &format!("x {spelt}y")), [spelt], "{spelt}");
        }
        assert_eq!(found(secret, "p\"a\\ß/w'o r\n&"), [""; 0]);
        assert_eq!(found("!?!?!?", "a !?%21?!\\u003f!"), ["!?%21?!\\u003f"]);
    }

    /// By Python's `base64`: of `hunter2-x`, `ahunter2-x` and `user:hunter2-x`. Of 6 bits each are those digits that
    /// hold nothing of other bytes.
    #[test]
    fn base64_is_found_wherever_the_text_begins() {
        for (encoded, part) in [
            ("aHVudGVyMi14", "aHVudGVyMi14"),
            ("YWh1bnRlcjIteA==", "h1bnRlcjIte"),
            ("dXNlcjpodW50ZXIyLXg=", "odW50ZXIyLX"),
        ] {
            assert_eq!(found("hunter2-x", encoded), [part]);
        }
        assert_eq!(base64(b"\xfb\xff\xbf")[0], "+/+/");
        assert_eq!(found("\u{3ff}\u{3ff}\u{3ff}", "z7_Pv8-_"), ["z7_Pv8-_"]);
    }

    #[test]
    fn long_texts_are_found_piece_by_piece() {
        let long: String = (0..100).map(|at| format!("{at:03}")).collect();
        let found = found(&long, &format!("x{long}x"));
        assert_eq!(found.concat(), long);
    }
}
