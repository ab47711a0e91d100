//! Metadata of a trace, before or after its events.

use serde_json::{Map, Value};

use super::stream::File;
use rooflens_bundle::ArtifactFile;
use rooflens_session::{Ns, PassId, Session};

/// Keys of the outermost object that become facts; others hold paths, users and job names.
const FACTS: &[&str] = &[
    "schemaVersion",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
    "rocprofiler_version",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
];

/// Keys of `distributedInfo` that become facts.
const DISTRIBUTED_FACTS: &[&str] = &["backend", "rank", "world_size", "pg_count", "nccl_version"];

/// The keys of the outermost object, without the events.
pub(super) struct Header {
    keys: Map<String, Value>,
    /// What could not be read of them.
    pub(super) damage: Option<&'static str>,
}

impl Header {
    /// From the texts around the events.
    pub(super) fn of(file: &File) -> Self {
        let head = object(&[&file.head, b"]}"]);
        // An ending within the events leaves no text after them.
        let ended = matches!(file.ending, super::stream::Ending::Whole) || !file.tail.is_empty();
        let tail = if ended {
            object(&[b"{\"traceEvents\": []", &file.tail])
        } else {
            Some(Map::new())
        };
        let damage = match (&head, &tail) {
            (None, _) => Some("the keys before the events are not valid JSON"),
            (_, None) => Some("what follows the events is not valid JSON"),
            _ => None,
        };
        let mut keys = head.unwrap_or_default();
        keys.extend(tail.unwrap_or_default());
        Self { keys, damage }
    }

    /// `baseTimeNanoseconds`: the UTC time that the events' times count from.
    pub(super) fn base(&self) -> Option<Ns> {
        self.keys.get("baseTimeNanoseconds")?.as_i64().map(Ns)
    }

    /// Rank of the process in a distributed run.
    pub(super) fn rank(&self) -> Option<u32> {
        u32::try_from(self.distributed("rank")?.as_u64()?).ok()
    }

    fn distributed(&self, key: &str) -> Option<&Value> {
        self.keys.get("distributedInfo")?.get(key)
    }

    /// The program that wrote the trace, with the versions that it tells.
    pub(super) fn producer(&self) -> String {
        let mut producer = String::from("PyTorch profiler");
        let mut versions = Vec::new();
        for (key, name) in [
            ("cuda_runtime_version", "CUDA"),
            ("hip_runtime_version", "HIP"),
        ] {
            if let Some(version) = self
                .keys
                .get(key)
                .and_then(Value::as_u64)
                .filter(|v| *v > 0)
            {
                // CUDA counts major × 1000 + minor × 10; HIP has another scheme and stays as it is.
                let cuda = name == "CUDA";
                let short = format!("{}.{}", version / 1000, version % 1000 / 10);
                versions.push(format!(
                    "{name} {}",
                    if cuda { short } else { version.to_string() }
                ));
            }
        }
        if let Some(version) = self.keys.get("cupti_version").and_then(Value::as_u64) {
            versions.push(format!("CUPTI {version}"));
        }
        if !versions.is_empty() {
            producer.push_str(&format!(" ({})", versions.join(", ")));
        }
        producer
    }

    /// Adds the facts and the GPUs of the trace.
    pub(super) fn commit(&self, pass: PassId, file: &ArtifactFile, session: &mut Session) {
        for key in FACTS {
            add_fact(session, &file.path, "profiler", key, self.keys.get(*key));
        }
        for key in DISTRIBUTED_FACTS {
            add_fact(
                session,
                &file.path,
                "distributed",
                key,
                self.distributed(key),
            );
        }
        let devices = self.keys.get("deviceProperties").and_then(Value::as_array);
        for device in devices.into_iter().flatten() {
            add_gpu(device, pass, session);
        }
    }
}

/// The object that the parts make up, if they do.
fn object(parts: &[&[u8]]) -> Option<Map<String, Value>> {
    serde_json::from_slice(&parts.concat()).ok()
}

fn add_fact(session: &mut Session, path: &str, subject: &str, key: &str, value: Option<&Value>) {
    match value {
        Some(Value::String(text)) => session.add_fact(path, subject, key, text),
        Some(Value::Number(number)) => session.add_fact(path, subject, key, &number.to_string()),
        Some(Value::Bool(flag)) => session.add_fact(path, subject, key, &flag.to_string()),
        _ => {}
    }
}

fn add_gpu(device: &Value, pass: PassId, session: &mut Session) {
    let number = |key: &str| {
        device
            .get(key)
            .and_then(Value::as_u64)
            .filter(|number| *number > 0)
    };
    let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
    let ordinal = device
        .get("id")
        .and_then(Value::as_u64)
        .and_then(|id| u32::try_from(id).ok());
    let Some(ordinal) = ordinal else { return };
    let gpu = session.gpu(pass, ordinal).index();
    let name = session.intern(
        device
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim(),
    );
    let minor = device.get("computeMinor").and_then(Value::as_u64);
    let gpus = &mut session.gpus;
    gpus.name[gpu] = name;
    gpus.sm_count[gpu] = small("numSms");
    gpus.compute_capability[gpu] = small("computeMajor").zip(minor).and_then(|(major, minor)| {
        major
            .checked_mul(10)?
            .checked_add(u32::try_from(minor).ok()?)
    });
    gpus.memory_bytes[gpu] = number("totalGlobalMem");
    // `clockRate` counts kilohertz; the width of the memory bus that a bandwidth needs is not written.
    gpus.clock_hz[gpu] = number("clockRate").and_then(|khz| khz.checked_mul(1000));
}
