//! The roofline of the whole workload: counters of profiled launches, spread over the launches of the timeline
//! that they stand for; time is the timeline's.

use std::collections::BTreeMap;

use rooflens_schemas::{Metric, Unit};

use super::ceilings::Roofs;
use super::charts::{labels, slug};
use super::{device, workload_tables as tables};
use crate::analysis::Context;
use crate::analysis::counters::ncu::flops::Part;
use crate::analysis::counters::ncu::{KernelCounters, Level, Levels};
use crate::analysis::counters::represent::matching::{Group, Line, Matching, Spread};
use crate::analysis::engine::classify::KernelClass;
use crate::findings::chart::{Color, Plot, Point, Roofline};
use crate::findings::{Block, Chart, Findings, Method, Quantity, View, derived, unavailable};
use crate::hardware::Gpu;
use crate::model::PassId;
use crate::prose;

/// Share of a stage's GPU time that profiled launches have to stand for: fewer say nothing of the stage.
pub(super) const ENOUGH: f64 = 0.25;

/// Rows of the table of kernels in the section.
const SHOWN_KERNELS: usize = 15;

/// Launches of one kernel, grid, block and size, with the counters of one launch.
pub(super) struct Work<'a> {
    pub(super) group: &'a Group,
    pub(super) class: KernelClass,
    pub(super) short: &'a str,
    /// Operations by dtype and pipe; absent if they were not counted.
    pub(super) parts: Option<Vec<Part>>,
    pub(super) bytes: Levels,
    pub(super) dram: Option<Spread>,
}

/// Sums over works, each with the time of the works that have a number.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Time of all works, nanoseconds.
    pub(super) time: f64,
    /// Operations by dtype.
    pub(super) flops: BTreeMap<&'static str, f64>,
    /// Time of works whose operations were counted, nanoseconds.
    flops_time: f64,
    /// Time of works whose DRAM bytes were counted, nanoseconds.
    dram_time: f64,
    /// Bytes at each level; absent where no work has a number.
    pub(super) bytes: Levels,
    /// DRAM bytes if each launch moved what the least, and the most, of its profiled launches did.
    pub(super) dram_range: (f64, f64),
    /// Time of works with operations and DRAM bytes, those operations and bytes: what a mark is made of.
    mark: (f64, f64, f64),
}

/// A stage of the timeline with the work of its launches.
pub(super) struct StageWork<'a> {
    pub(super) line: &'a Line,
    pub(super) label: String,
    /// The works with a profiled launch, those with most time first.
    pub(super) works: Vec<Work<'a>>,
    pub(super) totals: Totals,
    /// Some pass that counted the bytes is known to have flushed the caches before each launch.
    flushed: bool,
}

impl Work<'_> {
    /// Operations of one launch.
    pub(super) fn flops(&self) -> Option<f64> {
        self.parts.as_ref().map(|parts| 0.0 + parts.iter().map(|part| part.flops).sum::<f64>())
    }

    /// All launches' operations, or bytes, per second of their time.
    pub(super) fn per_second(&self, of_launch: Option<f64>) -> Option<f64> {
        let seconds = self.group.time as f64 / 1e9;
        Some(of_launch? * self.group.launches as f64 / seconds).filter(|rate| rate.is_finite())
    }

    /// Operations per byte at a level.
    pub(super) fn intensity(&self, level: Level) -> Option<f64> {
        let bytes = self.bytes.get(level).filter(|bytes| *bytes > 0.0)?;
        Some(self.flops()? / bytes)
    }

    fn point(&self, line: &Line) -> Option<Point> {
        let (x, y) = (self.intensity(Level::Dram)?, self.per_second(self.flops())?);
        let weight = self.group.time as f64 / line.time as f64;
        let color = self.class.color();
        (x > 0.0).then(|| Point { label: self.short.to_owned(), x, y, weight, color })
    }
}

