//! Data sets of the roofline section.

use crate::Context;

use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::roofline::group::Group;
use rooflens_analysis::counters::roofline::roofs::Peak;
use rooflens_analysis::counters::roofline::{PassRoofline, TypeSum};
use rooflens_document::{Block, Dataset, Table, View};

/// Rows of a table in the section; the data sets hold all.
const SHOWN_ROWS: usize = 12;

/// A group in its pass.
pub(super) type Mark<'a> = (&'a PassRoofline, &'a Group);

/// A group without a mark: pass, group, roofline and why, a key of the catalogue.
pub(super) type Unplotted<'a> = (&'a PassRoofline, &'a Group, &'static str, &'static str);

/// The rows of all passes so far.
#[derive(Default)]
pub(super) struct Rows<'a> {
    points: Vec<Mark<'a>>,
    unplotted: Vec<Unplotted<'a>>,
    types: Vec<(&'a PassRoofline, &'a TypeSum)>,
}

impl<'a> Rows<'a> {
    /// Adds a pass; gives its views.
    pub(super) fn add(&mut self, context: &Context<'a>, pass: &'a PassRoofline) -> Vec<Block> {
        let first = [self.types.len(), self.points.len(), self.unplotted.len()];
        self.types.extend(pass.types.iter().map(|sum| (pass, sum)));
        for group in &pass.groups {
            self.sort_in(pass, group);
        }
        let last = [self.types.len(), self.points.len(), self.unplotted.len()];
        let [types, points, unplotted] = [0, 1, 2].map(|kind| last[kind] - first[kind]);
        let name = context.session.pass_name(pass.pass);
        let (some, others) = (points.min(SHOWN_ROWS), unplotted.min(SHOWN_ROWS));
        let of_points = words!(
            context,
            "roofline.points",
            pass = name,
            shown = some.to_string(),
            all = points.to_string(),
        );
        let without_mark = words!(
            context,
            "roofline.without_mark",
            pass = name,
            shown = others.to_string(),
            all = unplotted.to_string(),
        );
        let views = [
            type_table(context).view(words!(context, "roofline.types", pass = name), types),
            point_table(context).view(of_points, some),
            unplotted_view(without_mark, others),
        ];
        let views = views
            .into_iter()
            .zip(first)
            .filter(|(view, _)| view.limit > 0);
        views
            .map(|(view, skip)| Block::Table(View { skip, ..view }))
            .collect()
    }

    /// Puts a group among the marks, or says why it has none.
    fn sort_in(&mut self, pass: &'a PassRoofline, group: &'a Group) {
        let [dram, l2, l1] = Level::ALL.map(|level| group.mark(level).err());
        if let (Some(reason), true) = (dram, dram == l2 && l2 == l1) {
            self.unplotted.push((pass, group, "all", reason));
            return;
        }
        let reasons = Level::ALL.into_iter().zip([dram, l2, l1]);
        self.unplotted.extend(
            reasons.filter_map(|(level, reason)| Some((pass, group, level.label(), reason?))),
        );
        self.points.push((pass, group));
    }

    /// The data sets.
    pub(super) fn datasets(&self, context: &Context<'a>) -> [Dataset; 3] {
        [
            point_table(context).rows(&self.points),
            unplotted_table(context).rows(&self.unplotted),
            type_table(context).rows(&self.types),
        ]
    }
}

fn type_table<'t>(context: &Context<'t>) -> Table<'t, (&'t PassRoofline, &'t TypeSum)> {
    let session = context.session;
    let peak = |pass: &PassRoofline, dtype, measured| {
        let mut roofs = pass.roofs.rates(&[dtype]).into_iter();
        roofs.find_map(|roof| match roof.peak {
            Peak::Dtype(_, rate) if roof.measured == measured => Some(rate),
            _ => None,
        })
    };
    columns! { context, "executed_flops_types", (pass, sum): &(&PassRoofline, &TypeSum) => {
        text "dtype" = sum.dtype, page;
        text "pass" = session.pass_name(pass.pass);
        text "pipe" = if sum.tensor { "tensor cores" } else { "vector" }, page;
        count "launches" = sum.launches, page;
        Flop "flop" = sum.flops, page;
        share "flop_share" = sum.share, page;
        time "duration_ns" = sum.seconds;
        FlopPerSecond "flop_per_second" =
            sum.seconds.is_positive().then(|| sum.flops / sum.seconds), page;
        "peak_flop_per_second" = peak(pass, sum.dtype, false), page;
        "measured_flop_per_second" = peak(pass, sum.dtype, true), page;
    } }
}

fn point_table<'t>(context: &Context<'t>) -> Table<'t, Mark<'t>> {
    let session = context.session;
    let intensity = |level| move |(_, group): &Mark<'_>| group.intensity(level);
    columns! { context, "roofline_points", row: &Mark<'_> => {
        let (pass, group) = row;
        name "kernel" = group.short.as_str(), page;
        text "pass" = session.pass_name(pass.pass);
        text "grid" = group.grid.to_string();
        text "block" = group.block.to_string();
        count "launches" = group.launches, page;
        time "duration_ns" = group.seconds;
        share "time_share" = group.share, page;
        Flop "flop" = group.flops.ok();
        text "dtype" = group.dtype, page;
        FlopPerSecond "flop_per_second" = group.rate(), page;
        FlopPerByte "dram_flop_per_byte" = intensity(Level::Dram)(row), page;
        FlopPerByte "l2_flop_per_byte" = intensity(Level::L2)(row);
        FlopPerByte "l1_flop_per_byte" = intensity(Level::L1)(row);
        FlopPerSecond "attainable_flop_per_second" = pass.roofs.attainable(group);
        share "attained_share" = Some(group.rate()? / pass.roofs.attainable(group)?), page;
        text "bound" = group.bound.label(), page;
    } }
}

const UNPLOTTED: &str = "roofline_unplotted";

fn unplotted_view(caption: String, limit: usize) -> View {
    let columns = ["kernel", "roofline", "launches", "time_share", "reason"];
    View::new(UNPLOTTED, caption, &columns, limit)
}

fn unplotted_table<'t>(context: &Context<'t>) -> Table<'t, Unplotted<'t>> {
    let (session, text) = (context.session, context.text);
    columns! { context, UNPLOTTED, (pass, group, level, reason): &Unplotted<'_> => {
        name "kernel" = group.short.as_str();
        text "pass" = session.pass_name(pass.pass);
        text "roofline" = *level;
        text "grid" = group.grid.to_string();
        text "block" = group.block.to_string();
        count "launches" = group.launches;
        time "duration_ns" = group.seconds;
        share "time_share" = group.share;
        text "reason" = text.line(reason, &[]);
    } }
}
