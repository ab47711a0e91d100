//! The first pages: which actions they show, and what figures are left after them.

use super::*;
use crate::evidence::Evidence;
use proptest::prelude::*;
use rooflens_analysis::engine::classify::{KernelClass, KernelIdentity};
use rooflens_analysis::operators::chains::ChainKind;
use rooflens_analysis::testing::{trace, with_results};
use rooflens_analysis::time::account::{Iterations, Node, NodeKind, Phase, Work};
use rooflens_document::{Block, Dataset, Gain, GainKind, Part, Root, SectionContent};

/// The blocks and tables of the summary.
fn summary(evidence: &Evidence<'_>, findings: &[Finding]) -> SectionContent {
    crate::summary::summary(evidence, findings, &[]).0
}

fn summarize(made: &Made, rules: &[&Rule]) -> SectionContent {
    let evidence = made.evidence();
    let found = rules.iter().flat_map(|rule| {
        let own = made.found(rule).into_iter();
        own.map(|one| named(Catalogue::english(), rule, one))
            .collect::<Vec<_>>()
    });
    summary(&evidence, &found.collect::<Vec<_>>())
}

/// The cells of a column as files hold them.
fn column(findings: &SectionContent, table: &str, column: &str) -> Vec<String> {
    let is_it = |dataset: &&Dataset| dataset.id == table;
    let dataset = findings
        .datasets
        .iter()
        .find(is_it)
        .expect("the table is there");
    let at = dataset
        .columns
        .iter()
        .position(|one| one.id == column)
        .expect("the column is there");
    dataset.rows.iter().map(|row| row[at].plain()).collect()
}

/// 10 iterations of 1000 ns, busy for 300 of them and launching for 600. Unprofiled 40 steps take 7000 ns, so that 4
/// take 700: at most 400 can be saved, and a step takes 175 ns now and 75 after that.
fn launching() -> Made {
    launching_unprofiled(&[6900, 7000, 7100])
}

fn launching_unprofiled(repeats: &[i64]) -> Made {
    let mut made = decode().steps(4.0).idle(Cause::Launching, 600.0);
    made = made.repeats("decode", "baseline", Some(40), repeats);
    made.stages[0].busy = Time(300.0);
    made
}

#[test]
fn figures_are_those_of_one_step_without_the_profiler() {
    let findings = summarize(&launching(), &[rule("launch-bound")]);
    assert_eq!(column(&findings, "summary_figures", "now"), ["175"]);
    assert_eq!(column(&findings, "summary_figures", "after_1"), ["75"]);
    assert_eq!(column(&findings, "summary_figures", "after_2"), [""]);
    assert_eq!(column(&findings, "summary_figures", "unit"), ["ns"]);
    let cards = findings.blocks.iter().find_map(|block| match block {
        Block::Actions(cards) => Some(cards),
        _ => None,
    });
    // The second fact of a card is why.
    let (_, why) = &cards.expect("actions")[0].facts[1];
    let said = words(why);
    assert!(
        said.starts_with("summary.stage_line{stage=decode, now=175 ns, after=75.0 ns, step="),
        "{said}"
    );
}

fn confidence(made: &Made, rule: &Rule) -> String {
    column(&summarize(made, &[rule]), "summary_actions", "confidence").remove(0)
}

