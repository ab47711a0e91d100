//! The charts of the roofline section.

use std::collections::BTreeMap;

use rooflens_schemas::Unit;

use crate::{Context, ncu_kernels};
use rooflens_analysis::counters::ncu::Level;
use rooflens_analysis::counters::roofline::PassRoofline;
use rooflens_analysis::counters::roofline::group::Group;
use rooflens_analysis::counters::roofline::roofs::{Peak, Roof, Roofs};
use rooflens_document::chart::{Ceiling, Color, LevelMark, Plot, Point, Roofline, Scatter};
use rooflens_document::{Chart, Quantity};
use rooflens_units::{FlopsPerByte, Percent, Ratio};

/// Kernels of the chart of all memory levels: as many as get a number in it.
const WITH_LEVELS: usize = 10;

/// Kernels with a roofline of their own.
const ALONE: usize = 4;

/// Roofs as charts draw them.
pub(super) fn ceilings(context: &Context<'_>, roofs: Vec<Roof>) -> Vec<Ceiling> {
    let ceiling = |Roof { peak, measured }: Roof| {
        let (name, value) = match peak {
            Peak::Dtype(dtype, rate) => (dtype.to_owned(), Quantity::from(rate)),
            Peak::Memory(bandwidth) => (Level::Dram.label().to_owned(), bandwidth.into()),
            Peak::ByClock(level, bandwidth) => {
                let name = words!(context, "roofline.by_clock", level = level.label());
                (name, bandwidth.into())
            }
            Peak::Copy(bandwidth) => (words!(context, "roofline.copy"), bandwidth.into()),
        };
        let label = format!("{name} {value}");
        let label = match measured {
            true => words!(context, "roofline.measured", ceiling = label),
            false => label,
        };
        Ceiling {
            label,
            value: value.value,
            measured,
        }
    };
    roofs.into_iter().map(ceiling).collect()
}

/// A plot under the roofs of one level and of the main dtypes.
pub(super) fn under(
    context: &Context<'_>,
    roofs: &Roofs,
    level: Level,
    points: Vec<Point>,
) -> Roofline {
    let bandwidths = ceilings(context, roofs.bandwidths(level));
    let rates = ceilings(context, roofs.rates(&roofs.dtypes));
    Roofline {
        bandwidths,
        rates,
        points,
        levels: Vec::new(),
    }
}

/// Colour group of a memory level.
const fn color(level: Level) -> Color {
    match level {
        Level::Dram => Color::Dram,
        Level::L2 => Color::L2,
        Level::L1 => Color::L1,
    }
}

fn point(group: &Group, (x, y): (f64, f64)) -> Point {
    let color = ncu_kernels::color(group.bound);
    Point {
        label: group.short.clone(),
        x,
        y,
        weight: group.share,
        color,
        hollow: false,
    }
}

/// The marks, with a longer label where several have one name.
pub(super) fn told_apart<T>(
    marks: Vec<(T, Point)>,
    longer: impl Fn(&T, &str) -> String,
) -> Vec<Point> {
    let mut names = BTreeMap::<String, usize>::new();
    for (_, point) in &marks {
        *names.entry(point.label.clone()).or_default() += 1;
    }
    let label = |(of, point): (T, Point)| match names[&point.label] {
        1 => point,
        _ => Point {
            label: longer(&of, &point.label),
            ..point
        },
    };
    marks.into_iter().map(label).collect()
}

/// The marks, with their grids where several have one name.
fn of_grids(context: &Context<'_>, marks: Vec<(&Group, Point)>) -> Vec<Point> {
    told_apart(marks, |group, kernel| {
        words!(
            context,
            "roofline.of_grid",
            kernel = kernel,
            grid = group.grid.to_string()
        )
    })
}

/// The mark in the plot of speed-of-light figures.
fn sol_point(group: &Group) -> Option<Point> {
    let full = Percent(100.0);
    let (memory, compute) = (group.memory?.min(full), group.compute?.min(full));
    Some(point(group, (memory.0, compute.0)))
}

/// The roofline of one memory level.
pub(super) fn level(
    context: &Context<'_>,
    name: &str,
    level: Level,
    pass: &PassRoofline,
) -> Option<Chart> {
    let mark = |group| {
        let (intensity, rate) = Group::mark(group, level).ok()?;
        Some((group, point(group, (intensity.0, rate.0))))
    };
    let marks = pass.groups.iter().filter_map(mark).collect();
    let roofline = under(context, &pass.roofs, level, of_grids(context, marks));
    let largest = largest(&roofline.points)?;
    let share: Ratio = roofline.points.iter().map(|point| point.weight).sum();
    let description = words!(
        context,
        "roofline.level.description",
        kernels = roofline.points.len().to_string(),
        share = share,
        level = level.label(),
        ceilings = labels(context, &roofline),
        largest = largest.label.as_str(),
        largest_share = largest.weight,
        intensity = Quantity::new(largest.x, Unit::FlopPerByte),
        rate = Quantity::new(largest.y, Unit::FlopPerSecond),
    );
    Some(Chart {
        id: format!("roofline-{}-{}", slug(level.label()), slug(name)),
        title: words!(
            context,
            "roofline.level.title",
            level = level.label(),
            pass = name
        ),
        description,
        plot: Plot::Roofline(roofline),
    })
}

