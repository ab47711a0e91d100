//! What rows refer to: texts, processes, threads, GPUs, kernels, events, times.

use super::{Event, Import, METADATA, Track};
use crate::database::Want::{May, Need};
use crate::{IngestError, check_count};

/// Bits of a process's number in its file, above those of the tables' own numbers.
const NUMBER_SHIFT: u32 = 40;

impl Import<'_> {
    /// Reads everything that the tables of work refer to.
    pub(super) fn info(&mut self) -> Result<(), IngestError> {
        self.version()?;
        let texts = self.scan("rocpd_string", &[Need("id"), Need("string")], |out, row| {
            out.push((row.int(0)?, row.text(1).unwrap_or_default().to_owned()));
            Ok(())
        })?;
        self.names.texts = texts.into_iter().collect();
        self.processes()?;
        self.threads()?;
        self.agents()?;
        self.kernels()?;
        self.events()
    }

    fn version(&mut self) -> Result<(), IngestError> {
        let facts = self.scan(METADATA, &[Need("tag"), Need("value")], |out, row| {
            let text = |column| row.text(column).unwrap_or_default().to_owned();
            out.push((text(0), text(1)));
            Ok(())
        })?;
        let version = facts.iter().find(|(tag, _)| tag == "schema_version");
        let version = version.map_or("", |(_, version)| version);
        let producer = format!("rocprofv3, rocpd schema {version}");
        self.session.passes.producer[self.pass.index()] = self.session.intern(producer.trim_end());
        Ok(())
    }

    fn processes(&mut self) -> Result<(), IngestError> {
        let wants = [Need("id"), Need("pid"), May(&["command"])];
        let rows = self.scan("rocpd_info_process", &wants, |out, row| {
            out.push((
                row.int(0)?,
                row.int(1)?,
                row.text(2).unwrap_or_default().to_owned(),
            ));
            Ok(())
        })?;
        check_count("processes", rows.len())?;
        for (id, pid, command) in rows {
            let native = (self.number << NUMBER_SHIFT) | (id & ((1 << NUMBER_SHIFT) - 1));
            let process = self.session.process(self.pass, native, pid);
            let name = self.session.intern(&command);
            self.session.processes.name[process.index()] = name;
            self.session.processes.rank[process.index()] = self.file.rank;
            self.names.processes.insert(id, process);
        }
        Ok(())
    }

    fn threads(&mut self) -> Result<(), IngestError> {
        let wants = [Need("id"), Need("pid"), Need("tid"), May(&["name"])];
        let rows = self.scan("rocpd_info_thread", &wants, |out, row| {
            let name = row.text(3).unwrap_or_default().to_owned();
            out.push((row.int(0)?, row.int(1)?, row.int(2)?, name));
            Ok(())
        })?;
        for (id, process, tid, name) in rows {
            let Some(process) = self.names.processes.get(&process) else {
                continue;
            };
            let thread = self.session.thread(*process, tid);
            self.session.threads.name[thread.index()] = self.session.intern(&name);
            self.names.threads.insert(id, thread);
        }
        Ok(())
    }

    fn agents(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("id"),
            Need("type"),
            May(&["type_index", "logical_index"]),
            May(&["product_name"]),
            May(&["model_name"]),
            May(&["name"]),
        ];
        let rows = self.scan("rocpd_info_agent", &wants, |out, row| {
            if row.text(1) == Some("GPU") {
                let names = [3, 4, 5].map(|column| row.text(column).unwrap_or_default().trim());
                let name = names
                    .into_iter()
                    .find(|name| !name.is_empty())
                    .unwrap_or_default();
                out.push((row.int(0)?, row.maybe_fit::<u32>(2)?, name.to_owned()));
            }
            Ok(())
        })?;
        check_count("GPUs", rows.len())?;
        for (position, (id, ordinal, name)) in (0..).zip(rows) {
            let gpu = self
                .session
                .gpu(self.pass, ordinal.unwrap_or(position).min(0xffff));
            self.session.gpus.name[gpu.index()] = self.session.intern(&name);
            self.names.gpus.insert(id, gpu);
        }
        Ok(())
    }

    fn kernels(&mut self) -> Result<(), IngestError> {
        let wants = [
            Need("id"),
            May(&["display_name"]),
            May(&["kernel_name"]),
            May(&["arch_vgpr_count"]),
            May(&["accum_vgpr_count"]),
        ];
        let rows = self.scan("rocpd_info_kernel_symbol", &wants, |out, row| {
            let names = [1, 2].map(|column| row.text(column).unwrap_or_default());
            let name = names
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or_default();
            // The name of the code object's descriptor.
            let name = name.strip_suffix(".kd").unwrap_or(name);
            let registers = [row.maybe_fit::<u32>(3)?, row.maybe_fit::<u32>(4)?];
            let registers = registers.into_iter().flatten().reduce(u32::saturating_add);
            out.push((row.int(0)?, name.to_owned(), registers));
            Ok(())
        })?;
        for (id, name, registers) in rows {
            let kernel = self.session.kernel(&name, "");
            self.names.kernels.insert(id, (kernel, registers));
        }
        Ok(())
    }

    fn events(&mut self) -> Result<(), IngestError> {
        let wants = [Need("id"), May(&["stack_id"]), May(&["category_id"])];
        let events = self.scan("rocpd_event", &wants, |out, row| {
            let (stack, category) = (row.maybe(1)?, row.maybe(2)?.unwrap_or(-1));
            out.push((row.int(0)?, Event { stack, category }));
            Ok(())
        })?;
        self.names.events = events.into_iter().collect();
        let times = self.scan(
            "rocpd_timestamp",
            &[Need("id"), Need("value")],
            |out, row| {
                out.push((row.int(0)?, row.time(1)?));
                Ok(())
            },
        )?;
        self.names.times = times.into_iter().collect();
        let wants = [
            Need("id"),
            May(&["pid"]),
            May(&["tid"]),
            May(&["agent_id"]),
            May(&["queue_id"]),
            May(&["stream_id"]),
        ];
        let tracks = self.scan("rocpd_track", &wants, |out, row| {
            let [process, thread, agent, queue, stream] = [
                row.maybe(1)?,
                row.maybe(2)?,
                row.maybe(3)?,
                row.maybe(4)?,
                row.maybe(5)?,
            ];
            out.push((
                row.int(0)?,
                Track {
                    process,
                    thread,
                    agent,
                    queue,
                    stream,
                },
            ));
            Ok(())
        })?;
        self.names.tracks = tracks.into_iter().collect();
        // Schema 4 has a table of categories; before, they are texts.
        let categories = self.scan(
            "rocpd_info_category",
            &[Need("id"), Need("name")],
            |out, row| {
                out.push((row.int(0)?, row.text(1).unwrap_or_default().to_owned()));
                Ok(())
            },
        )?;
        self.names.categories = (!categories.is_empty()).then(|| categories.into_iter().collect());
        Ok(())
    }
}
