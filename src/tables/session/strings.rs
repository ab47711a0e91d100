//! The string interner: kernel and range names repeat a million times.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::ids::StrId;

/// Interned strings; id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    list: Vec<Box<str>>,
    /// Ids by the hash of their texts, which are stored once.
    index: HashTable<StrId>,
    bytes: u64,
}

/// Bytes that a text takes next to its own.
const OVERHEAD: u64 = 96;

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self {
            list: Vec::new(),
            index: HashTable::new(),
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
        if let Some(id) = self.find(text) {
            return id;
        }
        self.bytes += text.len() as u64 + OVERHEAD;
        let id = StrId::at(self.list.len());
        self.list.push(text.into());
        let list = &self.list;
        let rehash = |id: &StrId| hash(&list[id.index()]);
        self.index.insert_unique(hash(text), id, rehash);
        id
    }

    /// The id of `text`, if it was interned.
    #[inline]
    pub fn find(&self, text: &str) -> Option<StrId> {
        let is_same = |id: &StrId| *self.list[id.index()] == *text;
        self.index.find(hash(text), is_same).copied()
    }

    /// The text of an id; empty for an id of another interner.
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        self.list.get(id.index()).map_or("", |text| text)
    }

    /// All texts, by id.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(AsRef::as_ref)
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

fn hash(text: &str) -> u64 {
    FxBuildHasher.hash_one(text)
}
