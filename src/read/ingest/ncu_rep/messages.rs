//! The messages of a report, as far as they are read. Field numbers are those of the file-format definitions
//! that come with Nsight Compute (`extras/FileFormat`).

use std::borrow::Cow;

use super::nvtx;
use super::rules::{self, RuleResult};
use super::wire::{Malformed, add, fields};
use rooflens_session::Dim3;

/// The header of a block.
#[derive(Debug, Default)]
pub(super) struct BlockHeader {
    /// Messages with machine code, which come first in the payload.
    pub(super) sources: u64,
    /// Launches.
    pub(super) launches: u64,
    /// Results of ranges, command lists and CUDA graphs, which come last.
    pub(super) others: u64,
    /// Size of the payload in bytes.
    pub(super) payload: u64,
    /// Process that the block is of.
    pub(super) process: i64,
    /// Names of metrics; empty in all blocks but one.
    pub(super) strings: Vec<String>,
    /// Session data of the block.
    pub(super) session: SessionPart,
}

/// Session data of a block.
#[derive(Debug, Default)]
pub(super) struct SessionPart {
    /// Version of Nsight Compute.
    pub(super) version: Option<String>,
    /// How launches were replayed.
    pub(super) replay_mode: Option<String>,
    /// How clocks were controlled.
    pub(super) clock_control: Option<String>,
    /// How caches were controlled.
    pub(super) cache_control: Option<String>,
}

/// A profiled launch.
#[derive(Debug, Default)]
pub(super) struct Launch<'a> {
    /// Host thread.
    thread: u32,
    /// Demangled name, or that of the function where there is no other.
    pub(super) name: Cow<'a, str>,
    /// Blocks in the grid.
    pub(super) grid: Dim3,
    /// Threads in a block.
    pub(super) block: Dim3,
    /// CUDA context.
    pub(super) context: u32,
    /// CUDA stream.
    pub(super) stream: u64,
    /// Metrics in the order of the report.
    pub(super) metrics: Vec<Metric<'a>>,
    /// Sections: identifier and name.
    pub(super) sections: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Results of rules.
    pub(super) rules: Vec<RuleResult<'a>>,
    /// Ranges around the launch, outermost first, joined by `/`.
    pub(super) nvtx: String,
}

/// A metric of a launch.
#[derive(Debug, Default)]
pub(super) struct Metric<'a> {
    /// Index into the names.
    pub(super) name: u32,
    /// Value of the metric as a whole.
    pub(super) value: Option<Scalar<'a>>,
    /// True if there are values of parts.
    pub(super) has_instances: bool,
    /// Values of parts that have a name.
    pub(super) named: Vec<(Cow<'a, str>, f64)>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    /// Words.
    Text(Cow<'a, str>),
    /// A number in ncu's base unit.
    Number(f64),
}

/// The version of the format.
pub(super) fn file_version(message: &[u8]) -> Result<u32, Malformed> {
    let mut version = None;
    for field in fields(message) {
        if let (1, value) = field? {
            version = Some(value.small()?);
        }
    }
    version.ok_or(Malformed)
}

impl BlockHeader {
    pub(super) fn read(message: &[u8]) -> Result<Self, Malformed> {
        let mut header = Self::default();
        for field in fields(message) {
            match field? {
                (1, value) => header.sources = value.number()?,
                (2, value) => header.launches = value.number()?,
                (3, value) => header.session = session(value.bytes()?)?,
                (4, value) => header.strings = strings(value.bytes()?)?,
                (5, value) => header.payload = value.number()?,
                (6, value) => header.process = i64::from(first_number(value.bytes()?)?),
                (7..=9, value) => header.others = header.others.saturating_add(value.number()?),
                _ => {}
            }
        }
        Ok(header)
    }
}

fn session(message: &[u8]) -> Result<SessionPart, Malformed> {
    let mut part = SessionPart::default();
    for field in fields(message) {
        match field? {
            (8, value) => {
                let (provider, version) = pair(value.bytes()?)?;
                if provider == "Nsight Compute Target" {
                    // The build follows the version.
                    part.version = version.split_whitespace().next().map(str::to_owned);
                }
            }
            (11, value) => {
                let command = value.text()?;
                part.replay_mode = option(&command, "--replay-mode", "kernel");
                part.clock_control = option(&command, "--clock-control", "base");
                part.cache_control = option(&command, "--cache-control", "all");
            }
            _ => {}
        }
    }
    Ok(part)
}

/// The value of an option of ncu's command line, its default if it is not given; none without a command line.
fn option(command: &str, name: &str, default: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    words.next()?;
    while let Some(word) = words.next() {
        // The first counts: the profiled program comes after ncu's options.
        match word.strip_prefix(name) {
            Some("") => return words.next().map(str::to_owned),
            Some(value) if value.starts_with('=') => return Some(value[1..].to_owned()),
            _ => {}
        }
    }
    Some(default.to_owned())
}

fn strings(message: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut strings = Vec::new();
    for field in fields(message) {
        if let (1, value) = field? {
            strings.push(value.text()?.into_owned());
        }
    }
    Ok(strings)
}

impl<'a> Launch<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut launch = Self::default();
        let mut function = Cow::default();
        let mut state = None;
        for field in fields(message) {
            match field? {
                (1, value) => launch.thread = value.small()?,
                (6, value) => function = value.text()?,
                (7, value) => launch.name = value.text()?,
                (10, value) => launch.grid = extent(value.bytes()?)?,
                (11, value) => launch.block = extent(value.bytes()?)?,
                (13, value) => add(&mut launch.metrics, Metric::read(value.bytes()?)?)?,
                (17, value) => add(&mut launch.sections, pair(value.bytes()?)?)?,
                (19, value) => add(&mut launch.rules, rules::read(value.bytes()?)?)?,
                (21, value) => state = Some(value.bytes()?),
                (22, value) => launch.context = value.small()?,
                (23, value) => launch.stream = value.number()?,
                _ => {}
            }
        }
        if launch.name.is_empty() {
            launch.name = function;
        }
        if let Some(state) = state {
            launch.nvtx = nvtx::path(state, launch.thread)?;
        }
        Ok(launch)
    }
}

