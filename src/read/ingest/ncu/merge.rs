//! Rows into the session. Pages of one report meet here: a launch is found by process, number and name,
//! and a quantity that both pages hold is taken from the raw page, which prints more digits.

use csv::StringRecord;
use rustc_hash::{FxHashMap, FxHashSet};

use super::header::Header;
use super::identity::{capability, extent, nvtx_path};
use super::number::Value;
use super::unit;
use crate::profiles::{self, find_pass, open_pass};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_session::names::demangled;
use rooflens_session::{
    KernelProfile, PassId, ProfileId, ProfileMetric, ProfileMetricId, ProfileRule, Session, StrId,
};
use rooflens_units::Percent;

/// The page that a metric is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Raw page.
    Raw,
    /// Details page.
    Details,
}

/// A rule's remark as a row gives it.
pub(super) struct Rule<'a> {
    /// Section identifier.
    pub(super) section: &'a str,
    /// Name.
    pub(super) name: &'a str,
    /// `OPT`, `INF`, `WRN`.
    pub(super) kind: &'a str,
    /// The remark.
    pub(super) description: &'a str,
    /// `local`, `global` or empty.
    pub(super) speedup_kind: &'a str,
    /// Estimated speedup.
    pub(super) speedup: Option<Percent>,
}

/// The result of reading a file.
pub(super) struct Outcome {
    /// Metrics and rules in it, those included that another page had already given.
    pub(super) rows: u64,
    pub(super) diagnostics: Vec<Diagnostic>,
}

type LaunchKey = (u32, i64, StrId);
type MetricKey = (ProfileId, StrId, StrId);
type RuleKey = (ProfileId, StrId, StrId, StrId);

/// One file being read into its pass.
pub(super) struct Merge<'a> {
    session: &'a mut Session,
    file: &'a ArtifactFile,
    pass: Option<PassId>,
    launches: FxHashMap<LaunchKey, ProfileId>,
    metrics: FxHashMap<MetricKey, ProfileMetricId>,
    rules: FxHashSet<RuleKey>,
    /// Number and process of launches that a report has given.
    reported: FxHashSet<(i64, i64)>,
    rows: u64,
    reported_rows: u64,
    noise: u64,
    short_rows: u64,
    conflicts: u64,
    /// Launches of a details page in their order, each with its last metric.
    tails: Vec<(ProfileId, StrId, StrId)>,
}

impl<'a> Merge<'a> {
    /// Finds the pass of a file, if another file has opened it, and what it already holds.
    pub(super) fn open(file: &'a ArtifactFile, session: &'a mut Session) -> Self {
        let pass = find_pass(file, session);
        let mut merge = Self {
            session,
            file,
            pass,
            launches: FxHashMap::default(),
            metrics: FxHashMap::default(),
            rules: FxHashSet::default(),
            reported: FxHashSet::default(),
            rows: 0,
            reported_rows: 0,
            noise: 0,
            short_rows: 0,
            conflicts: 0,
            tails: Vec::new(),
        };
        if let Some(pass) = pass {
            merge.index(pass);
        }
        merge
    }

    fn index(&mut self, pass: PassId) {
        let Session {
            kernel_profiles,
            profile_metrics,
            profile_rules,
            strings,
            ..
        } = &*self.session;
        for id in kernel_profiles
            .ids()
            .filter(|id| kernel_profiles.pass[id.index()] == pass)
        {
            let row = id.index();
            let key = (
                kernel_profiles.ordinal[row],
                kernel_profiles.process[row],
                kernel_profiles.name[row],
            );
            self.launches.insert(key, id);
            if self.session.profile_reports.pass.contains(&pass) {
                self.reported
                    .insert((i64::from(kernel_profiles.ordinal[row]), key.1));
            }
        }
        let is_of_pass = |profile: ProfileId| kernel_profiles.pass[profile.index()] == pass;
        for id in profile_metrics
            .ids()
            .filter(|id| is_of_pass(profile_metrics.profile[id.index()]))
        {
            let (section, metric) = (
                profile_metrics.section[id.index()],
                profile_metrics.metric[id.index()],
            );
            let section = key_section(section, strings.get(metric));
            self.metrics
                .insert((profile_metrics.profile[id.index()], section, metric), id);
        }
        for id in profile_rules
            .ids()
            .filter(|id| is_of_pass(profile_rules.profile[id.index()]))
        {
            let rule = profile_rules.row(id);
            self.rules
                .insert((rule.profile, rule.section, rule.rule, rule.description));
        }
    }

