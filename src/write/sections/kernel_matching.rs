//! Kernel matching: which kernel name of one tool is which of another, and how that was found.

use std::collections::BTreeMap;

use super::Section;
use crate::Context;
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::identify;
use rooflens_analysis::engine::kernel_names::{How, md5_hex};
use rooflens_analysis::kernels::kernel_matching::MatchedName;
use rooflens_document::{Block, Inline, SectionContent, Table};
use rooflens_session::PassId;

/// Kernel matching.
pub(super) static SECTION: Section = Section {
    id: "identity",
    show,
};

/// Rows of the summary, and names without a partner, that the appendix shows.
const SHOWN_PASSES: usize = 30;
const SHOWN: usize = 15;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let session = context.session;
    let Ok(found) = context.results.kernel_matching() else {
        return Ok(SectionContent::default());
    };
    let (summary, names) = (summary(context), names(context, found.reference));
    let pass = Inline::code(session.pass_name(found.reference));
    let mut appendix = vec![
        Block::Prose(say!(context, "kernel_matching.introduction", pass = pass)),
        Block::Table(summary.view(words!(context, "kernel_matching.summary"), SHOWN_PASSES)),
    ];
    let unmatched = found.unmatched();
    if unmatched > 0 {
        let shown = unmatched.min(SHOWN);
        let (first, all) = (shown.to_string(), unmatched.to_string());
        let caption = words!(
            context,
            "kernel_matching.unmatched",
            shown = first,
            all = all
        );
        appendix.push(Block::Table(names.view(caption, shown)));
    }
    let datasets = vec![summary.rows(&found.by_pass()), names.rows(&found.names)];
    Ok(SectionContent {
        appendix,
        datasets,
        methods: vec![method!(context, "kernel_matching")],
        ..SectionContent::default()
    })
}

/// One row a pass: how many of its names matched how.
fn summary<'t>(context: &Context<'t>) -> Table<'t, (PassId, BTreeMap<How, u64>)> {
    let session = context.session;
    let producer = |pass: PassId| session.text(session.passes.producer[pass.index()]);
    let mut table = columns! { context, "identity_passes", (pass, counts): &(PassId, BTreeMap<How, u64>) => {
        text "pass" = session.pass_name(*pass);
        text "tool" = Some(producer(*pass)).filter(|tool| !tool.is_empty());
        count "kernels" = counts.values().sum::<u64>();
    } };
    let columns = [
        "exact",
        "md5",
        "signature",
        "without_parameters",
        "ambiguous",
        "none",
    ];
    for (how, id) in How::ALL.into_iter().zip(columns) {
        table = columns! { table, (pass, counts): &(PassId, BTreeMap<How, u64>) => {
            count (id) = counts.get(&how).copied().unwrap_or(0);
        } };
    }
    table.all_on_page()
}

fn names<'t>(context: &Context<'t>, reference: PassId) -> Table<'t, MatchedName> {
    let session = context.session;
    columns! { context, "identity", row: &MatchedName => {
        let name = session.text(row.name);
        let partner = row.kernel.map(|kernel| session.kernel_name(kernel));
        let reason = match row.how {
            How::Ambiguous => "several kernels of the timeline have this signature".to_owned(),
            How::None => format!("did not run in pass {}", session.pass_name(reference)),
            _ => String::new(),
        };
        name "kernel" = identify(name).short, page;
        text "pass" = session.pass_name(row.pass), page;
        count "launches" = row.launches, page;
        text "how" = row.how.label(), page;
        text "reason" = reason, page;
        text "md5" = md5_hex(name);
        text "timeline_md5" = partner.map(md5_hex);
        name "name" = name;
        name "timeline_name" = partner;
    } }
}

#[cfg(test)]
mod tests {
    use rooflens_schemas::PassKind;

    use super::*;
    use crate::testing::{column, dataset, show};
    use rooflens_analysis::testing::counters::session as profiled;
    use rooflens_analysis::testing::represent::launch;
    use rooflens_document::Cell;

    #[test]
    fn names_of_other_passes_are_listed_with_their_partner() {
        // As Nsight Compute spells them, and one that the timeline does not hold.
        let mut session = profiled(&[("void f<1>(T1)", &[]), ("void f<1>(T1)", &[]), ("g", &[])]);
        let pass = session.add_pass("nsys", PassKind::Timeline, "nsys.sqlite");
        launch(
            &mut session,
            pass,
            "void ns::f<(bool)1>(T1)",
            [1, 1, 1],
            0..10,
        );
        let found = show(&SECTION, &session);
        let names = dataset(&found, "identity");
        let plain = |id| {
            column(names, id)
                .iter()
                .map(Cell::plain)
                .collect::<Vec<_>>()
        };
        assert_eq!(plain("launches"), ["1", "2"]);
        assert_eq!(plain("how"), ["not matched", "signature"]);
        assert_eq!(plain("reason"), ["did not run in pass nsys", ""]);
        assert_eq!(plain("timeline_name")[1], "void ns::f<(bool)1>(T1)");
        // Two names: no exact one, no md5, one signature, none without parameters, none ambiguous, one missing.
        let counts = [
            "kernels",
            "exact",
            "md5",
            "signature",
            "without_parameters",
            "ambiguous",
            "none",
        ];
        let count = |id| column(dataset(&found, "identity_passes"), id).remove(0);
        assert_eq!(counts.map(count), [2, 0, 0, 1, 0, 0, 1].map(Cell::Int));
    }

    #[test]
    fn one_pass_alone_has_nothing_to_say() {
        let mut session = rooflens_session::Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "nsys.sqlite");
        launch(&mut session, pass, "f", [1, 1, 1], 0..10);
        assert!(show(&SECTION, &session).appendix.is_empty());
    }
}
