//! What runs at once on one GPU.

use rooflens_schemas::PassKind;

use super::{copy, launch};
use rooflens_session::{Copy, Launch, Session};

pub const GEMM: &str = "nvjet_tst_128x64_64x11_1x2_h_bz_TNT";

/// One pass on one GPU: kernels by stream, name, start and end, and copies by stream, start and end.
pub fn session_of(launches: &[(u64, &str, i64, i64)], copies: &[(u64, i64, i64)]) -> Session {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let (process, gpu) = (session.process(pass, 0, 1), session.gpu(pass, 0));
    for (stream, name, start, end) in launches {
        let launch = launch(pass, session.kernel(name, ""), *start..*end);
        session.launches.push(Launch {
            process,
            gpu,
            stream: *stream,
            ..launch
        });
    }
    for (stream, start, end) in copies {
        let copy = copy(pass, 1, *start..*end);
        session.copies.push(Copy {
            process,
            gpu,
            stream: *stream,
            ..copy
        });
    }
    session
}
