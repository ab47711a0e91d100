//! Texts of UTF-16, and texts that begin with a byte order mark: as UTF-8 without a mark. PowerShell 5 redirects output as
//! UTF-16; some tools omit its mark.

use std::io::{self, Cursor, Read};

/// A file's encoding other than that of plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Bytes that show an encoding.
const START: u64 = 4;

impl Encoding {
    /// The encoding of a file that begins so, and the length of its mark. Without a mark, the first two units of UTF-16 are
    /// ASCII characters, of which one byte is zero.
    pub(super) fn of(bytes: &[u8]) -> Option<(Self, usize)> {
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        match bytes {
            [0xef, 0xbb, 0xbf, ..] => Some((Self::Utf8, 3)),
            [0xff, 0xfe, ..] => Some((Self::Utf16Le, 2)),
            [0xfe, 0xff, ..] => Some((Self::Utf16Be, 2)),
            [a, 0, b, 0, ..] if is_text(a) && is_text(b) => Some((Self::Utf16Le, 0)),
            [0, a, 0, b, ..] if is_text(a) && is_text(b) => Some((Self::Utf16Be, 0)),
            _ => None,
        }
    }
}

/// The bytes of a reader; those of UTF-16, or of a text with a mark, as UTF-8 without a mark.
pub(super) fn decoded(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut start = Vec::new();
    reader.by_ref().take(START).read_to_end(&mut start)?;
    let (encoding, mark_bytes) = Encoding::of(&start).unwrap_or((Encoding::Utf8, 0));
    let rest = Cursor::new(start.split_off(mark_bytes)).chain(reader);
    Ok(match encoding {
        Encoding::Utf8 => Box::new(rest),
        Encoding::Utf16Le => Box::new(Utf16::new(rest, u16::from_le_bytes)),
        Encoding::Utf16Be => Box::new(Utf16::new(rest, u16::from_be_bytes)),
    })
}

/// Bytes that are decoded at once.
const BLOCK: u64 = 64 << 10;

/// UTF-16 as UTF-8; what is no character becomes a replacement sign.
struct Utf16<R> {
    inner: R,
    unit: fn([u8; 2]) -> u16,
    /// Units before a block's end that belong to the next one.
    rest: Vec<u8>,
    text: Cursor<String>,
}

impl<R: Read> Utf16<R> {
    fn new(inner: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self {
            inner,
            unit,
            rest: Vec::new(),
            text: Cursor::default(),
        }
    }

    /// Decodes the next block; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.rest);
        let before = bytes.len();
        self.inner.by_ref().take(BLOCK).read_to_end(&mut bytes)?;
        let is_end = bytes.len() == before;
        let pairs = bytes
            .chunks_exact(2)
            .map(|pair| (self.unit)([pair[0], pair[1]]));
        let mut units: Vec<u16> = pairs.collect();
        let mut whole = 2 * units.len();
        // The first half of a pair waits for its second one.
        let is_half = units
            .last()
            .is_some_and(|unit| (0xd800..0xdc00).contains(unit));
        if is_half && !is_end {
            units.pop();
            whole -= 2;
        }
        if !is_end {
            self.rest = bytes.split_off(whole);
        }
        let mut text = String::from_utf16_lossy(&units);
        if is_end && bytes.len() % 2 == 1 {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        self.text = Cursor::new(text);
        Ok(!is_end || before > 0)
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.get_ref().as_bytes();
            let read = (&read[self.text.position() as usize..]).read(buffer)?;
            self.text.set_position(self.text.position() + read as u64);
            if read > 0 || buffer.is_empty() || !self.advance()? {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::decoded;

    fn read(bytes: Vec<u8>) -> String {
        let mut text = String::new();
        let mut reader = decoded(std::io::Cursor::new(bytes)).unwrap();
        std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
        text
    }

    fn units(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        ("\u{feff}".to_owned() + text)
            .encode_utf16()
            .flat_map(bytes)
            .collect()
    }

    #[test]
    fn a_mark_goes_and_units_become_utf_8() {
        // Longer than a block, with a pair of units across its end.
        let text = "x".repeat((32 << 10) - 1) + "😀µ\r\n" + &"é".repeat(40_000);
        assert_eq!(read(units(&text, u16::to_le_bytes)), text);
        assert_eq!(read(units(&text, u16::to_be_bytes)), text);
        // Without the mark.
        assert_eq!(read(units(&text, u16::to_le_bytes).split_off(2)), text);
        assert_eq!(read(units(&text, u16::to_be_bytes).split_off(2)), text);
        assert_eq!(
            read(["\u{feff}".as_bytes(), text.as_bytes()].concat()),
            text
        );
        assert_eq!(read(text.clone().into_bytes()), text);
        for short in ["", "a", "ab"] {
            assert_eq!(read(short.as_bytes().to_vec()), short);
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        for bytes in [&b"a\0\x01\0"[..], b"\0\x01\0b", b"NVR\0", b"a\0b", b"a\0bc"] {
            assert_eq!(read(bytes.to_vec()).as_bytes(), bytes);
        }
    }

    #[test]
    fn what_is_cut_in_a_unit_or_a_pair_ends_in_a_replacement_sign() {
        let bytes = units("a😀", u16::to_le_bytes);
        assert_eq!(read(bytes[..5].to_vec()), "a\u{fffd}");
        assert_eq!(read(bytes[..6].to_vec()), "a\u{fffd}");
    }
}
