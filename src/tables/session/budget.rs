//! What an input may cost: multiples of its bytes, so that a small hostile file stays a small problem.
//!
//! Honest inputs stay far below. `.github/SECURITY.md` has the figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that any input may inflate to: 32 MiB.
pub const INFLATED_FLOOR: u64 = 32 << 20;

/// Further bytes that an input may inflate to, for each byte that it has.
pub const INFLATED_RATIO: u64 = 100;

/// Size beyond which nothing is inflated: 64 GiB.
pub const INFLATED_MAX: u64 = 64 << 30;

/// Bytes of tables and texts that any input may fill: 20 MiB.
pub const ROWS_FLOOR: u64 = 20 << 20;

/// Further bytes of tables and texts for each byte of the input.
pub const ROWS_RATIO: u64 = 24;

/// Bytes that analyses take for each launch profiled by Nsight Compute, next to its rows: a report shows each.
pub const PROFILE_BYTES: u64 = 2 << 10;

/// Bytes that an input may still inflate to; its files share it.
#[derive(Clone, Debug)]
pub struct Inflation(Arc<AtomicU64>);

impl Inflation {
    /// The allowance of an input of so many bytes.
    pub fn of(input: u64) -> Self {
        let allowed = input
            .saturating_mul(INFLATED_RATIO)
            .saturating_add(INFLATED_FLOOR);
        Self(Arc::new(AtomicU64::new(allowed.min(INFLATED_MAX))))
    }

    /// Takes so many bytes; false, and nothing is left, if fewer are.
    pub fn take(&self, bytes: u64) -> bool {
        let left = |left: u64| Some(left.saturating_sub(bytes));
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok_and(|had| had >= bytes)
    }
}

/// Bytes of tables and texts that an input of so many bytes may fill.
pub const fn rows_of(input: u64) -> u64 {
    input.saturating_mul(ROWS_RATIO).saturating_add(ROWS_FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_for_all_who_share_it() {
        let whole = Inflation::of(10);
        let part = whole.clone();
        assert!(part.take(32 << 20) && whole.take(999));
        assert!(!part.take(2), "one byte is left");
        assert!(!whole.take(1), "nothing is left after a refusal");
        assert!(
            Inflation::of(u64::MAX).take(64 << 30),
            "and no sum overflows"
        );
    }
}
