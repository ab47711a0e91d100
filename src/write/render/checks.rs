//! Findings, and what a gate judged, as continuous integration takes them: SARIF 2.1.0, JUnit XML, workflow commands of GitHub.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::text::{clean, escape};
use super::{RenderError, Rendered};
use rooflens_document::report::Report;
use rooflens_document::{Block, Cell, Dataset};
use rooflens_schemas::Tool;

const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// How grave a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It fails.
    Critical,
    /// It fails.
    Warning,
    /// It says something, and passes.
    Note,
    /// It could not be judged.
    Skipped,
}

/// Something that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule, or the limit.
    pub rule: String,
    /// Title.
    pub title: String,
    /// How grave it is.
    pub level: Level,
    /// What it says.
    pub text: String,
    /// The artifact that it rests on.
    pub artifact: Option<String>,
}

/// Each check as a result with the artifact that it rests on; `tool` has made it.
///
/// # Errors
/// Fails only if the serializer does.
pub fn sarif(tool: &Tool, checks: &[Check]) -> Result<Rendered, RenderError> {
    let mut rules: Vec<&str> = checks.iter().map(|check| check.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let result = |check: &Check| {
        let level = match check.level {
            Level::Critical => "error",
            Level::Warning => "warning",
            Level::Note | Level::Skipped => "note",
        };
        let mut result = json!({
            "ruleId": check.rule,
            "ruleIndex": rules.binary_search(&check.rule.as_str()).unwrap_or_default(),
            "level": level,
            "message": {"text": format!("{}: {}", check.title, check.text)},
        });
        if let Some(artifact) = &check.artifact {
            let place = json!({"physicalLocation": {"artifactLocation": {"uri": uri(artifact)}}});
            result["locations"] = Value::Array(vec![place]);
        }
        result
    };
    let driver = json!({
        "name": tool.name,
        "version": tool.version,
        "rules": rules.iter().map(|id| json!({"id": id})).collect::<Vec<_>>(),
    });
    let results: Vec<Value> = checks.iter().map(result).collect();
    let run = json!({"tool": {"driver": driver}, "results": results});
    let log = json!({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]});
    Rendered::json("findings.sarif", &log)
}

/// Each check as a test case of the suite `name`, which fails if it is a warning or critical.
pub fn junit(name: &str, checks: &[Check]) -> Rendered {
    let of_level = |levels: &[Level]| {
        let checks = checks.iter().filter(|check| levels.contains(&check.level));
        checks.count()
    };
    let failures = of_level(&[Level::Critical, Level::Warning]);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{count}\" failures=\"{failures}\">\n  \
         <testsuite name=\"{}\" tests=\"{count}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        escape(name),
        count = checks.len(),
        skipped = of_level(&[Level::Skipped]),
    );
    for check in checks {
        let (title, text) = (escape(&check.title), escape(&check.text));
        let failure =
            |kind| format!("<failure type=\"{kind}\" message=\"{title}\">{text}</failure>");
        let content = match check.level {
            Level::Note => format!("<system-out>{text}</system-out>"),
            Level::Skipped => format!("<skipped message=\"{text}\"/>"),
            Level::Critical => failure("critical"),
            Level::Warning => failure("warning"),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "    <testcase classname=\"{}\" name=\"{title}\">{content}</testcase>",
            escape(&check.rule)
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    Rendered::one("findings.xml", out.into_bytes())
}

/// Each check as an annotation of a GitHub workflow.
pub fn github(checks: &[Check]) -> Rendered {
    let mut out = String::new();
    for check in checks {
        let command = match check.level {
            Level::Critical => "error",
            Level::Warning => "warning",
            Level::Note | Level::Skipped => "notice",
        };
        let title = data(&check.title).replace(':', "%3A").replace(',', "%2C");
        let _ = writeln!(out, "::{command} title={title}::{}", data(&check.text));
    }
    Rendered::one("findings.txt", out.into_bytes())
}

/// The findings, the most severe first, with the advice behind the statement.
pub(super) fn findings(report: &Report) -> Vec<Check> {
    let Some(table) = report.dataset("findings") else {
        return Vec::new();
    };
    let artifacts = artifacts(report);
    let finding = |row| {
        let text = |column| cell(table, row, column);
        let advice = text("advice");
        let dash = if advice.is_empty() { "" } else { " → " };
        Check {
            rule: text("rule").to_owned(),
            title: text("finding").to_owned(),
            level: match text("severity") {
                "critical" => Level::Critical,
                "warning" => Level::Warning,
                _ => Level::Note,
            },
            text: format!("{}{dash}{advice}", text("statement")),
            artifact: artifacts
                .get(text("finding"))
                .map(|path| (*path).to_owned()),
        }
    };
    (0..table.rows.len()).map(finding).collect()
}

/// Text of a cell; empty if there is none.
fn cell<'a>(table: &'a Dataset, row: usize, column: &str) -> &'a str {
    let Some(column) = table.position(column) else {
        return "";
    };
    match table.rows[row].get(column) {
        Some(Cell::Text(text) | Cell::Name(text)) => text,
        _ => "",
    }
}

