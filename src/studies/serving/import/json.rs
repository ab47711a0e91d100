//! JSON as load generators write it.

use rooflens_schemas::python;
use serde_json::Value;

use crate::stats::Spread;
use rooflens_units::{Count, RequestsPerSecond, Time, TokensPerSecond};

/// The values of a text: one, or one a line. Lines that are none are counted. None if there is no value at all.
pub(super) fn values(text: &str) -> Option<(Vec<Value>, u64)> {
    if let Ok(value) = python::json(text) {
        return Some((vec![value], 0));
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut values, mut lost) = (Vec::new(), 0);
    for line in lines {
        match python::json(line) {
            Ok(value) => values.push(value),
            Err(_) => lost += 1,
        }
    }
    (!values.is_empty() && values.len() as u64 > lost).then_some((values, lost))
}

/// The beginning of a text that goes on: up to its last whole value, with what is open closed. Of lines, the whole ones.
pub(super) fn closed(text: &str) -> String {
    if !text.trim_start().starts_with(['{', '[']) {
        let end = text.rfind('\n').map_or(0, |newline| newline + 1);
        return text[..end].to_owned();
    }
    let (whole, _) = brackets(text);
    let (_, open) = brackets(&text[..whole]);
    let closing: String = open.into_iter().rev().collect();
    text[..whole].to_owned() + &closing
}

/// Where the last whole value of a JSON text ends, and what closes the brackets that are open at the text's end.
fn brackets(text: &str) -> (usize, Vec<char>) {
    let (mut open, mut whole) = (Vec::new(), 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b',' => whole = at,
            b'{' | b'[' => {
                // In ASCII what closes a bracket is the second sign after it.
                open.push(char::from(byte + 2));
                whole = at + 1;
            }
            b'}' | b']' => {
                open.pop();
                whole = at + 1;
            }
            _ => {}
        }
    }
    (whole, open)
}

/// A number of an object.
pub(super) fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key).and_then(as_number)
}

/// A count of an object.
pub(super) fn count(value: &Value, key: &str) -> Option<Count> {
    number(value, key).map(Count)
}

/// A rate of requests of an object.
pub(super) fn requests_per_second(value: &Value, key: &str) -> Option<RequestsPerSecond> {
    number(value, key).map(RequestsPerSecond)
}

/// A rate of tokens of an object.
pub(super) fn tokens_per_second(value: &Value, key: &str) -> Option<TokensPerSecond> {
    number(value, key).map(TokensPerSecond)
}

/// A time of an object in its unit.
pub(super) fn time(value: &Value, key: &str, unit: Time) -> Option<Time> {
    Some(number(value, key)? * unit)
}

/// A number, also one that is written as text.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number| number.is_finite())
}

/// A text of an object; empty ones are none.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Numbers of a list; what is none is excluded.
pub(super) fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(as_number)
        .collect()
}

/// A second.
pub(super) const S: Time = Time(1e9);
/// A millisecond.
pub(super) const MS: Time = Time(1e6);

/// A unit of time as files name it; none of other units.
pub fn unit_of_time(unit: &str) -> Option<Time> {
    Some(match unit.trim().to_ascii_lowercase().as_str() {
        "ns" | "nanosecond" | "nanoseconds" => Time(1.0),
        "us" | "µs" | "μs" | "usec" | "microsecond" | "microseconds" => Time(1e3),
        "ms" | "msec" | "millisecond" | "milliseconds" => MS,
        "s" | "sec" | "secs" | "second" | "seconds" => S,
        _ => return None,
    })
}

/// The figures of an object under the names that its tool uses: mean, standard deviation, least, greatest, and a name
/// for each percentile. The numbers are in `unit`.
pub(super) fn spread(value: &Value, unit: Time, names: &Names<'_>) -> Spread {
    let figures = names.figures.map(|name| number(value, name));
    let percentiles = names.percentiles.map(|name| number(value, name));
    Spread {
        count: count(value, "count"),
        ..Spread::in_unit(unit, figures, percentiles)
    }
}

/// Names of figures.
pub(super) struct Names<'a> {
    pub(super) figures: [&'a str; 4],
    pub(super) percentiles: [&'a str; 4],
}

/// `avg`, `std`, `p50` and so on.
pub(super) const AVG: Names<'static> = Names {
    figures: ["avg", "std", "min", "max"],
    percentiles: ["p50", "p90", "p95", "p99"],
};

/// `mean`, `stddev`, `p50` and so on.
pub(super) const MEAN: Names<'static> = Names {
    figures: ["mean", "stddev", "min", "max"],
    percentiles: ["p50", "p90", "p95", "p99"],
};

#[cfg(test)]
mod tests {
    use super::closed;

    #[test]
    fn a_beginning_ends_after_its_last_whole_value() {
        for (beginning, expected) in [
            (
                r#"{"a": 1, "b": {"c": [1, 2"#,
                r#"{"a": 1, "b": {"c": [1]}}"#,
            ),
            (r#"{"a": "x,[", "b": "cut, "#, r#"{"a": "x,["}"#),
            ("[[1],[2],", "[[1],[2]]"),
            (r#"{"a": "\\\", [", "b"#, r#"{"a": "\\\", ["}"#),
            ("{\"a\":1}\n{\"b\":", "{\"a\":1}\n{}"),
            // Whole lines keep their ends: a line without one was cut.
            ("a,b\n1,2\n3,", "a,b\n1,2\n"),
            ("[", "[]"),
        ] {
            assert_eq!(closed(beginning), expected);
        }
    }
}
