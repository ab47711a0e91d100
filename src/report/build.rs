//! Findings to a document.

/// stub
pub fn build() {}
