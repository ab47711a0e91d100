//! What the time of a stage consists of: busy time by class of operations, and idle time, without the profiler where
//! that was measured.

use rooflens_schemas::{StageKind, Unit};

use super::headline::{headline, of_baseline, timed};
use super::{NOTABLE, Section, group_color, is_same, is_slowest};
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::{ClassGroup, KernelClass};
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::time::stage_times::StageTime;
use rooflens_document::chart::{Bar, Color, Part, Plot, StackedBars};
use rooflens_document::{Block, Chart, SectionContent, Table};
use rooflens_units::{Count, Ratio, Time};

/// Time breakdown. Its chart stands in the summary, with the headline figures.
pub(super) static SECTION: Section = Section {
    id: "breakdown",
    show,
};

/// Bars, and rows of the table.
const SHOWN_STAGES: usize = 8;
const SHOWN_PARTS: usize = 20;

/// Times of phases ÷ that of their stage up to which they are taken to follow each other.
const OVERLAP: f64 = 1.01;

/// GEMMs of both kinds.
const PRODUCTS: &str = "matrix products, convolutions";

/// A stage, or one step of it, in its parts.
struct Breakdown {
    label: String,
    /// Name of the stage.
    stage: String,
    /// Time.
    time: Time,
    /// Profiled time of all measured iterations.
    total: Time,
    unprofiled: bool,
    /// Whether it is a phase of the stage before it.
    is_phase: bool,
    /// What parts are called.
    names: [(Color, &'static str); 3],
    /// Busy time by class, that of other stages and iterations and, last, idle time.
    parts: Vec<(Color, Time)>,
}

impl Breakdown {
    /// Time of a part.
    fn part(&self, color: Color) -> Time {
        self.parts
            .iter()
            .find(|(of_color, _)| *of_color == color)
            .map_or(Time::ZERO, |(_, time)| *time)
    }

    fn share_of(&self, color: Color) -> Ratio {
        Ratio(self.part(color) / self.time.max(Time(1.0)))
    }
}

/// What the groups of most different classes are called: a class of its own may be all that there is of them.
fn names(context: &Context<'_>, summary: &Summary) -> [(Color, &'static str); 3] {
    let work = context.results.stage_work().ok();
    let stage = work.and_then(|work| work.iter().find(|stage| is_same(&stage.summary, summary)));
    let name = |group| (group_color(group), class_name(stage.into_iter(), group));
    [
        name(ClassGroup::Gemm),
        name(ClassGroup::Other),
        (Color::OtherWork, Color::OtherWork.label()),
    ]
}

/// What a group is called: by the class that represents it wherever it occurs, if there is one.
pub fn class_name<'a>(
    stages: impl Iterator<Item = &'a StageWork>,
    group: ClassGroup,
) -> &'static str {
    let occurs = |stage: &&StageWork| stage.occurring().any(|(class, ..)| class.group() == group);
    let mut classes = stages.filter(occurs).map(|stage| stage.dominant(group));
    let first = classes.next().flatten();
    match (
        first.filter(|first| classes.all(|class| class == Some(*first))),
        group,
    ) {
        (Some(KernelClass::Gemm | KernelClass::Other), _) => group_color(group).label(),
        (Some(class), ClassGroup::Gemm | ClassGroup::Other) => class.label(),
        (None, ClassGroup::Gemm) => PRODUCTS,
        _ => group_color(group).label(),
    }
}

/// The name in a legend: that in which the stages agree that have the part.
fn name<'a>(stages: impl Iterator<Item = &'a Breakdown>, color: Color) -> &'static str {
    let named = stages.filter(|stage| stage.part(color).is_positive());
    let mut names = named.filter_map(|stage| stage.names.iter().find(|(named, _)| *named == color));
    let Some((_, first)) = names.next() else {
        return color.label();
    };
    match (names.all(|(_, name)| name == first), color) {
        (true, _) => first,
        (false, Color::Gemm) => PRODUCTS,
        (false, _) => color.label(),
    }
}

/// A stage with one of its parts.
type PartOf<'a> = (&'a Breakdown, (Color, Time));

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let mut content = headline(context);
    let Ok(times) = context.results.stage_times() else {
        return Ok(content);
    };
    let outermost = times
        .of_primary()
        .filter(|stage| stage.summary.is_outermost(context.facts));
    let mut breakdowns: Vec<Breakdown> = Vec::new();
    for stage in outermost {
        breakdowns.push(breakdown(context, stage));
        let is_shown = is_slowest(context, &stage.summary);
        let parts: Vec<&StageTime> = times
            .of_primary()
            .filter(|part| is_shown && is_phase(context, part, stage))
            .collect();
        // What overlaps is no part of the time.
        let sum: Time = parts.iter().map(|part| part.summary.time).sum();
        if parts.len() > 1 && sum <= stage.summary.time * OVERLAP {
            let name = stage.summary.stage(context.facts).name.as_str();
            for part in parts {
                let mut phase = breakdown(context, part);
                phase.is_phase = true;
                phase.label = words!(
                    context,
                    "breakdown.phase",
                    stage = phase.label.as_str(),
                    outer = name
                );
                breakdowns.push(phase);
            }
        }
    }
    breakdowns.truncate(SHOWN_STAGES);
    let Some(chart) = chart(context, &breakdowns) else {
        return Ok(content);
    };
    content.main.insert(0, Block::Chart(chart));
    let rows: Vec<PartOf<'_>> = breakdowns
        .iter()
        .flat_map(|stage| stage.parts.iter().map(move |part| (stage, *part)))
        .collect();
    let table = table(context);
    let caption = words!(context, "breakdown.caption");
    content.blocks.push(Block::Table(
        table.view(caption, rows.len().min(SHOWN_PARTS)),
    ));
    content.datasets.push(table.rows(&rows));
    Ok(content)
}

