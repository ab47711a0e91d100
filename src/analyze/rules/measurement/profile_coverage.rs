//! Stages whose GPU time the profiled launches do not stand for.

use crate::stage::StageLine;
use crate::{Evidence, Outcome, Rule, Threshold};
use rooflens_analysis::counters::represent::summed::Summed;
use rooflens_analysis::kernels::kernel_sums::command;
use rooflens_document::{Finding, Inline, Quantity};
use rooflens_schemas::Scope;

pub(crate) static RULE: Rule = Rule::new(
    "profile-coverage",
    &[
        Threshold::ratio("thresholds.covered", COVERED),
        Threshold::ratio("thresholds.stage_time", STAGE),
    ],
    run,
)
.on_measurement();

/// Share of a stage's GPU time with counters below which they do not tell about the stage.
const COVERED: f64 = 0.50;

/// Share of the run's time from which on a stage deserves counters.
const STAGE: f64 = 0.05;

fn run(evidence: &Evidence<'_>) -> Outcome {
    if let Ok(summed) = evidence.results.summed() {
        let low = summed.covered() < COVERED;
        return Outcome::of(low.then(|| of_sums(evidence, summed)).into_iter().collect());
    }
    let share = |stage| Some((stage, evidence.executed(stage)?.covered));
    let known: Vec<(&StageLine, f64)> = evidence.stages.iter().filter_map(share).collect();
    if known.is_empty() {
        return Outcome::InsufficientData(words!(evidence, "profile_coverage.needs"));
    }
    let is_low = |(stage, share): &(&StageLine, f64)| {
        *share < COVERED && stage.reference() * stage.counted / stage.run_ns.max(1.0) >= STAGE
    };
    let low: Vec<_> = known.into_iter().filter(is_low).collect();
    Outcome::of(
        (!low.is_empty())
            .then(|| finding(evidence, &low))
            .into_iter()
            .collect(),
    )
}

fn finding(evidence: &Evidence<'_>, stages: &[(&StageLine, f64)]) -> Finding {
    let covered = stages
        .iter()
        .map(|(stage, share)| covered(evidence, stage, *share));
    let summaries = stages
        .iter()
        .filter_map(|(stage, _)| evidence.summary(stage));
    let commands = summaries.map(|own| vec![Inline::Code(command(&evidence.context, own))]);
    let (covered, commands): (Vec<_>, Vec<_>) = (covered.collect(), commands.collect());
    let and = Inline::Text(words!(evidence, "profile_coverage.and"));
    let labels: Vec<&str> = stages
        .iter()
        .map(|(stage, _)| stage.label.as_str())
        .collect();
    Finding {
        title: labels.join(evidence.text.comma()),
        scope: Scope {
            pass: Some(evidence.pass.clone()),
            ..Scope::default()
        },
        statement: say!(
            evidence,
            "profile_coverage.statement",
            stages = covered.join(&Inline::from(evidence.text.comma()))
        ),
        next: Some(say!(
            evidence,
            "profile_coverage.next",
            commands = commands.join(&and)
        )),
        evidence: stages
            .first()
            .map(|(stage, _)| stage.evidence())
            .into_iter()
            .collect(),
        ..Finding::default()
    }
}

/// Of a run that is known by the sums of its kernels.
fn of_sums(evidence: &Evidence<'_>, summed: &Summed) -> Finding {
    let context = evidence.context;
    let (name, gap) = (
        context.session.pass_name(summed.pass).to_owned(),
        summed.gaps.first(),
    );
    let stages = say!(
        evidence,
        "profile_coverage.stage",
        share = Quantity::ratio(summed.covered()),
        stage = Inline::strong(&name),
        kernel = gap.map(|gap| Inline::code(&context.facts.identities[gap.kernel.index()].short)),
        part = gap.map(|gap| Quantity::ratio(gap.total as f64 / summed.total as f64)),
    );
    let rows = context.session.kernel_sums.len() as u64;
    Finding {
        title: name.clone(),
        scope: Scope {
            pass: Some(name),
            ..Scope::default()
        },
        statement: say!(evidence, "profile_coverage.statement", stages = stages),
        next: Some(say!(evidence, "profile_coverage.next_of_sums")),
        evidence: vec![context.session.evidence(summed.pass, "kernel_sums", rows)],
        ..Finding::default()
    }
}

/// How much of a stage was profiled, and the kernel without counters that has the most time.
fn covered(evidence: &Evidence<'_>, stage: &StageLine, share: f64) -> Vec<Inline> {
    let (facts, known) = (evidence.facts, evidence.results);
    // Those with the largest share come first.
    let gap = known
        .matching()
        .ok()
        .zip(known.represent().ok())
        .and_then(|(matching, all)| {
            all.gaps
                .iter()
                .find(|gap| stage.is(&matching.lines[gap.line].summary))
        });
    say!(
        evidence,
        "profile_coverage.stage",
        share = Quantity::ratio(share),
        stage = Inline::strong(&stage.label),
        kernel = gap.map(|gap| Inline::code(&facts.identities[gap.kernel.index()].short)),
        part = gap.map(|gap| Quantity::ratio(gap.share)),
    )
}
