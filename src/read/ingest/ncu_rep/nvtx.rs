//! The ranges that were open around a launch.

use super::wire::{Malformed, Value, add, fields};

/// The ranges of a state, outermost first, joined by `/`: the nested ones of the launching thread (of all
/// threads if that one has none), else those with a start and an end of their own.
pub(super) fn path(state: &[u8], thread: u32) -> Result<String, Malformed> {
    let (mut own, mut all, mut loose) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields(state) {
        match field? {
            (2, value) => {
                let (id, ranges) = nested(value.bytes()?)?;
                if id == thread {
                    ranges
                        .iter()
                        .try_for_each(|range| add(&mut own, range.clone()))?;
                }
                ranges
                    .into_iter()
                    .try_for_each(|range| add(&mut all, range))?;
            }
            (3, value) => names(value, 2, &mut loose)?,
            _ => {}
        }
    }
    let ranges = [own, all, loose]
        .into_iter()
        .find(|ranges| !ranges.is_empty());
    Ok(ranges.unwrap_or_default().join("/"))
}

/// A thread and its open ranges, domain by domain.
fn nested(thread: &[u8]) -> Result<(u32, Vec<String>), Malformed> {
    let (mut id, mut ranges) = (0, Vec::new());
    for field in fields(thread) {
        match field? {
            (1, value) => id = value.small()?,
            (2, value) => names(value, 1, &mut ranges)?,
            _ => {}
        }
    }
    Ok((id, ranges))
}

/// The ranges of a domain (field 3), each with its name in field `number`.
fn names(domain: Value<'_>, number: u32, ranges: &mut Vec<String>) -> Result<(), Malformed> {
    for field in fields(domain.bytes()?) {
        let (3, range) = field? else { continue };
        for field in fields(range.bytes()?) {
            let (found, value) = field?;
            if found == number {
                let name = value.text()?;
                if !name.is_empty() {
                    add(ranges, name.into_owned())?;
                }
            }
        }
    }
    Ok(())
}
