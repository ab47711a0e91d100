//! Limits of how much figures may change, and whether they do.
//!
//! A change counts only if its whole interval lies beyond the limit; if the interval holds the limit, the times cannot
//! tell. Figures without repeats have no interval: counts and bytes are exact, and of all others one value each says
//! nothing of their spread.

use std::fmt;
use std::str::FromStr;

use rooflens_schemas::Unit;
use rooflens_stats::{Shift, median};
use rooflens_units::Ratio;

use crate::Pair;
use crate::record::{Record, Values};
use crate::times::StageTimes;

/// The figure that is the time of a stage.
pub const STAGE_TIME: &str = "stage_time";

/// How much a figure may change: `stage_time@decode:+3%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Id of the metric.
    pub metric: String,
    /// Stage; none for whole captures.
    pub stage: Option<String>,
    /// Allowed change. It may rise by a positive one at most, and fall by a negative one.
    pub change: Ratio,
    /// Whether it limits a fall: the sign of the change, which 0 has, too.
    pub is_of_fall: bool,
}

/// Reason why a limit is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no limit: expected METRIC@STAGE:+PERCENT%, such as stage_time@decode:+3%, or :-3% for a metric that may not fall"
)]
pub struct WrongLimit(String);

impl FromStr for Limit {
    type Err = WrongLimit;

    fn from_str(text: &str) -> Result<Self, WrongLimit> {
        let wrong = || WrongLimit(text.to_owned());
        let (figure, change) = text.rsplit_once(':').ok_or_else(wrong)?;
        let percent = change.strip_suffix('%').ok_or_else(wrong)?;
        let is_of_fall = match percent.as_bytes().first() {
            Some(b'+') => false,
            Some(b'-') => true,
            _ => return Err(wrong()),
        };
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        let (metric, stage) = match figure.split_once('@') {
            Some((metric, stage)) => (metric, Some(stage)),
            None => (figure, None),
        };
        if metric.is_empty() || stage == Some("") || !percent.is_finite() || percent <= -100.0 {
            return Err(wrong());
        }
        Ok(Self {
            metric: metric.to_owned(),
            stage: stage.map(str::to_owned),
            change: Ratio(percent / 100.0),
            is_of_fall,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if let Some(stage) = &self.stage {
            write!(f, "@{stage}")?;
        }
        write!(f, ":{}%", self.percent())
    }
}

impl Limit {
    /// The signed percentage, as it was given.
    pub fn percent(&self) -> String {
        let sign = if self.is_of_fall { "-" } else { "+" };
        // 0.07 × 100 is more than 7 in the last of 16 digits.
        let percent = (self.change.0.abs() * 1e10).round() / 1e8;
        format!("{sign}{percent}")
    }
}

/// The file of limits: `max = ["stage_time@decode:+3%"]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Thresholds {
    max: Vec<String>,
}

/// The limits of a file.
///
/// # Errors
/// It is not well-formed, or a limit is none.
pub fn thresholds(text: &str) -> Result<Vec<Limit>, String> {
    let file: Thresholds = toml::from_str(text).map_err(|error| error.to_string())?;
    let limits = file.max.iter().map(|limit| limit.parse());
    limits
        .collect::<Result<_, WrongLimit>>()
        .map_err(|wrong| wrong.to_string())
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The figure is within it.
    Passed,
    /// The figure is beyond it.
    Regression,
    /// The interval of the change holds the limit.
    Spread,
    /// There are too few values for an interval.
    FewValues,
}

impl Outcome {
    /// The words of data files.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Regression => "regression",
            Self::Spread | Self::FewValues => "cannot tell",
        }
    }

    /// Whether the values do not tell.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Spread | Self::FewValues)
    }
}

/// A limit with the figures that it was judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The limit.
    pub limit: Limit,
    /// Unit of the figure.
    pub unit: Unit,
    /// Whether the figure is a time that a profiler makes longer.
    pub profiled: bool,
    /// Values.
    pub samples: Pair<usize>,
    /// Their medians.
    pub median: Pair<f64>,
    /// Factor after ÷ before; none of figures that are not positive.
    pub ratio: Option<Ratio>,
    /// Its interval.
    pub interval: Option<(Ratio, Ratio)>,
    /// What became of the limit.
    pub outcome: Outcome,
}

