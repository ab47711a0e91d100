//! Statistics of repeated measurements.

use rooflens_stats::Statistics;
use rooflens_units::{Ratio, Seconds};
use serde_json::{Value, json};

/// The statistics of times; none of an empty sample.
pub(crate) fn statistics(mut times: Vec<Seconds>) -> Option<Statistics<Seconds>> {
    times.sort_by(Seconds::total_cmp);
    Statistics::of(&times)
}

/// (max − min) / median.
pub(crate) fn spread(times: &Statistics<Seconds>) -> Ratio {
    Ratio((times.max - times.min) / times.median)
}

/// The members `median_s`, `min_s`, `max_s`, `n`, `mean_s`, `std_s`, `p95_s` and `spread`. A single time has no
/// deviation and is its own percentile.
pub(super) fn to_json(times: &Statistics<Seconds>) -> Value {
    let (std, p95) = (times.std.unwrap_or_default(), times.p95);
    json!({
        "median_s": times.median, "min_s": times.min, "max_s": times.max, "n": times.n,
        "mean_s": times.mean, "std_s": std, "p95_s": p95.unwrap_or(times.max),
        "spread": spread(times),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(times: &[f64], name: &str) -> f64 {
        let times = times.iter().copied().map(Seconds).collect();
        let times = statistics(times).expect("not empty");
        to_json(&times)[name].as_f64().expect("a number")
    }

    #[test]
    fn statistics_of_five_times() {
        // Sorted 1 2 3 4 10: mean 20/5, squares 9+4+1+0+36 = 50, std √(50/4); rank of p95 is 3.8: 4 + 0.8·6.
        let figure = |name| figure(&[4.0, 1.0, 10.0, 2.0, 3.0], name);
        let names = ["n", "mean_s", "median_s", "min_s", "max_s", "spread"];
        assert_eq!(names.map(figure), [5.0, 4.0, 3.0, 1.0, 10.0, 3.0]);
        assert!((figure("std_s") - 12.5f64.sqrt()).abs() < 1e-12);
        assert!((figure("p95_s") - 8.8).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_no_value_no_statistics() {
        let names = ["std_s", "median_s", "p95_s"];
        assert_eq!(names.map(|name| figure(&[2.0], name)), [0.0, 2.0, 2.0]);
        assert_eq!(statistics(Vec::new()), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(figure(&[1.0, 2.0, 4.0, 8.0], "median_s"), 3.0);
    }
}