#[test]
fn confidence_needs_three_iterations_and_three_warm_repeats_that_scatter_little() {
    let of = |made: &Made| confidence(made, rule("launch-bound"));
    // Of three resampled values two are the least in 7 of 27 cases: the interval is all of 6900 to 7100.
    let high = "summary.high{why=summary.capped{count=10, repeats=3, within=summary.range{low=98.6 %, high=101 %}}}";
    assert_eq!(of(&launching()), high);
    let mut few = launching();
    (few.stages[0].counted, few.stages[0].of_loop) = (Count(2.0), Time(1400.0));
    assert_eq!(
        of(&few),
        "summary.medium{why=summary.capped{count=2, repeats=3, within=summary.range{low=98.6 %, high=101 %}}}"
    );
    let profiled = decode().idle(Cause::Launching, 600.0);
    assert_eq!(
        of(&profiled),
        "summary.medium{why=summary.profiled{count=10}}"
    );
    let one = launching_unprofiled(&[7000]);
    let medium = "summary.medium{why=summary.capped{count=10, repeats=1}}";
    assert_eq!(of(&one), medium);
    // A cold first repeat is no scatter: 7000 ± 100 remain.
    let cold = launching_unprofiled(&[30_000, 6900, 7000, 7100]);
    assert!(of(&cold).starts_with("summary.high{"), "{}", of(&cold));
    // 400 of 700 ns are 57.1 %, half of it 28.6 %: 2100 of 7000 are 30 %.
    let wide = launching_unprofiled(&[4900, 7000, 9100]);
    assert!(of(&wide).starts_with("summary.medium{"), "{}", of(&wide));
    // 4100 of 7000 are 58.6 %.
    let scattered = launching_unprofiled(&[2900, 7000, 11_100]);
    let low = "summary.low{why=summary.scattered{within=summary.range{low=41.4 %, high=159 %}}}";
    assert_eq!(of(&scattered), low);
}

/// A bound of a model is none that a clock measured, however often.
#[test]
fn confidence_in_a_model_is_medium() {
    let made = prefill().busy(0.9).utilization(0.36, 0.0);
    let medium = "summary.medium{why=summary.modeled}";
    assert_eq!(confidence(&made, rule("low-mfu")), medium);
}

/// What an unprofiled repeat shows, too, was seen twice; what none of two shows may be the profiler's, what none of three
/// shows is.
#[test]
fn confidence_in_stalls_is_by_the_captures_that_show_them() {
    let stalls = || {
        let typical = [50.0; 9];
        let made = decode().each(Cause::HostCode, &[&typical[..], &[1550.0]].concat());
        made.gaps(Cause::HostCode, 9)
    };
    let of = |made: &Made| confidence(made, rule("host-pauses"));
    let profiled = "summary.medium{why=summary.profiled{count=10}}";
    assert_eq!(of(&stalls()), profiled);
    let repeats = |times: &[i64]| {
        stalls()
            .steps(1.0)
            .repeats("decode", "baseline", Some(1), times)
    };
    let seen = "summary.medium{why=summary.seen{captures=2}}";
    assert_eq!(of(&repeats(&[31, 30, 90, 29, 30])), seen);
    let unseen = "summary.low{why=summary.unseen}";
    assert_eq!(of(&repeats(&[29, 31])), unseen);
    let is_action = |made: &Made| {
        let summary = summarize(made, &[rule("host-pauses")]);
        let mut datasets = summary.datasets.iter();
        datasets.any(|one| one.id == "summary_actions")
    };
    assert!(is_action(&repeats(&[29, 31])));
    assert!(!is_action(&repeats(&[29, 31, 30])));
    // A slow first repeat shows first use.
    assert!(!is_action(&repeats(&[90, 31, 30, 29, 30])));
    // A repeat that is 3 % slower than the others shows no stall.
    assert!(!is_action(&repeats(&[1000, 1001, 1000, 999, 1030])));
    // Loops of unknown length, too, show that none is slow.
    let loops = stalls().repeats("decode", "baseline", None, &[29, 31, 30]);
    assert!(!is_action(&loops));
}

/// Two ranks that do alike are one finding.
#[test]
fn ranks_that_do_alike_are_told_once() {
    let found = |rank: u32, saved: f64| Finding {
        id: "low-mfu",
        scope: Scope {
            rank: Some(rank),
            ..scope("nsys", "backward")
        },
        gain: Some(Gain {
            saved_ns: Time(saved),
            of_ns: Time(1000.0),
            of: String::new(),
            basis: String::new(),
            kind: GainKind::Work,
        }),
        ..Finding::default()
    };
    let made = decode();
    let told = crate::by_stage(&made.evidence(), vec![found(1, 400.0), found(0, 380.0)]);
    assert_eq!(told.len(), 1);
    assert_eq!(
        words(&told[0].statement),
        "findings.also_rank{rank=0, saved=380 ns, share=38.0 %}"
    );
    let mut other = found(0, 380.0);
    other.scope.stage = Some("forward".to_owned());
    assert_eq!(
        crate::by_stage(&made.evidence(), vec![found(1, 400.0), other]).len(),
        2
    );
}

