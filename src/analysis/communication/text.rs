//! What the section says.

use super::Ranks;
use super::cause::{self, Reason};
use super::waits::straggler as find_straggler;
use crate::analysis::Context;
use crate::analysis::intervals::total;
use crate::diagnostic::{Diagnostic, Severity};
use crate::findings::{Inline, Method, Quantity};
use crate::model::Ns;
use crate::prose;
use rooflens_schemas::Unit;

/// How much communication there is, and how much of it shows.
pub(super) fn introduction(ranks: &Ranks) -> Vec<Inline> {
    let run = &ranks.run;
    let calls: u64 = run.members.iter().map(|member| member.calls.len() as u64).sum();
    let mut text = prose![
        "Pass ",
        Inline::Code(run.name.clone()),
        ": ",
        Quantity::count(calls),
        format!(" collectives on {} ", run.members.len()),
        if run.members.len() == 1 { "rank" } else { "ranks" },
    ];
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
    text
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
        Reason::MoreWork | Reason::SlowerKernels(_) => prose![
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
        Reason::MoreIdle | Reason::Unknown => {}
    }
    Some(text)
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
             and output) and process group are those that the PyTorch trace records; otherwise the operation is \
             read from the kernel's name or from NCCL's own range, and the size is unknown. Communication is the \
             length of the union of the collectives' intervals; exposed is the part in which no kernel of that \
             GPU computes, whichever stage that belongs to. Algorithm bandwidth is message ÷ time; bus bandwidth \
             multiplies it by 2 (n − 1) ÷ n for all-reduce, (n − 1) ÷ n for all-gather, reduce-scatter, \
             all-to-all, gather and scatter, and 1 for broadcast, reduce and send/receive (NCCL tests). The time \
             is that on the rank that came last, where several ranks are known, because the others wait in it. \
             Collectives are matched across ranks by process group and number; without numbers by order, where \
             lists of unequal length are shifted to where the ends fit best. The offset of a clock is the median \
             of end − mean end over the collectives that join all ranks; what deviates from it is the residual. \
             A straggler came last, that is, was the shortest in the collective, more often than ",
            Quantity::ratio(1e-3),
            " chance among equal ranks explains (binomial). Its reason is the larger of two differences from the \
             median of the others, each at least 2 %: computing time (slower kernels, if nine tenths of it is in kernels of a \
             name and grid that the other rank runs too, or else more work) and idle time.",
        ],
    }
}
