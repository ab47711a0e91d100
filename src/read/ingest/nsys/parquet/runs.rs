//! Small numbers as runs: of one value, or packed by bits. Nothing is taken for values that are not there.

use super::Fault;

/// Numbers of a fixed count of bits in a part of a page.
#[derive(Debug)]
pub(super) struct Runs {
    at: usize,
    end: usize,
    /// Bits of a number.
    width: u32,
    /// Numbers left of the run, and what it repeats; none for packed ones.
    left: u64,
    repeated: Option<u32>,
    /// Bit at which the next packed number begins.
    bit: usize,
}

impl Runs {
    /// Those of the bytes from `at` to `end` of a page.
    pub(super) fn new(at: usize, end: usize, width: u32) -> Result<Self, Fault> {
        let is_sound = width <= 32 && at <= end;
        let runs = Self {
            at,
            end,
            width,
            left: 0,
            repeated: None,
            bit: 0,
        };
        if is_sound {
            Ok(runs)
        } else {
            Err(Fault::Malformed("a page has numbers of no size"))
        }
    }

    /// The next number.
    pub(super) fn next(&mut self, page: &[u8]) -> Result<u32, Fault> {
        let bytes = page.get(..self.end).ok_or(Fault::Cut)?;
        if self.left == 0 {
            self.run(bytes)?;
        }
        self.left -= 1;
        if let Some(value) = self.repeated {
            return Ok(value);
        }
        let mut value = 0;
        for shift in 0..self.width {
            let byte = *bytes.get(self.bit >> 3).ok_or(Fault::Cut)?;
            value |= u32::from(byte >> (self.bit & 7) & 1) << shift;
            self.bit += 1;
        }
        Ok(value)
    }

    /// The head of the next run.
    fn run(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut head = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = *bytes.get(self.at).ok_or(Fault::Cut)?;
            self.at += 1;
            head |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let count = head >> 1;
        let whole = self.width.div_ceil(8) as usize;
        if head & 1 == 0 {
            let stored = bytes.get(self.at..self.at + whole).ok_or(Fault::Cut)?;
            let value = stored
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u32::from(*byte));
            (self.left, self.repeated) = (count, Some(value));
            self.at += whole;
        } else {
            (self.left, self.repeated, self.bit) = (count * 8, None, self.at * 8);
            // The last run may be shorter than it says.
            let taken = usize::try_from(count * u64::from(self.width)).unwrap_or(usize::MAX);
            self.at = self.at.saturating_add(taken);
        }
        if self.left == 0 {
            Err(Fault::Malformed("a run is empty"))
        } else {
            Ok(())
        }
    }
}