/// Idle time and a copy of 250 ns are different parts of an iteration: of 700 ns, 300 and then 50 remain, in 4 steps.
#[test]
fn actions_on_different_parts_of_a_stage_add_up() {
    let made = launching().copies(&[(CopyKind::HostToDevice, MemoryKind::Pinned, 8, 250, 250)]);
    let findings = summarize(&made, &[rule("launch-bound"), rule("exposed-copies")]);
    assert_eq!(column(&findings, "summary_actions", "number"), ["1", "2"]);
    assert_eq!(column(&findings, "summary_figures", "after_1"), ["75"]);
    assert_eq!(column(&findings, "summary_figures", "after_2"), ["12.5"]);
}

/// A finding of a stage that saves these parts of an iteration of 1000 ns, and idle time up to `saved`.
fn shortens(id: &'static str, kind: GainKind, saved: f64, parts: &[(Part, f64)]) -> Finding {
    let parts = parts.iter().map(|(part, saved)| (*part, Time(*saved)));
    Finding {
        id,
        severity: Severity::Warning,
        scope: scope("nsys", "decode"),
        weight_ns: Time(saved),
        gain: Some(Gain {
            saved_ns: Time(saved),
            of_ns: Time(1000.0),
            of: String::new(),
            basis: String::new(),
            kind,
        }),
        parts: parts.collect(),
        ..Finding::default()
    }
}

/// An iteration of 1000 ns is idle for 700. Waits cost all of that and 200 of operations that go with them; another form
/// needs 250 less of the operations, and 600 less of the waits. Both leave 50: operations are no idle time.
#[test]
fn what_operations_still_take_stays() {
    let mut made = decode();
    made.stages[0].busy = Time(300.0);
    let waits = shortens("sync-bound", GainKind::Idle, 900.0, &[]);
    let another_form = [(Part::Group(ChainKind::Experts as u8), 250.0)];
    let experts = shortens("expert-loop", GainKind::Work, 850.0, &another_form);
    let content = summary(&made.evidence(), &[waits, experts]);
    assert_eq!(column(&content, "summary_actions", "rule").len(), 2);
    let last = column(&content, "summary_figures", "after_2");
    assert_eq!(last, ["50"]);
}

/// An iteration of 1000 ns without idle time: 750 of kernels, 250 of copies that they could hide. Without 600 of the kernels
/// only 150 hide a copy: the 250 of copies stay.
#[test]
fn work_that_goes_hides_no_copies() {
    let mut made = decode();
    (made.stages[0].busy, made.stages[0].busy_share) = (Time(1000.0), Ratio::ONE);
    let grids = shortens(
        "small-grids",
        GainKind::Work,
        600.0,
        &[(Part::Kernel(0), 600.0)],
    );
    let copies = shortens(
        "exposed-copies",
        GainKind::Work,
        250.0,
        &[(Part::Copies, 250.0)],
    );
    let content = summary(&made.evidence(), &[grids, copies]);
    assert_eq!(column(&content, "summary_figures", "after_1"), ["400"]);
    assert_eq!(column(&content, "summary_figures", "after_2"), ["250"]);
}

