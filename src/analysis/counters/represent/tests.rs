#![allow(clippy::unwrap_used)]

use std::ops::Range;

use rooflens_schemas::PassKind;

use super::matching::Tier;
use super::*;
use crate::analysis::counters::ncu::tests::session as profiled;
use crate::analysis::test_session;
use crate::analysis::{Facts, Options};
use crate::findings::Cell;
use crate::hardware::Hardware;
use crate::model::{Dim3, Launch, Ns};

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

fn with_matching<T>(session: &Session, look: impl Fn(&Context<'_>, &Matching) -> T) -> T {
    let (facts, hardware, options) = (Facts::new(session), Hardware::default(), Options::default());
    let context = Context::new(session, &facts, &hardware, &options);
    look(&context, facts.matching.as_ref().unwrap())
}

#[test]
fn launches_find_their_counters_by_grid_then_by_blocks_and_products_by_grid_only() {
    with_matching(&session(), |_, matching| {
        let [line] = matching.lines.as_slice() else { panic!("one stage: the whole capture") };
        let tiers: Vec<_> =
            line.groups.iter().map(|g| (g.time, g.tier, g.from.as_slice())).collect();
        assert_eq!(
            tiers,
            [
                (400, None, &[][..]),
                (200, Some(Tier::Stage), &[0, 1]),
                (150, None, &[]),
                (110, Some(Tier::Stage), &[2]),
                (90, None, &[]),
                (50, Some(Tier::Kernel), &[0, 1]),
            ]
        );
        // 200 + 110 + 50 of 1000 ns.
        assert!((line.share(|group| group.tier.is_some()) - 0.36).abs() < 1e-12);
        // 1000 and 3000 bytes a launch; half of that for half the blocks.
        let bytes = |group: usize| {
            let spread = line.groups[group].counter(&matching.profiles, |c| c.bytes.dram).unwrap();
            (spread.min, spread.mean, spread.max)
        };
        assert_eq!(bytes(1), (1000.0, 2000.0, 3000.0));
        assert_eq!(bytes(5), (500.0, 1000.0, 1500.0));
    });
}

#[test]
fn each_profiled_launch_is_held_against_the_median_of_its_grid() {
    with_matching(&session(), |context, matching| {
        let rows = launches::rows(context, matching);
        let dataset = launches::dataset(context, &rows);
        let column = |id: &str| dataset.columns.iter().position(|c| c.id == id).unwrap();
        let cell = |row: usize, id: &str| dataset.rows[row][column(id)].plain();
        // 100 ns against the median 100 of 90 and 110.
        assert_eq!((cell(0, "ratio"), cell(0, "verdict")), ("1".into(), "representative".into()));
        assert_eq!((cell(0, "stands_for"), cell(0, "time_share")), ("2".into(), "0.2".into()));
        // 100 ns against the 110 of its size.
        assert_eq!((cell(2, "median_ns"), cell(2, "stands_for")), ("110".into(), "1".into()));
        assert_eq!(cell(3, "verdict"), "kernel not in the timeline (not matched)");
        // 300 of 400 ns of profiled time.
        let (share, _) = launches::representative_time(rows.iter()).unwrap();
        assert!((share - 0.75).abs() < 1e-12);
    });
}

#[test]
fn a_grid_or_a_kernel_that_the_stage_lacks_is_said() {
    let mut session = session();
    session.kernel_profiles.grid[0] = Dim3 { x: 7, y: 1, z: 1 };
    with_matching(&session, |context, matching| {
        let rows = launches::rows(context, matching);
        let dataset = launches::dataset(context, &rows);
        let verdicts: Vec<String> = dataset.rows.iter().map(|row| row[12].plain()).collect();
        assert!(
            verdicts.contains(&"grid does not occur in whole capture".to_owned()),
            "{verdicts:?}"
        );
    });
}

#[test]
fn what_was_not_profiled_is_listed_with_the_command_that_would_profile_it() {
    with_matching(&session(), |context, matching| {
        let gaps = coverage::gaps(context, matching);
        let shares: Vec<String> = gaps.rows.iter().map(|row| row[5].plain()).collect();
        // The product's other size and grid with 400 + 90 ns, and the sort with 150.
        assert_eq!(shares, ["0.49", "0.15"]);
        let text = coverage::commands(context, matching).unwrap();
        // 600, 250 and 150 ns: all three are needed for 90 %.
        let command = "rooflens kernels BUNDLE --top 3 --stage 'whole capture' --yaml";
        assert!(text.contains(&Inline::Code(command.to_owned())), "{text:?}");
    });
}

#[test]
fn the_metric_has_the_share_and_the_section_the_control() {
    let mut session = session();
    session.passes.command[0] = session.strings.intern("ncu --clock-control none app");
    let (facts, hardware, options) =
        (Facts::new(&session), Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let findings = run(&context);
    assert!((findings.metrics[0].value.number().unwrap() - 0.75).abs() < 1e-12);
    let Block::Prose(text) = &findings.blocks[1] else { panic!("prose") };
    let Inline::Text(last) = text.last().unwrap() else { panic!("text") };
    assert!(last.contains("cache control all") && last.contains("clock control none"), "{last}");
    assert!(findings.datasets.iter().all(|d| d.rows.iter().all(|r| r.len() == d.columns.len())));
    assert!(matches!(findings.datasets[0].rows[0][0], Cell::Name(_)));
}

#[test]
fn without_a_timeline_there_is_no_section() {
    let session = profiled(&[("k", &[])]);
    let (facts, hardware, options) =
        (Facts::new(&session), Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    assert!(run(&context).blocks.is_empty());
}
