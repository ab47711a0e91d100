//! From the time at the peak to the time now: what adds to the least time, of a training step or by stage.
//!
//! All bars are shares of the time. So the first, the time that the work takes at the specified peak, is the utilization
//! itself, and the longest cause is the largest loss.

use super::figures;
use super::tiles::{self, Peak};
use super::whole::{Classes, IDLE, Kind, Whole, classes_of_stage};
use crate::evidence::Evidence;
use crate::stage::StageLine;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_document::chart::{Fall, Plot, Waterfall};
use rooflens_document::{Block, Chart, Dataset, Inline, Table};
use rooflens_schemas::Unit;
use rooflens_sections::kernels::bound_of_kernel;
use rooflens_sections::{Context, why_unknown};
use rooflens_session::{Arrange, KernelId};
use rooflens_units::{Ratio, Time};

/// Stages of a request or loop that the chart shows.
const SHOWN: usize = 2;

/// Other kernels that are named.
const SHOWN_KERNELS: usize = 3;

/// Share of the busy time in transfers from which on they are named.
const COPIES: Ratio = Ratio(0.05);

/// Classes with parts of their own.
const KNOWN: [ClassGroup; 3] = [
    ClassGroup::Gemm,
    ClassGroup::Attention,
    ClassGroup::Communication,
];

/// The way from a peak to the utilization that is reached.
struct Descent {
    name: String,
    figure: String,
    peak: String,
    at_peak: Time,
    /// What the time above that goes to, in the order of the chart.
    causes: Vec<(String, Time)>,
    /// The part of it in kernels that compute neither GEMMs nor attention.
    others: Time,
}

/// A cause with the level below it.
struct Step<'d> {
    descent: &'d Descent,
    cause: &'d str,
    time: Time,
    share: Ratio,
}

/// The chart, for a single stage with its times as a table, and the data; or why there is none.
pub(super) fn blocks(evidence: &Evidence<'_>, whole: &Whole<'_>) -> (Vec<Block>, Option<Dataset>) {
    let descents = descents(evidence, whole);
    if descents.is_empty() {
        let reason = reason(evidence, whole);
        let missing = words!(evidence, "summary.no_fall", reason = reason);
        return (vec![Block::Missing(missing)], None);
    }
    let mut steps = Vec::new();
    for descent in &descents {
        steps.extend(descent.steps());
    }
    let table = table(evidence);
    let mut blocks = vec![Block::Chart(chart(evidence, &descents))];
    blocks.extend(other_kernels(evidence, whole, &descents).map(Block::Prose));
    if whole.stages.len() == 1 {
        let caption = words!(evidence, "summary.fall_table");
        blocks.push(Block::Table(table.view(caption, steps.len())));
    }
    (blocks, Some(table.rows(&steps)))
}