/// An iteration of 1000 ns is idle for 900, and the host needs 250 to issue its launches. Two causes between launches take 500
/// and 400: 250 stay. A cause of 800 alone leaves 200, and launches as one graph leave what operations take.
#[test]
fn the_host_still_issues_its_launches() {
    let after = |saved: &[(&'static str, f64)]| {
        let mut made = decode();
        made.stages[0].busy = Time(100.0);
        let idle = |(id, saved): &(&'static str, f64)| shortens(id, GainKind::Idle, *saved, &[]);
        let findings: Vec<Finding> = saved.iter().map(idle).collect();
        let mut evidence = made.evidence();
        evidence.stages[0].issuing = Time(250.0);
        let content = summary(&evidence, &findings);
        let last = format!("after_{}", saved.len());
        column(&content, "summary_figures", &last).remove(0)
    };
    assert_eq!(after(&[("new-shapes", 500.0), ("first-use", 400.0)]), "250");
    assert_eq!(after(&[("new-shapes", 800.0)]), "200");
    assert_eq!(
        after(&[("new-shapes", 500.0), ("launch-bound", 400.0)]),
        "100"
    );
}

/// A prefill of 1000 ns is busy for 900, a decode of 1000 ns for 100 while the host works for all but `beyond` of it.
#[test]
fn faster_gpus_shorten_gpu_time_and_hardly_what_waits_for_the_cpu() {
    let said = |beyond: [f64; 2]| {
        let mut made = prefill().stage("decode", StageKind::Decode, 1000.0, 20_000.0);
        (made.stages[0].busy, made.stages[1].busy) = (Time(900.0), Time(100.0));
        let mut evidence = made.evidence();
        for (stage, beyond) in evidence.stages.iter_mut().zip(beyond) {
            stage.is_host_bound = beyond < 1000.0;
            stage.beyond_host = Time(beyond);
        }
        let content = summary(&evidence, &[]);
        let prose = content.blocks.iter().filter_map(|block| match block {
            Block::Prose(text) => Some(words(text)),
            _ => None,
        });
        let mut said = prose.filter(|text| text.contains("faster"));
        said.next().unwrap_or_default()
    };
    let of_prefill = said([1000.0, 249.0]);
    for argument in ["share=45.0 %", "stages=prefill", "bound=decode"] {
        assert!(of_prefill.contains(argument), "{of_prefill}");
    }
    // A quarter of decode is more than hardly any of it.
    for beyond in [250.0, 1000.0] {
        let of_both = said([1000.0, beyond]);
        assert!(of_both.contains("share=50.0 %"), "{of_both}");
        assert!(!of_both.contains("bound="), "{of_both}");
    }
    let of_none = said([0.0, 0.0]);
    assert!(of_none.starts_with("summary.not_faster"), "{of_none}");
}

proptest! {
    /// An iteration of 1000 ns with three kernels and a copy. Each action shortens a part, and some idle time.
    #[test]
    fn actions_leave_the_least_time_of_each_part(
        times in prop::array::uniform4(1_u32..200),
        actions in prop::collection::vec((0_usize..4, 0.0..1.0_f64, 0_u32..200), 1..6),
    ) {
        let ids = ["gemm-roofline", "gemm-alignment", "small-grids", "bank-conflicts", "exposed-copies"];
        let busy = f64::from(times.iter().sum::<u32>());
        let mut made = decode();
        made.stages[0].busy = Time(busy);
        let (mut least, mut findings) = (times.map(f64::from), Vec::new());
        let mut idle = 0.0;
        for ((part, share, waits), id) in actions.iter().zip(ids) {
            let time = f64::from(times[*part]);
            let (kept, waits) = (time * share, f64::from(*waits));
            least[*part] = least[*part].min(kept);
            idle += waits;
            let shortened = match part {
                3 => Part::Copies,
                kernel => Part::Kernel(*kernel as u32),
            };
            let saved = time - kept;
            findings.push(shortens(id, GainKind::Work, saved + waits, &[(shortened, saved)]));
        }
        let least = least.iter().sum::<f64>() + (1000.0 - busy - idle).max(0.0);
        let content = summary(&made.evidence(), &findings);
        let cells = |name: &str| column(&content, "summary_figures", name).remove(0).parse::<f64>();
        let mut before = cells("now").expect("a number");
        for after in ["after_1", "after_2", "after_3"].map(cells).into_iter().flatten() {
            prop_assert!(after <= before && after >= least - 1e-6, "{before} {after} {least}");
            before = after;
        }
    }
}

/// Two findings of 200 and 150 ns on one kernel are one saving of 200; on two kernels they are 350.
#[test]
fn actions_on_the_same_kernel_save_its_time_once() {
    let shortened =
        |id, kernel, saved| shortens(id, GainKind::Work, saved, &[(Part::Kernel(kernel), saved)]);
    let mut made = decode();
    made.stages[0].busy = Time(400.0);
    let evidence = made.evidence();
    let figures = |second| {
        let findings = [
            shortened("gemm-alignment", 1, 200.0),
            shortened("gemm-roofline", second, 150.0),
        ];
        let content = summary(&evidence, &findings);
        let cells = |name| column(&content, "summary_figures", name);
        (cells("now"), cells("after_1"), cells("after_2"))
    };
    let texts = |texts: [&str; 1]| texts.map(str::to_owned).to_vec();
    // The second one adds nothing, and is no action.
    assert_eq!(figures(1), (texts(["1000"]), texts(["800"]), texts([""])));
    assert_eq!(
        figures(2),
        (texts(["1000"]), texts(["800"]), texts(["650"]))
    );
}

/// Nodes of one stage that holds 1000 ns, as its leaves.
fn nodes(leaves: &[(NodeKind, i64)]) -> Vec<Node> {
    let phase = Phase::Stage {
        stage: 0,
        process: ProcessId(0),
        iterations: Iterations::Steady,
    };
    let stage = (None, NodeKind::Phase(phase), 1000);
    let leaves = leaves.iter().map(|(kind, time)| (Some(0), *kind, *time));
    let nodes = std::iter::once(stage).chain(leaves);
    let node = |(parent, kind, time)| Node {
        parent,
        kind,
        time: Ns(time),
        parts: None,
    };
    nodes.map(node).collect()
}

/// 900 of 1000 ns in a kernel and 100 idle for unknown cause: without an action each has a reason, with one on the kernel
/// the idle time alone has.
#[test]
fn large_leaves_without_an_action_have_a_reason() {
    let mut made = decode().idle(Cause::Unknown, 100.0);
    made.stages[0].busy = Time(900.0);
    let kernel = made.kernel("gemm", KernelIdentity::default());
    made.known.idle.as_mut().expect("idle time").account.nodes = nodes(&[
        (NodeKind::Work(Work::Kernel(kernel)), 900),
        (NodeKind::Cause(Cause::Unknown), 100),
    ]);
    let reasons = |findings: &[Finding]| {
        let content = summary(&made.evidence(), findings);
        (
            column(&content, "no_action", "share"),
            column(&content, "no_action", "reason"),
        )
    };
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    let unknown = "no_action.unknown";
    let both = (
        texts(&["0.9", "0.1"]),
        texts(&["no_action.no_counters", unknown]),
    );
    assert_eq!(reasons(&[]), both);
    let shorter = [(Part::Kernel(kernel.0), 400.0)];
    let action = shortens("gemm-roofline", GainKind::Work, 400.0, &shorter);
    assert_eq!(reasons(&[action]), (texts(&["0.1"]), texts(&[unknown])));
}

/// Attention takes 600 of 1000 ns in two kernels: the title of an action that saves 4 % of the time names it, that of one
/// that saves 10 % does not.
#[test]
fn a_title_names_the_largest_class_if_actions_save_little() {
    let mut made = decode().idle(Cause::Unknown, 100.0);
    made.stages[0].busy = Time(900.0);
    let attention = KernelIdentity {
        class: KernelClass::Attention,
        ..KernelIdentity::default()
    };
    let forward = made.kernel("forward", attention.clone());
    let backward = made.kernel("backward", attention);
    let copy = made.kernel("copy", KernelIdentity::default());
    made.known.idle.as_mut().expect("idle time").account.nodes = nodes(&[
        (NodeKind::Work(Work::Kernel(forward)), 300),
        (NodeKind::Work(Work::Kernel(backward)), 300),
        (NodeKind::Work(Work::Kernel(copy)), 300),
        (NodeKind::Cause(Cause::Unknown), 100),
    ]);
    let names_attention = |saved: f64| {
        let parts = [(Part::Kernel(copy.0), saved)];
        let action = shortens("gemm-roofline", GainKind::Work, saved, &parts);
        let title = summary(&made.evidence(), &[action]).conclusion;
        title
            .expect("a title")
            .contains("part=attention, share=60.0 %")
    };
    assert!(names_attention(40.0));
    assert!(!names_attention(100.0));
}

#[test]
fn without_a_finding_it_says_so() {
    let findings = summarize(&decode(), &[]);
    let Some(Block::Prose(said)) = findings.blocks.first() else {
        panic!("no conclusion")
    };
    assert!(words(said).contains("summary.no_action"));
}

#[test]
fn each_rule_that_may_save_time_has_its_line() {
    let keys: Vec<&str> = Catalogue::english().keys().map(|(key, _)| key).collect();
    let about_run = rules().filter(|rule| rule.id != "stage-busy" && !rule.on_measurement);
    for rule in about_run {
        for part in ["do", "if", "cause"] {
            let key = format!("{}.{part}", rule.id.replace('-', "_"));
            assert!(keys.contains(&key.as_str()), "{key}");
        }
    }
}

/// 360 of 1000 ns are needed at the peak. The GPU is busy for 900, of which no class is known: its kernels take 540 above the
/// peak, and idle time is the rest.
#[test]
fn a_waterfall_starts_at_the_utilization() {
    let content = summarize(&prefill().busy(0.9).utilization(0.36, 0.0), &[]);
    let numbers = |name: &str| -> Vec<f64> {
        let texts = column(&content, "utilization_steps", name);
        texts
            .iter()
            .map(|text| text.parse().expect("a number"))
            .collect()
    };
    let near = |found: &[f64], expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        found.len() == expected.len() && pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9)
    };
    assert!(near(&numbers("time_ns"), &[360.0, 540.0, 100.0]));
    assert!(near(&numbers("share"), &[0.36, 0.54, 0.1]));
    // Without the FLOPs of the work there is a reason instead.
    let content = summarize(&prefill().busy(0.9), &[]);
    let missing = |block: &Block| matches!(block, Block::Missing(reason) if reason.starts_with("summary.no_fall{"));
    assert!(content.times.iter().any(missing));
}

