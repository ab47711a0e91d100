//! Rules about copies, collectives and ranks.

use super::*;
use rooflens_analysis::Missing;
use rooflens_analysis::communication::calls::{Member, Run};
use rooflens_analysis::communication::lines::RankTimes;
use rooflens_analysis::communication::speed::Speed;
use rooflens_analysis::communication::straggler::Imbalance;
use rooflens_analysis::communication::work::WorkDifference;
use rooflens_analysis::communication::{Communication, Ranks};
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::memory::transfers::link::Link;
use rooflens_analysis::system::power::Power;
use rooflens_analysis::system::power::reasons::POWER_CAP;
use rooflens_analysis::system::power::samples::{ClockLimit, Device};
use rooflens_analysis::time::upper_bounds::{Overhead, StageBounds, UpperBound, UpperBounds};
use rooflens_session::CopyKind::{self, DeviceToHost, HostToDevice};
use rooflens_session::MemoryKind::{Pageable, Pinned, Unknown};
use rooflens_session::Ns;
use rooflens_units::{BytesPerSecond, Hertz, Watts};

/// Copies to the GPU from pinned memory in a stage of 1000 ns.
fn copying(exposed: i64) -> Made {
    decode().copies(&[(HostToDevice, Pinned, 8, exposed, exposed)])
}

