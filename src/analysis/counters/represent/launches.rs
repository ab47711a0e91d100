//! Every profiled launch against the launches of the timeline that it is said to stand for.

use rooflens_schemas::Unit;

use super::matching::{ALIKE, Group, Line, Matching, Profile};
use crate::analysis::{Context, Facts};
use crate::findings::{Cell, Column, Dataset, Quantity};
use crate::model::Session;

/// Name of the data set.
pub(super) const ID: &str = "representativeness";

/// The columns that the section shows.
pub(super) const SHOWN: &[&str] = &[
    "kernel",
    "pass",
    "launch",
    "stage",
    "duration_ns",
    "median_ns",
    "ratio",
    "stands_for",
    "time_share",
    "verdict",
];

/// A profiled launch and what it stands for.
pub(super) struct Row<'a> {
    pub(super) profile: &'a Profile,
    /// The stage that it is compared with.
    line: Option<&'a Line>,
    /// The launches of the same kernel, grid and block there.
    group: Option<&'a Group>,
    /// Duration under the profiler ÷ median in the timeline.
    pub(super) ratio: Option<f64>,
    verdict: String,
}

impl Row<'_> {
    /// Whether the launch lasted about as long as those that it stands for.
    pub(super) fn representative(&self) -> bool {
        self.ratio.is_some_and(|ratio| ALIKE.contains(&ratio))
    }

    /// Share of the stage's GPU time that it stands for.
    fn share(&self) -> Option<f64> {
        let (line, group) = (self.line?, self.group?);
        (line.time > 0).then(|| group.time as f64 / line.time as f64)
    }
}

/// One row a profiled launch: those that stand for most time first.
pub(super) fn rows<'a>(context: &Context<'_>, matching: &'a Matching) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> =
        matching.profiles.iter().map(|profile| row(context, matching, profile)).collect();
    rows.sort_by(|a, b| {
        let share = |row: &Row<'_>| row.share().unwrap_or(-1.0);
        let id = |row: &Row<'_>| row.profile.counters.profile;
        share(b).total_cmp(&share(a)).then(id(a).cmp(&id(b)))
    });
    rows
}

fn row<'a>(context: &Context<'_>, matching: &'a Matching, profile: &'a Profile) -> Row<'a> {
    let own = |line: &&Line| profile.stages.contains(&line.summary.stage);
    let same = |group: &Group| {
        Some(group.kernel) == profile.kernel
            && group.grid == profile.grid
            && group.block == profile.block
    };
    // Of the sizes on one grid the one that the launch stands for.
    let stands = |group: &&Group| {
        group.from.iter().any(|at| std::ptr::eq(&raw const matching.profiles[*at], profile))
    };
    let find = |line: &'a Line| {
        let mut own = line.groups.iter().filter(|group| same(group));
        let group = own.clone().find(|group| stands(group)).or_else(|| own.next());
        group.map(|group| (line, group))
    };
    // Of nested stages the outer one, which comes first.
    let stage = matching.lines.iter().find(own);
    let found = match stage {
        Some(_) => matching.lines.iter().filter(own).find_map(find),
        None => matching.lines.iter().filter_map(find).max_by_key(|(_, group)| group.time),
    };
    let line = found.map(|(line, _)| line).or(stage);
    let group = found.map(|(_, group)| group);
    let ratio = group.and_then(|group| {
        let median = group.median().filter(|median| *median > 0.0)?;
        Some(profile.counters.seconds? * 1e9 / median)
    });
    let verdict = verdict(context.facts, profile, line, group, ratio);
    Row { profile, line, group, ratio, verdict }
}

