//! Records: what a row of a table is stored as.
//!
//! A record is a header and a body. The header is its own length and one serial type a column, all of them
//! varints; the body is the contents of the columns without gaps. A serial type tells type and length, so
//! that columns which nobody wants are stepped over without a look at them. A record may end before the
//! table's last columns: it is older than they are.

/// Bytes of content by serial type, for the types that take one byte in a header.
const LENGTHS: [u8; 128] = {
    // NULL; integers of so many bytes; a real; the integers 0 and 1 themselves; two that are not in use.
    let fixed = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];
    let (mut lengths, mut serial) = ([0; 128], 0);
    while serial < lengths.len() {
        lengths[serial] = if serial < 12 { fixed[serial] } else { (serial as u8 - 12) / 2 };
        serial += 1;
    }
    lengths
};

/// The content of a column. Texts and blobs lie in the bytes that the value was decoded from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text { start: u32, end: u32 },
    Blob { start: u32, end: u32 },
}

/// Where a record lies in the bytes that hold it.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) rowid: i64,
    pub(super) bytes: &'a [u8],
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Which columns of a table are decoded, and into which slots.
pub(super) struct Plan {
    /// Column and slot, by column.
    stored: Vec<(usize, usize)>,
    /// Slots of columns that stand for the rowid, which a record does not repeat.
    rowids: Vec<usize>,
}

impl Plan {
    /// A plan that decodes column `picks[slot]` into `slot`.
    pub(super) fn new(picks: &[Option<usize>], is_rowid: impl Fn(usize) -> bool) -> Self {
        let picks = picks.iter().enumerate().filter_map(|(slot, pick)| Some(((*pick)?, slot)));
        let (rowids, mut stored): (Vec<_>, Vec<_>) = picks.partition(|(pick, _)| is_rowid(*pick));
        stored.sort_unstable();
        Self { stored, rowids: rowids.into_iter().map(|(_, slot)| slot).collect() }
    }

    /// Decodes a record; slots that the plan does not name are left alone. `None` if it is malformed.
    #[inline]
    pub(super) fn decode(&self, record: &Record<'_>, values: &mut [Value]) -> Option<()> {
        let Record { rowid, bytes, start, end } = *record;
        let (header_length, mut header_at) = varint(bytes, start)?;
        let body = start.checked_add(usize::try_from(header_length).ok()?)?;
        let header = bytes.get(..body).filter(|_| header_at <= body && body <= end)?;
        let (mut columns_read, mut serial, mut at, mut length) = (0, 0, body, 0);
        for (column, slot) in &self.stored {
            while columns_read <= *column {
                at = at.saturating_add(length);
                (serial, length) = (0, 0);
                match header.get(header_at) {
                    Some(byte @ ..0x80) => {
                        (serial, header_at) = (u64::from(*byte), header_at + 1);
                        length = usize::from(LENGTHS[usize::from(*byte)]);
                    }
                    Some(_) => {
                        (serial, header_at) = varint(header, header_at)?;
                        length = content_length(serial)?;
                    }
                    // Older than the column.
                    None => {}
                }
                columns_read += 1;
            }
            if end.checked_sub(at)? < length {
                return None;
            }
            *values.get_mut(*slot)? = value(bytes, serial, at, length)?;
        }
        for slot in &self.rowids {
            *values.get_mut(*slot)? = Value::Int(rowid);
        }
        Some(())
    }
}

/// Texts and blobs are of any length: even types from 12 on are blobs, odd ones texts.
fn content_length(serial: u64) -> Option<usize> {
    match LENGTHS.get(usize::try_from(serial).ok()?) {
        Some(length) => Some(usize::from(*length)),
        None => usize::try_from((serial - 12) / 2).ok(),
    }
}

#[inline]
fn value(bytes: &[u8], serial: u64, at: usize, length: usize) -> Option<Value> {
    Some(match serial {
        0 => Value::Null,
        1..=6 => Value::Int(int(bytes, at, length)?),
        // SQLite knows no NaN: it reads one as NULL.
        7 => match f64::from_bits(int(bytes, at, length)? as u64) {
            real if real.is_nan() => Value::Null,
            real => Value::Real(real),
        },
        8 => Value::Int(0),
        9 => Value::Int(1),
        10 | 11 => return None,
        _ => {
            let (start, end) = (u32::try_from(at).ok()?, u32::try_from(at + length).ok()?);
            match serial.is_multiple_of(2) {
                true => Value::Blob { start, end },
                false => Value::Text { start, end },
            }
        }
    })
}

/// A big-endian integer in two's complement of `length` bytes, 1 to 8.
#[inline]
fn int(bytes: &[u8], at: usize, length: usize) -> Option<i64> {
    let shift = 64 - 8 * length;
    // One load and a shift where the integer does not lie at the very end of the bytes.
    if let Some(word) = bytes.get(at..at + 8) {
        return Some(i64::from_be_bytes(word.try_into().ok()?) >> shift);
    }
    let word =
        bytes.get(at..at + length)?.iter().fold(0, |word, byte| word << 8 | i64::from(*byte));
    Some(word << shift >> shift)
}

/// The varint at `at` and where it ends: seven bits a byte, most significant first, the last byte without
/// its top bit set; a ninth byte has all its eight bits.
#[inline]
pub(super) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
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
        assert_eq!(varint(&[0x83, 0xff, 0x7f], 0), Some((3 << 14 | 0x7f << 7 | 0x7f, 3)));
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
        let picks: Vec<_> = (0..9).rev().map(Some).collect();
        let plan = Plan::new(&picks, |_| false);
        let mut values = [Value::Int(7); 9];
        let record = Record { rowid: 7, bytes: &bytes, start: 0, end: bytes.len() };
        plan.decode(&record, &mut values).unwrap();
        let text = Value::Text { start: 13, end: 15 };
        let blob = Value::Blob { start: 15, end: 16 };
        let (null, int, real) = (Value::Null, Value::Int, Value::Real);
        values.reverse();
        let expected = [null, int(-2), int(-2), int(0), int(1), text, blob, real(0.5), null];
        assert_eq!(values, expected);
        for end in 0..bytes.len() {
            assert!(plan.decode(&Record { end, ..record }, &mut values).is_none(), "cut to {end}");
        }
    }
}