/// Four steps of forward and backward whose operations overlap: from 10 to 500 and from 400 to 980 µs. Backward adds 480 of
/// its 580 µs, and a step takes 970 µs.
#[test]
fn stages_that_overlap_make_no_longer_step() {
    let mut text = String::new();
    for start in (0..4000).step_by(1000) {
        let time = |from: i64, to: i64| format!("{}us..{}us", start + from, start + to);
        text += &format!("range forward {}\n", time(0, 20));
        text += &format!("launch {} -> gemm {}\n", time(0, 5), time(10, 500));
        text += &format!("range backward {}\n", time(30, 60));
        text += &format!("launch {} -> gather {}\n", time(30, 35), time(400, 510));
        text += &format!("launch {} -> gemm {}\n", time(40, 45), time(510, 980));
    }
    with_results(&trace(&text), |context| {
        let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
        let stages = evidence.stages.iter();
        let times: Vec<_> = stages
            .map(|stage| (stage.time.0, stage.alone().0))
            .collect();
        assert_eq!(times, [(490e3, 490e3), (580e3, 480e3)]);
        // Four steps with 30 µs between them.
        assert_eq!(evidence.loop_time(), Time(3_970e3));
        let content = summary(&evidence, &[]);
        let tiles = column(&content, "summary_tiles", "value");
        assert_eq!(tiles[0], "970000");
    });
}

