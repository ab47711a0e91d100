//! Findings about two ranks of a small session.
