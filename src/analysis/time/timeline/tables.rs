//! Data sets of the timeline.

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use super::overview::{Overview, ordinal};
use super::sampled::{Counter, Counters, StageSums, period};
use crate::analysis::Context;
use crate::findings::chart::Color;
use crate::findings::{Cell, Column, Dataset, Quantity, measured, unavailable};

/// Columns of colour groups, in the order of [`Color::KERNELS`].
const MIX: [(&str, &str); Color::KERNELS.len()] = [
    ("gemm_ns", "Matrix products"),
    ("attention_ns", "Attention"),
    ("normalization_ns", "Norms, softmax"),
    ("elementwise_ns", "Elementwise"),
    ("copy_ns", "Copies, layout"),
    ("communication_ns", "Communication"),
    ("other_ns", "Other"),
];

/// Busy time by class in each stretch of the charts.
pub(super) fn timeline(context: &Context<'_>, overviews: &[Overview]) -> Dataset {
    let session = context.session;
    let mut rows = Vec::new();
    for overview in overviews {
        let pass = session.pass_name(overview.pass);
        for (gpu, mix) in &overview.gpus {
            for (bin, parts) in mix.iter().enumerate() {
                let mut row = vec![
                    Cell::Name(pass.to_owned()),
                    Cell::Int(i64::from(ordinal(context, *gpu))),
                    Cell::Int(overview.window.edge(bin)),
                    Cell::Int(overview.window.edge(bin + 1)),
                ];
                row.extend(parts.iter().map(|time| Cell::Int(*time)));
                rows.push(row);
            }
        }
    }
    let time = |id, title| Column::new(id, title, Unit::Nanoseconds);
    let mut columns = vec![
        Column::text("pass", "Pass"),
        Column::new("gpu", "GPU", Unit::Count),
        time("start_ns", "Start"),
        time("end_ns", "End"),
    ];
    columns.extend(MIX.iter().map(|(id, title)| time(id, title)));
    Dataset { id: "timeline", title: "Busy time by class over time".to_owned(), columns, rows }
}

/// Sums of the samples of a GPU by stage.
pub(super) struct Sums<'a> {
    pub(super) counters: &'a Counters,
    pub(super) stages: Vec<StageSums>,
    /// The pass has samples of other GPUs too.
    pub(super) several: bool,
}

impl StageSums {
    fn mean(&self, counter: Counter) -> Option<f64> {
        self.sums.get(&counter)?.mean()
    }

    /// Read and write.
    fn traffic(&self) -> Option<f64> {
        Some(self.mean(Counter::DramRead)? + self.mean(Counter::DramWrite)?)
    }

    fn samples(&self) -> u64 {
        self.sums.values().map(|sum| sum.count).max().unwrap_or(0)
    }
}

/// Means of the samples within each stage.
pub(super) fn gpu_metrics(context: &Context<'_>, sums: &[Sums<'_>]) -> Dataset {
    let (session, facts) = (context.session, context.facts);
    let row = |stage: &StageSums| {
        let of = &facts.stages[stage.stage];
        vec![
            Cell::Name(of.name.clone()),
            Cell::Name(session.pass_name(of.pass).to_owned()),
            Cell::Int(i64::from(ordinal(context, stage.gpu))),
            Cell::Int(stage.instances as i64),
            Cell::Int(stage.samples() as i64),
            Cell::maybe(stage.mean(Counter::SmActive)),
            Cell::maybe(stage.mean(Counter::TensorActive)),
            Cell::maybe(stage.mean(Counter::DramRead)),
            Cell::maybe(stage.mean(Counter::DramWrite)),
            Cell::maybe(stage.mean(Counter::Clock)),
        ]
    };
    let share = |id, title| Column::new(id, title, Unit::Ratio);
    Dataset {
        id: "gpu_metrics",
        title: "Sampled GPU metrics by stage".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::new("gpu", "GPU", Unit::Count),
            Column::new("instances", "Instances", Unit::Count),
            Column::new("samples", "Samples", Unit::Count),
            share("sm_active", "SMs active"),
            share("tensor_active", "Tensor active"),
            share("dram_read", "DRAM read"),
            share("dram_write", "DRAM write"),
            Column::new("sm_clock_hz", "SM clock", Unit::Hertz),
        ],
        rows: sums.iter().flat_map(|sums| &sums.stages).map(row).collect(),
    }
}

/// The metrics of all stages of a GPU.
pub(super) fn metrics(context: &Context<'_>, sums: &Sums<'_>) -> Vec<Metric> {
    sums.stages.iter().flat_map(|stage| stage_metrics(context, sums, stage)).collect()
}

fn stage_metrics(context: &Context<'_>, sums: &Sums<'_>, stage: &StageSums) -> Vec<Metric> {
    let (session, facts) = (context.session, context.facts);
    let of = &facts.stages[stage.stage];
    let scope = Scope {
        pass: Some(session.pass_name(of.pass).to_owned()),
        stage: Some(of.name.clone()),
        gpu: sums.several.then(|| ordinal(context, stage.gpu)),
        ..Scope::default()
    };
    let evidence = Evidence {
        artifact: session.artifact_of(of.pass).to_owned(),
        table: Some("counter_samples".to_owned()),
        rows: Some(stage.samples()),
    };
    let ids: [(&str, &[Counter], Option<f64>); 3] = [
        ("sm_active", &[Counter::SmActive], stage.mean(Counter::SmActive)),
        ("tensor_active", &[Counter::TensorActive], stage.mean(Counter::TensorActive)),
        ("dram_bandwidth_share", &[Counter::DramRead, Counter::DramWrite], stage.traffic()),
    ];
    let metric = |(id, of, value): (&str, &[Counter], Option<f64>)| {
        let Some(value) = value else {
            return unavailable(id, scope.clone(), Unit::Ratio, why(sums, stage, of));
        };
        let names: Vec<&str> = of
            .iter()
            .filter_map(|counter| Some(session.text(sums.counters.get(counter)?.name)))
            .collect();
        let basis = format!(
            "{}, mean of {} samples within the projections of {} instances",
            names.join(" + "),
            stage.samples(),
            stage.instances
        );
        let mut metric = measured(id, scope.clone(), Unit::Ratio, value, basis);
        metric.evidence.push(evidence.clone());
        metric
    };
    ids.into_iter().map(metric).collect()
}

/// Why a stage has no mean.
fn why(sums: &Sums<'_>, stage: &StageSums, of: &[Counter]) -> String {
    if of.iter().any(|counter| !sums.counters.contains_key(counter)) {
        return "the sampled metric set has no such counter; choose another with --gpu-metrics-set"
            .to_owned();
    }
    let every = period(sums.counters).map(|ns| Quantity::new(ns, Unit::Nanoseconds).to_string());
    format!(
        "no sample lies within the stage's {}; one was taken every {}",
        Quantity::ns(stage.time),
        every.unwrap_or_else(|| "–".to_owned())
    )
}
