//! The GPU waits for what the host does: one rule per activity.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::pauses;
use crate::rule::{Look, Outcome, Rule};
use crate::stage::StageLine;
use rooflens_analysis::time::idle::Activity;
use rooflens_document::{Finding, Severity};
use rooflens_session::{Ns, StrId};
use rooflens_stats::median;
use rooflens_units::{Hertz, Time};

/// A rule about an activity.
macro_rules! rule {
    ($id:literal, $outcome:expr) => {
        Rule::new($id, &[known::THRESHOLD], $outcome)
    };
}

pub(super) static DATA_LOADER: Rule = rule!("data-loader", data_loader);
pub(super) static GARBAGE_COLLECTION: Rule = rule!("garbage-collection", |evidence| {
    match known::clears_for_captures(evidence) {
        true => outcome(evidence, &[]),
        false => outcome(evidence, &CLEARS[..1]),
    }
});
pub(super) static COMPILATION: Rule = rule!("compilation", |evidence| {
    outcome(evidence, &[Activity::Compilation])
});
pub(super) static NEW_SHAPES: Rule = rule!("new-shapes", new_shapes);
pub(super) static GRAPH_CAPTURE: Rule = rule!("graph-capture", |evidence| {
    match known::clears_for_captures(evidence) {
        true => outcome(evidence, &CLEARS),
        false => outcome(evidence, &CLEARS[2..]),
    }
});
pub(super) static CHECKPOINT: Rule = rule!("checkpoint", |evidence| {
    outcome(evidence, &[Activity::Checkpoint])
});
pub(super) static OS_WAITS: Rule = rule!("os-waits", os_waits);
pub(super) static EMPTY_CACHE: Rule = rule!("empty-cache", |evidence| {
    match known::empties_cache(evidence) {
        true => outcome(evidence, &known::EMPTIES),
        false => outcome(evidence, &[]),
    }
});

/// What `torch.cuda.graph` does before it captures, and the capture.
const CLEARS: [Activity; 3] = [
    Activity::GarbageCollection,
    Activity::EmptyCache,
    Activity::GraphCapture,
];

/// The activity of a host that plans attention of cuDNN.
const ATTENTION: [Activity; 1] = [Activity::KernelPlans];

/// Part of the name of the loader that prepares batches in the process of the loop.
const SINGLE: &str = "_SingleProcess";

fn draft(evidence: &Evidence<'_>, loss: Loss) -> Draft {
    let arguments = arguments! {
        idle = loss.idle(),
        occurs = loss.occurs(evidence),
        names = loss.listed(evidence),
    };
    Draft::new(loss.finding, arguments)
}

fn outcome(evidence: &Evidence<'_>, activities: &[Activity]) -> Outcome {
    known::outcome(evidence, activities, |loss| draft(evidence, loss))
}

fn data_loader(evidence: &Evidence<'_>) -> Outcome {
    known::outcome(evidence, &[Activity::DataLoader], |loss| {
        let name = loss.names.first().map(|name| evidence.session.text(*name));
        let is_single = name.is_some_and(|name| name.contains(SINGLE));
        let draft = draft(evidence, loss);
        match is_single {
            true => draft.advice("advice_single").cause_if(true),
            false => draft,
        }
    })
}

fn os_waits(evidence: &Evidence<'_>) -> Outcome {
    let rate = pace(evidence);
    let sleeps = known::outcome(evidence, &[Activity::Sleep], |loss| match rate {
        Some(rate) => {
            let arguments = arguments! { rate = rate, names = loss.listed(evidence) };
            let draft = Draft::new(without_gain(loss.finding), arguments);
            draft.statement("statement_paced").advice(None)
        }
        None => {
            let draft = draft(evidence, loss);
            draft.cause_if(true).advice("advice_sleep")
        }
    });
    let input = known::outcome(evidence, &[Activity::Input], |loss| {
        let mut draft = draft(evidence, loss);
        draft.finding = without_gain(draft.finding);
        draft.statement("statement_input").advice("advice_input")
    });
    let files = outcome(evidence, &[Activity::Files]);
    let mut drafts = Vec::new();
    for outcome in [sleeps, files.clone(), input] {
        if let Outcome::Found(of_outcome) = outcome {
            drafts.extend(of_outcome);
        }
    }
    let has_calls = evidence
        .primary
        .is_some_and(|pass| evidence.session.os_calls.pass.contains(&pass));
    match drafts.is_empty() {
        true if !has_calls => Outcome::INSUFFICIENT_DATA,
        true => files,
        false => Outcome::Found(drafts),
    }
}

/// The finding as a note: nothing is lost.
fn without_gain(finding: Finding) -> Finding {
    Finding {
        gain: None,
        severity: Severity::Note,
        weight_ns: Time::ZERO,
        ..finding
    }
}

/// Iterations from which on it is known whether something paces them.
const PACED: usize = 8;

