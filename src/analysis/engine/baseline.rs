//! Repeats: un-profiled end-to-end times per stage, their spread and their outliers.

use rooflens_schemas::{Evidence, Metric, PassKind, Polarity, Scope, Unit};

use crate::analysis::engine::stats::{OUTLIER_Z, Statistics, modified_z};
use crate::analysis::{Analysis, Context};
use crate::findings::chart::{Dots, Plot};
use crate::findings::{
    Block, Cell, Chart, Column, Dataset, Findings, Inline, Method, Quantity, View, measured,
};
use crate::model::{Ns, Session, StrId, TimingId};
use crate::prose;

/// Repeats.
pub(crate) static ANALYSIS: Analysis = Analysis { id: "repeats", title: "Repeats", missing, run };

/// Repeats of one stage in one artifact.
pub(crate) struct Series {
    pub(crate) stage: StrId,
    pub(crate) pass: StrId,
    pub(crate) artifact: StrId,
    /// Rows of the timings table, by repeat.
    pub(crate) rows: Vec<TimingId>,
    /// The times were taken while a profiler ran: no baseline.
    pub(crate) profiled: bool,
}

/// A series with its statistics.
struct Line<'a> {
    series: &'a Series,
    statistics: Statistics,
    /// Modified z-score of each repeat; empty where there is none.
    z: Vec<f64>,
}

fn missing(session: &Session) -> Option<&'static str> {
    session.timings.is_empty().then_some(
        "no un-profiled repeats in this bundle; capture a baseline pass (timings.json) to get end-to-end times and \
         their spread",
    )
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let all = series(session);
    let lines: Vec<Line<'_>> = all.iter().filter_map(|series| line(session, series)).collect();
    let mut findings = Findings {
        blocks: vec![
            Block::Prose(introduction(session, &lines)),
            Block::Chart(chart(session, &lines)),
            Block::Table(View::new(
                "repeat_statistics",
                "Times of the repeats of each stage",
                &[
                    "stage",
                    "pass",
                    "n",
                    "median_ns",
                    "median_low_ns",
                    "median_high_ns",
                    "mad_ns",
                    "min_ns",
                    "max_ns",
                ],
                20,
            )),
        ],
        datasets: vec![statistics_table(session, &lines), repeats_table(session, &lines)],
        methods: vec![method()],
        ..Findings::default()
    };
    for line in &lines {
        findings.metrics.extend(metrics(session, line));
    }
    findings
}

/// The series of all artifacts, in the order of the table.
pub(crate) fn series(session: &Session) -> Vec<Series> {
    let timings = &session.timings;
    let mut found: Vec<Series> = Vec::new();
    for row in timings.ids() {
        let index = row.index();
        let (stage, artifact) = (timings.stage[index], timings.artifact[index]);
        let same = |series: &&mut Series| series.stage == stage && series.artifact == artifact;
        match found.iter_mut().find(same) {
            Some(series) => series.rows.push(row),
            None => {
                let pass = timings.pass[index];
                let profiled = is_profiled(session, pass);
                found.push(Series { stage, pass, artifact, rows: vec![row], profiled });
            }
        }
    }
    found
}

/// Whether a pass of that name holds a profiler's artifact: its wall times include the profiler.
fn is_profiled(session: &Session, pass: StrId) -> bool {
    let passes = &session.passes;
    passes.ids().any(|id| {
        passes.name[id.index()] == pass
            && !matches!(passes.kind[id.index()], PassKind::Baseline | PassKind::Snapshot)
    })
}

/// Durations of a series in nanoseconds.
pub(crate) fn durations(session: &Session, series: &Series) -> Vec<Ns> {
    series.rows.iter().map(|row| session.timings.duration[row.index()]).collect()
}

fn line<'a>(session: &Session, series: &'a Series) -> Option<Line<'a>> {
    let values: Vec<f64> = durations(session, series).into_iter().map(|ns| ns as f64).collect();
    let statistics = Statistics::of(&values)?;
    Some(Line { series, statistics, z: modified_z(&values).unwrap_or_default() })
}

impl Line<'_> {
    fn is_outlier(&self, index: usize) -> bool {
        self.z.get(index).is_some_and(|z| z.abs() > OUTLIER_Z)
    }

    fn outliers(&self) -> impl Iterator<Item = usize> {
        (0..self.series.rows.len()).filter(|index| self.is_outlier(*index))
    }

    /// Steps of a repeat, if all repeats have the same number.
    fn steps(&self, session: &Session) -> Option<u64> {
        let mut steps = self.series.rows.iter().map(|row| session.timings.steps[row.index()]);
        let first = steps.next()??;
        steps.all(|other| other == Some(first)).then_some(first)
    }

    fn label(&self, session: &Session) -> String {
        let (stage, pass) = (session.text(self.series.stage), session.text(self.series.pass));
        let note = if self.series.profiled { ", profiled" } else { "" };
        format!("{stage} ({pass}{note})")
    }

    fn evidence(&self, session: &Session) -> Evidence {
        Evidence {
            artifact: session.text(self.series.artifact).to_owned(),
            table: Some("timings".to_owned()),
            rows: Some(self.series.rows.len() as u64),
        }
    }
}

