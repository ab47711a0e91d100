//! `nvidia-smi -q -x`: facts of driver and GPUs.
//!
//! The DTD's number does not fix the layout (drivers renamed elements within one), so each fact has the paths of all
//! layouts. Serial numbers, UUIDs and names of processes are not read.
//!
//! The reader walks the elements and keeps texts by their path below a GPU. A typed tree was rejected, because it would fix
//! one layout. What must hold: the size of the file, the depth, the length of names and the number of GPUs and MIG
//! devices are bounded, and a file that is cut off gives what stands before the cut.

mod snapshot;

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::Event;
use rooflens_schemas::ArtifactKind;

use crate::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::Session;

/// Reads the XML of `nvidia-smi -q -x`.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::SmiXml,
    sniff,
    import,
};

const MAX_BYTES: u64 = 64 << 20;

/// Real files nest ten deep and name at most a few hundred GPUs.
const MAX_DEPTH: usize = 64;
const MAX_GPUS: usize = 4096;
/// A GPU has 7 at most.
const MAX_MIG: usize = 64;
const MAX_NAME: usize = 128;

/// Facts of the driver: key, path.
const DRIVER_FACTS: &[(&str, &str)] = &[("version", "driver_version"), ("CUDA", "cuda_version")];

/// The power limit in force.
const POWER_LIMITS: &[&str] = &[
    "gpu_power_readings/current_power_limit",
    "gpu_power_readings/power_limit",
    "power_readings/enforced_power_limit",
    "power_readings/power_limit",
];

/// Facts of a GPU: key, and its path in one layout or another; the first that is there counts.
const GPU_FACTS: &[(&str, &[&str])] = &[
    ("name", &["product_name"]),
    ("architecture", &["product_architecture"]),
    ("memory", &["fb_memory_usage/total"]),
    ("power limit", POWER_LIMITS),
    (
        "default power limit",
        &[
            "gpu_power_readings/default_power_limit",
            "power_readings/default_power_limit",
        ],
    ),
    (
        "maximum power limit",
        &[
            "gpu_power_readings/max_power_limit",
            "power_readings/max_power_limit",
        ],
    ),
    ("maximum SM clock", &["max_clocks/sm_clock"]),
    ("maximum memory clock", &["max_clocks/mem_clock"]),
    ("SM clock when asked", &["clocks/sm_clock"]),
    ("memory clock when asked", &["clocks/mem_clock"]),
    ("performance state when asked", &["performance_state"]),
    ("temperature when asked", &["temperature/gpu_temp"]),
    ("ECC", &["ecc_mode/current_ecc"]),
    ("MIG", &["mig_mode/current_mig"]),
    ("persistence mode", &["persistence_mode"]),
    ("compute mode", &["compute_mode"]),
    (
        "PCIe generation",
        &["pci/pci_gpu_link_info/pcie_gen/current_link_gen"],
    ),
    (
        "maximum PCIe generation",
        &["pci/pci_gpu_link_info/pcie_gen/max_link_gen"],
    ),
    (
        "PCIe width",
        &["pci/pci_gpu_link_info/link_widths/current_link_width"],
    ),
    (
        "maximum PCIe width",
        &["pci/pci_gpu_link_info/link_widths/max_link_width"],
    ),
];

/// Elements whose children are throttle reasons, and the prefix of the children's names.
const REASONS: &[(&str, &str)] = &[
    ("clocks_event_reasons/", "clocks_event_reason_"),
    ("clocks_throttle_reasons/", "clocks_throttle_reason_"),
];

/// The texts of one element's descendants by path.
type Texts = BTreeMap<String, String>;

#[derive(Default)]
struct Log {
    driver: Texts,
    gpus: Vec<Gpu>,
    cut: Option<u64>,
}

#[derive(Default)]
struct Gpu {
    texts: Texts,
    /// Each MIG device.
    mig: Vec<Texts>,
    /// How many processes are listed, where they are.
    processes: Option<u32>,
}

