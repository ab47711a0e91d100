//! Rules about the machine: clocks and memory.

pub(crate) mod clock_limits;
pub(crate) mod memory_pressure;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[&clock_limits::RULE, &memory_pressure::RULE];
