//! Statistics of repeats.

/// Modified z-score of the first value against the rest: 0.6745 · (x − median) / MAD.
pub fn modified_z_of_first(values: &[f64]) -> Option<f64> {
    let _ = values;
    None
}

/// Median; the mean of the two middle values where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}
