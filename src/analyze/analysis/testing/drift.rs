//! A stage whose iterations take given times.

use rooflens_schemas::{PassKind, StageKind};

use super::range;
use crate::engine::facts::{Exclusion, Facts, Stage, StageInstance};
use crate::engine::stage_stats::summarize;
use crate::{Context, Options, Results};
use rooflens_hardware::Hardware;
use rooflens_session::{Ns, ProcessId, Session};
use rooflens_stages::StageTables;

/// What `look` sees of a stage whose instances have these times on the GPU; the first `left_out` do not count.
/// Ranges of these names and lengths begin every 1000 ns, as instances do.
pub fn look<T>(
    times: &[i64],
    left_out: usize,
    ranges: &[(&str, i64)],
    look: impl Fn(&Context<'_>) -> T,
) -> T {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let process = session.process(pass, 0, 1);
    session.thread(process, 1);
    session.gpu(pass, 0);
    for (n, (name, length)) in ranges.iter().enumerate() {
        let (name, start) = (session.intern(name), n as i64 * 1_000);
        session
            .ranges
            .push(range(pass, name, start..start + length));
    }
    let instance = |(n, time): (usize, &i64)| StageInstance {
        process: ProcessId(0),
        ordinal: n as u32,
        host_start: Ns(n as i64 * 1_000),
        host_end: Ns(n as i64 * 1_000 + 7),
        projection: Some((Ns::ZERO, Ns(*time))),
        excluded: (n < left_out).then_some(Exclusion::DeclaredWarmup),
        ..StageInstance::default()
    };
    let tables = StageTables {
        stages: vec![Stage {
            pass,
            name: "decode_step".to_owned(),
            kind: StageKind::DecodeStep,
            parent: None,
            instances: 0..times.len(),
        }],
        instances: times.iter().enumerate().map(instance).collect(),
        ..StageTables::default()
    };
    let mut facts = Facts {
        tables,
        ..Facts::default()
    };
    facts.summaries = summarize(&facts);
    let (hardware, options) = (Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    look(&context.with(&Results::some(&context, &["drift"])))
}
