//! Repeats of whole stages, timed by the workload itself: their spread and their outliers.

use rooflens_schemas::{Evidence, Scope, StageKind};

use crate::engine::facts::{Exclusion, Sizes};
use crate::engine::stage_stats::{Means, Summary};
use crate::{Context, Known, Missing};
use rooflens_session::{Ns, Session, StrId};
use rooflens_stats::{
    Level, OUTLIER_Z, Statistics, alike, levels, mean, median, modified_z_of_groups, rises, settles,
};
use rooflens_units::{Count, Time};

/// The timed repeats of a bundle.
pub struct Baseline {
    /// By stage and artifact, in the order of the table.
    pub series: Vec<Series>,
}

/// Repeats of one stage in one artifact.
pub struct Series {
    /// Name of the stage.
    pub stage: StrId,
    /// Name of the pass.
    pub pass: StrId,
    /// Path of the artifact.
    pub artifact: StrId,
    /// Whether the times were taken while a profiler ran; absent if nothing tells. A baseline is `false` alone.
    pub profiled: Option<bool>,
    /// Single repeats, in order.
    pub repeats: Vec<Repeat>,
    /// Repeats before the others settle at another level, as iterations of the timeline do: 0 if all are at one.
    pub settling: usize,
    /// Of the durations after that, nanoseconds.
    pub statistics: Statistics,
    /// Steps of a repeat, if all repeats have the same number.
    pub steps: Option<u64>,
    /// The two levels of the durations, if repeats of one size, or of two, have them.
    pub levels: Option<[Level; 2]>,
    /// Iterations of the timeline at these levels, if it has more than were timed: those can be the first ones alone.
    mix: Option<[usize; 2]>,
}

/// One repeat.
pub struct Repeat {
    /// Number, from 0.
    pub number: u32,
    /// Wall time.
    pub duration: Ns,
    /// Steps in it.
    pub steps: Option<u64>,
    /// Its sizes, where stated.
    pub sizes: Sizes,
    /// Modified z-score among the repeats of its sizes; absent where these have no spread.
    pub z: Option<f64>,
    /// Median duration of these repeats, and their number.
    pub typical: Time,
    pub alike: usize,
}

/// The repeats of all artifacts; missing without a baseline pass.
pub fn compute(context: &Context<'_>) -> Known<Baseline> {
    let session = context.session;
    let timings = &session.timings;
    if timings.is_empty() {
        return Err(Missing("missing.baseline"));
    }
    let mut groups: Vec<((StrId, StrId), Vec<usize>)> = Vec::new();
    for row in 0..timings.len() {
        let key = (timings.stage[row], timings.artifact[row]);
        match groups.iter_mut().find(|(its, _)| *its == key) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let series = groups
        .iter()
        .filter_map(|(_, rows)| Series::of(context, rows))
        .collect();
    Ok(Baseline { series })
}

impl Baseline {
    /// The unprofiled repeats of a stage of a timeline, and the time of a typical one. Loops of different lengths compare by the
    /// step: of a decode stage it is the time of as many steps as the timeline has, or as the workload is said to make
    /// in this pass.
    pub fn of_stage(
        &self,
        session: &Session,
        (pass, stage, kind): (&str, &str, StageKind),
        steps: Option<Count>,
    ) -> Option<(&Series, Time)> {
        let series = self.unprofiled(session, stage)?;
        let stated = || {
            session
                .workload
                .for_pass(pass)
                .output_tokens
                .map(|tokens| Count(tokens as f64))
        };
        // A range of one step is one in the timeline, too.
        let timed = series.steps.filter(|steps| *steps == 1);
        let steps = match kind {
            StageKind::Decode => steps
                .or(timed.map(|steps| Count(steps as f64)))
                .or_else(stated),
            _ => steps,
        };
        let time = match kind {
            // Without steps on either side, an iteration is what the same range holds.
            StageKind::Decode | StageKind::DecodeStep if series.has_steps() || steps.is_some() => {
                series.typical_per_step()? * steps.filter(Count::is_positive)?
            }
            _ => series.typical(),
        };
        time.is_positive().then_some((series, time))
    }

    /// The same of a summary; ranks have no times of their own.
    pub fn of_summary(&self, context: &Context<'_>, summary: &Summary) -> Option<(&Series, Time)> {
        let (session, facts) = (context.session, context.facts);
        let is_alone = summary.scope(session, facts).rank.is_none();
        let stage = summary.stage(facts);
        let stage = (
            session.pass_name(stage.pass),
            stage.name.as_str(),
            stage.kind,
        );
        is_alone.then(|| self.of_stage(session, stage, summary.steps))?
    }

    /// The unprofiled repeats of a stage, those of the first pass that has some.
    pub fn unprofiled(&self, session: &Session, stage: &str) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.profiled == Some(false) && session.text(series.stage) == stage)
    }
}

