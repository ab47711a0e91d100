//! A report made by hand: every kind of block and chart, long tables, names that try to break out.

use rooflens::diagnostic::{Diagnostic, Location, Severity};
use rooflens::document::catalogue::{HOST_TIME, MBU, MFU};
use rooflens::document::chart::{
    Bar, Ceiling, Color, Dots, Event, Fall, Flame, FlameFrame, Iteration, Lane, Panel, Part, Plot,
    Point, Roofline, Scatter, Series, StackedBars, Waterfall,
};
use rooflens::document::{
    ActionCard, Block, Catalogue, Cell, Chart, Column, Dataset, Finding, Gain, GainKind, Inline,
    Method, Quantity, Query, Tile, View,
};
use rooflens::report::{Meta, Report, Section};
use rooflens::session::Ns;
use rooflens_schemas::{Evidence, Scope, Tool, Unit};
use rooflens_units::{Ratio, Time};

/// A name that tries to be markup in every format, and to reorder the text around it.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script> | #eval(\"x\") $\\alpha$ `tick` *b* _u_ [l](http://e.x) \u{202e}txet\u{7}";

/// A kernel name of more than 300 characters.
pub(crate) fn long_name(n: usize) -> String {
    format!(
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel_{n}<{}>(int, float, {})",
        "cutlass::gemm::GemmShape<128, 256, 64>, ".repeat(5),
        "const __nv_bfloat16 *, ".repeat(4),
    )
}

/// The sample.
pub(crate) fn report() -> Report {
    Report {
        text: Catalogue::english(),
        meta: meta(),
        summary: summary(),
        notes: notes(),
        sections: sections(),
        appendix: appendix(),
        metrics: metrics(),
        datasets: vec![kernels(), stages()],
        only_in_csv: None,
        data_quality: data_quality(),
        methods: methods(),
    }
}

fn notes() -> Vec<Block> {
    vec![
        Block::Heading(HOSTILE.to_owned()),
        Block::Prose(vec![
            "The first ".into(),
            Quantity::ns(Ns(5_120)).into(),
            " are noise.".into(),
        ]),
        Block::Bullets(vec![vec!["- one".into()], vec![HOSTILE.into()]]),
        Block::List(vec![vec!["1. one".into()], vec![HOSTILE.into()]]),
        Block::Code(format!("```\n{HOSTILE}\n\tlast")),
    ]
}

fn summary() -> Vec<Block> {
    let said = verdict().into_iter().map(|one| one.statement).collect();
    let what_to_do = [Block::List(said), tiles(), actions()];
    headline().into_iter().chain(what_to_do).collect()
}

fn tiles() -> Block {
    let time = |ns: f64| Quantity::new(ns, Unit::Nanoseconds);
    Block::Tiles(vec![Tile {
        label: HOSTILE.to_owned(),
        now: time(1.36e9),
        others: vec![("hardware limit".to_owned(), time(3.56e8))],
    }])
}

fn actions() -> Block {
    Block::Actions(vec![ActionCard {
        what: vec!["Launch with CUDA graphs".into()],
        snippet: Some(format!("model = compile({HOSTILE:?})")),
        facts: vec![("Saves".to_owned(), vec![HOSTILE.into()])],
        finding: "launch-bound",
    }])
}

fn meta() -> Meta {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Meta {
        title: "Example 8B, bfloat16, batch 8: 512 in, 128 out".to_owned(),
        bundle: "h200-example-8b".to_owned(),
        bundle_id: "4f0c1d2e3b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0".to_owned(),
        captured_at: Some("2026-03-01T12:34:56.789Z".to_owned()),
        generator: Tool {
            name: "rooflens".to_owned(),
            version: Some("0.1.0".to_owned()),
        },
        facts: vec![
            fact("GPU", "NVIDIA H200 SXM, 132 SMs, 141 GB"),
            fact("Driver", "575.57.08, CUDA 12.9"),
            fact("Model", "8.03 B parameters, 32 layers, hidden 4096"),
            fact("Passes", "baseline, nsys 2025.3, ncu 2025.2, PyTorch 2.8"),
            fact("Hostile", HOSTILE),
        ],
        ..Meta::default()
    }
}

fn evidence(artifact: &str, table: &str, rows: u64) -> Evidence {
    Evidence {
        artifact: artifact.to_owned(),
        table: Some(table.to_owned()),
        rows: Some(rows),
    }
}

