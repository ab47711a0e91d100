//! Stages whose GPU time the profiled launches do not represent.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Outcome, Rule, Threshold};
use crate::stage::StageLine;
use rooflens_analysis::counters::represent::summed::Summed;
use rooflens_analysis::kernels::kernel_sums::command;
use rooflens_document::{Finding, Inline};
use rooflens_schemas::Scope;
use rooflens_session::KernelId;
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "profile-coverage",
    &[
        Threshold::ratio("thresholds.covered", COVERED),
        Threshold::ratio("thresholds.stage_time", STAGE),
    ],
    outcome,
)
.on_measurement();

/// Share of a stage's GPU time with counters below which they do not tell about the stage.
const COVERED: Ratio = Ratio(0.50);

/// Share of the run's time from which on a stage deserves counters.
const STAGE: Ratio = Ratio(0.05);

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    if let Ok(summed) = evidence.results.summed() {
        return match summed.covered() < COVERED {
            true => Outcome::Found(vec![draft_of_sums(evidence, summed)]),
            false => Outcome::PASSED,
        };
    }
    let (mut is_known, mut low) = (false, Vec::new());
    for stage in &evidence.stages {
        let Some(executed) = evidence.executed(stage) else {
            continue;
        };
        is_known = true;
        let share = executed.covered;
        if share < COVERED && Ratio::of(stage.total(), stage.of_loop.max(Time(1.0))) >= STAGE {
            low.push((stage, share));
        }
    }
    match is_known {
        false => Outcome::INSUFFICIENT_DATA,
        true if low.is_empty() => Outcome::PASSED,
        true => Outcome::Found(vec![draft(evidence, &low)]),
    }
}

fn draft(evidence: &Evidence<'_>, stages: &[(&StageLine, Ratio)]) -> Draft {
    let (mut covered, mut commands, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for (stage, share) in stages {
        covered.push(words_of_stage(evidence, stage, *share));
        labels.push(stage.label());
        if let Some(summary) = evidence.summary(stage) {
            commands.push(vec![Inline::Code(command(&evidence.context, summary))]);
        }
    }
    let finding = Finding {
        title: labels.join(evidence.text.comma()),
        scope: evidence.pass_scope(),
        evidence: vec![stages[0].0.evidence()],
        ..Finding::default()
    };
    let and = Inline::Text(words!(evidence, "profile_coverage.and"));
    let arguments = arguments! {
        stages = covered.join(&Inline::from(evidence.text.comma())),
        commands = commands.join(&and),
    };
    Draft::new(finding, arguments)
}

/// Of a run that is known by the sums of its kernels.
fn draft_of_sums(evidence: &Evidence<'_>, summed: &Summed) -> Draft {
    let session = evidence.session;
    let name = session.pass_name(summed.pass).to_owned();
    let gap = summed.gaps.first();
    let gap = gap.map(|gap| (gap.kernel, Ratio(gap.total.time() / summed.total.time())));
    let stages = covered_words(evidence, &name, summed.covered(), gap);
    let rows = session.kernel_sums.len() as u64;
    let finding = Finding {
        title: name.clone(),
        scope: Scope {
            pass: Some(name),
            ..Scope::default()
        },
        evidence: vec![session.evidence(summed.pass, "kernel_sums", rows)],
        ..Finding::default()
    };
    Draft::new(finding, arguments! { stages = stages }).next("next_of_sums")
}

/// How much of a stage was profiled, and the kernel without counters that has the most time.
fn words_of_stage(evidence: &Evidence<'_>, stage: &StageLine, share: Ratio) -> Vec<Inline> {
    let mut largest = None;
    if let (Ok(matching), Ok(represented)) =
        (evidence.results.matching(), evidence.results.represent())
    {
        // Those with the largest share come first.
        let mut gaps = represented.gaps.iter();
        largest = gaps.find(|gap| stage.is(&matching.lines[gap.line].summary));
    }
    let gap = largest.map(|gap| (gap.kernel, gap.share));
    covered_words(evidence, stage.label(), share, gap)
}

fn covered_words(
    evidence: &Evidence<'_>,
    label: &str,
    share: Ratio,
    gap: Option<(KernelId, Ratio)>,
) -> Vec<Inline> {
    let (kernel, part) = gap.unzip();
    let identities = &evidence.facts.identities;
    say!(
        evidence,
        "profile_coverage.stage",
        share = share,
        stage = Inline::strong(label),
        kernel = kernel.map(|kernel| Inline::code(&identities[kernel.index()].short)),
        part = part,
    )
}