/// Profiled figures of an iteration, which times of its parts are scaled to: means where its unprofiled time is the mean of
/// two levels, else medians.
pub fn profiled(context: &Context<'_>, summary: &Summary) -> Means {
    let baseline = context.results.baseline().ok();
    match baseline.and_then(|baseline| baseline.of_summary(context, summary)) {
        Some((series, _)) if series.levels.is_some() => summary.means(context.facts),
        _ => summary.medians(),
    }
}

impl Series {
    fn of(context: &Context<'_>, rows: &[usize]) -> Option<Self> {
        let session = context.session;
        let timings = &session.timings;
        let values: Vec<f64> = rows
            .iter()
            .map(|row| timings.duration[*row].time().0)
            .collect();
        let first = *rows.first()?;
        let sizes = |row: &usize| Sizes {
            batch: timings.batch[*row],
            tokens: timings.tokens[*row],
            keys: timings.keys[*row],
        };
        let work = rows
            .iter()
            .map(|row| (sizes(row).of_work(), timings.steps[*row]));
        let is_alike = alike(work.clone()).len() == 1;
        let stage = session.text(timings.stage[first]);
        let settling = match rises_in_timeline(context, stage) {
            true => rises(&values),
            false => settles(&values).filter(|_| is_alike && settles_in_timeline(context, stage)),
        };
        let settling = settling.unwrap_or(0);
        let groups = alike(work.enumerate().map(|(at, work)| (at < settling, work)));
        let z = modified_z_of_groups(&values, &groups);
        let repeat = |(at, row): (usize, &usize)| Repeat {
            number: timings.repeat[*row],
            duration: timings.duration[*row],
            steps: timings.steps[*row],
            sizes: sizes(row),
            z: z[at],
            typical: Time::ZERO,
            alike: 0,
        };
        let mut repeats: Vec<Repeat> = rows.iter().enumerate().map(repeat).collect();
        for group in &groups {
            let of_group: Vec<f64> = group.iter().map(|at| values[*at]).collect();
            let typical = median(&of_group).map(Time).unwrap_or_default();
            for at in group {
                (repeats[*at].typical, repeats[*at].alike) = (typical, group.len());
            }
        }
        let steps = timings.steps[first];
        Some(Self {
            stage: timings.stage[first],
            pass: timings.pass[first],
            artifact: timings.artifact[first],
            profiled: timings.profiled[first],
            levels: levels(&values).filter(|_| {
                settling == 0 && (groups.len() <= 2 || are_close(rows.iter().map(sizes)))
            }),
            mix: mix_in_timeline(context, session.text(timings.stage[first]), rows.len()),
            repeats,
            settling,
            statistics: Statistics::of(&values[settling..])?,
            steps: steps.filter(|_| rows.iter().all(|row| timings.steps[*row] == steps)),
        })
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        let (artifact, rows) = (
            session.text(self.artifact).to_owned(),
            self.statistics.n as u64,
        );
        Evidence {
            artifact,
            table: Some("timings".to_owned()),
            rows: Some(rows),
        }
    }

