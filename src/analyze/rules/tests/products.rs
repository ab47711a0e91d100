//! Rules about GEMMs.

use super::*;

use rooflens_analysis::communication::calls::{Member, Run};
use rooflens_analysis::communication::straggler::Imbalance;
use rooflens_analysis::communication::{self, Communication, Ranks};
use rooflens_analysis::counters::roofline::workload::{Lack, Workload};
use rooflens_analysis::engine::classify::KernelIdentity;
use rooflens_analysis::kernels::gemm::repeated::RepeatedGemms;
use rooflens_analysis::kernels::gemm::tiles::Tiling;
use rooflens_analysis::kernels::matmul::roof::{Bound, Ceiling, Roof, Sum};
use rooflens_analysis::kernels::matmul::stages::{Group, StageProducts};
use rooflens_analysis::kernels::matmul::{Gemm, Product, Shape, Source};
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_analysis::utilization::Unavailable;
use rooflens_analysis::utilization::flops_by_source::{FlopSums, StageFlops};
use rooflens_session::{Dim3, KernelId};
use rooflens_units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Ns, Ratio, Time};

/// A product: times of an instance, nanoseconds.
#[derive(Clone, Copy)]
struct One {
    bound: Bound,
    time: f64,
    roof: Option<f64>,
    measured: bool,
    operand: &'static str,
    gemm: Gemm,
    tiling: Tiling,
}

const fn one(bound: Bound, m: u64, time: f64, roof: f64, waves: f64) -> One {
    One {
        bound,
        time,
        roof: Some(roof),
        measured: false,
        operand: "bf16",
        gemm: Gemm {
            m,
            n: 8,
            k: 8,
            batch: 1,
        },
        tiling: Tiling {
            tile_efficiency: Some(Ratio(1.0)),
            splits: None,
            waves: Some(Ratio(waves)),
        },
    }
}

const fn compute(time: f64, roof: f64) -> One {
    one(Bound::Compute, 8, time, roof, 1.0)
}

const fn memory(time: f64, roof: f64, waves: f64) -> One {
    one(Bound::Memory, 4, time, roof, waves)
}

impl One {
    fn group(&self) -> Group {
        let shape = Shape::Gemm(self.gemm);
        let (operand, source) = (self.operand, Source::Operator);
        let product = Product {
            shape,
            operand,
            output: operand,
            source,
            main: true,
        };
        // A FLOP, or a byte, takes a nanosecond.
        let measured = self.measured;
        let rate = Some(Ceiling {
            value: FlopsPerSecond(1e9),
            measured,
        });
        let bandwidth = Some(Ceiling {
            value: BytesPerSecond(1e9),
            measured,
        });
        let roof = |roof: f64| {
            let (flops, bytes) = if self.bound == Bound::Compute {
                (roof, 0.0)
            } else {
                (0.0, roof)
            };
            Roof {
                flops: Flops(flops),
                bytes: Some(Bytes(bytes)),
                rate,
                bandwidth,
                ..Roof::default()
            }
        };
        let kernel = KernelId(u32::from(self.bound == Bound::Memory));
        let tiling = self.tiling;
        let mut group = Group {
            kernel,
            product: Some(product),
            tiling,
            ..Group::default()
        };
        group.sum.add(
            10,
            Ns((10.0 * self.time) as i64),
            Ns::ZERO,
            self.roof.map(roof),
        );
        group
    }
}

/// A stage of 1000 ns with 500 ns of GPU operations and these products.
fn made(products: &[One]) -> Made {
    let mut made = decode().summary(|summary| summary.sum = Time(500.0));
    for (name, short) in [("big_kernel", "big"), ("few_rows", "few")] {
        made.kernel(
            name,
            KernelIdentity {
                short: short.to_owned(),
                ..Default::default()
            },
        );
    }
    let groups = products.iter().map(One::group).collect();
    let stage = StageProducts {
        summary: made.last_summary(),
        groups,
        ..StageProducts::default()
    };
    made.known.gemm = Ok(vec![stage]);
    made
}

