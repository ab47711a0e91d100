#![allow(clippy::unwrap_used)]

use std::ops::Range;

use rooflens_schemas::PassKind;

use super::matching::Tier;
use super::*;
use crate::analysis::counters::ncu::tests::session as profiled;
use crate::analysis::test_session::{self, with_results};
use crate::model::{Dim3, Launch, Ns, Session};

/// Adds a launch with blocks of 384 threads, as profiled launches of tests have.
pub(crate) fn launch(
    session: &mut Session,
    pass: PassId,
    name: &str,
    [x, y, z]: [u32; 3],
    time: Range<Ns>,
) {
    let kernel = session.kernel(name, "");
    let (gpu, process) = (session.gpu(pass, 0), session.process(pass, 1, 1));
    let (grid, block) = (Dim3 { x, y, z }, Dim3 { x: 384, y: 1, z: 1 });
    let launch = test_session::launch(pass, kernel, time);
    session.launches.push(Launch { gpu, process, grid, block, ..launch });
}

const TIME: &str = "gpu__time_duration.sum";
const READ: &str = "dram__bytes.sum";
const GEMM: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";

/// A timeline of 1000 ns of GPU time. `add` and the product were profiled with grid 2x64, `sort` was not.
/// Of the product's two launches on that grid one lasts as long as the profiled one, the other four times as long.
pub(crate) fn session() -> Session {
    let of = |bytes| [("", TIME, "s", 100e-9), ("", READ, "byte", bytes)];
    let mut session = profiled(&[
        ("void add<1>(T1)", &of(1000.0)),
        ("void add<1>(T1)", &of(3000.0)),
        (GEMM, &of(64e3)),
        ("gone", &of(1.0)),
    ]);
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys.sqlite");
    let add = "void ns::add<(bool)1>(T1)";
    launch(&mut session, pass, add, [2, 64, 1], 0..90);
    launch(&mut session, pass, add, [2, 64, 1], 100..210);
    // Half the blocks.
    launch(&mut session, pass, add, [2, 32, 1], 300..350);
    launch(&mut session, pass, GEMM, [2, 64, 1], 400..510);
    launch(&mut session, pass, GEMM, [2, 64, 1], 600..1000);
    launch(&mut session, pass, GEMM, [2, 66, 1], 1000..1090);
    launch(&mut session, pass, "sort", [1, 1, 1], 1100..1250);
    session
}

#[test]
fn launches_find_their_counters_by_grid_then_by_blocks_and_products_by_grid_only() {
    with_results(&session(), |context| {
        let matching = context.results.matching().unwrap();
        let counters = context.results.counters().unwrap();
        let [line] = matching.lines.as_slice() else { panic!("one stage: the whole capture") };
        let from = |group: &Group| group.from.iter().map(|id| id.index()).collect::<Vec<_>>();
        let tiers: Vec<_> = line.groups.iter().map(|g| (g.time, g.tier, from(g))).collect();
        assert_eq!(
            tiers,
            [
                (400, None, vec![]),
                (200, Some(Tier::Stage), vec![0, 1]),
                (150, None, vec![]),
                (110, Some(Tier::Stage), vec![2]),
                (90, None, vec![]),
                (50, Some(Tier::Kernel), vec![0, 1]),
            ]
        );
        // 200 + 110 + 50 of 1000 ns.
        assert!((line.covered() - 0.36).abs() < 1e-12);
        // 1000 and 3000 bytes a launch; half of that for half the blocks.
        let bytes = |group: usize| {
            let spread = line.groups[group].counter(counters, |c| c.bytes.dram).unwrap();
            (spread.min, spread.mean, spread.max)
        };
        assert_eq!(bytes(1), (1000.0, 2000.0, 3000.0));
        assert_eq!(bytes(5), (500.0, 1000.0, 1500.0));
    });
}

#[test]
fn each_profiled_launch_is_held_against_the_median_of_its_grid() {
    with_results(&session(), |context| {
        let (matching, all) =
            (context.results.matching().unwrap(), context.results.represent().unwrap());
        let [add, _, product, gone] = all.launches.as_slice() else { panic!("four launches") };
        let group =
            |one: &Comparison| &matching.lines[one.line.unwrap()].groups[one.group.unwrap()];
        // 100 ns against the median 100 of 90 and 110.
        assert!((add.ratio.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(add.likeness, Likeness::Representative);
        assert_eq!((group(add).launches, add.share), (2, Some(0.2)));
        // 100 ns against the 110 of its size.
        assert_eq!((group(product).median(), group(product).launches), (Some(110.0), 1));
        assert_eq!(gone.likeness, Likeness::NotInTimeline);
        // 300 of 400 ns of profiled time.
        let [sums] = all.passes.values().copied().collect::<Vec<_>>()[..] else { panic!("a pass") };
        assert!((sums.alike_seconds / sums.seconds - 0.75).abs() < 1e-12);
    });
}

#[test]
fn a_grid_or_a_kernel_that_the_stage_lacks_is_said() {
    let mut session = session();
    session.kernel_profiles.grid[0] = Dim3 { x: 7, y: 1, z: 1 };
    with_results(&session, |context| {
        let all = context.results.represent().unwrap();
        assert!(all.launches.iter().any(|one| one.likeness == Likeness::NoGrid));
    });
}
