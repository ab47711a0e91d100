//! The charts of the roofline section.

use rooflens_schemas::Unit;

use super::ceilings::Roofs;
use super::group::Group;
use crate::analysis::counters::ncu::{KernelCounters, Level};
use crate::findings::chart::{Ceiling, LevelMark, Plot, Point, Roofline, Scatter};
use crate::findings::{Chart, Quantity};

/// Kernels of the chart of all memory levels: as many as get a number in it.
const WITH_LEVELS: usize = 10;

/// Kernels with a roofline of their own.
const ALONE: usize = 4;

pub(super) fn level(
    pass: &str,
    level: Level,
    kernels: &[KernelCounters],
    groups: &[Group],
    roofs: &Roofs<'_>,
) -> Option<Chart> {
    let points: Vec<Point> = groups.iter().filter_map(|group| group.point(level).ok()).collect();
    if points.is_empty() {
        return None;
    }
    let roofline = Roofline {
        bandwidths: roofs.bandwidths(level, kernels),
        rates: roofs.rates(),
        points,
        levels: Vec::new(),
    };
    let share: f64 = roofline.points.iter().map(|point| point.weight).sum();
    let description = format!(
        "{} kernels with {} of the profiled time, FLOP/s against FLOPs per {} byte, log-log. Ceilings: {}.{}",
        roofline.points.len(),
        Quantity::ratio(share),
        level.label(),
        labels(&roofline),
        longest(&roofline.points, |point| format!(
            "{} at {}",
            Quantity::new(point.x, Unit::FlopPerByte),
            Quantity::new(point.y, Unit::FlopPerSecond)
        )),
    );
    Some(Chart {
        id: format!("roofline-{}-{}", slug(level.label()), slug(pass)),
        title: format!("{} roofline, pass {pass}", level.label()),
        description,
        plot: Plot::Roofline(roofline),
    })
}

pub(super) fn normalized(pass: &str, groups: &[Group]) -> Option<Chart> {
    let points: Vec<Point> = groups.iter().filter_map(Group::sol_point).collect();
    if points.is_empty() {
        return None;
    }
    let description = format!(
        "{} kernels, compute against memory throughput, each in percent of its peak; above the diagonal compute leads.{}",
        points.len(),
        longest(&points, |point| format!(
            "memory {}, compute {}",
            Quantity::new(point.x, Unit::Percent),
            Quantity::new(point.y, Unit::Percent)
        )),
    );
    Some(Chart {
        id: format!("roofline-normalized-{}", slug(pass)),
        title: format!("Compute against memory throughput, pass {pass}"),
        description,
        plot: Plot::Scatter(Scatter {
            x_label: "highest memory throughput, % of peak".to_owned(),
            y_label: "compute throughput, % of peak".to_owned(),
            x_max: 100.0,
            y_max: 100.0,
            diagonal: true,
            points,
        }),
    })
}

/// A sentence about the mark with the largest share.
pub(super) fn longest(points: &[Point], place: impl Fn(&Point) -> String) -> String {
    let most =
        points.iter().reduce(|best, next| if next.weight > best.weight { next } else { best });
    most.map_or_else(String::new, |point| {
        format!(
            " Largest share: {} ({}), {}.",
            point.label,
            Quantity::ratio(point.weight),
            place(point)
        )
    })
}

fn list_or_none(labels: &[&str]) -> String {
    if labels.is_empty() { "none".to_owned() } else { labels.join(", ") }
}