/// A request is a prefill of 1000 µs and four decode ranges of 950: 4800 µs, as the run has four for each prefill. The
/// capture program excluded a decode range of 3000 µs: the first request takes 2050 µs more. Of five excluded ranges the first
/// four are of that request: 2050 + 3 · 1000 µs more, and not 4000 of a second request. With one excluded range, the other
/// three are the first repeats: 2050 + 50 + 2 · 0.
#[test]
fn each_range_of_decode_counts_in_a_request() {
    let mut text = String::new();
    for (at, stage) in (0..5).zip(["prefill", "decode", "decode", "decode", "decode"]) {
        let (start, end) = (at * 1000, at * 1000 + 900);
        let (call, kernel) = (start + 10, start + 20);
        text += &format!(
            "range {stage} {start}us..{end}us
             launch {call}us..{kernel}us -> axpy {kernel}us..{end}us\n"
        );
    }
    let mut session = trace(&text);
    add_repeats(&mut session, ("prefill", "baseline"), None, &[1_000_000]);
    add_repeats(&mut session, ("decode", "baseline"), None, &[950_000; 4]);
    let [baseline, decode] = ["baseline", "decode"].map(|text| session.intern(text));
    let tiles = |session: &mut Session, excluded: &[i64]| {
        let times = excluded.iter().copied().map(Ns).collect();
        session.excluded_repeats = vec![(baseline, decode, times)];
        with_results(session, |context| {
            let evidence = Evidence::new(context, Catalogue::keys_and_arguments());
            let content = summary(&evidence, &[]);
            column(&content, "summary_tiles", "value")[..2].to_vec()
        })
    };
    let of_one = tiles(&mut session, &[3_000_000]);
    assert_eq!(of_one, ["4800000", "6850000"]);
    let of_two = [3_000_000, 1_950_000, 1_950_000, 1_950_000, 4_950_000];
    assert_eq!(tiles(&mut session, &of_two), ["4800000", "9850000"]);
    session.timings.duration[1] = Ns(1_000_000);
    let with_repeats = tiles(&mut session, &[3_000_000]);
    assert_eq!(with_repeats, ["4800000", "6900000"]);
    // Each range is one step, whatever the workload makes in a request.
    session.timings.steps[1..].fill(Some(1));
    session.workload.output_tokens = Some(16);
    let of_steps = tiles(&mut session, &[3_000_000]);
    assert_eq!(of_steps, with_repeats);
}

