//! Numbers with units, and the only place that formats them for a page.

use std::fmt;

use rooflens_schemas::Unit;
use rooflens_units::{Measure, Ns};
use serde::Serialize;

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
    pub const fn ns(time: Ns) -> Self {
        Self::new(time.time().0, Unit::Nanoseconds)
    }

    /// A share between 0 and 1.
    pub const fn ratio(value: f64) -> Self {
        Self::new(value, Unit::Ratio)
    }

    /// Symbol of the unit in which files hold the value: a ratio has none, although pages show percent.
    pub fn base(&self) -> &'static str {
        let mut scales = scales(self.unit).iter();
        let base = scales.find(|(factor, _)| *factor == 1.0);
        base.map_or("", |(_, symbol)| symbol)
    }

    /// The power in which pages show a value of this size: the number of base units in it, and its symbol.
    /// `(1e6, "ms")` for 222 824 165 ns.
    pub fn scale(&self) -> (f64, &'static str) {
        let scales = scales(self.unit);
        // 999.5 would round up to 1000: it belongs to the next power. Times of a thousand seconds are parts of an hour, so
        // that those on one page have one form.
        let least = match self.unit {
            Unit::Nanoseconds => LONG,
            _ => f64::INFINITY,
        };
        let fits = |(factor, _): &&(f64, &str)| self.value.abs() >= factor.min(least) * 0.9995;
        scales
            .iter()
            .find(fits)
            .or(scales.last())
            .copied()
            .unwrap_or((1.0, ""))
    }
}

impl<M: Measure> From<M> for Quantity {
    fn from(measure: M) -> Self {
        Self::new(measure.number(), M::UNIT)
    }
}

/// Nanoseconds from which on a time is shown in hours.
const LONG: f64 = 1e12;

/// Whether a word is the symbol that a number of some unit carries: `ms`, `%`, `TB/s`.
pub fn is_symbol(word: &str) -> bool {
    let symbols = |unit: &Unit| scales(*unit).iter().any(|(_, symbol)| *symbol == word);
    !word.is_empty() && UNITS.iter().any(symbols)
}

/// The units that have a symbol.
const UNITS: [Unit; 15] = [
    Unit::Ratio,
    Unit::Nanoseconds,
    Unit::Bytes,
    Unit::BytesPerSecond,
    Unit::Flop,
    Unit::FlopPerSecond,
    Unit::FlopPerByte,
    Unit::Watts,
    Unit::Joules,
    Unit::Hertz,
    Unit::Celsius,
    Unit::TokensPerSecond,
    Unit::ImagesPerSecond,
    Unit::SamplesPerSecond,
    Unit::RequestsPerSecond,
];

/// The value scaled to a readable power, with its unit: `223 ms`, `31.8 %`, `4.80 TB/s`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_finite() {
            return f.write_str("–");
        }
        let (factor, symbol) = self.scale();
        let value = self.value / factor;
        let number = match self.unit {
            Unit::Ratio | Unit::Percent => percent(value),
            Unit::Count => grouped(value, 0),
            unit if is_items_per_second(unit) && value.abs() >= 999.5 => grouped(rounded(value), 0),
            _ => significant(value, 3),
        };
        f.write_str(&number)?;
        if symbol.is_empty() {
            Ok(())
        } else {
            write!(f, " {symbol}")
        }
    }
}

/// Whether a rate counts items, which are grouped by thousands instead of scaled.
const fn is_items_per_second(unit: Unit) -> bool {
    matches!(
        unit,
        Unit::TokensPerSecond | Unit::ImagesPerSecond | Unit::SamplesPerSecond
    )
}

