//! `StringIds` and names in general.

use std::borrow::Cow;

use rooflens_session::{Session, StrId};
use rustc_hash::FxHashMap;

use crate::{Row, RowError, Want};

/// The table of strings.
pub const STRINGS: &str = "StringIds";

/// Its columns.
pub const STRING_COLUMNS: [Want; 2] = [Want::Need("id"), Want::Need("value")];

/// A string with its id; none where the value is no text.
///
/// # Errors
/// The id is no number.
pub fn string<'r>(row: &'r Row<'_>) -> Result<Option<(i64, &'r str)>, RowError> {
    let id = row.int(0)?;
    Ok(row.text(1).map(|text| (id, text)))
}

/// The texts of `StringIds`; interned into the session only where something refers to them.
#[derive(Debug, Default)]
pub struct Names {
    texts: FxHashMap<i64, Box<str>>,
    /// Interned texts: many rows may repeat a long one.
    interned: FxHashMap<i64, StrId>,
    /// Texts of ids that have another text, too.
    pub conflicts: u64,
}

impl FromIterator<(i64, Box<str>)> for Names {
    /// Names; of several texts of an id the last one counts.
    fn from_iter<I: IntoIterator<Item = (i64, Box<str>)>>(texts: I) -> Self {
        let mut names = Self::default();
        for (id, text) in texts {
            let is_other = names.get(id).is_some_and(|known| known != &*text);
            names.conflicts += u64::from(is_other);
            names.texts.insert(id, text);
        }
        names
    }
}

impl Names {
    /// The text of an id, if the file explains it.
    pub fn get(&self, id: i64) -> Option<&str> {
        self.texts.get(&id).map(|text| &**text)
    }

    /// The text of an id; a number in angle brackets for an id that the file does not explain.
    pub fn text(&self, id: i64) -> Cow<'_, str> {
        match self.get(id) {
            Some(text) => text.into(),
            None => format!("<string {id}>").into(),
        }
    }

    /// The same as a string of the session.
    pub fn intern(&mut self, id: i64, session: &mut Session) -> StrId {
        if let Some(text) = self.interned.get(&id) {
            return *text;
        }
        let text = session.intern(&self.text(id));
        self.interned.insert(id, text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn ids_with_two_texts_are_counted() {
        let names = |texts: &[(i64, &str)]| -> Names {
            texts
                .iter()
                .map(|(id, text)| (*id, (*text).into()))
                .collect()
        };
        assert_eq!(names(&[(1, "a"), (2, "a"), (1, "a")]).conflicts, 0);
        let two = names(&[(1, "a"), (2, "a"), (1, "b")]);
        assert_eq!((two.conflicts, two.get(1)), (1, Some("b")));
    }
}
