//! A repeated stage gets slower or faster over the run.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::pauses;
use crate::rule::{Outcome, Rule, Threshold};
use crate::trends::{self, DRIFT};
use rooflens_analysis::engine::facts::Exclusion;
use rooflens_analysis::engine::stage_stats::{Summary, median_time};
use rooflens_analysis::time::drift::{LEAST_FOR_TREND, Series, TREND_Z};
use rooflens_document::{Finding, Inline, Quantity, Severity};
use rooflens_units::{Ratio, Time};

pub(crate) static RULE: Rule = Rule::new(
    "uneven-pace",
    &[
        Threshold::ratio("thresholds.drift", DRIFT),
        Threshold::number("thresholds.trend", TREND_Z),
    ],
    outcome,
)
.on_measurement();

fn outcome(evidence: &Evidence<'_>) -> Outcome {
    let sequences = trends::of_stages(evidence);
    if !sequences.iter().any(|(series, _)| series.change().is_ok()) {
        return Outcome::InsufficientData(needs(evidence, &sequences));
    }
    let (mut drafts, mut drifting) = (Vec::new(), None);
    for (series, summary) in sequences {
        let Some(drift) = trends::drift(series) else {
            continue;
        };
        let name = trends::name(evidence, summary);
        drifting = drifting.or(Some(name));
        let stage = evidence.outermost(name).filter(|_| drift < Ratio::ZERO);
        if !stage.is_some_and(|stage| pauses::hold(evidence, stage)) {
            drafts.push(draft(evidence, (series, summary), drift));
        }
    }
    match (drafts.is_empty(), drifting) {
        (true, Some(name)) => Outcome::NotApplicable(pauses::said_of(evidence, name)),
        _ => Outcome::of_drafts(drafts),
    }
}

/// What the sequences are too short for.
fn needs(evidence: &Evidence<'_>, sequences: &[(&Series, &Summary)]) -> String {
    let (mut stage, mut reason) = (None, None);
    for (series, summary) in sequences {
        if let Err(why) = series.change() {
            (stage, reason) = (Some(trends::name(evidence, summary)), Some(why));
            break;
        }
    }
    let least = LEAST_FOR_TREND.to_string();
    words!(
        evidence,
        "uneven_pace.needs",
        least = least,
        stage = stage,
        reason = reason
    )
}

/// What iterations after a jump have more of GPU work, if figures of the stage are of them alone (medians).
fn added_work(evidence: &Evidence<'_>, summary: &Summary) -> Option<Time> {
    let stage = summary.stage(evidence.facts);
    let busy = |excluded: Option<Exclusion>| {
        let instances = evidence.facts.instances_by(stage, summary.process).iter();
        let alike = instances.filter(|instance| instance.excluded == excluded);
        median_time(alike.map(|instance| instance.busy))
    };
    let before = busy(Some(Exclusion::EarlierLevel))?;
    Some((busy(None)? - before).max(Time::ZERO))
}

fn draft(evidence: &Evidence<'_>, (series, summary): (&Series, &Summary), drift: Ratio) -> Draft {
    let stage = trends::name(evidence, summary);
    let is_longer = drift > Ratio::ZERO;
    let finding = Finding {
        title: stage.to_owned(),
        severity: if is_longer {
            Severity::Warning
        } else {
            Severity::Note
        },
        scope: series.scope(&evidence.context).unwrap_or_default(),
        evidence: vec![series.evidence(&evidence.context)],
        ..Finding::default()
    };
    let arguments = arguments! {
        pass = Inline::code(evidence.session.pass_name(series.pass)),
        stage = Inline::strong(stage),
        drift = drift.abs(),
        number = series.jump.map(|jump| Quantity::count(jump.number as u64)),
        before = series.jump.map(|jump| jump.before),
        after = series.jump.map(|jump| jump.after),
        work = added_work(evidence, summary),
    };
    let draft = Draft::new(finding, arguments);
    match is_longer {
        _ if series.jump.is_some() => draft.statement("jump").advice("advice_jump"),
        true => draft.statement("longer").advice("advice_longer"),
        false => draft.statement("shorter").advice("advice_shorter"),
    }
}