    /// What metrics are about.
    pub fn scope(&self, session: &Session) -> Scope {
        let [pass, stage] = [self.pass, self.stage].map(|id| Some(session.text(id).to_owned()));
        Scope {
            pass,
            stage,
            ..Scope::default()
        }
    }

    /// Median of the repeats.
    pub const fn median(&self) -> Time {
        Time(self.statistics.median)
    }

    /// The time of a typical repeat: the median once they settle; where most lie at two levels, and few between, their mean.
    pub fn typical(&self) -> Time {
        let Some(levels) = &self.levels else {
            return self.median();
        };
        let [low, high] = levels;
        let [few, many] = self.mix.unwrap_or([low.count, high.count]);
        let sum = low.median * few as f64 + high.median * many as f64;
        Time(sum / (few + many) as f64)
    }

    /// Σ distance of the outliers from the level of their size, where the levels are those of two sizes.
    pub fn beyond_levels(&self) -> Time {
        let is_of_two = |repeat: &Repeat| repeat.alike < self.repeats.len();
        match self.levels.is_some() && self.repeats.iter().any(is_of_two) {
            true => self.excess(),
            false => Time::ZERO,
        }
    }

    /// Whether repeats have steps.
    fn has_steps(&self) -> bool {
        self.repeats.iter().any(|repeat| repeat.steps.is_some())
    }

    /// The same per step.
    pub fn typical_per_step(&self) -> Option<Time> {
        self.steps.map(|steps| self.typical() / steps as f64)
    }

    /// Median per step.
    pub fn median_per_step(&self) -> Option<Time> {
        self.steps.map(|steps| self.median() / steps as f64)
    }

    /// The settled repeats far from the median.
    pub fn outliers(&self) -> impl Iterator<Item = &Repeat> {
        let settled = self.repeats[self.settling..].iter();
        settled.filter(|repeat| repeat.is_outlier())
    }

    /// Median of the repeats before they settle, if they do.
    pub fn before(&self) -> Option<Time> {
        self.repeats[..self.settling]
            .first()
            .map(|repeat| repeat.typical)
    }

    /// Whether the repeats before the others are faster.
    pub fn rises(&self) -> bool {
        self.before().is_some_and(|before| before < self.median())
    }

    /// Mean of all repeats, also of slower ones before they settle, but a cold first one.
    pub fn mean(&self) -> Time {
        let first = if self.rises() { self.settling } else { 0 };
        let warm = self.repeats[first..]
            .iter()
            .filter(|repeat| !repeat.is_cold());
        let times = warm.map(|repeat| repeat.duration.time().0);
        mean(&times.collect::<Vec<_>>()).map_or(Time::ZERO, Time)
    }

    /// Durations of the settled repeats without a cold first one, nanoseconds; none if that is the only one.
    pub fn warm(&self) -> Option<Statistics> {
        let settled = self.repeats[self.settling..].iter();
        let warm = settled.filter(|repeat| !repeat.is_cold());
        let times = warm.map(|repeat| repeat.duration.time().0);
        Statistics::of(&times.collect::<Vec<_>>())
    }

    /// The outlier farthest from the median.
    pub fn worst_outlier(&self) -> Option<&Repeat> {
        let farther = |a: &&Repeat, b: &&Repeat| a.distance().total_cmp(&b.distance());
        self.outliers().max_by(farther)
    }

    /// Σ distance of the outliers from the median of their sizes.
    pub fn excess(&self) -> Time {
        self.outliers().map(Repeat::distance).sum()
    }
}

/// Difference of sizes up to which they explain no levels.
const CLOSE: f64 = 0.05;

/// Whether sizes differ by so little that only a choice of other kernels makes levels of their times.
fn are_close(sizes: impl Iterator<Item = Sizes>) -> bool {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for Sizes {
        batch,
        tokens,
        keys,
    } in sizes
    {
        let size: f64 = [batch, tokens, keys]
            .iter()
            .flatten()
            .map(|part| *part as f64)
            .product();
        (least, most) = (least.min(size), most.max(size));
    }
    most <= least * (1.0 + CLOSE)
}