    /// True if the session takes all that its input allows, the indexes of this page included.
    pub(super) fn is_full(&self) -> bool {
        let indexed = self.metrics.len() * size_of::<(MetricKey, ProfileMetricId)>()
            + self.rules.len() * size_of::<RuleKey>();
        self.session.room() <= 2 * indexed as u64
    }

    /// The launch that a row is about, added if it is new.
    pub(super) fn launch(&mut self, header: &Header, row: &StringRecord) -> ProfileId {
        let field = |name| header.field(row, name);
        let ordinal = field("ID").parse().unwrap_or_default();
        let process = field("Process ID").parse().unwrap_or_default();
        let name = self.session.intern(&demangled(field("Kernel Name")));
        if let Some(profile) = self.launches.get(&(ordinal, process, name)) {
            return *profile;
        }
        let pass = *self
            .pass
            .get_or_insert_with(|| open_pass(self.file, self.session));
        let device = field("Device").parse().unwrap_or_default();
        let compute_capability = capability(field("CC"));
        let gpu = self.session.gpu(pass, device);
        if compute_capability.is_some() {
            self.session.gpus.compute_capability[gpu.index()] = compute_capability;
        }
        let nvtx = self.session.intern(&nvtx_path(header, row));
        let artifact = self.session.intern(&self.file.path);
        let profile = self.session.kernel_profiles.push(KernelProfile {
            pass,
            artifact,
            ordinal,
            name,
            process,
            context: field("Context").parse().unwrap_or_default(),
            stream: field("Stream").parse().unwrap_or_default(),
            device,
            compute_capability,
            grid: extent(field("Grid Size")),
            block: extent(field("Block Size")),
            nvtx,
        });
        self.launches.insert((ordinal, process, name), profile);
        profile
    }

    /// Adds a metric, or keeps or replaces what another page said about it.
    pub(super) fn metric(
        &mut self,
        origin: Origin,
        profile: ProfileId,
        section: &str,
        metric: &str,
        printed_unit: &str,
        cell: &Value<'_>,
    ) {
        self.rows += 1;
        let base = unit::base(printed_unit);
        let value = match cell {
            Value::Number(number) => Some(unit::scale(*number, base.exponent)),
            Value::Empty | Value::Text(_) => None,
        };
        let text = match cell {
            Value::Text(text) => Some(self.session.intern(text)),
            Value::Empty | Value::Number(_) => None,
        };
        let unit = self.session.intern(&base.unit);
        let section = self.session.intern(section);
        let name = self.session.intern(metric);
        let key = (profile, key_section(section, metric), name);
        if origin == Origin::Details {
            self.tails.pop_if(|tail| tail.0 == profile);
            self.tails.push(key);
        }
        let row = ProfileMetric {
            profile,
            section,
            metric: name,
            unit,
            value,
            text,
        };
        match self.metrics.get(&key) {
            None => {
                self.metrics
                    .insert(key, self.session.profile_metrics.push(row));
            }
            Some(metric) => self.meet(*metric, origin, &row),
        }
    }

    /// Settles two statements about one metric.
    fn meet(&mut self, metric: ProfileMetricId, origin: Origin, new: &ProfileMetric) {
        let metrics = &mut self.session.profile_metrics;
        let row = metric.index();
        let (old, raw_before) = (metrics.value[row], metrics.section[row] == StrId::default());
        if let (Some(old), Some(new)) = (old, new.value)
            && origin == Origin::Raw
            && raw_before
            && old != new
        {
            self.conflicts += 1;
        }
        if origin == Origin::Raw && !raw_before {
            metrics.section[row] = new.section;
            metrics.unit[row] = new.unit;
            metrics.value[row] = new.value;
            metrics.text[row] = new.text;
        }
    }

