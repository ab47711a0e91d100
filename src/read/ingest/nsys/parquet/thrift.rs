//! Thrift's compact protocol, in which Parquet writes its footer and the heads of pages.

use super::Fault;

/// Structures in structures beyond which a file is refused; a footer has four.
const MAX_DEPTH: u32 = 16;

/// Types of fields.
pub(super) const TRUE: u8 = 1;
const FALSE: u8 = 2;
pub(super) const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// A place in bytes. What it gives is never longer than what is left of them.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    depth: u32,
}

impl<'a> Thrift<'a> {
    pub(super) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at,
            depth: 0,
        }
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.bytes.get(self.at).ok_or(Fault::Cut)?;
        self.at += 1;
        Ok(byte)
    }

    fn unsigned(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Fault::Malformed("a number has more than 64 bits"))
    }

    /// An integer of any size.
    pub(super) fn int(&mut self) -> Result<i64, Fault> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Bytes behind their length.
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.unsigned()?).map_err(|_| Fault::Cut)?;
        let end = self.at.checked_add(length).ok_or(Fault::Cut)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Fault::Cut)?;
        self.at = end;
        Ok(bytes)
    }

    /// Reads a structure: `each` is called with number and type of its fields, and says whether it read the value.
    pub(super) fn fields(
        &mut self,
        mut each: impl FnMut(&mut Self, i64, u8) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        self.deeper()?;
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                self.depth -= 1;
                return Ok(());
            }
            let (step, kind) = (head >> 4, head & 15);
            number = if step == 0 {
                self.int()?
            } else {
                number.saturating_add(i64::from(step))
            };
            if !each(self, number, kind)? {
                self.skip(kind)?;
            }
        }
    }

    /// Reads a list of which `each` reads an element.
    pub(super) fn list(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (_, length) = self.list_head()?;
        (0..length).try_for_each(|_| each(self))
    }

    fn list_head(&mut self) -> Result<(u8, u64), Fault> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 {
            self.unsigned()?
        } else {
            u64::from(head >> 4)
        };
        // An element takes a byte at the least.
        let is_there = length <= (self.bytes.len() - self.at) as u64;
        if is_there {
            Ok((head & 15, length))
        } else {
            Err(Fault::Cut)
        }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        let message = "structures lie too deep in one another";
        if self.depth > MAX_DEPTH {
            Err(Fault::Malformed(message))
        } else {
            Ok(())
        }
    }

    fn skip(&mut self, kind: u8) -> Result<(), Fault> {
        match kind {
            TRUE | FALSE => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.unsigned().map(drop),
            7 => (0..8).try_for_each(|_| self.byte().map(drop)),
            BINARY => self.binary().map(drop),
            LIST | SET => {
                let (kind, length) = self.list_head()?;
                self.deeper()?;
                // Truth values in lists take a byte.
                let kind = if kind == FALSE || kind == TRUE {
                    3
                } else {
                    kind
                };
                (0..length).try_for_each(|_| self.skip(kind))?;
                self.depth -= 1;
                Ok(())
            }
            STRUCT => self.fields(|_, _, _| Ok(false)),
            _ => Err(Fault::Malformed("a field is of an unknown type")),
        }
    }
}
