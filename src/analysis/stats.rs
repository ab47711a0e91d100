//! Statistics of repeats.

/// Modified z-score of the first value against the rest: 0.6745 · (x − median) / MAD.
pub fn modified_z_of_first(values: &[f64]) -> Option<f64> {
    let _ = values;
    None
}
