//! Profiled kernels: what Nsight Compute measured, one row a launch, and what bounds each.

mod metrics;
mod table;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use self::table::Row;
use crate::analysis::counters::ncu::KernelCounters;
use crate::analysis::counters::ncu::bound::{Bound, THRESHOLDS};
use crate::analysis::{Analysis, Classifier, Context};
use crate::findings::chart::{Bar, Part, Plot, StackedBars};
use crate::findings::{
    Block, Chart, Findings, Inline, Method, Quantity, View, derived, unavailable,
};
use crate::model::{PassId, Session};
use crate::prose;

/// Profiled kernels.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "profiled", title: "Profiled kernels", missing: no_profiles, run };

/// Rows of the table in the section; the data set holds all.
const SHOWN_ROWS: usize = 20;

/// Why analyses of counters cannot run, if they cannot.
pub(crate) fn no_profiles(session: &Session) -> Option<&'static str> {
    session.kernel_profiles.is_empty().then_some(
        "no Nsight Compute pass in this bundle: capture one with ncu --set full --nvtx -o FILE",
    )
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for (pass, kernels) in KernelCounters::by_pass(session) {
        let own: Vec<Row> = kernels.into_iter().map(|kernel| Row::new(session, kernel)).collect();
        let times = Times::of(&own, context.options.classifier);
        findings.blocks.push(summary(session, pass, &own, &times));
        report(session, pass, &own, &times, context.options.classifier, &mut findings);
        bars.push((session.pass_name(pass).to_owned(), times));
        rows.extend(own);
    }
    let all_rows = rows.len();
    bars.retain(|(_, times)| times.total > 0.0);
    if !bars.is_empty() {
        findings.blocks.push(Block::Chart(bound_chart(&bars)));
    }
    let classes = table::classes(session, &rows);
    findings.blocks.push(Block::Table(View::new(
        table::CLASSES,
        "Profiled launches by bound class, by both rules",
        &[
            "bound",
            "pass",
            "launches",
            "kernels",
            "duration_ns",
            "share",
            "borderline",
            "seed_launches",
            "seed_duration_ns",
            "seed_share",
        ],
        16,
    )));
    findings.datasets.push(table::dataset(session, rows));
    findings.datasets.extend([metrics::dataset(session), classes]);
    findings.blocks.push(Block::Table(View::new(
        table::ID,
        format!("Profiled launches by duration ({} of {all_rows})", all_rows.min(SHOWN_ROWS)),
        table::ESSENTIALS,
        SHOWN_ROWS,
    )));
    findings.methods = methods(context.options.classifier);
    findings
}

/// Profiled time of a pass by class, seconds.
struct Times {
    total: f64,
    by_bound: Vec<(Bound, f64)>,
}

impl Times {
    fn of(rows: &[Row], rule: Classifier) -> Self {
        let seconds = |row: &Row| row.kernel.seconds.unwrap_or_default();
        // An empty sum of floats is −0.
        let of_bound = |bound: Bound| {
            let rows = rows.iter().filter(|row| row.verdict(rule).bound == bound);
            0.0 + rows.map(seconds).sum::<f64>()
        };
        Self {
            total: rows.iter().map(seconds).sum(),
            by_bound: Bound::ALL.iter().map(|bound| (*bound, of_bound(*bound))).collect(),
        }
    }

    fn share(&self, time: f64) -> f64 {
        if self.total > 0.0 { time / self.total } else { 0.0 }
    }
}

fn nanoseconds(seconds: f64) -> Quantity {
    Quantity::new(seconds * 1e9, Unit::Nanoseconds)
}

fn summary(session: &Session, pass: PassId, rows: &[Row], times: &Times) -> Block {
    let name = session.pass_name(pass).to_owned();
    let mut names: Vec<_> =
        rows.iter().map(|row| session.kernel_profiles.name[row.kernel.profile.index()]).collect();
    names.sort_unstable();
    names.dedup();
    Block::Prose(prose![
        "Pass ",
        Inline::Code(name),
        ": ",
        Quantity::count(rows.len() as u64),
        " launches of ",
        Quantity::count(names.len() as u64),
        " kernels, ",
        nanoseconds(times.total),
        " in all. Durations are those of replays under the profiler, with its control of clocks and caches: \
         shares of them say which counters matter, not how long the workload takes.",
    ])
}