/// Measured iterations of a stage at two levels in the timeline, if these are more than were timed.
fn mix_in_timeline(context: &Context<'_>, stage: &str, timed: usize) -> Option<[usize; 2]> {
    let facts = context.facts;
    let primary = facts.primary_pass(context.session)?;
    let mut stages = facts.stages.iter();
    let stage = stages.find(|of_facts| of_facts.pass == primary && of_facts.name == stage)?;
    let instances = facts.instances_of(stage).iter();
    let measured = instances.filter(|instance| instance.excluded.is_none());
    let times: Vec<f64> = measured
        .filter_map(|instance| Some(instance.time()?.time().0))
        .collect();
    let levels = levels(&times).filter(|_| times.len() > timed)?;
    Some(levels.map(|level| level.count))
}

/// Whether iterations of a stage settle in the timeline as well; of stages without iterations nothing speaks against it.
fn settles_in_timeline(context: &Context<'_>, stage: &str) -> bool {
    let facts = context.facts;
    let mut stages = facts
        .stages
        .iter()
        .filter(|one| one.name == stage)
        .peekable();
    stages.peek().is_none()
        || stages.any(|stage| {
            let instances = facts.instances_of(stage).iter();
            let times = instances.filter_map(|instance| Some(instance.time()?.time().0));
            settles(&times.collect::<Vec<_>>()).is_some()
        })
}

/// Whether iterations of a stage before others are no part of its figures because those take longer.
fn rises_in_timeline(context: &Context<'_>, stage: &str) -> bool {
    let facts = context.facts;
    let mut stages = facts.stages.iter().filter(|one| one.name == stage);
    stages.any(|stage| {
        let mut instances = facts.instances_of(stage).iter();
        instances.any(|instance| instance.excluded == Some(Exclusion::EarlierLevel))
    })
}

impl Repeat {
    /// How far it is from the median.
    pub fn distance(&self) -> Time {
        (self.duration.time() - self.typical).abs()
    }

    /// Whether it lies far from the median.
    pub fn is_outlier(&self) -> bool {
        self.z.is_some_and(|z| z.abs() > OUTLIER_Z)
    }

    /// Whether it is a slow first repeat.
    pub fn is_cold(&self) -> bool {
        self.number == 0 && self.is_outlier() && self.z > Some(0.0)
    }

