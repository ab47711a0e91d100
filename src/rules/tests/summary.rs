//! The first pages: which actions they show, and what figures are left after them.

use super::*;
use crate::summary::summary;
use rooflens_findings::{Block, Dataset, Findings};

fn summarize(made: &Made, rules: &[&Rule]) -> Findings {
    let results = made.results();
    let found = rules.iter().flat_map(|rule| {
        let own = made.found(rule).into_iter();
        own.map(|one| named(Catalogue::english(), rule.id, rule, &one)).collect::<Vec<_>>()
    });
    summary(&results, &found.collect::<Vec<_>>())
}

/// The cells of a column as files hold them.
fn column(findings: &Findings, table: &str, column: &str) -> Vec<String> {
    let is_it = |dataset: &&Dataset| dataset.id == table;
    let dataset = findings.datasets.iter().find(is_it).expect("the table is there");
    let at = dataset.columns.iter().position(|one| one.id == column).expect("the column is there");
    dataset.rows.iter().map(|row| row[at].plain()).collect()
}

/// 10 iterations of 1000 ns, busy for 300 of them and launching for 600. Un-profiled 40 steps take 7000 ns, so that 4
/// take 700: at most 400 can be saved, and a step takes 175 ns now and 75 after that.
fn launching() -> Made {
    let mut made = decode().steps(4.0).idle(Cause::Launching, 600.0);
    made = made.repeats("decode", "baseline", Some(40), &[7000]);
    made.stages[0].busy = 300.0;
    made
}

#[test]
fn figures_are_those_of_one_step_without_the_profiler() {
    let findings = summarize(&launching(), &[&launch_bound::RULE]);
    assert_eq!(column(&findings, "summary_figures", "now"), ["175"]);
    assert_eq!(column(&findings, "summary_figures", "after_1"), ["75"]);
    assert_eq!(column(&findings, "summary_figures", "after_2"), [""]);
    assert_eq!(column(&findings, "summary_figures", "unit"), ["ns"]);
    let Some(Block::Prose(bottom_line)) = findings.blocks.first() else { panic!("no conclusion") };
    let said = words(bottom_line);
    assert!(said.starts_with("decode can take 75.0 ns instead of 175 ns per step"), "{said}");
}

#[test]
fn confidence_needs_a_run_without_the_profiler_and_three_iterations() {
    let of = |made: &Made| {
        column(&summarize(made, &[&launch_bound::RULE]), "summary_actions", "confidence")
    };
    assert!(of(&launching())[0].starts_with("High: "));
    let mut few = launching();
    (few.stages[0].counted, few.stages[0].run_ns) = (2.0, 1400.0);
    assert_eq!(of(&few), ["Low: n = 2"]);
    let profiled = decode().idle(Cause::Launching, 600.0);
    assert!(of(&profiled)[0].starts_with("Medium: "));
}

/// Bounds of one stage overlap: the second finding of a stage is what comes next, and no action of its own.
#[test]
fn each_stage_has_one_action() {
    let made = launching().copies(&[(CopyKind::HostToDevice, MemoryKind::Pinned, 8, 250, 250)]);
    let findings = summarize(&made, &[&launch_bound::RULE, &exposed_copies::RULE]);
    assert_eq!(column(&findings, "summary_actions", "number"), ["1"]);
    let said: String = findings.blocks.iter().map(|block| format!("{block:?}")).collect();
    let next = said.split("After these actions").nth(1).unwrap_or_default();
    assert!(next.contains(": memory transfers run while no kernel computes, at most "), "{said}");
}

#[test]
fn without_a_finding_it_says_so() {
    let findings = summarize(&decode(), &[]);
    let Some(Block::Prose(said)) = findings.blocks.first() else { panic!("no conclusion") };
    assert!(words(said).contains("No finding could save 5 %"));
}

#[test]
fn each_rule_that_may_save_time_has_its_line() {
    let keys: Vec<&str> = Catalogue::english().keys().map(|(key, _)| key).collect();
    let about_run =
        RULES.iter().filter(|rule| rule.id != stage_busy::RULE.id && !rule.is_on_measurement());
    for rule in about_run {
        for part in ["do", "if", "cause"] {
            let key = format!("actions.{}.{part}", rule.id);
            assert!(keys.contains(&key.as_str()), "{key}");
        }
    }
}
