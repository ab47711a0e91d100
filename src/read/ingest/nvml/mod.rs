//! Device samples: our sampler's CSV, logs of `nvidia-smi --query-gpu … --format=csv`, of `dmon` and `pmon`, and what
//! DCGM's exporter gives.
//!
//! Tables stand under a header; a column that is not known is not read, a cell without a number is missing. Rows
//! without a time are states of GPUs.
//!
//! The sources share columns but no header: each dialect maps its names to one set of fields, and everything after that
//! is common. One reader for each tool was rejected, because units, absent cells and time zones would be handled again in each.
//! A table without a known column of a GPU is refused, so that logs of other programs are not read as samples.

mod columns;
mod dcgm;
mod table;

use rooflens_schemas::ArtifactKind;

use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::{DeviceSample, GpuSnapshot, ProcessSample, Session};
use table::{Dialect, ProcessRow, State, Table};

/// Reads NVML samples.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::NvmlCsv,
    sniff,
    import,
};

/// A week of samples of eight GPUs every 20 ms would be 20 times this.
const MAX_BYTES: u64 = 1 << 30;

fn sniff(prefix: &Prefix<'_>) -> bool {
    let text = prefix.text();
    dcgm::is_scrape(&text) || Table::find(&text).is_some()
}

/// True if a file is text of DCGM's exporter, of which load tests make more.
pub fn is_dcgm(file: &ArtifactFile) -> bool {
    let prefix = file.content().and_then(|content| content.prefix(64 << 10));
    prefix.is_ok_and(|bytes| dcgm::is_scrape(&String::from_utf8_lossy(&bytes)))
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.bytes(MAX_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    if dcgm::is_scrape(&text) {
        return dcgm::import(&text, file, session, diagnostics);
    }
    let Some(table) = Table::find(&text) else {
        let message = "it has no header of NVML samples, nvidia-smi --query-gpu or dmon".to_owned();
        return Err(IngestError::from(IngestErrorKind::Unsupported(message)).hint(
            "record with --format=csv (not noheader), with timestamp and index among the columns",
        ));
    };
    let artifact = session.intern(&file.path);
    let read = table.read(artifact, session.room() / size_of::<GpuSnapshot>() as u64);
    if read.rows() == 0
        && let Some(line) = read.first_lost
    {
        let rows = read.lost_rows;
        let message =
            format!("none of its {rows} rows has all cells and a time that is understood");
        return Err(IngestError::from(IngestErrorKind::Unsupported(message))
            .at(Location::Line(line))
            .hint(
                "times look like 2024/01/31 12:00:00.250, with - for / and T for the blank too",
            ));
    }
    if read.rows() == 0 {
        return Err(IngestErrorKind::Empty("it has a header but no sample".to_owned()).into());
    }
    say(&table, &read, file, diagnostics);
    if read.full {
        diagnostics.push(IngestError::from(IngestErrorKind::Budget).into_diagnostic(&file.path));
    }
    for sample in read.samples {
        session.device_samples.push(sample);
    }
    for state in read.states {
        let row = snapshot(&state, session);
        session.gpu_snapshots.push(row);
    }
    for row in read.processes {
        let command = session.intern(row.command);
        session.process_samples.push(ProcessSample {
            artifact,
            device: row.device,
            pid: row.pid,
            command,
            gpu_util: row.gpu_util,
            memory_util: row.memory_util,
        });
    }
    Ok(())
}

/// A row without a time is the state of a GPU at a moment that nobody noted.
fn snapshot(state: &State<'_>, session: &mut Session) -> GpuSnapshot {
    let mut name = |text: Option<&str>| text.map(|text| session.intern(text));
    let sample = &state.sample;
    GpuSnapshot {
        name: name(state.name),
        performance_state: name(state.performance_state),
        sm_mhz: sample.sm_mhz,
        sm_max_mhz: state.sm_max,
        memory_mhz: sample.memory_mhz,
        memory_max_mhz: state.memory_max,
        power_mw: sample.power_mw,
        power_limit_mw: state.power_limit,
        temperature: sample.temperature,
        memory_used: sample.memory_used,
        memory_total: state.memory_total,
        gpu_util: sample.gpu_util,
        memory_util: sample.memory_util,
        throttle_reasons: sample.throttle_reasons,
        ..GpuSnapshot::of(sample.artifact, sample.device)
    }
}

/// Rows that were read, and counts of the rest.
struct Read<'a> {
    samples: Vec<DeviceSample>,
    /// Rows of a table without times.
    states: Vec<State<'a>>,
    /// Rows of processes.
    processes: Vec<ProcessRow<'a>>,
    /// Rows that say that no process ran.
    idle: u64,
    /// Rows without a time, or with too few cells; the line of the first.
    lost_rows: u64,
    first_lost: Option<u64>,
    /// Cells that are neither a number nor a way to say that there is none.
    lost_cells: u64,
    /// The last line has no end and was skipped.
    cut: bool,
    /// There were more samples than the input may have.
    full: bool,
}

