//! Environment: the GPU, the tools, the passes, and the peaks that utilization divides by.

mod peaks;

use std::collections::BTreeMap;

use rooflens_schemas::{PassKind, Unit};

use crate::analysis::{Analysis, Context};
use crate::findings::{Block, Cell, Column, Dataset, Findings, Inline, Quantity, View};
use crate::model::{GpuId, PassId, Session};
use crate::prose;

/// Environment.
pub(crate) static ANALYSIS: Analysis =
    Analysis { id: "environment", title: "Environment", missing, run };

/// The section says what is unknown, too: it is always there.
fn missing(_: &Session) -> Option<&'static str> {
    None
}

fn run(context: &Context<'_>) -> Findings {
    let session = context.session;
    let mut findings = Findings::default();
    findings.blocks.push(Block::Facts(facts(context)));
    let passes = passes(context);
    if !passes.rows.is_empty() {
        findings.blocks.push(Block::Table(View::new(
            "passes",
            "Passes: each is a run of its own on its own clock",
            &["pass", "kind", "producer", "rank", "gpu", "operations"],
            20,
        )));
    }
    findings.datasets.push(passes);
    peaks::add(context, &mut findings);
    if !session.environment.is_empty() {
        findings.appendix.push(Block::Table(View::new(
            "environment",
            "Environment as recorded",
            &["subject", "key", "value", "artifact"],
            200,
        )));
    }
    findings.datasets.push(environment(session));
    findings
}

/// GPUs that the session names, without repeats: device names with the first row that describes each.
pub(crate) fn gpus(session: &Session) -> Vec<(String, Option<GpuId>)> {
    let mut found: Vec<(String, Option<GpuId>)> = Vec::new();
    for gpu in session.gpus.ids() {
        let name = session.text(session.gpus.name[gpu.index()]);
        let known = found.iter().any(|(known, _)| known == name);
        if !name.is_empty() && !known {
            found.push((name.to_owned(), Some(gpu)));
        }
    }
    // A bundle of timings alone still names its GPU.
    let measured = session.measured_peaks.gpu.iter().map(|gpu| session.text(*gpu).to_owned());
    let stated = facts_of(session, |subject| subject.starts_with("gpu "), "name");
    if found.is_empty() {
        for name in measured.chain(stated).filter(|name| !name.is_empty()) {
            if !found.iter().any(|(known, _)| *known == name) {
                found.push((name, None));
            }
        }
    }
    found
}

/// The values of a key, in the order of the table.
fn facts_of(session: &Session, subject: impl Fn(&str) -> bool, key: &str) -> Vec<String> {
    let table = &session.environment;
    let rows = table.ids().map(|row| row.index());
    let matching = rows.filter(|row| {
        subject(session.text(table.subject[*row])) && session.text(table.key[*row]) == key
    });
    matching.map(|row| session.text(table.value[row]).to_owned()).collect()
}

fn facts(context: &Context<'_>) -> Vec<(String, Vec<Inline>)> {
    let session = context.session;
    let mut facts = Vec::new();
    for (name, gpu) in gpus(session) {
        facts.push(("GPU".to_owned(), describe_gpu(session, &name, gpu)));
    }
    if facts.is_empty() {
        facts.push(("GPU".to_owned(), prose!["unknown: no artifact names it"]));
    }
    if let Some(chosen) = &context.options.gpu {
        facts.push(("GPU chosen for peaks".to_owned(), prose![chosen.clone()]));
    }
    let stated = [
        ("Driver", "driver", "version"),
        ("CUDA of the driver", "driver", "CUDA"),
        ("PyTorch", "software", "PyTorch"),
        ("CUDA runtime", "software", "CUDA runtime"),
    ];
    for (title, subject, key) in stated {
        if let Some(value) = agreed(facts_of(session, |text| text == subject, key)) {
            facts.push((title.to_owned(), prose![value]));
        }
    }
    if let Some(tools) = agreed(producers(session)) {
        facts.push(("Profilers".to_owned(), prose![tools]));
    }
    for key in ["power limit", "MIG", "ECC"] {
        if let Some(value) = agreed(facts_of(session, |text| text.starts_with("gpu "), key)) {
            let title = if key == "power limit" { "Power limit" } else { key };
            facts.push((title.to_owned(), prose![value]));
        }
    }
    facts
}