fn verdict() -> Vec<Finding> {
    vec![
        Finding {
            id: "launch-bound",
            title: "Launch-bound: decode".to_owned(),
            severity: rooflens::document::Severity::Critical,
            weight_ns: Time(1.511e9),
            gain: Some(Gain {
                saved_ns: Time(1.511e9),
                of_ns: Time(3.603e9),
                of: "decode".to_owned(),
                basis: "stage time without the gaps in which the host was launching".to_owned(),
                kind: GainKind::Idle,
            }),
            next: Some(vec![
                "nsys with ".into(),
                Inline::Code("--cuda-graph-trace=node".to_owned()),
            ]),
            query: Some(Query {
                gives: vec![
                    "idle nanoseconds of instance ".into(),
                    Quantity::count(3).into(),
                ],
                sql: "SELECT SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start >= 17;"
                    .to_owned(),
            }),
            scope: Scope {
                stage: Some("decode".to_owned()),
                ..Scope::default()
            },
            statement: vec![
                "In ".into(),
                Inline::Strong("decode".to_owned()),
                " the GPU is idle for ".into(),
                Quantity::ratio(0.42).into(),
                " of the time: the host launches ".into(),
                Quantity::count(84_868).into(),
                " kernels one by one, and ".into(),
                Inline::Code("cudaLaunchKernel".to_owned()),
                " takes ".into(),
                Quantity::ns(Ns(5_120)).into(),
                " each.".into(),
            ],
            advice: Some(vec!["Capture the step as a CUDA graph.".into()]),
            evidence: vec![evidence(
                "nsys/profile.sqlite",
                "CUPTI_ACTIVITY_KIND_KERNEL",
                84_868,
            )],
            root: None,
            ..Finding::default()
        },
        Finding {
            id: "hostile",
            weight_ns: Time(1.0),
            statement: vec![
                "The kernel ".into(),
                Inline::Code(long_name(7)),
                " is slow.".into(),
            ],
            evidence: vec![evidence(HOSTILE, "KERNEL", 1)],
            title: HOSTILE.to_owned(),
            query: Some(Query {
                gives: vec![HOSTILE.into()],
                sql: HOSTILE.to_owned(),
            }),
            ..Finding::default()
        },
    ]
}

fn headline() -> Vec<Block> {
    let tile = |name: &str, value: f64, unit| {
        (
            name.to_owned(),
            vec![Inline::Quantity(Quantity::new(value, unit))],
        )
    };
    vec![
        Block::Facts(vec![
            tile("MFU, prefill", 0.412, Unit::Ratio),
            tile("MBU, decode", 0.263_51, Unit::Ratio),
            tile("Decode, per token", 28_148_437.0, Unit::Nanoseconds),
            tile("Throughput", 284.2, Unit::TokensPerSecond),
        ]),
        Block::Chart(stacked(true)),
    ]
}

fn sections() -> Vec<Section> {
    let columns = &[
        "kernel",
        "class",
        "launches",
        "total_ns",
        "share",
        "mean_ns",
        "intensity",
    ];
    vec![
        section(
            "environment",
            "Environment",
            vec![Block::Facts(vec![
                ("GPU".to_owned(), vec!["NVIDIA H200 SXM".into()]),
                (
                    "Clock".to_owned(),
                    vec![Quantity::new(1.98e9, Unit::Hertz).into()],
                ),
                (
                    "Command".to_owned(),
                    vec![Inline::Code("python bench.py --batch 8".to_owned())],
                ),
            ])],
        ),
        section(
            "stages",
            "Stages",
            vec![
                Block::Prose(vec!["Stages come from NVTX ranges.".into()]),
                Block::Table(View::new(
                    "stages",
                    "Stages",
                    &["stage", "wall_ns", "busy", "mfu", "note"],
                    9,
                )),
                Block::Chart(stacked(false)),
                Block::Chart(dots()),
                Block::Chart(flame()),
                Block::Chart(waterfall()),
                Block::Missing("no counters: capture an ncu pass".to_owned()),
            ],
        ),
        section(
            "timeline",
            "Timeline",
            vec![Block::Chart(series()), iterations()],
        ),
        section(
            "kernels",
            "Kernels",
            vec![
                Block::Heading("By total time".to_owned()),
                Block::Table(View::new("kernels", "Kernels by total time", columns, 40)),
                Block::Table(View::new("absent", "A table that is not there", &["x"], 4)),
            ],
        ),
        section(
            "roofline",
            "Roofline",
            vec![
                Block::Chart(roofline()),
                Block::Chart(scatter()),
                Block::Prose(vec![HOSTILE.into()]),
            ],
        ),
        section(
            "findings",
            "SectionContent",
            verdict()
                .into_iter()
                .map(|one| Block::Finding(Box::new(one)))
                .collect(),
        ),
    ]
}

