//! Numbers of distinct keys within a chunk of rows.

use rustc_hash::FxHashMap;

/// Numbers for the distinct keys of one chunk of rows, with a memory for the last one: rows of the same
/// process, device or kernel come in runs.
#[derive(Clone, Debug)]
pub(super) struct LocalKeys<K> {
    numbers: FxHashMap<K, u32>,
    /// The keys by number.
    pub(super) keys: Vec<K>,
    last: Option<(K, u32)>,
}

impl<K> Default for LocalKeys<K> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::default(),
            keys: Vec::new(),
            last: None,
        }
    }
}

impl<K: Copy + Eq + std::hash::Hash> LocalKeys<K> {
    pub(super) fn number(&mut self, key: K) -> u32 {
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let keys = &mut self.keys;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            keys.push(key);
            // Fewer keys than rows, and a chunk has fewer than 2^32 rows.
            (keys.len() - 1) as u32
        });
        self.last = Some((key, number));
        number
    }
}