/// Powers of a unit, the largest first, and last the unit itself.
const fn scales(unit: Unit) -> &'static [(f64, &'static str)] {
    match unit {
        Unit::One | Unit::Count => &[(1.0, "")],
        Unit::Ratio => &[(0.01, "%")],
        Unit::Percent => &[(1.0, "%")],
        Unit::Nanoseconds => &[
            (3.6e12, "h"),
            (1e9, "s"),
            (1e6, "ms"),
            (1e3, "µs"),
            (1.0, "ns"),
        ],
        Unit::Bytes => &[
            (1e12, "TB"),
            (1e9, "GB"),
            (1e6, "MB"),
            (1e3, "kB"),
            (1.0, "B"),
        ],
        Unit::BytesPerSecond => &[
            (1e12, "TB/s"),
            (1e9, "GB/s"),
            (1e6, "MB/s"),
            (1e3, "kB/s"),
            (1.0, "B/s"),
        ],
        Unit::Flop => &[
            (1e15, "PFLOP"),
            (1e12, "TFLOP"),
            (1e9, "GFLOP"),
            (1e6, "MFLOP"),
            (1e3, "kFLOP"),
            (1.0, "FLOP"),
        ],
        Unit::FlopPerSecond => &[
            (1e15, "PFLOP/s"),
            (1e12, "TFLOP/s"),
            (1e9, "GFLOP/s"),
            (1e6, "MFLOP/s"),
            (1.0, "FLOP/s"),
        ],
        Unit::FlopPerByte => &[(1.0, "FLOP/B")],
        Unit::Watts => &[(1.0, "W")],
        Unit::Joules => &[(1e3, "kJ"), (1.0, "J")],
        Unit::Hertz => &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")],
        Unit::Celsius => &[(1.0, "°C")],
        Unit::TokensPerSecond => &[(1.0, "tokens/s")],
        Unit::ImagesPerSecond => &[(1.0, "images/s")],
        Unit::SamplesPerSecond => &[(1.0, "samples/s")],
        Unit::RequestsPerSecond => &[(1.0, "requests/s")],
    }
}

/// How a column of numbers is shown: one power and one number of decimals, so that rows compare at a glance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Base units in one shown unit.
    factor: f64,
    /// Symbol of the shown unit; empty for pure numbers.
    pub symbol: &'static str,
    decimals: usize,
    unit: Unit,
}

/// Numbers below this stand in a column without effort.
const READABLE: f64 = 9_999.5;

impl Scale {
    /// The scale that shows all of `values`; none if they span too many powers for one, so that each must
    /// carry its own unit.
    pub fn of(values: impl Iterator<Item = f64> + Clone, unit: Unit) -> Option<Self> {
        let sizes = values.filter(|v| v.is_finite() && *v != 0.0).map(f64::abs);
        let greatest = sizes.clone().max_by(f64::total_cmp)?;
        let least = sizes.min_by(f64::total_cmp)?;
        // The least decides while the greatest stays readable: 221.7 and 1139.2 ms, not 0.222 and 1.139 s.
        let (small, small_symbol) = Quantity::new(least, unit).scale();
        let (large, large_symbol) = Quantity::new(greatest, unit).scale();
        let of_least = greatest / small < READABLE;
        let (factor, symbol) = if of_least {
            (small, small_symbol)
        } else {
            (large, large_symbol)
        };
        let (most, fewest) = (digits(greatest / factor), digits(least / factor));
        let decimals = match unit {
            Unit::Count => 0,
            Unit::Ratio | Unit::Percent => 3 - most.clamp(1, 2),
            // Three digits of the least while the greatest has four at most; two of it if five are enough.
            _ if 2 - fewest <= 5 - most => (3 - fewest).min(4 - most).max(2 - fewest),
            // Times share one unit always: those too short for it are less than its last decimal.
            Unit::Nanoseconds => 4 - most,
            _ => return None,
        };
        let decimals = if unit == Unit::Nanoseconds {
            decimals.min(3)
        } else {
            decimals
        };
        let decimals = usize::try_from(decimals.max(0))
            .ok()
            .filter(|decimals| *decimals <= 3)?;
        Some(Self {
            factor,
            symbol,
            decimals,
            unit,
        })
    }

    /// The number in this scale, without its symbol.
    pub fn show(&self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        if value == 0.0 {
            return "0".to_owned();
        }
        if self.unit == Unit::Count {
            return grouped(value, 0);
        }
        if is_items_per_second(self.unit) && value.abs() >= 999.5 {
            return grouped(rounded(value), 0);
        }
        let (scaled, decimals) = (value / self.factor, self.decimals);
        let smallest = libm::pow(10.0, -(decimals as f64));
        if scaled.abs() < smallest / 2.0 {
            let sign = if value < 0.0 { "> −" } else { "< " };
            return format!("{sign}{smallest:.decimals$}");
        }
        grouped(scaled, decimals)
    }
}

