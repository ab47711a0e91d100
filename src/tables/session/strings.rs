//! The string interner: kernel and range names repeat a million times.

use rustc_hash::FxHashMap;

use super::ids::StrId;

/// Interned strings; id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    list: Vec<Box<str>>,
    index: FxHashMap<Box<str>, StrId>,
    bytes: u64,
}

/// Bytes that a text takes next to its own, which lie here twice.
const OVERHEAD: u64 = 96;

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            list: Vec::new(),
            index: FxHashMap::default(),
            bytes: 0,
        };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// The id of `text`, which is stored once.
    pub fn intern(&mut self, text: &str) -> StrId {
        // A comparison of nothing at the address of no allocation is a slow path of the CPU.
        if text.is_empty() && !self.list.is_empty() {
            return StrId::default();
        }
        if let Some(id) = self.index.get(text) {
            return *id;
        }
        let id = StrId::at(self.list.len());
        self.bytes += 2 * text.len() as u64 + OVERHEAD;
        self.list.push(text.into());
        self.index.insert(text.into(), id);
        id
    }

    /// The id of `text`, if it was interned.
    #[inline]
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.index.get(text).copied()
    }

    /// The text of an id; empty for an id of another interner.
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        self.list.get(id.index()).map_or("", |text| text)
    }

    /// Bytes that the strings take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether only the empty string is there.
    pub fn is_empty(&self) -> bool {
        self.list.len() <= 1
    }
}
