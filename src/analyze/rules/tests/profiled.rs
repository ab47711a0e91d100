//! Rules about profiled kernels.

use rooflens_units::{Bytes, Ns, Percent, Ratio, Seconds, Time};
use std::collections::BTreeMap;

use super::*;
use crate::profiled;
use rooflens_analysis::counters::details;
use rooflens_analysis::counters::limits;
use rooflens_analysis::counters::ncu::bound::Bound;
use rooflens_analysis::counters::ncu::{self, KernelCounters, Levels, SpeedOfLight};
use rooflens_analysis::counters::ncu_kernels::{self, BoundSum, PassBounds};
use rooflens_analysis::counters::represent::matching::{
    Group, Line, MatchedKernel, Matching, Tier,
};
use rooflens_analysis::counters::represent::{self, Gap, Sums};
use rooflens_analysis::counters::roofline::workload;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::engine::kernel_names::How;
use rooflens_analysis::kernels::matmul::roof::{Roof, Sum};
use rooflens_analysis::kernels::matmul::stages::{Group as Products, StageProducts};
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::testing::counters::{count, profile};
use rooflens_document::GainKind;
use rooflens_session::KernelId;

/// A profiled launch of `decode`: its share of the GPU time, ratio to the median, and what counters say.
struct Launch {
    kernel: &'static str,
    share: f64,
    ratio: f64,
    class: KernelClass,
    /// Use of the SMs and of DRAM, percent.
    sol: (f64, f64),
    waves: f64,
    /// What allows one block an SM.
    limit: &'static str,
    occupancy: f64,
    l2_hits: f64,
    dram_bytes: f64,
}

const LAUNCH: Launch = Launch {
    kernel: "k",
    share: 0.2,
    ratio: 1.0,
    class: KernelClass::Elementwise,
    sol: LATENCY_BOUND,
    waves: 1.0,
    limit: "launch__occupancy_limit_warps",
    occupancy: 100.0,
    l2_hits: 60.0,
    dram_bytes: 10.0,
};

const LATENCY_BOUND: (f64, f64) = (5.0, 5.0);
const COMPUTE_BOUND: (f64, f64) = (80.0, 5.0);
const DRAM_BOUND: (f64, f64) = (5.0, 80.0);

/// Time of the GPU operations of all instances of `decode`, nanoseconds.
const TIME: f64 = 1e6;

/// A stage of 1000 ns with 500 ns of GPU operations and these launches in the pass `ncu`, which represent 70 %.
fn made(launches: &[Launch]) -> Made {
    covering(launches, 0.7)
}

fn covering(launches: &[Launch], share: f64) -> Made {
    let mut made = decode().summary(|summary| summary.sum = Time(500.0));
    let pass = made
        .session
        .add_pass("ncu", PassKind::Counters, "ncu/raw.csv");
    let (mut groups, mut kernels) = (Vec::<Group>::new(), Vec::new());
    for one in launches {
        let id = profile(&mut made.session, pass, one.kernel);
        count(&mut made.session, id, ("", one.limit, "block", 1.0));
        let kernel = made.kernel(one.kernel, one.identity());
        kernels.push(MatchedKernel {
            how: How::Exact,
            kernel: Some(kernel),
            stages: vec![0],
        });
        let row = made.session.kernel_profiles.row(id);
        let (time, from, durations) = (ns(one.share), vec![id], vec![Ns(1000)]);
        let (grid, block, tier) = (row.grid, row.block, Some(Tier::Stage));
        match groups
            .iter_mut()
            .find(|own| (own.kernel, own.time) == (kernel, time))
        {
            Some(own) => own.from.push(id),
            None => groups.push(Group {
                kernel,
                grid,
                block,
                launches: 1,
                time,
                durations,
                tier,
                from,
            }),
        }
    }
    let time = ns(share) - groups.iter().map(|group| group.time).sum::<Ns>();
    groups.push(Group {
        time,
        tier: Some(Tier::Stage),
        ..Group::default()
    });
    let line = Line {
        summary: made.last_summary(),
        gpus: 1,
        time: ns(1.0),
        groups,
    };
    made.known.matching = Ok(Matching {
        pass: PassId(0),
        kernels,
        lines: vec![line],
    });
    made.counted(launches)
}

fn ns(share: f64) -> Ns {
    Time(share * TIME).round()
}

impl Made {
    /// A kernel of which no more than the name is known.
    fn named(&mut self, name: &str) -> KernelId {
        self.kernel(
            name,
            KernelIdentity {
                short: name.to_owned(),
                ..KernelIdentity::default()
            },
        )
    }

