//! What the section says.

use super::calls::Run;
use super::cause::{self, LowerClock, Reason};
use super::waits::straggler as find_straggler;
use super::{Ranks, messages, metrics};
use crate::analysis::Context;
use crate::analysis::engine::intervals::total;
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Inline, Method, Quantity};
use crate::model::Ns;
use crate::prose;
use rooflens_schemas::Unit;

/// How much communication there is, and how much of it shows.
pub(super) fn introduction(context: &Context<'_>, ranks: &Ranks) -> Vec<Inline> {
    let run = &ranks.run;
    let calls = || run.members.iter().flat_map(|member| &member.calls);
    let messages = calls().filter(|call| call.operation.is_message()).count();
    let mut text = prose![
        "Pass ",
        Inline::Code(run.name.clone()),
        ": ",
        Quantity::count((calls().count() - messages) as u64),
        " collectives",
    ];
    if messages > 0 {
        text.extend(prose![" and ", Quantity::count(messages as u64), " sends and receives"]);
    }
    let ranks_word = if run.members.len() == 1 { "rank" } else { "ranks" };
    text.push(format!(" on {} {ranks_word}", run.members.len()).into());
    if run.members.len() > 1 {
        text.extend(prose![
            ", of which ",
            Quantity::count(ranks.matching.matches.len() as u64),
            " were found on several ranks"
        ]);
    }
    text.extend(prose![
        ". Exposed is communication while no kernel of the GPU computes; waiting is the time of a collective \
         beyond its duration on the rank that came last."
    ]);
    if let Some((middle, _)) = ranks.matching.residual {
        let clock = if run.one_clock { " (one clock)" } else { " after the clocks are aligned" };
        text.extend(prose![
            " Ends of one collective differ by ",
            Quantity::new(middle, Unit::Nanoseconds),
            format!(" in the median{clock}: finer differences between ranks mean nothing.")
        ]);
    }
    text.extend(no_sizes(context, run));
    text
}

/// What would bring the sizes of collectives, where none has one.
fn no_sizes(context: &Context<'_>, run: &Run) -> Option<Inline> {
    let first = run.members.first()?;
    let known =
        run.members.iter().flat_map(|member| &member.calls).any(|call| call.bytes.is_some());
    (!known).then(|| format!(" No bandwidth: {}.", metrics::no_sizes(context, first)).into())
}

/// Which rank waits for which in messages: the two that wait longest.
pub(super) fn messages(ranks: &Ranks) -> Option<Vec<Inline>> {
    let pairs = messages::by_pair(&ranks.run, &ranks.matching);
    let (key, most) =
        pairs.iter().max_by_key(|(key, pair)| (pair.waits(), std::cmp::Reverse(*key)))?;
    let (from, to) = (key.from, key.to);
    Some(prose![
        format!(
            "Of the messages between ranks those from rank {from} to rank {to} wait longest: in "
        ),
        Quantity::count(most.count),
        format!(" of them rank {to} waited for rank {from} "),
        Quantity::ns(most.receiver_wait),
        format!(" in all, and rank {from} for rank {to} "),
        Quantity::ns(most.sender_wait),
        ".",
    ])
}

/// Who is waited for, and why.
pub(super) fn straggler(context: &Context<'_>, ranks: &Ranks) -> Option<Vec<Inline>> {
    let found = find_straggler(&ranks.last)?;
    let rank = ranks.run.members[found.member].rank;
    let mut text = prose![
        Inline::Strong(format!("Rank {rank} is the straggler")),
        ": it came last in ",
        Quantity::count(found.last),
        " of ",
        Quantity::count(found.of),
        " collectives of all ranks, and the others waited for it ",
        Quantity::ns(waited(ranks, found.member)),
        " on average in all.",
    ];
    let Some(cause) = cause::of(context, ranks, found.member) else { return Some(text) };
    let stage =
        if cause.stage.is_empty() { "the whole pass".to_owned() } else { cause.stage.clone() };
    let longer = cause.compute.0 / cause.compute.1.max(1.0) - 1.0;
    text.extend(match cause.reason {
        Reason::MoreWork | Reason::SlowerKernels(_) | Reason::LowerClock(_) => prose![
            " It computes for ",
            Quantity::new(cause.compute.0, Unit::Nanoseconds),
            format!(" in {stage}, the others for "),
            Quantity::new(cause.compute.1, Unit::Nanoseconds),
            " (",
            Quantity::ratio(longer),
            " more)",
        ],
        Reason::MoreIdle => prose![
            format!(" In {stage} its GPU is idle for "),
            Quantity::new(cause.idle.0, Unit::Nanoseconds),
            ", the others' for ",
            Quantity::new(cause.idle.1, Unit::Nanoseconds),
            ": its host is late.",
        ],
        Reason::Unknown => prose![" Its computing and idle times differ little from the others'."],
    });
    match cause.reason {
        Reason::MoreWork => text.push(": it has more work.".into()),
        Reason::SlowerKernels(ratio) => text.extend(prose![
            ": kernels of the same name and grid take ",
            Quantity::ratio(ratio - 1.0),
            " longer on it, so look at its clock and memory.",
        ]),
        Reason::LowerClock(found) => text.extend(lower_clock(&found)),
        Reason::MoreIdle | Reason::Unknown => {}
    }
    Some(text)
}

