//! Comparisons of a real capture with edited copies of it: each planted change is in the right row, to the nanosecond.
//!
//! An edit moves every time stamp of the export, so that what comes after a longer or shorter kernel is as far from it as
//! before. What must come out is summed by SQL over the unedited export.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use rooflens::Capture;
use rooflens::analysis::engine::classify::KernelClass;
use rooflens::compare::account::{Explained, Part};
use rooflens::compare::conditions::Subject;
use rooflens::compare::explanations::Reason;
use rooflens::compare::kernels::{Fate, Use};
use rooflens::compare::waterfall::What;
use rooflens::compare::{Comparison, Pair};
use rooflens::document::Lang;
use rooflens::pipeline::{Repeats, Settings, comparison};
use rooflens::session::Ns;
use rooflens_units::{Count, Ratio};
use rusqlite::Connection;

use crate::support::path;

/// Twelve training steps on one stream; the first one is a cold start.
const EXPORT: &str = "h100-vit-train/nsys/timeline.sqlite.zst";
const STAGE: &str = "train_step";
const STEPS: i64 = 11;

/// A kernel of the export.
struct Kernel {
    row: i64,
    start: i64,
    end: i64,
    name: String,
    /// The step that launched it, from 0; none outside of steps.
    step: Option<i64>,
}

impl Kernel {
    fn time(&self) -> i64 {
        self.end - self.start
    }

    fn is_measured(&self) -> bool {
        self.step.is_some_and(|step| step > 0)
    }
}

/// From a moment on, everything is later by a time, or what happens in that time is cut out if it is negative.
struct Shift {
    from: i64,
    by: i64,
}

/// The folder of an export with the samples of a clock.
fn bundle(folder: &Path, name: &str, mhz: u32) -> PathBuf {
    let packed = fs::File::open(path(EXPORT)).unwrap();
    let bundle = folder.join(name);
    fs::create_dir(&bundle).unwrap();
    fs::write(
        bundle.join("timeline.sqlite"),
        zstd::decode_all(packed).unwrap(),
    )
    .unwrap();
    let mut samples = "timestamp, index, clocks.sm [MHz], utilization.gpu [%]\n".to_owned();
    for second in 10..20 {
        samples += &format!("2025/01/01 00:00:{second}.000, 0, {mhz} MHz, 100 %\n");
    }
    fs::write(bundle.join("nvml.csv"), samples).unwrap();
    bundle
}