/// Whether a stage is a phase of another one: marked in it about as often as it runs, unlike the steps of a loop. Some
/// iterations of only one of both can be excluded.
fn is_phase(context: &Context<'_>, part: &StageTime, outer: &StageTime) -> bool {
    let (inner, of_outer) = (&part.summary, &outer.summary);
    let parent = inner.stage(context.facts).parent;
    parent == Some(of_outer.stage)
        && inner.process == of_outer.process
        && (of_outer.counted..2 * of_outer.counted).contains(&inner.counted)
}

fn breakdown(context: &Context<'_>, stage: &StageTime) -> Breakdown {
    let summary = &stage.summary;
    let unprofiled = of_baseline(context, summary).map(|(_, time)| time);
    let is_decode = summary.kind(context.facts) == StageKind::Decode;
    let steps = summary
        .steps
        .filter(|steps| is_decode && steps.is_positive());
    let label = summary.label(context.session, context.facts);
    let time = unprofiled.unwrap_or(summary.time);
    let busy = time * timed(context, summary).1;
    // Of several GPUs, the mean; of all instances, one.
    let of_all: Time = stage.parts().iter().map(|(_, time)| time).sum();
    let per = steps.unwrap_or(Count(1.0));
    let part = |time: Time| match of_all.is_positive() {
        true => time / of_all * busy / per,
        false => Time::ZERO,
    };
    let parts = stage
        .parts()
        .into_iter()
        .map(|(group, time)| (group_color(group), part(time)));
    let idle = context.results.idle().ok();
    let line = idle.and_then(|idle| idle.of(summary.stage, summary.process).next());
    let other_work = line
        .map_or(Time::ZERO, |line| line.time * line.other_work())
        .min(time - busy);
    let rest = [
        (Color::OtherWork, other_work / per),
        (Color::Idle, (time - busy - other_work) / per),
    ];
    let rest = rest.into_iter().skip(usize::from(other_work <= Time::ZERO));
    Breakdown {
        label: match steps {
            Some(_) => words!(context, "breakdown.step", stage = label.as_str()),
            None => label.clone(),
        },
        stage: label,
        time: time / per,
        total: summary.time * summary.counted as f64,
        is_phase: false,
        unprofiled: unprofiled.is_some(),
        names: names(context, summary),
        parts: parts.chain(rest).collect(),
    }
}

/// Idle share of a stage from which on the caption tells it.
const IDLE: Ratio = Ratio(0.15);

/// The same as a share of all stages: idle time of a short stage is not the message.
const IDLE_OF_RUN: Ratio = Ratio(0.10);

/// The stages that take a notable part of the run. The caption tells the one that loses most idle time, or what most of the
/// longest is.
fn chart(context: &Context<'_>, breakdowns: &[Breakdown]) -> Option<Chart> {
    let outermost = || breakdowns.iter().filter(|breakdown| !breakdown.is_phase);
    let run: Time = outermost().map(|breakdown| breakdown.total).sum();
    let breakdowns: Vec<&Breakdown> = breakdowns
        .iter()
        .filter(|breakdown| breakdown.total >= run * NOTABLE)
        .collect();
    let lost = |breakdown: &Breakdown| breakdown.total * breakdown.share_of(Color::Idle);
    let idle = outermost()
        .rev()
        .filter(|breakdown| breakdown.share_of(Color::Idle) >= IDLE);
    let idlest = idle
        .max_by(|a, b| lost(a).total_cmp(&lost(b)))
        .filter(|idlest| lost(idlest) >= run * IDLE_OF_RUN);
    let (told, part) = match idlest {
        Some(idlest) => (idlest, Color::Idle),
        None => {
            let longest = outermost()
                .rev()
                .max_by(|a, b| a.total.total_cmp(&b.total))?;
            (
                longest,
                longest.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0,
            )
        }
    };
    let mut colors: Vec<Color> = Vec::new();
    for (color, _) in breakdowns.iter().flat_map(|breakdown| &breakdown.parts) {
        if !colors.contains(color) {
            colors.push(*color);
        }
    }
    // Idle time is the rest: it stands last.
    colors.retain(|color| *color != Color::Idle);
    colors.push(Color::Idle);
    let bar = |breakdown: &&Breakdown| {
        let unprofiled = breakdown.unprofiled.then_some("");
        Bar {
            label: breakdown.label.clone(),
            values: colors
                .iter()
                .map(|color| breakdown.part(*color).0)
                .collect(),
            note: words!(
                context,
                "breakdown.note",
                time = breakdown.time,
                unprofiled = unprofiled
            ),
        }
    };
    Some(Chart {
        id: "breakdown".to_owned(),
        title: words!(
            context,
            "breakdown.chart",
            stage = told.stage.as_str(),
            share = told.share_of(part),
            part = context.text.word(name(std::iter::once(told), part)),
        ),
        description: words!(context, "breakdown.chart_text"),
        plot: Plot::StackedBars(StackedBars {
            unit: Unit::Nanoseconds,
            normalized: true,
            parts: colors
                .iter()
                .map(|color| Part {
                    name: name(breakdowns.iter().copied(), *color).to_owned(),
                    color: *color,
                })
                .collect(),
            bars: breakdowns.iter().map(bar).collect(),
        }),
    })
}

