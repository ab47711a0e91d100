//! Lines of a stream, each bounded in length.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is read; lines of cuBLASLt have some 1000 bytes.
const MAX_LINE: u64 = 64 << 10;

/// A line without its end.
pub(super) enum Line<'a> {
    Whole(&'a str),
    TooLong,
}

/// Reads a stream line by line into one buffer.
pub(super) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    buffer: Vec<u8>,
    text: String,
    cut: bool,
}

impl Lines {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        let input = BufReader::with_capacity(1 << 18, input);
        Self {
            input,
            buffer: Vec::new(),
            text: String::new(),
            cut: false,
        }
    }

    /// True if the last line had no end.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        if self.read()? == 0 {
            return Ok(None);
        }
        if self.buffer.last() != Some(&b'\n') {
            let long = self.buffer.len() as u64 >= MAX_LINE;
            if long {
                while self.buffer.last() != Some(&b'\n') {
                    self.buffer.clear();
                    if self.read()? == 0 {
                        break;
                    }
                }
                return Ok(Some(Line::TooLong));
            }
            self.cut = true;
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.buffer));
        Ok(Some(Line::Whole(self.text.trim_end_matches(['\r', '\n']))))
    }

    fn read(&mut self) -> io::Result<usize> {
        (&mut self.input)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.buffer)
    }
}
