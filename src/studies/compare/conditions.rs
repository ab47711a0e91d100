//! Whether two captures can be compared, and which settings differ.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::operators::chains::{ChainKind, Place};
use rooflens_analysis::system::environment::stated;
use rooflens_schemas::StageKind;
use rooflens_session::{Ns, Session};

use crate::{Analyzed, Pair};

/// Subject of a setting: whether a stage launches its operations by CUDA graphs.
pub(crate) const GRAPH_MODE: &str = "graph-mode";

/// A condition of the measurement that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is.
    pub subject: Subject,
    /// Its values.
    pub values: Pair<String>,
}

/// Conditions by which captures are not of the same work on the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Name of the GPU.
    Gpu,
    /// Number of GPUs.
    Gpus,
    /// Batch, tokens, precision and whatever else the workload description states.
    Workload,
    /// Names of the stages: no stage is in both.
    Stages,
    /// Stages that launch their kernels one by one, or by CUDA graphs.
    GraphMode,
    /// Power limit.
    PowerLimit,
    /// Versions of the driver and of the frameworks.
    Software,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Gpu,
        Self::Gpus,
        Self::Workload,
        Self::Stages,
        Self::GraphMode,
        Self::PowerLimit,
        Self::Software,
    ];

    /// The word of arguments and data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Gpus => "gpu-count",
            Self::Workload => "workload",
            Self::Stages => "stages",
            Self::GraphMode => GRAPH_MODE,
            Self::PowerLimit => "power-limit",
            Self::Software => "software",
        }
    }

    /// Whether times of both captures mean different things: a comparison needs a word of the user.
    pub const fn prevents(self) -> bool {
        matches!(self, Self::Gpu | Self::Gpus | Self::Workload | Self::Stages)
    }
}

/// A recorded setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is of, such as `software`.
    pub subject: String,
    /// Its name.
    pub name: String,
    /// Its values; absent where a capture does not record it.
    pub values: Pair<Option<String>>,
}

impl Setting {
    /// Whether both captures record it.
    pub(crate) const fn is_known(&self) -> bool {
        self.values.before.is_some() && self.values.after.is_some()
    }
}

/// Values by name; several captures may state several.
type Values<K> = BTreeMap<K, BTreeSet<String>>;

/// What captures state on their work and machine.
#[derive(Clone, Debug, Default)]
pub struct Stated {
    /// Name of the workload.
    pub workload: Option<String>,
    /// Values of subjects that have one a capture.
    values: Values<Subject>,
    stages: BTreeSet<String>,
    /// Fields of the workload description.
    fields: Values<String>,
    /// Recorded settings by subject and key.
    recorded: Values<(String, String)>,
    /// How each outermost stage launches its operations.
    graph_modes: Values<String>,
}

impl Stated {
    /// That of one capture.
    pub fn of(capture: &Analyzed<'_>) -> Self {
        let mut stated = Self::default();
        stated.add(capture);
        stated
    }

    /// Adds what a capture states.
    pub(crate) fn add(&mut self, capture: &Analyzed<'_>) {
        let session = capture.context.session;
        if self.workload.is_none() {
            self.workload.clone_from(&session.workload.name);
        }
        for subject in Subject::ALL {
            let value = of_capture(capture, subject);
            if !value.is_empty() {
                self.values.entry(subject).or_default().insert(value);
            }
        }
        self.stages
            .extend(stages(capture).into_iter().map(str::to_owned));
        self.add_fields(session, step_batch(capture));
        self.add_recorded(session);
        self.add_graph_modes(capture);
    }

    /// The value of a subject that has one a capture.
    pub(crate) fn value(&self, subject: Subject) -> String {
        self.values.get(&subject).map_or_else(String::new, joined)
    }

    /// Plain fields of a workload description. Stage rules, overrides and the number of warm-up iterations are about the
    /// capture, and names are free text. An inferred batch is that of a training step, where it is known.
    fn add_fields(&mut self, session: &Session, step_batch: Option<u64>) {
        let mut workload = session.workload.clone();
        if workload.infers("batch") {
            workload.batch = step_batch.or(workload.batch);
        }
        let value = serde_json::to_value(&workload).unwrap_or_default();
        for (name, value) in value.as_object().into_iter().flatten() {
            let is_plain = value.is_number() || value.is_string();
            if is_plain && !matches!(name.as_str(), "name" | "label" | "warmup") {
                let values = self.fields.entry(name.clone()).or_default();
                values.insert(value.to_string().trim_matches('"').to_owned());
            }
        }
    }

