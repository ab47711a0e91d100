//! Records: what a row of a table is stored as.
//!
//! A record is a header and a body. The header is its own length and one serial type a column, all of them
//! varints; the body is the contents of the columns without gaps. A serial type tells type and length, so
//! that columns which nobody wants are stepped over without a look at them. A record may end before the
//! table's last columns: it is older than they are.

/// SQLite's own limit.
const MAX_COLUMNS: usize = 32_767;

/// Bytes of content by serial type, for the types that take one byte in a header.
const LENGTHS: [u32; 128] = {
    // NULL; integers of so many bytes; a real; the integers 0 and 1 themselves; two that are not in use,
    // which no record has room for.
    let fixed = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, u32::MAX, u32::MAX];
    let (mut lengths, mut serial) = ([0; 128], 0);
    while serial < lengths.len() {
        lengths[serial] = if serial < 12 {
            fixed[serial]
        } else {
            (serial as u32 - 12) / 2
        };
        serial += 1;
    }
    lengths
};

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The key, which an `INTEGER PRIMARY KEY` represents and the record does not repeat.
    pub rowid: i64,
    pub(crate) bytes: &'a [u8],
    pub(crate) columns: &'a [Column],
    /// Where it lies in the file: offsets and lengths.
    pub(crate) pieces: &'a [(u64, usize)],
}

/// Serial type of a column, and where its content begins in the record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Column {
    serial: u32,
    start: u32,
}

impl Column {
    /// Where its content lies. Texts and blobs are of any length: even types are blobs, odd ones texts.
    #[inline]
    fn range(self) -> std::ops::Range<usize> {
        let (serial, start) = (self.serial as usize, self.start as usize);
        start
            ..start
                + LENGTHS
                    .get(serial)
                    .map_or_else(|| (serial - 12) / 2, |length| *length as usize)
    }
}

impl<'a> Value<'a> {
    /// Text or blob.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) | Self::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Text in UTF-8.
    pub fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self {
            std::str::from_utf8(text).ok()
        } else {
            None
        }
    }

    /// A whole number.
    pub fn int(self) -> Option<i64> {
        if let Self::Int(int) = self {
            Some(int)
        } else {
            None
        }
    }
}

impl<'a> Record<'a> {
    /// How many columns it has: fewer than the table if it is older than the last ones.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Decodes a column; NULL beyond the last.
    #[inline]
    pub fn value(&self, column: usize) -> Value<'a> {
        let Some(column) = self.columns.get(column) else {
            return Value::Null;
        };
        match column.serial {
            0 => Value::Null,
            1..=6 => Value::Int(int(self.bytes, column.range())),
            // SQLite knows no NaN: it reads one as NULL.
            7 => match f64::from_bits(int(self.bytes, column.range()) as u64) {
                real if real.is_nan() => Value::Null,
                real => Value::Real(real),
            },
            8 => Value::Int(0),
            9 => Value::Int(1),
            serial => {
                let content = self.bytes.get(column.range()).unwrap_or_default();
                if serial % 2 == 0 {
                    Value::Blob(content)
                } else {
                    Value::Text(content)
                }
            }
        }
    }

    /// Where a column lies in the file: offsets and lengths of its pieces.
    pub fn places(&self, column: usize) -> impl Iterator<Item = (u64, usize)> {
        let range = self
            .columns
            .get(column)
            .map_or(0..0, |column| column.range());
        let mut at = 0;
        self.pieces.iter().filter_map(move |(offset, length)| {
            let (from, to) = (range.start.max(at), range.end.min(at + length));
            let place = offset + (from - at) as u64;
            at += length;
            (from < to).then(|| (place, to - from))
        })
    }
}

