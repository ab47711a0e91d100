//! The drift of small sessions.

#![allow(clippy::unwrap_used)]

use rooflens_schemas::{PassKind, StageKind};

use super::*;
use crate::analysis::engine::facts::{Facts, Stage, StageInstance};
use crate::analysis::engine::stage_stats::summarize;
use crate::analysis::test_session::range;
use crate::analysis::{Options, Results};
use crate::hardware::Hardware;
use crate::model::{ProcessId, Session};

/// What `look` sees of a stage whose instances have these times on the GPU; the first `left_out` do not count.
/// Ranges of these names and lengths begin every 1000 ns, as instances do.
pub(crate) fn look<T>(
    times: &[Ns],
    left_out: usize,
    ranges: &[(&str, Ns)],
    look: impl Fn(&Context<'_>) -> T,
) -> T {
    let mut session = Session::default();
    let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
    let process = session.process(pass, 0, 1);
    session.thread(process, 1);
    session.gpu(pass, 0);
    for (n, (name, length)) in ranges.iter().enumerate() {
        let (name, start) = (session.intern(name), n as Ns * 1_000);
        session.ranges.push(range(pass, name, start..start + length));
    }
    let instance = |(n, time): (usize, &Ns)| StageInstance {
        process: ProcessId(0),
        ordinal: n as u32,
        host_start: n as Ns * 1_000,
        host_end: n as Ns * 1_000 + 7,
        projection: Some((0, *time)),
        excluded: (n < left_out).then(|| "warm-up".to_owned()),
        ..StageInstance::default()
    };
    let mut facts = Facts {
        stages: vec![Stage {
            pass,
            name: "decode_step".to_owned(),
            kind: StageKind::DecodeStep,
            parent: None,
            instances: 0..times.len(),
        }],
        instances: times.iter().enumerate().map(instance).collect(),
        ..Facts::default()
    };
    facts.summaries = summarize(&facts);
    let (hardware, options) = (Hardware::default(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    look(&context.with(&Results::some(&context, &["drift"])))
}

fn series(times: &[Ns], left_out: usize, ranges: &[(&str, Ns)]) -> Vec<Series> {
    look(times, left_out, ranges, |context| compute(context).unwrap().series)
}

#[test]
fn a_steady_rise_is_a_drift_from_the_first_to_the_last_third() {
    // One left out, then 100, 110, …, 190: slope 10. Thirds: median of 100, 110, 120 and of 170, 180, 190.
    let times: Vec<Ns> = [9_999].into_iter().chain((0..10).map(|n| 100 + 10 * n)).collect();
    let found = series(&times, 1, &[]).remove(0);
    assert_eq!(found.drift, Some(180.0 / 110.0 - 1.0));
    assert_eq!((found.instances.len(), found.left_out.len()), (10, 1));
    let trend = found.trend.unwrap();
    assert_eq!((found.thirds, trend.slope), (Some((110.0, 180.0)), 10.0));
    // All 45 pairs rise: (45 − 1) ÷ √(10 · 9 · 25 ÷ 18) = 44 ÷ √125.
    assert_eq!(trend.z, 44.0 / 125.0_f64.sqrt());
    assert_eq!((found.direction(), found.outliers.len()), (Some(Direction::Rises), 0));
}

#[test]
fn ranges_of_the_warm_up_are_left_out_as_stages_are() {
    // Two instances of the stage are left out: the third begins at 2000. Ranges begin at 0, 1000 and so on and last 50:
    // those at 0 and 1000 end before. Of the others the first lasts 900; the rest 50 to 52.
    let lengths = [50, 50, 900, 50, 51, 50, 52, 50, 51, 50];
    let ranges: Vec<(&str, Ns)> = lengths.iter().map(|length| ("step", *length)).collect();
    let found = series(&[5, 5, 6, 7, 5, 6], 2, &ranges).pop().unwrap();
    assert!(matches!(found.subject, Subject::Range(_)));
    assert_eq!((found.instances.len(), found.left_out.len()), (7, 3));
    assert_eq!(found.longest(), Some(&Instance { number: 6, time: 52, host: 52 }));
    // Without a warm-up nothing but the cold start is left out.
    let found = series(&[5, 5, 6, 7, 5, 6], 0, &ranges).pop().unwrap();
    let left_out = found.left_out.len();
    assert_eq!((found.instances.len(), left_out), (10, 0), "the slow one is not the first");
}
