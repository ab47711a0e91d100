//! Iterations to look at operation by operation.

use std::collections::{BTreeMap, HashMap};

use crate::{Context, class_color};
use rooflens_analysis::engine::classify::{KernelClass, copy_class};
use rooflens_analysis::engine::facts::{OpIndex, OpSource};
use rooflens_analysis::time::timeline::iterations::Iteration;
use rooflens_document::chart::{Color, Event, Iteration as Shown, Lane};
use rooflens_document::{Block, Quantity};
use rooflens_schemas::Unit;
use rooflens_session::ApiCallId;

/// All iterations, if there are some.
pub(super) fn block(context: &Context<'_>, iterations: &[Iteration]) -> Option<Block> {
    let shown: Vec<Shown> = iterations
        .iter()
        .map(|iteration| shown(context, iteration))
        .collect();
    (!shown.is_empty()).then_some(Block::Iterations(shown))
}

/// Names by number, in the order of their first use.
#[derive(Default)]
struct Names {
    all: Vec<(String, Color)>,
    numbers: HashMap<(String, Color), usize>,
}

impl Names {
    fn number(&mut self, name: (String, Color)) -> usize {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(name.clone());
            self.all.len() - 1
        })
    }
}

pub(super) fn shown(context: &Context<'_>, iteration: &Iteration) -> Shown {
    let mut names = Names::default();
    let (mut lanes, numbers) = threads(context, iteration, &mut names);
    lanes.extend(streams(context, iteration, &mut names, &numbers));
    let label = words!(
        context,
        "timeline_stage.iteration",
        ordinal = iteration.ordinal.to_string(),
        stage = iteration.summary.label(context.session, context.facts),
        time = Quantity::new(iteration.window.duration().time().0, Unit::Nanoseconds),
    );
    Shown {
        label,
        extent: iteration.window.duration().0,
        names: names.all,
        lanes,
    }
}

/// The calls by thread, and the number of each among all events.
fn threads(
    context: &Context<'_>,
    iteration: &Iteration,
    names: &mut Names,
) -> (Vec<Lane>, HashMap<ApiCallId, usize>) {
    let (session, calls) = (context.session, &context.session.api_calls);
    let mut threads: BTreeMap<_, Vec<ApiCallId>> = BTreeMap::new();
    for call in &iteration.calls {
        threads
            .entry(calls.thread[call.index()])
            .or_default()
            .push(*call);
    }
    let event = |call: &ApiCallId| {
        let (row, name) = (call.index(), session.text(calls.name[call.index()]));
        let color = if name.contains("Launch") {
            Color::Other
        } else {
            Color::Idle
        };
        let name = names.number((name.to_owned(), color));
        let start = calls.start[row] - iteration.window.start;
        Event {
            name,
            start: start.0,
            duration: (calls.end[row] - calls.start[row]).0,
            call: None,
        }
    };
    let ordered = threads.values().flatten().enumerate();
    let numbers = ordered.map(|(number, call)| (*call, number)).collect();
    let mut events = threads
        .values()
        .flatten()
        .map(event)
        .collect::<Vec<_>>()
        .into_iter();
    let lane = |(thread, own): (&rooflens_session::ThreadId, &Vec<ApiCallId>)| {
        let tid = session.threads.tid[thread.index()].to_string();
        let label = words!(context, "timeline_stage.thread", thread = tid);
        Lane {
            label,
            events: events.by_ref().take(own.len()).collect(),
        }
    };
    (threads.iter().map(lane).collect(), numbers)
}

/// The operations by GPU and stream.
fn streams(
    context: &Context<'_>,
    iteration: &Iteration,
    names: &mut Names,
    calls: &HashMap<ApiCallId, usize>,
) -> Vec<Lane> {
    let ops = &context.facts.ops;
    let mut streams: BTreeMap<(u32, u64), Vec<Event>> = BTreeMap::new();
    for row in &iteration.operations {
        let op = *row as usize;
        let gpu = super::ordinal(context, ops.gpu[op]);
        let call = ops.api_call[op].and_then(|call| calls.get(&call).copied());
        let (name, start) = (
            names.number(name(context, *row)),
            ops.start[op] - iteration.window.start,
        );
        let event = Event {
            name,
            start: start.0,
            duration: (ops.end[op] - ops.start[op]).0,
            call,
        };
        streams
            .entry((gpu, ops.stream[op]))
            .or_default()
            .push(event);
    }
    let lane = |((gpu, stream), events): ((u32, u64), Vec<Event>)| {
        let (gpu, stream) = (gpu.to_string(), stream.to_string());
        let label = words!(context, "timeline_stage.stream", gpu = gpu, stream = stream);
        Lane { label, events }
    };
    streams.into_iter().map(lane).collect()
}

fn name(context: &Context<'_>, op: OpIndex) -> (String, Color) {
    match context.facts.ops.source[op as usize] {
        OpSource::Launch(launch) => {
            let kernel = context.session.launches.kernel[launch.index()];
            let identity = &context.facts.identities[kernel.index()];
            (identity.short.clone(), class_color(identity.class))
        }
        OpSource::Copy(copy) => {
            let kind = context.session.copies.kind[copy.index()];
            (kind.label().to_owned(), class_color(copy_class(kind)))
        }
        OpSource::Graph(_) => (
            KernelClass::Graph.label().to_owned(),
            class_color(KernelClass::Graph),
        ),
    }
}