/// Of a training step; else of the stages with the most time.
fn descents(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Vec<Descent> {
    if whole.kind == Kind::Step {
        return Vec::from_iter(of_whole(evidence, whole));
    }
    let mut longest: Vec<&(&StageLine, f64)> = whole.stages.iter().collect();
    longest.sort_by(|a, b| Whole::time_of(b).total_cmp(&Whole::time_of(a)));
    let mut shown: Vec<(usize, Descent)> = Vec::new();
    for (stage, _) in longest {
        let place = whole
            .stages
            .iter()
            .position(|(other, _)| other.key() == stage.key());
        let descent = of_stage(evidence, stage).filter(|_| shown.len() < SHOWN);
        shown.extend(place.zip(descent));
    }
    shown.sort_by_key(|(place, _)| *place);
    let mut descents: Vec<Descent> = shown.into_iter().map(|(_, descent)| descent).collect();
    if descents.is_empty() {
        descents.extend(of_whole(evidence, whole));
    }
    descents
}

/// MFU of all stages together.
fn of_whole(evidence: &Evidence<'_>, whole: &Whole<'_>) -> Option<Descent> {
    let (mfu, peak) = tiles::mfu_of_whole(evidence, whole)?;
    let (figure, measured) = match &peak {
        Peak::OfOperators => ("summary.tile_mfu_operators", None),
        Peak::Rate(_, measured) => ("summary.tile_mfu", *measured),
    };
    let peak = match &peak {
        Peak::OfOperators => words!(evidence, "summary.fall_peaks"),
        Peak::Rate(ceiling, _) => rate(evidence, ceiling),
    };
    Descent::new(
        evidence,
        (
            tiles::name_with_rank(evidence, whole),
            evidence.text.line(figure, &[]),
            peak,
        ),
        (
            whole.bars.first()?,
            super::hardware::transfers_of(evidence, whole),
        ),
        (mfu, measured),
    )
}

/// MBU of decode, MFU of any other stage.
fn of_stage(evidence: &Evidence<'_>, stage: &StageLine) -> Option<Descent> {
    let utilization = figures::utilization(evidence, stage)?;
    let ceiling = utilization.ceiling.as_ref().ok()?;
    let classes = classes_of_stage(evidence, stage);
    let (figure, peak, reached, measured) = match utilization.mbu() {
        Ok(mbu) => {
            let peak = words!(evidence, "summary.fall_bandwidth", peak = ceiling.bandwidth);
            let measured = utilization.measured_bandwidth;
            let measured = measured.map(|bandwidth| Ratio(bandwidth / ceiling.bandwidth));
            ("summary.tile_mbu", peak, mbu, measured)
        }
        Err(_) => {
            let measured = utilization.measured_share();
            (
                "summary.tile_mfu",
                rate(evidence, ceiling),
                utilization.mfu().ok()?,
                measured,
            )
        }
    };
    let figure = evidence.text.line(figure, &[]);
    let names = (stage.label().to_owned(), figure, peak);
    let copies = super::hardware::transfers(evidence, stage);
    Descent::new(evidence, names, (&classes, copies), (reached, measured))
}

fn rate(evidence: &Evidence<'_>, ceiling: &rooflens_analysis::utilization::mfu::Ceiling) -> String {
    words!(
        evidence,
        "summary.fall_rate",
        dtype = ceiling.dtype.as_str(),
        peak = ceiling.rate
    )
}

impl Descent {
    /// None if the GPU is busy for less time than the peak needs: times and sizes are not of the same run.
    fn new(
        evidence: &Evidence<'_>,
        (name, figure, peak): (String, String, String),
        (classes, copies): (&Classes, Ratio),
        (reached, measured): (Ratio, Option<Ratio>),
    ) -> Option<Self> {
        let whole: Time = classes.iter().copied().sum();
        let at_peak = whole * reached;
        let communication = classes[ClassGroup::Communication as usize];
        let computing = whole - classes[IDLE] - communication;
        let matrix = classes[ClassGroup::Gemm as usize] + classes[ClassGroup::Attention as usize];
        let attainable = match measured {
            Some(share) if at_peak <= computing * share => at_peak / share.0,
            _ => at_peak,
        };
        if !at_peak.is_positive() || attainable > computing {
            return None;
        }
        // Kernels that compute GEMMs under other names leave less time to GEMMs than they need.
        let (kernels, others) = match matrix >= attainable {
            true => ("summary.fall_matrix", computing - matrix),
            false => ("summary.fall_kernels", Time::ZERO),
        };
        let other = match copies >= COPIES {
            true => "summary.fall_others_copies",
            false => "summary.fall_others",
        };
        let mut causes = Vec::new();
        for (key, time) in [
            ("summary.fall_measured", attainable - at_peak),
            (kernels, computing - others - attainable),
            (other, others),
            ("summary.fall_communication", communication),
            ("summary.fall_idle", classes[IDLE]),
        ] {
            if time.is_positive() {
                causes.push((evidence.text.line(key, &[]), time));
            }
        }
        Some(Self {
            name,
            figure,
            peak,
            at_peak,
            causes,
            others,
        })
    }

    /// Time at the peak and of all causes.
    fn whole(&self) -> Time {
        self.causes
            .iter()
            .fold(self.at_peak, |sum, (_, time)| sum + *time)
    }

    /// The time at the peak, and that of each cause.
    fn steps(&self) -> Vec<Step<'_>> {
        let whole = self.whole();
        let step = |cause, time| Step {
            descent: self,
            cause,
            time,
            share: Ratio::of(time, whole),
        };
        let mut steps = vec![step(self.peak.as_str(), self.at_peak)];
        for (cause, time) in &self.causes {
            steps.push(step(cause, *time));
        }
        steps
    }

    /// Bars of the chart: of several stages each with its name.
    fn fall(&self, evidence: &Evidence<'_>, is_only: bool) -> Fall {
        let name = (!is_only).then_some(self.name.as_str());
        let named = |label: &str| words!(evidence, "summary.fall_of", stage = name, label = label);
        let whole = self.whole();
        let mut changes = Vec::new();
        for (cause, time) in &self.causes {
            changes.push((cause.clone(), Ratio::of(*time, whole).0));
        }
        let before = words!(
            evidence,
            "summary.fall_before",
            figure = self.figure.as_str(),
            peak = self.peak.as_str(),
        );
        let after = evidence.text.line("summary.fall_after", &[]);
        Fall {
            before: (named(&before), Ratio::of(self.at_peak, whole).0),
            changes,
            after: (named(&after), 1.0),
        }
    }

    /// The utilization, and the cause that takes most of the time.
    fn message(&self, evidence: &Evidence<'_>) -> Option<String> {
        let (cause, time) = self.causes.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let whole = self.whole();
        Some(words!(
            evidence,
            "summary.fall_message",
            figure = self.figure.as_str(),
            stage = self.name.as_str(),
            reached = Ratio::of(self.at_peak, whole),
            cause = cause.as_str(),
            share = Ratio::of(*time, whole),
        ))
    }
}

