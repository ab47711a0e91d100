//! One trace event with the arguments that we know, over all generations of the format.

use super::json::{Invalid, Json, Value};
use super::value::{Name, Text};
use rooflens_session::{Dim3, Ns};

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
    pub(super) strides: &'a str,
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

impl<'a> Event<'a> {
    /// Reads the object of an event. An event is large: it is filled where it lies, never moved.
    pub(super) fn read(&mut self, json: &mut Json<'a>) -> Result<(), Invalid> {
        json.object(|json, key| {
            if key == "args" && json.is_object() {
                return json.object(|json, key| self.args.read(key, json.value()?));
            }
            let value = json.value()?;
            match key {
                "ph" => self.phase = value.text()?,
                "cat" => self.category = value.text()?,
                "name" => self.name = value.text()?,
                "pid" => self.pid = value.name()?,
                "tid" => self.tid = value.name()?,
                "ts" => self.start = value.time(),
                "dur" => self.duration = value.time(),
                "id" => self.id = value.integer()?,
                _ => {}
            }
            Ok(())
        })
    }
}

impl<'a> Args<'a> {
    fn read(&mut self, key: &str, value: Value<'a>) -> Result<(), Invalid> {
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
            _ => return self.read_other(key, value),
        };
        *number = value.integer()?;
        Ok(())
    }

    fn read_other(&mut self, key: &str, value: Value<'a>) -> Result<(), Invalid> {
        match key {
            "grid" => self.grid = value.extent()?,
            "block" => self.block = value.extent()?,
            "Input Dims" | "Input dims" => self.shapes = value.json,
            "Input Strides" => self.strides = value.json,
            "Input type" => self.types = value.json,
            "Concrete Inputs" => self.inputs = value.json,
            "cuda_sync_kind" => self.sync_kind = value.text()?,
            "name" => self.name = value.text()?,
            "labels" => self.labels = value.text()?,
            _ => return self.read_collective(key, value),
        }
        Ok(())
    }

    fn read_collective(&mut self, key: &str, value: Value<'a>) -> Result<(), Invalid> {
        match key {
            "Collective name" => self.collective().operation = value.text()?,
            "dtype" => self.collective().dtype = value.text()?,
            "Process Group Name" => self.collective().group = value.text()?,
            "Process Group Ranks" => self.collective().ranks = value.text()?,
            "In msg nelems" => self.collective().elements_in = value.integer()?,
            "Out msg nelems" => self.collective().elements_out = value.integer()?,
            "Group size" => self.collective().group_size = value.integer()?,
            "Dst Rank" | "Src Rank" => self.collective().peer = value.integer()?,
            "Seq" => self.collective().sequence = value.integer()?,
            _ => {}
        }
        Ok(())
    }

    fn collective(&mut self) -> &mut CollectiveArgs<'a> {
        self.collective.get_or_insert_default()
    }
}
