//! The chart over a whole pass: what ran, how much of the GPU it used, and at what power and clock.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use super::bands;
use super::bins::{Mix, Window, mix, rounded};
use super::sampled::Counters;
use super::tracks::{counter_tracks, nvml_tracks};
use crate::analysis::Context;
use crate::analysis::engine::facts::OpSource;
use crate::analysis::engine::segments::exclusive;
use crate::analysis::system::power::samples::{Device, Sample};
use crate::findings::chart::{Areas, Color, Part, Plot, Track, Tracks};
use crate::findings::{Chart, Quantity};
use crate::model::{GpuId, Ns, PassId};

/// GPUs that a chart shows; the data set holds all.
const MAX_GPUS: usize = 8;

/// A pass in equal stretches of time.
pub(super) struct Overview {
    pub(super) pass: PassId,
    pub(super) window: Window,
    /// Class mix of each stretch, by GPU.
    pub(super) gpus: Vec<(GpuId, Vec<Mix>)>,
}

/// The overview of a pass; none without operations that last.
pub(super) fn of_pass(context: &Context<'_>, pass: PassId) -> Option<Overview> {
    let window = window(context, pass)?;
    let ops = &context.facts.ops;
    let mut rows: BTreeMap<GpuId, Vec<usize>> = BTreeMap::new();
    for row in context.facts.ops_of(pass) {
        rows.entry(ops.gpu[row]).or_default().push(row);
    }
    let mix = |rows: Vec<usize>| mix(&window, &exclusive(context, rows.into_iter()));
    let gpus = rows.into_iter().map(|(gpu, rows)| (gpu, mix(rows))).collect();
    Some(Overview { pass, window, gpus })
}

/// From the start of the first stage's work to the end of the last one's.
fn window(context: &Context<'_>, pass: PassId) -> Option<Window> {
    let stages = context.facts.stages.iter().filter(|stage| stage.pass == pass);
    let instances = stages.flat_map(|stage| context.facts.instances_of(stage));
    let spans = instances.filter_map(|instance| instance.projection);
    let (start, end) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (end > start).then_some(Window { start, end })
}

impl Overview {
    /// Busy time of a GPU in the window, nanoseconds.
    pub(super) fn busy(mix: &[Mix]) -> Ns {
        mix.iter().flatten().sum()
    }

    /// The chart, with the samples of the first GPU if there are some.
    pub(super) fn chart(
        &self,
        context: &Context<'_>,
        counters: &BTreeMap<(PassId, GpuId), Counters>,
        devices: &[Device],
    ) -> Chart {
        let session = context.session;
        let pass = session.pass_name(self.pass);
        let mut tracks = self.busy_tracks(context);
        if let Some((gpu, _)) = self.gpus.first() {
            let nvml = self.device(context, devices, *gpu);
            let several = self.gpus.len() > 1;
            let of =
                if several { format!(", GPU {}", ordinal(context, *gpu)) } else { String::new() };
            if let Some(own) = counters.get(&(self.pass, *gpu)) {
                tracks.extend(counter_tracks(&self.window, own, nvml.is_none(), &of));
            }
            if let Some(samples) = nvml {
                tracks.extend(nvml_tracks(&self.window, &samples, &of));
            }
        }
        Chart {
            id: format!("timeline-{}", self.pass.index()),
            title: format!("The pass {pass} over time"),
            description: self.description(context, pass),
            plot: Plot::Tracks(Tracks {
                x_label: "Time".to_owned(),
                x_unit: Unit::Nanoseconds,
                extent: self.window.duration(),
                bands: bands::of_pass(context, self.pass, &self.window),
                tracks,
            }),
        }
    }

    fn description(&self, context: &Context<'_>, pass: &str) -> String {
        let duration = self.window.duration();
        let mut text = format!("What the GPU does over {} of pass {pass}.", Quantity::ns(duration));
        for (gpu, mix) in self.gpus.iter().take(MAX_GPUS) {
            let busy = Self::busy(mix);
            let share = Quantity::ratio(busy as f64 / duration as f64);
            text.push_str(&format!(" GPU {} is busy for {share}", ordinal(context, *gpu)));
            let totals = (0..Color::KERNELS.len()).map(|n| mix.iter().map(|bin| bin[n]).sum());
            let greatest = Color::KERNELS
                .into_iter()
                .zip(totals)
                .max_by_key(|(color, time): &(_, Ns)| (*time, std::cmp::Reverse(*color)));
            if let Some((color, time)) = greatest.filter(|(_, time)| *time > 0) {
                let share = Quantity::ratio(time as f64 / busy as f64);
                text.push_str(&format!(", {share} of that with {}", color.label()));
            }
            text.push('.');
        }
        text.push_str(" Bands are stages; the data set timeline holds the stretches.");
        text
    }

    fn busy_tracks(&self, context: &Context<'_>) -> Vec<Track> {
        let lengths = self.window.lengths();
        let used = |n: &usize| self.gpus.iter().any(|(_, mix)| mix.iter().any(|bin| bin[*n] > 0));
        let colors: Vec<usize> = (0..Color::KERNELS.len()).filter(used).collect();
        let sources = &context.facts.ops.source;
        let graphs =
            context.facts.ops_of(self.pass).any(|row| matches!(sources[row], OpSource::Graph(_)));
        let other = if graphs { "other, whole CUDA graphs" } else { Color::Other.label() };
        let part = |n: &usize| {
            let color = Color::KERNELS[*n];
            let name = if color == Color::Other { other } else { color.label() };
            Part { name: name.to_owned(), color }
        };
        let several = self.gpus.len() > 1;
        let track = |(gpu, mix): &(GpuId, Vec<Mix>)| {
            let share = |n: usize| -> Vec<f64> {
                let bins = mix.iter().zip(&lengths);
                bins.map(|(bin, length)| rounded(bin[n], *length)).collect()
            };
            let label = match several {
                true => format!("GPU {} busy", ordinal(context, *gpu)),
                false => "GPU busy".to_owned(),
            };
            let shares = colors.iter().map(|n| share(*n)).collect();
            Track::Areas(Areas { label, parts: colors.iter().map(part).collect(), shares })
        };
        self.gpus.iter().take(MAX_GPUS).map(track).collect()
    }

    /// The NVML samples of a GPU within the window, by the window's clock.
    fn device(
        &self,
        context: &Context<'_>,
        devices: &[Device],
        gpu: GpuId,
    ) -> Option<Vec<(Ns, Sample)>> {
        let session = context.session;
        let origin = session.passes.utc_origin[self.pass.index()]?;
        let same = |device: &&Device| {
            device.index == session.gpus.ordinal[gpu.index()]
                || (device.alone && self.gpus.len() == 1)
        };
        let within = |device: &Device| {
            let samples = device.within(origin, (self.window.start, self.window.end));
            let moved = samples.iter().map(|sample| (sample.utc.saturating_sub(origin), *sample));
            moved.collect::<Vec<_>>()
        };
        devices.iter().filter(same).map(within).find(|samples| samples.len() > 1)
    }
}

pub(super) fn ordinal(context: &Context<'_>, gpu: GpuId) -> u32 {
    context.session.gpus.ordinal[gpu.index()]
}
