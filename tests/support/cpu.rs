//! CPU time of a process, which a loaded machine does not lengthen.

use std::fs;
use std::time::Duration;

/// Hundredths of a second are the ticks of Linux.
const TICKS: f64 = 100.0;

/// CPU time of a process of `/proc` (`self` or its id) with its threads; zero where the system has no such file.
pub(crate) fn time(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Fields 14 and 15; the second one is the name, in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|field| field.parse::<f64>().ok());
    Duration::from_secs_f64(ticks.sum::<f64>() / TICKS)
}