impl Totals {
    /// The sums of some works.
    pub(super) fn of<'a>(works: impl Iterator<Item = &'a Work<'a>>) -> Self {
        let mut all = Self::default();
        for work in works {
            let (time, launches) = (work.group.time as f64, work.group.launches as f64);
            all.time += time;
            for part in work.parts.iter().flatten() {
                *all.flops.entry(part.dtype).or_default() += part.flops * launches;
            }
            let add = |sum: &mut Option<f64>, one: Option<f64>| {
                if let Some(one) = one {
                    *sum = Some(sum.unwrap_or_default() + one * launches);
                }
            };
            add(&mut all.bytes.dram, work.bytes.dram);
            add(&mut all.bytes.l2, work.bytes.l2);
            add(&mut all.bytes.l1, work.bytes.l1);
            all.flops_time += work.parts.as_ref().map_or(0.0, |_| time);
            if let Some(spread) = work.dram {
                all.dram_time += time;
                all.dram_range.0 += spread.min * launches;
                all.dram_range.1 += spread.max * launches;
            }
            if let (Some(flops), Some(bytes)) = (work.flops(), work.bytes.dram) {
                let (t, f, b) = all.mark;
                all.mark = (t + time, f + flops * launches, b + bytes * launches);
            }
        }
        all
    }

    /// Operations of all dtypes; absent if no work's were counted.
    pub(super) fn all_flops(&self) -> Option<f64> {
        (self.flops_time > 0.0).then(|| 0.0 + self.flops.values().sum::<f64>())
    }

    /// Operations per DRAM byte, of works with both.
    pub(super) fn intensity(&self) -> Option<f64> {
        let (_, flops, bytes) = self.mark;
        (bytes > 0.0).then(|| flops / bytes)
    }

    /// A mark in the DRAM roofline: operations per byte and per second of kernel time.
    fn point(&self, label: String, weight: f64, color: Color) -> Option<Point> {
        let (time, flops, bytes) = self.mark;
        let (x, y) = (flops / bytes, flops / (time / 1e9));
        (x.is_finite() && y.is_finite() && x > 0.0).then_some(Point { label, x, y, weight, color })
    }
}

impl StageWork<'_> {
    /// A sum over the counted instances, per instance.
    pub(super) fn per_instance(&self, sum: f64) -> f64 {
        sum / self.line.summary.counted.max(1) as f64
    }

    /// A sum over the counted instances, per second of stage time and GPU.
    pub(super) fn per_second(&self, sum: f64) -> f64 {
        let seconds = self.line.summary.time / 1e9 * self.line.gpus as f64;
        self.per_instance(sum) / seconds
    }

    /// Share of the stage's GPU time in launches with counters.
    pub(super) fn covered(&self) -> f64 {
        self.line.share(|group| group.tier.is_some())
    }

    /// Executed operations as a share of what the peaks allow in the stage time, and the basis.
    pub(super) fn hfu(&self, gpu: Option<&Gpu>) -> Result<(f64, String), String> {
        self.enough(self.totals.flops_time, "with counted operations")?;
        let gpu = gpu.ok_or("no peak: the GPU is not in the hardware table")?;
        let (mut ideal, mut said, mut left_out) = (0.0, Vec::new(), Vec::new());
        for (dtype, flops) in &self.totals.flops {
            let Some(peak) = gpu.peak(dtype) else {
                left_out.push(*dtype);
                continue;
            };
            ideal += self.per_instance(*flops) / peak.dense;
            let flops = Quantity::new(self.per_instance(*flops), Unit::Flop);
            let rate = Quantity::new(peak.dense, Unit::FlopPerSecond);
            said.push(format!("{flops} {dtype} / {rate}"));
        }
        if said.is_empty() {
            return Err("no profiled launch with counted FLOPs of a dtype with a peak".to_owned());
        }
        let seconds = self.line.summary.time / 1e9 * self.line.gpus as f64;
        let matched = self.matched(self.totals.flops_time);
        let mut basis = format!("({}) / {}; {matched}", said.join(" + "), self.time());
        if !left_out.is_empty() {
            basis += &format!("; without {}, which has no peak", left_out.join(", "));
        }
        possible(ideal / seconds).map(|share| (share, basis))
    }

    /// DRAM bytes as a share of what the memory bandwidth allows in the stage time, and the basis.
    pub(super) fn dram_share(&self, gpu: Option<&Gpu>) -> Result<(f64, String), String> {
        let bytes = self.dram_bytes()?;
        let gpu = gpu.ok_or("no peak: the GPU is not in the hardware table")?;
        let share = self.per_second(bytes) / gpu.memory_bandwidth;
        let bytes = Quantity::new(self.per_instance(bytes), Unit::Bytes);
        let bandwidth = Quantity::new(gpu.memory_bandwidth, Unit::BytesPerSecond);
        let (time, matched) = (self.time(), self.matched(self.totals.dram_time));
        let basis = format!("{bytes} / ({time} × {bandwidth}); {matched}{}", self.caches());
        possible(share).map(|share| (share, basis))
    }

    /// DRAM bytes of all counted instances.
    fn dram_bytes(&self) -> Result<f64, String> {
        self.enough(self.totals.dram_time, "with DRAM bytes")?;
        self.totals.bytes.dram.ok_or_else(|| "no profiled launch with DRAM bytes".to_owned())
    }

    /// Refuses sums over less than enough of the stage's GPU time.
    fn enough(&self, time: f64, with: &str) -> Result<(), String> {
        let covered = time / self.line.time as f64;
        let reason = format!(
            "profiled launches {with} stand for {} of the stage's GPU time, less than {}",
            Quantity::ratio(covered),
            Quantity::ratio(ENOUGH)
        );
        if covered >= ENOUGH { Ok(()) } else { Err(reason) }
    }

    fn time(&self) -> String {
        let time = Quantity::new(self.line.summary.time, Unit::Nanoseconds);
        match self.line.gpus {
            1 => format!("stage time {time}"),
            gpus => format!("(stage time {time} × {gpus} GPUs)"),
        }
    }

    fn matched(&self, time: f64) -> String {
        let covered = time / self.line.time as f64;
        let rest = if covered < 0.9995 { ", the rest not counted" } else { "" };
        let share = Quantity::ratio(covered);
        format!("counters of profiled launches that stand for {share} of the GPU time{rest}")
    }

    /// What flushed caches mean for bytes.
    fn caches(&self) -> &'static str {
        if self.flushed {
            "; caches were flushed before each profiled launch, so that what its predecessor left in L2 counts as read"
        } else {
            ""
        }
    }
}

