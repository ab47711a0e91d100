//! Rules about moving data: copies and collectives.

pub(crate) mod exposed_communication;
pub(crate) mod exposed_copies;
pub(crate) mod pageable_copies;
pub(crate) mod straggler;

use rooflens_units::Ratio;

use crate::rule::Rule;

/// The rules of this group, in the order of the table of rules.
pub(crate) static RULES: &[&Rule] = &[
    &exposed_copies::RULE,
    &pageable_copies::RULE,
    &exposed_communication::RULE,
    &straggler::RULE,
];

/// Pageable bytes ÷ bytes between host and GPU from which on they matter.
const PAGEABLE: Ratio = Ratio(0.10);
