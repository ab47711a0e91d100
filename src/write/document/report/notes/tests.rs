use std::time::Instant;

use crate::{Catalogue, Quantity};
use rooflens_schemas::{Metric, MetricValue, Polarity, Scope, Unit};

use super::*;

fn metric(id: &str, stage: &str, pass: &str, value: Option<f64>, unit: Unit) -> Metric {
    let value = match value {
        Some(value) => MetricValue::Measured { value },
        None => MetricValue::Unavailable {
            reason: "no trace".to_owned(),
        },
    };
    let scope = Scope {
        stage: Some(stage.to_owned()),
        pass: Some(pass.to_owned()),
        ..Scope::default()
    };
    let (polarity, basis, evidence) = (Polarity::Neutral, String::new(), Vec::new());
    Metric {
        id: id.to_owned(),
        scope,
        value,
        unit,
        polarity,
        basis,
        evidence,
    }
}

fn read_all(text: &str) -> (Vec<Block>, Diagnostics) {
    let mut on_rank = metric("stage_time", "decode", "nsys", Some(4e6), Unit::Nanoseconds);
    on_rank.scope.rank = Some(1);
    let report = Report {
        text: Catalogue::keys_and_arguments(),
        metrics: vec![
            metric("mfu", "prefill", "nsys", Some(0.412), Unit::Ratio),
            metric("mfu", "decode", "nsys", Some(0.05), Unit::Ratio),
            metric("mfu", "decode", "torch", None, Unit::Ratio),
            metric("stage_time", "decode", "nsys", Some(2e6), Unit::Nanoseconds),
            metric(
                "stage_time",
                "decode",
                "torch",
                Some(3e6),
                Unit::Nanoseconds,
            ),
            on_rank,
            metric("bus", "decode", "torch", None, Unit::Ratio),
        ],
        ..Report::default()
    };
    read(
        &Notes {
            artifact: "notes.md",
            text,
        },
        &report,
    )
}

fn blocks(text: &str) -> Vec<Block> {
    read_all(text).0
}

fn prose<const N: usize>(pieces: [Inline; N]) -> Block {
    Block::Prose(pieces.into())
}

#[test]
fn each_part_of_markdown_becomes_its_block() {
    let text = "# The run\n\nIt is **slow**, see `a_b`\nand [the log](http://x/y) or <http://z>.\n\n\
                - one\n- two\n  - below\n\n1. first\n2. second\n\n```sh\na\n  b\n```\n\n\
                4. fourth\n\n| stage | time | n |\n|---|---|---|\n| decode | 2 ms | 3 |\n";
    let items = |items: [&str; 2]| items.map(|item| vec![Inline::from(item)]).to_vec();
    let expected = [
        Block::Heading("The run".to_owned()),
        prose([
            "It is ".into(),
            Inline::strong("slow"),
            ", see ".into(),
            Inline::code("a_b"),
            " and the log (http://x/y) or http://z.".into(),
        ]),
        Block::Bullets(items(["one", "two – below"])),
        Block::List(items(["first", "second"])),
        Block::Code("a\n  b".to_owned()),
        prose(["4. ".into(), "fourth".into()]),
        Block::Facts(vec![(
            "decode".to_owned(),
            ["time: ", "2 ms", "; n: ", "3"].map(Inline::from).to_vec(),
        )]),
    ];
    assert_eq!(blocks(text), expected);
}