    /// What the counters of these launches come to.
    fn counted(mut self, launches: &[Launch]) -> Self {
        let Self {
            session,
            facts,
            hardware,
            options,
            known,
            ..
        } = &mut self;
        let context = Context::new(session, facts, hardware, options);
        let mut counters = ncu::compute(&context).unwrap();
        let read = counters.launches.iter_mut().zip(launches);
        read.for_each(|(counters, launch)| launch.count(counters));
        known.counters = Ok(counters);
        known.represent = represent::compute(&context.with(known));
        known.workload = workload::compute(&context.with(known));
        known.ncu_kernels = ncu_kernels::compute(&context.with(known));
        known.details = details::compute(&context.with(known));
        known.limits = limits::compute(&context.with(known));
        self
    }
}

impl Launch {
    fn identity(&self) -> KernelIdentity {
        let is_library = self.kernel.starts_with("cudnn");
        KernelIdentity {
            short: self.kernel.to_owned(),
            class: self.class,
            library: if is_library { "cuDNN" } else { "" },
            ..KernelIdentity::default()
        }
    }

    fn count(&self, counters: &mut KernelCounters) {
        counters.identity = self.identity();
        // The median is 1000 ns.
        counters.seconds = Some(Seconds(self.ratio * 1e-6));
        let memory = Levels {
            dram: Some(Percent(self.sol.1)),
            ..Levels::default()
        };
        counters.sol = SpeedOfLight {
            compute: Some(Percent(self.sol.0)),
            memory,
            memory_throughput: None,
        };
        counters.waves = Some(Ratio(self.waves));
        counters.theoretical_occupancy = Some(Percent(self.occupancy));
        counters.l2_hit_rate = Some(Percent(self.l2_hits));
        counters.bytes.dram = Some(Bytes(self.dram_bytes));
    }
}

#[test]
fn small_grids_could_share_the_gpu_with_other_blocks() {
    let small = |share, waves, compute| Launch {
        share,
        waves,
        sol: (compute, 5.0),
        ..LAUNCH
    };
    // 20 % of 500 ns at a quarter of a wave.
    let found = made(&[small(0.2, 0.25, 5.0)]).one(rule("small-grids"));
    assert!((saved(&found) - 75.0).abs() < 1e-9);
    // A launch of 200 µs, which with a full grid takes a quarter.
    assert_eq!(
        words(&found.statement),
        "small_grids.statement{stage=decode, share=20.0 %, kernel=k, blocks=128, threads=384, \
         now=200 µs, least=50.0 µs}"
    );
    // A unit in use for 40 % of its peak cannot give more than the other 60 %.
    let used = made(&[small(0.2, 0.25, 40.0)]).one(rule("small-grids"));
    assert!((saved(&used) - 60.0).abs() < 1e-9);
    let memory = Launch {
        sol: DRAM_BOUND,
        waves: 0.25,
        ..LAUNCH
    };
    // 2.5 % × 0.75 is less than 2 %.
    for clear in [small(0.2, 0.5, 5.0), small(0.025, 0.25, 5.0), memory] {
        assert_eq!(made(&[clear]).outcome(rule("small-grids")), Outcome::PASSED);
    }
}

#[test]
fn launches_that_stand_for_the_same_time_count_once_and_the_nearest_speaks() {
    let far = Launch {
        waves: 0.4,
        ratio: 1.5,
        ..LAUNCH
    };
    let near = Launch {
        waves: 0.2,
        ratio: 0.9,
        ..LAUNCH
    };
    let other = Launch {
        waves: 0.1,
        share: 0.1,
        ..LAUNCH
    };
    // 20 % at 0.2 and 10 % at 0.1 waves, of 500 ns: 80 + 45.
    let found = made(&[far, near, other]).one(rule("small-grids"));
    assert!(
        words(&found.statement)
            .starts_with("small_grids.statement{stage=decode, share=30.0 %, kernel=k, others=1")
    );
    assert!((saved(&found) - 125.0).abs() < 1e-9);
}

#[test]
fn a_last_wave_costs_its_empty_slots() {
    let tail = |waves, sol| Launch {
        waves,
        sol,
        ..LAUNCH
    };
    // 1 − 1.25 ÷ 2 = 37.5 % of 20 % of 500 ns.
    let found = made(&[tail(1.25, COMPUTE_BOUND)]).one(rule("wave-tail"));
    assert!((saved(&found) - 37.5).abs() < 1e-9);
    assert!(words(&found.statement).contains("now=200 µs, least=125 µs"));
    // 2.5 of 3 waves are near the limit; fewer than one wave has no last one; memory does not wait for slots.
    for clear in [
        tail(2.5, COMPUTE_BOUND),
        tail(0.6, LATENCY_BOUND),
        tail(1.25, DRAM_BOUND),
    ] {
        assert_eq!(made(&[clear]).outcome(rule("wave-tail")), Outcome::PASSED);
    }
}