    /// Adds a rule's remark, once.
    pub(super) fn rule(&mut self, profile: ProfileId, rule: &Rule<'_>) {
        self.rows += 1;
        let section = self.session.intern(rule.section);
        let name = self.session.intern(rule.name);
        let description = self.session.intern(rule.description);
        if !self.rules.insert((profile, section, name, description)) {
            return;
        }
        let row = ProfileRule {
            profile,
            section,
            rule: name,
            kind: self.session.intern(rule.kind),
            description,
            speedup_kind: self.session.intern(rule.speedup_kind),
            speedup: rule.speedup,
        };
        self.session.profile_rules.push(row);
    }

    /// Takes the GPU's name from a raw page.
    pub(super) fn device_text(&mut self, profile: ProfileId, metric: &str, text: &str) {
        profiles::device_text(self.session, profile, metric, text);
    }

    /// Takes the GPU's dimensions from a raw page.
    pub(super) fn device_number(&mut self, profile: ProfileId, metric: &str, value: f64) {
        profiles::device_number(self.session, profile, metric, value);
    }

    /// True if a row is about a launch that a report in this pass has given, with more digits. The name
    /// does not count: ncu prints shorter ones than reports hold.
    pub(super) fn is_reported(&self, header: &Header, row: &StringRecord) -> bool {
        let number = |name| header.field(row, name).parse::<i64>().unwrap_or_default();
        self.reported
            .contains(&(number("ID"), number("Process ID")))
    }

    /// Counts a row that a report has given.
    pub(super) fn skip_reported(&mut self) {
        self.rows += 1;
        self.reported_rows += 1;
    }

    /// Counts a row that is not of the page: output of ncu or of the program.
    pub(super) fn skip(&mut self, row: &StringRecord) {
        let text = row.get(0).unwrap_or_default();
        if !(text.starts_with("==") || (text.is_empty() && row.len() <= 1)) {
            self.noise += 1;
        }
    }

    /// Counts a row that ends before its header does.
    pub(super) fn short_row(&mut self) {
        self.short_rows += 1;
    }

    /// Whether the last launch of a details page lacks the metric that ends the first one and that all others have.
    fn ends_early(&self) -> bool {
        let [(_, section, metric), .., (last, ..)] = self.tails[..] else {
            return false;
        };
        let has = |profile| self.metrics.contains_key(&(profile, section, metric));
        let before = &self.tails[..self.tails.len() - 1];
        !has(last) && before.iter().all(|(profile, ..)| has(*profile))
    }

    /// Says what reading came to.
    pub(super) fn close(self) -> Outcome {
        let early_ends = u64::from(self.ends_early());
        let told = [
            (
                self.reported_rows,
                Severity::Info,
                "ncu/in-report",
                "rows are of launches that a report of this pass gives: skipped",
            ),
            (
                self.noise,
                Severity::Info,
                "ncu/foreign-rows",
                "lines that belong to no launch were skipped",
            ),
            (
                self.short_rows,
                Severity::DataLoss,
                "ncu/short-rows",
                "rows end before the header does: the page was cut off",
            ),
            (
                early_ends,
                Severity::DataLoss,
                "ncu/short-launch",
                "the last launch ends before the last metric that all others have: the page was cut off",
            ),
            (
                self.conflicts,
                Severity::Notice,
                "ncu/conflict",
                "another raw page of this pass gives other values: the first are kept",
            ),
        ];
        let happened = told.into_iter().filter(|(count, ..)| *count > 0);
        let diagnostics = happened
            .map(|(count, severity, code, text)| Diagnostic::new(severity, code, text).times(count))
            .collect();
        Outcome {
            rows: self.rows,
            diagnostics,
        }
    }
}

/// Section in the key of a metric. A metric id means the same in every section;
/// display names do not ("Memory Throughput" is a percentage in one and a rate in another).
fn key_section(section: StrId, metric: &str) -> StrId {
    if is_metric_id(metric) {
        StrId::default()
    } else {
        section
    }
}

/// True if a name is a metric id (`dram__bytes.sum`, `thread_inst_executed`) rather than a display name
/// ("# SMs", "sector/req").
fn is_metric_id(name: &str) -> bool {
    let is_id_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.".contains(c);
    name.contains("__") || (name.contains('_') && name.chars().all(is_id_char))
}