#[test]
fn only_products_far_above_the_roofline_count_as_waste() {
    // 150 against 100 ns is far (1.5), 140 against 100 is not: 50 of 500 ns.
    let near = compute(140.0, 100.0);
    let found = made(&[compute(150.0, 100.0), near]).one(rule("gemm-roofline"));
    assert_eq!(saved(&found), 50.0);
    assert_eq!(found.weight_ns.0, 500.0, "ten instances");
    let text = words(&found.statement);
    assert!(text.starts_with(
        "gemm_roofline.statement{time=150 ns, stage=decode, share=30.0 %, whole=products.gpu_time"
    ));
    assert!(text.contains("worst=8 × 8 × 8 (big), worst_time=150 ns, worst_roof=100 ns"));
    assert_eq!(
        made(&[near]).outcome(rule("gemm-roofline")),
        Outcome::PASSED
    );
    // 24 of 500 ns are 4.8 %; products that memory bounds are another rule's.
    assert_eq!(
        made(&[compute(60.0, 36.0)]).outcome(rule("gemm-roofline")),
        Outcome::PASSED
    );
    let memory = made(&[memory(150.0, 50.0, 1.0)]);
    assert_eq!(
        silent(memory.outcome(rule("gemm-roofline"))).0,
        "not applicable"
    );
}

#[test]
fn products_with_few_rows_are_held_against_the_bandwidth() {
    // 300 ns, of which 60 + 90 are needed: 50 %. One whose bytes come from the cache counts up to its time.
    let rows = [
        memory(100.0, 60.0, 0.9),
        memory(200.0, 90.0, 0.4),
        memory(100.0, 160.0, 1.0),
    ];
    let found = made(&rows[..2]).one(rule("gemm-bandwidth"));
    let text = words(&found.statement);
    assert!(
        text.contains("share=60.0 %, whole=products.gpu_time, reached=50.0 %, basis=specified")
    );
    assert!(text.contains("roof=90.0 ns, waves=0.400"));
    assert!(!text.contains("floor="), "{text}");
    assert_eq!(saved(&found), 150.0);
    // No model is known, and no kernel splits K; then one does.
    let advice = |rows: &[One]| words(&made(rows).one(rule("gemm-bandwidth")).advice.unwrap());
    let text = advice(&rows[..2]);
    assert!(text.contains("splits=") && !text.contains("qkv="), "{text}");
    let tiling = Tiling {
        splits: Some(4),
        ..rows[1].tiling
    };
    assert!(!advice(&[One { tiling, ..rows[1] }]).contains("splits="));
    // (60 + 90 + 100) ÷ 400.
    let cached = made(&rows).one(rule("gemm-bandwidth"));
    assert!(words(&cached.statement).contains("reached=62.5 %, basis=specified"));
    // 80 % of the bandwidth is near; 24 of 500 ns are little; compute-bound ones do not count.
    for row in [memory(200.0, 160.0, 1.0), memory(40.0, 16.0, 1.0)] {
        assert_eq!(
            made(&[row]).outcome(rule("gemm-bandwidth")),
            Outcome::PASSED
        );
    }
    let compute = made(&[compute(300.0, 100.0)]);
    assert_eq!(
        silent(compute.outcome(rule("gemm-bandwidth"))).0,
        "not applicable"
    );
}

