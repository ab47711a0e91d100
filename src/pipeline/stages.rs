//! Stages that are stated, and stages that an input has.

use std::collections::BTreeSet;

use rooflens_schemas::StageRule;
use rooflens_schemas::marks;
use rooflens_schemas::ranges::given_name;

use super::open::{Capture, OpenError};
use crate::analysis::Facts;
use crate::session::pattern::whole_match;
use crate::session::{Ns, PassId, Session, StrId};

/// Reason why a text states no stage.
#[derive(Debug, thiserror::Error)]
pub enum StageRuleError {
    /// No equals sign.
    #[error("{0}: expected NAME=REGEX")]
    NoPattern(String),
    /// Nothing before the equals sign.
    #[error("{0}: the stage has no name")]
    NoName(String),
    /// No regular expression behind the equals sign.
    #[error("{0}: {1}")]
    Pattern(String, regex::Error),
}

/// The stage that `NAME=REGEX` states.
///
/// # Errors
/// The name is missing, or the pattern is no regular expression.
pub fn stage_rule(text: &str) -> Result<StageRule, StageRuleError> {
    let Some((name, pattern)) = text.split_once('=') else {
        return Err(StageRuleError::NoPattern(text.to_owned()));
    };
    if name.trim().is_empty() {
        return Err(StageRuleError::NoName(text.to_owned()));
    }
    if let Err(error) = whole_match(pattern) {
        return Err(StageRuleError::Pattern(name.to_owned(), error));
    }
    Ok(StageRule {
        name: name.to_owned(),
        pattern: Some(pattern.to_owned()),
        kind: None,
    })
}

/// A stage of an input, over all its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct StageOverview {
    /// The recording that it is of.
    pub pass: PassId,
    /// Name.
    pub name: String,
    /// Instances of it.
    pub instances: usize,
    /// GPU operations in all instances.
    pub operations: usize,
    /// Duration of all instances.
    pub time: Ns,
}

impl Capture {
    /// The stages of all recordings.
    pub fn stages(&self) -> Vec<StageOverview> {
        let facts = Facts::new(&self.session);
        let mut overviews = Vec::new();
        for stage in &facts.stages {
            let instances = facts.instances_of(stage);
            overviews.push(StageOverview {
                pass: stage.pass,
                name: stage.name.clone(),
                instances: instances.len(),
                operations: instances.iter().map(|instance| instance.ops.len()).sum(),
                time: instances
                    .iter()
                    .filter_map(|instance| instance.time())
                    .sum(),
            });
        }
        overviews
    }
}

/// Refuses stages that the input does not have: all of them must be there where `each` is set, else one of them. A
/// misspelt pattern would leave the report without its stage.
pub(super) fn refuse_unmatched(session: &Session, each: bool) -> Result<(), OpenError> {
    let ranges = &session.ranges;
    let is_mark = |row: &usize| session.text(ranges.domain[*row]) == marks::DOMAIN;
    let rows = (0..ranges.len()).filter(|row| !is_mark(row));
    let names: BTreeSet<StrId> = rows.map(|row| ranges.name[row]).collect();
    let stages = &session.workload.stages;
    let mut unmatched = Vec::new();
    for stage in stages {
        let Some(Ok(pattern)) = stage.pattern.as_deref().map(whole_match) else {
            continue;
        };
        let is_matched = |name: &StrId| pattern.is_match(given_name(session.text(*name)));
        if !names.iter().any(is_matched) {
            unmatched.push(stage.name.clone());
        }
    }
    let is_fault = match each {
        true => !unmatched.is_empty(),
        // Without any range, stages of a description cannot match, and are no fault of it.
        false => unmatched.len() == stages.len() && !stages.is_empty() && !names.is_empty(),
    };
    match is_fault {
        true => Err(OpenError::UnmatchedStages(unmatched)),
        false => Ok(()),
    }
}