#[test]
fn low_occupancy_is_a_limit_of_registers_or_shared_memory() {
    let limit = "launch__occupancy_limit_registers";
    let low = || Launch {
        limit,
        occupancy: 25.0,
        sol: (40.0, 5.0),
        ..LAUNCH
    };
    // 20 % of 500 ns × (1 − 0.4).
    let found = made(&[low()]).one(rule("low-occupancy"));
    assert!((saved(&found) - 60.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("kernel=k, figure=25.0 %"));
    assert!(words(&found.statement).ends_with("limit=registers}"));
    assert_eq!(words(&found.advice.unwrap()), "low_occupancy.advice");
    let library = made(&[Launch {
        kernel: "cudnn_norm",
        ..low()
    }])
    .one(rule("low-occupancy"));
    let advice = words(&library.advice.unwrap());
    assert_eq!(advice, "low_occupancy.advice_library{library=cuDNN}");
    assert_eq!(
        library.root.unwrap().action,
        "low_occupancy.root_action{kernels=findings.kernels{kernel=cudnn_norm}, limit=registers}"
    );
    for clear in [
        Launch {
            occupancy: 51.0,
            ..low()
        },
        Launch {
            limit: LAUNCH.limit,
            ..low()
        },
        Launch {
            class: KernelClass::Gemm,
            ..low()
        },
        Launch {
            share: 0.03,
            ..low()
        },
        Launch {
            waves: 0.3,
            ..low()
        },
        Launch {
            sol: COMPUTE_BOUND,
            ..low()
        },
    ] {
        assert_eq!(
            made(&[clear]).outcome(rule("low-occupancy")),
            Outcome::PASSED
        );
    }
}

#[test]
fn attention_that_misses_the_cache_reads_more_than_it_must() {
    let attention = || Launch {
        class: KernelClass::Attention,
        sol: DRAM_BOUND,
        l2_hits: 30.0,
        dram_bytes: 400.0,
        ..LAUNCH
    };
    // 10 launches of an instance must move 1000 bytes: 100 each, against 400.
    let sized = |launch| {
        let mut made = made(&[launch]);
        let kernel = made.named("k");
        let mut sum = Sum::default();
        sum.add(
            100,
            Ns(100),
            Ns::ZERO,
            Some(Roof {
                bytes: Some(Bytes(100.0)),
                ..Roof::default()
            }),
        );
        let (summary, groups) = (
            made.last_summary(),
            vec![Products {
                kernel,
                sum,
                ..Products::default()
            }],
        );
        made.known.attention = Ok(vec![StageProducts {
            summary,
            groups,
            ..StageProducts::default()
        }]);
        made
    };
    let found = sized(attention()).one(rule("attention-cache"));
    // 20 % of 500 ns × (1 − 100 ÷ 400).
    assert!((saved(&found) - 75.0).abs() < 1e-9);
    let text = words(&found.statement);
    assert!(
        text.contains("hits=30.0 %, moved=400 B, least=100 B"),
        "{text}"
    );
    for clear in [
        Launch {
            l2_hits: 50.0,
            ..attention()
        },
        Launch {
            dram_bytes: 119.0,
            ..attention()
        },
        Launch {
            share: 0.04,
            ..attention()
        },
        Launch {
            sol: LATENCY_BOUND,
            ..attention()
        },
    ] {
        assert_eq!(
            sized(clear).outcome(rule("attention-cache")),
            Outcome::PASSED
        );
    }
    // Without sizes nothing can be said against the misses.
    assert_eq!(
        silent(made(&[attention()]).outcome(rule("attention-cache"))).0,
        "abstained"
    );
    // Nor of attention, if other kernels were profiled.
    let other = Launch {
        class: KernelClass::Gemm,
        ..attention()
    };
    assert_eq!(
        silent(made(&[other]).outcome(rule("attention-cache"))).0,
        "abstained"
    );
}

#[test]
fn profiles_unlike_the_run_are_told_of_all_passes_at_once() {
    let made = |a: f64, b: f64| {
        let of = |kernel, share, ratio| Launch {
            kernel,
            share,
            ratio,
            ..LAUNCH
        };
        let mut made = made(&[of("k", 0.3, 1.0), of("l", 0.2, 1.7), of("m", 0.1, 0.5)]);
        made.session.passes.name[1] = made.session.strings.intern("a");
        let pass = made.session.add_pass("b", PassKind::Counters, "b");
        let sums = |alike_seconds| Sums {
            seconds: Seconds(1.0),
            alike_seconds: Seconds(alike_seconds),
            ..Sums::default()
        };
        let passes = BTreeMap::from([(PassId(1), sums(a)), (pass, sums(b))]);
        made.known.represent.as_mut().unwrap().passes = passes;
        made
    };
    let found = made(0.3, 0.4).one(rule("unrepresentative-profile"));
    assert_eq!(found.title, "a, b");
    let text = words(&found.statement);
    assert!(
        text.starts_with("unrepresentative_profile.statement{share=30.0 %, pass=a,"),
        "{text}"
    );
    assert!(
        text.contains("kernel=l, share=20.0 %, stage=decode"),
        "{text}"
    );
    assert!(text.contains("ratio=1.70}} unrepresentative_profile.statement{share=40.0 %, pass=b"));
    assert_eq!(
        made(0.3, 0.5).one(rule("unrepresentative-profile")).title,
        "a"
    );
    assert_eq!(
        made(0.5, 0.5).outcome(rule("unrepresentative-profile")),
        Outcome::PASSED
    );
}

#[test]
fn a_stage_without_counters_comes_with_the_command_that_lists_its_kernels() {
    let made = |share, run| {
        let mut made = covering(&[LAUNCH], share);
        made.last().of_loop = Time(run);
        let gap = |line, kernel, share| Gap {
            line,
            kernel,
            time: ns(share),
            launches: 1,
            share: Ratio(share),
        };
        let [x, k, l] = ["x", "k", "l"].map(|name| made.named(name));
        let gaps = vec![gap(1, x, 0.9), gap(0, k, 0.5), gap(0, l, 0.1)];
        made.known.represent.as_mut().unwrap().gaps = gaps;
        let kernels = [50, 35, 10, 5].map(|time| (k, 1, Ns(time))).to_vec();
        let summary = made.last_summary();
        made.known.stage_work = Ok(vec![StageWork {
            summary,
            kernels,
            ..StageWork::default()
        }]);
        made.add_stage("prefill", StageKind::Prefill, 1000.0, None);
        let prefill = Line {
            summary: made.last_summary(),
            gpus: 1,
            time: Ns::ZERO,
            groups: Vec::new(),
        };
        made.known.matching.as_mut().unwrap().lines.push(prefill);
        made
    };
    let found = made(0.4, 20_000.0).one(rule("profile-coverage"));
    let text = words(&found.statement);
    assert!(text.contains("share=40.0 %, stage=decode, kernel=k, part=50.0 %"));
    // 50 + 35 of 100 ns are less than 90 %, with the third it is enough.
    let next = words(&found.next.unwrap());
    assert!(
        next.starts_with(
            "profile_coverage.next{commands=rooflens kernels BUNDLE --top 3 --stage 'decode' --yaml"
        ),
        "{next}"
    );
    // Ten instances of 1000 ns in a run of 250 000 are 4 %.
    for clear in [made(0.5, 20_000.0), made(0.4, 250_000.0)] {
        assert_eq!(clear.outcome(rule("profile-coverage")), Outcome::PASSED);
    }
}

#[test]
fn a_stage_of_which_little_was_profiled_is_not_clear() {
    let large = || Launch {
        waves: 9.9,
        ..LAUNCH
    };
    assert_eq!(
        covering(&[large()], 0.25).outcome(rule("small-grids")),
        Outcome::PASSED
    );
    assert_eq!(
        silent(covering(&[large()], 0.24).outcome(rule("small-grids"))).0,
        "abstained"
    );
    // What holds holds.
    let small = Launch {
        waves: 0.25,
        ..LAUNCH
    };
    assert_eq!(covering(&[small], 0.2).found(rule("small-grids")).len(), 1);
}

/// Shares of the GPU time of `decode` that are latency-bound in grids of so many waves, and compute-bound.
fn bounds(latency: f64, compute: f64, waves: f64) -> Made {
    let bound = Launch {
        kernel: "l",
        share: compute,
        sol: COMPUTE_BOUND,
        ..LAUNCH
    };
    covering(
        &[
            Launch {
                share: latency,
                waves,
                ..LAUNCH
            },
            bound,
        ],
        latency + compute,
    )
}

#[test]
fn the_bound_class_is_weighed_by_the_time_of_the_workload() {
    // 30 of the 40 % with counters are latency-bound.
    let found = bounds(0.3, 0.1, 1.0).one(rule("profiled-bound"));
    assert_eq!(
        words(&found.statement),
        "profiled_bound.statement{stage=decode, share=30.0 %, class=latency-bound, others=profiled_bound.other{share=10.0 %, class=compute-bound}, covered=40.0 %, bound=latency-bound, part=100 %, reason=cause not counted}"
    );
    // 12 + 12 % of the stage are less than a quarter.
    assert_eq!(
        silent(bounds(0.12, 0.12, 1.0).outcome(rule("profiled-bound"))).0,
        "abstained"
    );
    // Small grids are latency-bound: said once.
    let small = bounds(0.3, 0.1, 0.25);
    assert!(matches!(
        small.outcome(rule("small-grids")),
        Outcome::Found(_)
    ));
    let (word, why) = silent(small.outcome(rule("profiled-bound")));
    assert_eq!(
        (word, &*why),
        (
            "not applicable",
            &*format!("decode: {}", covered_by(rule("small-grids")))
        )
    );
}

#[test]
fn no_class_speaks_for_a_stage_that_has_three_alike() {
    let of = |kernel, sol| Launch {
        kernel,
        sol,
        share: 0.3,
        ..LAUNCH
    };
    let alike = [
        of("k", COMPUTE_BOUND),
        of("l", LATENCY_BOUND),
        of("m", DRAM_BOUND),
    ];
    let made = covering(&alike, 0.9);
    assert_eq!(made.outcome(rule("profiled-bound")), Outcome::PASSED);
}

#[test]
fn launches_of_a_step_are_launches_of_its_stage() {
    // Launches are compared with the innermost stage. Ten steps of 40 ns are 80 % of the 500 ns, and 25 % of that are 20 %.
    let inner = |stage: usize| {
        let mut made = made(&[Launch {
            share: 0.25,
            waves: 0.25,
            ..LAUNCH
        }]);
        made = made.holds(StageKind::DecodeStep, "decode_step").steps(10.0);
        let summary = Summary {
            stage,
            sum: Time(40.0),
            ..Summary::default()
        };
        made.known.matching.as_mut().unwrap().lines[0].summary = summary;
        made
    };
    let shares = |made: Made| -> Vec<f64> {
        let evidence = made.evidence();
        let profiled = profiled::of_stage(&evidence, &evidence.stages[0]);
        profiled.iter().map(|launch| launch.share.0).collect()
    };
    let step = shares(inner(1));
    assert!(step.len() == 1 && (step[0] - 0.2).abs() < 1e-9, "{step:?}");
    assert!(shares(inner(2)).is_empty());
}

#[test]
fn without_a_timeline_the_profiled_time_is_weighed() {
    let made = |seconds| {
        let mut made = Made::default();
        let sum = BoundSum {
            seconds: Seconds(seconds),
            ..BoundSum::default()
        };
        made.known.ncu_kernels = Ok(vec![PassBounds {
            pass: made
                .session
                .add_pass("ncu", PassKind::Counters, "ncu/raw.csv"),
            launches: 1,
            timed: 1,
            kernels: 1,
            seconds: Seconds(1.0),
            rooflens: BTreeMap::from([(Bound::Latency, sum)]),
            seed: BTreeMap::new(),
        }]);
        made
    };
    let text = words(&made(0.7).one(rule("profiled-bound")).statement);
    assert!(
        text.starts_with("profiled_bound.of_pass{share=70.0 %, pass=ncu, class=latency-bound"),
        "{text}"
    );
    assert_eq!(made(0.4).outcome(rule("profiled-bound")), Outcome::PASSED);
}

#[test]
fn kernels_that_share_the_gpu_have_small_grids_on_purpose() {
    let shared = |busy| {
        let mut made = made(&[Launch {
            waves: 0.25,
            ..LAUNCH
        }]);
        made.last().busy = Time(busy);
        made.outcome(rule("small-grids"))
    };
    // Durations of 500 ns in 476 ns of busy time overlap by more than a twentieth.
    assert!(matches!(shared(477.0), Outcome::Found(_)));
    let (word, why) = silent(shared(476.0));
    assert_eq!(
        (word, &*why),
        ("not applicable", "decode: small_grids.shared")
    );
}

#[test]
fn larger_grids_save_time_after_the_cpu_where_that_limits() {
    let made = made(&[Launch {
        waves: 0.25,
        ..LAUNCH
    }]);
    let mut made = made.idle(Cause::Launching, 600.0).host(1000.0);
    (made.last().busy, made.last().busy_share) = (Time(400.0), Ratio(0.4));
    let made = made.operations(200.0, 400.0);
    let gain = made.one(rule("small-grids")).gain.unwrap();
    assert_eq!(gain.kind, GainKind::WorkAfterCpu);
}
