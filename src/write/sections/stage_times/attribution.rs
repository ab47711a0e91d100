//! How operations were attributed, and how much GPU time no stage has.

use rooflens_schemas::Scope;
use rooflens_session::Ns;

use crate::Context;
use rooflens_analysis::time::stage_times::StageTimes;
use rooflens_analysis::time::stage_times::attribution::{How, PassAttribution, Sum, UNATTRIBUTED};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::catalogue::{ATTRIBUTED_SHARE, ATTRIBUTED_SHARE_FROM_FIRST_STAGE};
use rooflens_document::{Block, SectionContent, Table};

/// Operations of a pass that were attributed in one way.
type Row<'a> = (&'a PassAttribution, How, Sum);

/// Adds the data set `attribution`, its view, and the attributed shares per pass.
pub(super) fn add(context: &Context<'_>, times: &StageTimes, content: &mut SectionContent) {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for pass in &times.attribution {
        rows.extend(pass.by_how.iter().map(|(how, sum)| (pass, *how, *sum)));
        let name = context.session.pass_name(pass.pass);
        let scope = || Scope {
            pass: Some(name.to_owned()),
            ..Scope::default()
        };
        let basis = "sum of durations of operations in some stage ÷ sum of durations of all operations of the pass";
        content
            .metrics
            .push(ATTRIBUTED_SHARE.derived(scope(), pass.staged.0, basis));
        let basis = format!("{basis} that start with the first one of a stage or later");
        let from_first = &ATTRIBUTED_SHARE_FROM_FIRST_STAGE;
        content
            .metrics
            .push(from_first.derived(scope(), pass.staged_from_first.0, basis));
        if pass.pass == times.primary {
            let sentence = say!(context, "attribution.share", share = pass.staged);
            content.blocks.push(Block::Prose(sentence));
        }
        if pass.unattributed() >= UNATTRIBUTED {
            let message = words!(
                context,
                "attribution.unattributed",
                share = pass.unattributed(),
                pass = name
            );
            let notice = Diagnostic::new(Severity::Notice, "stages/unattributed", message);
            let hint = words!(context, "attribution.unattributed_hint");
            content.diagnostics.push(notice.hint(hint));
        }
    }
    let table = table(context);
    let limit = rows.len().min(How::ALL.len() * 3);
    let view = table.view(words!(context, "attribution.caption"), limit);
    content.blocks.push(Block::Table(view));
    content.datasets.push(table.rows(&rows));
}

fn table<'t>(context: &Context<'t>) -> Table<'t, Row<'t>> {
    let session = context.session;
    columns! { context, "attribution", (pass, how, sum): &Row<'_> => {
        let (name, meaning) = words(*how);
        text "how" = name, page;
        text "pass" = session.pass_name(pass.pass), page;
        count "operations" = sum.operations, page;
        time "time_ns" = sum.time, page;
        share "share" = (pass.time() > Ns::ZERO).then(|| sum.time.time().0 / pass.time().time().0), page;
        text "meaning" = meaning, page;
    } }
}

/// Name and meaning.
const fn words(how: How) -> (&'static str, &'static str) {
    match how {
        How::OwnThread => ("own thread", "a range is open on the issuing thread"),
        How::Inferred => (
            "inferred",
            "the issuing thread has no range; one other thread has",
        ),
        How::Outside => (
            "no range open",
            "no thread of the process has a range open over the call",
        ),
        How::Ambiguous => ("ambiguous", "several other threads have ranges open"),
        How::NoApiCall => ("no API call", "the issuing call is not in the artifact"),
    }
}
