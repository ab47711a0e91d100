//! Values of arguments; errors say what to write.

use std::time::Duration;

use super::TimeLimit;

/// `KEY=VALUE`.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// A name of a folder that is a pass.
pub(crate) fn parse_pass(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let known = matches!(text, "logs" | "snapshot");
    match text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain) && !known
    {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, -, _ and ., and not logs or snapshot".to_owned()),
    }
}

/// A time, or `none`.
pub(crate) fn parse_limit(text: &str) -> Result<TimeLimit, String> {
    match text {
        "none" => Ok(TimeLimit::None),
        _ => parse_time(text).map(TimeLimit::Total),
    }
}

/// A number of seconds, or one with `s`, `m` or `h`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    };
    let time = number
        .parse()
        .ok()
        .filter(|count| (1..=1_000_000).contains(count));
    let time = time.map(|count: u64| Duration::from_secs(count * seconds));
    time.ok_or_else(|| "expected a time such as 90s, 10m or 1h, or none".to_owned())
}

/// `SKIP:COUNT`.
pub(super) fn parse_window(text: &str) -> Result<(u64, u64), String> {
    let window = text.split_once(':').and_then(|(skip, count)| {
        Some((
            skip.parse().ok()?,
            count.parse().ok().filter(|count| *count > 0)?,
        ))
    });
    window.ok_or_else(|| "expected SKIP:COUNT, such as 2:3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_pass_names_are_checked() {
        assert_eq!(parse_window("2:3"), Ok((2, 3)));
        assert!(
            ["", "2", "2:0", "a:1"]
                .iter()
                .all(|text| parse_window(text).is_err())
        );
        assert_eq!(parse_time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_limit("none"), Ok(TimeLimit::None));
        let hour = TimeLimit::Total(Duration::from_secs(3600));
        assert_eq!(parse_limit("1h"), Ok(hour));
        assert!(
            ["", "m", "-1", "0s", "1d", "1.5h"]
                .iter()
                .all(|text| parse_time(text).is_err())
        );
        assert!(parse_pass("nsys-decode.1").is_ok());
        assert!(
            ["", ".x", "a/b", "logs", "-a"]
                .iter()
                .all(|text| parse_pass(text).is_err())
        );
    }
}