fn kernels(export: &Connection) -> Vec<Kernel> {
    let sql = "
        WITH steps AS (SELECT start, [end], row_number() OVER (ORDER BY start) - 1 AS step FROM NVTX_EVENTS)
        SELECT k.rowid, k.start, k.[end], s.value, steps.step
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
        LEFT JOIN steps ON r.start BETWEEN steps.start AND steps.[end] ORDER BY k.start";
    let mut statement = export.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        Ok(Kernel {
            row: row.get(0)?,
            start: row.get(1)?,
            end: row.get(2)?,
            name: row.get(3)?,
            step: row.get(4)?,
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Moves all time stamps.
fn shift(export: &Connection, mut shifts: Vec<Shift>) {
    shifts.sort_by_key(|shift| shift.from);
    let mut sums = vec![0];
    for shift in &shifts {
        sums.push(sums[sums.len() - 1] + shift.by);
    }
    let moved = move |time: i64| {
        let count = shifts.partition_point(|shift| shift.from < time);
        let Some(last) = count.checked_sub(1).map(|last| &shifts[last]) else {
            return time;
        };
        // What is cut out happens at the moment of the cut.
        time + sums[count - 1] + last.by.max(last.from - time)
    };
    export
        .create_scalar_function(
            "moved",
            1,
            rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC,
            move |context| Ok(context.get::<Option<i64>>(0)?.map(&moved)),
        )
        .unwrap();
    for table in ["KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION"] {
        let sql = format!(
            "UPDATE CUPTI_ACTIVITY_KIND_{table} SET start = moved(start), [end] = moved([end])"
        );
        export.execute(&sql, []).unwrap();
    }
    for table in ["NVTX_EVENTS", "PROFILER_OVERHEAD"] {
        let sql = format!("UPDATE {table} SET start = moved(start), [end] = moved([end])");
        export.execute(&sql, []).unwrap();
    }
}

/// Gives a kernel another name.
fn rename(export: &Connection, kernel: &Kernel, name: &str) {
    export
        .execute(
            "INSERT OR IGNORE INTO StringIds (id, value) VALUES ((SELECT max(id) + 1 FROM StringIds WHERE NOT EXISTS \
             (SELECT 1 FROM StringIds WHERE value = ?1)), ?1)",
            [name],
        )
        .ok();
    let set = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = names.id, shortName = names.id FROM \
               (SELECT id FROM StringIds WHERE value = ?1) AS names WHERE CUPTI_ACTIVITY_KIND_KERNEL.rowid = ?2";
    assert_eq!(export.execute(set, (name, kernel.row)).unwrap(), 1);
}

/// Compares the capture with an edited copy.
fn compared(
    clock_after: u32,
    edit: impl FnOnce(&Connection, &[Kernel]),
    check: impl FnOnce(&Comparison, &[Kernel]),
) {
    let folder = tempfile::tempdir().unwrap();
    let before = bundle(folder.path(), "before", 1980);
    let after = bundle(folder.path(), "after", clock_after);
    let export = Connection::open(after.join("timeline.sqlite")).unwrap();
    let kernels = kernels(&export);
    export.execute_batch("BEGIN").unwrap();
    edit(&export, &kernels);
    export.execute_batch("COMMIT").unwrap();
    drop(export);
    let [before, after] = [before, after].map(|path| rooflens::open([path]).unwrap());
    let captures = Pair { before, after };
    check(&comparison_of(&captures, &[]), &kernels);
}

/// Compares captures, of which some conditions may differ.
fn comparison_of(captures: &Pair<Capture>, allowed: &[Subject]) -> Comparison {
    let repeats = Pair::of(captures, |capture| {
        let mut repeats = Repeats::default();
        repeats.add(capture, Lang::En).unwrap();
        repeats
    });
    let settings = Settings {
        least: Ratio(0.01),
        allowed,
        lang: Lang::En,
    };
    comparison(repeats, settings).unwrap()
}

/// The change of the measured steps.
struct Expected {
    sum: Ns,
    /// Of one step, in whole nanoseconds.
    mean: Ns,
}

impl Expected {
    fn of(times: impl Iterator<Item = i64>) -> Self {
        let sum = times.sum::<i64>();
        Self {
            sum: Ns(sum),
            mean: Ns((sum as f64 / STEPS as f64).round() as i64),
        }
    }

    /// Nothing else changed.
    fn is_all_of(&self, comparison: &Comparison, class: KernelClass) {
        let is_of_class = |part: Part| part == Part::Class(class);
        assert_eq!(measured_change(comparison, is_of_class), self.sum);
        let others = |part| is_busy(part) && !is_of_class(part);
        assert_eq!(measured_change(comparison, others), Ns::ZERO);
        // A call during a longer kernel is longer, too: of the idle time behind it, some may have another cause.
        assert_eq!(measured_change(comparison, |part| !is_busy(part)), Ns::ZERO);
        check_sums(comparison);
        let waterfall = comparison.waterfall(STAGE).unwrap();
        let step = &waterfall.steps[0];
        assert_eq!(step.what, What::Part(Part::Class(class)));
        // Both levels are rounded.
        assert!((step.time.0 - self.mean.0).abs() <= 1, "{step:?}");
    }
}

fn is_busy(part: Part) -> bool {
    matches!(part, Part::Class(_))
}

/// The change of some parts in all measured steps.
fn measured_change(comparison: &Comparison, is_of: impl Fn(Part) -> bool) -> Ns {
    let changes = comparison.account.iter();
    let changes = changes.filter(|change| change.place.is_measured && is_of(change.place.part));
    changes.map(|change| change.difference()).sum()
}

/// The steps of both waterfalls lead from the time before to that after.
fn check_sums(comparison: &Comparison) {
    let iteration = comparison.waterfall(STAGE).unwrap();
    for waterfall in [iteration, comparison.waterfall_of_capture()] {
        let sum: Ns = waterfall.steps.iter().map(|step| step.time).sum();
        assert_eq!(waterfall.time.before + sum, waterfall.time.after);
    }
}

/// The first explanation.
fn reason(comparison: &Comparison) -> (Reason, Ns, f64) {
    let first = &comparison.explanations[0];
    assert_eq!(first.stage, STAGE);
    (first.reason, Ns(first.time.0.round() as i64), first.share.0)
}

#[test]
fn slower_kernels_of_a_class_are_in_its_row() {
    let is_gemm = |kernel: &&Kernel| kernel.name.starts_with("nvjet");
    let longer = |kernel: &Kernel| kernel.time() / 10;
    compared(
        1980,
        |export, kernels| {
            let gemms = kernels.iter().filter(is_gemm);
            let shifts = gemms.map(|kernel| Shift {
                from: kernel.start + kernel.time() / 2,
                by: longer(kernel),
            });
            shift(export, shifts.collect());
        },
        |comparison, kernels| {
            let gemms = kernels.iter().filter(is_gemm);
            let measured = gemms.filter(|kernel| kernel.is_measured());
            let expected = Expected::of(measured.map(longer));
            expected.is_all_of(comparison, KernelClass::Gemm);
            let (reason, time, share) = reason(comparison);
            let Reason::Duration { class, factor } = reason else {
                panic!("{reason:?}")
            };
            assert_eq!((class, time), (KernelClass::Gemm, expected.mean));
            assert!((factor.0 - 1.1).abs() < 0.001, "{factor:?}");
            assert!((share - 1.0).abs() < 1e-9, "{share}");
        },
    );
}

#[test]
fn doubled_launches_are_told_from_longer_ones() {
    let is_gelu = |kernel: &&Kernel| kernel.name.contains("GeluBackward");
    compared(
        1980,
        |export, kernels| {
            let gelus: Vec<&Kernel> = kernels.iter().filter(is_gelu).collect();
            let shifts = gelus.iter().map(|kernel| Shift {
                from: kernel.end,
                by: kernel.time(),
            });
            shift(export, shifts.collect());
            let columns = "deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, \
                           registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, \
                           dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId";
            let copy = format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, [end], {columns}) SELECT [end], 2 * [end] - start, \
                 {columns} FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = ?1"
            );
            for kernel in gelus {
                export.execute(&copy, [kernel.row]).unwrap();
            }
        },
        |comparison, kernels| {
            let gelus = kernels.iter().filter(is_gelu);
            let measured: Vec<&Kernel> = gelus.filter(|kernel| kernel.is_measured()).collect();
            let expected = Expected::of(measured.iter().map(|kernel| kernel.time()));
            expected.is_all_of(comparison, KernelClass::Elementwise);
            let changed = comparison.kernels.iter();
            let changed = changed.filter(|change| change.difference().0 != 0.0);
            let [change] = changed.collect::<Vec<_>>()[..] else {
                panic!("several kernels changed")
            };
            let launches = measured.len() as f64 / STEPS as f64;
            assert_eq!(change.used.before.launches, Count(launches));
            assert_eq!(change.used.after.launches, Count(2.0 * launches));
            assert!(change.by_duration().0.abs() < 1e-3);
            let (reason, time, _) = reason(comparison);
            let Reason::Launches { class, .. } = reason else {
                panic!("{reason:?}")
            };
            assert_eq!((class, time), (KernelClass::Elementwise, expected.mean));
        },
    );
}

#[test]
fn lower_clocks_explain_kernels_that_all_take_longer() {
    let is_alone = |index: usize, kernels: &[Kernel]| {
        let ends = kernels
            .get(index + 1)
            .is_none_or(|next| next.start >= kernels[index].end);
        ends && (index == 0 || kernels[index - 1].end <= kernels[index].start)
    };
    let longer = |kernel: &Kernel| kernel.time() / 4;
    compared(
        1584,
        |export, kernels| {
            let alone = (0..kernels.len()).filter(|index| is_alone(*index, kernels));
            let shifts = alone.map(|index| Shift {
                from: kernels[index].start + kernels[index].time() / 2,
                by: longer(&kernels[index]),
            });
            shift(export, shifts.collect());
        },
        |comparison, kernels| {
            let alone = (0..kernels.len()).filter(|index| is_alone(*index, kernels));
            let measured = alone
                .map(|index| &kernels[index])
                .filter(|kernel| kernel.is_measured());
            let expected = Expected::of(measured.map(longer));
            assert_eq!(measured_change(comparison, is_busy), expected.sum);
            assert_eq!(measured_change(comparison, |part| !is_busy(part)), Ns::ZERO);
            let (reason, time, share) = reason(comparison);
            let Reason::Clocks { factor, clock } = reason else {
                panic!("{reason:?}")
            };
            assert!((factor.0 - 1.25).abs() < 0.01, "{factor:?}");
            assert_eq!((clock.before.0, clock.after.0), (1980e6, 1584e6));
            assert!(
                time == expected.mean && (share - 1.0).abs() < 1e-9,
                "{time:?} {share}"
            );
        },
    );
}

#[test]
fn fused_kernels_are_found_at_their_places_and_what_lay_between_them_is_gone() {
    // GELU and the kernel behind it become one that takes as long as GELU alone.
    let pairs = |kernels: &[Kernel]| -> Vec<(usize, usize)> {
        let gelus = (0..kernels.len() - 1).filter(|index| {
            let (gelu, next) = (&kernels[*index], &kernels[index + 1]);
            gelu.name.contains("GeluCUDA") && gelu.end <= next.start && gelu.step == next.step
        });
        gelus.map(|index| (index, index + 1)).collect()
    };
    compared(
        1980,
        |export, kernels| {
            let pairs = pairs(kernels);
            for (gelu, next) in &pairs {
                rename(export, &kernels[*gelu], "triton_poi_fused_gelu_0");
                let sql = "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = ?1";
                export.execute(sql, [kernels[*next].row]).unwrap();
            }
            let shifts = pairs.iter().map(|(gelu, next)| Shift {
                from: kernels[*gelu].end,
                by: kernels[*gelu].end - kernels[*next].end,
            });
            shift(export, shifts.collect());
        },
        |comparison, kernels| {
            let mut pairs = pairs(kernels);
            pairs.retain(|(gelu, _)| kernels[*gelu].is_measured());
            assert!(pairs.len() > 50);
            let gone = Expected::of(pairs.iter().map(|(_, next)| -kernels[*next].time()));
            let between = pairs
                .iter()
                .map(|(gelu, next)| kernels[*gelu].end - kernels[*next].start);
            assert_eq!(measured_change(comparison, is_busy), gone.sum);
            let idle = measured_change(comparison, |part| !is_busy(part));
            assert_eq!(idle, Expected::of(between).sum);
            check_sums(comparison);
            let is_fused = |names: &[String]| names == ["triton_poi_fused_gelu_0"];
            let changes = comparison.kernels.iter();
            let fused: Vec<_> = changes
                .filter(|change| is_fused(&change.names.after))
                .collect();
            let launches = Count(pairs.len() as f64 / STEPS as f64);
            // One kernel is launched at each place where two were.
            assert!(
                fused.iter().all(|change| change.fate() == Fate::Fused),
                "{fused:#?}"
            );
            let sum = |of: fn(&Pair<Use>) -> Count| -> Count {
                fused.iter().map(|change| of(&change.used)).sum()
            };
            assert!((sum(|used| used.after.launches).0 - launches.0).abs() < 1e-9);
            assert!((sum(|used| used.before.launches).0 - 2.0 * launches.0).abs() < 1e-9);
            let explanations = comparison.explanations.iter();
            let is_fused = |reason: Reason| matches!(reason, Reason::Fused { .. });
            let mut explained = explanations.filter(|row| is_fused(row.reason));
            let of_fused = explained.next().unwrap();
            assert!((of_fused.time.0 - gone.mean.0 as f64).abs() < 0.01 * gone.mean.0.abs() as f64);
            let fewer: f64 = comparison
                .kernels
                .iter()
                .map(|change| change.used.before.launches.0 - change.used.after.launches.0)
                .sum();
            assert!((fewer - launches.0).abs() < 1e-9, "{fewer} {launches:?}");
        },
    );
}

#[test]
fn a_library_that_is_exchanged_replaces_kernels_of_its_class() {
    let is_exchanged =
        |kernel: &&Kernel| kernel.name == "nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN";
    let shorter = |kernel: &Kernel| kernel.time() / 5;
    let name = "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8";
    compared(
        1980,
        |export, kernels| {
            for kernel in kernels.iter().filter(is_exchanged) {
                rename(export, kernel, name);
            }
            let gemms = kernels.iter().filter(is_exchanged);
            let shifts = gemms.map(|kernel| Shift {
                from: kernel.start + kernel.time() / 2,
                by: -shorter(kernel),
            });
            shift(export, shifts.collect());
        },
        |comparison, kernels| {
            let gemms = kernels.iter().filter(is_exchanged);
            let measured: Vec<&Kernel> = gemms.filter(|kernel| kernel.is_measured()).collect();
            let expected = Expected::of(measured.iter().map(|kernel| -shorter(kernel)));
            expected.is_all_of(comparison, KernelClass::Gemm);
            let changed = &comparison.kernels[0];
            assert_eq!(changed.fate(), Fate::Replaced);
            assert_eq!(changed.names.after, [name]);
            let (reason, time, share) = reason(comparison);
            let launches = Count(measured.len() as f64 / STEPS as f64);
            let class = KernelClass::Gemm;
            assert_eq!(reason, Reason::Replaced { class, launches });
            assert!(
                time == expected.mean && (share - 1.0).abs() < 1e-9,
                "{time:?} {share}"
            );
        },
    );
}

/// A packed file with a step in the range `eager` and replays of it in `decode_step`: a capture of each, with this file.
fn eager_and_replayed(packed: &Path, name: &str) -> Pair<Capture> {
    let folder = tempfile::tempdir().unwrap();
    let file = zstd::decode_all(fs::File::open(packed).unwrap()).unwrap();
    let [before, after] = ["eager", "decode_step"].map(|range| {
        let bundle = folder.path().join(range);
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join(name), &file).unwrap();
        let rule = format!("[[stages]]\nname = \"step\"\nmatch = \"{range}\"\n");
        fs::write(bundle.join("workload.toml"), rule).unwrap();
        rooflens::open([bundle]).unwrap()
    });
    Pair { before, after }
}

