//! Kernels: which ran, for how long, and what kind of work they were.

mod classes;
mod tables;
#[cfg(test)]
mod tests;

use rooflens_schemas::{PassKind, Scope};

use super::Section;
use crate::{Context, joined};
use rooflens_analysis::Known;
use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::kernels::kernel_sums::{KernelSum, OTHER_LIMIT, PassKernels};
use rooflens_diagnostic::{Diagnostic, Severity};
use rooflens_document::catalogue::{APPLICATION_SHARE, KERNEL_TIME, OTHER_SHARE};
use rooflens_document::{Block, Inline, Quantity, SectionContent, View};
use rooflens_session::{KernelId, Ns, PassId};
use rooflens_units::Ratio;

pub use classes::{NEAR, bound_of_kernel};
pub use tables::kernels as table;

/// Kernels.
pub(super) static SECTION: Section = Section {
    id: "kernels",
    show,
};

/// Kernels that a page shows per pass, and those of the primary pass that the report shows.
const SHOWN: usize = 20;
const SHOWN_FIRST: usize = 12;

/// Application kernels that a sentence names.
const SHOWN_APPLICATION: usize = 3;

/// Passes that the section shows; the data sets hold all.
const SHOWN_PASSES: usize = 3;

fn show(context: &Context<'_>) -> Known<SectionContent> {
    let (session, facts) = (context.session, context.facts);
    let passes = context.results.kernels()?;
    let classes = method!(context, "kernels.classes", limit = OTHER_LIMIT);
    let methods = vec![method!(context, "kernels"), classes];
    let mut content = SectionContent {
        methods,
        ..SectionContent::default()
    };
    let shown = shown_passes(context);
    classes::add(context, context.results.stage_work()?, &shown, &mut content);
    for pass in &shown {
        content
            .blocks
            .extend(view(context, passes, *pass, SHOWN).map(Block::Table));
    }
    if let Some(first) = shown.first() {
        let of_stages = classes::views(context, context.results.stage_work()?, *first);
        let has_stages = !of_stages.is_empty();
        content.main.extend(of_stages.into_iter().map(Block::Table));
        // Without measured iterations, such as of sums, all launches.
        let all = (!has_stages).then(|| view(context, passes, *first, SHOWN_FIRST));
        content.main.extend(all.flatten().map(Block::Table));
    }
    let shown_kernels = passes.iter().filter(|pass| shown.contains(&pass.pass));
    content.main.extend(
        shown_kernels
            .filter_map(|pass| application(context, pass))
            .take(1),
    );
    for pass in passes {
        add_metrics(context, pass, &mut content);
    }
    add_names(context, passes, &shown, &mut content);
    content.datasets.push(tables::kernels(
        context.text,
        session,
        &facts.identities,
        passes,
    ));
    content.datasets.push(tables::libraries(context, passes));
    Ok(content)
}

/// Passes with GPU work that the section shows: timelines, for profilers of frameworks disturb more; others
/// only where there is no timeline. The first is the one that shows the kernels in graphs.
fn shown_passes(context: &Context<'_>) -> Vec<PassId> {
    let (session, facts) = (context.session, context.facts);
    let mut working = facts.kernels_first(session);
    working
        .retain(|pass| !facts.ops_of(*pass).is_empty() || session.kernel_sums.pass.contains(pass));
    let is_timeline = |pass: &PassId| session.passes.kind[pass.index()] == PassKind::Timeline;
    if working.iter().any(is_timeline) {
        working.retain(is_timeline);
    }
    working.truncate(SHOWN_PASSES);
    working
}

/// The kernels of a pass with the most time.
fn view(context: &Context<'_>, passes: &[PassKernels], pass: PassId, limit: usize) -> Option<View> {
    let index = passes.iter().position(|kernels| kernels.pass == pass)?;
    let skip = passes[..index]
        .iter()
        .map(|kernels| kernels.sums.len())
        .sum();
    let rows = passes[index].sums.len();
    let (limit, pass) = (rows.min(limit), context.session.pass_name(pass));
    let shown = limit.to_string();
    let caption = match rows > limit {
        true => {
            let first = passes[index].sums[..limit]
                .iter()
                .map(|sum| sum.total)
                .sum();
            words!(
                context,
                "kernels.first",
                shown = shown,
                rows = rows.to_string(),
                share = passes[index].share(first).unwrap_or_default(),
                pass = pass,
            )
        }
        false => words!(context, "kernels.all", pass = pass),
    };
    let columns = [
        "short", "number", "class", "library", "count", "total_ns", "share", "mean_ns",
    ];
    Some(View {
        skip,
        ..View::new("kernels", caption, &columns, limit)
    })
}

