//! ncu's units, scaled for reading, back to base units. Prefixes are decimal: 1 Kbyte is 1000 bytes.

/// A base unit and how many of it the printed one is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Base {
    /// Unit after conversion, such as `s`, `byte/s`, `Hz`, `%`.
    pub(super) unit: String,
    /// Printed value × 10^exponent = value in `unit`.
    pub(super) exponent: i32,
}

/// Prefixes and their powers of ten.
const PREFIXES: &[(&str, i32)] = &[
    ("p", -12),
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("K", 3),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
];

/// Units that ncu scales, and our name for each. `hz` is written `Ghz`, `second` became `s` in 2025.
const SCALED: &[(&str, &str)] = &[
    ("byte", "byte"),
    ("second", "s"),
    ("s", "s"),
    ("hz", "Hz"),
    ("Hz", "Hz"),
    ("bit", "bit"),
];

/// The base unit of a printed one. Units that ncu does not scale stay as they are.
pub(super) fn base(printed: &str) -> Base {
    let (numerator, denominator) = printed.split_once('/').unwrap_or((printed, ""));
    let (top, top_exponent) = part(numerator);
    if denominator.is_empty() {
        return Base {
            unit: top.to_owned(),
            exponent: top_exponent,
        };
    }
    let (bottom, bottom_exponent) = part(denominator);
    let unit = match (top, bottom) {
        ("cycle", "s") => "Hz".to_owned(),
        _ => format!("{top}/{bottom}"),
    };
    Base {
        unit,
        exponent: top_exponent - bottom_exponent,
    }
}

/// Base unit of a metric that was printed without one: ncu does so where it does not know the chip,
/// and then prints base units, nanoseconds for times.
pub(super) fn implied(metric: &str) -> &'static str {
    if metric.starts_with("gpu__time_") || metric == "Duration" {
        "ns"
    } else if metric.contains("pct_of_peak") {
        "%"
    } else if metric.starts_with("dram__bytes") && metric.ends_with(".sum") {
        "byte"
    } else if metric.starts_with("dram__bytes") && metric.ends_with(".sum.per_second") {
        "byte/s"
    } else {
        ""
    }
}

fn part(printed: &str) -> (&str, i32) {
    for (name, base) in SCALED {
        let Some(prefix) = printed.strip_suffix(name) else {
            continue;
        };
        if let Some((_, exponent)) = PREFIXES.iter().find(|(known, _)| known == &prefix) {
            return (base, *exponent);
        }
    }
    (printed, 0)
}

/// `value` × 10^`exponent`. Powers of ten up to 22 are exact, so that only one step rounds.
pub(super) fn scale(value: f64, exponent: i32) -> f64 {
    let power = libm::pow(10.0, f64::from(exponent.abs()));
    if exponent < 0 {
        value / power
    } else {
        value * power
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_all_versions_lead_to_the_same_base() {
        for (printed, unit, exponent) in [
            ("nsecond", "s", -9),
            ("ns", "s", -9),
            ("usecond", "s", -6),
            ("us", "s", -6),
            ("msecond", "s", -3),
            ("ms", "s", -3),
            ("second", "s", 0),
            ("s", "s", 0),
            ("cycle/nsecond", "Hz", 9),
            ("cycle/usecond", "Hz", 6),
            ("cycle/second", "Hz", 0),
            ("Ghz", "Hz", 9),
            ("Mhz", "Hz", 6),
            ("hz", "Hz", 0),
            ("Kbyte", "byte", 3),
            ("Tbyte/s", "byte/s", 12),
            ("Gbyte/second", "byte/s", 9),
            ("Kbyte/block", "byte/block", 3),
            ("Kbyte/cycle", "byte/cycle", 3),
            ("sector/ns", "sector/s", 9),
            ("%/Kbyte", "%/byte", -3),
        ] {
            assert_eq!(
                base(printed),
                Base {
                    unit: unit.to_owned(),
                    exponent
                },
                "{printed}"
            );
        }
    }

    #[test]
    fn units_that_only_look_scaled_stay() {
        for unit in [
            "",
            "%",
            "inst",
            "pass",
            "sectors",
            "branches",
            "register/thread",
            "inst/cycle",
        ] {
            assert_eq!(
                base(unit),
                Base {
                    unit: unit.to_owned(),
                    exponent: 0
                }
            );
        }
    }

    #[test]
    fn scaling_is_by_powers_of_ten() {
        assert_eq!(scale(33.635584, 6), 33_635_584.0);
        assert_eq!(scale(1.5, -3), 0.0015);
        assert!((scale(7.392, -6) / 7.392e-6 - 1.0).abs() < 1e-15);
    }
}