    /// Duration per step.
    pub fn per_step(&self) -> Option<Time> {
        self.steps.map(|steps| self.duration.time() / steps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::repeats as session;
    use crate::{Facts, Options};
    use rooflens_hardware::Hardware;

    fn series(session: &Session) -> Vec<Series> {
        let (facts, hardware, options) =
            (Facts::default(), Hardware::default(), Options::default());
        let found = compute(&Context::new(session, &facts, &hardware, &options));
        found.map(|baseline| baseline.series).unwrap_or_default()
    }

    #[test]
    fn the_cold_repeat_is_an_outlier_by_its_number() {
        let all = series(&session(&[(
            "decode",
            "baseline",
            Some(10),
            &[90, 31, 30, 29, 30],
        )]));
        // Deviations from 30: 60, 1, 0, 1, 0 → MAD 1 → z of repeat 0 = 0.6745 · 60 = 40.47.
        let repeats = &all[0].repeats;
        assert_eq!(repeats[0].z, Some(0.6745 * 60.0));
        let marked: Vec<bool> = repeats.iter().map(Repeat::is_outlier).collect();
        assert_eq!(marked, [true, false, false, false, false]);
        assert!(all[0].worst_outlier().is_some_and(Repeat::is_cold));
        assert_eq!(all[0].excess(), Time(60.0));
    }

    #[test]
    fn repeats_that_settle_are_typical_only_after_that() {
        let slow_first = [50, 52, 51, 8, 7, 8];
        let all = series(&session(&[("decode", "baseline", None, &slow_first)]));
        let found = &all[0];
        assert_eq!((found.settling, found.before()), (3, Some(Time(51.0))));
        assert_eq!((found.typical(), found.statistics.n), (Time(8.0), 3));
        assert_eq!(found.outliers().count(), 0);
        // (153 + 23) ÷ 6.
        assert!((found.mean().0 - 176.0 / 6.0).abs() < 1e-9);
    }

    /// Six repeats of 10 and six of 30, one of them of 130, whose sizes differ: the mean of both levels is 20, and 100 are
    /// beyond them. Three levels are none.
    #[test]
    fn repeats_of_two_sizes_have_two_levels() {
        let times = [10, 10, 10, 10, 11, 10, 130, 30, 30, 31, 30, 30];
        let mut session = session(&[("step", "baseline", None, &times)]);
        for (row, batch) in session.timings.batch.iter_mut().enumerate() {
            *batch = Some(1 + (row / 6) as u64);
        }
        let all = series(&session);
        assert_eq!(
            all[0].levels.map(|levels| levels.map(|level| level.count)),
            Some([6, 6])
        );
        assert_eq!(all[0].typical(), Time(20.0));
        session.timings.batch[0] = Some(3);
        assert_eq!(series(&session)[0].levels, None);
        let batches = session.timings.batch.iter_mut().zip(100..);
        batches.for_each(|(batch, size)| *batch = Some(size % 4 + 100));
        assert!(series(&session)[0].levels.is_some());
    }

    #[test]
    fn of_a_decode_loop_it_is_as_many_steps_as_the_timeline_has_or_the_workload_makes() {
        let mut session = session(&[("decode", "baseline", Some(10), &[30])]);
        let found = Baseline {
            series: series(&session),
        };
        let of = |session: &Session, kind, steps| {
            Some(found.of_stage(session, ("nsys", "decode", kind), steps)?.1)
        };
        // 3 ns a step.
        let four = Some(Count(4.0));
        assert_eq!(of(&session, StageKind::Decode, four), Some(Time(12.0)));
        assert_eq!(of(&session, StageKind::Decode, None), None);
        session.workload.output_tokens = Some(16);
        assert_eq!(of(&session, StageKind::Decode, None), Some(Time(48.0)));
        assert_eq!(of(&session, StageKind::DecodeStep, None), None);
    }

    #[test]
    fn a_decode_range_without_steps_on_either_side_compares_by_itself() {
        let of = |steps: Option<u64>, of_stage: Option<Count>| {
            let session = session(&[("decode", "baseline", steps, &[30, 30])]);
            let baseline = Baseline {
                series: series(&session),
            };
            let stage = ("nsys", "decode", StageKind::Decode);
            let (_, time) = baseline.of_stage(&session, stage, of_stage)?;
            Some(time)
        };
        assert_eq!(of(None, None), Some(Time(30.0)));
        assert_eq!(of(None, Some(Count(4.0))), None);
        assert_eq!(of(Some(10), None), None);
    }

    #[test]
    fn times_of_a_profiled_pass_are_told_apart() {
        let mut session = session(&[
            ("decode", "torch", None, &[2]),
            ("decode", "baseline", None, &[1]),
        ]);
        session.timings.profiled[0] = Some(true);
        let profiled = |session: &Session| -> Vec<Option<bool>> {
            series(session).iter().map(|one| one.profiled).collect()
        };
        assert_eq!(profiled(&session), [Some(true), Some(false)]);
        let series = series(&session);
        let found = Baseline { series };
        let unprofiled = found
            .unprofiled(&session, "decode")
            .map(|one| one.statistics.median);
        assert_eq!(unprofiled, Some(1.0));
        session.timings.profiled[1] = None;
        let series = super::tests::series(&session);
        assert!(
            Baseline { series }.unprofiled(&session, "decode").is_none(),
            "nothing tells"
        );
    }
}