/// Compute against memory throughput.
pub(super) fn normalized(context: &Context<'_>, name: &str, pass: &PassRoofline) -> Option<Chart> {
    let marks = pass
        .groups
        .iter()
        .filter_map(|group| Some((group, sol_point(group)?)));
    let points = of_grids(context, marks.collect());
    let largest = largest(&points)?;
    let description = words!(
        context,
        "roofline.normalized.description",
        kernels = points.len().to_string(),
        largest = largest.label.as_str(),
        largest_share = largest.weight,
        memory = Quantity::new(largest.x, Unit::Percent),
        compute = Quantity::new(largest.y, Unit::Percent),
    );
    Some(Chart {
        id: format!("roofline-normalized-{}", slug(name)),
        title: words!(context, "roofline.normalized.title", pass = name),
        description,
        plot: Plot::Scatter(Scatter {
            x_label: words!(context, "roofline.normalized.memory"),
            y_label: words!(context, "roofline.normalized.compute"),
            x_max: 100.0,
            y_max: 100.0,
            diagonal: true,
            points,
        }),
    })
}

/// The mark with the largest share.
pub(super) fn largest(points: &[Point]) -> Option<&Point> {
    points.iter().reduce(|best, next| {
        if next.weight > best.weight {
            next
        } else {
            best
        }
    })
}

/// Lower-case letters and digits, everything else a hyphen: fit for a file name.
pub(super) fn slug(name: &str) -> String {
    let lower = name.chars().flat_map(char::to_lowercase);
    lower
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect()
}

fn has_cache(group: &Group) -> bool {
    [Level::L2, Level::L1]
        .into_iter()
        .any(|level| group.intensity(level).is_some())
}

/// Each kernel at its three intensities, under the roofs of all memory levels.
pub(super) fn levels(context: &Context<'_>, name: &str, pass: &PassRoofline) -> Option<Chart> {
    let shown: Vec<&Group> = pass
        .groups
        .iter()
        .filter(|g| marks(g).is_some())
        .take(WITH_LEVELS)
        .collect();
    // Without a further level it would be the DRAM roofline again.
    if !shown.iter().any(|group| has_cache(group)) {
        return None;
    }
    let plot = at_all_levels(context, &pass.roofs, &shown)?;
    let description = words!(
        context,
        "roofline.levels.description",
        kernels = shown.len().to_string(),
        ceilings = labels(context, &plot),
    );
    Some(Chart {
        id: format!("roofline-levels-{}", slug(name)),
        title: words!(context, "roofline.levels.title", pass = name),
        description,
        plot: Plot::Roofline(plot),
    })
}

/// The kernels with the most time alone, for the appendix.
pub(super) fn alone(context: &Context<'_>, name: &str, pass: &PassRoofline) -> Vec<Chart> {
    let shown = pass
        .groups
        .iter()
        .filter(|group| marks(group).is_some())
        .filter(|group| has_cache(group))
        .take(ALONE);
    let chart = |(number, group): (usize, &Group)| {
        let plot = at_all_levels(context, &pass.roofs, &[group])?;
        let intensity = |level: Level| {
            let value = Quantity::from(group.intensity(level)?);
            Some(format!("{} {value}", level.label()))
        };
        let intensities: Vec<String> = Level::ALL.into_iter().filter_map(intensity).collect();
        let description = words!(
            context,
            "roofline.kernel.description",
            rate = group.rate(),
            intensities = intensities.join(context.text.comma()),
            ceilings = labels(context, &plot),
        );
        Some(Chart {
            id: format!("roofline-kernel-{}-{}", slug(name), number + 1),
            title: words!(
                context,
                "roofline.kernel.title",
                kernel = group.short.as_str(),
                grid = group.grid.to_string(),
                pass = name,
            ),
            description,
            plot: Plot::Roofline(plot),
        })
    };
    shown.enumerate().filter_map(chart).collect()
}

/// The mark of a group at the first level that it was counted at, and those at the further ones.
fn marks(group: &Group) -> Option<(Point, Vec<(FlopsPerByte, Level)>)> {
    let mut points = Level::ALL
        .into_iter()
        .filter_map(|level| Some((group.mark(level).ok()?, level)));
    let ((intensity, rate), level) = points.next()?;
    let point = Point {
        color: color(level),
        ..point(group, (intensity.0, rate.0))
    };
    Some((
        point,
        points
            .map(|((intensity, _), level)| (intensity, level))
            .collect(),
    ))
}

fn at_all_levels(context: &Context<'_>, roofs: &Roofs, groups: &[&Group]) -> Option<Roofline> {
    let (mut points, mut levels) = (Vec::new(), Vec::new());
    for (group, (point, further)) in groups
        .iter()
        .filter_map(|group| Some((group, marks(group)?)))
    {
        let index = points.len();
        let mark = |(intensity, level): (FlopsPerByte, Level)| LevelMark {
            point: index,
            x: intensity.0,
            color: color(level),
        };
        levels.extend(further.into_iter().map(mark));
        points.push((*group, point));
    }
    let points = of_grids(context, points);
    let mut dtypes: Vec<&str> = groups.iter().filter_map(|group| group.dtype).collect();
    dtypes.sort_unstable();
    dtypes.dedup();
    let specified = |mut roofs: Vec<Roof>| {
        roofs.retain(|roof| !roof.measured);
        ceilings(context, roofs)
    };
    let bandwidths = Level::ALL
        .into_iter()
        .flat_map(|level| roofs.bandwidths(level))
        .collect();
    (!points.is_empty()).then(|| Roofline {
        bandwidths: specified(bandwidths),
        rates: specified(roofs.rates(&dtypes)),
        points,
        levels,
    })
}

/// The labels of a plot's roofs.
pub(super) fn labels(context: &Context<'_>, plot: &Roofline) -> String {
    let roofs = plot.bandwidths.iter().chain(&plot.rates);
    let labels: Vec<&str> = roofs.map(|roof| roof.label.as_str()).collect();
    if labels.is_empty() {
        words!(context, "roofline.no_ceilings")
    } else {
        labels.join(context.text.comma())
    }
}