/// More than a peak is no result: the peak is wrong, or launches stand for others than they should.
fn possible(share: f64) -> Result<f64, String> {
    if share <= 1.0 {
        return Ok(share);
    }
    Err(format!("{} is more than the peak allows", Quantity::ratio(share)))
}

/// What counters say of a stage of the timeline, per instance.
pub(crate) struct Executed {
    /// The stage's label.
    pub(crate) label: String,
    /// Executed FLOPs of the profiled launches and of those that they stand for; absent for too small a share of the time.
    pub(crate) flops: Option<f64>,
    /// Executed FLOPs as a share of what the peaks allow in the stage time.
    pub(crate) hfu: Option<f64>,
}

/// Executed work of the stages of the timeline pass, with that pass; nothing without a timeline and profiled launches.
pub(crate) fn executed(context: &Context<'_>) -> Option<(PassId, Vec<Executed>)> {
    let matching = context.facts.matching.as_ref()?;
    let device = device::of_pass(context.session, matching.pass);
    let gpu = Roofs::new(context, device.as_ref(), std::iter::empty()).gpu;
    let one = |line| {
        let stage = stage_work(context, matching, line);
        let counted = stage.enough(stage.totals.flops_time, "with counted operations").is_ok();
        let flops = stage.totals.all_flops().filter(|_| counted);
        Executed {
            flops: flops.map(|flops| stage.per_instance(flops)),
            hfu: stage.hfu(gpu).ok().map(|(share, _)| share),
            label: stage.label,
        }
    };
    Some((matching.pass, matching.lines.iter().map(one).collect()))
}