#[test]
fn work_that_nothing_hides_is_said() {
    let could_save = |rule: &Rule, holds: Made, expected: f64, below: Made| {
        let found = holds.one(rule);
        assert!((saved(&found) - expected).abs() < 1e-9, "{}", rule.id);
        assert!(
            (found.weight_ns.0 - 10.0 * expected).abs() < 1e-9,
            "{}",
            rule.id
        );
        assert!(found.advice.is_some(), "{}", rule.id);
        assert_eq!(below.outcome(rule), Outcome::PASSED, "{}", rule.id);
    };
    // Without 60 of 1000 ns the stage would take 940 ns.
    let mut bounded = copying(70);
    let bound = UpperBound {
        overhead: Overhead::Copies,
        time: Time(1000.0),
        new_time: Time(940.0),
    };
    let bounds = Overhead::ALL.map(|what| match what {
        Overhead::Copies => Ok(bound),
        _ => Err(Missing("")),
    });
    let stages = vec![StageBounds {
        summary: bounded.last_summary(),
        bounds,
    }];
    bounded.known.upper_bounds = Ok(UpperBounds { stages });
    could_save(rule("exposed-copies"), bounded, 60.0, copying(49));
    let talking = |exposed| decode().collectives(exposed, None);
    could_save(
        rule("exposed-communication"),
        talking(50.0),
        50.0,
        talking(49.0),
    );
    // Half of the bytes are pageable, and these copies are exposed for 90 ns.
    let mixed = |time: i64| {
        let half = |host, time| (HostToDevice, host, 1600, time, time * 9 / 10);
        decode().copies(&[half(Pageable, time / 2), half(Pinned, time - time / 2)])
    };
    could_save(rule("pageable-copies"), mixed(200), 90.0, mixed(9));
    // A link of 40 GB/s takes 40 ns for 1600 bytes: 50 ns go, and 25 ns of waiting in blocking copies.
    let mut linked = mixed(200).idle(Cause::Copy, 25.0);
    linked.known.transfers.as_mut().unwrap().link = Some(Link {
        generation: 4,
        lanes: 20,
        peak: BytesPerSecond(40e9),
    });
    let gain = linked.one(rule("pageable-copies")).gain.unwrap();
    assert!((gain.saved_ns.0 - 75.0).abs() < 1e-6, "{gain:?}");
    assert!(gain.basis.contains("waits=25.0 ns"), "{}", gain.basis);
    // A large pinned copy in the bundle ran at 64 GB/s: 25 ns for 1600 bytes.
    let places = &mut linked.known.transfers.as_mut().unwrap().places;
    let pinned = (HostToDevice, Pinned, Pinned);
    places[0].sums.kinds.get_mut(&pinned).unwrap().large = vec![10e9, 64e9];
    let found = linked.one(rule("pageable-copies"));
    assert!((saved(&found) - 90.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn migrations_of_managed_memory_are_named() {
    let made = |kind| {
        decode()
            .copies(&[(kind, Unknown, 8, 70, 70)])
            .one(rule("exposed-copies"))
    };
    for kind in [CopyKind::MigrateToDevice, CopyKind::MigrateToHost] {
        let found = made(kind);
        let root = found.root.unwrap();
        let is_managed = root.action.contains("exposed_copies.root_action_managed");
        assert!(is_managed, "{root:?}");
        let advice = words(&found.advice.unwrap());
        assert!(advice.contains("exposed_copies.advice_managed"), "{advice}");
    }
    let advice = words(&made(CopyKind::DeviceToDevice).advice.unwrap());
    assert!(advice.contains("exposed_copies.advice_on_gpu"), "{advice}");
}

/// The CPU works for 300 of 1000 ns, and its migrations take 70: both go where the GPU does that work.
#[test]
fn work_of_the_cpu_on_managed_memory_belongs_on_the_gpu() {
    let mut made = decode().idle(Cause::HostCode, 300.0);
    made.last().busy = Time(700.0);
    let made = made.copies(&[(CopyKind::MigrateToHost, Unknown, 16, 70, 70)]);
    let found = made.one(rule("host-bound"));
    let root = found.root.unwrap();
    assert!(
        root.action.contains("host_bound.root_action_managed"),
        "{root:?}"
    );
    assert_eq!(found.gain.unwrap().saved_ns, Time(370.0));
}

#[test]
fn waiting_for_a_rank_is_told_from_sending() {
    let made = |wait| {
        decode()
            .collectives(100.0, Some(wait))
            .one(rule("exposed-communication"))
    };
    let found = made(60.0);
    assert!(words(&found.statement).contains("stage=decode, share=10.0 %, wait=60.0 %"));
    assert!(words(&found.advice.unwrap()).contains("exposed_communication.advice_wait"));
    let sending = words(&made(40.0).advice.unwrap());
    // Nothing says that DDP ran.
    assert_eq!(sending, "exposed_communication.advice");
}

/// The host works for 970 of 1000 ns: of 50 ns of communication 30 can go, and 20 all.
#[test]
fn communication_saves_no_work_of_the_host() {
    let mut stage = decode().stages.remove(0);
    stage.beyond_host = Time(30.0);
    let gain = |saved| stage.saving_behind_host(Time(saved)).gain.unwrap();
    assert_eq!(gain(50.0).saved_ns, Time(30.0));
    assert!(gain(50.0).basis.contains("findings.host_stays"));
    assert_eq!(gain(20.0).saved_ns, Time(20.0));
    assert!(!gain(20.0).basis.contains("findings.host_stays"));
}

#[test]
fn one_rank_has_no_straggler_and_no_collectives() {
    let alone = || decode().work_of(KernelClass::Gemm, 100);
    for id in ["exposed-communication", "straggler"] {
        assert_eq!(silent(alone().outcome(rule(id))).0, "not applicable");
    }
    // One rank of several, or kernels that are not seen.
    let of_several = alone().collectives(1.0, None);
    let hidden = decode().work_of(KernelClass::Graph, 90);
    assert_eq!(silent(of_several.outcome(rule("straggler"))).0, "abstained");
    for rule in [rule("straggler"), rule("exposed-communication")] {
        assert_eq!(silent(hidden.outcome(rule)).0, "abstained");
    }
}

/// Two ranks that compute for 600 and 900 ns of 1000, the latter so many times the mean, on a GPU of this speed.
fn ranks(ratio: f64, speed: Speed) -> Made {
    let mut made = Made::default();
    for rank in [0, 1] {
        made = made.stage("step", StageKind::TrainStep, 1000.0, 20_000.0);
        let stage = made.stages.last_mut().unwrap();
        (stage.stage, stage.process, stage.scope.rank) = (0, ProcessId(rank), Some(rank));
    }
    let line = |rank: u32, compute: f64| RankTimes {
        member: rank as usize,
        rank,
        stage: Some(0),
        time: Time(1000.0),
        compute: Time(compute),
        ..RankTimes::default()
    };
    let member = |rank| Member {
        process: ProcessId(rank),
        rank,
        ..Member::default()
    };
    let times = Imbalance {
        ranks: 2,
        slowest: 1,
        fastest: 0,
        most: Time(900.0),
        least: Time(600.0),
        mean: Time(900.0 / ratio),
        work: None,
    };
    let run = Run {
        members: vec![member(0), member(1)],
        ..Run::default()
    };
    let lines = vec![
        line(0, 600.0),
        RankTimes {
            speed,
            ..line(1, 900.0)
        },
    ];
    let ranks = Ranks {
        run,
        lines,
        imbalances: vec![times],
        ..Ranks::default()
    };
    made.known.communication = Ok(Communication { runs: vec![ranks] });
    made
}

#[test]
fn a_straggler_could_save_what_it_computes_beyond_the_fastest() {
    // Ranks compute 600 and 900 ns: mean 750, 900 / 750 = 1.2; 300 ns beyond the fastest.
    let found = ranks(1.2, Speed::default()).one(rule("straggler"));
    assert_eq!(found.title, "straggler.title{stage=step, rank=1}");
    assert!((saved(&found) - 300.0).abs() < 1e-9);
    assert_eq!(found.scope.rank, Some(1));
    assert_eq!(
        ranks(1.04, Speed::default()).outcome(rule("straggler")),
        Outcome::PASSED
    );
    assert!(found.next.is_some());
    // Half of the slowdown by the clock makes it the reason, less does not: the kernels take 1.5 times as long.
    let clocks = |share: f64| {
        let speed = Speed {
            slowdown: Some(Ratio(1.5)),
            clock: Some(Hertz(1.5e9)),
            clock_ratio: Some(Ratio(1.0 + 0.5 * share)),
            limit: Some(("sw_power_cap", Ratio(0.75))),
            other_limit: None,
            power: (Some(Watts(698.0)), Some(Watts(507.0))),
            gpu: Some(1),
        };
        ranks(1.2, speed).one(rule("straggler"))
    };
    let said = words(&clocks(0.5).statement);
    assert!(
        said.contains("clock=1.50 GHz, fastest=1.88 GHz, share=50.0 %"),
        "{said}"
    );
    assert!(
        said.contains("limit=sw_power_cap, samples=75.0 %"),
        "{said}"
    );
    assert!(words(&clocks(0.5).advice.unwrap()).contains("straggler.advice_clock"));
    assert!(said.contains("power=698 W, other_power=507 W"), "{said}");
    assert!(!words(&clocks(0.49).statement).contains("GHz"));
    // 900 against 600 ns.
    assert!(
        words(&found.statement)
            .starts_with("straggler.statement{stage=step, rank=1, most=900 ns, least=600 ns, longer=50.0 %, other=0"),
        "{:?}",
        found.statement
    );
}

#[test]
fn a_straggler_has_its_work_and_its_clock_in_one_finding() {
    // 10 240 against 8192 rows are 25 % more: shared out, each rank computes for the mean of 750 ns.
    let mut more = ranks(1.2, Speed::default());
    let times = &mut more.known.communication.as_mut().unwrap().runs[0].imbalances[0];
    times.work = Some(WorkDifference {
        flops: Some(Ratio(1.25)),
        rows: Some((10_240, 8192)),
        operations: (Count(9.0), Count(9.0)),
    });
    let found = more.one(rule("straggler"));
    assert!((saved(&found) - 150.0).abs() < 1e-9);
    let said = words(&found.statement);
    let [own, other] = [10_240, 8192].map(rooflens_document::Quantity::count);
    let rows = format!("more=25.0 %, rows={own}, other_rows={other}}}");
    assert!(said.ends_with(&rows), "{said}");
    assert!(words(&found.advice.unwrap()).starts_with("straggler.advice_work{"));
    // The same limit of the same GPU is reported once.
    let speed = Speed {
        slowdown: Some(Ratio(1.5)),
        clock: Some(Hertz(1e9)),
        clock_ratio: Some(Ratio(1.5)),
        limit: Some(("sw_power_cap", Ratio(1.0))),
        other_limit: None,
        power: (None, None),
        gpu: Some(1),
    };
    let mut both = ranks(1.2, speed);
    let cap = |index| {
        let limit = ClockLimit {
            reason: POWER_CAP,
            busy_share: Some(Ratio(0.9)),
            busy_clock: (Some(Hertz(1e9)), Some(Hertz(2e9))),
            ..ClockLimit::default()
        };
        Device {
            index,
            busy: Some(Time(100.0)),
            limits: vec![limit],
            ..Device::default()
        }
    };
    both.known.power = Ok(Power {
        devices: vec![cap(1)],
        ..Power::default()
    });
    assert_eq!(
        silent(both.outcome(rule("clock-limits"))).0,
        "not applicable"
    );
    both.known.power.as_mut().unwrap().devices.push(cap(0));
    assert_eq!(both.one(rule("clock-limits")).scope.gpu, Some(0));
}

/// A limit of both GPUs does not say which of GPU and data lowers the clock: swapping the ranks is an experiment.
#[test]
fn a_clock_that_no_limit_explains_saves_nothing_for_sure() {
    let speed = |other_limit| Speed {
        slowdown: Some(Ratio(1.5)),
        clock: Some(Hertz(1e9)),
        clock_ratio: Some(Ratio(1.5)),
        limit: Some(("sw_power_cap", Ratio(1.0))),
        other_limit: Some(Ratio(other_limit)),
        power: (None, None),
        gpu: Some(1),
    };
    let has_gain = |other_limit| {
        let found = ranks(1.2, speed(other_limit)).one(rule("straggler"));
        found.gain.is_some()
    };
    assert!(has_gain(0.1));
    assert!(!has_gain(0.9));
}

#[test]
fn a_stage_without_copies_is_clear_of_them() {
    let rules = [rule("exposed-copies"), rule("pageable-copies")];
    let none = || decode().work_of(KernelClass::Gemm, 100);
    assert!(
        rules
            .iter()
            .all(|rule| none().outcome(rule) == Outcome::PASSED)
    );
    // Whole graphs may hide some; and a copy from the host of which the memory is not recorded says nothing.
    let whole = decode().work_of(KernelClass::Graph, 10);
    assert!(
        rules
            .iter()
            .all(|rule| silent(whole.outcome(rule)).0 == "abstained")
    );
    let unrecorded = none().copies(&[(HostToDevice, Unknown, 8, 0, 0)]);
    assert_eq!(silent(unrecorded.outcome(rules[1])).0, "abstained");
}

/// Of ten iterations of 1000 ns one has 6000 ns of exposed copies: 60.0 % of all, and none of the median one.
#[test]
fn copies_in_few_iterations_are_not_clear() {
    let mut made = decode().copies(&[(HostToDevice, Pinned, 8, 6000, 6000)]);
    let place = &mut made.known.transfers.as_mut().unwrap().places[0];
    place.instances.extend(vec![Default::default(); 9]);
    let (word, why) = silent(made.outcome(rule("exposed-copies")));
    assert_eq!(
        (word, why.as_str()),
        ("not applicable", "decode: exposed_copies.few{share=60.0 %}")
    );
}

#[test]
fn advice_about_copies_is_what_the_figures_leave_to_try() {
    // Copies alone for 700 of 1000 ns, in both directions or one, or within the GPU; the GPU is busy for 700 ns +
    // kernels.
    let advice = |busy: f64, to: i64, from: i64, pageable: u64| {
        let within = 700 - to - from;
        let made = decode().busy(busy).copies(&[
            (HostToDevice, Pageable, pageable, 0, 0),
            (HostToDevice, Pinned, 100 - pageable, to, to),
            (DeviceToHost, Pinned, 0, from, from),
            (
                rooflens_session::CopyKind::DeviceToDevice,
                Unknown,
                0,
                within,
                within,
            ),
        ]);
        words(&made.one(rule("exposed-copies")).advice.unwrap())
    };
    // Kernels of 200 ns could hide some; 139 of 700 ns are no second direction; pinned memory is used.
    let one = advice(0.9, 561, 139, 0);
    assert!(
        one.contains("advice_stream")
            && !one.contains("advice_directions")
            && !one.contains("advice_pinned")
    );
    // Kernels of 50 ns hide nothing, 140 of 700 ns are a second direction, a tenth is pageable.
    let other = advice(0.75, 560, 140, 10);
    assert!(
        !other.contains("advice_stream") && other.contains("advice_directions"),
        "{other}"
    );
    assert!(
        other.contains("advice_pinned") && other.contains("pageable=10.0 %"),
        "{other}"
    );
    assert!(advice(0.9, 200, 100, 0).contains("exposed_copies.advice_on_gpu"));
}

/// A kernel waits for pages from 20 to 50 µs, and 590 µs later for one of 1 µs; the CPU touches one 20 µs after the kernel. No
/// call issues them.
#[test]
fn pages_of_managed_memory_belong_to_the_kernel_or_to_the_time_of_the_host() {
    let mut session = trace(
        "range step 0..900us
         launch 0..1 -> axpy 10us..800us
         cudaMemcpyAsync 2..3 -> memcpy HtoD pinned 20us..25us
         cudaMemcpyAsync 4..5 -> memcpy HtoD pinned 40us..50us
         cudaMemcpyAsync 6..7 -> memcpy HtoD pinned 640us..641us
         cudaMemcpyAsync 8..9 -> memcpy DtoH pinned 820us..830us",
    );
    let (to_device, to_host) = (CopyKind::MigrateToDevice, CopyKind::MigrateToHost);
    session.copies.kind = vec![to_device, to_device, to_device, to_host];
    session.copies.correlation = vec![None; 4];
    rooflens_analysis::testing::with_results(&session, |context| {
        let step = &context.results.transfers().unwrap().places[1];
        let kernels: Vec<Time> = step.faulting_of_each().map(|(_, time)| time).collect();
        assert_eq!(kernels, [Time(31e3)]);
        assert_eq!(step.exposed(Some(to_host)), Time(10e3));
        let idle = &context.results.idle().unwrap().lines[0];
        assert_eq!(idle.of(Cause::HostCode), Ns(20_000));
    });
}
