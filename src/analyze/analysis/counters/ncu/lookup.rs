//! Metrics by launch and name.

use rooflens_session::{ProfileId, ProfileMetricId, Session, StrId};

/// Where a quantity may stand: section (its beginning; empty for any) and metric, best source first.
pub type Source = (&'static str, &'static str);

/// Units that ncu scales for reading.
const SCALED: &[&str] = &["s", "byte", "byte/s", "byte/cycle", "Hz"];

/// All metrics, sorted by launch and name.
pub struct Lookup {
    rows: Vec<(ProfileId, StrId, ProfileMetricId)>,
}

/// The metrics of one launch.
pub struct Launch<'a> {
    session: &'a Session,
    rows: &'a [(ProfileId, StrId, ProfileMetricId)],
}

impl Lookup {
    /// Sorts the metrics.
    pub fn new(session: &Session) -> Self {
        let metrics = &session.profile_metrics;
        let row =
            |id: ProfileMetricId| (metrics.profile[id.index()], metrics.metric[id.index()], id);
        let mut rows: Vec<_> = metrics.ids().map(row).collect();
        rows.sort();
        Self { rows }
    }

    /// The metrics of one launch.
    pub fn launch<'a>(&'a self, session: &'a Session, profile: ProfileId) -> Launch<'a> {
        let start = self.rows.partition_point(|row| row.0 < profile);
        let end = self.rows.partition_point(|row| row.0 <= profile);
        Launch {
            session,
            rows: &self.rows[start..end],
        }
    }
}

impl Launch<'_> {
    /// The first source that holds a number in this unit. Units that ncu never scales may be missing:
    /// it prints none for chips that it does not know.
    pub fn first(&self, unit: &str, sources: &[Source]) -> Option<f64> {
        sources.iter().find_map(|source| self.value(unit, source))
    }

    /// The number of a metric id in this unit.
    pub fn id(&self, unit: &str, metric: &str) -> Option<f64> {
        self.value(unit, &("", metric))
    }

    /// All metrics that hold a number: name and value.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        let metrics = &self.session.profile_metrics;
        self.rows.iter().filter_map(|(_, name, id)| {
            Some((self.session.text(*name), metrics.value[id.index()]?))
        })
    }

    fn value(&self, unit: &str, (section, metric): &(&str, &str)) -> Option<f64> {
        let name = self.session.strings.find(metric)?;
        let metrics = &self.session.profile_metrics;
        let start = self.rows.partition_point(|row| row.1 < name);
        let row_found = self.rows[start..]
            .iter()
            .take_while(|row| row.1 == name)
            .find(|row| {
                let index = row.2.index();
                let printed = self.session.text(metrics.unit[index]);
                let unit_fits = printed == unit || (printed.is_empty() && !SCALED.contains(&unit));
                unit_fits
                    && metrics.value[index].is_some()
                    && self
                        .session
                        .text(metrics.section[index])
                        .starts_with(section)
            })?;
        metrics.value[row_found.2.index()]
    }
}