    /// What artifacts state by subject and key.
    fn add_recorded(&mut self, session: &Session) {
        let facts = &session.environment;
        for row in 0..facts.len() {
            let [subject, key, value] =
                [facts.subject[row], facts.key[row], facts.value[row]].map(|id| session.text(id));
            let values = self.recorded.entry((subject.to_owned(), key.to_owned()));
            values.or_default().insert(value.to_owned());
        }
    }

    /// How each outermost stage launches most of the work of its iterations that count, by the time of operations.
    fn add_graph_modes(&mut self, capture: &Analyzed<'_>) {
        let (session, facts) = (capture.context.session, capture.context.facts);
        let outermost = facts
            .run_summaries()
            .filter(|summary| summary.is_outermost(facts));
        for summary in outermost {
            let (mut all, mut of_graphs) = (Ns::ZERO, Ns::ZERO);
            for instance in summary.counted_instances(facts) {
                for op in &instance.ops {
                    let is_of_graph = match facts.ops.source[*op as usize] {
                        OpSource::Launch(launch) => {
                            session.launches.graph_node[launch.index()].is_some()
                        }
                        OpSource::Copy(copy) => session.copies.graph_node[copy.index()].is_some(),
                        OpSource::Graph(_) => true,
                    };
                    let time = facts.ops.end[*op as usize] - facts.ops.start[*op as usize];
                    all += time;
                    if is_of_graph {
                        of_graphs += time;
                    }
                }
            }
            let mode = if of_graphs > all - of_graphs {
                "CUDA graphs"
            } else {
                "eager"
            };
            let modes = self.graph_modes.entry(summary.label(session, facts));
            modes.or_default().insert(mode.to_owned());
        }
    }

    /// Fields of the workload description.
    pub(crate) fn fields(&self) -> BTreeMap<String, String> {
        all_joined(&self.fields)
    }

    /// Versions of the driver and of software by name.
    fn software(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for ((subject, name), values) in &self.recorded {
            match (subject.as_str(), name.as_str()) {
                ("software", _) => versions.insert(name.clone(), joined(values)),
                ("driver", "version") => versions.insert(subject.clone(), joined(values)),
                _ => None,
            };
        }
        versions
    }
}

/// Sequences of a training step: the sum over its calls of the model, where all steps have the same. Calls without backward
/// between them may be of the same sequences, and count once: calling the model once is a change of the program.
fn step_batch(capture: &Analyzed<'_>) -> Option<u64> {
    let facts = capture.context.facts;
    let mut steps = facts.run_summaries().filter(|summary| {
        summary.is_outermost(facts) && summary.kind(facts) == StageKind::TrainStep
    });
    let step = steps.next()?;
    let mut batches = step
        .counted_instances(facts)
        .map(|instance| instance.sizes.batch);
    let batch = batches.next()??;
    if !batches.all(|other| other == Some(batch)) {
        return None;
    }
    let chains = capture.context.results.chains().ok();
    let repeated = chains.and_then(|chains| {
        let mut places = chains.places.iter();
        let is_step = |place: &&Place| {
            let of_place = place.stage.as_ref();
            of_place.is_some_and(|summary| summary.stage == step.stage)
        };
        places
            .find(is_step)?
            .group(ChainKind::Calls)?
            .example
            .factor
    });
    let calls = repeated.map_or(1, |calls| calls.0.round().max(1.0) as u64);
    Some(batch / calls)
}

fn joined(values: &BTreeSet<String>) -> String {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    values.join(", ")
}

fn all_joined<K: Clone + Ord>(values: &Values<K>) -> BTreeMap<K, String> {
    let of_key = |(key, values): (&K, &BTreeSet<String>)| (key.clone(), joined(values));
    values.iter().map(of_key).collect()
}