/// All distinct values; artifacts that disagree are all quoted.
fn agreed(values: Vec<String>) -> Option<String> {
    let mut distinct: Vec<String> = Vec::new();
    for value in values {
        if !value.is_empty() && !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(", "))
}

fn producers(session: &Session) -> Vec<String> {
    session.passes.producer.iter().map(|producer| session.text(*producer).to_owned()).collect()
}

fn describe_gpu(session: &Session, name: &str, gpu: Option<GpuId>) -> Vec<Inline> {
    let mut text = prose![Inline::Code(name.to_owned())];
    let Some(gpu) = gpu else { return text };
    let row = session.gpus.row(gpu);
    if let Some(sms) = row.sm_count {
        text.extend(prose![", ", Quantity::count(u64::from(sms)), " SMs"]);
    }
    if let Some(bytes) = row.memory_bytes {
        text.extend(prose![", ", Quantity::new(bytes as f64, Unit::Bytes)]);
    }
    if let Some(bandwidth) = row.memory_bandwidth {
        let quantity = Quantity::new(bandwidth as f64, Unit::BytesPerSecond);
        text.extend(prose![", ", quantity, " by its memory clock"]);
    }
    if let Some(clock) = row.clock_hz {
        text.extend(prose![", up to ", Quantity::new(clock as f64, Unit::Hertz)]);
    }
    if let Some(capability) = row.compute_capability {
        text.push(format!(", compute capability {}.{}", capability / 10, capability % 10).into());
    }
    text
}

/// One row a pass, then one a baseline: its timings have no clock and no pass of their own.
fn passes(context: &Context<'_>) -> Dataset {
    let session = context.session;
    let mut rows: Vec<Vec<Cell>> =
        session.passes.ids().map(|pass| pass_row(context, pass)).collect();
    let mut baselines: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let series = context.results.baseline().map_or(&[][..], |baseline| &baseline.series);
    for series in series.iter().filter(|series| !series.profiled) {
        let key = (session.text(series.pass), session.text(series.artifact));
        *baselines.entry(key).or_default() += series.repeats.len() as i64;
    }
    for ((pass, artifact), repeats) in baselines {
        rows.push(vec![
            Cell::Name(pass.to_owned()),
            Cell::Text(PassKind::Baseline.label().to_owned()),
            Cell::Name(artifact.to_owned()),
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            Cell::Int(repeats),
        ]);
    }
    Dataset {
        id: "passes",
        title: "Passes".to_owned(),
        columns: vec![
            Column::text("pass", "Pass"),
            Column::text("kind", "Kind"),
            Column::text("artifact", "Artifact"),
            Column::text("producer", "Recorded by"),
            Column::new("rank", "Rank", Unit::Count),
            Column::text("gpu", "GPU"),
            Column::new("operations", "GPU operations", Unit::Count),
            Column::new("rows", "Other rows", Unit::Count),
        ],
        rows,
    }
}

fn pass_row(context: &Context<'_>, pass: PassId) -> Vec<Cell> {
    let session = context.session;
    let row = session.passes.row(pass);
    let text = |text: &str| match text {
        "" => Cell::Missing,
        text => Cell::Name(text.to_owned()),
    };
    let of_pass = |passes: &[PassId]| passes.iter().filter(|own| **own == pass).count() as i64;
    let operations = of_pass(&context.facts.ops.pass);
    let others = of_pass(&session.kernel_profiles.pass) + of_pass(&session.kernel_sums.pass);
    let names = session.gpus.ids().filter(|gpu| session.gpus.pass[gpu.index()] == pass);
    let names = names.map(|gpu| session.text(session.gpus.name[gpu.index()]).to_owned()).collect();
    vec![
        text(session.text(row.name)),
        Cell::Text(row.kind.label().to_owned()),
        text(session.text(row.artifact)),
        text(session.text(row.producer)),
        row.rank.map_or(Cell::Missing, |rank| Cell::Int(i64::from(rank))),
        text(&agreed(names).unwrap_or_default()),
        Cell::Int(operations),
        if others > 0 { Cell::Int(others) } else { Cell::Missing },
    ]
}

