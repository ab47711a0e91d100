//! Covers secrets in bytes that come piece by piece.

use std::ops::Range;
use std::sync::Arc;

use super::needle::Needles;

/// What was read and is not settled: it may end in the beginning of a secret.
#[derive(Clone)]
pub(crate) struct Masker {
    needles: Arc<Needles>,
    held: Vec<u8>,
    /// What is covered of it, in order.
    masks: Vec<Range<usize>>,
}

/// Bytes that are settled.
pub(crate) struct Settled {
    /// With masks, as many as were read.
    pub(crate) bytes: Vec<u8>,
    /// Where masks are among them, in order.
    pub(crate) masks: Vec<Range<usize>>,
}

impl Masker {
    pub(super) const fn new(needles: Arc<Needles>) -> Self {
        Self {
            needles,
            held: Vec::new(),
            masks: Vec::new(),
        }
    }

    /// Takes more bytes. Gives what is settled now, from where the last call left off.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Settled {
        self.held.extend_from_slice(bytes);
        if self.needles.is_empty() {
            return Settled {
                bytes: std::mem::take(&mut self.held),
                masks: Vec::new(),
            };
        }
        self.cover();
        self.settle(self.needles.open_end(&self.held))
    }

    /// All of these bytes with masks.
    pub(crate) fn whole(mut self, bytes: &[u8]) -> Vec<u8> {
        let mut masked = self.push(bytes).bytes;
        masked.extend(self.finish().bytes);
        masked
    }

    /// Gives the rest.
    pub(crate) fn finish(mut self) -> Settled {
        self.cover();
        self.settle(self.held.len())
    }

    fn cover(&mut self) {
        self.masks.extend(self.needles.scan(&self.held));
        self.masks.sort_unstable_by_key(|mask| mask.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(self.masks.len());
        for mask in self.masks.drain(..) {
            match merged.last_mut().filter(|last| last.end >= mask.start) {
                Some(last) => last.end = last.end.max(mask.end),
                None => merged.push(mask),
            }
        }
        self.masks = merged;
    }

    fn settle(&mut self, length: usize) -> Settled {
        let rest = self.held.split_off(length);
        let mut bytes = std::mem::replace(&mut self.held, rest);
        let part = |start: usize, end: usize| {
            let cut = move |mask: &Range<usize>| mask.start.max(start)..mask.end.min(end);
            self.masks.iter().map(cut).filter(|mask| !mask.is_empty())
        };
        let masks: Vec<Range<usize>> = part(0, length).collect();
        let kept = part(length, usize::MAX).map(|mask| mask.start - length..mask.end - length);
        let kept = kept.collect();
        for mask in &masks {
            bytes[mask.clone()].fill(b'*');
        }
        self.masks = kept;
        Settled { bytes, masks }
    }
}
