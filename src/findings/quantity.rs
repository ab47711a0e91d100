//! Numbers with units, and the only place that formats them for a page.

use std::fmt;

use rooflens_schemas::Unit;

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The number, in base units.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

impl Quantity {
    /// A number with a unit.
    pub const fn new(value: f64, unit: Unit) -> Self {
        Self { value, unit }
    }

    /// A count of things.
    pub const fn count(value: u64) -> Self {
        Self::new(value as f64, Unit::Count)
    }

    /// A time in nanoseconds.
    pub const fn ns(value: i64) -> Self {
        Self::new(value as f64, Unit::Nanoseconds)
    }

    /// A share between 0 and 1.
    pub const fn ratio(value: f64) -> Self {
        Self::new(value, Unit::Ratio)
    }
}

/// The value scaled to a readable power, with its unit: `222.8 ms`, `31.8 %`, `4.80 TB/s`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_finite() {
            return f.write_str("–");
        }
        match self.unit {
            Unit::One => f.write_str(&significant(self.value, 3)),
            Unit::Ratio => write!(f, "{} %", percent(self.value * 100.0)),
            Unit::Percent => write!(f, "{} %", percent(self.value)),
            Unit::Count => f.write_str(&grouped(self.value)),
            Unit::Nanoseconds => {
                scaled(f, self.value, "ns", &[(1e9, "s"), (1e6, "ms"), (1e3, "µs")])
            }
            Unit::Bytes => {
                scaled(f, self.value, "B", &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")])
            }
            Unit::BytesPerSecond => scaled(
                f,
                self.value,
                "B/s",
                &[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")],
            ),
            Unit::Flop => scaled(
                f,
                self.value,
                "FLOP",
                &[(1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")],
            ),
            Unit::FlopPerSecond => scaled(
                f,
                self.value,
                "FLOP/s",
                &[(1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")],
            ),
            Unit::FlopPerByte => write!(f, "{} FLOP/B", significant(self.value, 3)),
            Unit::Watts => write!(f, "{} W", significant(self.value, 3)),
            Unit::Joules => scaled(f, self.value, "J", &[(1e3, "kJ")]),
            Unit::Hertz => scaled(f, self.value, "Hz", &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")]),
            Unit::Celsius => write!(f, "{} °C", significant(self.value, 3)),
            Unit::TokensPerSecond => write!(f, "{} tokens/s", significant(self.value, 4)),
        }
    }
}

/// Scales by the first factor that leaves at least 1; otherwise prints in the base unit.
fn scaled(
    f: &mut fmt::Formatter<'_>,
    value: f64,
    base: &str,
    scales: &[(f64, &str)],
) -> fmt::Result {
    for (factor, unit) in scales {
        // 999.95 would round up to 1000: it belongs to the next unit.
        if value.abs() >= factor * 0.9995 {
            return write!(f, "{} {unit}", significant(value / factor, 4));
        }
    }
    write!(f, "{} {base}", significant(value, 4))
}

/// A percentage with one decimal, or two below 10.
fn percent(value: f64) -> String {
    let decimals = if value.abs() < 9.995 { 2 } else { 1 };
    format!("{value:.decimals$}")
}

/// `digits` significant digits without an exponent; whole numbers in full, and never a trailing point.
fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The exponent after rounding: 999.96 with four digits is 1.000e3.
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent = rounded.rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i64>().ok());
    let decimals = (digits as i64 - 1 - exponent.unwrap_or(0)).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

/// A whole number with thin spaces between groups of three: `84 868`.
fn grouped(value: f64) -> String {
    let text = format!("{value:.0}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_to_readable_units() {
        let shown = |value, unit| Quantity::new(value, unit).to_string();
        assert_eq!(shown(222_824_165.0, Unit::Nanoseconds), "222.8 ms");
        assert_eq!(shown(999_960.0, Unit::Nanoseconds), "1.000 ms");
        assert_eq!(shown(12.0, Unit::Nanoseconds), "12.00 ns");
        assert_eq!(shown(0.26351, Unit::Ratio), "26.4 %");
        assert_eq!(shown(0.0899, Unit::Ratio), "8.99 %");
        assert_eq!(shown(4.8e12, Unit::BytesPerSecond), "4.800 TB/s");
        assert_eq!(shown(84_868.0, Unit::Count), "84\u{202f}868");
        assert_eq!(shown(0.0, Unit::Bytes), "0 B");
        assert_eq!(shown(f64::NAN, Unit::Bytes), "–");
    }
}
