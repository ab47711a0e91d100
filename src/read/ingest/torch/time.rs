//! Microseconds as decimal text into integer nanoseconds, without floating point.

use rooflens_session::{MAX_TIME, Ns};

/// The largest power of ten that a time may be multiplied with.
const MAX_ZEROS: u32 = 18;

/// The nanoseconds of a JSON number that counts microseconds: `4366746849752.164`, `1606000000000000`,
/// `1.5e3`. Parts of a nanosecond round half away from zero. `None` if it is no number or no time
/// of a capture.
pub(super) fn nanoseconds(text: &str) -> Option<Ns> {
    let (whole, rest) = run_of_digits(text.strip_prefix('-').unwrap_or(text).as_bytes());
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => run_of_digits(rest),
        _ => rest.split_at(0),
    };
    let value = match rest {
        _ if whole.is_empty() => None,
        [] => plain(whole, fraction),
        [b'e' | b'E', exponent @ ..] => {
            let exponent: i32 = str::from_utf8(exponent).ok()?.parse().ok()?;
            scaled(whole, fraction, exponent.checked_add(3)?)
        }
        _ => None,
    };
    let time = Ns(i64::try_from(value?).ok()?);
    if time > MAX_TIME {
        return None;
    }
    Some(if text.starts_with('-') { -time } else { time })
}

/// The digits at the front, and what follows.
fn run_of_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit());
    bytes.split_at(end.unwrap_or(bytes.len()))
}

/// `whole.fraction` × 1000.
fn plain(whole: &[u8], fraction: &[u8]) -> Option<u64> {
    let (thousandths, rest) = fraction.split_at(fraction.len().min(3));
    let mut value = number(number(0, whole)?, thousandths)?;
    for _ in thousandths.len()..3 {
        value = value.checked_mul(10)?;
    }
    value.checked_add(u64::from(rest.first().is_some_and(|digit| *digit >= b'5')))
}

/// `whole.fraction` × 10^`power`, for the rare numbers with an exponent.
fn scaled(whole: &[u8], fraction: &[u8], power: i32) -> Option<u64> {
    let digits = [whole, fraction].concat();
    let point = i32::try_from(whole.len()).ok()?.checked_add(power)?;
    let kept = usize::try_from(point).unwrap_or(0).min(digits.len());
    let mut value = number(0, &digits[..kept])?;
    let zeros = usize::try_from(point).unwrap_or(0) - kept;
    if value != 0 {
        let zeros = u32::try_from(zeros)
            .ok()
            .filter(|zeros| *zeros <= MAX_ZEROS)?;
        value = value.checked_mul(10_u64.pow(zeros))?;
    }
    let half = point >= 0 && digits.get(kept).is_some_and(|digit| *digit >= b'5');
    value.checked_add(u64::from(half))
}

/// The number that `digits` continue.
fn number(start: u64, digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(start, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;
    use rooflens_session::Ns;

    #[test]
    fn microseconds_become_exact_nanoseconds() {
        for (text, expected) in [
            ("0", 0),
            ("7", 7_000),
            ("1606000000000001", 1_606_000_000_000_001_000),
            ("4366746849752.164", 4_366_746_849_752_164),
            ("162.230", 162_230),
            ("162.23", 162_230),
            ("0.5", 500),
            ("-1.25", -1_250),
            // The precision that absolute floating-point stamps of early 2024 have.
            ("1712195495406753.0", 1_712_195_495_406_753_000),
            ("1712195495406753.25", 1_712_195_495_406_753_250),
            // More digits than a nanosecond has: half away from zero.
            ("1.0004", 1_000),
            ("1.0005", 1_001),
            ("1.0004999", 1_000),
            ("-1.0005", -1_001),
            ("0.9999999", 1_000),
        ] {
            assert_eq!(nanoseconds(text), Some(Ns(expected)), "{text}");
        }
    }

    #[test]
    fn exponents_move_the_point() {
        for (text, expected) in [
            ("1.5e3", 1_500_000),
            ("1.712195495406753e15", 1_712_195_495_406_753_000),
            ("1.7121954954067532e+15", 1_712_195_495_406_753_200),
            ("5E-4", 1),
            ("4e-4", 0),
            ("9e-300", 0),
            ("0e300", 0),
            ("12345e-4", 1_235),
        ] {
            assert_eq!(nanoseconds(text), Some(Ns(expected)), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_no_time() {
        for text in [
            "1e300",
            "9223372036854775.808",
            "99999999999999999999",
            "",
            "null",
            "1.x",
            "é",
        ] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
