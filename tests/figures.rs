//! Stage figures of the fixtures against figures that were derived outside of this program: SQL over the
//! raw exports and interval arithmetic in another language, with GPU operations = kernels, copies and
//! memsets whose API call starts inside the range on the same thread.

use std::path::PathBuf;

use rooflens::analysis::engine::facts::StageInstance;
use rooflens::analysis::{self, Context, Facts, Options};
use rooflens::diagnostic::Diagnostics;
use rooflens::hardware::Hardware;
use rooflens::model::Session;
use rooflens::{bundle, ingest};

fn read(fixture: &str) -> (Session, Facts) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    // Other artifacts do not matter here and cost time.
    bundle.files.retain(|file| file.path.ends_with(".sqlite.zst") || file.path.ends_with(".toml"));
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    let facts = Facts::new(&session);
    (session, facts)
}

fn instances<'a>(
    (session, facts): &'a (Session, Facts),
    pass: &str,
    stage: &str,
) -> Vec<&'a StageInstance> {
    let stage = facts
        .stages
        .iter()
        .find(|one| {
            session.text(session.passes.name[one.pass.index()]) == pass && one.name == stage
        })
        .expect("the stage is found");
    facts.instances_of(stage).iter().collect()
}

/// Operations, projection and busy time in nanoseconds of the last instances.
fn last<const N: usize>(instances: &[&StageInstance]) -> [(usize, i64, i64); N] {
    let tail = &instances[instances.len() - N..];
    std::array::from_fn(|at| {
        let one = tail[at];
        (one.ops.len(), one.time().expect("it has operations"), one.busy)
    })
}

#[test]
fn llama_8b() {
    let read = read("h200-llama-8b");
    let prefill = instances(&read, "nsys", "prefill");
    let expected = [(1495, 222_824_165, 220_045_472), (1495, 224_366_632, 221_504_801)];
    assert_eq!(last(&prefill), expected);
    let kernels = |one: &StageInstance| {
        one.ops.iter().filter(|op| read.1.kernel(&read.0, **op).is_some()).count()
    };
    assert_eq!(kernels(prefill[4]), 1302);
    let decode = instances(&read, "nsys", "decode");
    let expected = [(23_920, 469_467_639, 123_693_913), (23_920, 389_860_846, 123_961_044)];
    assert_eq!(last(&decode), expected);
    let shares: Vec<String> = decode[3..]
        .iter()
        .map(|one| format!("{:.2}", 100.0 * one.busy_share().expect("it has operations")))
        .collect();
    assert_eq!(shares, ["26.35", "31.80"]);
    assert_eq!(
        decode.iter().map(|one| one.steps).collect::<Vec<_>>(),
        [Some(2), Some(2), Some(16), Some(16), Some(16)]
    );
    assert_eq!(read.0.launches.len(), 84_868);
    assert!(read.1.ops.api_call.iter().all(Option::is_some), "every operation has its API call");
}

#[test]
fn qwen_half_b() {
    let read = read("h200-qwen-0.5b");
    let decode = instances(&read, "nsys", "decode");
    let expected = [(32_256, 658_568_614, 66_405_122), (32_256, 636_986_461, 66_378_839)];
    assert_eq!(last(&decode), expected);
}

#[test]
fn cuda_graph_traced_by_node() {
    let read = read("h200-cuda-graph");
    let time = |stage: &str| -> Vec<(usize, i64, i64)> {
        let all = instances(&read, "nsys-node", stage);
        all.iter().map(|one| (one.ops.len(), one.time().expect("operations"), one.busy)).collect()
    };
    assert_eq!(time("decode"), [(1760, 13_618_956, 13_359_408)]);
    assert_eq!((time("eager")[0].0, time("eager")[0].2), (88, 672_803));
    assert_eq!(time("offload"), [(360, 12_499_977, 12_385_212)]);
}

#[test]
fn llama_1b_gated_decode() {
    let read = read("h200-llama-1b");
    let decode = instances(&read, "nsys-gated-decode", "decode");
    assert_eq!(last(&decode), [(1390, 121_055_031, 4_201_231)]);
}

