//! The GPU trace of `nsys stats` (`cuda_gpu_trace`, `gputrace` before 2022): one row a kernel or copy, with its times.
//!
//! Columns are those of the report script `cuda_gpu_trace.py`, in the CSV of which units stand in the heads
//! (`Start (ns),Duration (ns),CorrId,GrdX,…,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,
//! DstMemKd,Device,Ctx,GreenCtx,Strm,Name`); older ones have `(nsec)` and no `GreenCtx`. A megabyte is 10⁶ bytes and has
//! three digits behind the point, so sizes in it are exact to a kilobyte, and shared memory, which is smaller, is unknown.
//! The report names no process and no call.

use std::borrow::Cow;

use rooflens_schemas::{ArtifactKind, PassKind};

use super::stats_tables::{self, Table, number, tables};
use super::{Importer, IngestError, IngestErrorKind, MAX_GPUS, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::{
    Copy, CopyKind, Dim3, GpuId, Launch, MAX_DURATION, MAX_TIME, MemoryKind, Ns, PassId, ProcessId,
    Session,
};
use rooflens_units::Time;

/// Reads GPU traces of `nsys stats`.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NsysGpuTrace,
    sniff,
    import,
};

const MAX_BYTES: u64 = 2 << 30;

/// Bytes that a row takes until all are read: a launch, its name, its place.
const ROW_BYTES: u64 = 2 * size_of::<(Launch, String)>() as u64;

/// How copies and memsets are named in place of a kernel.
const MEMORY_OPERATION: &str = "[CUDA ";

/// Where the columns are; of times with nanoseconds per unit, of sizes with bytes per unit.
struct Columns {
    start: (usize, u32),
    duration: (usize, u32),
    name: usize,
    device: usize,
    stream: usize,
    correlation: Option<usize>,
    grid: Option<[usize; 3]>,
    block: Option<[usize; 3]>,
    registers: Option<usize>,
    shared: [Option<(usize, f64)>; 2],
    bytes: Option<(usize, f64)>,
    kinds: [Option<usize>; 2],
}

/// A row: what all have in common, and what it is.
struct Row {
    start: Ns,
    end: Ns,
    name: String,
    device: (u32, String),
    stream: u64,
    correlation: Option<i64>,
    work: Work,
}

enum Work {
    Kernel {
        grid: Dim3,
        block: Dim3,
        registers: Option<u32>,
        shared_bytes: Option<u32>,
    },
    Copy {
        kind: CopyKind,
        bytes: u64,
        memory: [MemoryKind; 2],
    },
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    find_table(&prefix.text()).is_some()
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((columns, table)) = find_table(&text) else {
        let message = "it is not the GPU trace of nsys stats".to_owned();
        return Err(IngestError::from(IngestErrorKind::Unsupported(message))
            .hint("nsys stats --report cuda_gpu_trace --format csv gives it"));
    };
    let room = session.room() / ROW_BYTES;
    if let Some(loss) = table.loss(file) {
        diagnostics.push(loss);
    }
    let (mut rows, mut bad, mut first_bad) = (Vec::new(), 0, None);
    table.rows(|line, cells| {
        match row(cells, &columns) {
            Some(_) if rows.len() as u64 >= room => return Err(IngestErrorKind::Budget.into()),
            Some(row) => rows.push(row),
            None => {
                bad += 1;
                first_bad.get_or_insert(line);
            }
        }
        Ok::<(), IngestError>(())
    })?;
    if let Some(line) = first_bad {
        let message = "rows without a start, a duration, a device, a stream or a name are skipped";
        let diagnostic = Diagnostic::new(Severity::DataLoss, "gpu-trace/row", message).times(bad);
        diagnostics.push(diagnostic.artifact(&file.path).at(Location::Line(line)));
    }
    if rows.is_empty() {
        return Err(IngestErrorKind::Empty("it lists no kernel and no copy".to_owned()).into());
    }
    if columns.bytes.is_some_and(|(_, scale)| scale > 1.0) {
        let message =
            "sizes of copies are rounded by the report, shared memory is not known exactly";
        let diagnostic = Diagnostic::new(Severity::Notice, "gpu-trace/rounded", message);
        let hint = "nsys export --type sqlite keeps all digits, calls and ranges";
        diagnostics.push(diagnostic.artifact(&file.path).hint(hint));
    }
    rows.sort_by_key(|row| row.start);
    commit(rows, file, session);
    Ok(())
}

/// The first table that is a trace.
fn find_table(text: &str) -> Option<(Columns, Table<'_>)> {
    tables(text).find_map(|table| Some((columns(&table)?, table)))
}

