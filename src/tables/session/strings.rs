//! The string interner: kernel and range names repeat a million times.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::ids::StrId;

/// Interned strings; id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    texts: IndexSet<Box<str>, FxBuildHasher>,
    bytes: u64,
}

/// Bytes that a text takes next to its own.
const OVERHEAD: u64 = 96;

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            texts: IndexSet::default(),
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
        if text.is_empty() && !self.texts.is_empty() {
            return StrId::default();
        }
        if let Some(id) = self.find(text) {
            return id;
        }
        self.bytes += text.len() as u64 + OVERHEAD;
        let (position, _) = self.texts.insert_full(text.into());
        StrId::at(position)
    }

    /// The id of `text`, if it was interned.
    #[inline]
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.texts.get_index_of(text).map(StrId::at)
    }

    /// The text of an id; empty for an id of another interner.
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        self.texts.get_index(id.index()).map_or("", |text| text)
    }

    /// All texts, by id.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// Bytes that the strings take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether only the empty string is there.
    pub fn is_empty(&self) -> bool {
        self.texts.len() <= 1
    }
}
