//! Why iterations changed, with the evidence.

use rooflens_document::{Block, Quantity, SectionContent, Table, columns, words};
use rooflens_schemas::Unit;
use rooflens_units::{Count, Ratio};

use super::{Pages, STAGES, signed};
use crate::account::Explained;
use crate::conditions::Setting;
use crate::explanations::{Behind, Explanation, Reason};
use crate::times::Verdict;

/// Explanations of a stage that pages show.
const SHOWN: usize = 6;

/// Share of the change from which on a page shows an explanation.
const NOTABLE: f64 = 0.01;

/// Findings that one of them names.
const FINDINGS: usize = 2;

/// Settings that one of them names.
const SETTINGS: usize = 3;

impl Pages<'_> {
    pub(super) fn explanations(&self) -> SectionContent {
        let rows = &self.comparison.explanations;
        let table = self.explanation_table();
        let mut content = SectionContent::default();
        let groups = rows.chunk_by(|row, next| of(row) == of(next));
        let groups = groups.filter(|rows| {
            rows[0].explained != Explained::Iteration || !self.is_same(&rows[0].stage)
        });
        for group in groups.take(STAGES) {
            let (stage, explained) = of(&group[0]);
            let total = signed(group.iter().map(|row| row.time).sum());
            let caption = match explained {
                Explained::Iteration => {
                    words!(self, "compare.explanations", stage = stage, total = total)
                }
                Explained::Between => words!(
                    self,
                    "compare.explanations_between",
                    stages = stage,
                    total = total
                ),
                Explained::Whole => words!(self, "compare.explanations_whole", total = total),
            };
            let is_first = |row: &Explanation| of(row) == (stage, explained);
            let first = rows.iter().position(is_first).unwrap_or_default();
            let notable = group.iter().filter(|row| row.share.0.abs() >= NOTABLE);
            let shown = notable.count().clamp(1, SHOWN);
            let view = table.view(caption, shown).of_group(first, group.len());
            content.main.push(Block::Table(view));
        }
        content.datasets.push(table.rows(rows));
        content
    }

    /// Whether the times say that a stage did not change.
    fn is_same(&self, stage: &str) -> bool {
        let mut times = self.comparison.times.iter();
        times.any(|change| change.stage == stage && change.verdict == Verdict::Same)
    }

    fn explanation_table(&self) -> Table<'_, Explanation> {
        let mut explanations = self.comparison.explanations.iter();
        let has_settings = explanations.any(|explanation| !explanation.settings.is_empty());
        let mut explanations = self.comparison.explanations.iter();
        let has_findings = explanations.any(|explanation| !explanation.findings.is_empty());
        columns! { self, "compare_explanations", explanation: &Explanation => {
            name "stage" = explanation.stage.as_str();
            text "place" = explanation.explained.label();
            text "reason" = explanation.reason.label();
            text "explanation" = self.reason(explanation.reason), page;
            time "explained_ns" = explanation.time, page;
            share "share" = Some(explanation.share).filter(|share| share.0.is_finite()), page;
            text "findings" = self.findings_of(&explanation.findings), page if has_findings;
            text "rules" = rules_of(&explanation.findings);
            text "settings" = self.settings_of(&explanation.settings), page if has_settings;
        } }
    }

    /// What changed, with its figures.
    fn reason(&self, reason: Reason) -> String {
        let word = |label| self.text.word(label);
        let times = |factor: Ratio| Quantity::new(factor.0, Unit::One);
        let launches = |launches: Count| match launches.0.fract() {
            0.0 => Quantity::from(launches),
            _ => Quantity::new(launches.0, Unit::One),
        };
        match reason {
            Reason::Clocks { factor, clock } => words!(
                self,
                "compare.reason.clocks",
                factor = times(factor),
                before = clock.before,
                after = clock.after
            ),
            Reason::AllKernels { factor } => {
                words!(self, "compare.reason.all_kernels", factor = times(factor))
            }
            Reason::Duration { class, factor } => words!(
                self,
                "compare.reason.duration",
                class = word(class.label()),
                factor = times(factor)
            ),
            Reason::Launches {
                class,
                launches: number,
            } => words!(
                self,
                "compare.reason.launches",
                class = word(class.label()),
                before = launches(number.before),
                after = launches(number.after)
            ),
            Reason::Grids { class } => {
                words!(self, "compare.reason.grids", class = word(class.label()))
            }
            Reason::Fused { launches: number } => words!(
                self,
                "compare.reason.fused",
                before = launches(number.before),
                after = launches(number.after)
            ),
            Reason::Split { launches: number } => words!(
                self,
                "compare.reason.split",
                before = launches(number.before),
                after = launches(number.after)
            ),
            Reason::Replaced {
                class,
                launches: number,
            } => words!(
                self,
                "compare.reason.replaced",
                class = word(class.label()),
                launches = launches(number)
            ),
            Reason::Exchanged { launches: number } => words!(
                self,
                "compare.reason.exchanged",
                before = launches(number.before),
                after = launches(number.after)
            ),
            Reason::Work { class } => {
                words!(self, "compare.reason.work", class = word(class.label()))
            }
            Reason::Copies => words!(self, "compare.reason.copies"),
            Reason::WholeGraphs => words!(self, "compare.reason.whole_graphs"),
            Reason::Overlap => words!(self, "compare.reason.overlap"),
            Reason::Idle(cause) => {
                words!(self, "compare.reason.idle", cause = word(cause.label()))
            }
            Reason::NoOperation => words!(self, "compare.reason.no_operation"),
        }
    }

    fn findings_of(&self, findings: &[Behind]) -> Option<String> {
        let shown = findings.iter().take(FINDINGS);
        let titles: Vec<&str> = shown.map(|finding| finding.title.as_str()).collect();
        (!titles.is_empty()).then(|| titles.join("; "))
    }

    fn settings_of(&self, settings: &[Setting]) -> Option<String> {
        let shown = settings.iter().take(SETTINGS);
        let mut texts: Vec<String> = shown
            .filter_map(|setting| {
                let (before, after) = (
                    setting.values.before.as_ref()?,
                    setting.values.after.as_ref()?,
                );
                Some(format!(
                    "{} {}: {before} → {after}",
                    setting.subject, setting.name
                ))
            })
            .collect();
        if settings.len() > SETTINGS {
            let count = settings.len() - SETTINGS;
            texts.push(words!(
                self,
                "compare.more_settings",
                count = Quantity::count(count as u64)
            ));
        }
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// What a row explains: a stage or stages, and what time of them.
fn of(row: &Explanation) -> (&str, Explained) {
    (&row.stage, row.explained)
}

fn rules_of(findings: &[Behind]) -> Option<String> {
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    (!rules.is_empty()).then(|| rules.join(" "))
}
