//! A line of the export. 64-bit numbers are texts in it, as in all JSON of protobuf.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// What a line holds. A line has one of these.
#[derive(Default)]
pub(super) struct Line<'a> {
    /// Type of the event.
    pub(super) kind: Option<Int>,
    pub(super) cuda: Option<CudaEvent<'a>>,
    pub(super) call: Option<TraceProcessEvent>,
    pub(super) nvtx: Option<NvtxEvent<'a>>,
    /// All strings, by id.
    pub(super) strings: Option<Vec<Cow<'a, str>>>,
    /// One string, or the name of one thread, of an export with `--separate-strings`.
    pub(super) separate: Separate<'a>,
    /// The first name that is none of these.
    pub(super) other: Option<Cow<'a, str>>,
}

/// A line of `--separate-strings`.
#[derive(Default)]
pub(super) struct Separate<'a> {
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) id: Option<Int>,
    pub(super) value: Option<Cow<'a, str>>,
    pub(super) global_tid: Option<Int>,
    pub(super) name_id: Option<Int>,
    pub(super) priority: Option<Int>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CudaEvent<'a> {
    pub(super) start_ns: Option<Int>,
    pub(super) end_ns: Option<Int>,
    pub(super) correlation_id: Option<Int>,
    pub(super) device_id: Option<Int>,
    pub(super) context_id: Option<Int>,
    pub(super) stream_id: Option<Int>,
    pub(super) global_pid: Option<Int>,
    pub(super) graph_node_id: Option<Int>,
    pub(super) graph_id: Option<Int>,
    pub(super) kernel: Option<Kernel>,
    pub(super) memcpy: Option<Memory>,
    pub(super) memset: Option<Memory>,
    #[serde(borrow)]
    pub(super) sync: Option<Sync<'a>>,
    pub(super) cuda_event_record: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kernel {
    pub(super) demangled_name: Option<Int>,
    pub(super) short_name: Option<Int>,
    pub(super) registers_per_thread: Option<Int>,
    pub(super) grid_x: Option<Int>,
    pub(super) grid_y: Option<Int>,
    pub(super) grid_z: Option<Int>,
    pub(super) block_x: Option<Int>,
    pub(super) block_y: Option<Int>,
    pub(super) block_z: Option<Int>,
    pub(super) static_shared_memory: Option<Int>,
    pub(super) dynamic_shared_memory: Option<Int>,
}

/// A copy, or a memset.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    pub(super) sizebytes: Option<Int>,
    pub(super) copy_kind: Option<Int>,
    pub(super) src_kind: Option<Int>,
    pub(super) dst_kind: Option<Int>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sync<'a> {
    #[serde(borrow)]
    pub(super) sync_type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TraceProcessEvent {
    pub(super) start_ns: Option<Int>,
    pub(super) end_ns: Option<Int>,
    pub(super) correlation_id: Option<Int>,
    pub(super) event_class: Option<Int>,
    pub(super) name: Option<Int>,
    pub(super) global_tid: Option<Int>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NvtxEvent<'a> {
    #[serde(rename = "Type")]
    pub(super) kind: Option<Int>,
    pub(super) timestamp: Option<Int>,
    pub(super) end_timestamp: Option<Int>,
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) text_id: Option<Int>,
    pub(super) global_tid: Option<Int>,
    pub(super) domain_id: Option<Int>,
    /// Times are nanoseconds.
    pub(super) ns_time: Option<bool>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Line<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Line<'de>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
                let mut line = Line::default();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    line.member(name.0, &mut map)?;
                }
                Ok(line)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Line<'de> {
    fn member<A: MapAccess<'de>>(
        &mut self,
        name: Cow<'de, str>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let separate = &mut self.separate;
        match &*name {
            "Type" => self.kind = map.next_value()?,
            "CudaEvent" => self.cuda = map.next_value()?,
            "TraceProcessEvent" => self.call = map.next_value()?,
            "NvtxEvent" => self.nvtx = map.next_value()?,
            "data" => {
                let texts: Vec<Text<'de>> = map.next_value()?;
                self.strings = Some(texts.into_iter().map(|text| text.0).collect());
            }
            "type" => separate.kind = Some(map.next_value::<Text<'de>>()?.0),
            "id" => separate.id = map.next_value()?,
            "value" => separate.value = Some(map.next_value::<Text<'de>>()?.0),
            "globalTid" => separate.global_tid = map.next_value()?,
            "nameId" => separate.name_id = map.next_value()?,
            "priority" => separate.priority = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
                self.other.get_or_insert(name);
            }
        }
        Ok(())
    }
}

/// A text that is borrowed from the line where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An integer of at most 64 bits, as a number or a text; one beyond the signed ones has the bits that SQLite would store.
#[derive(Clone, Copy)]
pub(super) struct Int(pub(super) i64);

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Int;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an integer")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Int, E> {
                Ok(Int(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Int, E> {
                Ok(Int(value as i64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Int, E> {
                let signed = text.parse().ok();
                let value = signed.or_else(|| text.parse::<u64>().ok().map(|value| value as i64));
                value
                    .map(Int)
                    .ok_or_else(|| E::custom("a text that is no integer"))
            }
        }
        deserializer.deserialize_any(Number)
    }
}