fn sniff(prefix: &Prefix<'_>) -> bool {
    prefix.bytes.trim_ascii_start().starts_with(b"<") && prefix.contains("<nvidia_smi_log")
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.document(MAX_BYTES)?;
    let log = read(&String::from_utf8_lossy(&bytes))?;
    if log.gpus.is_empty() && log.driver.is_empty() {
        return Err(IngestErrorKind::Empty("no GPU and no driver in it".to_owned()).into());
    }
    for (key, path) in DRIVER_FACTS {
        add(session, file, "driver", key, log.driver.get(*path));
    }
    let artifact = session.intern(&file.path);
    snapshot::add(&log, artifact, session);
    for (index, gpu) in log.gpus.iter().map(|gpu| &gpu.texts).enumerate() {
        let subject = format!("gpu {index}");
        for (key, paths) in GPU_FACTS {
            let value = paths
                .iter()
                .filter_map(|path| gpu.get(*path))
                .find(|text| is_stated(text));
            add(session, file, &subject, key, value);
        }
        add(
            session,
            file,
            &subject,
            "throttle reasons when asked",
            active_reasons(gpu).as_ref(),
        );
        if gpu
            .get("mig_mode/current_mig")
            .is_some_and(|mode| mode == "Enabled")
        {
            let message = format!("MIG is enabled on {subject}: a slice has less than its peaks");
            let diagnostic = Diagnostic::new(Severity::Notice, "smi/mig", message);
            diagnostics.push(diagnostic.artifact(&file.path));
        }
    }
    if let Some(byte) = log.cut {
        let diagnostic = Diagnostic::new(Severity::DataLoss, "smi/cut", "the file is cut off");
        diagnostics.push(diagnostic.artifact(&file.path).at(Location::Byte(byte)));
    }
    Ok(())
}

fn add(
    session: &mut Session,
    file: &ArtifactFile,
    subject: &str,
    key: &str,
    value: Option<&String>,
) {
    if let Some(value) = value.filter(|text| is_stated(text)) {
        session.add_fact(&file.path, subject, key, value);
    }
}

/// True if a text is a value rather than a way to say that there is none.
fn is_stated(text: &str) -> bool {
    !matches!(
        text,
        "" | "N/A" | "[N/A]" | "Unknown Error" | "[Unknown Error]" | "Not Supported"
    ) && !text.starts_with("Requested functionality")
}

/// The throttle reasons that the file names, and whether each is active.
fn reasons(gpu: &Texts) -> Vec<(String, bool)> {
    let reason = |(path, state): (&String, &String)| {
        REASONS.iter().find_map(|(parent, prefix)| {
            let name = path.strip_prefix(parent)?.strip_prefix(prefix)?;
            Some((name.to_owned(), state == "Active"))
        })
    };
    gpu.iter().filter_map(reason).collect()
}

/// The names of the throttle reasons that are active; `None` if the file has none of them at all.
fn active_reasons(gpu: &Texts) -> Option<String> {
    let reasons = reasons(gpu);
    if reasons.is_empty() {
        return None;
    }
    let active: Vec<String> = reasons
        .into_iter()
        .filter(|(_, active)| *active)
        .map(|(name, _)| name)
        .collect();
    Some(if active.is_empty() {
        "none".to_owned()
    } else {
        active.join(", ")
    })
}

/// Walks the document. Entities are not expanded; what stands in for one is dropped.
fn read(text: &str) -> Result<Log, IngestError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().trim_text(true);
    let mut log = Log::default();
    let mut path: Vec<String> = Vec::new();
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                enter(&mut path, start.name().into_inner())?;
                log.start(&path);
            }
            Ok(Event::Empty(empty)) => {
                enter(&mut path, empty.name().into_inner())?;
                log.start(&path);
                path.pop();
            }
            Ok(Event::End(_)) => {
                path.pop();
            }
            Ok(Event::Text(text)) => log.add_text(&path, &text),
            Ok(Event::Eof) => break,
            Ok(_) => {}
            // The document ends inside a tag.
            Err(quick_xml::Error::Syntax(_)) if !path.is_empty() => break,
            Err(error) => {
                let location = Location::Byte(reader.error_position());
                return Err(IngestError::from(error).at(location));
            }
        }
    }
    log.cut = (!path.is_empty()).then_some(text.len() as u64);
    Ok(log)
}

fn enter(path: &mut Vec<String>, name: &str) -> Result<(), IngestError> {
    if path.len() >= MAX_DEPTH || name.len() > MAX_NAME {
        let message = "its elements nest deeper or have longer names than nvidia-smi writes";
        return Err(IngestErrorKind::Unsupported(message.to_owned()).into());
    }
    path.push(name.to_owned());
    Ok(())
}

