//! Extended payloads of NVTX ranges: what a library says of a call beyond its name. Those of NCCL are read.
//!
//! An export holds them only if it was made with `--include-blobs=true`. A blob begins with the number of its
//! payloads; for each follow the id of its schema, its length and where in the blob it begins; all are
//! little-endian integers of 8 bytes. Tables say which fields a schema has, of which type and where. They do not
//! say which process a schema is of: one that processes define differently is not used.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Import;
use crate::IngestError;
use crate::database::Want;

use Want::{May, Need};

/// Payloads of one range that are looked at.
const MAX_PAYLOADS: u64 = 16;

/// NCCL's payload of a call; `None` where a field is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Payload {
    /// Number that all ranks of a communicator share.
    pub(super) communicator: Option<u64>,
    /// Elements of the call × size of their type: what that means depends on the operation.
    pub(super) bytes: Option<u64>,
    /// Ranks of the communicator.
    pub(super) ranks: Option<u32>,
    /// The own rank in it.
    pub(super) rank: Option<u32>,
    /// The rank that is sent to or received from.
    pub(super) peer: Option<u32>,
    /// The rank that has all, in operations where one does.
    pub(super) root: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Communicator,
    Bytes,
    Ranks,
    Rank,
    Peer,
    Root,
}

/// Names of fields in NCCL's schemas.
const FIELDS: [(&str, Field); 6] = [
    ("NCCL communicator ID", Field::Communicator),
    ("Message size [bytes]", Field::Bytes),
    ("No. of ranks", Field::Ranks),
    ("Rank", Field::Rank),
    ("Peer rank", Field::Peer),
    ("Root", Field::Root),
];

/// Where an integer lies in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: usize,
    /// Bytes, and whether it has a sign.
    kind: (usize, bool),
}

/// The fields of NCCL's schemas, by domain and schema.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    fields: FxHashMap<(i64, i64), Vec<(Field, Place)>>,
}

/// Domain, schema and number of an entry.
type EntryKey = (i64, i64, i64);

/// The content of an entry: type, name, offset.
type Entry = (Option<i64>, String, Option<i64>);

impl Import<'_> {
    /// Reads the schemas of payloads; there are none in most exports.
    pub(super) fn payload_schemas(&self) -> Result<Schemas, IngestError> {
        let wants = [
            Need("domainId"),
            Need("schemaId"),
            Need("idx"),
            May(&["type"]),
            May(&["name"]),
            May(&["offset"]),
            May(&["arrayOrUnionDetail"]),
        ];
        let table = "NVTX_PAYLOAD_SCHEMA_ENTRIES";
        let (parts, _) =
            self.database
                .scan(table, &wants, |out: &mut Vec<(EntryKey, Entry)>, row| {
                    if row.maybe(6)?.is_none() {
                        let name = row.text(4).unwrap_or_default().to_owned();
                        let entry = (row.maybe(3)?, name, row.maybe(5)?);
                        out.push(((row.int(0)?, row.int(1)?, row.int(2)?), entry));
                    }
                    Ok(())
                })?;
        Ok(Schemas::new(parts.into_iter().flatten()))
    }
}

impl Schemas {
    fn new(entries: impl Iterator<Item = (EntryKey, Entry)>) -> Self {
        let mut schemas = Self::default();
        let mut entry_of: FxHashMap<EntryKey, Entry> = FxHashMap::default();
        let mut contradicted: FxHashSet<(i64, i64)> = FxHashSet::default();
        for (key, entry) in entries {
            let schema = (key.0, key.1);
            match entry_of.get(&key) {
                Some(before) if *before == entry => continue,
                Some(_) => drop(contradicted.insert(schema)),
                None => {
                    if let Some(field) = field(key.2, &entry) {
                        schemas.fields.entry(schema).or_default().push(field);
                    }
                    entry_of.insert(key, entry);
                }
            }
        }
        schemas
            .fields
            .retain(|schema, _| !contradicted.contains(schema));
        schemas
    }

