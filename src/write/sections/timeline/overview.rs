//! The chart over a whole pass: what ran, how much of the GPU it used, and at what power and clock.

use std::cmp::Reverse;

use rooflens_schemas::Unit;

use super::tracks::{counter_tracks, nvml_tracks};
use super::{number, ordinal};
use crate::Context;
use crate::breakdown::class_name;
use crate::group_color;
use rooflens_analysis::engine::classify::{ClassGroup, GroupTimes};
use rooflens_analysis::engine::facts::OpSource;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::system::power;
use rooflens_analysis::system::power::samples::{Device, Sample};
use rooflens_analysis::time::timeline::Timeline;
use rooflens_analysis::time::timeline::bins::rounded;
use rooflens_analysis::time::timeline::overview::Overview;
use rooflens_document::chart::{Areas, Part, Plot, Track, Tracks};
use rooflens_document::{Chart, Quantity};
use rooflens_session::{GpuId, Ns};

/// GPUs that a chart shows; the data set holds all.
const MAX_GPUS: usize = 8;

/// The chart of a pass, with the samples of the GPU that computes longest if there are some.
pub(super) fn chart(context: &Context<'_>, timeline: &Timeline, overview: &Overview) -> Chart {
    let pass = context.session.pass_name(overview.pass);
    let mut tracks = busy_tracks(context, overview);
    let slowest = slowest(context, overview);
    let name = slowest.and_then(|gpu| number(context, gpu, overview.gpus.len() > 1));
    let name = name.as_deref();
    if let Some(gpu) = slowest {
        let nvml = nvml_samples(context, overview, gpu);
        if let Some(counters) = timeline.counters_of(overview.pass, gpu) {
            tracks.extend(counter_tracks(
                context,
                &overview.window,
                counters,
                nvml.is_none(),
                name,
            ));
        }
        if let Some(samples) = nvml {
            tracks.extend(nvml_tracks(context, &overview.window, &samples, name));
        }
    }
    let busy = overview
        .gpus
        .iter()
        .find(|(gpu, _)| Some(*gpu) == slowest)
        .map_or(Ns::ZERO, busy);
    let stages = &context.facts.stages;
    let bands = overview
        .bands
        .iter()
        .map(|(stage, start, end)| (stages[*stage].name.clone(), start.0, end.0));
    Chart {
        id: format!("timeline-{}", overview.pass.index()),
        title: words!(
            context,
            "timeline.chart",
            gpu = name,
            share = Quantity::ratio(busy.time() / overview.window.duration().max(Ns(1)).time()),
            time = Quantity::ns(overview.window.duration()),
            pass = pass,
        ),
        description: description(context, overview, pass),
        plot: Plot::Tracks(Tracks {
            x_label: words!(context, "timeline.time"),
            x_unit: Unit::Nanoseconds,
            extent: overview.window.duration().0,
            bands: bands.collect(),
            tracks,
        }),
    }
}

/// The GPU of the rank that computes longest, or the first one.
fn slowest(context: &Context<'_>, overview: &Overview) -> Option<GpuId> {
    let runs = context
        .results
        .communication()
        .map_or(&[][..], |communication| &communication.runs);
    let ranks = runs.iter().flat_map(|ranks| {
        let passes = ranks
            .lines
            .iter()
            .filter(|line| line.stage.is_none() && line.pass == overview.pass);
        passes.map(|line| (line.compute, ranks.run.members[line.member].gpu))
    });
    let most = ranks.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, gpu)| gpu);
    let first = overview.gpus.first().map(|(gpu, _)| *gpu);
    most.filter(|gpu| overview.gpus.iter().any(|(shown, _)| shown == gpu))
        .or(first)
}

/// Time in which a GPU is busy, nanoseconds.
fn busy((_, mix): &(GpuId, Vec<GroupTimes>)) -> Ns {
    mix.iter().flatten().sum()
}

fn description(context: &Context<'_>, overview: &Overview, pass: &str) -> String {
    let duration = overview.window.duration();
    let work = context.results.stage_work().map_or(&[][..], Vec::as_slice);
    let is_of_pass = |stage: &&StageWork| stage.summary.stage(context.facts).pass == overview.pass;
    let name = |group| class_name(work.iter().filter(is_of_pass), group);
    let sentence = |row: &(GpuId, Vec<GroupTimes>)| {
        let ((gpu, mix), busy) = (row, busy(row));
        let time = |group: ClassGroup| mix.iter().map(|bin| bin[group as usize]).sum::<Ns>();
        let groups = ClassGroup::ALL
            .into_iter()
            .map(|group| (time(group), Reverse(group)));
        let most = groups.max().filter(|(time, _)| *time > Ns::ZERO);
        words!(
            context,
            "timeline.gpu",
            gpu = number(context, *gpu, true),
            share = Quantity::ratio(busy.time() / duration.time()),
            of_busy = most.map(|(time, _)| Quantity::ratio(time.time() / busy.time())),
            class = most.map(|(_, Reverse(group))| context.text.word(name(group))),
        )
    };
    let gpus: String = overview.gpus.iter().take(MAX_GPUS).map(sentence).collect();
    let time = Quantity::ns(duration);
    words!(
        context,
        "timeline.chart_text",
        time = time,
        pass = pass,
        gpus = gpus
    )
}

fn busy_tracks(context: &Context<'_>, overview: &Overview) -> Vec<Track> {
    let lengths = overview.window.lengths();
    let runs = |group: &ClassGroup| {
        overview
            .gpus
            .iter()
            .any(|(_, mix)| mix.iter().any(|bin| bin[*group as usize] > Ns::ZERO))
    };
    let groups: Vec<ClassGroup> = ClassGroup::ALL.into_iter().filter(runs).collect();
    let sources = &context.facts.ops.source;
    let graphs = context
        .facts
        .ops_of(overview.pass)
        .any(|row| matches!(sources[row], OpSource::Graph(_)));
    let part = |group: &ClassGroup| {
        let color = group_color(*group);
        let graphs = graphs && *group == ClassGroup::Other;
        let name = match graphs {
            true => words!(context, "timeline.graphs"),
            false => color.label().to_owned(),
        };
        Part { name, color }
    };
    let track = |(gpu, mix): &(GpuId, Vec<GroupTimes>)| {
        let shares = |group: &ClassGroup| -> Vec<f64> {
            let bins = mix.iter().zip(&lengths);
            bins.map(|(bin, length)| rounded(bin[*group as usize], *length))
                .collect()
        };
        let name = number(context, *gpu, overview.gpus.len() > 1);
        let label = words!(context, "timeline.gpu_busy", gpu = name);
        let shares = groups.iter().map(shares).collect();
        Track::Areas(Areas {
            label,
            parts: groups.iter().map(part).collect(),
            shares,
        })
    };
    overview.gpus.iter().take(MAX_GPUS).map(track).collect()
}

/// The NVML samples of a GPU within the window, by the pass's clock.
fn nvml_samples(
    context: &Context<'_>,
    overview: &Overview,
    gpu: GpuId,
) -> Option<Vec<(Ns, Sample)>> {
    let origin = context.session.passes.utc_origin[overview.pass.index()]?;
    let same = |device: &&Device| {
        device.index == ordinal(context, gpu) || (device.alone && overview.gpus.len() == 1)
    };
    let within = |device: &Device| {
        let samples = device
            .within(origin, (overview.window.start, overview.window.end))
            .iter();
        samples
            .map(|sample| (sample.utc.saturating_sub(origin), *sample))
            .collect::<Vec<_>>()
    };
    let devices = power::sampled(context).iter().filter(same);
    devices.map(within).find(|samples| samples.len() > 1)
}
