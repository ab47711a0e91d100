//! Covers secrets in bytes that come piece by piece.

use std::ops::Range;
use std::sync::Arc;

use super::needle::Needles;

/// What was read and is not settled: it may end in the beginning of a secret.
#[derive(Clone)]
pub(crate) struct Masker {
    needles: Arc<Needles>,
    held: Vec<u8>,
    covered: Vec<bool>,
}

/// Bytes that are settled.
#[derive(Default)]
pub(crate) struct Settled {
    /// With masks, as many as were read.
    pub(crate) bytes: Vec<u8>,
    /// Where masks are among them, in order.
    pub(crate) masks: Vec<Range<usize>>,
}

impl Masker {
    pub(super) const fn new(needles: Arc<Needles>) -> Self {
        Self { needles, held: Vec::new(), covered: Vec::new() }
    }

    /// Takes more bytes. Gives what is settled now, from where the last call left off.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Settled {
        self.held.extend_from_slice(bytes);
        if self.needles.is_empty() {
            return Settled { bytes: std::mem::take(&mut self.held), masks: Vec::new() };
        }
        self.cover(false);
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
        self.cover(true);
        self.settle(self.held.len())
    }

    fn cover(&mut self, is_last: bool) {
        self.covered.resize(self.held.len(), false);
        for range in self.needles.scan(&self.held, is_last) {
            self.covered[range].fill(true);
        }
    }

    fn settle(&mut self, length: usize) -> Settled {
        let mut bytes: Vec<u8> = self.held.drain(..length).collect();
        let covered: Vec<bool> = self.covered.drain(..length).collect();
        let mut masks: Vec<Range<usize>> = Vec::new();
        for at in (0..length).filter(|at| covered[*at]) {
            bytes[at] = b'*';
            match masks.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end = at + 1,
                None => masks.push(at..at + 1),
            }
        }
        Settled { bytes, masks }
    }
}