fn verdict(
    facts: &Facts,
    profile: &Profile,
    line: Option<&Line>,
    group: Option<&Group>,
    ratio: Option<f64>,
) -> String {
    if profile.kernel.is_none() {
        return format!("kernel not in the timeline ({})", profile.how.label());
    }
    let stage = line.map_or("any stage", |line| line.summary.stage(facts).name.as_str());
    let Some(group) = group else {
        let of_kernel = |group: &Group| Some(group.kernel) == profile.kernel;
        let runs = line.is_some_and(|line| line.groups.iter().any(of_kernel));
        let what = if runs { "grid" } else { "kernel" };
        return format!("{what} does not occur in {stage}");
    };
    let mixed = group.alike().is_some_and(|alike| alike < MOSTLY);
    match ratio {
        None => "no duration".to_owned(),
        Some(ratio) if !ALIKE.contains(&ratio) => {
            let than = if ratio > 1.0 { "longer" } else { "shorter" };
            format!("{than} than the median")
        }
        Some(_) if mixed => "launches of this grid differ".to_owned(),
        Some(_) => "representative".to_owned(),
    }
}

/// Launches of one kernel and grid of which less time than this is like their median are of several sizes.
const MOSTLY: f64 = 0.5;

/// The data set.
pub(super) fn dataset(context: &Context<'_>, rows: &[Row<'_>]) -> Dataset {
    Dataset {
        id: ID,
        title: "Profiled launches against the timeline".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("pass", "Pass"),
            Column::new("launch", "Launch", Unit::Count),
            Column::text("stage", "Stage"),
            Column::text("grid", "Grid"),
            Column::text("block", "Block"),
            Column::new("duration_ns", "Profiled", Unit::Nanoseconds),
            Column::new("median_ns", "Timeline median", Unit::Nanoseconds),
            Column::new("ratio", "Ratio", Unit::One),
            Column::new("alike_share", "Time like the median", Unit::Ratio),
            Column::new("stands_for", "Stands for", Unit::Count),
            Column::new("time_share", "Share", Unit::Ratio),
            Column::text("verdict", "Verdict"),
            Column::text("match", "Name match"),
        ],
        rows: rows.iter().map(|row| cells(context.session, context.facts, row)).collect(),
    }
}

fn cells(session: &Session, facts: &Facts, row: &Row<'_>) -> Vec<Cell> {
    let profile = row.profile;
    let at = profile.counters.profile.index();
    let pass = session.passes.name[session.kernel_profiles.pass[at].index()];
    let stage = row.line.map(|line| line.summary.label(session, facts));
    let launches = row.group.map(|group| group.launches);
    vec![
        Cell::Name(profile.counters.identity.short.clone()),
        Cell::Text(session.text(pass).to_owned()),
        Cell::Int(i64::from(session.kernel_profiles.ordinal[at])),
        stage.map_or(Cell::Missing, Cell::Text),
        Cell::Text(profile.grid.to_string()),
        Cell::Text(profile.block.to_string()),
        Cell::maybe(profile.counters.seconds.map(|seconds| seconds * 1e9)),
        Cell::maybe(row.group.and_then(Group::median)),
        Cell::maybe(row.ratio),
        Cell::maybe(row.group.and_then(Group::alike)),
        launches.map_or(Cell::Missing, |count| Cell::Int(i64::try_from(count).unwrap_or(i64::MAX))),
        Cell::maybe(row.share()),
        Cell::Text(row.verdict.clone()),
        Cell::Text(profile.how.label().to_owned()),
    ]
}

/// The bounds in words.
pub(super) fn bounds() -> String {
    format!("[{}, {}]", ALIKE.start(), ALIKE.end())
}

/// The share of `rows`' profiled time in representative launches, and that time and the whole in seconds.
pub(super) fn representative_time<'a>(
    rows: impl Iterator<Item = &'a Row<'a>>,
) -> Option<(f64, String)> {
    let (mut whole, mut within, mut launches, mut count) = (0.0, 0.0, 0_u64, 0_u64);
    for row in rows {
        let seconds = row.profile.counters.seconds.unwrap_or_default();
        (whole, launches) = (whole + seconds, launches + 1);
        if row.representative() {
            (within, count) = (within + seconds, count + 1);
        }
    }
    let time = |seconds: f64| Quantity::new(seconds * 1e9, Unit::Nanoseconds);
    let basis = format!(
        "{} of {} of profiled time: {count} of {launches} launches last {} of the median of the same kernel and grid in the timeline",
        time(within),
        time(whole),
        bounds()
    );
    (whole > 0.0).then(|| (within / whole, basis))
}
