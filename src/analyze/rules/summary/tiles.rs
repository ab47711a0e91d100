//! The few figures by which a reader decides: now, after the actions, and what the hardware allows.

use std::collections::BTreeMap;

use super::cold_time;
use super::conclusion::name_of;
use super::figures::{self, Request};
use super::whole::{Kind, Whole};
use crate::evidence::Evidence;
use crate::imbalances::uneven_stages;
use crate::stage::StageLine;
use rooflens_analysis::utilization::mfu::Ceiling;
use rooflens_document::{Cell, Inline, Quantity, Table, Tile};
use rooflens_schemas::{PassKind, Unit};
use rooflens_units::{Flops, Ratio, Time};

/// Figures of what is waited for, of its stages and of the GPU.
pub(super) fn tiles(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Vec<Tile> {
    let mut tiles = Vec::new();
    tiles.push(time(evidence, whole));
    tiles.extend(throughput(evidence, whole));
    let first_of_rank = tiles.len();
    tiles.extend(mfu(evidence, whole));
    tiles.extend(mbu(evidence, whole));
    if let Some(rank) = only_rank(evidence, whole) {
        for (place, tile) in tiles.iter_mut().enumerate() {
            let is_time_of_step = place == 0 && whole.kind == Kind::Step;
            if is_time_of_step || place >= first_of_rank {
                tile.label = of_rank(evidence, &tile.label, rank);
            }
        }
    }
    if let Some(share) = whole.busy_share(evidence) {
        let name = name_with_rank(evidence, whole);
        tiles.push(Tile {
            label: words!(
                evidence,
                "summary.tile_busy",
                copies = (super::hardware::transfers_of(evidence, whole) >= COPIES).then_some(""),
                name = name
            ),
            now: share.into(),
            others: Vec::new(),
        });
    }
    tiles.extend(memory(evidence));
    tiles
}

/// Share of the busy time in transfers from which on they are named.
const COPIES: Ratio = Ratio(0.05);

fn of_rank(evidence: &Evidence<'_>, name: &str, rank: u32) -> String {
    let rank = words!(evidence, "summary.of_rank", rank = rank.to_string());
    words!(evidence, "summary.tile_of", name = name, stage = rank)
}

/// The name of what is waited for, of a step with its rank. Stages that are the whole have the rank in their names.
pub(super) fn name_with_rank(evidence: &Evidence<'_>, whole: &Whole<'_>) -> String {
    words!(
        evidence,
        "summary.with_rank",
        name = name_of(evidence, whole),
        rank = rank_of_step(evidence, whole).map(|rank| rank.to_string()),
    )
}

/// The rank of all figures of a step.
pub(super) fn rank_of_step(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<u32> {
    only_rank(evidence, whole).filter(|_| whole.kind == Kind::Step)
}

/// The rank that all figures are of, where the run has several.
fn only_rank(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<u32> {
    let (first, _) = whole.stages.first()?;
    let rank = first.scope.rank?;
    let is_of_rank = |(stage, _): &(&StageLine, f64)| stage.scope.rank == Some(rank);
    let has_others = evidence
        .stages
        .iter()
        .any(|stage| stage.scope.rank != Some(rank));
    (has_others && whole.stages.iter().all(is_of_rank)).then_some(rank)
}

/// The columns of the data set: a value that a tile shows.
type Shown<'t> = (&'t Tile, Option<&'t (String, Quantity)>);

/// One row a value.
pub(super) fn table<'t>(evidence: &Evidence<'t>) -> Table<'t, Shown<'t>> {
    let value = |(tile, other): &Shown<'_>| other.map_or(tile.now, |(_, value)| *value);
    Table::new(evidence.text, "summary_tiles")
        .text("figure", |(tile, _): &Shown<'_>| tile.label.clone())
        .text("when", |(_, other)| other.map(|(name, _)| name.clone()))
        .text("unit", move |shown| value(shown).base())
        .text("value", move |shown| Cell::Quantity(value(shown)))
}

/// The name of a value after all actions.
fn after(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<String> {
    let count = whole.effective();
    let is_shorter = whole.best() < whole.now;
    is_shorter.then(|| {
        words!(
            evidence,
            "summary.tile_after",
            last = Quantity::count(count as u64),
            many = (count > 1).then_some(""),
            one = (count == 1).then_some(""),
        )
    })
}

fn time(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Tile {
    let mut others = Vec::new();
    if let Some(time) = whole.recurring().filter(|_| whole.speedup().is_some()) {
        others.push((words!(evidence, "summary.tile_recurring"), time.into()));
    }
    if let Some(name) = after(evidence, whole) {
        others.push((name, whole.best().into()));
    }
    if let Some(limit) = whole.limit {
        others.push((words!(evidence, "summary.tile_limit"), limit.into()));
    }
    if let Some(time) = unprofiled(evidence, whole) {
        others.push((words!(evidence, "summary.tile_unprofiled"), time.into()));
    }
    if let Some(first) = first_request(evidence, whole) {
        others.push((words!(evidence, "summary.tile_first"), first.into()));
    }
    let name = name_of(evidence, whole);
    let is_profiled = whole
        .stages
        .iter()
        .any(|(stage, _)| stage.unprofiled.is_none());
    let is_modeled = whole.kind == Kind::Loop && figures::is_modeled(evidence);
    let levels = match whole.stages.as_slice() {
        [(stage, _)] if whole.kind != Kind::Loop => figures::levels(evidence, stage),
        _ => None,
    };
    let mut stages = whole.stages.iter();
    let cold = stages.find(|(stage, _)| cold_time(evidence, stage).is_some());
    Tile {
        label: words!(
            evidence,
            "summary.tile_time",
            name = name,
            steps = whole.steps.map(Quantity::count),
            cold = cold.map(|(stage, _)| stage.label()),
            profiled = is_profiled.then_some(""),
            modeled = is_modeled.then_some(""),
            levels = levels,
        ),
        now: whole.now.into(),
        others,
    }
}

/// Unprofiled time of a step of several ranks, of which one was timed.
fn unprofiled(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Time> {
    if whole.kind != Kind::Step || !evidence.has_baseline_of_one_rank() {
        return None;
    }
    let baseline = evidence.results.baseline().ok()?;
    let mut sum = Time::ZERO;
    for (stage, _) in &whole.stages {
        let name = stage.scope.stage.as_deref()?;
        sum += Time(
            baseline
                .unprofiled(evidence.session, name)?
                .statistics
                .median,
        );
    }
    Some(sum)
}

/// Tokens or images per second: of a step by what its largest stage processes, or else in samples of its batch; of other
/// wholes by its decode stage, or else by the longest that has such a rate.
fn throughput(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Tile> {
    let rate = |stage: &StageLine| figures::utilization(evidence, stage)?.throughput().ok();
    let name_after = after(evidence, whole);
    if whole.kind == Kind::Step {
        let mut most: Option<(f64, Unit)> = None;
        for (stage, times) in &whole.stages {
            let Some((rate, unit)) = rate(stage) else {
                continue;
            };
            let count = rate * stage.reference().0 * times;
            if most.is_none_or(|(most, _)| count > most) {
                most = Some((count, unit));
            }
        }
        let samples = || samples(evidence).map(|samples| (samples * 1e9, Unit::SamplesPerSecond));
        let (count, unit) = most.or_else(samples)?;
        let rate = |time: Time| Quantity::new(count / time.0.max(1.0), unit);
        let mut others = Vec::new();
        if let Some(name) = name_after {
            others.push((name, rate(whole.best())));
        }
        if let Some(limit) = whole.limit {
            others.push((words!(evidence, "summary.tile_limit"), rate(limit)));
        }
        return Some(Tile {
            label: words!(evidence, "summary.tile_rate"),
            now: rate(whole.now),
            others,
        });
    }
    let decodes = whole.stages.iter().filter(|(stage, _)| stage.is_decode());
    let (stage, _) = decodes
        .chain(&whole.stages)
        .find(|(stage, _)| rate(stage).is_some())?;
    let (now, unit) = rate(stage)?;
    let mut others = Vec::new();
    if let Some(limit) = figures::limit(evidence, stage) {
        let faster = stage.reference().0 / limit.0;
        let limit = Quantity::new(now * faster, unit);
        others.push((words!(evidence, "summary.tile_limit"), limit));
    }
    Some(Tile {
        label: words!(evidence, "summary.tile_rate_of", stage = stage.label()),
        now: Quantity::new(now, unit),
        others,
    })
}

/// Samples per GPU in a training step, as the workload states them. If ranks have unequal batches, the mean of two; it is not
/// known for more ranks.
fn samples(evidence: &Evidence<'_>) -> Option<f64> {
    let workload = &evidence.session.workload;
    // Without a model, the first size of the first input may count something else.
    if workload.infers("batch") && evidence.session.model.is_none() {
        return None;
    }
    for (_, imbalance) in uneven_stages(evidence) {
        let rows = imbalance.work.as_ref().and_then(|work| work.rows);
        if let Some((slowest, fastest)) = rows.filter(|(slowest, fastest)| slowest != fastest) {
            let length = workload.prompt_tokens.filter(|length| *length > 0)?;
            let is_whole = slowest.is_multiple_of(length) && fastest.is_multiple_of(length);
            let mean = (slowest + fastest) as f64 / (2 * length) as f64;
            return (imbalance.ranks == 2 && is_whole).then_some(mean);
        }
    }
    workload.batch.map(|batch| batch as f64)
}

/// Model FLOPs ÷ (time × specified rate), of all stages of a step, else of the stage with the most.
fn mfu(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Tile> {
    let mut best: Option<(&StageLine, Option<Ratio>, Ratio)> = None;
    for (stage, _) in &whole.stages {
        if whole.kind != Kind::Step
            && let Some(utilization) = figures::utilization(evidence, stage)
            && let Ok(share) = utilization.mfu()
            && best.is_none_or(|(.., most)| share > most)
        {
            best = Some((stage, utilization.measured_share(), share));
        }
    }
    let Some((stage, measured, share)) = best else {
        let (share, peak) = mfu_of_whole(evidence, whole)?;
        return Some(match peak {
            Peak::Rate(_, measured) => tile_of_share(evidence, "summary.tile_mfu", share, measured),
            Peak::OfOperators => tile_of_share(evidence, "summary.tile_mfu_operators", share, None),
        });
    };
    let mut tile = tile_of_share(evidence, "summary.tile_mfu", share, measured);
    tile.label = words!(
        evidence,
        "summary.tile_of",
        name = tile.label,
        stage = stage.label()
    );
    Some(tile)
}

/// What an MFU is a share of.
pub(super) enum Peak<'a> {
    /// A specified rate, with the share of it that was measured.
    Rate(&'a Ceiling, Option<Ratio>),
    /// The rates of the data types of operators.
    OfOperators,
}

/// MFU of all stages together: of a step by the work of the model, or else by the FLOPs of operators.
pub(super) fn mfu_of_whole<'a>(
    evidence: &Evidence<'a>,
    whole: &Whole<'_>,
) -> Option<(Ratio, Peak<'a>)> {
    let by_model = (whole.kind == Kind::Step).then(|| mfu_of_step(evidence, whole));
    by_model
        .flatten()
        .or_else(|| Some((by_operators(evidence, whole)?, Peak::OfOperators)))
}

/// An optimizer has no model FLOPs, but its time counts.
fn mfu_of_step<'a>(evidence: &Evidence<'a>, whole: &Whole<'_>) -> Option<(Ratio, Peak<'a>)> {
    let (mut flops, mut time) = (Flops::ZERO, Time::ZERO);
    let (mut ceiling, mut measured) = (None, None);
    for (stage, _) in &whole.stages {
        time += stage.alone();
        let Some(utilization) = figures::utilization(evidence, stage) else {
            continue;
        };
        ceiling = ceiling.or(utilization.ceiling.as_ref().ok());
        if utilization.mfu().is_ok() {
            flops += utilization.flops()?;
            measured = utilization.measured_share();
        }
    }
    let ceiling = ceiling?;
    let share = Ratio(flops / (time.seconds() * ceiling.rate));
    let is_known = share.is_positive() && share.is_finite();
    is_known.then_some((share, Peak::Rate(ceiling, measured)))
}

/// MFU by the FLOPs of operators, where the work of the model is not described: of the stages in which nearly all are known.
fn by_operators(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Ratio> {
    let mut work = 0.0;
    for (stage, times) in &whole.stages {
        let share = rooflens_sections::headline::by_operators(evidence.flops(stage)?)?;
        work += share.0 * stage.time.0 * times;
    }
    Some(Ratio(work / whole.now.0))
}

fn tile_of_share(evidence: &Evidence<'_>, key: &str, now: Ratio, limit: Option<Ratio>) -> Tile {
    let limit = limit.map(|limit| (words!(evidence, "summary.tile_peak"), limit.into()));
    Tile {
        label: evidence.text.line(key, &[]),
        now: now.into(),
        others: limit.into_iter().collect(),
    }
}

/// Bytes that must move ÷ (time × specified bandwidth), of decode.
fn mbu(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Tile> {
    for (stage, _) in &whole.stages {
        let utilization = figures::utilization(evidence, stage);
        if let Some(now) = utilization.and_then(|utilization| utilization.mbu().ok()) {
            let mut tile = tile_of_share(evidence, "summary.tile_mbu", now, None);
            tile.label = words!(
                evidence,
                "summary.tile_of",
                name = tile.label,
                stage = stage.label()
            );
            return Some(tile);
        }
    }
    None
}

/// The first request after start, if that was slow.
fn first_request(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Time> {
    if whole.kind != Kind::Request {
        return None;
    }
    let stages: Vec<&StageLine> = whole.stages.iter().map(|(stage, _)| *stage).collect();
    Request::new(evidence, &stages)?.first
}

/// Step time, throughput, MFU and memory in a line, as programs that train log them, with the slowest rank.
pub(super) fn training_line(
    evidence: &Evidence<'_>,
    whole: &Whole<'_>,
    tiles: &[Tile],
) -> Option<Vec<Inline>> {
    if whole.kind != Kind::Step {
        return None;
    }
    let mut items = Vec::new();
    for tile in tiles {
        items.push(words!(
            evidence,
            "summary.training_item",
            label = tile.label.as_str(),
            value = tile.now
        ));
    }
    let items = items.join(evidence.text.semicolon());
    let rank = slowest_rank(evidence).map(|rank| rank.to_string());
    Some(say!(
        evidence,
        "summary.training_line",
        items = items,
        rank = rank
    ))
}

/// The rank whose measured iterations take the most time, of several.
fn slowest_rank(evidence: &Evidence<'_>) -> Option<u32> {
    let mut times = BTreeMap::<u32, Time>::new();
    for stage in &evidence.stages {
        *times.entry(stage.scope.rank?).or_default() += stage.total();
    }
    let slowest = times.iter().max_by(|a, b| a.1.total_cmp(b.1));
    slowest.filter(|_| times.len() > 1).map(|(rank, _)| *rank)
}

/// The most memory in use on a GPU, and what it has.
fn memory(evidence: &Evidence<'_>) -> Option<Tile> {
    let allocator = evidence.results.allocator().ok()?;
    let session = evidence.session;
    let most_used = allocator.used.iter().max_by_key(|used| used.bytes);
    let peaks = allocator.devices.iter();
    let most_allocated = peaks.max_by_key(|device| device.whole.peak.allocated);
    let (label, bytes, pass) = match most_used {
        Some(used) => {
            let folder = session.text(used.artifact).split_once('/');
            let pass = folder.map_or("", |(folder, _)| folder);
            ("summary.tile_memory", used.bytes as f64, pass)
        }
        None => {
            let device = most_allocated?;
            let allocated = device.whole.peak.allocated as f64;
            (
                "summary.tile_allocated",
                allocated,
                session.pass_name(device.states.pass),
            )
        }
    };
    // The profiler's own memory counts in what a device has in use.
    let mut passes = session.passes.ids();
    let is_profiled = passes.any(|id| {
        session.pass_name(id) == pass && session.passes.kind[id.index()] != PassKind::Baseline
    });
    let whole = evidence.memory.map(|whole| {
        let name = words!(evidence, "summary.tile_of_memory");
        (name, Quantity::from(whole))
    });
    Some(Tile {
        label: evidence
            .text
            .line(label, &[("pass", is_profiled.then_some(pass).into())]),
        now: Quantity::new(bytes, Unit::Bytes),
        others: whole.into_iter().collect(),
    })
}