impl<'a> Metric<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut metric = Self::default();
        // Source-level metrics have thousands of parts, one an address: the first part tells.
        let mut parts_are_named = true;
        for field in fields(message) {
            match field? {
                (1, value) => metric.name = value.small()?,
                (2, value) => metric.value = scalar(value.bytes()?)?,
                (3, value) => {
                    metric.has_instances = true;
                    if parts_are_named {
                        let part = instance(value.bytes()?)?;
                        parts_are_named = part.is_some();
                        metric.named.extend(part);
                    }
                }
                _ => {}
            }
        }
        Ok(metric)
    }
}

/// A part of a metric, if it has a name and a number.
fn instance(message: &[u8]) -> Result<Option<(Cow<'_, str>, f64)>, Malformed> {
    let (mut name, mut value) = (None, None);
    for field in fields(message) {
        match field? {
            (1, id) => name = scalar(id.bytes()?)?,
            (2, element) => value = scalar(element.bytes()?)?,
            _ => {}
        }
    }
    Ok(match (name, value) {
        (Some(Scalar::Text(name)), Some(Scalar::Number(value))) => Some((name, value)),
        _ => None,
    })
}

fn scalar(message: &[u8]) -> Result<Option<Scalar<'_>>, Malformed> {
    let mut scalar = None;
    for field in fields(message) {
        match field? {
            (1, value) => scalar = Some(Scalar::Text(value.text()?)),
            (2 | 3, value) => scalar = Some(Scalar::Number(value.float()?)),
            (4 | 5, value) => scalar = Some(Scalar::Number(value.number()? as f64)),
            _ => {}
        }
    }
    Ok(scalar)
}

fn extent(message: &[u8]) -> Result<Dim3, Malformed> {
    let mut extent = Dim3 { x: 0, y: 0, z: 0 };
    for field in fields(message) {
        match field? {
            (1, value) => extent.x = value.small()?,
            (2, value) => extent.y = value.small()?,
            (3, value) => extent.z = value.small()?,
            _ => {}
        }
    }
    Ok(extent)
}

/// The texts of fields 1 and 2.
fn pair(message: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), Malformed> {
    let mut pair = (Cow::default(), Cow::default());
    for field in fields(message) {
        match field? {
            (1, value) => pair.0 = value.text()?,
            (2, value) => pair.1 = value.text()?,
            _ => {}
        }
    }
    Ok(pair)
}

fn first_number(message: &[u8]) -> Result<u32, Malformed> {
    for field in fields(message) {
        if let (1, value) = field? {
            return value.small();
        }
    }
    Ok(0)
}
