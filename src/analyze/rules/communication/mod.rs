//! Rules about moving data: copies and collectives.

pub(crate) mod exposed_communication;
pub(crate) mod exposed_copies;
pub(crate) mod pageable_copies;
pub(crate) mod straggler;

use crate::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &exposed_copies::RULE,
    &pageable_copies::RULE,
    &exposed_communication::RULE,
    &straggler::RULE,
];