fn appendix() -> Vec<Section> {
    let names = View::new("kernels", "Kernels by name", &["kernel", "launches"], 60);
    vec![section(
        "names-appendix",
        "Whole kernel names",
        vec![Block::Table(names)],
    )]
}

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section {
        id: id.to_owned(),
        title: title.to_owned(),
        blocks,
    }
}

fn kernel_name(n: usize) -> String {
    match n {
        0 => "nvjet_tst_192x192_64x4_1x2_h_bz_coopA_TNT".to_owned(),
        3 => HOSTILE.to_owned(),
        n if n % 3 == 0 => long_name(n),
        n => format!("triton_poi_fused_add_mul_silu_{n}"),
    }
}

fn kernels() -> Dataset {
    let row = |n: usize| {
        let total = 900_000_000 / (n as i64 + 1);
        vec![
            Cell::Name(kernel_name(n).into()),
            Cell::Text(["GEMM", "attention", "elementwise"][n % 3].into()),
            Cell::Int(84_868 / (n as i64 + 1)),
            Cell::Int(total),
            Cell::Float(total as f64 / 3.6e9),
            Cell::Float(total as f64 / 1000.0),
            if n % 5 == 4 {
                Cell::Missing
            } else {
                Cell::Float(0.25 * 1.17f64.powi(n as i32))
            },
        ]
    };
    Dataset {
        id: "kernels",
        title: "Kernels".to_owned(),
        columns: vec![
            Column::text("kernel", "Kernel"),
            Column::text("class", "Class"),
            Column::new("launches", "Launches", Unit::Count),
            Column::new("total_ns", "Total", Unit::Nanoseconds),
            Column::new("share", "Share of GPU time", Unit::Ratio),
            Column::new("mean_ns", "Mean", Unit::Nanoseconds),
            Column::new("intensity", "Arithmetic intensity", Unit::FlopPerByte),
        ],
        rows: (0..53).map(row).collect(),
    }
}

fn stages() -> Dataset {
    let note =
        "long enough to wrap: the range ends before the last kernel does, so its tail counts here";
    let row = |stage: &str, wall: i64, busy: f64, mfu: Option<f64>, note: &str| {
        vec![
            Cell::Text(stage.into()),
            Cell::Int(wall),
            Cell::Float(busy),
            Cell::from(mfu),
            Cell::Text(note.into()),
        ]
    };
    Dataset {
        id: "stages",
        title: "Stages".to_owned(),
        columns: vec![
            Column::text("stage", "Stage"),
            Column::new("wall_ns", "Wall time", Unit::Nanoseconds),
            Column::new("busy", "GPU busy", Unit::Ratio),
            Column::new("mfu", "MFU", Unit::Ratio),
            Column::text("note", "Remark"),
        ],
        rows: vec![
            row("prefill", 222_824_165, 0.981, Some(0.412), note),
            row("decode", 3_603_000_000, 0.58, Some(0.0031), ""),
            row("tokenize", 1_200_000, 0.0, None, HOSTILE),
        ],
    }
}

fn chart(id: &str, title: &str, plot: Plot) -> Chart {
    let description = format!("{title}, drawn for a test.");
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        description,
        plot,
    }
}

fn stacked(normalized: bool) -> Chart {
    let bar = |label: &str, values: &[f64], note: &str| Bar {
        label: label.to_owned(),
        values: values.to_vec(),
        note: note.to_owned(),
    };
    let plot = StackedBars {
        unit: Unit::Nanoseconds,
        normalized,
        parts: vec![
            Part::new("matrix products", Color::Gemm),
            Part::new("attention", Color::Attention),
            Part::new("norms", Color::Normalization),
            Part::new("elementwise", Color::Elementwise),
            Part::new("copies", Color::Copy),
            Part::new("communication", Color::Communication),
            Part::new("other", Color::Other),
            Part::new("sparse products", Color::Gemm),
            Part::new("idle", Color::Idle),
        ],
        bars: vec![
            bar(
                "prefill",
                &[1.2e8, 3e7, 1e7, 2e7, 5e6, 0.0, 4e6, 2e7, 1.4e7],
                "222.8 ms",
            ),
            bar(
                "decode",
                &[9e8, 2e8, 1e8, 3e8, 2e8, 1e8, 2e8, 1e8, 1.5e9],
                "3.603 s",
            ),
            bar(&HOSTILE.repeat(2), &[f64::NAN, -1.0, 0.0, 1e8], HOSTILE),
        ],
    };
    let id = if normalized {
        "stages-share"
    } else {
        "stages-time"
    };
    chart(id, "Where the time goes", Plot::StackedBars(plot))
}