/// The rate of a loop that a clock or a device paces: its sleeps make up for what its iterations take more or less.
fn pace(evidence: &Evidence<'_>) -> Option<Hertz> {
    let stage = evidence.stages.first()?;
    let instances = evidence
        .facts
        .instances_of(&evidence.facts.stages[stage.stage]);
    let counted = instances
        .iter()
        .filter(|instance| instance.process == stage.process && instance.excluded.is_none());
    let starts: Vec<Ns> = counted
        .filter_map(|instance| Some(instance.projection?.0))
        .collect();
    let periods = starts.windows(2).map(|pair| (pair[1] - pair[0]).0 as f64);
    let sleeps = &known::longest(evidence, Activity::Sleep)?.by_window;
    let sleeps = sleeps.iter().map(|sleep| sleep.0 as f64);
    paced(&periods.collect::<Vec<_>>(), &sleeps.collect::<Vec<_>>())
}

/// The rate of periods that vary less than half as much as the sleeps in them, and by little of a sleep.
fn paced(periods: &[f64], sleeps: &[f64]) -> Option<Hertz> {
    let deviation = |times: &[f64]| {
        let middle = median(times)?;
        let distances: Vec<f64> = times.iter().map(|time| (time - middle).abs()).collect();
        median(&distances)
    };
    let (jitter, sleep) = (deviation(periods)?, median(sleeps)?);
    let is_paced = periods.len().min(sleeps.len()) >= PACED
        && 2.0 * jitter < deviation(sleeps)?
        && 10.0 * jitter < sleep;
    is_paced
        .then(|| Some(Hertz(1e9 / median(periods)?)))
        .flatten()
}

fn new_shapes(evidence: &Evidence<'_>) -> Outcome {
    let outcome = evidence.each_stage(|stage| {
        let Some(idle) = evidence.idle(stage.key()) else {
            return Look::InsufficientData;
        };
        if idle.has_calls().is_err() {
            return Look::InsufficientData;
        }
        let whole = idle.pool.time.time();
        // Plans of new shapes are stalls of some iterations.
        let none = || {
            let pauses = pauses::pauses(evidence, stage);
            match pauses.and_then(|pauses| pauses::plans(evidence, stage, &pauses)) {
                Some(_) => Look::suppressed_by(evidence, pauses::RULE),
                None => Look::Passed,
            }
        };
        let Some(preparation) = known::preparation(evidence, stage) else {
            return none();
        };
        let (lost, activities) = match preparation.attention {
            Some(attention) => (attention, &ATTENTION[..]),
            None => (preparation.all, &known::SHAPES[..]),
        };
        if lost.idle <= Time::ZERO || lost.idle < whole * known::SHARE {
            return none();
        }
        let loss = known::loss_of_stage(evidence, (stage, idle), lost, activities);
        let has_shapes = |shapes: &StrId| *shapes != StrId::default();
        let is_known = evidence.session.operators.shapes.iter().any(has_shapes);
        let draft = draft(evidence, loss).next((!is_known).then_some("next"));
        match preparation.attention {
            Some(_) => draft
                .statement("statement_attention")
                .advice("advice_attention")
                .cause_if(true)
                .into(),
            None if times_algorithms(evidence, stage) => draft.into(),
            None => draft
                .root("cause", "root_action_shapes")
                .only_if("if")
                .advice("advice_shapes")
                .into(),
        }
    });
    outcome.or_needs(words!(evidence, "findings.needs_idle"))
}

/// Whether cuDNN times its algorithms in the measured iterations (`torch.backends.cudnn.benchmark`): it waits for an event
/// after each.
fn times_algorithms(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let (session, calls) = (evidence.session, &evidence.session.api_calls);
    let summary = evidence.summary(stage).into_iter();
    let instances = summary.flat_map(|summary| summary.counted_instances(evidence.facts));
    let starts = instances.filter_map(|instance| instance.projection.map(|(start, _)| start));
    let first = starts.min().unwrap_or_default();
    let pass = evidence.facts.stages[stage.stage].pass;
    (0..calls.len()).any(|row| {
        calls.pass[row] == pass
            && calls.start[row] >= first
            && session.text(calls.name[row]).contains("EventSynchronize")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work of 4 to 12 ms, with a sleep until 40 ms have passed, and with one of 28 ms.
    #[test]
    fn a_sleep_that_fills_the_period_is_paced() {
        let work = [4e6, 12e6, 5e6, 11e6, 6e6, 10e6, 7e6, 9e6, 8e6];
        let fills = work.map(|work| 40e6 - work);
        assert_eq!(paced(&[40e6; 9], &fills), Some(Hertz(25.0)));
        let slept = work.map(|work| 28e6 + work);
        assert_eq!(paced(&slept, &[28e6; 9]), None);
        assert_eq!(paced(&[40e6; 7], &fills[..7]), None);
    }
}
