//! intervals