fn table<'t>(context: &Context<'t>) -> Table<'t, PartOf<'t>> {
    columns! { context, "breakdown", (breakdown, (color, time)): &PartOf<'_> => {
        text "stage" = breakdown.label.as_str(), page;
        text "part" = name(std::iter::once(*breakdown), *color), page;
        "time_ns" = *time, page;
        share "share" =
            if breakdown.time.is_positive() { *time / breakdown.time } else { 0.0 }, page;
        text "unprofiled" = breakdown.unprofiled;
    } }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::testing::keys;
    use rooflens_analysis::testing::{trace, with_results};

    /// Title of the chart, and names of its parts.
    fn chart_of(kernels: &str) -> (String, Vec<String>) {
        with_results(&trace(&format!("stream 7: {kernels}")), |context| {
            let content = show(&keys(context)).unwrap();
            let [Block::Chart(chart), ..] = content.main.as_slice() else {
                panic!("no chart")
            };
            let Plot::StackedBars(bars) = &chart.plot else {
                panic!("no bars")
            };
            (
                chart.title.clone(),
                bars.parts.iter().map(|part| part.name.clone()).collect(),
            )
        })
    }

    /// The title of a capture whose whole time is in this part.
    fn all_is(part: &str) -> String {
        format!("breakdown.chart{{stage=whole capture, share=100 %, part={part}}}")
    }

    #[test]
    fn a_class_that_is_all_of_its_group_gives_it_its_name() {
        const CONVOLUTION: &str = "sm80_xmma_fprop_implicit_gemm_f16f16_tilesize128x128x32";
        const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";
        // 96 of 100 ns are convolutions, then 90.
        let (title, parts) = chart_of(&format!("{CONVOLUTION} 0..96, {GEMM} 96..100"));
        assert_eq!(title, all_is("convolution"));
        assert_eq!(parts, ["convolution", "idle"]);
        let (title, parts) = chart_of(&format!("{CONVOLUTION} 0..90, {GEMM} 90..100"));
        assert_eq!(title, all_is("matrix products, convolutions"));
        assert_eq!(parts, ["matrix products, convolutions", "idle"]);
        let (title, parts) = chart_of("solver(int) 0..100");
        assert_eq!(title, all_is("application"));
        assert_eq!(parts, ["application", "idle"]);
        assert_eq!(
            chart_of(&format!("{GEMM} 0..100")).1,
            ["matrix products", "idle"]
        );
    }

    /// Three steps of 100 ns with two phases each; the second, of a kernel of 40 ns, begins after the first ends.
    #[test]
    fn phases_of_a_step_have_bars_after_it() {
        let mut text = String::new();
        for step in 0..3 {
            let at = |time: i64| step * 200 + time;
            text += &format!(
                "range train_step {}..{}\nrange forward {}..{}\nrange backward {}..{}\n",
                at(0),
                at(100),
                at(0),
                at(50),
                at(50),
                at(100)
            );
            for (call, start, end) in [(1, 2, 40), (51, 60, 100)] {
                text += &format!(
                    "launch {}..{} -> axpy {}..{}\n",
                    at(call),
                    at(start),
                    at(start),
                    at(end)
                );
            }
        }
        with_results(&trace(&text), |context| {
            let content = show(&keys(context)).unwrap();
            let [Block::Chart(chart), ..] = content.main.as_slice() else {
                panic!("no chart")
            };
            let Plot::StackedBars(bars) = &chart.plot else {
                panic!("no bars")
            };
            let bars: Vec<(&str, f64)> = bars
                .bars
                .iter()
                .map(|bar| (bar.label.as_str(), bar.values.iter().sum()))
                .collect();
            let phase = |stage| format!("breakdown.phase{{stage={stage}, outer=train_step}}");
            let (forward, backward) = (phase("forward"), phase("backward"));
            assert_eq!(
                bars,
                [
                    ("train_step", 98.0),
                    (forward.as_str(), 38.0),
                    (backward.as_str(), 40.0)
                ]
            );
        });
    }
}
