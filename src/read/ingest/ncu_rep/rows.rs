//! Launches into the session, the same rows that an exported raw page gives.

use rustc_hash::{FxHashMap, FxHashSet};

use super::messages::{Launch, Metric, Scalar, SessionPart};
use super::rules::RuleResult;
use super::unit::{self, Unit};
use crate::profiles::{self, find_pass, open_pass};
use rooflens_bundle::ArtifactFile;
use rooflens_session::names::demangled;
use rooflens_session::{
    KernelProfile, PassId, ProfileFocusRow, ProfileId, ProfileInstance, ProfileMetric,
    ProfileReport, ProfileRule, ProfileSection, Session, StrId,
};

/// Prefixes of names that select several metrics or describe a breakdown.
const SELECTIONS: &[&str] = &["breakdown:", "group:", "regex:"];

/// Metrics that tell the GPU of a launch.
const DEVICE: [&str; 4] = [
    "launch__device_id",
    "device__attribute_device_index",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
];

/// The text that exported pages print for a metric that has neither a value nor parts.
const NO_DATA: &str = "no data";

/// A name of the report's table.
struct Name {
    id: StrId,
    text: String,
    unit: StrId,
    divisor: f64,
    /// True if it is a metric.
    shown: bool,
}

/// A report being read into its pass.
pub(super) struct Rows<'a> {
    session: &'a mut Session,
    file: &'a ArtifactFile,
    pass: Option<PassId>,
    names: Vec<Name>,
    /// The first name of each text that says what the GPU is.
    index: FxHashMap<&'static str, usize>,
    about: SessionPart,
    /// Number and process of launches that another report in this pass has given.
    present: FxHashSet<(u32, i64)>,
    ordinal: u32,
    /// Launches added.
    pub(super) added: u32,
    /// Launches that another report has given.
    pub(super) repeated: u64,
    /// Metrics whose name the report does not hold.
    pub(super) nameless: u64,
}

impl<'a> Rows<'a> {
    pub(super) fn open(file: &'a ArtifactFile, session: &'a mut Session) -> Self {
        let pass = find_pass(file, session);
        let profiles = &session.kernel_profiles;
        let profiles_of_pass = profiles
            .ids()
            .filter(|id| Some(profiles.pass[id.index()]) == pass);
        let present = profiles_of_pass
            .map(|id| (profiles.ordinal[id.index()], profiles.process[id.index()]))
            .collect();
        Self {
            session,
            file,
            pass,
            names: Vec::new(),
            index: FxHashMap::default(),
            about: SessionPart::default(),
            present,
            ordinal: 0,
            added: 0,
            repeated: 0,
            nameless: 0,
        }
    }