/// One export with a step that ran eagerly and was replayed as a CUDA graph: the same kernels in the same order.
#[test]
fn a_step_in_a_graph_has_the_kernels_of_the_eager_one() {
    let packed = fs::read_dir(path("h200-cuda-graph/nsys-node")).unwrap();
    let mut exports = packed.map(|entry| entry.unwrap().path());
    let export = exports.find(|path| path.extension().is_some_and(|end| end == "zst"));
    let captures = eager_and_replayed(&export.unwrap(), "timeline.sqlite");
    let comparison = comparison_of(&captures, &[]);
    let conditions = comparison.conditions.iter();
    let subjects: Vec<Subject> = conditions.map(|condition| condition.subject).collect();
    assert_eq!(subjects, [Subject::GraphMode]);
    let kernels = &comparison.kernels;
    assert!(kernels.iter().all(|change| change.fate() == Fate::Kept));
    // 8 blocks: by SQL, 9 kernels by name and 88 launches in the range, and in each replay.
    assert_eq!(kernels.len(), 9);
    let launches = |side: fn(&Pair<Use>) -> Use| -> f64 {
        let all = kernels.iter().map(|change| side(&change.used).launches.0);
        all.sum()
    };
    assert_eq!(
        (launches(|used| used.before), launches(|used| used.after)),
        (88.0, 88.0)
    );
}