/// The first artifact that each finding rests on, by its title.
fn artifacts(report: &Report) -> BTreeMap<&str, &str> {
    let sections = report.sections.iter().chain(&report.appendix);
    let mut artifacts = BTreeMap::new();
    for block in sections.flat_map(|section| &section.blocks) {
        if let Block::Finding(finding) = block
            && let Some(evidence) = finding.evidence.first()
        {
            artifacts
                .entry(finding.title.as_str())
                .or_insert(evidence.artifact.as_str());
        }
    }
    artifacts
}

/// A path as a relative reference.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// A text as the data of a workflow command, in one line.
fn data(text: &str) -> String {
    clean(text).replace('%', "%25")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rooflens_document::report::Section;
    use rooflens_document::{Column, Finding};
    use rooflens_schemas::Evidence;

    /// A critical finding with everything that its formats must not read as their own, and a note.
    fn report() -> Report {
        let columns = ["finding", "rule", "severity", "statement", "advice"];
        let row = |cells: [&str; 5]| cells.map(|text| Cell::Text(text.into())).to_vec();
        let rows = vec![
            row([
                "Idle: a, b",
                "launch-bound",
                "critical",
                "73 % <idle>\nx & y",
                "Use \"graphs\"",
            ]),
            row(["Small", "small-grids", "note", "few", ""]),
        ];
        let table = Dataset {
            id: "findings",
            title: String::new(),
            columns: columns.map(|id| Column::text(id, id)).to_vec(),
            rows,
        };
        let evidence = Evidence {
            artifact: "nsys/a b.sqlite".to_owned(),
            table: None,
            rows: None,
        };
        let observation = Finding {
            title: "Idle: a, b".to_owned(),
            evidence: vec![evidence],
            ..Finding::default()
        };
        let blocks = vec![Block::Finding(Box::new(observation))];
        Report {
            datasets: vec![table],
            appendix: vec![Section {
                blocks,
                ..Section::default()
            }],
            ..Report::default()
        }
    }

    fn text(rendered: &Rendered) -> String {
        String::from_utf8(rendered.files[&rendered.main].clone()).unwrap()
    }

    #[test]
    fn sarif_has_what_its_schema_requires() {
        let log: Value = serde_json::from_str(&text(
            &sarif(&Tool::default(), &findings(&report())).unwrap(),
        ))
        .unwrap();
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert!(run["tool"]["driver"]["name"].is_string());
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let first = &run["results"][0];
        assert_eq!(
            rules[first["ruleIndex"].as_u64().unwrap() as usize]["id"],
            first["ruleId"]
        );
        assert_eq!(
            (&first["ruleId"], &first["level"]),
            (&"launch-bound".into(), &"error".into())
        );
        assert_eq!(
            first["message"]["text"],
            "Idle: a, b: 73 % <idle>\nx & y → Use \"graphs\""
        );
        let place = &first["locations"][0]["physicalLocation"]["artifactLocation"];
        assert_eq!(place["uri"], "nsys/a%20b.sqlite");
        assert_eq!(run["results"][1]["level"], "note");
        assert_eq!(run["results"][1].get("locations"), None);
    }

    #[test]
    fn junit_counts_failures_and_escapes() {
        let text = text(&junit("", &findings(&report())));
        assert!(
            text.contains("<testsuites tests=\"2\" failures=\"1\">"),
            "{text}"
        );
        let case = "<testcase classname=\"launch-bound\" name=\"Idle: a, b\"><failure type=\"critical\" message=\"Idle: a, b\">73 % &lt;idle&gt;";
        assert!(text.contains(case), "{text}");
        assert!(
            text.contains("x &amp; y → Use &quot;graphs&quot;</failure></testcase>"),
            "{text}"
        );
        assert!(
            text.contains("name=\"Small\"><system-out>few</system-out></testcase>"),
            "{text}"
        );
    }

    #[test]
    fn workflow_commands_are_one_line_each() {
        let expected = "::error title=Idle%3A a%2C b::73 %25 <idle>\u{fffd}x & y → Use \"graphs\"\n::notice title=Small::few\n";
        assert_eq!(text(&github(&findings(&report()))), expected);
    }
}