    /// Takes the table of names; false if the report has given another one before.
    pub(super) fn set_names(&mut self, strings: Vec<String>) -> bool {
        if !self.names.is_empty() {
            return self.names.iter().map(|name| &name.text).eq(&strings);
        }
        let session = &mut *self.session;
        self.names = strings
            .into_iter()
            .map(|text| {
                let Unit { name, divisor } = unit::of(&text);
                Name {
                    id: session.intern(&text),
                    unit: session.intern(name),
                    divisor,
                    shown: !SELECTIONS.iter().any(|start| text.starts_with(start)),
                    text,
                }
            })
            .collect();
        let indexed = |name: &'static str| {
            Some((
                name,
                self.names.iter().position(|metric| metric.text == name)?,
            ))
        };
        self.index = DEVICE.into_iter().filter_map(indexed).collect();
        true
    }

    /// Takes what a block says of the session.
    pub(super) fn session(&mut self, part: SessionPart) {
        let about = &mut self.about;
        for (known, new) in [
            (&mut about.version, part.version),
            (&mut about.replay_mode, part.replay_mode),
            (&mut about.clock_control, part.clock_control),
            (&mut about.cache_control, part.cache_control),
        ] {
            *known = new.or(known.take());
        }
    }

    /// Counts a launch that could not be read: later ones keep their numbers.
    pub(super) fn skip_launch(&mut self) {
        self.ordinal += 1;
    }

    /// Adds a launch with all that belongs to it.
    pub(super) fn launch(&mut self, process: i64, launch: &Launch<'_>) {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        if self.present.contains(&(ordinal, process)) {
            self.repeated += 1;
            return;
        }
        self.added += 1;
        let pass = *self
            .pass
            .get_or_insert_with(|| open_pass(self.file, self.session));
        let device = self.number(launch, "launch__device_id");
        let device = device.or_else(|| self.number(launch, "device__attribute_device_index"));
        let row = KernelProfile {
            pass,
            artifact: self.session.intern(&self.file.path),
            ordinal,
            name: self.session.intern(&demangled(&launch.name)),
            process,
            context: launch.context,
            stream: launch.stream,
            device: device.map_or(0, |device| device as u32),
            compute_capability: self.capability(launch),
            grid: launch.grid,
            block: launch.block,
            nvtx: self.session.intern(&launch.nvtx),
        };
        let capability = row.compute_capability;
        let profile = self.session.kernel_profiles.push(row);
        let gpu = profiles::gpu(self.session, profile);
        if capability.is_some() {
            self.session.gpus.compute_capability[gpu.index()] = capability;
        }
        // What several sections sample stands there once a section; exported pages print the last.
        let last: FxHashMap<u32, usize> = launch
            .metrics
            .iter()
            .enumerate()
            .map(|(at, metric)| (metric.name, at))
            .collect();
        for (at, metric) in launch.metrics.iter().enumerate() {
            if last.get(&metric.name) == Some(&at) {
                self.metric(profile, metric);
            }
        }
        for (section, name) in &launch.sections {
            let (section, name) = (self.session.intern(section), self.session.intern(name));
            self.session.profile_sections.push(ProfileSection {
                profile,
                section,
                name,
            });
        }
        launch
            .rules
            .iter()
            .for_each(|rule| self.rules(profile, rule));
    }

    /// The number of a metric by name.
    fn number(&self, launch: &Launch<'_>, name: &str) -> Option<f64> {
        let index = *self.index.get(name)?;
        let metric = launch
            .metrics
            .iter()
            .find(|metric| metric.name as usize == index)?;
        match metric.value {
            Some(Scalar::Number(number)) => Some(number),
            Some(Scalar::Text(_)) | None => None,
        }
    }

    fn capability(&self, launch: &Launch<'_>) -> Option<u32> {
        let major = self.number(launch, "device__attribute_compute_capability_major")?;
        let minor = self.number(launch, "device__attribute_compute_capability_minor")?;
        (1.0..100.0)
            .contains(&major)
            .then_some(major as u32 * 10 + minor.clamp(0.0, 9.0) as u32)
    }

    fn metric(&mut self, profile: ProfileId, metric: &Metric<'_>) {
        let Some(name) = self.names.get(metric.name as usize) else {
            self.nameless += 1;
            return;
        };
        if !name.shown {
            return;
        }
        let session = &mut *self.session;
        let (value, text) = match &metric.value {
            Some(Scalar::Number(number)) if number.is_finite() => {
                profiles::device_number(session, profile, &name.text, *number);
                (Some(number / name.divisor), None)
            }
            Some(Scalar::Number(number)) if number.is_nan() => (None, Some("nan")),
            Some(Scalar::Number(number)) => {
                (None, Some(if *number > 0.0 { "inf" } else { "-inf" }))
            }
            Some(Scalar::Text(text)) if !text.is_empty() => {
                profiles::device_text(session, profile, &name.text, text);
                (None, Some(&**text))
            }
            None if !metric.has_instances => (None, Some(NO_DATA)),
            // A metric that has values for its parts alone.
            None | Some(Scalar::Text(_)) => return,
        };
        let row = ProfileMetric {
            profile,
            section: StrId::default(),
            metric: name.id,
            unit: name.unit,
            value,
            text: text.map(|text| session.strings.intern(text)),
        };
        let id = session.profile_metrics.push(row);
        for (part, value) in metric.named.iter().filter(|(_, value)| value.is_finite()) {
            let instance = session.strings.intern(part);
            let value = value / name.divisor;
            session.profile_instances.push(ProfileInstance {
                metric: id,
                instance,
                value,
            });
        }
    }

    fn rules(&mut self, profile: ProfileId, result: &RuleResult<'_>) {
        let session = &mut *self.session;
        let (section, name) = (
            session.intern(&result.section),
            session.intern(&result.name),
        );
        for rule in &result.remarks {
            let row = ProfileRule {
                profile,
                section,
                rule: name,
                kind: session.intern(rule.kind),
                description: session.intern(&rule.description),
                speedup_kind: session.intern(rule.speedup_kind),
                speedup: rule.speedup,
            };
            let id = session.profile_rules.push(row);
            for focus in &rule.focus {
                let (metric, info) = (session.intern(&focus.metric), session.intern(&focus.info));
                let row = ProfileFocusRow {
                    rule: id,
                    metric,
                    value: focus.value,
                    info,
                };
                session.profile_focus.push(row);
            }
        }
    }

    /// True if the session takes all that its input allows.
    pub(super) fn is_full(&self) -> bool {
        self.session.room() == 0
    }

    /// Says what was read from which version.
    pub(super) fn close(&mut self) {
        let Some(pass) = self.pass.filter(|_| self.added > 0) else {
            return;
        };
        let session = &mut *self.session;
        let about = &self.about;
        let [version, replay_mode, clock_control, cache_control] = [
            &about.version,
            &about.replay_mode,
            &about.clock_control,
            &about.cache_control,
        ]
        .map(|text| session.strings.intern(text.as_deref().unwrap_or_default()));
        if session.passes.producer[pass.index()] == StrId::default() && version != StrId::default()
        {
            let producer = format!("ncu {}", session.text(version));
            session.passes.producer[pass.index()] = session.intern(&producer);
        }
        let row = ProfileReport {
            pass,
            artifact: session.intern(&self.file.path),
            version,
            launches: self.added,
            replay_mode,
            clock_control,
            cache_control,
        };
        session.profile_reports.push(row);
    }
}