/// The kernels with the most time of the part that no GEMM and no attention explains, where that is the largest loss.
fn other_kernels(
    evidence: &Evidence<'_>,
    whole: &Whole<'_>,
    descents: &[Descent],
) -> Option<Vec<Inline>> {
    let is_largest = |descent: &&Descent| {
        let mut causes = descent.causes.iter();
        descent.others.is_positive() && causes.all(|(_, time)| *time <= descent.others)
    };
    let descent = descents.iter().find(is_largest)?;
    let context = Context::new(evidence.context, evidence.text);
    let mut kernels: Vec<(KernelId, Time, Option<&'static str>)> = Vec::new();
    for (stage, times) in &whole.stages {
        let is_shown = descents.len() == 1 || stage.label() == descent.name;
        let Some(work) = evidence.work(stage.kernels).filter(|_| is_shown) else {
            continue;
        };
        for (kernel, _, time) in &work.kernels {
            let class = evidence.facts.identities[kernel.index()].class;
            if KNOWN.contains(&class.group()) {
                continue;
            }
            let share = Ratio::of(time.time(), work.total.time());
            let time = stage.work() * share * *times;
            match kernels.iter_mut().find(|(known, ..)| known == kernel) {
                Some((_, sum, _)) => *sum += time,
                None => kernels.push((*kernel, time, bound_of_kernel(&context, work, *kernel).0)),
            }
        }
    }
    kernels.arrange_by(|a, b| b.1.total_cmp(&a.1));
    let mut items = Vec::new();
    for (kernel, time, bound) in kernels.into_iter().take(SHOWN_KERNELS) {
        items.push(say!(
            evidence,
            "summary.fall_kernel",
            kernel = Inline::code(&evidence.facts.identities[kernel.index()].short),
            share = Ratio::of(time, descent.whole()),
            bound = bound.map(|bound| evidence.text.word(bound)),
        ));
    }
    let comma = Inline::from(evidence.text.semicolon());
    (!items.is_empty()).then(|| {
        say!(
            evidence,
            "summary.fall_kernels_of",
            stage = descent.name.as_str(),
            kernels = items.join(&comma),
        )
    })
}

fn chart(evidence: &Evidence<'_>, descents: &[Descent]) -> Chart {
    let messages = descents
        .iter()
        .filter_map(|descent| descent.message(evidence));
    let messages: Vec<String> = messages.collect();
    let is_only = descents.len() == 1;
    Chart {
        id: "utilization-waterfall".to_owned(),
        title: messages.join(evidence.text.semicolon()),
        description: words!(evidence, "summary.fall_text"),
        plot: Plot::Waterfall(Waterfall {
            unit: Unit::Ratio,
            falls: descents
                .iter()
                .map(|descent| descent.fall(evidence, is_only))
                .collect(),
        }),
    }
}

fn table<'t>(evidence: &Evidence<'t>) -> Table<'t, Step<'t>> {
    columns! { evidence, "utilization_steps", step: &Step<'t> => {
        text "stage" = step.descent.name.as_str();
        text "figure" = step.descent.figure.as_str();
        text "cause" = step.cause, page;
        "time_ns" = step.time, page;
        share "share" = step.share, page;
    } }
}

/// Why no stage has a utilization, by the longest one.
fn reason(evidence: &Evidence<'_>, whole: &Whole<'_>) -> String {
    let longest = whole.longest();
    let utilization = longest.and_then(|stage| figures::utilization(evidence, stage));
    match utilization.map(|utilization| utilization.mfu()) {
        Some(Err(why)) => why_unknown(evidence.text, &why),
        Some(Ok(_)) => words!(evidence, "summary.fall_too_short"),
        None => words!(evidence, "summary.fall_no_flops"),
    }
}