/// A figure that one of the records does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{side} has no {figure}; it has {known}")]
pub struct NoFigure {
    figure: String,
    side: &'static str,
    known: String,
}

/// A figure of both records.
struct Figure {
    unit: Unit,
    profiled: bool,
    values: Pair<Vec<f64>>,
}

/// Judges a limit, by intervals of a confidence.
///
/// # Errors
/// A record does not have the figure.
pub fn judge(
    records: &Pair<&Record>,
    limit: &Limit,
    confidence: Ratio,
) -> Result<Judgement, NoFigure> {
    let figure = match (limit.metric.as_str(), &limit.stage) {
        (STAGE_TIME, Some(stage)) => stage_time(records, stage)?,
        _ => metric(records, limit)?,
    };
    let Figure {
        unit,
        profiled,
        values,
    } = figure;
    let shift = Shift::of(&values.before, &values.after, confidence);
    let of_values = Pair::of(&values, |values| median(values).unwrap_or_default());
    let interval = shift.and_then(|shift| shift.interval);
    let is_exact = matches!(unit, Unit::Count | Unit::Bytes | Unit::Flop);
    let bound = 1.0 + limit.change.0;
    let outcome = match interval {
        Some((Ratio(low), Ratio(high))) => {
            let (inner, outer) = match limit.is_of_fall {
                true => (bound - high, bound - low),
                false => (low - bound, high - bound),
            };
            match (inner > 0.0, outer <= 0.0) {
                (true, _) => Outcome::Regression,
                (_, true) => Outcome::Passed,
                _ => Outcome::Spread,
            }
        }
        None if is_exact => {
            let beyond = of_values.after - of_values.before * bound;
            match (beyond > 0.0 && !limit.is_of_fall) || (beyond < 0.0 && limit.is_of_fall) {
                true => Outcome::Regression,
                false => Outcome::Passed,
            }
        }
        None => Outcome::FewValues,
    };
    Ok(Judgement {
        limit: limit.clone(),
        unit,
        profiled,
        samples: Pair::of(&values, Vec::len),
        median: of_values,
        ratio: shift.map(|shift| shift.ratio),
        interval,
        outcome,
    })
}

fn stage_time(records: &Pair<&Record>, stage: &str) -> Result<Figure, NoFigure> {
    let of_stage = Pair::of(records, |record| {
        let stages = record.stages.iter().filter(|times| times.name == stage);
        stages.collect::<Vec<&StageTimes>>()
    });
    let pairs = of_stage.before.iter().filter_map(|before| {
        let mut after = of_stage.after.iter();
        Some((*before, *after.find(|after| before.is_like(after))?))
    });
    let is_profiled = |(before, after): &(&StageTimes, &StageTimes)| {
        before.unprofiled.is_empty() || after.unprofiled.is_empty()
    };
    let Some((before, after)) = pairs.min_by_key(is_profiled) else {
        let (side, record) = match of_stage.before.is_empty() {
            true => ("the baseline", records.before),
            false => ("the run", records.after),
        };
        let known = record.stages.iter().map(|times| times.name.as_str());
        return Err(NoFigure {
            figure: format!("{STAGE_TIME}@{stage}"),
            side,
            known: known.collect::<Vec<_>>().join(", "),
        });
    };
    let profiled = is_profiled(&(before, after));
    let times = Pair { before, after };
    Ok(Figure {
        unit: Unit::Nanoseconds,
        profiled,
        values: Pair::of(&times, |times| match profiled {
            true => times.profiled.clone(),
            false => times.unprofiled.clone(),
        }),
    })
}

