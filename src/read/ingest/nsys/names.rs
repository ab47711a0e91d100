//! `StringIds` and names in general.

use rustc_hash::FxHashMap;

use crate::IngestError;
use crate::database::{Database, Want};
use rooflens_session::{Session, StrId};

/// The texts of `StringIds`; interned into the session only where something refers to them.
#[derive(Default)]
pub(super) struct Names {
    texts: FxHashMap<i64, Box<str>>,
    /// Interned texts: many rows may repeat a long one.
    interned: FxHashMap<i64, StrId>,
}

impl Names {
    pub(super) fn read(database: &Database) -> Result<Self, IngestError> {
        let wants = [Want::Need("id"), Want::Need("value")];
        let (parts, _) = database.scan(
            "StringIds",
            &wants,
            |out: &mut Vec<(i64, Box<str>)>, row| {
                if let Some(text) = row.text(1) {
                    out.push((row.int(0)?, text.into()));
                }
                Ok(())
            },
        )?;
        let texts = parts.into_iter().flatten().collect();
        Ok(Self {
            texts,
            interned: FxHashMap::default(),
        })
    }

    /// The text of an id; a number in angle brackets for an id that the file does not explain.
    pub(super) fn text(&self, id: i64) -> std::borrow::Cow<'_, str> {
        match self.texts.get(&id) {
            Some(text) => (&**text).into(),
            None => format!("<string {id}>").into(),
        }
    }

    pub(super) fn intern(&mut self, id: i64, session: &mut Session) -> StrId {
        if let Some(text) = self.interned.get(&id) {
            return *text;
        }
        let text = session.intern(&self.text(id));
        self.interned.insert(id, text);
        text
    }
}

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
