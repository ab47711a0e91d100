//! The tables of work: kernel dispatches, memory copies, regions.

use super::{Import, Names, Track};
use crate::IngestError;
use crate::database::{Row, RowError, Want};
use rooflens_session::{
    ApiCall, ApiLevel, Copy, CopyKind, Dim3, GpuId, Launch, MAX_DURATION, MAX_TIME, MemoryKind, Ns,
    ProcessId, Range, RangeKind, StrId, ThreadId,
};
use serde::Deserialize;

use Want::{May, Need};

/// Columns that all tables of work begin with: of schema 3, then of schema 4.
const COMMON: [Want; 11] = [
    May(&["start"]),
    May(&["end"]),
    May(&["start_id"]),
    May(&["end_id"]),
    May(&["track_id"]),
    May(&["pid"]),
    May(&["tid"]),
    May(&["agent_id"]),
    May(&["queue_id"]),
    May(&["stream_id"]),
    May(&["event_id"]),
];

/// The columns that all rows of work share.
struct Common {
    start: Ns,
    end: Ns,
    track: Track,
    event: Option<i64>,
}

impl Common {
    fn read(row: &Row<'_>, names: &Names) -> Result<Self, RowError> {
        let time = |inline: usize, id: usize| match (row.maybe_time(inline)?, row.maybe(id)?) {
            (Some(time), _) => Ok(time),
            (None, Some(id)) => names
                .times
                .get(&id)
                .copied()
                .ok_or_else(|| format!("no timestamp {id}")),
            (None, None) => Err("start or end is NULL".to_owned()),
        };
        let (start, end) = (time(0, 2)?, time(1, 3)?);
        let is_time = start >= -MAX_TIME && end <= MAX_TIME && start <= end;
        if !is_time || end - start > MAX_DURATION {
            return Err(format!("{} to {} is no time of a capture", start.0, end.0));
        }
        let of_track = row
            .maybe(4)?
            .and_then(|track| names.tracks.get(&track))
            .copied();
        let Track {
            process,
            thread,
            agent,
            queue,
            stream,
        } = of_track.unwrap_or_default();
        let track = Track {
            process: row.maybe(5)?.or(process),
            thread: row.maybe(6)?.or(thread),
            agent: row.maybe(7)?.or(agent),
            queue: row.maybe(8)?.or(queue),
            stream: row.maybe(9)?.or(stream),
        };
        Ok(Self {
            start,
            end,
            track,
            event: row.maybe(10)?,
        })
    }

    fn process(&self, names: &Names) -> Result<ProcessId, RowError> {
        let process = self
            .track
            .process
            .and_then(|process| names.processes.get(&process));
        process
            .copied()
            .ok_or_else(|| format!("no process {:?}", self.track.process))
    }

    fn stream(&self) -> u64 {
        // Without streams all work has stream 0, and its queue tells.
        let stream = self
            .track
            .stream
            .filter(|stream| *stream > 0)
            .or(self.track.queue);
        stream
            .and_then(|stream| u64::try_from(stream).ok())
            .unwrap_or(0)
    }

    fn correlation(&self, names: &Names) -> Option<i64> {
        names
            .events
            .get(&self.event?)?
            .stack
            .filter(|stack| *stack != 0)
    }
}

/// A region of the host: a call or a range.
struct Region {
    start: Ns,
    end: Ns,
    name: String,
    is_range: bool,
    level: ApiLevel,
    process: ProcessId,
    thread: ThreadId,
    correlation: Option<i64>,
}

/// Additional data of a marker's region.
#[derive(Deserialize)]
struct Extra {
    message: String,
}

