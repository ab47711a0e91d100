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

/// Bytes of tables and texts that any input may fill: 64 MiB.
pub const ROWS_FLOOR: u64 = 64 << 20;

/// Further bytes of tables and texts for each byte of the input: packed exports of CUDA graphs fill 24.
pub const ROWS_RATIO: u64 = 24;

/// Bytes that a launch profiled by Nsight Compute counts next to its rows. A report takes 4.9 KB for each, whatever its size
/// in the file, and may take 12 for each byte of that.
pub const PROFILE_BYTES: u64 = 6 << 10;

/// Bytes that a row of a sum of `nsys stats` counts next to its own. A report takes 1.2 KB.
pub const SUM_BYTES: u64 = 2000;

/// Bytes of values that documents of any input may become: 20 MiB.
const VALUES_FLOOR: u64 = 20 << 20;

/// Further bytes of values for each byte of the input. They are counted at the most, and take about half.
const VALUES_RATIO: u64 = 24;

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

/// Bytes that documents of an input may still become in memory; its files share it.
#[derive(Debug)]
pub struct Values(u64);

impl Values {
    /// The allowance of an input of so many bytes.
    pub const fn of(input: u64) -> Self {
        Self(allowance(input, VALUES_FLOOR, VALUES_RATIO))
    }

    /// Takes what a document becomes; false, and nothing is left, if that is more than there is.
    pub fn take(&mut self, text: &[u8]) -> bool {
        let fits = self.fits(text);
        self.0 = self.0.saturating_sub(parsed_bytes(text));
        fits
    }

    /// Whether nothing is left.
    pub const fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Why a document was not taken.
    pub fn refusal() -> String {
        format!(
            "its values take more memory than {} MiB and {VALUES_RATIO} bytes for each byte of the input",
            VALUES_FLOOR >> 20
        )
    }

    /// Whether a document that is not kept fits.
    pub fn fits(&self, text: &[u8]) -> bool {
        parsed_bytes(text) <= self.0
    }
}

/// Bytes of a tree of values, or of a table of texts, at the most.
///
/// An element takes 32 bytes and its list grows by doubling; a first element makes room for four. An object is a node
/// with room for eleven entries of 56 bytes, which may be half empty, and each key is a text of its own. A line of a
/// table becomes a row and a request.
fn parsed_bytes(text: &[u8]) -> u64 {
    let is_json =
        text.trim_ascii_start().starts_with(b"{") || text.trim_ascii_start().starts_with(b"[");
    let line = if is_json { 0 } else { 320 };
    let mut bytes = text.len() as u64;
    let (mut is_text, mut is_escaped) = (false, false);
    for &byte in text {
        if is_text {
            is_text = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        bytes += match byte {
            b'"' => {
                is_text = true;
                0
            }
            b'{' => 640,
            b'[' => 144,
            b':' => 112,
            b',' | b';' | b'\t' => 64,
            b'\n' => line,
            _ => 0,
        };
    }
    bytes
}

/// Bytes of tables and texts that an input of so many bytes may fill.
pub const fn rows_of(input: u64) -> u64 {
    allowance(input, ROWS_FLOOR, ROWS_RATIO)
}

const fn allowance(input: u64, floor: u64, ratio: u64) -> u64 {
    input.saturating_mul(ratio).saturating_add(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cost_by_what_opens_and_separates_them_outside_of_texts() {
        // One list of two: room for four, and two elements.
        assert_eq!(parsed_bytes(b"[1,2]"), 5 + 144 + 64);
        assert_eq!(parsed_bytes(br#"{"a,\"[{":1}"#), 12 + 640 + 112);
        let mut values = Values::of(0);
        assert_eq!(parsed_bytes(b"a,b\n1,2\n"), 8 + 2 * 64 + 2 * 320);
        // 642 bytes each, of 20 MiB.
        assert!(values.fits(&b"{}".repeat(32_000)));
        assert!(!values.take(&b"{}".repeat(33_000)));
        assert!(!values.take(b"1"), "nothing is left after a refusal");
    }

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
