//! Allocated and reserved bytes over time.

use rooflens_schemas::Unit;

use crate::Context;
use rooflens_analysis::engine::facts::Stage;
use rooflens_analysis::memory::allocator::states::States;
use rooflens_document::chart::{Panel, Plot, Series, thin};
use rooflens_document::{Chart, Quantity};
use rooflens_session::{Arrange, Ns};

/// Bands of stages that a chart can show legibly.
const MAX_BANDS: usize = 64;

/// The chart of an allocator. A reserve that never changes is a mark in the panel of what is allocated.
pub(super) fn chart(context: &Context<'_>, memory: &States, number: usize) -> Chart {
    let (start, end) = memory.span();
    let duration = end.saturating_sub(start).max(Ns(1));
    let points = |value: &dyn Fn(usize) -> Option<i64>| -> Vec<(i64, f64)> {
        let point = |index: usize| {
            Some((
                memory.states[index].time.saturating_sub(start).0,
                value(index)? as f64,
            ))
        };
        thin(
            &(0..memory.states.len())
                .filter_map(point)
                .collect::<Vec<_>>(),
            duration.0,
        )
    };
    let reserved: Vec<i64> = memory
        .states
        .iter()
        .filter_map(|state| state.reserved)
        .collect();
    let most = reserved.iter().max().copied();
    let limit = most.map(|most| {
        let value = Quantity::new(most as f64, Unit::Bytes);
        (
            words!(context, "allocator.most_reserved", bytes = value),
            most as f64,
        )
    });
    let panel = |label, points, limit| Panel {
        label,
        unit: Unit::Bytes,
        points,
        limit,
    };
    let allocated = words!(context, "allocator.allocated");
    let mut panels = vec![panel(
        allocated,
        points(&|index| Some(memory.states[index].allocated)),
        limit,
    )];
    let allocated = memory.states.iter().map(|state| state.allocated);
    if let Some((least, most)) = allocated.clone().min().zip(allocated.max())
        && least > 0
        && most > least
        && most - least < least
    {
        // Weights hide the rest.
        let beyond_least =
            points(&|index| Some(memory.states[index].allocated.saturating_sub(least)));
        panels.push(panel(
            words!(context, "allocator.beyond_least"),
            beyond_least,
            None,
        ));
    }
    if reserved.iter().min().copied() != most {
        let label = words!(context, "allocator.reserved");
        panels.push(panel(
            label,
            points(&|index| memory.states[index].reserved),
            None,
        ));
    }
    let (pass, gpu) = (
        context.session.pass_name(memory.pass),
        memory.device.to_string(),
    );
    Chart {
        id: format!("memory-{number}"),
        title: words!(context, "allocator.chart", gpu = gpu, pass = pass),
        description: words!(context, "allocator.chart_description", pass = pass),
        plot: Plot::Series(Series {
            panels,
            bands: bands(context, memory),
            duration: duration.0,
        }),
    }
}

/// Ranges of outermost stages on the host, from the chart's zero.
fn bands(context: &Context<'_>, memory: &States) -> Vec<(String, i64, i64)> {
    let facts = context.facts;
    let (start, end) = memory.span();
    let of_pass = |stage: &&Stage| stage.pass == memory.pass && stage.parent.is_none();
    let mut bands = Vec::new();
    for stage in facts.stages.iter().filter(of_pass) {
        for instance in facts
            .instances_of(stage)
            .iter()
            .filter(|instance| instance.range.is_some())
        {
            let (from, to) = (instance.host_start.max(start), instance.host_end.min(end));
            if from < to {
                bands.push((stage.name.clone(), (from - start).0, (to - start).0));
            }
        }
    }
    bands.arrange_by(|a, b| (a.1, a.2, &a.0).cmp(&(b.1, b.2, &b.0)));
    bands.truncate(MAX_BANDS);
    bands
}
