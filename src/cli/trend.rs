//! `rooflens lake trend`: when a metric of a lake changed.

use super::error::CliError;
use super::query::{Asked, whole};
use super::term::Term;
use crate::compare::experiments::change_points;
use crate::query::{Answer, Value};
use rooflens_stats::median;
use rooflens_units::Ratio;

/// Columns that are the same in all values of a series. Those before `unit` may be missing.
const SERIES: &str = "model, gpu, gpus, workload, stage, pass, device, rank, class, unit";

/// Number of the columns of a series.
const WIDTH: usize = 10;

/// Days of a series beyond which a month is one value: each place of a series is compared with all others.
const DAYS: usize = 366;

/// Digits of `2026-11-21` and of `2026-11`.
const DAY: usize = 10;
const MONTH: usize = 7;

/// Rows of a query about a metric: series, day, captures, and the median of their values. Captures of a day are often of
/// one machine and one state, so that they are one value.
fn of_period(metric: &str, digits: usize) -> String {
    let metric = metric.replace('\'', "''");
    format!(
        "select {SERIES}, substr(time, 1, {digits}) as period, count(distinct capture) as captures, median(value) as middle \
         from metrics where metric = '{metric}' and time is not null group by {SERIES}, period order by {SERIES}, period"
    )
}

/// SQL that names the tables and columns of a trend.
pub(super) fn sql(metric: &str) -> String {
    of_period(metric, DAY)
}

/// Prints one row for each part of a series between changes of at least so many percent.
pub(super) fn run(
    asked: &Asked<'_>,
    metric: &str,
    least: f64,
    term: &mut Term,
) -> Result<(), CliError> {
    if !(least > 0.0 && least.is_finite()) {
        let message = format!("--least {least}: expected a percentage above 0");
        return Err(CliError::Usage(message));
    }
    let mut rows = rows(asked, &of_period(metric, DAY))?;
    let is_long = |series: &[Row]| series.len() > DAYS;
    if series(&rows).any(is_long) {
        rows = self::rows(asked, &of_period(metric, MONTH))?;
    }
    if rows.is_empty() {
        return Err(unknown(asked, metric)?);
    }
    let parts = series(&rows).flat_map(|series| parts(series, Ratio(least / 100.0)));
    let mut columns: Vec<&str> = SERIES.split(", ").collect();
    columns.extend([
        "from", "to", "values", "captures", "median", "times", "low", "high", "p",
    ]);
    asked.print(&[whole(&columns, parts.collect())], term)
}

type Row = Vec<Option<Value>>;

fn rows(asked: &Asked<'_>, sql: &str) -> Result<Vec<Row>, CliError> {
    let answers = asked.ask(sql, usize::MAX)?;
    let answer: Answer = answers.into_iter().next().unwrap_or_default();
    Ok(answer.rows)
}

/// The rows of each series.
fn series(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|one, next| one[..WIDTH] == next[..WIDTH])
}

/// A metric without values, with those that have some.
fn unknown(asked: &Asked<'_>, metric: &str) -> Result<CliError, CliError> {
    let known = rows(asked, "select distinct metric from metrics order by metric")?;
    let names: Vec<String> = known
        .iter()
        .flatten()
        .flatten()
        .map(Value::to_string)
        .collect();
    let names = names.join(", ");
    let message = format!("no capture with a time has the metric `{metric}`; metrics: {names}");
    Ok(CliError::Query(message))
}

/// The parts of a series between changes: when, how much, and how the median differs from that of the part before.
fn parts(series: &[Row], least: Ratio) -> Vec<Row> {
    let number = |row: &Row, column: usize| row[column].as_ref().and_then(Value::as_float);
    let values: Vec<f64> = series
        .iter()
        .filter_map(|row| number(row, WIDTH + 2))
        .collect();
    let changes = change_points(&values, least);
    let ends = changes.iter().map(|change| change.at).chain([series.len()]);
    let mut start = 0;
    let mut parts = Vec::new();
    for (part, end) in ends.enumerate() {
        let captures = series[start..end]
            .iter()
            .filter_map(|row| number(row, WIDTH + 1));
        let mut row = series[start][..WIDTH].to_vec();
        row.extend([
            series[start][WIDTH].clone(),
            series[end - 1][WIDTH].clone(),
            Some(Value::Int((end - start) as i64)),
            Some(Value::Int(captures.sum::<f64>() as i64)),
            median(&values[start..end]).map(Value::Float),
        ]);
        let change = part.checked_sub(1).map(|before| changes[before]);
        let (times, p) = (
            change.map(|change| change.ratio.0),
            change.map(|change| change.p),
        );
        let interval = change.map(|change| change.interval);
        let low = interval.map(|(low, _)| low.0);
        let high = interval.map(|(_, high)| high.0);
        row.extend([times, low, high, p].map(|number| number.map(Value::Float)));
        parts.push(row);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Row, Value, WIDTH, parts};
    use rooflens_units::Ratio;

    fn series(values: &[f64]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (day, value) in values.iter().enumerate() {
            let mut row = vec![None; WIDTH];
            row.push(Some(Value::Text(format!("2026-01-{:02}", day + 1))));
            row.extend([Some(Value::Int(2)), Some(Value::Float(*value))]);
            rows.push(row);
        }
        rows
    }

    #[test]
    fn a_step_divides_a_series_and_noise_does_not() {
        let noise = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99, 1.02, 1.0];
        assert_eq!(parts(&series(&noise), Ratio(0.05)).len(), 1);
        let slower = noise.map(|value| value * 1.5);
        let parts = parts(&series(&[noise, slower].concat()), Ratio(0.05));
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts[0][WIDTH..WIDTH + 2],
            [text("2026-01-01"), text("2026-01-10")]
        );
        assert_eq!(parts[1][WIDTH], text("2026-01-11"));
        assert_eq!(
            parts[1][WIDTH + 2..WIDTH + 4],
            [Some(Value::Int(10)), Some(Value::Int(20))]
        );
        let times = parts[1][WIDTH + 5].as_ref().and_then(Value::as_float);
        assert!((times.expect("a ratio") - 1.5).abs() < 1e-9, "{times:?}");
    }
}