/// Kernels of a replay have neither ranges nor operators: those of the eager step count.
#[test]
fn replayed_kernels_are_in_the_rows_of_the_eager_modules_and_operators() {
    let trace = path("h200-graph-ranges/torch/trace.pt.trace.json.zst");
    let captures = eager_and_replayed(&trace, "trace.pt.trace.json");
    let comparison = comparison_of(&captures, &[]);
    let mut rows: Vec<(&str, &str, &str, f64, f64)> = Vec::new();
    for change in &comparison.origins {
        let [operator, shapes] = change.operator.as_ref().unwrap();
        let Pair { before, after } = change.used;
        let launches = (before.launches.0, after.launches.0);
        let module = change.module.as_deref().unwrap();
        rows.push((module, operator, shapes, launches.0, launches.1));
    }
    rows.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
    // By Python: the range and the innermost operator around each launch of the eager step; 36 kernels in each replay.
    let expected = [
        ("mix", "aten::_fused_rms_norm", "[[64,1024],[],[],[]]", 4.0),
        ("mix", "aten::add", "[[64,1024],[64,1024],[]]", 4.0),
        ("mix", "aten::mm", "[[64,1024],[1024,1024]]", 4.0),
        ("mlp", "aten::_fused_rms_norm", "[[64,1024],[],[],[]]", 4.0),
        ("mlp", "aten::add", "[[64,1024],[64,1024],[]]", 4.0),
        ("mlp", "aten::gelu", "[[64,4096],[]]", 4.0),
        ("mlp", "aten::mm", "[[64,1024],[1024,4096]]", 4.0),
        ("mlp", "aten::mm", "[[64,4096],[4096,1024]]", 8.0),
    ];
    let launched = expected
        .map(|(module, operator, shapes, launches)| (module, operator, shapes, launches, launches));
    assert_eq!(rows, launched);
}