fn environment(session: &Session) -> Dataset {
    let table = &session.environment;
    let rows = table.ids().map(|row| {
        let name = |column: &[crate::model::StrId]| {
            Cell::Name(session.text(column[row.index()]).to_owned())
        };
        vec![name(&table.subject), name(&table.key), name(&table.value), name(&table.artifact)]
    });
    Dataset {
        id: "environment",
        title: "Environment as recorded".to_owned(),
        columns: vec![
            Column::text("subject", "Of"),
            Column::text("key", "What"),
            Column::text("value", "Value"),
            Column::text("artifact", "Artifact"),
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Facts, Options, Results};
    use crate::hardware::Hardware;
    use crate::model::MeasuredPeak;

    fn findings(session: &Session) -> Findings {
        let (facts, hardware, options) =
            (Facts::default(), Hardware::builtin(), Options::default());
        let context = Context::new(session, &facts, &hardware, &options);
        run(&context.with(&Results::some(&context, &["baseline"])))
    }

    fn with_gpu(name: &str) -> Session {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "timeline.sqlite");
        let gpu = session.gpu(pass, 0);
        session.gpus.name[gpu.index()] = session.intern(name);
        session
    }

    fn dataset<'a>(findings: &'a Findings, id: &str) -> &'a Dataset {
        findings.datasets.iter().find(|dataset| dataset.id == id).expect("the data set is there")
    }

    #[test]
    fn an_empty_session_says_that_its_gpu_is_unknown() {
        let found = findings(&Session::default());
        let Some(Block::Facts(facts)) = found.blocks.first() else { panic!("no facts") };
        assert_eq!(facts[0].1, prose!["unknown: no artifact names it"]);
    }

    #[test]
    fn measured_peaks_stand_beside_the_dense_specification() {
        let mut session = with_gpu("NVIDIA H200");
        let (gpu, artifact) = (session.intern("NVIDIA H200"), session.intern("peaks.json"));
        for (what, median) in [("bf16", 791.52e12), ("copy", 4.2e12)] {
            let what = session.intern(what);
            session.measured_peaks.push(MeasuredPeak {
                gpu,
                what,
                median,
                min: None,
                max: None,
                artifact,
            });
        }
        let found = findings(&session);
        let rows = &dataset(&found, "peaks").rows;
        let bf16 = rows.iter().find(|row| row[1] == Cell::Text("bf16".to_owned())).expect("bf16");
        // 791.52 / 989.4 = 0.8.
        assert_eq!(
            (&bf16[2], &bf16[4], &bf16[5]),
            (&Cell::Float(989.4e12), &Cell::Float(791.52e12), &Cell::Float(0.8))
        );
        let fp64 = rows.iter().find(|row| row[1] == Cell::Text("fp64".to_owned())).expect("fp64");
        assert_eq!((&fp64[4], &fp64[5]), (&Cell::Missing, &Cell::Missing));
        // 4.2 / 4.8 = 0.875.
        let bandwidth = &dataset(&found, "bandwidths").rows[0];
        assert_eq!(
            (&bandwidth[1], &bandwidth[2], &bandwidth[3]),
            (&Cell::Float(4.8e12), &Cell::Float(4.2e12), &Cell::Float(0.875))
        );
    }

    #[test]
    fn an_unknown_gpu_has_no_peaks_and_says_so() {
        let found = findings(&with_gpu("NVIDIA GeForce RTX 4090 Laptop GPU"));
        let missing = found.blocks.iter().any(|block| match block {
            Block::Missing(reason) => reason.contains("RTX 4090 Laptop GPU"),
            _ => false,
        });
        assert!(missing);
        assert!(dataset(&found, "peaks").rows.is_empty());
    }

    #[test]
    fn equal_values_are_said_once_and_others_side_by_side() {
        let mut session = with_gpu("NVIDIA H200");
        session.add_fact("a.xml", "driver", "version", "580.1");
        session.add_fact("b.xml", "driver", "version", "580.1");
        session.add_fact("c.json", "driver", "version", "570.9");
        let found = findings(&session);
        let Some(Block::Facts(facts)) = found.blocks.first() else { panic!("no facts") };
        let driver = facts.iter().find(|(title, _)| title == "Driver").expect("driver");
        assert_eq!(driver.1, prose!["580.1, 570.9"]);
    }
}