#[test]
fn references_are_filled_in_with_the_metric_they_name() {
    let quantity = |value, unit| Inline::from(Quantity::new(value, unit));
    let expected = [prose([
        "MFU ".into(),
        quantity(0.412, Unit::Ratio),
        ", in ".into(),
        quantity(3e6, Unit::Nanoseconds),
        " or".into(),
        " ".into(),
        quantity(2e6, Unit::Nanoseconds),
        "; ".into(),
        quantity(4e6, Unit::Nanoseconds),
        " ".into(),
        Inline::strong("at"),
        " ".into(),
        quantity(0.05, Unit::Ratio),
    ])];
    let text = "MFU {{mfu@prefill}}, in {{ stage_time@decode/torch }} or\n\
                {{stage_time@decode/nsys}}; {{stage_time@decode#1}} **at {{mfu@decode}}**";
    let (blocks, faults) = read_all(text);
    assert_eq!(plain_of(&blocks), plain_of(&expected));
    let numbers = |blocks: &[Block]| match blocks {
        [Block::Prose(pieces)] => pieces
            .iter()
            .filter(|one| matches!(one, Inline::Quantity(_)))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    assert_eq!(numbers(&blocks), numbers(&expected));
    assert_eq!(faults.iter().count(), 0);
}

fn plain_of(blocks: &[Block]) -> String {
    match blocks {
        [Block::Prose(pieces)] => plain(pieces),
        other => panic!("{other:?}"),
    }
}

#[test]
fn references_that_name_no_single_metric_stay_and_are_told() {
    let text =
        "a\n\nb {{mfu}} c\n{{stage_time@decode}} {{none@x}} {{bus@decode}} }} {{ `{{mfu@decode}}`";
    let (blocks, faults) = read_all(text);
    assert_eq!(
        plain_of(&blocks[1..]),
        "b {{mfu}} c {{stage_time@decode}} {{none@x}} {{bus@decode}} }} {{ {{mfu@decode}}"
    );
    let told: Vec<(&str, Option<&str>)> = faults
        .iter()
        .map(|one| (one.message.as_str(), one.hint.as_deref()))
        .collect();
    let expected = [
        (
            "notes.ambiguous{reference=mfu, count=2}",
            Some("notes.one_of{names=mfu@prefill/nsys, mfu@decode/nsys}"),
        ),
        (
            "notes.ambiguous{reference=stage_time@decode, count=3}",
            Some(
                "notes.one_of{names=stage_time@decode/nsys, stage_time@decode/torch, stage_time@decode/nsys#1}",
            ),
        ),
        ("notes.unknown{reference=none@x}", Some("notes.all")),
        (
            "notes.unavailable{reference=bus@decode, reason=no trace}",
            None,
        ),
    ];
    assert_eq!(told, expected);
    let first = faults
        .iter()
        .next()
        .map(|one| (one.severity, one.artifact.clone(), one.at.clone()));
    let (notice, line) = (
        rooflens_diagnostic::Severity::Notice,
        rooflens_diagnostic::Location::Line(3),
    );
    assert_eq!(first, Some((notice, Some("notes.md".to_owned()), line)));
}

#[test]
fn html_typst_and_pictures_are_text() {
    let text = "<script>alert(1)</script>\n\na <b>c</b> gemm<float> #eval(\"x\") $\\alpha$ ![alt](../p.png)";
    let expected = [
        prose(["<script>alert(1)</script>".into()]),
        prose([r#"a <b>c</b> gemm<float> #eval("x") $\alpha$ alt (../p.png)"#.into()]),
    ];
    assert_eq!(blocks(text), expected);
    // Renderers replace what no page may hold, as in all texts.
    assert_eq!(blocks("a\0b"), [prose(["a\0b".into()])]);
}

/// What would take a recursive reader's stack, or a careless one's day.
#[test]
fn hostile_notes_are_read_in_time() {
    let many = 40_000;
    let list: String = (0..300)
        .map(|depth| format!("{}- x\n", " ".repeat(2 * depth)))
        .collect();
    let unknown: String = (0..many).map(|n| format!("{{{{x{n}}}}} ")).collect();
    let texts = [
        ">", "- ", "1. ", "[", "![", "[a](", "**a ", "`", "<a ", "{{", "{{a}}", "|a",
    ];
    let mut all: Vec<String> = texts.iter().map(|text| text.repeat(many)).collect();
    all.extend([
        list,
        unknown,
        format!("|a|\n|-|\n{}", "|b\n".repeat(many)),
        "[a](b)".repeat(many),
    ]);
    for text in all {
        let (start, shown) = (
            Instant::now(),
            text.get(..20).unwrap_or_default().to_owned(),
        );
        let (_, faults) = read_all(&text);
        assert!(
            start.elapsed().as_secs() < 20,
            "{shown}: {:?}",
            start.elapsed()
        );
        assert!(faults.iter().count() <= 51, "{shown}");
    }
}