/// Of 1000 ns, kernels that can be fused take 400: chains of a normalization are 220 of them, and 10 of idle time go with
/// their launches. What saves 400 holds these and leaves 600 on all pages; a general finding of 240 adds 20 to its cause, which
/// is no action of its own.
#[test]
fn a_general_action_comes_before_the_causes_that_it_includes() {
    let mut made = decode();
    made.stages[0].busy = Time(900.0);
    let evidence = made.evidence();
    let rules = |id: &'static str, kind: ChainKind, saved: f64| {
        let general = Finding {
            is_general: true,
            ..shortens("low-mfu", GainKind::Work, saved, &[])
        };
        let chains = [(Part::Group(kind as u8), 220.0)];
        let cause = shortens(id, GainKind::Work, 230.0, &chains);
        let content = summary(&evidence, &[cause, general]);
        let after = column(&content, "summary_figures", "after_1");
        (column(&content, "summary_actions", "rule"), after)
    };
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rules("norm-unfused", ChainKind::Norm, 400.0),
        (texts(&["low-mfu"]), texts(&["600"]))
    );
    assert_eq!(
        rules("norm-unfused", ChainKind::Norm, 240.0),
        (texts(&["norm-unfused"]), texts(&["770"]))
    );
    // A compiler does not change the layout.
    let layout = rules("layout-conversions", ChainKind::Channels, 400.0);
    assert_eq!(
        layout,
        (texts(&["layout-conversions", "low-mfu"]), texts(&["770"]))
    );
}

/// Graphs save 600 of 700 ns of idle time, and fusing 200 of 300 ns of kernels. One call of torch.compile does both: one action
/// leaves 200 of 1000 ns. Graphs after a plain call are another change.
#[test]
fn actions_of_one_call_are_one() {
    let mut made = decode();
    made.session.kernel("void at::native::copy<float>(T1)", "");
    made.stages[0].busy = Time(300.0);
    let evidence = made.evidence();
    let finding = |id: &'static str, kind: GainKind, action: &str, saved: f64| Finding {
        root: Some(Root {
            action: action.to_owned(),
            ..Root::default()
        }),
        ..shortens(id, kind, saved, &[])
    };
    let actions = |fused: f64| {
        let graphs = finding("launch-bound", GainKind::Idle, "reduce-overhead", 600.0);
        let fusing = finding("low-mfu", GainKind::Work, "compile", fused);
        let content = summary(&evidence, &[graphs, fusing]);
        let saved = column(&content, "summary_actions", "run_saved_ns");
        (saved, column(&content, "summary_figures", "after_1"))
    };
    let texts = |text: &str| vec![text.to_owned()];
    assert_eq!(actions(200.0), (texts("800"), texts("200")));
    assert_eq!(actions(700.0).0.len(), 2);
    // A KV cache of fixed size ends the stalls of new key lengths, and no others.
    let with_stalls = |action: &str| {
        let graphs = finding(
            "launch-bound",
            GainKind::Idle,
            "cache_implementation",
            600.0,
        );
        let stalls = finding("host-pauses", GainKind::Stalls, action, 300.0);
        let content = summary(&evidence, &[graphs, stalls]);
        column(&content, "summary_actions", "also")
    };
    assert_eq!(with_stalls("enable_cudnn_sdp"), ["host-pauses"]);
    assert_eq!(with_stalls("gc.freeze"), ["", ""]);
}