fn introduction(session: &Session, lines: &[Line<'_>]) -> Vec<Inline> {
    let mut text = prose![
        "Wall times of whole stages that the workload took itself. Without a profiler they are what users wait for; \
         the median is robust against cold repeats."
    ];
    let profiled: Vec<&Line<'_>> = lines.iter().filter(|line| line.series.profiled).collect();
    if let Some(line) = profiled.first() {
        text.push(" The repeats of pass ".into());
        text.push(Inline::Code(session.text(line.series.pass).to_owned()));
        text.push(
            " were taken while a profiler ran: they show its cost and are no baseline.".into(),
        );
    }
    if lines.iter().any(|line| line.statistics.n == 1) {
        text.push(" A stage with a single repeat has no spread.".into());
    }
    text
}

fn chart(session: &Session, lines: &[Line<'_>]) -> Chart {
    let row = |line: &Line<'_>| {
        let times = durations(session, line.series);
        let dots = times.iter().enumerate().map(|(index, ns)| (*ns as f64, line.is_outlier(index)));
        (line.label(session), dots.collect())
    };
    Chart {
        id: "repeats".to_owned(),
        title: "Single repeats of each stage".to_owned(),
        description: "One row per stage: a dot per repeat at its wall time; outliers by modified z-score are marked."
            .to_owned(),
        plot: Plot::Dots(Dots { unit: Unit::Nanoseconds, rows: lines.iter().map(row).collect() }),
    }
}

fn statistics_table(session: &Session, lines: &[Line<'_>]) -> Dataset {
    let time = |id, title| Column::new(id, title, Unit::Nanoseconds);
    let row = |line: &Line<'_>| {
        let found = &line.statistics;
        let interval = found.median_interval;
        let per_step = line.steps(session).map(|steps| found.median / steps as f64);
        vec![
            Cell::Name(session.text(line.series.stage).to_owned()),
            Cell::Name(session.text(line.series.pass).to_owned()),
            Cell::Text(if line.series.profiled { "yes" } else { "no" }.to_owned()),
            Cell::Int(found.n as i64),
            Cell::Float(found.median),
            Cell::maybe(interval.map(|(low, _)| low)),
            Cell::maybe(interval.map(|(_, high)| high)),
            Cell::Float(found.mean),
            Cell::maybe(found.std),
            Cell::maybe(found.mad),
            Cell::Float(found.min),
            Cell::maybe(found.p5),
            Cell::maybe(found.p95),
            Cell::Float(found.max),
            Cell::Int(line.outliers().count() as i64),
            Cell::maybe(per_step),
        ]
    };
    Dataset {
        id: "repeat_statistics",
        title: "Repeats per stage".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::text("profiled", "Profiled"),
            Column::new("n", "n", Unit::Count),
            time("median_ns", "Median"),
            time("median_low_ns", "95 % from"),
            time("median_high_ns", "to"),
            time("mean_ns", "Mean"),
            time("std_ns", "Std"),
            time("mad_ns", "MAD"),
            time("min_ns", "Min"),
            time("p5_ns", "p5"),
            time("p95_ns", "p95"),
            time("max_ns", "Max"),
            Column::new("outliers", "Outliers", Unit::Count),
            time("median_per_step_ns", "Median per step"),
        ],
        rows: lines.iter().map(row).collect(),
    }
}

fn repeats_table(session: &Session, lines: &[Line<'_>]) -> Dataset {
    let timings = &session.timings;
    let mut rows = Vec::new();
    for line in lines {
        for (index, row) in line.series.rows.iter().enumerate() {
            let duration = timings.duration[row.index()];
            let per_step = timings.steps[row.index()].map(|steps| duration as f64 / steps as f64);
            rows.push(vec![
                Cell::Name(session.text(line.series.stage).to_owned()),
                Cell::Name(session.text(line.series.pass).to_owned()),
                Cell::Int(i64::from(timings.repeat[row.index()])),
                Cell::Int(duration),
                Cell::maybe(per_step),
                Cell::maybe(line.z.get(index).copied()),
                Cell::Text(if line.is_outlier(index) { "yes" } else { "no" }.to_owned()),
            ]);
        }
    }
    Dataset {
        id: "repeats",
        title: "Single repeats".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::text("pass", "Pass"),
            Column::new("repeat", "Repeat", Unit::Count),
            Column::new("duration_ns", "Time", Unit::Nanoseconds),
            Column::new("per_step_ns", "Per step", Unit::Nanoseconds),
            Column::new("modified_z", "Modified z", Unit::One),
            Column::text("outlier", "Outlier"),
        ],
        rows,
    }
}

