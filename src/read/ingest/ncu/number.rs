//! Numbers as ncu prints them: plain, or grouped and pointed by the host's locale.

/// The decimal sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decimal {
    /// `13,485.25`.
    Point,
    /// `13.485,25`.
    Comma,
}

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Nothing.
    Empty,
    /// A finite number.
    Number(f64),
    /// Words, `n/a` and `nan` included.
    Text(&'a str),
}

impl Decimal {
    /// The sign that a page uses. A comma is the decimal sign only if some number can be read in no
    /// other way (`3,17`) and none contradicts it (`13,485.25`, `1,275,068,416`).
    ///
    /// ncu prints fractions with two or six digits, so that `13,485` groups thousands.
    pub(super) fn of(page: &str) -> Self {
        let mut comma = false;
        // Only signs between digits tell.
        let signed = |cell: &&str| cell.len() > 1 && cell.contains(['.', ',']);
        for cell in page.split('"').filter(signed) {
            match (parse(cell, Self::Point), parse(cell, Self::Comma)) {
                // Compute capabilities have one digit and a point in every locale.
                (Some(_), None) if !has_one_digit_fraction(cell) => return Self::Point,
                (None, Some(_)) => comma = true,
                _ => {}
            }
        }
        if comma { Self::Comma } else { Self::Point }
    }
}

/// Reads a cell.
pub(super) fn value(cell: &str, decimal: Decimal) -> Value<'_> {
    let cell = cell.trim();
    if cell.is_empty() {
        return Value::Empty;
    }
    parse(cell, decimal).map_or(Value::Text(cell), Value::Number)
}

/// The finite number in `cell`, if it is one in this notation.
fn parse(cell: &str, decimal: Decimal) -> Option<f64> {
    let (point, group) = match decimal {
        Decimal::Point => ('.', ','),
        Decimal::Comma => (',', '.'),
    };
    let digits = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == point) {
        return None;
    }
    if point == '.' && !digits.contains(is_group(group)) {
        return cell.parse().ok().filter(|number: &f64| number.is_finite());
    }
    let (whole, fraction) = match digits.split_once(point) {
        Some((whole, fraction)) => (ungroup(whole, group)?, fraction),
        None => (ungroup(digits, group)?, "0"),
    };
    let sign = if cell.starts_with('-') { "-" } else { "" };
    let plain = match whole.contains(['e', 'E']) {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{fraction}"),
    };
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

fn has_one_digit_fraction(cell: &str) -> bool {
    cell.split_once('.')
        .is_some_and(|(_, fraction)| fraction.len() == 1)
}

/// Signs that group digits; in some locales spaces do.
fn is_group(group: char) -> impl Fn(char) -> bool {
    const SPACES: [char; 3] = ['\u{a0}', '\u{202f}', ' '];
    move |c| c == group || SPACES.contains(&c)
}

/// Removes group signs, if the groups are of three digits.
fn ungroup(whole: &str, group: char) -> Option<String> {
    let is_group = is_group(group);
    if !whole.contains(&is_group) {
        return Some(whole.to_owned());
    }
    let mut parts = whole.split(&is_group);
    let first = parts.next().unwrap_or_default();
    let grouped = (1..=3).contains(&first.len()) && parts.all(|part| part.len() == 3);
    let plain: String = whole.chars().filter(|c| !is_group(*c)).collect();
    (grouped && plain.bytes().all(|b| b.is_ascii_digit())).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_by_three_or_it_is_no_number() {
        let point = |cell| value(cell, Decimal::Point);
        assert_eq!(point("13,485"), Value::Number(13_485.0));
        assert_eq!(point("9,495.42"), Value::Number(9_495.42));
        assert_eq!(point("1,275,068,416"), Value::Number(1_275_068_416.0));
        assert_eq!(point("-0.5"), Value::Number(-0.5));
        assert_eq!(point("1e+06"), Value::Number(1e6));
        assert_eq!(point("2.5e3"), Value::Number(2500.0));
        assert_eq!(point("3,17"), Value::Text("3,17"));
        assert_eq!(point("1,2345"), Value::Text("1,2345"));
        assert_eq!(point(""), Value::Empty);
    }

    #[test]
    fn what_is_no_number_stays_text() {
        for text in [
            "n/a",
            "nan",
            "-nan",
            "inf",
            "no data",
            "No-CC",
            "(32, 1, 1)",
            "NVIDIA H200",
            "9.0.1",
        ] {
            assert_eq!(value(text, Decimal::Point), Value::Text(text));
        }
        // Beyond the range of doubles.
        assert_eq!(value("1e999", Decimal::Point), Value::Text("1e999"));
    }

    #[test]
    fn a_comma_is_decimal_only_where_nothing_contradicts() {
        assert_eq!(Decimal::of("\"us\",\"3,17\""), Decimal::Comma);
        assert_eq!(value("13.485,25", Decimal::Comma), Value::Number(13_485.25));
        assert_eq!(value("7,392000", Decimal::Comma), Value::Number(7.392));
        // `13,485` alone is a grouped number.
        assert_eq!(Decimal::of("\"us\",\"13,485\""), Decimal::Point);
        assert_eq!(Decimal::of("\"3,17\",\"13,485.25\""), Decimal::Point);
        assert_eq!(Decimal::of("\"0,1\",\"3.17\""), Decimal::Point);
        // The compute capability has a point in every locale.
        assert_eq!(Decimal::of("\"9.0\",\"us\",\"3,17\""), Decimal::Comma);
        assert_eq!(Decimal::of("\"3,17\",\"1,275,068,416\""), Decimal::Point);
    }
}