/// Metrics of one pass.
fn report(
    session: &Session,
    pass: PassId,
    rows: &[Row],
    times: &Times,
    rule: Classifier,
    findings: &mut Findings,
) {
    let name = session.pass_name(pass);
    let evidence = Evidence {
        artifact: session.artifact_of(pass).to_owned(),
        table: Some("kernel_profiles".to_owned()),
        rows: Some(rows.len() as u64),
    };
    let scope = Scope { pass: Some(name.to_owned()), ..Scope::default() };
    findings.metrics.extend(metrics_of(&scope, rows, times, rule, &evidence));
}

/// Profiled time and its shares by class.
fn metrics_of(
    scope: &Scope,
    rows: &[Row],
    times: &Times,
    rule: Classifier,
    evidence: &Evidence,
) -> Vec<Metric> {
    let timed = rows.iter().filter(|row| row.kernel.seconds.is_some()).count();
    if timed == 0 {
        let reason = "no durations: the report lacks gpu__time_duration (ncu section SpeedOfLight)";
        return vec![unavailable("profiled_time", scope.clone(), Unit::Nanoseconds, reason)];
    }
    let basis =
        format!("sum of gpu__time_duration over {timed} of {} profiled launches", rows.len());
    let nanos = times.total * 1e9;
    let mut metrics =
        vec![derived("profiled_time", scope.clone(), Unit::Nanoseconds, nanos, basis)];
    for (bound, seconds) in times.by_bound.iter().filter(|(_, seconds)| *seconds > 0.0) {
        let scope = Scope { class: Some(bound.label().to_owned()), ..scope.clone() };
        let basis = format!(
            "{} of {} of profiled time, by rule {}",
            nanoseconds(*seconds),
            nanoseconds(times.total),
            rule_name(rule)
        );
        metrics.push(derived("bound_share", scope, Unit::Ratio, times.share(*seconds), basis));
    }
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}

fn bound_chart(passes: &[(String, Times)]) -> Chart {
    let occurs = |bound: &Bound| {
        passes.iter().any(|(_, times)| times.by_bound.iter().any(|(b, t)| b == bound && *t > 0.0))
    };
    let bounds: Vec<Bound> = Bound::ALL.into_iter().filter(|bound| occurs(bound)).collect();
    let bar = |(name, times): &(String, Times)| Bar {
        label: name.clone(),
        values: bounds
            .iter()
            .map(|bound| {
                times.by_bound.iter().filter(|(b, _)| b == bound).map(|(_, t)| t * 1e9).sum()
            })
            .collect(),
        note: nanoseconds(times.total).to_string(),
    };
    let shares: Vec<String> = passes
        .iter()
        .map(|(name, times)| {
            let parts: Vec<String> = times
                .by_bound
                .iter()
                .filter(|(_, time)| *time > 0.0)
                .map(|(bound, time)| {
                    format!("{} {}", Quantity::ratio(times.share(*time)), bound.label())
                })
                .collect();
            format!("{name}: {}", parts.join(", "))
        })
        .collect();
    Chart {
        id: "profiled-bounds".to_owned(),
        title: "Profiled time by bound class".to_owned(),
        description: format!("Share of profiled time by bound class. {}.", shares.join("; ")),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: bounds
                .iter()
                .map(|bound| Part { name: bound.label().to_owned(), color: bound.color() })
                .collect(),
            bars: passes.iter().map(bar).collect(),
        }),
    }
}

const fn rule_name(rule: Classifier) -> &'static str {
    match rule {
        Classifier::Rooflens => "rooflens",
        Classifier::Seed => "seed",
    }
}

fn methods(rule: Classifier) -> Vec<Method> {
    let rules = format!(
        "{} {} {} Charts and shares use rule “{}”. Speed-of-light figures are percentages of what the unit sustains over \
         the launch's whole duration: sm__throughput, gpu__dram_throughput, lts__throughput, l1tex__throughput \
         (avg.pct_of_peak_sustained_elapsed), or the details page's figures of the same meaning, L1/TEX there scaled \
         by SM active ÷ elapsed cycles.",
        THRESHOLDS.describe(Classifier::Rooflens),
        THRESHOLDS.describe(Classifier::Seed),
        THRESHOLDS.describe_borderline(),
        rule_name(rule),
    );
    let counters = "Durations: gpu__time_duration.sum. DRAM rate = DRAM bytes ÷ duration. Top stall: the warp state, other than \
         “selected”, with the largest share of warp states. Where a bundle holds the raw and the details page of \
         one report, numbers are those of the raw page.";
    vec![
        Method { title: "Bound classes".to_owned(), text: vec![rules.into()] },
        Method { title: "Profiled launches".to_owned(), text: vec![counters.into()] },
    ]
}

#[cfg(test)]
mod tests;