fn metrics(session: &Session, line: &Line<'_>) -> Vec<Metric> {
    let found = &line.statistics;
    let scope = Scope {
        pass: Some(session.text(line.series.pass).to_owned()),
        stage: Some(session.text(line.series.stage).to_owned()),
        ..Scope::default()
    };
    let how = if line.series.profiled { "profiled" } else { "un-profiled" };
    let basis = format!("median of {} {how} wall times of the whole stage", found.n);
    let add = |id, unit, value, basis: String| {
        let mut metric = measured(id, scope.clone(), unit, value, basis);
        metric.polarity = Polarity::Lower;
        metric.evidence.push(line.evidence(session));
        metric
    };
    let mut metrics = vec![add("stage_time", Unit::Nanoseconds, found.median, basis.clone())];
    if let Some(steps) = line.steps(session) {
        let basis = format!("{basis} / {steps} steps");
        metrics.push(add("time_per_step", Unit::Nanoseconds, found.median / steps as f64, basis));
    }
    metrics
}

fn method() -> Method {
    Method {
        title: "Repeats".to_owned(),
        text: prose![
            "Mean, sample standard deviation (n − 1), median, MAD (median absolute deviation from the median), percentiles \
             by linear interpolation between order statistics at q·(n − 1), and a 95 % bootstrap interval of the median \
             (percentile method, 2000 resamples, fixed seed). An outlier has a modified z-score \
             |0.6745·(x − median)/MAD| above ",
            Quantity::new(OUTLIER_Z, Unit::One),
            " (Iglewicz and Hoaglin, 1993); outliers are shown and stay in all figures. A single repeat has no spread."
        ],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_schemas::MetricValue;

    use super::*;
    use crate::analysis::{Facts, Options};
    use crate::hardware::Hardware;
    use crate::model::Timing;

    fn session(series: &[(&str, &str, Option<u64>, &[Ns])]) -> Session {
        let mut session = Session::default();
        for (stage, pass, steps, times) in series {
            let (stage, pass) = (session.intern(stage), session.intern(pass));
            for (repeat, duration) in times.iter().enumerate() {
                let repeat = repeat as u32;
                let (duration, steps, artifact) = (*duration, *steps, pass);
                session.timings.push(Timing { stage, repeat, duration, steps, artifact, pass });
            }
        }
        session
    }

    fn findings(session: &Session) -> Findings {
        let (facts, hardware, options) =
            (Facts::default(), Hardware::default(), Options::default());
        run(&Context::new(session, &facts, &hardware, &options))
    }

    #[test]
    fn the_cold_repeat_is_an_outlier_by_its_number() {
        let found = findings(&session(&[("decode", "baseline", Some(10), &[90, 31, 30, 29, 30])]));
        // Deviations from 30: 60, 1, 0, 1, 0 → MAD 1 → z of repeat 0 = 0.6745 · 60 = 40.47.
        let repeats = found.datasets.iter().find(|dataset| dataset.id == "repeats").unwrap();
        assert_eq!(repeats.rows[0][5], Cell::Float(0.6745 * 60.0));
        let marked: Vec<bool> =
            repeats.rows.iter().map(|row| row[6] == Cell::Text("yes".to_owned())).collect();
        assert_eq!(marked, [true, false, false, false, false]);
    }

    #[test]
    fn stage_time_is_the_median_and_a_step_its_part() {
        let found = findings(&session(&[("decode", "baseline", Some(10), &[20, 30, 40])]));
        let values: Vec<_> =
            found.metrics.iter().map(|metric| (metric.id.as_str(), metric.value.clone())).collect();
        assert_eq!(
            values,
            [
                ("stage_time", MetricValue::Measured { value: 30.0 }),
                ("time_per_step", MetricValue::Measured { value: 3.0 }),
            ]
        );
    }

    #[test]
    fn a_single_repeat_has_no_spread() {
        let found = findings(&session(&[("prefill", "baseline", None, &[7])]));
        let row = &found.datasets[0].rows[0];
        assert_eq!(
            (&row[4], &row[5], &row[8], &row[9]),
            (&Cell::Float(7.0), &Cell::Missing, &Cell::Missing, &Cell::Missing)
        );
        assert_eq!(found.metrics.len(), 1);
    }

    #[test]
    fn times_of_a_profiled_pass_are_told_apart() {
        let mut session =
            session(&[("decode", "baseline", None, &[1]), ("decode", "torch", None, &[2])]);
        session.add_pass("torch", PassKind::Operators, "torch/trace.json");
        let all = series(&session);
        assert_eq!(all.iter().map(|series| series.profiled).collect::<Vec<_>>(), [false, true]);
        assert!(findings(&session).metrics[1].basis.contains("1 profiled wall times"));
    }
}