fn is_gpu(path: &[String]) -> bool {
    path.get(1).is_some_and(|name| name == "gpu")
}

impl Log {
    /// Opens a GPU, a list of processes, or what is in one.
    fn start(&mut self, path: &[String]) {
        if !is_gpu(path) {
            return;
        }
        if path.len() == 2 && self.gpus.len() < MAX_GPUS {
            self.gpus.push(Gpu::default());
        }
        let Some(gpu) = self.gpus.last_mut() else {
            return;
        };
        let inner: Vec<&str> = path[2..].iter().map(String::as_str).collect();
        match inner.as_slice() {
            ["processes"] => gpu.processes = Some(0),
            ["processes", "process_info"] => {
                gpu.processes = gpu.processes.map(|count| count.saturating_add(1));
            }
            ["mig_devices", "mig_device"] if gpu.mig.len() < MAX_MIG => gpu.mig.push(Texts::new()),
            _ => {}
        }
    }

    /// Keeps the first text of a path: processes and supported clocks repeat theirs.
    fn add_text(&mut self, path: &[String], text: &str) {
        let is_mig = path.get(2).is_some_and(|name| name == "mig_devices") && path.len() > 4;
        let (texts, inside) = match self.gpus.last_mut() {
            Some(Gpu { mig, .. }) if is_gpu(path) && is_mig => {
                let Some(device) = mig.last_mut() else { return };
                (device, 4)
            }
            Some(gpu) if is_gpu(path) => (&mut gpu.texts, 2),
            _ if is_gpu(path) => return,
            _ => (&mut self.driver, 1),
        };
        let Some(key) = path.get(inside..).filter(|key| !key.is_empty()) else {
            return;
        };
        texts
            .entry(key.join("/"))
            .or_insert_with(|| text.trim().to_owned());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::import_bytes;

    fn import_text(text: &str) -> (Result<(), IngestError>, Session, Diagnostics) {
        import_bytes(&IMPORTER, "smi.xml", text)
    }

    fn facts(session: &Session) -> Vec<String> {
        let text = |ids: &[rooflens_session::StrId], row: usize| session.text(ids[row]).to_owned();
        let environment = &session.environment;
        (0..environment.len())
            .map(|row| {
                let subject = text(&environment.subject, row);
                let key = text(&environment.key, row);
                format!("{subject}: {key} = {}", text(&environment.value, row))
            })
            .collect()
    }

    #[test]
    fn both_layouts_of_power_and_throttle_reasons_are_read() {
        let new = "<nvidia_smi_log><driver_version>580.1</driver_version><gpu id=\"0\">
            <product_name>NVIDIA H200</product_name><serial>123</serial><uuid>GPU-1</uuid>
            <gpu_power_readings><current_power_limit>700.00 W</current_power_limit>
            <max_power_limit>700.00 W</max_power_limit></gpu_power_readings>
            <clocks_event_reasons><clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
            <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
            <ecc_mode><current_ecc>N/A</current_ecc></ecc_mode></gpu></nvidia_smi_log>";
        let (result, session, _) = import_text(new);
        assert!(result.is_ok());
        assert_eq!(
            facts(&session),
            [
                "driver: version = 580.1",
                "gpu 0: name = NVIDIA H200",
                "gpu 0: power limit = 700.00 W",
                "gpu 0: maximum power limit = 700.00 W",
                "gpu 0: throttle reasons when asked = sw_power_cap",
            ]
        );
        let old = "<nvidia_smi_log><gpu><power_readings><enforced_power_limit>300.00 W</enforced_power_limit>
            <max_power_limit>350.00 W</max_power_limit></power_readings><clocks_throttle_reasons><clocks_throttle_reason_gpu_idle>Not Active
            </clocks_throttle_reason_gpu_idle></clocks_throttle_reasons></gpu></nvidia_smi_log>";
        let (_, session, _) = import_text(old);
        assert_eq!(
            facts(&session),
            [
                "gpu 0: power limit = 300.00 W",
                "gpu 0: maximum power limit = 350.00 W",
                "gpu 0: throttle reasons when asked = none"
            ]
        );
    }

    #[test]
    fn several_gpus_keep_their_order_and_mig_is_told() {
        let text = "<nvidia_smi_log><gpu><product_name>A</product_name></gpu><gpu>
            <product_name>B</product_name><mig_mode><current_mig>Enabled</current_mig></mig_mode>
            <mig_devices><mig_device><gpu_instance_id>3</gpu_instance_id><fb_memory_usage><total>1 MiB</total>
            </fb_memory_usage></mig_device></mig_devices></gpu></nvidia_smi_log>";
        let (_, session, diagnostics) = import_text(text);
        let mig = &session.mig_devices;
        assert_eq!(
            (mig.device[0], mig.gpu_instance[0], mig.sm_count[0]),
            (1, Some(3), None)
        );
        assert_eq!((mig.len(), mig.memory_total[0]), (1, Some(1 << 20)));
        assert_eq!(session.gpu_snapshots.mig, [None, Some(true)]);
        assert_eq!(
            facts(&session),
            ["gpu 0: name = A", "gpu 1: name = B", "gpu 1: MIG = Enabled"]
        );
        assert_eq!(
            diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(),
            ["smi/mig"]
        );
    }

    #[test]
    fn the_state_of_a_gpu_is_read_in_numbers() {
        let (_, session, _) = import_text(
            "<nvidia_smi_log><timestamp>Fri Jan 27 11:32:31 2023</timestamp><gpu>
            <clocks><sm_clock>1410 MHz</sm_clock></clocks><pci><pci_gpu_link_info><pcie_gen>
            <max_link_gen>4</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen><link_widths>
            <current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info></pci>
            <gpu_power_readings><instant_power_draw>66.92 W</instant_power_draw></gpu_power_readings>
            <fb_memory_usage><used>38 MiB</used><total>N/A</total></fb_memory_usage>
            <clocks_event_reasons><clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
            <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
            <ecc_errors><volatile><sram_uncorrectable_parity>1</sram_uncorrectable_parity>
            <dram_uncorrectable>2</dram_uncorrectable><dram_correctable>7</dram_correctable></volatile>
            <aggregate><double_bit><total>N/A</total></double_bit></aggregate></ecc_errors>
            <remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>
            <processes><process_info><pid>1</pid></process_info><process_info><pid>2</pid></process_info>
            </processes></gpu><gpu><processes /></gpu></nvidia_smi_log>",
        );
        let states = &session.gpu_snapshots;
        assert_eq!((states.sm_mhz[0], states.sm_max_mhz[0]), (Some(1410), None));
        assert_eq!(
            (states.pcie_generation[0], states.pcie_generation_max[0]),
            (Some(1), Some(4))
        );
        assert_eq!(
            (states.pcie_width[0], states.power_mw[0]),
            (Some(16), Some(66_920))
        );
        assert_eq!(
            (states.memory_used[0], states.memory_total[0]),
            (Some(38 << 20), None)
        );
        // Bits 0x8 and 0x4 of nvml.h.
        assert_eq!(states.throttle_reasons, [Some(0xc), None]);
        assert_eq!(
            (states.ecc_corrected[0], states.ecc_uncorrectable[0]),
            (Some(7), Some(3))
        );
        assert_eq!(
            (states.ecc_uncorrectable_total[0], states.repair_pending[0]),
            (None, Some(true))
        );
        assert_eq!(states.processes, [Some(2), Some(0)]);
        assert!(states.time[0].is_some_and(|time| session.text(time).starts_with("Fri")));
    }

    #[test]
    fn a_cut_file_keeps_what_it_has_and_says_so() {
        let (result, session, diagnostics) =
            import_text("<nvidia_smi_log><gpu><product_name>A</product_name><clocks>");
        assert!(result.is_ok());
        assert_eq!(facts(&session), ["gpu 0: name = A"]);
        assert_eq!(diagnostics.worst(), Some(Severity::DataLoss));
    }

    #[test]
    fn entities_are_not_expanded_and_depth_is_limited() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>
            <nvidia_smi_log><gpu><product_name>&b;</product_name></gpu></nvidia_smi_log>";
        let (_, session, _) = import_text(bomb);
        assert_eq!(facts(&session), [""; 0]);
        let deep = format!("<nvidia_smi_log>{}", "<a>".repeat(70));
        assert!(import_text(&deep).0.is_err());
        assert!(import_text("<nvidia_smi_log></other>").0.is_err());
    }
}