/// Digits before the decimal point; 0 for 0.5, -1 for 0.05.
fn digits(value: f64) -> i64 {
    libm::floor(libm::log10(value.abs())) as i64 + 1
}

/// A percentage with three digits, and two decimals at most.
fn percent(value: f64) -> String {
    let decimals = match value.abs() {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The value to three digits, for whole numbers.
fn rounded(value: f64) -> f64 {
    let power = libm::pow(10.0, (digits(value) - 3).max(0) as f64);
    libm::round(value / power) * power
}

/// `count` significant digits without an exponent; whole numbers in full, and never a trailing point.
fn significant(value: f64, count: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Digits after rounding: 999.96 with four of them is 1000.
    let rounded = format!("{value:.*e}", count.saturating_sub(1));
    let rounded = rounded.parse().unwrap_or(value);
    let decimals = (count as i64 - digits(rounded)).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

/// A number with thin spaces between groups of three digits: `84 868`, `1 241.2`.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let whole = text.find('.').unwrap_or(text.len());
    let first = usize::from(text.starts_with('-'));
    let mut out = String::new();
    for (position, character) in text.char_indices() {
        if position > first && position < whole && (whole - position) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_to_readable_units() {
        // 2 773 s ÷ 3 600 = 0.770 h, next to 5 400 s = 1.50 h.
        let times =
            [999e9, 2773e9, 5400e9].map(|time| Quantity::new(time, Unit::Nanoseconds).to_string());
        assert_eq!(times, ["999 s", "0.770 h", "1.50 h"]);
        let shown = |value, unit| Quantity::new(value, unit).to_string();
        assert_eq!(shown(222_824_165.0, Unit::Nanoseconds), "223 ms");
        assert_eq!(shown(999_500.0, Unit::Nanoseconds), "1.00 ms");
        assert_eq!(shown(999_499.0, Unit::Nanoseconds), "999 µs");
        assert_eq!(shown(12.0, Unit::Nanoseconds), "12.0 ns");
        assert_eq!(shown(0.9996, Unit::Ratio), "100 %");
        assert_eq!(
            shown(36_951.0, Unit::TokensPerSecond),
            "37\u{202f}000 tokens/s"
        );
        assert_eq!(shown(0.26351, Unit::Ratio), "26.4 %");
        assert_eq!(shown(0.0899, Unit::Ratio), "8.99 %");
        assert_eq!(shown(4.8e12, Unit::BytesPerSecond), "4.80 TB/s");
        assert_eq!(shown(84_868.0, Unit::Count), "84\u{202f}868");
        assert_eq!(shown(0.0, Unit::Bytes), "0 B");
        assert_eq!(shown(f64::NAN, Unit::Bytes), "–");
    }
    #[test]
    fn a_column_has_one_scale() {
        let scale = |values: &[f64], unit| Scale::of(values.iter().copied(), unit);
        let time = scale(&[222_824_165.0, 1_500_000.0, 0.0], Unit::Nanoseconds).expect("one power");
        assert_eq!(time.symbol, "ms");
        assert_eq!(
            [time.show(222_824_165.0), time.show(1_500_000.0)],
            ["222.8", "1.5"]
        );
        let share = scale(&[0.4217, 0.0002], Unit::Ratio).expect("one power");
        assert_eq!([share.show(0.4217), share.show(0.0002)], ["42.2", "< 0.1"]);
        assert_eq!(share.show(0.0), "0");
        // 221.7 and 1139.2 ms, where seconds would leave three digits of the first.
        let time = scale(&[221_700_000.0, 1_139_200_000.0], Unit::Nanoseconds).expect("one power");
        assert_eq!(time.symbol, "ms");
        assert_eq!(
            [time.show(221_700_000.0), time.show(1_139_200_000.0)],
            ["222", "1\u{202f}139"]
        );
        // 3.6 s and 2 µs: times keep one unit, sizes do not.
        let time = scale(&[3.6e9, 2e3], Unit::Nanoseconds).expect("one power");
        assert_eq!([time.show(3.6e9), time.show(2e3)], ["3.600", "< 0.001"]);
        assert_eq!(scale(&[3.6e9, 2.0], Unit::Bytes), None);
        assert_eq!(scale(&[], Unit::Bytes), None);
    }
}