    /// True if there is nothing to be read with them.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The merged payloads of a range; `None` if the blob is malformed.
    pub(super) fn read(&self, domain: i64, blob: &[u8]) -> Option<Payload> {
        let word = |offset: u64| int(blob, offset, (8, false));
        let mut payload = Payload::default();
        for index in 0..word(0)?.min(MAX_PAYLOADS) {
            let head = 8 + 24 * index;
            let (schema, length, start) = (word(head)?, word(head + 8)?, word(head + 16)?);
            let (first, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
            let data = blob.get(first..first.checked_add(length)?)?;
            let fields = i64::try_from(schema)
                .ok()
                .and_then(|id| self.fields.get(&(domain, id)));
            for (field, place) in fields.into_iter().flatten() {
                if let Some(value) = int(data, place.offset as u64, place.kind) {
                    payload.set(*field, value);
                }
            }
        }
        Some(payload)
    }
}

impl Payload {
    fn set(&mut self, field: Field, value: u64) {
        let narrow = u32::try_from(value).ok();
        match field {
            Field::Communicator => self.communicator = Some(value),
            Field::Bytes => self.bytes = Some(value),
            Field::Ranks => self.ranks = narrow.filter(|ranks| *ranks > 0),
            Field::Rank => self.rank = narrow,
            Field::Peer => self.peer = narrow,
            Field::Root => self.root = narrow,
        }
    }
}

/// A field of NCCL's whose place is known: only the first entry may leave its offset open, which is 0 then.
fn field(index: i64, (kind, name, offset): &Entry) -> Option<(Field, Place)> {
    let (_, field) = FIELDS.iter().find(|(known, _)| known == name)?;
    let kind = integer((*kind)?)?;
    let offset = offset.or((index == 0).then_some(0))?;
    Some((
        *field,
        Place {
            offset: usize::try_from(offset).ok()?,
            kind,
        },
    ))
}

/// Bytes of an integer type and whether it has a sign, by the numbers of `nvtxPayloadEntryType` on 64-bit Linux.
const fn integer(kind: i64) -> Option<(usize, bool)> {
    Some(match kind {
        1 | 11 => (1, true),
        2 | 12 => (1, false),
        3 | 13 => (2, true),
        4 | 14 => (2, false),
        5 | 15 => (4, true),
        6 | 16 => (4, false),
        7 | 9 | 17 => (8, true),
        8 | 10 | 18 | 22 => (8, false),
        _ => return None,
    })
}

/// The little-endian integer at `at`; `None` beyond the end and for negative numbers.
fn int(bytes: &[u8], offset: u64, (width, signed): (usize, bool)) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let digits = bytes.get(start..start.checked_add(width)?)?;
    let value = digits
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    let negative = signed && digits.last().is_some_and(|byte| *byte >= 0x80);
    (!negative).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: i64, kind: i64, name: &str, offset: Option<i64>) -> (EntryKey, Entry) {
        ((1, 33, index), (Some(kind), name.to_owned(), offset))
    }

    /// A send as NCCL describes it: communicator, size, peer, and four bytes of padding.
    fn send() -> Vec<(EntryKey, Entry)> {
        vec![
            entry(0, 18, "NCCL communicator ID", None),
            entry(1, 22, "Message size [bytes]", Some(8)),
            entry(2, 5, "Peer rank", Some(16)),
        ]
    }

    fn blob(count: u64, head: [u64; 3], data: &[u8]) -> Vec<u8> {
        let words = [count, head[0], head[1], head[2]];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(data.iter().copied())
            .collect()
    }

    fn data(peer: i32) -> Vec<u8> {
        let mut data = 0xfeed_u64.to_le_bytes().to_vec();
        data.extend(4096_u64.to_le_bytes());
        data.extend(peer.to_le_bytes());
        data.extend([0x3a, 5, 0, 0]);
        data
    }

    #[test]
    fn fields_lie_where_the_schema_says() {
        let schemas = Schemas::new(send().into_iter());
        let read = schemas.read(1, &blob(1, [33, 24, 32], &data(3)));
        let expected = Payload {
            communicator: Some(0xfeed),
            bytes: Some(4096),
            peer: Some(3),
            ..Payload::default()
        };
        assert_eq!(read, Some(expected));
        // Another domain or schema says nothing; a rank below 0 is none.
        assert_eq!(
            schemas.read(2, &blob(1, [33, 24, 32], &data(3))),
            Some(Payload::default())
        );
        assert_eq!(
            schemas.read(1, &blob(1, [34, 24, 32], &data(3))),
            Some(Payload::default())
        );
        assert_eq!(
            schemas
                .read(1, &blob(1, [33, 24, 32], &data(-1)))
                .and_then(|p| p.peer),
            None
        );
    }

    #[test]
    fn schemas_that_contradict_one_another_are_not_used() {
        let twice = send().into_iter().chain(send());
        assert_eq!(Schemas::new(twice).fields.len(), 1);
        let other_type = [entry(1, 22, "Elements", Some(8))];
        assert_eq!(
            Schemas::new(send().into_iter().chain(other_type))
                .fields
                .len(),
            0
        );
    }

    #[test]
    fn blobs_that_end_early_or_point_outside_are_malformed() {
        let schemas = Schemas::new(send().into_iter());
        let whole = blob(1, [33, 24, 32], &data(3));
        for cut in 0..whole.len() {
            assert_eq!(schemas.read(1, &whole[..cut]), None, "cut to {cut}");
        }
        for head in [[33, 25, 32], [33, 24, u64::MAX], [33, u64::MAX, 32]] {
            assert_eq!(schemas.read(1, &blob(1, head, &data(3))), None, "{head:?}");
        }
        assert_eq!(
            schemas.read(1, &blob(u64::MAX, [33, 24, 32], &data(3))),
            None
        );
    }
}