/// Adds the workload's rooflines, tables and metrics, if there is a timeline.
pub(super) fn add(context: &Context<'_>, findings: &mut Findings) {
    let Some(matching) = &context.facts.matching else { return };
    let stages: Vec<StageWork<'_>> =
        matching.lines.iter().map(|line| stage_work(context, matching, line)).collect();
    if stages.iter().all(|stage| stage.works.is_empty()) {
        return;
    }
    let device = device::of_pass(context.session, matching.pass);
    let dtypes = stages.iter().flat_map(|stage| &stage.works).filter_map(main_dtype);
    let roofs = Roofs::new(context, device.as_ref(), dtypes);
    let phases: Vec<&StageWork<'_>> = stages
        .iter()
        .filter(|stage| stage.line.summary.is_outermost(context.facts) && !stage.works.is_empty())
        .collect();
    findings.blocks.push(Block::Heading("Workload".to_owned()));
    findings.blocks.push(introduction());
    let covered: Vec<&StageWork<'_>> =
        phases.iter().copied().filter(|stage| stage.covered() >= ENOUGH).collect();
    add_charts(matching, &covered, &roofs, findings);
    let gpu = roofs.gpu;
    for stage in &stages {
        findings.metrics.extend(metrics(context, stage, gpu));
    }
    let rule = context.options.classifier;
    let (kernels, classes) = (tables::kernels(&phases, matching, rule), tables::classes(&phases));
    let shown = kernels.rows.len().min(SHOWN_KERNELS);
    let caption = format!("Kernels of the workload by time, {shown} of {}", kernels.rows.len());
    findings.blocks.extend([
        Block::Table(View::new(
            tables::STAGES,
            "Executed work per stage",
            tables::STAGES_SHOWN,
            12,
        )),
        Block::Table(View::new(tables::KERNELS, caption, tables::KERNELS_SHOWN, shown)),
        Block::Table(View::new(
            tables::BOUNDS,
            "GPU time of the workload by bound class of the profiled launches that stand for it",
            tables::BOUNDS_SHOWN,
            16,
        )),
    ]);
    findings.datasets.extend([
        tables::stages(&stages, gpu),
        kernels,
        classes,
        tables::bounds(&phases, matching),
    ]);
    findings.methods.push(method());
}

fn stage_work<'a>(
    context: &'a Context<'_>,
    matching: &'a Matching,
    line: &'a Line,
) -> StageWork<'a> {
    let work = |group: &'a Group| {
        let identity = &context.facts.identities[group.kernel.index()];
        Work {
            group,
            class: identity.class,
            short: &identity.short,
            parts: group.parts(&matching.profiles),
            bytes: group.bytes(&matching.profiles),
            dram: group.counter(&matching.profiles, |counters| counters.bytes.dram),
        }
    };
    let matched = line.groups.iter().filter(|group| group.tier.is_some());
    let works: Vec<Work<'a>> = matched.map(work).collect();
    let totals = Totals::of(works.iter());
    let label = line.summary.label(context.session, context.facts);
    let flushed = works.iter().any(|work| matching.flushed(context.session, work.group));
    StageWork { line, label, works, totals, flushed }
}

