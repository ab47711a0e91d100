//! The critical path of one step: what its length is made of, across streams, threads and ranks.

mod text;

use rooflens_schemas::{Evidence, Metric, Scope, Unit};

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::time::critical_path::graph::DEPENDENCY_NS;
use rooflens_analysis::time::critical_path::{Category, CriticalPath, PathSum, Slack, Subject};
use rooflens_document::catalogue::{
    CRITICAL_PATH, CRITICAL_PATH_SHARE_CALLS, CRITICAL_PATH_SHARE_COMMUNICATION,
    CRITICAL_PATH_SHARE_COMPUTE, CRITICAL_PATH_SHARE_COPY, CRITICAL_PATH_SHARE_GAP,
    CRITICAL_PATH_SHARE_HOST, CRITICAL_PATH_SHARE_LAUNCH, CRITICAL_PATH_SHARE_UNKNOWN,
};
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Cell, Chart, MetricDef, Quantity, SectionContent, Table};
use rooflens_session::{Ns, Session};

/// The longest chain of a step.
pub(super) static SECTION: Section = Section {
    id: "critical-path",
    show,
};

/// Rows of each table on the page.
const SHOWN: usize = 10;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let Ok(found) = context.results.critical_path() else {
        return Ok(SectionContent::default());
    };
    let stage = &context.facts.stages[found.stage].name;
    let (path, slack) = (path(context, found.length), slack(context));
    let rows = path_rows(context.session, &found.path);
    let path_view = path.view(
        words!(context, "critical_path.caption"),
        rows.len().min(SHOWN),
    );
    let shown = found.slack.len().min(2 * SHOWN);
    let slack_view = slack.view(words!(context, "critical_path.caption_slack"), shown);
    let dependency = Quantity::ns(DEPENDENCY_NS);
    let mut blocks = vec![Block::Prose(text::introduction(context, stage, found))];
    blocks.extend(text::choice(context, &found.passes).map(Block::Prose));
    blocks.push(Block::Chart(chart(context, stage, found)));
    blocks.extend([path_view, slack_view].map(Block::Table));
    Ok(SectionContent {
        blocks,
        metrics: metrics(context, stage, found),
        datasets: vec![path.rows(&rows), slack.rows(&found.slack)],
        methods: vec![method!(context, "critical_path", dependency = dependency)],
        ..SectionContent::default()
    })
}

fn chart(context: &Context<'_>, stage: &str, found: &CriticalPath) -> Chart {
    let shown: Vec<_> = found
        .times
        .iter()
        .filter(|(_, time)| *time > Ns::ZERO)
        .collect();
    let part = |(category, _): &&(Category, Ns)| Part::new(label(*category), color(*category));
    Chart {
        id: "critical-path".to_owned(),
        title: words!(context, "critical_path.chart"),
        description: words!(context, "critical_path.chart_text", stage = stage),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: shown.iter().map(part).collect(),
            bars: vec![Bar {
                label: stage.to_owned(),
                values: shown.iter().map(|(_, time)| time.time().0).collect(),
                note: Quantity::ns(found.length).to_string(),
            }],
        }),
    }
}

const fn label(category: Category) -> &'static str {
    match category {
        Category::Compute => "computing kernels",
        Category::Communication => "communication",
        Category::Copy => "copies",
        Category::Gap => "gaps between operations",
        Category::Launch => "launching",
        Category::Synchronize => "other CUDA calls",
        Category::Host => "between CUDA calls",
        Category::Unknown => "unknown",
    }
}

fn share_of(category: Category) -> &'static MetricDef {
    match category {
        Category::Compute => &CRITICAL_PATH_SHARE_COMPUTE,
        Category::Communication => &CRITICAL_PATH_SHARE_COMMUNICATION,
        Category::Copy => &CRITICAL_PATH_SHARE_COPY,
        Category::Gap => &CRITICAL_PATH_SHARE_GAP,
        Category::Launch => &CRITICAL_PATH_SHARE_LAUNCH,
        Category::Synchronize => &CRITICAL_PATH_SHARE_CALLS,
        Category::Host => &CRITICAL_PATH_SHARE_HOST,
        Category::Unknown => &CRITICAL_PATH_SHARE_UNKNOWN,
    }
}