/// Lower-case letters and digits, everything else a hyphen: fit for a file name.
pub(super) fn slug(name: &str) -> String {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn has_cache(group: &Group) -> bool {
    [Level::L2, Level::L1].into_iter().any(|level| group.intensity(level).is_some())
}

/// Each kernel at its three intensities, under the roofs of all memory levels.
pub(super) fn levels(
    pass: &str,
    kernels: &[KernelCounters],
    groups: &[Group],
    roofs: &Roofs<'_>,
) -> Option<Chart> {
    let shown: Vec<&Group> =
        groups.iter().filter(|g| marks(g).is_some()).take(WITH_LEVELS).collect();
    // Without a further level it would be the DRAM roofline again.
    if !shown.iter().any(|group| has_cache(group)) {
        return None;
    }
    let plot = at_all_levels(kernels, &shown, roofs)?;
    let description = format!(
        "The {} kernels with the most profiled time, each at its FLOPs per DRAM byte (large mark), per L2 byte and per \
         L1 byte (small marks, joined). Marks close together: the level passes everything on; marks far apart: the \
         caches serve the kernel. Ceilings: {}.",
        shown.len(),
        labels(&plot),
    );
    Some(Chart {
        id: format!("roofline-levels-{}", slug(pass)),
        title: format!("Roofline at all memory levels, pass {pass}"),
        description,
        plot: Plot::Roofline(plot),
    })
}

/// The kernels with the most time alone, for the appendix.
pub(super) fn alone(
    pass: &str,
    kernels: &[KernelCounters],
    groups: &[Group],
    roofs: &Roofs<'_>,
) -> Vec<Chart> {
    let shown = groups
        .iter()
        .filter(|group| marks(group).is_some())
        .filter(|group| has_cache(group))
        .take(ALONE);
    let chart = |(number, group): (usize, &Group)| {
        let plot = at_all_levels(kernels, &[group], roofs)?;
        let rate = group.rate().map(|rate| Quantity::new(rate, Unit::FlopPerSecond));
        let intensity = |level: Level| {
            let value = Quantity::new(group.intensity(level)?, Unit::FlopPerByte);
            Some(format!("{} {value}", level.label()))
        };
        let intensities: Vec<String> = Level::ALL.into_iter().filter_map(intensity).collect();
        Some(Chart {
            id: format!("roofline-kernel-{}-{}", slug(pass), number + 1),
            title: format!("{}, grid {}, pass {pass}", group.short, group.grid),
            description: format!(
                "{} at {}. Ceilings: {}.",
                rate.map_or_else(String::new, |rate| rate.to_string()),
                intensities.join(", "),
                labels(&plot)
            ),
            plot: Plot::Roofline(plot),
        })
    };
    shown.enumerate().filter_map(chart).collect()
}

/// The mark of a group at the first level that it was counted at, and those at the further ones.
fn marks(group: &Group) -> Option<(Point, Vec<(f64, Level)>)> {
    let mut points =
        Level::ALL.into_iter().filter_map(|level| Some((group.point(level).ok()?, level)));
    let (first, level) = points.next()?;
    let point = Point { color: level.color(), ..first };
    Some((point, points.map(|(point, level)| (point.x, level)).collect()))
}

fn at_all_levels(
    kernels: &[KernelCounters],
    groups: &[&Group],
    roofs: &Roofs<'_>,
) -> Option<Roofline> {
    let (mut points, mut levels) = (Vec::new(), Vec::new());
    for (point, further) in groups.iter().filter_map(|group| marks(group)) {
        let at = points.len();
        let mark = |(x, level): (f64, Level)| LevelMark { point: at, x, color: level.color() };
        levels.extend(further.into_iter().map(mark));
        points.push(point);
    }
    let bandwidths = Level::ALL.into_iter().flat_map(|level| {
        let roofs = roofs.bandwidths(level, kernels);
        roofs.into_iter().filter(|roof| !roof.measured)
    });
    let mut dtypes: Vec<&str> = groups.iter().filter_map(|group| group.dtype).collect();
    dtypes.sort_unstable();
    dtypes.dedup();
    let specified = roofs.rates_of(&dtypes).into_iter().filter(|roof| !roof.measured);
    (!points.is_empty()).then(|| Roofline {
        bandwidths: bandwidths.collect(),
        rates: specified.collect(),
        points,
        levels,
    })
}

/// The labels of a plot's roofs.
pub(super) fn labels(plot: &Roofline) -> String {
    let roofs: Vec<&Ceiling> = plot.bandwidths.iter().chain(&plot.rates).collect();
    list_or_none(&roofs.iter().map(|roof| roof.label.as_str()).collect::<Vec<_>>())
}
