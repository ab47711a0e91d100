//! What the section says.

use rooflens_units::{Ratio, Time};

use super::metrics;
use crate::Context;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::speed::LowerClock;
use rooflens_analysis::communication::straggler::{Cause, Reason, Straggler};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::{Inline, Quantity};

/// How much communication there is, and how much of it shows.
pub(super) fn introduction(context: &Context<'_>, ranks: &Ranks) -> Vec<Inline> {
    let run = &ranks.run;
    let messages = run
        .calls()
        .filter(|call| call.operation.is_message())
        .count();
    let on = match run.members.len() {
        1 => say!(context, "communication.one_rank"),
        several => say!(
            context,
            "communication.ranks",
            ranks = several.to_string(),
            matched = Quantity::count(ranks.matching.matches.len() as u64),
        ),
    };
    let clock = match run.one_clock {
        true => say!(context, "communication.one_clock"),
        false => say!(context, "communication.aligned_clocks"),
    };
    let is_sized = run.calls().any(|call| call.bytes.is_some());
    let residual = ranks.matching.residual;
    say!(
        context,
        "communication.introduction",
        pass = Inline::code(&*run.name),
        collectives = Quantity::count((run.calls().count() - messages) as u64),
        messages = (messages > 0).then(|| Quantity::count(messages as u64)),
        on = on,
        residual = residual.map(|(middle, _)| middle),
        clock = clock,
        no_sizes = (!is_sized).then(|| metrics::no_sizes(context, &run.members[0])),
    )
}

/// Which rank waits for which in messages: the two that wait longest.
pub(super) fn messages(context: &Context<'_>, ranks: &Ranks) -> Option<Vec<Inline>> {
    let pairs = ranks.messages.iter();
    let (key, most) = pairs.max_by_key(|(key, pair)| (pair.waits(), std::cmp::Reverse(*key)))?;
    Some(say!(
        context,
        "communication.messages",
        from = key.from.to_string(),
        to = key.to.to_string(),
        count = Quantity::count(most.count),
        receiver_wait = Quantity::ns(most.receiver_wait),
        sender_wait = Quantity::ns(most.sender_wait),
    ))
}

/// Who is waited for, and why.
pub(super) fn straggler(context: &Context<'_>, ranks: &Ranks, found: &Straggler) -> Vec<Inline> {
    let rank = ranks.run.members[found.member].rank.to_string();
    let mut text = say!(
        context,
        "communication.straggler",
        name = Inline::Strong(words!(context, "communication.straggler_name", rank = rank)),
        last = Quantity::count(found.last),
        of = Quantity::count(found.of),
        waited = Quantity::ns(found.waited),
    );
    text.extend(
        found
            .cause
            .iter()
            .flat_map(|cause| because(context, ranks, found, cause)),
    );
    text
}

/// What sets the straggler apart.
fn because(context: &Context<'_>, ranks: &Ranks, found: &Straggler, cause: &Cause) -> Vec<Inline> {
    let whole_pass = || words!(context, "communication.whole_pass");
    let stage = cause.stage.clone().unwrap_or_else(whole_pass);
    let why = match cause.reason {
        Reason::MoreIdle => {
            let (own, others) = cause.idle;
            return say!(
                context,
                "communication.more_idle",
                stage = stage,
                own = own,
                others = others
            );
        }
        Reason::Unknown => return say!(context, "communication.unknown_cause"),
        Reason::MoreWork => more_work(context, ranks, found),
        Reason::SlowerKernels(ratio) => {
            say!(
                context,
                "communication.slower_kernels",
                slowdown = ratio - Ratio::ONE
            )
        }
        Reason::LowerClock(found) => lower_clock(context, &found),
    };
    let (own, others) = cause.compute;
    say!(
        context,
        "communication.more_compute",
        own = own,
        stage = stage,
        others = others,
        more = Ratio(own / others.max(Time(1.0)) - 1.0),
        why = why,
    )
}

/// How much more work it is, where sizes of GEMMs tell.
fn more_work(context: &Context<'_>, ranks: &Ranks, found: &Straggler) -> Vec<Inline> {
    let mut imbalances = ranks
        .imbalances
        .iter()
        .filter(|imbalance| ranks.lines[imbalance.slowest].member == found.member);
    let work = imbalances
        .find_map(|imbalance| imbalance.work.as_ref().filter(|work| work.more().is_some()));
    let Some((work, more)) = work.and_then(|work| Some((work, work.more()?))) else {
        return say!(context, "communication.more_work");
    };
    let (rows, others) = work.rows.unzip();
    say!(
        context,
        "communication.more_flops",
        more = more,
        rows = rows.map(Quantity::count),
        others = others.map(Quantity::count),
    )
}

/// The clock as the reason of slower kernels.
fn lower_clock(context: &Context<'_>, found: &LowerClock) -> Vec<Inline> {
    say!(
        context,
        "communication.lower_clock",
        slowdown = found.slowdown - Ratio::ONE,
        own = found.clocks.0,
        others = found.clocks.1,
        share = found.share,
        reason = found.limit.map(|(reason, _)| Inline::code(reason)),
        samples = found.limit.map(|(_, share)| share),
    )
}

/// Collectives that could not be matched although order says so.
pub(super) fn mismatched(ranks: &Ranks) -> Option<Diagnostic> {
    let count = ranks.matching.mismatched as u64;
    let message = format!(
        "pass {}: collectives that order puts together end too far apart on their ranks; they are skipped of waiting times",
        ranks.run.name
    );
    (count > 0).then(|| {
        Diagnostic::new(Severity::Notice, "communication/mismatched", message).times(count)
    })
}