/// The conditions that differ. What a capture does not record differs from nothing.
pub fn conditions(stated: Pair<&Stated>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for subject in Subject::ALL {
        let values = match subject {
            Subject::Workload => differing(&Pair::of(&stated, |stated| stated.fields())),
            Subject::GraphMode => {
                differing(&Pair::of(&stated, |stated| all_joined(&stated.graph_modes)))
            }
            Subject::Software => differing(&Pair::of(&stated, |stated| stated.software())),
            _ => Pair::of(&stated, |stated| stated.value(subject)),
        };
        let differ = match subject {
            Subject::Stages => !shares_a_stage(stated),
            _ => values.before != values.after,
        };
        let is_known = !values.before.is_empty() && !values.after.is_empty();
        if differ && is_known {
            conditions.push(Condition { subject, values });
        }
    }
    conditions
}

fn of_capture(capture: &Analyzed<'_>, subject: Subject) -> String {
    let (session, facts) = (capture.context.session, capture.context.facts);
    match subject {
        Subject::Gpu => {
            let environment = capture.context.results.environment();
            let gpus = environment.map_or(&[][..], |environment| &environment.gpus);
            listed(gpus.iter().map(|(name, _)| name.as_str()))
        }
        Subject::Gpus => {
            let ops = &facts.ops;
            let of_run = facts
                .run
                .iter()
                .flat_map(|pass| &ops.gpu[facts.ops_of(*pass)]);
            let gpus: BTreeSet<_> = of_run.collect();
            count(gpus.len())
        }
        Subject::Stages => listed(stages(capture).into_iter()),
        Subject::PowerLimit => listed(stated(
            session,
            |subject| subject.starts_with("gpu "),
            "power limit",
        )),
        // Field by field: [`differing`].
        Subject::Software | Subject::Workload | Subject::GraphMode => String::new(),
    }
}

fn count(count: usize) -> String {
    match count {
        0 => String::new(),
        count => count.to_string(),
    }
}

/// The values once each.
fn listed<'t>(values: impl Iterator<Item = &'t str>) -> String {
    let values: BTreeSet<&str> = values.collect();
    values.into_iter().collect::<Vec<_>>().join(", ")
}

fn stages<'a>(capture: &Analyzed<'a>) -> BTreeSet<&'a str> {
    let facts = capture.context.facts;
    let summaries = facts.run_summaries();
    summaries
        .map(|summary| summary.stage(facts).name.as_str())
        .collect()
}

fn shares_a_stage(stated: Pair<&Stated>) -> bool {
    let Pair { before, after } = Pair::of(&stated, |stated| &stated.stages);
    before.is_empty() || after.is_empty() || !before.is_disjoint(after)
}

/// The fields that both sides state, and differently.
fn differing(fields: &Pair<BTreeMap<String, String>>) -> Pair<String> {
    let mut differing = Pair::<Vec<String>>::default();
    for (name, before) in &fields.before {
        if let Some(after) = fields.after.get(name).filter(|after| *after != before) {
            differing.before.push(format!("{name} {before}"));
            differing.after.push(format!("{name} {after}"));
        }
    }
    Pair::of(&differing, |fields| fields.join(", "))
}

/// The recorded settings that differ, those that both captures record first.
pub(crate) fn settings(stated: Pair<&Stated>) -> Vec<Setting> {
    let recorded = Pair::of(&stated, |stated| all_joined(&stated.recorded));
    let keys: BTreeSet<_> = recorded
        .before
        .keys()
        .chain(recorded.after.keys())
        .collect();
    let mut settings = Vec::new();
    for key in keys {
        let values = Pair::of(&recorded, |recorded| recorded.get(key).cloned());
        // A state of one moment, such as a temperature, is no setting.
        if values.before != values.after && !key.1.ends_with("when asked") {
            settings.push(Setting {
                subject: key.0.clone(),
                name: key.1.clone(),
                values,
            });
        }
    }
    let modes = Pair::of(&stated, |stated| all_joined(&stated.graph_modes));
    for (stage, before) in modes.before {
        let after = modes.after.get(&stage).filter(|after| **after != before);
        if let Some(after) = after.cloned() {
            settings.push(Setting {
                subject: GRAPH_MODE.to_owned(),
                name: stage,
                values: Pair {
                    before: Some(before),
                    after: Some(after),
                },
            });
        }
    }
    settings.sort_by_key(|setting| !setting.is_known());
    settings
}