fn main_dtype(work: &Work<'_>) -> Option<&'static str> {
    let parts = work.parts.iter().flatten();
    let most = parts.reduce(|best, next| if next.flops > best.flops { next } else { best });
    most.map(|part| part.dtype)
}

fn introduction() -> Block {
    Block::Prose(prose![
        "Each launch of the timeline takes the counters of the profiled launches that stand for it, and its time from the \
         timeline. What no profiled launch stands for is in no sum, so operations and bytes of a stage are too low by \
         what “Profiled” lacks; bytes of launches that were profiled with flushed caches are too high by what they \
         would find in L2.",
    ])
}

/// One chart of stages and classes, and one of kernels a phase.
fn add_charts(
    matching: &Matching,
    phases: &[&StageWork<'_>],
    roofs: &Roofs<'_>,
    findings: &mut Findings,
) {
    let counters: Vec<KernelCounters> =
        matching.profiles.iter().map(|profile| profile.counters.clone()).collect();
    let chart = |id: &str, title: String, said: &str, points: Vec<Point>| {
        let bandwidths = roofs.bandwidths(Level::Dram, &counters);
        let plot = Roofline { bandwidths, rates: roofs.rates(), points, levels: Vec::new() };
        let description = format!(
            "{said} FLOP/s against FLOPs per DRAM byte, log-log. Ceilings: {}.",
            labels(&plot)
        );
        let has_points = !plot.points.is_empty();
        has_points.then(|| {
            let plot = Plot::Roofline(plot);
            Block::Chart(Chart { id: id.to_owned(), title, description, plot })
        })
    };
    let points = phases.iter().flat_map(|stage| class_points(stage)).collect();
    let said = "Stages (operations over the whole stage time) and their kernel classes (over the time of their kernels).";
    findings.blocks.extend(chart(
        "roofline-workload",
        "Workload roofline: stages and kernel classes".to_owned(),
        said,
        points,
    ));
    for stage in phases {
        let points: Vec<Point> =
            stage.works.iter().filter_map(|work| work.point(stage.line)).collect();
        let share: f64 = points.iter().map(|point| point.weight).sum();
        let said = format!("Kernels with {} of the GPU time of the stage.", Quantity::ratio(share));
        let id = format!("roofline-workload-{}", slug(&stage.label));
        let title = format!("Workload roofline: kernels of {}", stage.label);
        findings.blocks.extend(chart(&id, title, &said, points));
    }
}

/// A mark for each class of a stage, and one for the stage.
fn class_points(stage: &StageWork<'_>) -> Vec<Point> {
    let mut points = Vec::new();
    for class in KernelClass::ALL {
        let totals = Totals::of(stage.works.iter().filter(|work| work.class == class));
        let label = format!("{} · {}", stage.label, class.label());
        points.extend(totals.point(label, totals.time / stage.line.time as f64, class.color()));
    }
    let flops = stage.totals.all_flops().unwrap_or_default();
    let label = format!("{} · whole stage", stage.label);
    let whole = stage.totals.point(label, stage.covered(), Color::Stage);
    points.extend(whole.map(|point| Point { y: stage.per_second(flops), ..point }));
    points
}

/// Coverage, executed operations and bytes of a stage.
fn metrics(context: &Context<'_>, stage: &StageWork<'_>, gpu: Option<&Gpu>) -> Vec<Metric> {
    let scope = stage.line.summary.scope(context.session, context.facts);
    let covered = stage.covered();
    let time = Quantity::new(stage.line.time as f64, Unit::Nanoseconds);
    let basis = format!(
        "{} of {time} of GPU operations in {} counted instances",
        Quantity::new(stage.totals.time, Unit::Nanoseconds),
        stage.line.summary.counted
    );
    let share = derived("profiled_share", scope.clone(), Unit::Ratio, covered, basis);
    let ratio = |id: &str, value: Result<(f64, String), String>| match value {
        Ok((value, basis)) => derived(id, scope.clone(), Unit::Ratio, value, basis),
        Err(reason) => unavailable(id, scope.clone(), Unit::Ratio, reason),
    };
    let bytes = match stage.dram_bytes() {
        Ok(bytes) => {
            let (low, high) = stage.totals.dram_range;
            let bytes_of = |sum| Quantity::new(stage.per_instance(sum), Unit::Bytes);
            let basis = format!(
                "per instance, {} to {} by the least and the most of several profiled launches; {}{}",
                bytes_of(low),
                bytes_of(high),
                stage.matched(stage.totals.dram_time),
                stage.caches()
            );
            let value = stage.per_instance(bytes);
            derived("dram_bytes", scope.clone(), Unit::Bytes, value, basis)
        }
        Err(reason) => unavailable("dram_bytes", scope.clone(), Unit::Bytes, reason),
    };
    vec![
        share,
        ratio("hfu", stage.hfu(gpu)),
        bytes,
        ratio("profiled_dram_share", stage.dram_share(gpu)),
    ]
}

fn method() -> Method {
    let text = format!(
        "Operations and bytes of a launch: mean over the profiled launches that stand for it (section “What profiled \
         launches stand for”). A stage's sums are over its counted instances, per instance; rates of a stage are per \
         stage time and GPU, rates of kernels and classes per time of their launches. HFU = Σ over dtypes (executed FLOPs ÷ \
         peak of the dtype) ÷ stage time. HFU, bytes and bandwidth of a stage are given from {} of its GPU time on. \
         Ranges: every launch with the least, and the most, that its profiled launches counted.",
        Quantity::ratio(ENOUGH)
    );
    Method { title: "Workload roofline".to_owned(), text: vec![text.into()] }
}

#[cfg(test)]
mod tests;
