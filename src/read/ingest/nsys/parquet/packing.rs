//! How pages are packed.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::Fault;

/// The unpacked bytes of a page that says how many it has; they grow as they come.
pub(super) fn unpack(codec: i64, packed: &[u8], length: usize) -> Result<Vec<u8>, Fault> {
    let bytes = match codec {
        0 => packed.to_vec(),
        1 => snappy(packed, length)?,
        2 => read(MultiGzDecoder::new(packed), length)?,
        6 => {
            let decoder = zstd::Decoder::with_buffer(packed).map_err(|_| UNSOUND)?;
            read(decoder, length)?
        }
        3 => return Err(unsupported("LZO")),
        4 => return Err(unsupported("Brotli")),
        5 | 7 => return Err(unsupported("LZ4")),
        _ => return Err(unsupported("an unknown codec")),
    };
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(UNSOUND)
    }
}

const UNSOUND: Fault = Fault::Malformed("a page does not unpack to the size that it states");

fn unsupported(codec: &str) -> Fault {
    Fault::Unsupported(format!("pages packed by {codec}"))
}

fn read(from: impl Read, length: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    from.take(length as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| UNSOUND)?;
    Ok(bytes)
}

/// Snappy's raw format: the length, then literals and copies of what stands before.
fn snappy(packed: &[u8], length: usize) -> Result<Vec<u8>, Fault> {
    let head = packed
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .ok_or(UNSOUND)?;
    let mut rest = &packed[head + 1..];
    let mut bytes: Vec<u8> = Vec::new();
    while let Some((&tag, after)) = rest.split_first() {
        let (kind, high) = (tag & 3, usize::from(tag >> 2));
        let (size, extra) = match kind {
            0 if high < 60 => (high + 1, 0),
            0 => (0, high - 59),
            1 => ((high & 7) + 4, 1),
            2 => (high + 1, 2),
            _ => (high + 1, 4),
        };
        let (number, after) = after.split_at_checked(extra).ok_or(UNSOUND)?;
        let number = number
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | usize::from(*byte));
        rest = after;
        if kind == 0 {
            let size = if extra == 0 { size } else { number + 1 };
            let (literal, after) = rest.split_at_checked(size).ok_or(UNSOUND)?;
            bytes.extend_from_slice(literal);
            rest = after;
        } else {
            let back = if kind == 1 {
                (high >> 3) << 8 | number
            } else {
                number
            };
            let from = bytes
                .len()
                .checked_sub(back)
                .filter(|_| back > 0)
                .ok_or(UNSOUND)?;
            // A copy may overlap what it makes.
            (from..from + size).for_each(|index| bytes.push(bytes[index]));
        }
        if bytes.len() > length {
            return Err(UNSOUND);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn snappy_repeats_what_stands_before() {
        // 11 bytes: the literal "abc", 4 bytes from 3 back, 4 bytes from 2 back with two bytes of offset.
        let packed = [11, 2 << 2, b'a', b'b', b'c', 1, 3, 3 << 2 | 2, 2, 0];
        assert_eq!(snappy(&packed, 11).unwrap(), b"abcabcacaca");
        // A literal whose length stands in a byte of its own.
        let long = [&[61, 60 << 2, 60][..], &[b'x'; 61]].concat();
        assert_eq!(snappy(&long, 61).unwrap(), [b'x'; 61]);
        for bad in [
            &[2, 1, 0][..],
            &[2, 4 << 2, b'a'],
            &[0x80],
            &[9, 0, b'a', 1, 1, 1],
        ] {
            assert!(unpack(1, bad, 2).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_page_has_the_size_that_it_states() {
        let bomb = zstd::encode_all(&[0; 1 << 20][..], 3).unwrap();
        assert!(unpack(6, &bomb, 10).is_err());
        assert_eq!(unpack(6, &bomb, 1 << 20).unwrap().len(), 1 << 20);
        assert!(matches!(unpack(4, &[], 0), Err(Fault::Unsupported(_))));
    }
}