fn ceiling(label: &str, value: f64, measured: bool) -> Ceiling {
    Ceiling {
        label: label.to_owned(),
        value,
        measured,
    }
}

fn points(count: usize, x: impl Fn(usize) -> f64, y: impl Fn(usize) -> f64) -> Vec<Point> {
    let colors = [
        Color::MemoryBound,
        Color::ComputeBound,
        Color::LatencyBound,
        Color::Balanced,
    ];
    (0..count)
        .map(|n| Point {
            label: kernel_name(n),
            x: x(n),
            y: y(n),
            weight: Ratio(0.3 / (n + 1) as f64),
            color: colors[n % 4],
            hollow: false,
        })
        .collect()
}

fn roofline() -> Chart {
    let x = |n: usize| {
        if n == 39 {
            0.0
        } else {
            0.3 * 1.25f64.powi((n * 7 % 31) as i32)
        }
    };
    let y = move |n: usize| (x(n) * 4.3e12).min(8e14) * [0.9, 0.5, 0.05, 0.7, 0.008][n % 5];
    let plot = Roofline {
        bandwidths: vec![
            ceiling("DRAM 4.80 TB/s (datasheet)", 4.8e12, false),
            ceiling("DRAM 4.31 TB/s (measured)", 4.31e12, true),
            ceiling("L2 11.2 TB/s (measured)", 1.12e13, true),
        ],
        rates: vec![
            ceiling("BF16 dense 989 TFLOP/s (datasheet)", 9.89e14, false),
            ceiling("BF16 743 TFLOP/s (measured)", 7.43e14, true),
            ceiling("FP32 67 TFLOP/s (datasheet)", 6.7e13, false),
        ],
        points: points(40, x, y),
        levels: Vec::new(),
    };
    chart(
        "roofline-dram",
        "Kernels on the roofline of device memory",
        Plot::Roofline(plot),
    )
}

fn scatter() -> Chart {
    let plot = Scatter {
        x_label: "Memory throughput (% of peak)".to_owned(),
        y_label: "Compute throughput (% of peak)".to_owned(),
        x_max: 100.0,
        y_max: 100.0,
        diagonal: true,
        points: points(30, |n| (n * 37 % 101) as f64, |n| (n * 53 % 97) as f64),
    };
    chart("sol", "Throughput of profiled kernels", Plot::Scatter(plot))
}

fn series() -> Chart {
    let wave =
        |n: i64| 350.0 + f64::from((n * 7919 % 257) as i32) + if n > 9_000 { 150.0 } else { 0.0 };
    let panel = |label: &str, unit, factor: f64, limit: Option<(&str, f64)>| Panel {
        label: label.to_owned(),
        unit,
        points: (0..12_000)
            .map(|n| (n * 300_000, wave(n) * factor))
            .collect(),
        limit: limit.map(|(label, value)| (label.to_owned(), value)),
    };
    let band = |label: &str, from: i64, to: i64| (label.to_owned(), from, to);
    let plot = Series {
        panels: vec![
            panel("Power", Unit::Watts, 1.0, Some(("limit 700 W", 700.0))),
            panel("SM clock", Unit::Hertz, 3e6, None),
            panel("Memory used", Unit::Bytes, 1e8, None),
        ],
        bands: vec![
            band("load", 0, 200_000_000),
            band("prefill", 200_000_000, 230_000_000),
            band("decode", 230_000_000, 3_400_000_000),
            band(HOSTILE, 3_400_000_000, 3_600_000_000),
        ],
        duration: 3_600_000_000,
    };
    chart(
        "power",
        "Power, clock and memory over time",
        Plot::Series(plot),
    )
}

