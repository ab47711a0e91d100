//! Results of Nsight Compute's rules.

use std::borrow::Cow;

use rooflens_units::Percent;

use super::wire::{Malformed, add, fields};

/// The result of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleResult<'a> {
    /// Section identifier.
    pub(super) section: Cow<'a, str>,
    /// Rule identifier.
    pub(super) name: Cow<'a, str>,
    /// What it remarks.
    pub(super) remarks: Vec<Rule<'a>>,
}

/// A remark of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule<'a> {
    /// Kind of remark, in the letters of exported pages.
    pub(super) kind: &'static str,
    /// The remark, without markup.
    pub(super) description: String,
    /// What the estimated speedup refers to.
    pub(super) speedup_kind: &'static str,
    /// Estimated speedup.
    pub(super) speedup: Option<Percent>,
    /// Metrics that the remark rests on.
    pub(super) focus: Vec<Focus<'a>>,
}

/// A metric that a remark rests on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Focus<'a> {
    /// Metric id.
    pub(super) metric: Cow<'a, str>,
    /// Value that the rule saw.
    pub(super) value: Option<f64>,
    /// What the rule says of it.
    pub(super) info: Cow<'a, str>,
}

/// Reads the result of one rule: a remark for each item of its body that has a message.
pub(super) fn read(message: &[u8]) -> Result<RuleResult<'_>, Malformed> {
    let (mut result, mut body) = (RuleResult::default(), None);
    for field in fields(message) {
        match field? {
            (1, value) => result.name = value.text()?,
            (3, value) => body = Some(value.bytes()?),
            (4, value) => result.section = value.text()?,
            _ => {}
        }
    }
    for field in body.into_iter().flat_map(fields) {
        let (1, value) = field? else { continue };
        if let Some(remark) = item(value.bytes()?)? {
            add(&mut result.remarks, remark)?;
        }
    }
    Ok(result)
}

fn item(message: &[u8]) -> Result<Option<Rule<'_>>, Malformed> {
    let mut rule = Rule::default();
    let mut told = false;
    for field in fields(message) {
        match field? {
            (1, value) => {
                told = true;
                for field in fields(value.bytes()?) {
                    match field? {
                        (1, value) => rule.description = plain(&value.text()?),
                        (2, value) => rule.kind = kind(value.number()?),
                        _ => {}
                    }
                }
            }
            (8, value) => add(&mut rule.focus, focus(value.bytes()?)?)?,
            (10, value) => {
                for field in fields(value.bytes()?) {
                    match field? {
                        (1, value) => rule.speedup_kind = speedup_kind(value.number()?),
                        (2, value) => rule.speedup = Some(Percent(value.float()?)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    rule.speedup = rule.speedup.filter(|percent| percent.is_finite());
    Ok(told.then_some(rule))
}

fn focus(message: &[u8]) -> Result<Focus<'_>, Malformed> {
    let mut focus = Focus::default();
    for field in fields(message) {
        match field? {
            (2, value) => focus.metric = value.text()?,
            (3, value) => focus.value = Some(value.float()?).filter(|value| value.is_finite()),
            (5, value) => focus.info = value.text()?,
            _ => {}
        }
    }
    Ok(focus)
}

const fn kind(number: u64) -> &'static str {
    match number {
        1 => "INF",
        2 => "WRN",
        3 => "ERR",
        4 => "OPT",
        _ => "",
    }
}

const fn speedup_kind(number: u64) -> &'static str {
    match number {
        1 => "local",
        2 => "global",
        _ => "",
    }
}

/// A remark as exported pages print it: `@section:Id:Title@` is the title, `@url:Title:Address@` is the
/// title and the address in brackets.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('@') {
        plain.push_str(before);
        let Some((shown, after)) = shown(link) else {
            plain.push('@');
            rest = link;
            continue;
        };
        plain.push_str(&shown);
        rest = after;
    }
    plain + rest
}

/// What is shown of the link that `text` begins with, and what follows it.
fn shown(text: &str) -> Option<(Cow<'_, str>, &str)> {
    // What a link begins with is looked at first: a text of nothing but `@` would be searched to its end for each.
    let section = text.strip_prefix("section:");
    let (inner, after) = section
        .or_else(|| text.strip_prefix("url:"))?
        .split_once('@')?;
    let (first, second) = inner.split_once(':')?;
    let shown = if section.is_some() {
        second.into()
    } else {
        format!("{first} ({second})").into()
    };
    Some((shown, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_shown_as_exported_pages_show_them() {
        assert_eq!(
            plain("See @section:LaunchStats:Launch Statistics@."),
            "See Launch Statistics."
        );
        assert_eq!(
            plain("the @url:Guide:https://x.org/a#b@ and @url:Two:http://y@"),
            "the Guide (https://x.org/a#b) and Two (http://y)"
        );
        for text in ["a@b", "a@section:b", "@@", "mail@host: x@y:z@", ""] {
            assert_eq!(plain(text), text);
        }
    }
}
