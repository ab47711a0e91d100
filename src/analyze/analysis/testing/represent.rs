//! Launches of a timeline and profiled ones.

use std::ops::Range;

use rooflens_schemas::PassKind;

use super::counters::session as profiled;
use rooflens_session::{Dim3, Launch, PassId, Session};

pub const TIME: &str = "gpu__time_duration.sum";

pub const READ: &str = "dram__bytes.sum";

pub const GEMM: &str = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT";

/// Adds a launch with blocks of 384 threads, as profiled launches of tests have.
pub fn launch(
    session: &mut Session,
    pass: PassId,
    name: &str,
    [x, y, z]: [u32; 3],
    time: Range<i64>,
) {
    let kernel = session.kernel(name, "");
    let (gpu, process) = (session.gpu(pass, 0), session.process(pass, 1, 1));
    let (grid, block) = (Dim3 { x, y, z }, Dim3 { x: 384, y: 1, z: 1 });
    let launch = super::launch(pass, kernel, time);
    session.launches.push(Launch {
        gpu,
        process,
        grid,
        block,
        ..launch
    });
}

/// A timeline of 1000 ns of GPU time. `add` and the product were profiled with grid 2x64, `sort` was not.
/// Of the product's two launches on that grid one lasts as long as the profiled one, the other four times as long.
pub fn session() -> Session {
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