fn dots() -> Chart {
    let dots = |center: f64, spread: f64| {
        let dot = |n: i32| {
            (
                center * (1.0 + spread * f64::from(n * 7 % 11 - 5) / 500.0),
                false,
            )
        };
        (0..9)
            .map(dot)
            .chain([(center * 1.09, true)])
            .collect::<Vec<_>>()
    };
    let rows = vec![
        ("prefill".to_owned(), dots(2.228e8, 1.0)),
        ("decode".to_owned(), dots(3.603e9, 2.0)),
        (
            "a stage with a name that is long enough to be cut somewhere".to_owned(),
            dots(5e4, 0.5),
        ),
    ];
    chart(
        "repeats",
        "Repeats of each stage",
        Plot::Dots(Dots {
            unit: Unit::Nanoseconds,
            rows,
        }),
    )
}

fn flame() -> Chart {
    let frame = |label: &str, depth, start, time, part| FlameFrame {
        label: label.to_owned(),
        depth,
        start: Time(start),
        time: Time(time),
        part,
    };
    let plot = Flame {
        unit: Unit::Nanoseconds,
        total: Time(1e9),
        parts: vec![Part::new("matrix products", Color::Gemm)],
        frames: vec![
            frame("decode", 0, 0.0, 1e9, None),
            frame(HOSTILE, 1, 0.0, 6e8, None),
            frame(&kernel_name(3), 2, 0.0, 2e8, Some(0)),
            frame("aten::_scaled_dot_product_attention", 2, 2e8, 1e8, None),
            frame("aten::to", 2, 3e8, 4e7, None),
            frame(HOSTILE, 2, 3.5e8, 5e7, Some(9)),
            frame("lm_head", 1, 6e8, 5e9, Some(0)),
            frame("nothing", 1, f64::NAN, f64::INFINITY, None),
        ],
    };
    chart("flame", "Device time of decode", Plot::Flame(plot))
}

fn waterfall() -> Chart {
    let part = |label: &str, change| (label.to_owned(), change);
    let plot = Waterfall {
        unit: Unit::Nanoseconds,
        falls: vec![Fall {
            before: part("before", 1.8e7),
            changes: vec![
                part(HOSTILE, 4e5),
                part(&kernel_name(3), -2e5),
                part("idle: kernel launch", -3.0),
                part("nothing", f64::NAN),
            ],
            after: part("after", 1.8e7 + 2e5 - 3.0),
        }],
    };
    chart(
        "waterfall",
        "Change of a step of decode",
        Plot::Waterfall(plot),
    )
}

fn metrics() -> Vec<rooflens_schemas::Metric> {
    let stage = |name: &str| Scope {
        stage: Some(name.to_owned()),
        ..Scope::default()
    };
    vec![
        MFU.derived(stage("prefill"), 0.412, "989 TFLOP/s, datasheet"),
        HOST_TIME.measured(stage("decode"), 3.603e9, "NVTX"),
        MBU.unavailable(stage("prefill"), "no counters"),
    ]
}

fn data_quality() -> Vec<Diagnostic> {
    let message = "events were dropped while the profiler's buffers were full";
    vec![
        Diagnostic::new(Severity::DataLoss, "nsys/dropped-events", message)
            .artifact("nsys/profile.sqlite")
            .at(Location::Table("DIAGNOSTIC_EVENT".to_owned()))
            .hint("capture a shorter range")
            .times(1_200),
        Diagnostic::new(Severity::Info, "test/hostile", HOSTILE).artifact(HOSTILE),
    ]
}

fn methods() -> Vec<Method> {
    let text = "FLOPs of the model, without recomputation, by time and peak rate.";
    vec![
        Method {
            title: "MFU".to_owned(),
            text: vec![text.into()],
        },
        Method {
            title: HOSTILE.to_owned(),
            text: vec![Inline::Code(long_name(1))],
        },
    ]
}

/// One iteration: a call at 2 µs of 5 µs launches a kernel of 31.2 µs that starts 7.5 µs later.
fn iterations() -> Block {
    let event = |name, start, duration, call| Event {
        name,
        start,
        duration,
        call,
    };
    let lane = |label: &str, event| Lane {
        label: label.to_owned(),
        events: vec![event],
    };
    let name = |name: &str, color| (name.to_owned(), color);
    Block::Iterations(vec![Iteration {
        label: HOSTILE.to_owned(),
        extent: 50_000,
        names: vec![
            name("cudaLaunchKernel", Color::Other),
            name("gemm <b>", Color::Gemm),
        ],
        lanes: vec![
            lane("CPU thread 7", event(0, 2_000, 5_000, None)),
            lane("GPU 0, stream 7", event(1, 9_500, 31_200, Some(0))),
        ],
    }])
}
