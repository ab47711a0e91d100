//! What the section says.

use rooflens_schemas::Unit;

use super::metrics;
use crate::Context;
use rooflens_analysis::communication::Ranks;
use rooflens_analysis::communication::speed::LowerClock;
use rooflens_analysis::communication::straggler::{CHANCE, Cause, Reason, Straggler};
use rooflens_findings::{Inline, Method, Quantity, prose};
use rooflens_model::diagnostic::{Diagnostic, Severity};

/// How much communication there is, and how much of it shows.
pub(super) fn introduction(context: &Context<'_>, ranks: &Ranks) -> Vec<Inline> {
    let run = &ranks.run;
    let messages = run.calls().filter(|call| call.operation.is_message()).count();
    let mut text = prose![
        "Pass ",
        Inline::Code(run.name.clone()),
        ": ",
        Quantity::count((run.calls().count() - messages) as u64),
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
    if run.calls().all(|call| call.bytes.is_none()) {
        let reason = metrics::no_sizes(context, &run.members[0]);
        text.push(format!(" No bandwidth: {reason}.").into());
    }
    text
}

/// Which rank waits for which in messages: the two that wait longest.
pub(super) fn messages(ranks: &Ranks) -> Option<Vec<Inline>> {
    let pairs = ranks.messages.iter();
    let (key, most) = pairs.max_by_key(|(key, pair)| (pair.waits(), std::cmp::Reverse(*key)))?;
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
pub(super) fn straggler(ranks: &Ranks, found: &Straggler) -> Vec<Inline> {
    let rank = ranks.run.members[found.member].rank;
    let mut text = prose![
        Inline::Strong(format!("Rank {rank} is the straggler")),
        ": it came last in ",
        Quantity::count(found.last),
        " of ",
        Quantity::count(found.of),
        " collectives of all ranks, and the others waited for it ",
        Quantity::ns(found.waited),
        " on average in all.",
    ];
    text.extend(found.cause.iter().flat_map(because));
    text
}

/// What sets the straggler apart.
fn because(cause: &Cause) -> Vec<Inline> {
    let time = |ns| Quantity::new(ns, Unit::Nanoseconds);
    let stage = cause.stage.as_deref().unwrap_or("the whole pass");
    let why = match cause.reason {
        Reason::MoreIdle => {
            return prose![
                format!(" In {stage} its GPU is idle for "),
                time(cause.idle.0),
                ", the others' for ",
                time(cause.idle.1),
                ": its host is late.",
            ];
        }
        Reason::Unknown => {
            return prose![" Its computing and idle times differ little from the others'."];
        }
        Reason::MoreWork => prose![": it has more work."],
        Reason::SlowerKernels(ratio) => prose![
            ": kernels of the same name and grid take ",
            Quantity::ratio(ratio - 1.0),
            " longer on it, so look at its clock and memory.",
        ],
        Reason::LowerClock(found) => lower_clock(&found),
    };
    let mut text = prose![
        " It computes for ",
        time(cause.compute.0),
        format!(" in {stage}, the others for "),
        time(cause.compute.1),
        " (",
        Quantity::ratio(cause.compute.0 / cause.compute.1.max(1.0) - 1.0),
        " more)",
    ];
    text.extend(why);
    text
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
            Quantity::ratio(CHANCE),
            " chance among equal ranks explains (binomial); messages do not count. Its reason is the larger of two \
             differences from the median of the others, each at least 2 %: computing time (slower kernels, if nine \
             tenths of it is in kernels of a name and grid that the rank which computes shortest runs too, equally \
             often, or else more work) and idle time. Slower kernels have a lower clock as their reason if the ratio \
             of the mean SM clocks, less 1, is at least half of the slowdown, less 1."
        ],
    }
}
