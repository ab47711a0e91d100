//! Statistics.
#![forbid(unsafe_code)]
