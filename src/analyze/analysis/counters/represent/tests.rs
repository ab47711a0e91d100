#![allow(clippy::unwrap_used)]

use super::matching::Tier;
use super::*;
use crate::testing::represent::session;
use crate::testing::with_results;
use rooflens_session::Dim3;
use rooflens_units::{Bytes, Ratio, Time};

#[test]
fn launches_find_their_counters_by_grid_then_by_blocks_and_products_by_grid_only() {
    with_results(&session(), |context| {
        let matching = context.results.matching().unwrap();
        let counters = context.results.counters().unwrap();
        let [line] = matching.lines.as_slice() else {
            panic!("one stage: the whole capture")
        };
        let from = |group: &Group| group.from.iter().map(|id| id.index()).collect::<Vec<_>>();
        let tiers: Vec<_> = line
            .groups
            .iter()
            .map(|g| (g.time, g.tier, from(g)))
            .collect();
        assert_eq!(
            tiers,
            [
                (Ns(400), None, vec![]),
                (Ns(200), Some(Tier::Stage), vec![0, 1]),
                (Ns(150), None, vec![]),
                (Ns(110), Some(Tier::Stage), vec![2]),
                (Ns(90), None, vec![]),
                (Ns(50), Some(Tier::Kernel), vec![0, 1])
            ]
        );
        // 200 + 110 + 50 of 1000 ns.
        assert!((line.covered().0 - 0.36).abs() < 1e-12);
        // 1000 and 3000 bytes a launch; half of that for half the blocks.
        let bytes = |group: usize| {
            let spread = line.groups[group]
                .spread(counters, |c| c.bytes.dram)
                .unwrap();
            [spread.min, spread.mean, spread.max]
        };
        assert_eq!(bytes(1), [1000.0, 2000.0, 3000.0].map(Bytes));
        assert_eq!(bytes(5), [500.0, 1000.0, 1500.0].map(Bytes));
    });
}

#[test]
fn each_profiled_launch_is_held_against_the_median_of_its_grid() {
    with_results(&session(), |context| {
        let (matching, all) = (
            context.results.matching().unwrap(),
            context.results.represent().unwrap(),
        );
        let [add, _, product, gone] = all.launches.as_slice() else {
            panic!("four launches")
        };
        let group =
            |one: &Comparison| &matching.lines[one.line.unwrap()].groups[one.group.unwrap()];
        // 100 ns against the median 100 of 90 and 110.
        assert!((add.ratio.unwrap().0 - 1.0).abs() < 1e-12);
        assert_eq!(add.likeness, Likeness::Representative);
        assert_eq!((group(add).launches, add.share), (2, Some(Ratio(0.2))));
        // 100 ns against the 110 of its size.
        assert_eq!(
            (group(product).median(), group(product).launches),
            (Some(Time(110.0)), 1)
        );
        assert_eq!(gone.likeness, Likeness::NotInTimeline);
        // 300 of 400 ns of profiled time.
        let [sums] = all.passes.values().copied().collect::<Vec<_>>()[..] else {
            panic!("a pass")
        };
        assert!((sums.alike_seconds / sums.seconds - 0.75).abs() < 1e-12);
    });
}

#[test]
fn a_grid_or_a_kernel_that_the_stage_lacks_is_said() {
    let mut session = session();
    session.kernel_profiles.grid[0] = Dim3 { x: 7, y: 1, z: 1 };
    with_results(&session, |context| {
        let all = context.results.represent().unwrap();
        assert!(
            all.launches
                .iter()
                .any(|one| one.likeness == Likeness::NoGrid)
        );
    });
}

#[test]
fn without_a_timeline_launches_are_held_against_the_sums_of_their_kernels() {
    use crate::testing::counters::session as profiled;
    use crate::testing::represent::TIME;
    use rooflens_session::KernelSum;
    let of = |ns: f64| [("", TIME, "s", ns * 1e-9)];
    let (short, long) = (of(100.0), of(300.0));
    let mut session = profiled(&[
        ("void add<1>(T1)", &short),
        ("void mul<1>(T1)", &short),
        ("void sort(T1)", &long),
        ("gone", &short),
    ]);
    let pass = session.add_pass("nsys", rooflens_schemas::PassKind::Timeline, "sums.csv");
    // Medians of 100 ns; the launches of mul differ by half of their mean. 600 + 200 + 100 of 1000 ns are profiled.
    for (name, total, count, std) in [
        ("void ns::add<(int)1>(T1)", 600, 6, 1.0),
        ("void ns::mul<(int)1>(T1)", 200, 2, 50.0),
        ("void ns::sort(T1)", 100, 1, 0.0),
        ("other", 100, 1, 0.0),
    ] {
        let kernel = session.kernel(name, "");
        let (min, max, median, std) = (1, 1, Some(Time(100.0)), Some(Time(std)));
        let sum = KernelSum {
            pass,
            kernel,
            count,
            total: Ns(total),
            min: Ns(min),
            max: Ns(max),
            median,
            std,
        };
        session.kernel_sums.push(sum);
    }
    with_results(&session, |context| {
        let all = context.results.summed().unwrap();
        let told: Vec<_> = all
            .launches
            .iter()
            .map(|one| (one.share, one.likeness))
            .collect();
        assert_eq!(
            told,
            [
                (Some(Ratio(0.6)), Likeness::Representative),
                (Some(Ratio(0.2)), Likeness::Mixed),
                (Some(Ratio(0.1)), Likeness::Longer),
                (None, Likeness::NotInTimeline),
            ]
        );
        assert!((all.covered().0 - 0.9).abs() < 1e-12);
        assert_eq!(all.gaps.len(), 1);
        // 100 + 100 of 600 ns of profiled time: `gone` has no ratio.
        let sums = all.passes.values().next().unwrap();
        assert!((sums.share().unwrap().0 - 200.0 / 600.0).abs() < 1e-12);
    });
}