const fn color(category: Category) -> Color {
    match category {
        Category::Compute => Color::Gemm,
        Category::Communication => Color::Communication,
        Category::Copy => Color::Copy,
        Category::Gap => Color::Elementwise,
        Category::Launch => Color::Attention,
        Category::Synchronize => Color::Normalization,
        Category::Host => Color::Other,
        Category::Unknown => Color::Idle,
    }
}

fn name_of(session: &Session, subject: &Subject) -> Cell {
    let text = |id| session.text(id);
    match subject {
        Subject::Kernel(name) => Cell::Name(name.as_str().into()),
        Subject::Copy(kind) => Cell::Name(kind.label().into()),
        Subject::Graph => Cell::Name("CUDA graph".into()),
        Subject::Gap => Cell::from("between operations"),
        Subject::Launch => Cell::Name("call to operation".into()),
        Subject::Call(call) => Cell::Name(text(*call).into()),
        Subject::Return(call) => Cell::Name(format!("return of {}", text(*call)).into()),
        Subject::Host => Cell::from("between CUDA calls"),
        Subject::Unknown => Cell::from("before the first known call"),
    }
}

/// The parts of the path with their names, by (time descending, category, name, rank).
fn path_rows<'a>(session: &Session, path: &'a [PathSum]) -> Vec<(Cell, &'a PathSum)> {
    let mut rows: Vec<_> = path
        .iter()
        .map(|sum| (name_of(session, &sum.subject), sum))
        .collect();
    let key = |(name, sum): &(Cell, &PathSum)| {
        (
            std::cmp::Reverse(sum.time),
            sum.category,
            name.plain(),
            sum.rank,
        )
    };
    rows.sort_by_cached_key(key);
    rows
}

fn path<'t>(context: &Context<'t>, length: Ns) -> Table<'t, (Cell, &'t PathSum)> {
    columns! { context, "critical_path", (name, sum): &(Cell, &PathSum) => {
        text "name" = name.clone(), page;
        text "category" = label(sum.category), page;
        text "rank" = sum.rank.map(|rank| rank.to_string()), page;
        count "count" = sum.count, page;
        time "time_ns" = sum.time, page;
        share "share" = (length > Ns::ZERO).then(|| sum.time.time().0 / length.time().0), page;
    } }
}

fn slack<'t>(context: &Context<'t>) -> Table<'t, Slack> {
    columns! { context, "slack", line: &Slack => {
        text "class" = label(line.category), page;
        text "rank" = line.rank.to_string(), page;
        count "count" = line.count, page;
        time "time_ns" = line.time, page;
        time "on_path_ns" = line.on_path, page;
        time "slack_min_ns" = line.smallest;
        time "slack_median_ns" = line.median, page;
    } }
}

/// `critical_path` and the share of each category.
fn metrics(context: &Context<'_>, stage: &str, found: &CriticalPath) -> Vec<Metric> {
    let (session, pass) = (context.session, found.passes[0]);
    let scope = Scope {
        pass: Some(session.pass_name(pass).to_owned()),
        stage: Some(stage.to_owned()),
        ..Scope::default()
    };
    let (length, instance) = (found.length, found.ordinal + 1);
    let basis = format!(
        "instance {instance} on {} processes, first to last GPU operation",
        found.processes
    );
    let mut metrics = vec![CRITICAL_PATH.derived(scope.clone(), length.time().0, basis)];
    metrics.extend(found.times.iter().map(|(category, time)| {
        let basis = format!("{time} ns of {length} ns of the critical path of instance {instance}");
        let share = time.time() / length.max(Ns(1)).time();
        share_of(*category).derived(scope.clone(), share, basis)
    }));
    let table = Some("launches, copies, api_calls".to_owned());
    let evidence = Evidence {
        artifact: session.artifact_of(pass).to_owned(),
        table,
        rows: None,
    };
    for metric in &mut metrics {
        metric.evidence.push(evidence.clone());
    }
    metrics
}