/// One launch of 100 ns whose bytes take 20: a floor of 50 ns makes that 50 % of the roofline, not of the bandwidth.
#[test]
fn the_launch_floor_is_told_where_it_lifts_the_roofline() {
    let mut made = made(&[memory(100.0, 20.0, 1.0)]);
    let sum = &mut made.known.gemm.as_mut().unwrap()[0].groups[0].sum;
    let roof = Roof {
        floor: Ns(50),
        ..sum.roof.unwrap()
    };
    *sum = Sum::default();
    sum.add(10, Ns(1000), Ns::ZERO, Some(roof));
    let text = words(&made.one(rule("gemm-bandwidth")).statement);
    let expected = "reached=20.0 %, basis=specified, of_roofline=50.0 %, floor=50.0 ns";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn tiles_and_waves_explain_no_more_than_what_is_lost() {
    let with = |time, tiles| One {
        tiling: Tiling {
            tile_efficiency: Some(tiles),
            splits: None,
            waves: Some(Ratio(0.8)),
        },
        ..compute(time, 100.0)
    };
    // 100 ÷ (1 × 0.8) − 100 = 25 ns of 500.
    let found = made(&[with(200.0, Ratio(1.0))]).one(rule("gemm-quantization"));
    assert!((saved(&found) - 25.0).abs() < 1e-9);
    let parts: Time = found.parts.iter().map(|(_, saved)| *saved).sum();
    assert!((parts.0 - 25.0).abs() < 1e-9);
    assert!(words(&found.statement).contains("tiles=100 %, waves=80.0 %"));
    // 100 ÷ (0.5 × 0.8) − 100 = 150, of which 60 are lost at all.
    assert!(
        (saved(&made(&[with(160.0, Ratio(0.5))]).one(rule("gemm-quantization"))) - 60.0).abs()
            < 1e-9
    );
    // 9 of 500 ns; and memory-bound products wait for bytes.
    assert_eq!(
        made(&[with(109.0, Ratio(1.0))]).outcome(rule("gemm-quantization")),
        Outcome::PASSED
    );
    let memory = made(&[memory(200.0, 100.0, 1.0)]);
    assert_eq!(
        silent(memory.outcome(rule("gemm-quantization"))).0,
        "not applicable"
    );
    // Of kernels whose tiles and waves are not known nothing can be said.
    let bare = One {
        tiling: Tiling::default(),
        ..compute(200.0, 100.0)
    };
    assert_eq!(
        silent(made(&[bare]).outcome(rule("gemm-quantization"))).0,
        "abstained"
    );
}

#[test]
fn unaligned_products_need_time_to_matter() {
    // Rows of one element of 16 bits.
    let with = |time, k| {
        let one = compute(time, if time < 10.0 { 1.0 } else { 10.0 });
        One {
            gemm: Gemm { k, ..one.gemm },
            ..one
        }
    };
    // 50 of 500 ns.
    let found = made(&[with(50.0, 1)]).one(rule("gemm-alignment"));
    assert!(
        words(&found.statement).contains("share=10.0 %, whole=products.gpu_time, stage=decode")
    );
    assert!(
        words(&found.statement).ends_with("alignment=2.00 B, length=1}"),
        "{:?}",
        found.statement
    );
    assert_eq!(saved(&found), 40.0);
    let action = found.root.unwrap().action;
    assert_eq!(action, "gemm_alignment.root_action{length=1, padded=64}");
    for row in [with(50.0, 8), with(4.9, 1)] {
        assert_eq!(
            made(&[row]).outcome(rule("gemm-alignment")),
            Outcome::PASSED
        );
    }
    assert_eq!(
        silent(
            made(&[One {
                operand: "",
                ..with(50.0, 1)
            }])
            .outcome(rule("gemm-alignment"))
        )
        .0,
        "abstained"
    );
}

#[test]
fn products_of_unknown_size_or_of_other_passes_say_nothing() {
    let mut made = made(&[One {
        roof: None,
        ..compute(150.0, 100.0)
    }]);
    let groups = vec![compute(150.0, 100.0).group()];
    let summary = Summary {
        stage: 9,
        ..made.last_summary()
    };
    let other = StageProducts {
        summary,
        groups,
        ..StageProducts::default()
    };
    made.known.gemm.as_mut().unwrap().push(other);
    for rule in [
        rule("gemm-roofline"),
        rule("gemm-bandwidth"),
        rule("gemm-quantization"),
        rule("gemm-alignment"),
    ] {
        assert!(
            matches!(made.outcome(rule), Outcome::InsufficientData(_)),
            "{}",
            rule.id
        );
    }
}

#[test]
fn sizes_that_are_not_known_are_said() {
    let made = |known: f64, products: f64| {
        let mut made = flops(
            FlopSums {
                total: Ns(1000),
                known: Ns(300),
                ..FlopSums::default()
            },
            Ok(Ratio(0.5)),
        );
        let (total, time) = (1000, (1000.0 * products) as i64);
        let (summary, known) = (made.last_summary(), (time as f64 * known) as i64);
        made.known.gemm = Ok(vec![StageProducts {
            summary,
            total: Ns(total),
            time: Ns(time),
            known: Ns(known),
            ..StageProducts::default()
        }]);
        made
    };
    let text = words(&made(0.6, 0.5).one(rule("flop-coverage")).statement);
    assert!(
        text.contains("stage=decode, products=50.0 %, known=60.0 %"),
        "{text}"
    );
    assert!(text.contains("flops=30.0 %"), "{text}");
    for clear in [made(0.9, 0.5), made(0.6, 0.09)] {
        assert_eq!(clear.outcome(rule("flop-coverage")), Outcome::PASSED);
    }
}

#[test]
fn utilization_by_counters_or_sizes_above_the_peak_cannot_be() {
    let counted = |hfu| {
        let mut made = decode();
        let summary = made.last_summary();
        made.known.workload = Ok(Workload::made(summary, hfu));
        made
    };
    let sized = |value| flops(FlopSums::default(), value);
    for above in [
        counted(Err(Lack::AbovePeak(Ratio(1.25)))),
        sized(Err(Unavailable::AbovePeak(Ratio(1.25)))),
    ] {
        let found = above.one(rule("utilization-basis"));
        assert_eq!(found.severity, Severity::Critical);
        assert!(words(&found.statement).contains("stage=decode, share=125 %"));
    }
    for possible in [counted(Ok(Ratio(0.99))), sized(Ok(Ratio(0.99)))] {
        assert_eq!(possible.outcome(rule("utilization-basis")), Outcome::PASSED);
    }
}

#[test]
fn a_rank_that_waits_for_another_has_no_bound_of_its_kernels() {
    let with = |most: f64| {
        let mut made = made(&[compute(150.0, 100.0)]);
        let stage = Some(made.last_summary().stage);
        let line = |member, compute| {
            let rank = member as u32;
            communication::lines::RankTimes {
                member,
                rank,
                stage,
                compute,
                ..Default::default()
            }
        };
        let lines = vec![line(0, Time(100.0)), line(1, Time(most))];
        let mean = (100.0 + most) / 2.0;
        let imbalances = vec![Imbalance {
            ranks: 2,
            slowest: 1,
            fastest: 0,
            most: Time(most),
            least: Time(100.0),
            mean: Time(mean),
            work: None,
        }];
        let other = Member {
            process: ProcessId(1),
            ..Member::default()
        };
        let run = Run {
            members: vec![Member::default(), other],
            ..Run::default()
        };
        let ranks = Ranks {
            run,
            lines,
            imbalances,
            ..Ranks::default()
        };
        made.known.communication = Ok(Communication { runs: vec![ranks] });
        made
    };
    let why = silent(with(103.0).outcome(rule("gemm-roofline"))).1;
    assert_eq!(why, "decode: findings.waits{rank=1}");
    // A difference of 2 % is none.
    assert_eq!(saved(&with(102.0).one(rule("gemm-roofline"))), 50.0);
}

#[test]
fn kernels_of_a_stage_that_the_cpu_bounds_save_busy_time_after_the_cpu() {
    let with_host = |busy: f64, host: f64| {
        let mut made = made(&[compute(450.0, 100.0)])
            .idle(Cause::Launching, 600.0)
            .host(host);
        made.last().busy = Time(busy);
        made.one(rule("gemm-roofline"))
    };
    let with = |busy| with_host(busy, 1000.0);
    let gain = |found: &Finding| found.gain.clone().unwrap();
    // Busy for 400 of 1000 ns: 350 of these 400, and no more than a note.
    let bound = with(400.0);
    assert_eq!(
        (gain(&bound).saved_ns.0, gain(&bound).of_ns.0),
        (350.0, 400.0)
    );
    assert_eq!(gain(&bound).of, "findings.busy_time{stage=decode}");
    assert_eq!(bound.severity, Severity::Note);
    assert_eq!(
        (gain(&with(500.0)).saved_ns.0, gain(&with(500.0)).of_ns.0),
        (350.0, 1000.0)
    );
    // The CPU works for 700 of 1000 ns and waits for the others: 300 of the 350 shorten the stage at once.
    let behind = gain(&with_host(400.0, 700.0));
    assert_eq!((behind.saved_ns.0, behind.of_ns.0), (300.0, 1000.0));
    assert_eq!(behind.kind, GainKind::Work);
    assert!(behind.basis.contains("findings.host_stays"));
}

/// A stage with these FLOPs and this utilization by recorded sizes.
fn flops(sums: FlopSums, utilization: Result<Ratio, Unavailable>) -> Made {
    let mut made = decode();
    let none = || Err(Unavailable::NoModel);
    made.known.flops = Ok(vec![StageFlops {
        pass: PassId(0),
        summary: made.last_summary(),
        sums,
        clock: None,
        ideal_time: Err(Unavailable::NoModel),
        utilization,
        clock_normalized: none(),
        model: None,
        mfu: none(),
        mbu: None,
        executed: None,
        hfu: None,
    }]);
    made
}

#[test]
fn the_ceiling_is_named() {
    let big = |measured| One {
        measured,
        ..compute(200.0, 125.0)
    };
    let found = made(&[big(true)]).one(rule("gemm-roofline"));
    assert!(words(&found.statement).contains(
        "basis=measured, roof=125 ns, worst=8 × 8 × 8 (big), worst_time=200 ns, worst_roof=125 ns"
    ));
    assert!(
        found
            .gain
            .unwrap()
            .basis
            .contains("gemm_roofline.basis{basis=measured}")
    );
    let found = made(&[big(true), big(false)]).one(rule("gemm-roofline"));
    let text = words(&found.statement);
    assert!(
        text.contains("basis=measured or, without that, specified"),
        "{text}"
    );
    let few = One {
        measured: true,
        ..memory(200.0, 120.0, 1.0)
    };
    let found = made(&[few]).one(rule("gemm-bandwidth"));
    assert!(words(&found.statement).contains("reached=60.0 %, basis=measured"));
}

#[test]
fn a_row_of_gemms_is_one_batch() {
    // Of ten instances of 1000 ns, each with a row of 8 GEMMs: 400 ns from first start to last end, 20 ns a launch.
    let row = |time| {
        let mut made = decode();
        let kernel = made.kernel("gemm", KernelIdentity::default());
        let summary = made.last_summary();
        made.known.stage_work = Ok(vec![StageWork {
            summary: summary.clone(),
            kernels: vec![(kernel, 80, Ns(1600))],
            ..StageWork::default()
        }]);
        made.known.repeated_gemms = Ok(vec![RepeatedGemms {
            summary,
            kernel,
            grid: Dim3 { x: 4, y: 2, z: 1 },
            rows: 10,
            longest: 8,
            launches: 80,
            time: Ns(time),
            busy: Ns(1600),
        }]);
        made
    };
    let found = row(4000).one(rule("repeated-gemms"));
    // Whether they depend on one another is not known: nothing is promised.
    assert_eq!(found.gain, None);
    assert!(
        words(&found.statement)
            .ends_with("longest=8, blocks=8, time=400 ns, share=40.0 %, launch=20.0 ns}")
    );
    // 70 − 20 ns are 5 % of the stage; a nanosecond per instance less is not.
    assert_eq!(row(700).found(rule("repeated-gemms")).len(), 1);
    assert_eq!(row(690).outcome(rule("repeated-gemms")), Outcome::PASSED);
    assert_eq!(
        silent(decode().outcome(rule("repeated-gemms"))).0,
        "abstained"
    );
}