/// The program's own kernels with the most time, where they take a share worth telling.
fn application(context: &Context<'_>, pass: &PassKernels) -> Option<Block> {
    let share = pass
        .share(pass.application)
        .filter(|share| *share >= OTHER_LIMIT)?;
    let identities = &context.facts.identities;
    let named = |sum: &KernelSum| {
        let name = Inline::code(&identities[sum.kernel.index()].short);
        Some(vec![
            name,
            format!(" ({})", Quantity::from(pass.share(sum.total)?)).into(),
        ])
    };
    let kernels = pass
        .of_class(identities, KernelClass::Application)
        .take(SHOWN_APPLICATION);
    Some(Block::Prose(say!(
        context,
        "kernels.application",
        share = share,
        pass = Inline::code(context.session.pass_name(pass.pass)),
        kernels = joined(kernels.filter_map(named), ", "),
    )))
}

/// `kernel_time`, `other_share` and `application_share` of one pass.
fn add_metrics(context: &Context<'_>, pass: &PassKernels, content: &mut SectionContent) {
    let PassKernels {
        launches,
        total,
        other,
        application,
        ..
    } = *pass;
    let name = context.session.pass_name(pass.pass);
    let scope = Scope {
        pass: Some(name.to_owned()),
        ..Scope::default()
    };
    let basis = format!("sum of the durations of {launches} launches");
    let first = content.metrics.len();
    content
        .metrics
        .push(KERNEL_TIME.measured(scope.clone(), total.time().0, basis));
    if let Some(share) = pass.share(other) {
        let basis = format!("{other} ns of kernels of no known class / {total} ns of kernel time");
        content
            .metrics
            .push(OTHER_SHARE.derived(scope.clone(), share.0, basis));
        content
            .diagnostics
            .extend(unclassified(context, pass, share));
    }
    if let Some(share) = pass.share(application).filter(|_| application > Ns::ZERO) {
        let basis = format!("{application} ns of application kernels / {total} ns of kernel time");
        content
            .metrics
            .push(APPLICATION_SHARE.derived(scope, share.0, basis));
    }
    let evidence = pass.evidence(context.session);
    for metric in &mut content.metrics[first..] {
        metric.evidence.push(evidence.clone());
    }
}

fn unclassified(context: &Context<'_>, pass: &PassKernels, share: Ratio) -> Option<Diagnostic> {
    let identities = &context.facts.identities;
    let worst = pass.of_class(identities, KernelClass::Other).next();
    let worst = worst.filter(|_| share >= OTHER_LIMIT)?;
    let message = format!(
        "{} of the kernel time of pass {} is in kernels of no known class, most of it in {}",
        Quantity::from(share),
        context.session.pass_name(pass.pass),
        identities[worst.kernel.index()].short,
    );
    let diagnostic = Diagnostic::new(Severity::Notice, "kernels/unclassified", message);
    Some(diagnostic.hint("their time counts as “other”; class shares of the rest are unaffected"))
}

/// Whole names of the kernels that tables show, for the appendix.
fn add_names(
    context: &Context<'_>,
    passes: &[PassKernels],
    shown: &[PassId],
    content: &mut SectionContent,
) {
    let of_shown = passes.iter().filter(|pass| shown.contains(&pass.pass));
    let mut kernels: Vec<KernelId> = of_shown
        .flat_map(|pass| pass.sums.iter().take(SHOWN))
        .map(|sum| sum.kernel)
        .collect();
    kernels.sort_unstable();
    kernels.dedup();
    if kernels.is_empty() {
        return;
    }
    let name = |kernel: &KernelId| {
        let whole = Inline::code(context.session.kernel_name(*kernel));
        (tables::number(*kernel).to_string(), vec![whole])
    };
    content
        .appendix
        .push(Block::Heading(words!(context, "kernels.names")));
    content
        .appendix
        .push(Block::Facts(kernels.iter().map(name).collect()));
}