/// The clock as the reason of slower kernels.
fn lower_clock(found: &LowerClock) -> Vec<Inline> {
    let mut text = prose![
        ": the same kernels take ",
        Quantity::ratio(found.slowdown - 1.0),
        " longer on it, because its SM clock is lower: ",
        Quantity::new(found.clocks.0, Unit::Hertz),
        " on average, and ",
        Quantity::new(found.clocks.1, Unit::Hertz),
        " on the rank that computes shortest, which accounts for ",
        Quantity::ratio(found.share),
        " of that"
    ];
    if let Some((reason, share)) = found.limit {
        let share = Quantity::ratio(share);
        text.extend(prose![
            " (",
            Inline::Code(reason.to_owned()),
            " in ",
            share,
            " of the samples)"
        ]);
    }
    text.push(".".into());
    text
}

/// What the other ranks waited in the collectives of the whole pass, on average.
fn waited(ranks: &Ranks, straggler: usize) -> Ns {
    let others = ranks.lines.iter().filter(|line| line.stage.is_none() && line.member != straggler);
    let waits: Vec<Ns> = others.map(|line| line.sum.wait).collect();
    total(waits.iter().copied()) / (waits.len().max(1) as Ns)
}

/// Collectives that could not be matched although order says so.
pub(super) fn mismatched(ranks: &Ranks) -> Option<Diagnostic> {
    let count = ranks.matching.mismatched as u64;
    let message = format!(
        "pass {}: collectives that order puts together end too far apart on their ranks; they are left out of waiting times",
        ranks.run.name
    );
    (count > 0).then(|| {
        Diagnostic::new(Severity::Notice, "communication/mismatched", message).times(count)
    })
}

/// How the numbers were made.
pub(super) fn method() -> Method {
    Method {
        title: "Communication".to_owned(),
        text: prose![
            "A collective is a kernel of the class communication. Operation, message size (the larger of input \
             and output) and process group are those that the PyTorch trace records, or NCCL's own ranges in an \
             nsys export with payloads; otherwise the operation is read from the kernel's name, and the size is \
             unknown. Communication is the \
             length of the union of the collectives' intervals; exposed is the part in which no kernel of that \
             GPU computes, whichever stage that belongs to. Algorithm bandwidth is message ÷ time; bus bandwidth \
             multiplies it by 2 (n − 1) ÷ n for all-reduce, (n − 1) ÷ n for all-gather, reduce-scatter, \
             all-to-all, gather and scatter, and 1 for broadcast, reduce and send/receive (NCCL tests). The time \
             is that on the rank that came last, where several ranks are known, because the others wait in it. \
             Collectives are matched across ranks by process group and number; without numbers by order, where \
             lists of unequal length are shifted to where the ends fit best; messages by order between two ranks, \
             where both ends are recorded. The offset of a clock is the median \
             of end − mean end over the collectives that join all ranks; what deviates from it is the residual. \
             A straggler came last, that is, was the shortest in the collective, more often than ",
            Quantity::ratio(1e-3),
            " chance among equal ranks explains (binomial); messages do not count. Its reason is the larger of two \
             differences from the median of the others, each at least 2 %: computing time (slower kernels, if nine \
             tenths of it is in kernels of a name and grid that the rank which computes shortest runs too, equally \
             often, or else more work) and idle time. Slower kernels have a lower clock as their reason if the ratio \
             of the mean SM clocks, less 1, is at least half of the slowdown, less 1."
        ],
    }
}
