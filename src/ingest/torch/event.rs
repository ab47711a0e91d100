//! One trace event with the arguments that we know, over all generations of the format.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::value::{Extent, Integer, Name, Text, Time, absent};
use rooflens_model::{Dim3, Ns};

/// A trace event; absent keys have their defaults.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// Phase: `X` for intervals, `i` for instants, `s` and `f` for flows, `M` for metadata.
    pub(super) phase: Text<'a>,
    /// Category.
    pub(super) category: Text<'a>,
    /// Name.
    pub(super) name: Text<'a>,
    /// Process, or device for GPU work.
    pub(super) pid: Name<'a>,
    /// Thread, or stream for GPU work.
    pub(super) tid: Name<'a>,
    /// Start.
    pub(super) start: Option<Ns>,
    /// Length.
    pub(super) duration: Option<Ns>,
    /// Flow.
    pub(super) id: Option<i64>,
    /// Arguments.
    pub(super) args: Args<'a>,
}

/// The arguments that we know; JSON values are texts of the file.
#[derive(Debug, Default)]
pub(super) struct Args<'a> {
    pub(super) external: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) registers: Option<i64>,
    pub(super) shared_bytes: Option<i64>,
    pub(super) graph_node: Option<i64>,
    pub(super) graph: Option<i64>,
    pub(super) sequence: Option<i64>,
    pub(super) forward_thread: Option<i64>,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) bytes: Option<i64>,
    pub(super) shapes: &'a str,
    pub(super) types: &'a str,
    pub(super) inputs: &'a str,
    pub(super) sync_kind: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) labels: Text<'a>,
    pub(super) memory: Memory,
    /// Boxed: few events have it.
    pub(super) collective: Option<Box<CollectiveArgs<'a>>>,
}

/// Arguments of the kernel of a collective.
#[derive(Debug, Default)]
pub(super) struct CollectiveArgs<'a> {
    pub(super) operation: Text<'a>,
    pub(super) dtype: Text<'a>,
    pub(super) group: Text<'a>,
    pub(super) ranks: Text<'a>,
    pub(super) elements_in: Option<i64>,
    pub(super) elements_out: Option<i64>,
    pub(super) group_size: Option<i64>,
    pub(super) sequence: Option<i64>,
    /// Rank that a message goes to or comes from, among all ranks.
    pub(super) peer: Option<i64>,
}

/// Arguments of an allocator event.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) device: Option<i64>,
    pub(super) device_type: Option<i64>,
    pub(super) address: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) allocated: Option<i64>,
    pub(super) reserved: Option<i64>,
}

/// Reads into the event, which is large: it is filled where it lies, never moved.
impl<'de> DeserializeSeed<'de> for &mut Event<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Event<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = object.next_key()? {
            match &*key {
                "ph" => self.phase = object.next_value()?,
                "cat" => self.category = object.next_value()?,
                "name" => self.name = object.next_value()?,
                "pid" => self.pid = object.next_value()?,
                "tid" => self.tid = object.next_value()?,
                "ts" => self.start = object.next_value::<Time>()?.0,
                "dur" => self.duration = object.next_value::<Time>()?.0,
                "id" => self.id = object.next_value::<Integer>()?.0,
                "args" => object.next_value_seed(&mut self.args)?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Args<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Args<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = object.next_key()? {
            self.read(&key, &mut object)?;
        }
        Ok(())
    }

    absent!((); bool, unit, numbers, str, list);
}

impl<'de> Args<'de> {
    fn read<A: MapAccess<'de>>(&mut self, key: &str, object: &mut A) -> Result<(), A::Error> {
        let number = match key {
            "External id" | "external id" => &mut self.external,
            "correlation" => &mut self.correlation,
            "device" => &mut self.device,
            "stream" => &mut self.stream,
            "registers per thread" => &mut self.registers,
            "shared memory" => &mut self.shared_bytes,
            "graph node id" => &mut self.graph_node,
            "graph id" => &mut self.graph,
            "bytes" => &mut self.bytes,
            "Sequence number" => &mut self.sequence,
            "Fwd thread id" => &mut self.forward_thread,
            "Device Id" => &mut self.memory.device,
            "Device Type" => &mut self.memory.device_type,
            "Addr" => &mut self.memory.address,
            "Bytes" => &mut self.memory.bytes,
            "Total Allocated" => &mut self.memory.allocated,
            "Total Reserved" => &mut self.memory.reserved,
            _ => return self.read_other(key, object),
        };
        *number = object.next_value::<Integer>()?.0;
        Ok(())
    }

    fn read_other<A: MapAccess<'de>>(&mut self, key: &str, object: &mut A) -> Result<(), A::Error> {
        match key {
            "grid" => self.grid = object.next_value::<Extent>()?.0,
            "block" => self.block = object.next_value::<Extent>()?.0,
            "Input Dims" | "Input dims" => self.shapes = json(object)?,
            "Input type" => self.types = json(object)?,
            "Concrete Inputs" => self.inputs = json(object)?,
            "cuda_sync_kind" => self.sync_kind = object.next_value()?,
            "name" => self.name = object.next_value()?,
            "labels" => self.labels = object.next_value()?,
            _ => return self.read_collective(key, object),
        }
        Ok(())
    }

    fn read_collective<A: MapAccess<'de>>(
        &mut self,
        key: &str,
        object: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "Collective name" => self.collective().operation = object.next_value()?,
            "dtype" => self.collective().dtype = object.next_value()?,
            "Process Group Name" => self.collective().group = object.next_value()?,
            "Process Group Ranks" => self.collective().ranks = object.next_value()?,
            "In msg nelems" => self.collective().elements_in = object.next_value::<Integer>()?.0,
            "Out msg nelems" => self.collective().elements_out = object.next_value::<Integer>()?.0,
            "Group size" => self.collective().group_size = object.next_value::<Integer>()?.0,
            "Dst Rank" | "Src Rank" => self.collective().peer = object.next_value::<Integer>()?.0,
            "Seq" => self.collective().sequence = object.next_value::<Integer>()?.0,
            _ => drop(object.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }

    fn collective(&mut self) -> &mut CollectiveArgs<'de> {
        self.collective.get_or_insert_default()
    }
}

/// A value as it stands in the file.
fn json<'de, A: MapAccess<'de>>(object: &mut A) -> Result<&'de str, A::Error> {
    Ok(object.next_value::<&RawValue>()?.get())
}
