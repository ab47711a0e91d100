//! The GPU waits for what the host does: one rule per activity.

use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::known::{self, Loss};
use crate::rule::{Look, Outcome, Rule};
use rooflens_analysis::time::idle::Activity;
use rooflens_units::Time;

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
    let sleeps = known::outcome(evidence, &[Activity::Sleep], |loss| {
        let draft = draft(evidence, loss);
        draft.cause_if(true).advice("advice_sleep")
    });
    match (sleeps, outcome(evidence, &[Activity::Files])) {
        (Outcome::Found(mut sleeps), Outcome::Found(files)) => {
            sleeps.extend(files);
            Outcome::Found(sleeps)
        }
        (sleeps @ Outcome::Found(_), _) => sleeps,
        (_, files) => files,
    }
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
        let lost = known::preparation(evidence, stage);
        let lost = lost.filter(|lost| lost.idle > Time::ZERO && lost.idle >= whole * known::SHARE);
        let Some(lost) = lost else {
            return Look::Passed;
        };
        let loss = known::loss_of_stage(evidence, (stage, idle), lost, &known::SHAPES);
        draft(evidence, loss).into()
    });
    outcome.or_needs(words!(evidence, "findings.needs_idle"))
}