fn metric(records: &Pair<&Record>, limit: &Limit) -> Result<Figure, NoFigure> {
    let of_side = |record: &Record, side: &'static str| {
        let mut metrics = record.metrics.iter();
        let is_limited = |values: &&Values| {
            (&values.id, &values.stage) == (&limit.metric, &limit.stage)
                && !values.values.is_empty()
        };
        let values = metrics.find(is_limited);
        let values = values.map(|values| (values.unit, values.values.clone()));
        values.ok_or_else(|| {
            let of_stage = record
                .metrics
                .iter()
                .filter(|values| values.stage == limit.stage);
            let stage = limit.stage.as_ref().map(|stage| format!("@{stage}"));
            NoFigure {
                figure: format!("{}{}", limit.metric, stage.unwrap_or_default()),
                side,
                known: match of_stage.clone().count() {
                    0 => "no metric of this stage".to_owned(),
                    _ => of_stage
                        .map(|values| values.id.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                },
            }
        })
    };
    let (unit, before) = of_side(records.before, "the baseline")?;
    let (_, after) = of_side(records.after, "the run")?;
    Ok(Figure {
        unit,
        profiled: false,
        values: Pair { before, after },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(times: &[f64], launches: f64) -> Record {
        let stage = StageTimes {
            name: "decode".to_owned(),
            per_step: true,
            unprofiled: times.to_vec(),
            profiled: Vec::new(),
        };
        let launches = Values {
            id: "launches_per_step".to_owned(),
            stage: Some("decode".to_owned()),
            unit: Unit::Count,
            values: vec![launches],
        };
        Record {
            stages: vec![stage],
            metrics: vec![launches],
            ..Record::default()
        }
    }

    fn outcome(before: &Record, after: &Record, limit: &str) -> Outcome {
        let records = Pair { before, after };
        judge(&records, &limit.parse().unwrap(), Ratio(0.99))
            .unwrap()
            .outcome
    }

    #[test]
    fn limits_have_a_metric_a_stage_and_a_signed_percentage() {
        let limit: Limit = "stage_time@decode:+3%".parse().unwrap();
        assert_eq!(limit.stage.as_deref(), Some("decode"));
        assert!((limit.change.0 - 0.03).abs() < 1e-12 && !limit.is_of_fall);
        assert_eq!(limit.to_string(), "stage_time@decode:+3%");
        let limit: Limit = "a:+7%".parse().unwrap();
        assert_eq!(limit.to_string(), "a:+7%");
        let limit: Limit = "mfu@a:b:-0%".parse().unwrap();
        assert_eq!(
            (limit.stage.as_deref(), limit.is_of_fall),
            (Some("a:b"), true)
        );
        for wrong in [
            "decode", "a:3%", "a:+3", "a:+x%", ":+3%", "a@:+3%", "a:-100%", "a:+inf%",
        ] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_an_interval_beyond_the_limit_is_a_regression() {
        // All quotients lie between 1.05 ÷ 1.01 and 1.06: beyond 3 %, not beyond 5 %.
        let before = record(&[100.0, 100.2, 100.4, 100.6, 100.8, 101.0], 10.0);
        let after = record(&[105.0, 105.2, 105.4, 105.6, 105.8, 106.0], 10.0);
        assert_eq!(
            outcome(&before, &after, "stage_time@decode:+3%"),
            Outcome::Regression
        );
        assert_eq!(
            outcome(&before, &after, "stage_time@decode:+5%"),
            Outcome::Spread
        );
        assert_eq!(
            outcome(&before, &after, "stage_time@decode:+7%"),
            Outcome::Passed
        );
        assert_eq!(
            outcome(&before, &after, "stage_time@decode:-1%"),
            Outcome::Passed
        );
        assert_eq!(
            outcome(&after, &before, "stage_time@decode:-1%"),
            Outcome::Regression
        );
    }

    #[test]
    fn one_value_each_tells_nothing_unless_it_is_exact() {
        let (before, after) = (record(&[100.0], 10.0), record(&[200.0], 11.0));
        assert_eq!(
            outcome(&before, &after, "stage_time@decode:+3%"),
            Outcome::FewValues
        );
        assert_eq!(
            outcome(&before, &after, "launches_per_step@decode:+3%"),
            Outcome::Regression
        );
        assert_eq!(
            outcome(&before, &after, "launches_per_step@decode:+10%"),
            Outcome::Passed
        );
        let records = Pair {
            before: &before,
            after: &after,
        };
        let missing = judge(&records, &"mfu@decode:-3%".parse().unwrap(), Ratio(0.99));
        assert_eq!(missing.unwrap_err().known, "launches_per_step");
    }
}