/// Whatever differs, explanations sum to the change of an iteration, and both waterfalls to that of their times.
#[test]
fn explanations_and_waterfalls_of_unlike_captures_sum_to_the_change() {
    for (before, after) in [
        ("h200-llama-1b", "h200-llama-8b"),
        ("h200x2-ddp", "h200x2-fsdp"),
        ("h200-cuda-graph/nsys-graph", "h200-cuda-graph/nsys-node"),
        ("h200-cuda-graph/nsys-node", "h200-graph-ranges"),
    ] {
        let [first, second] = [before, after].map(|name| rooflens::open([path(name)]).unwrap());
        let captures = Pair {
            before: first,
            after: second,
        };
        let comparison = comparison_of(&captures, &Subject::ALL);
        check_explanations(&comparison);
        assert!(!comparison.explanations.is_empty(), "{before} {after}");
    }
}

fn check_explanations(comparison: &Comparison) {
    let capture = comparison.waterfall_of_capture();
    let sum: Ns = capture.steps.iter().map(|step| step.time).sum();
    assert_eq!(capture.time.before + sum, capture.time.after);
    let mut stages: Vec<&str> = comparison
        .explanations
        .iter()
        .filter(|row| row.explained == Explained::Iteration)
        .map(|row| row.stage.as_str())
        .collect();
    stages.dedup();
    for stage in stages {
        let waterfall = comparison.waterfall(stage).unwrap();
        let sum: Ns = waterfall.steps.iter().map(|step| step.time).sum();
        assert_eq!(waterfall.time.before + sum, waterfall.time.after);
        let rows = comparison
            .explanations
            .iter()
            .filter(|row| row.stage == stage && row.explained == Explained::Iteration);
        let explained: f64 = rows.map(|row| row.time.0).sum();
        assert!(
            (explained - sum.0 as f64).abs() <= 1.0,
            "{stage}: {explained} {sum:?}"
        );
    }
}