#[test]
fn ddp_forward_of_both_ranks() {
    let read = read("h200x2-ddp");
    let forward = instances(&read, "nsys", "forward");
    let of = |process: u32| -> Vec<&StageInstance> {
        forward.iter().filter(|one| one.process.0 == process).copied().collect()
    };
    // Which process came first in the file does not matter.
    let mut lasts = [last::<1>(&of(0))[0], last::<1>(&of(1))[0]];
    lasts.sort();
    assert_eq!(lasts, [(220, 20_489_019, 20_105_820), (220, 27_059_593, 26_666_218)]);
}

#[test]
fn ddp_backward_is_attributed_across_threads() {
    let read = read("h200x2-ddp");
    for one in instances(&read, "nsys", "backward") {
        // One operation is issued by the thread that opened the range, all others by the autograd thread.
        assert_eq!(one.ops.len() - one.inferred as usize, 1);
        assert!(one.ops.len() > 800);
    }
}

/// Loops of 2 steps are no instances of a stage whose loops have 16, also where nobody says so.
#[test]
fn loops_of_another_length_do_not_count() {
    let (mut session, _) = read("h200-llama-8b");
    session.workload = rooflens_schemas::Workload::default();
    let facts = Facts::new(&session);
    let both = (session, facts);
    let excluded: Vec<bool> =
        instances(&both, "nsys", "decode").iter().map(|one| one.excluded.is_some()).collect();
    assert_eq!(excluded, [true, true, false, false, false]);
}

/// Busy + idle = projection, and no instance is busier than its projection, on every fixture.
#[test]
fn busy_never_exceeds_projection() {
    for fixture in
        ["h200-llama-8b", "h200-qwen-0.5b", "h200-cuda-graph", "h200-llama-1b", "h200x2-ddp"]
    {
        let (_, facts) = read(fixture);
        for one in facts.instances.iter().filter(|one| one.projection.is_some()) {
            let available = one.time().expect("projection") * one.gpus.len() as i64;
            assert!(0 <= one.busy && one.busy <= available, "{fixture}: {one:?}");
            assert!(one.busy <= one.sum);
        }
    }
}

/// Metrics of profiled launches against sums in Python over the exported raw pages, whose waves were taken as
/// blocks ÷ (132 SMs × least limit). The report of `ncu-decode` is read itself, the pages of it are not.
#[test]
fn llama_1b_profiled_launches() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/h200-llama-1b");
    let mut diagnostics = Diagnostics::default();
    let mut bundle = bundle::open(&[path], &mut diagnostics).expect("the fixture opens");
    bundle.files.retain(|file| file.pass.starts_with("ncu-"));
    ingest::identify(&mut bundle, &mut diagnostics);
    let session = ingest::import(&bundle, &mut diagnostics, &mut |_| {});
    assert_eq!(session.kernel_profiles.len(), 90);
    let (facts, hardware, options) =
        (Facts::new(&session), Hardware::builtin(), Options::default());
    let context = Context::new(&session, &facts, &hardware, &options);
    let metrics: Vec<_> =
        analysis::run(&context).into_iter().flat_map(|(_, findings)| findings.metrics).collect();
    for (pass, id, expected) in [
        ("ncu-decode", "profiled_occupancy", 0.132_910),
        ("ncu-decode", "profiled_no_eligible", 0.876_475),
        ("ncu-decode", "profiled_tensor_pipe", 0.003_536),
        ("ncu-decode", "profiled_tail", 0.838_751),
        ("ncu-prefill", "profiled_occupancy", 0.506_334),
        ("ncu-prefill", "profiled_no_eligible", 0.621_846),
        ("ncu-prefill", "profiled_tensor_pipe", 0.139_414),
        ("ncu-prefill", "profiled_tail", 0.160_587),
    ] {
        let metric = metrics.iter().find(|m| m.id == id && m.scope.pass.as_deref() == Some(pass));
        let found = metric.and_then(|metric| metric.value.number()).expect("a number");
        assert!((found - expected).abs() < 1e-6, "{pass} {id}: {found}, expected {expected}");
    }
}