/// Lists the columns of a record of `length` bytes in `buffer`; `None` if it contradicts its header.
#[inline]
pub(crate) fn list_columns<'a>(
    bytes: &[u8],
    length: usize,
    buffer: &'a mut Vec<Column>,
) -> Option<&'a [Column]> {
    let (mut start, mut at) = varint(bytes, 0)?;
    let header = bytes.get(..usize::try_from(start).ok()?)?;
    if buffer.len() < header.len() {
        buffer.resize(header.len().min(MAX_COLUMNS), Column::default());
    }
    let mut count = 0;
    for column in buffer.iter_mut() {
        if at >= header.len() {
            break;
        }
        let serial;
        (serial, at) = varint(header, at)?;
        *column = Column {
            serial: serial as u32,
            start: start as u32,
        };
        let length = match LENGTHS.get(serial as usize) {
            Some(length) => u64::from(*length),
            None => (serial - 12) / 2,
        };
        start = start.saturating_add(length);
        count += 1;
    }
    // No type or start was cut to 32 bits if the sum of all lengths is right.
    buffer
        .get(..count)
        .filter(|_| at == header.len() && start == length as u64)
}

/// A big-endian integer in two's complement of `length` bytes, 1 to 8.
#[inline]
fn int(bytes: &[u8], range: std::ops::Range<usize>) -> i64 {
    let (bytes, length) = (bytes.get(range.start..).unwrap_or_default(), range.len());
    let shift = 64 - 8 * length;
    // One load and a shift where the integer does not lie at the very end of the bytes.
    if let Some(word) = bytes.first_chunk() {
        return i64::from_be_bytes(*word) >> shift;
    }
    let word = bytes
        .iter()
        .take(length)
        .fold(0, |word, byte| word << 8 | i64::from(*byte));
    word << shift >> shift
}

/// The varint at `at` and where it ends: seven bits a byte, most significant first, the last byte without
/// its top bit set; a ninth byte has all its eight bits.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    match bytes.get(at)? {
        byte @ ..0x80 => Some((u64::from(*byte), at + 1)),
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.get(at..)?.iter().take(9).enumerate() {
        if index == 8 {
            return Some((value << 8 | u64::from(*byte), at + 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if *byte < 0x80 {
            return Some((value, at + index + 1));
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_seven_bits_a_byte_and_eight_in_the_ninth() {
        assert_eq!(varint(&[0x7f], 0), Some((127, 1)));
        assert_eq!(varint(&[0, 0x81, 0x00], 1), Some((128, 3)));
        assert_eq!(
            varint(&[0x83, 0xff, 0x7f], 0),
            Some((3 << 14 | 0x7f << 7 | 0x7f, 3))
        );
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        for cut in 0..9 {
            assert_eq!(varint(&[0xff; 8][..cut.min(8)], 0), None);
        }
    }

    /// Header of 9 bytes: NULL, -2 in one byte, -2 in three, 0, 1, text of 2, blob of 1, real 0.5.
    #[test]
    fn a_record_is_decoded_by_its_serial_types() {
        let mut bytes = vec![9, 0, 1, 3, 8, 9, 17, 14, 7];
        bytes.extend([0xfe, 0xff, 0xff, 0xfe, b'h', b'i', 0x55]);
        bytes.extend(0.5_f64.to_be_bytes());
        let mut buffer = Vec::new();
        let columns = list_columns(&bytes, bytes.len(), &mut buffer).unwrap();
        let record = Record {
            rowid: 7,
            bytes: &bytes,
            columns,
            pieces: &[],
        };
        let values: Vec<_> = (0..9).map(|column| record.value(column)).collect();
        let (null, int, real) = (Value::Null, Value::Int, Value::Real);
        let (text, blob) = (Value::Text(b"hi"), Value::Blob(&[0x55]));
        assert_eq!(
            values,
            [
                null,
                int(-2),
                int(-2),
                int(0),
                int(1),
                text,
                blob,
                real(0.5),
                null
            ]
        );
        for length in 0..bytes.len() {
            assert!(
                list_columns(&bytes, length, &mut Vec::new()).is_none(),
                "cut to {length}"
            );
        }
    }
}
