//! The JSON of a trace, event by event: what is not read is dropped at once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{IngestError, IngestErrorKind};
use rooflens_session::{MAX_DURATION, MAX_TIME, Ns};

/// Processes and threads that a trace may name.
const MAX_NAMES: usize = 1 << 16;

/// The role of an event by its arguments.
pub(super) enum Event<'a> {
    /// A kernel, with its details; they may be empty.
    Kernel(Cow<'a, str>),
    /// A copy, with its details.
    Copy(Cow<'a, str>),
    /// A step marker of this number.
    Step(i64),
    /// Anything else.
    Other,
}

/// An event with a duration.
pub(super) struct Row<'a> {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) pid: i64,
    pub(super) tid: i64,
    pub(super) name: Cow<'a, str>,
    pub(super) correlation: Option<i64>,
    pub(super) event: Event<'a>,
}

/// A trace.
#[derive(Default)]
pub(super) struct Trace<'a> {
    pub(super) rows: Vec<Row<'a>>,
    pub(super) processes: BTreeMap<i64, String>,
    pub(super) threads: BTreeMap<(i64, i64), String>,
    /// Events in all, and those without a sound time.
    pub(super) events: u64,
    pub(super) untimed: u64,
    /// Rows that may still be kept.
    left: u64,
    is_full: bool,
}

#[derive(Deserialize)]
struct Json<'a> {
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    pid: i64,
    #[serde(default)]
    tid: i64,
    ts: Option<Microseconds>,
    dur: Option<Microseconds>,
    #[serde(borrow, default)]
    args: Args<'a>,
}

/// A time or a duration as traces hold it.
#[derive(Clone, Copy, Deserialize)]
struct Microseconds(f64);

impl Microseconds {
    /// The same time, if it is one that an importer lets in.
    fn nanoseconds(self) -> Option<Ns> {
        let time = (self.0 * 1e3).round();
        (time.abs() <= MAX_TIME.time().0).then_some(Ns(time as i64))
    }
}

/// Numbers are texts in most versions.
#[derive(Default, Deserialize)]
struct Args<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    correlation_id: Option<Number<'a>>,
    #[serde(borrow, default)]
    step_num: Option<Number<'a>>,
    #[serde(borrow, default)]
    kernel_details: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    memcpy_details: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number<'a> {
    Whole(i64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
    Other(IgnoredAny),
}

impl Number<'_> {
    fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
            Self::Other(_) => None,
        }
    }
}

impl<'a> Trace<'a> {
    /// Reads a trace in no more memory than `room`.
    ///
    /// # Errors
    /// Where it is no valid JSON, or too large.
    pub(super) fn read(bytes: &'a [u8], room: u64) -> Result<Self, IngestError> {
        let left = room / size_of::<Row<'_>>() as u64;
        let mut trace = Self {
            left,
            ..Self::default()
        };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = Outer(&mut trace).deserialize(&mut json);
        if trace.is_full {
            return Err(IngestErrorKind::Budget.into());
        }
        read?;
        Ok(trace)
    }

    /// True if a process is the host.
    pub(super) fn is_host(&self, pid: i64) -> bool {
        self.processes
            .get(&pid)
            .is_some_and(|name| name.contains("/host:"))
    }

    /// Takes an event; false if there is no room.
    fn add(&mut self, json: Json<'a>) -> bool {
        self.events += 1;
        if json.ph == "M" {
            let Some(name) = json.args.name else {
                return true;
            };
            match &*json.name {
                "process_name" if self.processes.len() < MAX_NAMES => {
                    self.processes.insert(json.pid, name.into_owned());
                }
                "thread_name" if self.threads.len() < MAX_NAMES => {
                    self.threads.insert((json.pid, json.tid), name.into_owned());
                }
                _ => {}
            }
            return true;
        }
        if json.ph != "X" {
            return true;
        }
        let correlation = json.args.correlation_id.and_then(|number| number.whole());
        let step = json.args.step_num.and_then(|number| number.whole());
        let event = match (json.args.memcpy_details, json.args.kernel_details, step) {
            (Some(details), ..) => Event::Copy(details),
            (None, Some(details), _) => Event::Kernel(details),
            (None, None, Some(step)) => Event::Step(step),
            _ if correlation.is_some() => Event::Other,
            _ => return true,
        };
        let start = json.ts.and_then(Microseconds::nanoseconds);
        let (Some(start), Some(end)) = (start, end(start, json.dur)) else {
            self.untimed += 1;
            return true;
        };
        let row = Row {
            start,
            end,
            pid: json.pid,
            tid: json.tid,
            name: json.name,
            correlation,
            event,
        };
        self.rows.push(row);
        self.left = self.left.saturating_sub(1);
        self.is_full |= self.left == 0;
        !self.is_full
    }
}

fn end(start: Option<Ns>, duration: Option<Microseconds>) -> Option<Ns> {
    let duration = duration?.nanoseconds()?;
    let is_sound = (Ns::ZERO..=MAX_DURATION).contains(&duration);
    is_sound.then_some(start? + duration)
}

/// The outermost object.
struct Outer<'t, 'a>(&'t mut Trace<'a>);

impl<'a> DeserializeSeed<'a> for Outer<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Outer<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The list of events.
struct Events<'t, 'a>(&'t mut Trace<'a>);

impl<'a> DeserializeSeed<'a> for Events<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'a> Visitor<'a> for Events<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut list: S) -> Result<(), S::Error> {
        while let Some(json) = list.next_element::<Json<'a>>()? {
            if !self.0.add(json) {
                return Err(serde::de::Error::custom("too many events"));
            }
        }
        Ok(())
    }
}
