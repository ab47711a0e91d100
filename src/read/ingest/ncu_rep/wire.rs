//! The protobuf wire format: tagged fields over a borrowed buffer, nothing copied and nothing recursive.

use std::borrow::Cow;

/// Parts of one kind that a launch may have. Those of the full set are some thousand; a field of two bytes may become
/// a part of a hundred.
const MAX_PARTS: usize = 1 << 15;

/// Adds a part, unless there are too many.
pub(super) fn add<T>(parts: &mut Vec<T>, part: T) -> Result<(), Malformed> {
    if parts.len() >= MAX_PARTS {
        return Err(Malformed);
    }
    parts.push(part);
    Ok(())
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The value of a field, as its wire type tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Integers, enumerations, truth values.
    Number(u64),
    /// Eight bytes: doubles.
    Eight([u8; 8]),
    /// Four bytes: floats.
    Four([u8; 4]),
    /// Texts, bytes, messages.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// An integer.
    pub(super) fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(Malformed),
        }
    }

    /// An integer of 32 bits.
    pub(super) fn small(self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// A float or a double.
    pub(super) fn float(self) -> Result<f64, Malformed> {
        match self {
            Self::Eight(bytes) => Ok(f64::from_le_bytes(bytes)),
            Self::Four(bytes) => Ok(f64::from(f32::from_le_bytes(bytes))),
            _ => Err(Malformed),
        }
    }

    /// The bytes of a message.
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed),
        }
    }

    /// A text; bytes that are not UTF-8 become replacement signs.
    pub(super) fn text(self) -> Result<Cow<'a, str>, Malformed> {
        self.bytes().map(String::from_utf8_lossy)
    }
}

/// The fields of a message in the order in which they lie; ends after the first fault.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

/// The fields of a message: number and value.
pub(super) const fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Eight(self.take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Four(self.take(4)?.try_into().ok()?),
            // Groups are not used, the rest does not exist.
            _ => return None,
        };
        Some((number, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Seven bits a byte, the low ones first; ten bytes at most.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_encoding_guide() {
        // protobuf.dev, “Encoding”: 08 96 01 is field 1 = 150; 12 07 … is field 2 = "testing".
        let message = b"\x08\x96\x01\x12\x07testing";
        let read: Vec<_> = fields(message).collect();
        assert_eq!(
            read,
            [
                Ok((1, Value::Number(150))),
                Ok((2, Value::Bytes(b"testing")))
            ]
        );
    }

    #[test]
    fn fixed_sizes_are_little_endian() {
        let message = b"\x0d\x00\x00\x80\x3f\x11\x00\x00\x00\x00\x00\x00\xf8\xbf";
        let read: Vec<_> = fields(message).map(|field| field?.1.float()).collect();
        assert_eq!(read, [Ok(1.0), Ok(-1.5)]);
    }

    #[test]
    fn a_fault_ends_the_message() {
        for message in [
            &b"\x08"[..],                                    // no value
            b"\x12\x07test",                                 // shorter than its length
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // longer than memory
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", // beyond 64 bits
            b"\x0b\x08\x01",                                 // a group
            b"\x00\x01",                                     // field 0
            b"\x11\x00\x00",                                 // fewer than 8 bytes
        ] {
            let read: Vec<_> = fields(message).collect();
            assert_eq!(read, [Err(Malformed)], "{message:?}");
        }
    }
}