impl Read<'_> {
    /// Rows that were understood.
    const fn rows(&self) -> usize {
        self.samples.len() + self.states.len() + self.processes.len() + self.idle as usize
    }
}

fn say(table: &Table<'_>, read: &Read<'_>, file: &ArtifactFile, diagnostics: &mut Diagnostics) {
    let mut push = |severity, code, message: &str, count: u64, line: Option<u64>| {
        let location = line.map_or(Location::Whole, Location::Line);
        let diagnostic = Diagnostic::new(severity, code, message)
            .times(count)
            .at(location);
        diagnostics.push(diagnostic.artifact(&file.path));
    };
    if !table.has_time() {
        let message =
            "the rows have no time: they are read in order, and nothing is told over time";
        push(Severity::Notice, "nvml/no-time", message, 1, None);
    } else if table.dialect != Dialect::Sampler {
        let message =
            "nvidia-smi writes local time without a zone: the samples are placed as if it were UTC";
        push(Severity::Notice, "nvml/local-time", message, 1, None);
    }
    if table.dialect == Dialect::Headerless {
        let message = format!(
            "the log has no header: columns are taken by their units ({}), others are not read",
            table.assumed()
        );
        push(Severity::Notice, "nvml/no-header", &message, 1, None);
    }
    if matches!(table.dialect, Dialect::Query | Dialect::Headerless) && !table.names_device() {
        let message = "the rows do not say which GPU they are of: all are counted to GPU 0";
        push(Severity::Notice, "nvml/no-device", message, 1, None);
    }
    if read.lost_rows > 0 {
        let message = "rows without a time or with too few cells are skipped";
        push(
            Severity::DataLoss,
            "nvml/row",
            message,
            read.lost_rows,
            read.first_lost,
        );
    }
    if read.lost_cells > 0 {
        let message = "cells that are not numbers are skipped";
        push(
            Severity::DataLoss,
            "nvml/cell",
            message,
            read.lost_cells,
            None,
        );
    }
    if read.cut {
        let message = "the last line has no end: it may be cut and is skipped";
        push(Severity::DataLoss, "nvml/cut", message, 1, None);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{import_bytes, sniffs};
    use rooflens_session::Ns;

    fn import_text(text: &str) -> (Result<(), IngestError>, Session, Vec<&'static str>) {
        let (result, session, diagnostics) = import_bytes(&IMPORTER, "nvml.csv", text);
        (
            result,
            session,
            diagnostics.iter().map(|d| d.code).collect(),
        )
    }

    #[test]
    fn our_samples_are_read_as_they_are() {
        let (result, session, codes) = import_text(
            "t_ns,power_mw,sm_mhz,mem_mhz,util_gpu_pct,util_mem_pct,temp_c,mem_used_bytes,throttle_reasons\n\
             1795223739227768002,138621,1980,3201,3,1,44,4653449216,4\n\
             1795223739250272727,,1980,3201,3,1,44,4653449216,0\n",
        );
        assert!(result.is_ok());
        let samples = &session.device_samples;
        assert_eq!(
            samples.utc,
            [Ns(1795223739227768002), Ns(1795223739250272727)]
        );
        assert_eq!(samples.power_mw, [Some(138621), None]);
        assert_eq!(
            (samples.memory_used[0], samples.throttle_reasons[0]),
            (Some(4653449216), Some(4))
        );
        assert!(codes.is_empty());
    }

    #[test]
    fn a_query_log_has_units_several_gpus_and_missing_cells() {
        let (result, session, codes) = import_text(
            "timestamp, index, power.draw [W], clocks.current.sm [MHz], memory.used [MiB], clocks_event_reasons.active\n\
             2024/01/31 12:00:00.250, 0, 38.74 W, 210 MHz, 2 MiB, 0x0000000000000001\n\
             2024/01/31 12:00:00.250, 1, [N/A], 1410 MHz, 3 MiB, 0x0000000000000004\n\
             timestamp, index, power.draw [W], clocks.current.sm [MHz], memory.used [MiB], clocks_event_reasons.active\n\
             2024/01/31 12:00:01.250, 0, bad, 210 MHz\n",
        );
        assert!(result.is_ok());
        let samples = &session.device_samples;
        // 2024-01-31T12:00:00Z is 1706702400 s after the epoch (date -u -d … +%s).
        assert_eq!(samples.utc, [Ns(1_706_702_400_250_000_000); 2]);
        assert_eq!(
            (samples.device.as_slice(), samples.power_mw[0]),
            (&[0, 1][..], Some(38_740))
        );
        assert_eq!(
            (samples.power_mw[1], samples.memory_used[1]),
            (None, Some(3 << 20))
        );
        assert_eq!(samples.throttle_reasons, [Some(1), Some(4)]);
        assert_eq!(codes, ["nvml/local-time", "nvml/row"]);
    }

    #[test]
    fn without_units_the_header_still_tells_them() {
        let (_, session, codes) = import_text(
            "timestamp, uuid, memory.used [MiB], utilization.gpu [%]\n\
             2024/01/31 12:00:00, GPU-b, 10, 99\n2024/01/31 12:00:00, GPU-a, 11, 98\n\
             2024/01/31 12:00:01, GPU-b, 12, x\n",
        );
        let samples = &session.device_samples;
        // GPUs are numbered in the order of their appearance.
        assert_eq!(samples.device, [0, 1, 0]);
        assert_eq!(
            samples.memory_used,
            [Some(10 << 20), Some(11 << 20), Some(12 << 20)]
        );
        assert_eq!(samples.gpu_util, [Some(99), Some(98), None]);
        assert_eq!(codes, ["nvml/local-time", "nvml/cell"]);
    }

    #[test]
    fn a_line_without_an_end_is_not_trusted() {
        let (_, session, codes) = import_text("t_ns,power_mw\n10,100\n20,2");
        assert_eq!(session.device_samples.power_mw, [Some(100)]);
        assert_eq!(codes, ["nvml/cut"]);
    }

    #[test]
    fn dmon_is_read_with_times_and_without() {
        let (result, session, _) = import_text(
            "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk\n\
             #YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz\n\
             \u{20}20240131   12:00:00      1     70     44      -     99     40   3201   1980\n",
        );
        assert!(result.is_ok());
        let samples = &session.device_samples;
        assert_eq!(
            (samples.utc[0], samples.device[0]),
            (Ns(1_706_702_400_000_000_000), 1)
        );
        assert_eq!(
            (samples.power_mw[0], samples.temperature[0]),
            (Some(70_000), Some(44))
        );
        assert_eq!(
            (samples.sm_mhz[0], samples.memory_mhz[0]),
            (Some(1980), Some(3201))
        );
        assert_eq!(
            (samples.gpu_util[0], samples.memory_util[0]),
            (Some(99), Some(40))
        );

        let (_, session, codes) =
            import_text("# gpu    pwr\n# Idx      W\n    0     70\n    1     71\n    0     90\n");
        assert!(session.device_samples.is_empty());
        let states = &session.gpu_snapshots;
        assert_eq!(
            (states.device.as_slice(), states.power_mw[2]),
            (&[0, 1, 0][..], Some(90_000))
        );
        assert_eq!(codes, ["nvml/no-time"]);
    }

    #[test]
    fn pmon_has_a_row_a_process() {
        let (_, session, codes) = import_text(
            "# gpu   pid  type    sm   mem   enc   dec   command\n# Idx     #   C/G     %     %     %     %   name\n\
             0   4242     C    45    12     -     -   python\n    1      -     -     -     -     -     -   -\n",
        );
        let samples = &session.process_samples;
        assert_eq!(
            (samples.len(), samples.pid[0], samples.device[0]),
            (1, 4242, 0)
        );
        assert_eq!(
            (samples.gpu_util[0], samples.memory_util[0]),
            (Some(45), Some(12))
        );
        assert_eq!(session.text(samples.command[0]), "python");
        assert_eq!(codes, ["nvml/no-time"]);
    }

    #[test]
    fn a_log_without_a_header_is_read_by_its_units_and_says_so() {
        let (_, session, codes) = import_text(
            "2026/04/25 16:06:06.780, 5 %, 1 %, 2 MiB, 20146 MiB, 27, 11.64 W\n\
             2026/04/25 16:06:11.788, 7 %, 1 %, 3 MiB, 20145 MiB, 27, 11.36 W\n",
        );
        let samples = &session.device_samples;
        assert_eq!(
            (samples.gpu_util[0], samples.memory_util[1]),
            (Some(5), Some(1))
        );
        assert_eq!(
            (samples.power_mw[0], samples.memory_used[1]),
            (Some(11_640), Some(3 << 20))
        );
        assert_eq!((samples.temperature[0], samples.sm_mhz[0]), (None, None));
        assert_eq!(
            codes,
            ["nvml/local-time", "nvml/no-header", "nvml/no-device"]
        );
    }

    #[test]
    fn rows_without_a_time_are_states() {
        let (_, session, _) = import_text(
            "name, uuid, pstate, memory.used [MiB], memory.total [MiB], power.draw [W], power.limit [W], clocks.max.sm [MHz]\n\
             Tesla P100, GPU-a, P0, 103, 16280, 28.16, [N/A], 1480\n",
        );
        let states = &session.gpu_snapshots;
        assert_eq!(
            states.name[0].map(|name| session.text(name)),
            Some("Tesla P100")
        );
        assert_eq!(
            (states.memory_total[0], states.power_limit_mw[0]),
            (Some(16_280 << 20), None)
        );
        assert_eq!((states.sm_max_mhz[0], states.time[0]), (Some(1480), None));
    }

    #[test]
    fn dcgm_gives_a_state_of_each_gpu_and_scrape() {
        let line = |name: &str, gpu: u32, value: f64| {
            format!(
                "{name}{{gpu=\"{gpu}\",modelName=\"NVIDIA H100\",DCGM_FI_DRIVER_VERSION=\"550.1\"}} {value}\n"
            )
        };
        let scrape = |power: f64| {
            [
                "# HELP DCGM_FI_DEV_POWER_USAGE Power\n".to_owned(),
                line("DCGM_FI_DEV_POWER_USAGE", 0, power),
                line("DCGM_FI_DEV_POWER_USAGE", 1, power + 1.0),
                line("DCGM_FI_DEV_FB_USED", 0, 2.0),
            ]
            .concat()
        };
        let (result, session, codes) = import_text(&[scrape(100.0), scrape(200.0)].concat());
        assert!(result.is_ok());
        let states = &session.gpu_snapshots;
        assert_eq!(states.device, [0, 1, 0, 1]);
        assert_eq!(
            states.power_mw,
            [Some(100_000), Some(101_000), Some(200_000), Some(201_000)]
        );
        assert_eq!(
            (states.memory_used[0], states.memory_used[1]),
            (Some(2 << 20), None)
        );
        assert_eq!(
            states.driver[3].map(|name| session.text(name)),
            Some("550.1")
        );
        assert_eq!(codes, ["nvml/no-time"]);
    }

    #[test]
    fn other_tables_are_not_taken_for_samples() {
        let is_samples = |text: &str| sniffs(&IMPORTER, "a.csv", text);
        assert!(is_samples("t_ns,power_mw\n"));
        assert!(is_samples("timestamp, name, utilization.gpu [%]\n"));
        assert!(is_samples("# gpu   pwr gtemp\n"));
        for text in [
            "\"ID\",\"Process ID\",\"Kernel Name\"\n",
            "Time (%),Total Time (ns),Instances,Name\n",
            "timestamp,name,value\n",
            "2026/04/25 16:06:06.780, 0 %, 0 %\n",
            "{\"t_ns\": 1}",
            "",
        ] {
            assert!(!is_samples(text), "{text}");
        }
    }
}