fn columns(table: &Table<'_>) -> Option<Columns> {
    let column = |name: &str| table.position(&[name]);
    let three = |names: [&str; 3]| Some([column(names[0])?, column(names[1])?, column(names[2])?]);
    let size = |name: &str| {
        let column = column(name)?;
        let scale = match table.columns[column].unit {
            "B" | "byte" | "bytes" => 1.0,
            "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            _ => return None,
        };
        Some((column, scale))
    };
    Some(Columns {
        start: table.time(&["Start"])?,
        duration: table.time(&["Duration"])?,
        name: column("Name")?,
        device: column("Device")?,
        stream: table.position(&["Strm", "Stream"])?,
        correlation: column("CorrId"),
        grid: three(["GrdX", "GrdY", "GrdZ"]),
        block: three(["BlkX", "BlkY", "BlkZ"]),
        registers: column("Reg/Trd"),
        shared: [size("StcSMem"), size("DymSMem")],
        bytes: size("Bytes"),
        kinds: [column("SrcMemKd"), column("DstMemKd")],
    })
}

fn row(cells: &[Cow<'_, str>], columns: &Columns) -> Option<Row> {
    let cell = |column: usize| {
        cells
            .get(column)
            .map(|cell| cell.as_ref())
            .filter(|cell| !cell.is_empty())
    };
    let start = time(cell(columns.start.0)?, columns.start.1)?;
    let duration = time(cell(columns.duration.0)?, columns.duration.1)?;
    if !(-MAX_TIME..=MAX_TIME).contains(&start) || !(Ns::ZERO..=MAX_DURATION).contains(&duration) {
        return None;
    }
    let name = cell(columns.name)?;
    let dim = |column: Option<[usize; 3]>| {
        let [x, y, z] = column?.map(|column| cell(column).and_then(number).unwrap_or(0));
        Some(Dim3 { x, y, z })
    };
    let work = if name.starts_with(MEMORY_OPERATION) {
        let size = columns
            .bytes
            .and_then(|(column, scale)| Some(number::<f64>(cell(column)?)? * scale));
        let memory = columns
            .kinds
            .map(|column| MemoryKind::of_name(column.and_then(cell).unwrap_or_default()));
        let bytes = size.filter(|size| (0.0..1e15).contains(size))?.round() as u64;
        Work::Copy {
            kind: copy_kind(name),
            bytes,
            memory,
        }
    } else {
        // Rounded sizes are none.
        let exact = |column: Option<(usize, f64)>| {
            let (column, scale) = column?;
            cell(column)
                .and_then(number::<u32>)
                .filter(|_| scale <= 1.0)
        };
        Work::Kernel {
            grid: dim(columns.grid).unwrap_or_default(),
            block: dim(columns.block).unwrap_or_default(),
            registers: columns.registers.and_then(cell).and_then(number),
            shared_bytes: exact(columns.shared[0])
                .zip(exact(columns.shared[1]))
                .map(|(fixed, dynamic)| fixed.saturating_add(dynamic)),
        }
    };
    Some(Row {
        start,
        end: start + duration,
        name: name.to_owned(),
        device: device(cell(columns.device)?)?,
        stream: number(cell(columns.stream)?)?,
        correlation: columns.correlation.and_then(cell).and_then(number),
        work,
    })
}

/// A time to the nanosecond: whole ones are exact at any size.
fn time(cell: &str, scale: u32) -> Option<Ns> {
    match number::<i64>(cell) {
        Some(whole) => whole.checked_mul(i64::from(scale)).map(Ns),
        None => stats_tables::time(cell, scale).map(Time::round),
    }
}

/// `NVIDIA H200 (0)`: the name and the number of a GPU.
fn device(cell: &str) -> Option<(u32, String)> {
    let (name, number) = match cell
        .strip_suffix(')')
        .and_then(|cell| cell.rsplit_once('('))
    {
        Some((name, number)) => (name.trim(), number),
        None => ("", cell),
    };
    let number = number
        .trim()
        .parse()
        .ok()
        .filter(|number| (*number as usize) < MAX_GPUS)?;
    Some((number, name.to_owned()))
}

/// `[CUDA memcpy HtoD]` and, from 2023 on, `[CUDA memcpy Host-to-Device]`.
fn copy_kind(name: &str) -> CopyKind {
    let is = |words: [&str; 2]| words.iter().any(|word| name.contains(word));
    let unified = name.contains("Unified");
    if name.contains("memset") {
        CopyKind::Memset
    } else if is(["HtoD", "Host-to-Device"]) {
        if unified {
            CopyKind::MigrateToDevice
        } else {
            CopyKind::HostToDevice
        }
    } else if is(["DtoH", "Device-to-Host"]) {
        if unified {
            CopyKind::MigrateToHost
        } else {
            CopyKind::DeviceToHost
        }
    } else if is(["DtoD", "Device-to-Device"]) {
        CopyKind::DeviceToDevice
    } else if is(["PtoP", "Peer-to-Peer"]) {
        CopyKind::PeerToPeer
    } else if is(["HtoH", "Host-to-Host"]) {
        CopyKind::HostToHost
    } else if name.contains("Array") || name.contains("toA]") || name.contains("AtoD") {
        CopyKind::Array
    } else {
        CopyKind::Unknown
    }
}

fn commit(rows: Vec<Row>, file: &ArtifactFile, session: &mut Session) {
    let pass = session.add_pass(&file.pass, PassKind::Timeline, &file.path);
    session.passes.producer[pass.index()] = session.intern("nsys stats");
    session.passes.rank[pass.index()] = file.rank;
    let process = session.process(pass, 0, 0);
    session.processes.rank[process.index()] = file.rank;
    for row in rows {
        let (ordinal, name) = &row.device;
        let gpu = session.gpu(pass, *ordinal);
        session.gpus.name[gpu.index()] = session.intern(name);
        add(row, (pass, gpu, process), session);
    }
}

fn add(row: Row, (pass, gpu, process): (PassId, GpuId, ProcessId), session: &mut Session) {
    let Row {
        start,
        end,
        stream,
        correlation,
        name,
        ..
    } = row;
    match row.work {
        Work::Kernel {
            grid,
            block,
            registers,
            shared_bytes,
        } => {
            let kernel = session.kernel(&name, "");
            session.launches.push(Launch {
                start,
                end,
                kernel,
                pass,
                gpu,
                process,
                stream,
                correlation,
                grid,
                block,
                registers,
                shared_bytes,
                graph_node: None,
                graph: None,
            });
        }
        Work::Copy {
            kind,
            bytes,
            memory: [source, destination],
        } => {
            session.copies.push(Copy {
                start,
                end,
                kind,
                bytes,
                source,
                destination,
                pass,
                gpu,
                process,
                stream,
                correlation,
                graph_node: None,
                graph: None,
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{import_bytes, sniffs};

    const TRACE: &str = include_str!("../../../tests/data/seeds/gpu_trace.csv");

    fn import_text(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
        import_bytes(&IMPORTER, "trace.csv", text)
    }

    #[test]
    fn a_trace_is_a_timeline_of_kernels_and_copies() {
        let (result, session, diagnostics) = import_text(TRACE);
        assert!(result.is_ok());
        let (launches, copies) = (&session.launches, &session.copies);
        assert_eq!(
            (launches.start[0], launches.end[0], launches.stream[0]),
            (Ns(200), Ns(250), 7)
        );
        assert_eq!(
            session.kernel_name(launches.kernel[0]),
            "void f<int, 2>(T1)"
        );
        assert_eq!((launches.grid[0].x, launches.block[0].x), (4, 256));
        assert_eq!(
            (launches.registers[0], launches.shared_bytes[0]),
            (Some(40), None)
        );
        assert_eq!((copies.start[0], copies.bytes[0]), (Ns(100), 4_194_000));
        assert_eq!(
            (copies.kind[0], copies.source[0]),
            (CopyKind::HostToDevice, MemoryKind::Pageable)
        );
        assert_eq!(session.text(session.gpus.name[0]), "NVIDIA H200");
        assert_eq!(session.gpus.ordinal, [1]);
        assert_eq!(
            diagnostics
                .iter()
                .map(|diagnostic| diagnostic.code)
                .collect::<Vec<_>>(),
            ["gpu-trace/rounded"]
        );
    }

    #[test]
    fn other_units_and_the_console_are_read() {
        let old = "Start (usec),Duration (usec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (B),DymSMem (B),Bytes (B),Throughput,SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n\
            1.5,2,12,4,1,1,256,1,1,40,16,49152,,,,,A (0),1,7,k\n";
        let (_, session, _) = import_text(old);
        assert_eq!(
            (session.launches.start[0], session.launches.end[0]),
            (Ns(1500), Ns(3500))
        );
        assert_eq!(session.launches.shared_bytes[0], Some(49_168));
        let console = " ** CUDA GPU Trace (cuda_gpu_trace):\n\n Start (ns)  Duration (ns)  CorrId  GrdX  Device  Ctx  Strm  Name  \n ----------  -------------  ------  ----  ------  ---  ----  ------\n  1,234,567            890      12     4  A (0)     1     7  f(int)\n\n";
        let (result, session, _) = import_text(console);
        assert!(result.is_ok());
        assert_eq!(
            (session.launches.start[0], session.launches.end[0]),
            (Ns(1_234_567), Ns(1_235_457))
        );
        assert_eq!(session.kernel_name(session.launches.kernel[0]), "f(int)");
    }

    #[test]
    fn damaged_rows_are_counted_and_others_kept() {
        let text = format!(
            "{TRACE}9223372036854775807,9,1,,,,,,,,,,,,,,A (0),1,,7,k\n5,-1,1,,,,,,,,,,,,,,A (0),1,,7,k\n300,1\n"
        );
        let (result, session, diagnostics) = import_text(&text);
        assert!(result.is_ok());
        assert_eq!((session.launches.len(), session.copies.len()), (1, 1));
        let loss = diagnostics.iter().next().unwrap();
        assert_eq!((loss.count, &loss.at), (3, &Location::Line(4)));
        let head = &TRACE[..TRACE.find('\n').unwrap() + 1];
        assert!(import_text(head).0.is_err());
        assert!(sniffs(&IMPORTER, "x", TRACE));
        assert!(!sniffs(&IMPORTER, "x", b"Start (ns),Duration (ns),Name\n"));
    }
}