impl Import<'_> {
    /// Reads all work.
    pub(super) fn work(&mut self) -> Result<(), IngestError> {
        self.dispatches()?;
        self.copies()?;
        self.regions()
    }

    fn dispatches(&mut self) -> Result<(), IngestError> {
        let columns = [
            Need("kernel_id"),
            May(&["group_segment_size"]),
            May(&["workgroup_size_x"]),
            May(&["workgroup_size_y"]),
            May(&["workgroup_size_z"]),
            May(&["grid_size_x"]),
            May(&["grid_size_y"]),
            May(&["grid_size_z"]),
        ];
        let (pass, names) = (self.pass, std::mem::take(&mut self.names));
        let rows = self.scan("rocpd_kernel_dispatch", &wants(&columns), |out, row| {
            let common = Common::read(row, &names)?;
            let number = row.int(11)?;
            let kernel = names
                .kernels
                .get(&number)
                .ok_or_else(|| format!("no kernel {number}"))?;
            let gpu = common.track.agent.and_then(|agent| names.gpus.get(&agent));
            let gpu = gpu.ok_or_else(|| format!("no GPU {:?}", common.track.agent))?;
            let size = |column| row.maybe_fit::<u32>(column).map(|size| size.unwrap_or(0));
            let block = Dim3 {
                x: size(13)?,
                y: size(14)?,
                z: size(15)?,
            };
            let items = Dim3 {
                x: size(16)?,
                y: size(17)?,
                z: size(18)?,
            };
            out.push(Some(Launch {
                start: common.start,
                end: common.end,
                kernel: kernel.0,
                pass,
                gpu: *gpu,
                process: common.process(&names)?,
                stream: common.stream(),
                correlation: common.correlation(&names),
                grid: groups(items, block),
                block,
                registers: kernel.1,
                shared_bytes: row.maybe_fit(12)?,
                graph_node: None,
                graph: None,
            }));
            Ok(())
        });
        self.names = names;
        for launch in rows?.into_iter().flatten() {
            self.session.launches.push(launch);
        }
        Ok(())
    }

    fn copies(&mut self) -> Result<(), IngestError> {
        let columns = [
            Need("name_id"),
            Need("size"),
            May(&["dst_agent_id"]),
            May(&["src_agent_id"]),
        ];
        let (pass, names) = (self.pass, std::mem::take(&mut self.names));
        let rows = self.scan("rocpd_memory_copy", &wants(&columns), |out, row| {
            let common = Common::read(row, &names)?;
            let name = names.texts.get(&row.int(11)?).map_or("", String::as_str);
            let gpu = |column| -> Result<Option<GpuId>, RowError> {
                Ok(row
                    .maybe(column)?
                    .and_then(|agent| names.gpus.get(&agent))
                    .copied())
            };
            let (to, from) = (gpu(13)?, gpu(14)?);
            let of_track = || names.gpus.get(&common.track.agent?).copied();
            let gpu = to
                .or(from)
                .or_else(of_track)
                .ok_or("neither agent is a GPU")?;
            let memory = |gpu: Option<GpuId>| match gpu {
                Some(_) => MemoryKind::Device,
                None => MemoryKind::Unknown,
            };
            out.push(Some(Copy {
                start: common.start,
                end: common.end,
                kind: copy_kind(name, from, to),
                bytes: row.fit(12)?,
                source: memory(from),
                destination: memory(to),
                pass,
                gpu,
                process: common.process(&names)?,
                stream: common.stream(),
                correlation: common.correlation(&names),
                graph_node: None,
                graph: None,
            }));
            Ok(())
        });
        self.names = names;
        for copy in rows?.into_iter().flatten() {
            self.session.copies.push(copy);
        }
        Ok(())
    }

    fn regions(&mut self) -> Result<(), IngestError> {
        let columns = [Need("name_id"), May(&["extdata"])];
        let names = std::mem::take(&mut self.names);
        let rows = self.scan("rocpd_region", &wants(&columns), |out, row| {
            let common = Common::read(row, &names)?;
            let name = names
                .texts
                .get(&row.int(11)?)
                .ok_or("its name is missing")?;
            let event = common.event.and_then(|event| names.events.get(&event));
            let category = event
                .and_then(|event| names.category(event.category))
                .unwrap_or("");
            let is_range = category.starts_with("MARKER");
            let level = match category {
                _ if category.starts_with("HIP") => ApiLevel::Runtime,
                _ if category.starts_with("HSA") => ApiLevel::Driver,
                _ if is_range => ApiLevel::Runtime,
                // Calls of other libraries enclose those of HIP.
                _ => return Ok(()),
            };
            // The text of a range is in `extdata`; the name is that of the call that opened it.
            let message = |text: &str| serde_json::from_str::<Extra>(text).ok();
            let message = row.text(12).filter(|_| is_range).and_then(message);
            let thread = common
                .track
                .thread
                .and_then(|thread| names.threads.get(&thread));
            out.push(Some(Region {
                start: common.start,
                end: common.end,
                name: message.map_or_else(|| name.clone(), |extra| extra.message),
                is_range,
                level,
                process: common.process(&names)?,
                thread: *thread.ok_or_else(|| format!("no thread {:?}", common.track.thread))?,
                correlation: common.correlation(&names),
            }));
            Ok(())
        });
        self.names = names;
        for region in rows?.into_iter().flatten() {
            self.region(&region);
        }
        Ok(())
    }

    fn region(&mut self, region: &Region) {
        let Region {
            start,
            end,
            level,
            process,
            thread,
            correlation,
            ..
        } = *region;
        let (pass, name) = (self.pass, self.session.intern(&region.name));
        if !region.is_range {
            let call = ApiCall {
                start,
                end,
                name,
                level,
                nested: false,
                pass,
                process,
                thread,
                correlation,
            };
            self.session.api_calls.push(call);
        } else if start < end {
            let (domain, kind) = (StrId::default(), RangeKind::PushPop);
            let range = Range {
                start,
                end,
                name,
                domain,
                kind,
                unclosed: false,
                pass,
                thread,
            };
            self.session.ranges.push(range);
        }
    }
}

impl Names {
    fn category(&self, id: i64) -> Option<&str> {
        self.categories
            .as_ref()
            .unwrap_or(&self.texts)
            .get(&id)
            .map(String::as_str)
    }
}

fn wants(own: &[Want]) -> Vec<Want> {
    COMMON.iter().chain(own).copied().collect()
}

/// Workgroups of a grid of so many work-items.
fn groups(items: Dim3, block: Dim3) -> Dim3 {
    let workgroups = |items: u32, block: u32| items.div_ceil(block.max(1));
    Dim3 {
        x: workgroups(items.x, block.x),
        y: workgroups(items.y, block.y),
        z: workgroups(items.z, block.z),
    }
}

/// By the operation's name, such as `MEMORY_COPY_HOST_TO_DEVICE`.
fn copy_kind(name: &str, from: Option<GpuId>, to: Option<GpuId>) -> CopyKind {
    match name {
        _ if name.ends_with("HOST_TO_DEVICE") => CopyKind::HostToDevice,
        _ if name.ends_with("DEVICE_TO_HOST") => CopyKind::DeviceToHost,
        _ if name.ends_with("DEVICE_TO_DEVICE") && from != to => CopyKind::PeerToPeer,
        _ if name.ends_with("DEVICE_TO_DEVICE") => CopyKind::DeviceToDevice,
        _ if name.ends_with("HOST_TO_HOST") => CopyKind::HostToHost,
        _ => CopyKind::Unknown,
    }
}
