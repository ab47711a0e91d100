//! `rooflens kernels`: the kernel table on standard output, or the list of kernels to profile.

use super::args::Kernels;
use super::error::CliError;
use super::load::{check, errors, load, strict};
use super::term::{Term, quoted};
use crate::analysis::Facts;
use crate::analysis::engine::classify;
use crate::analysis::kernels::kernel_sums;
use crate::findings::{Catalogue, Dataset};
use crate::present;
use crate::render::text::clean;

/// Columns of the printed table.
const COLUMNS: [&str; 6] = ["total_ns", "share", "count", "mean_ns", "class", "name"];

/// Kernels that the list holds where `--top` does not say.
const LISTED: usize = 10;

/// Prints the kernels of all passes, the most time first.
pub(super) fn run(args: &Kernels, term: &mut Term) -> Result<(), CliError> {
    if args.yaml {
        return list(args, term);
    }
    let loaded = load(&args.input, term)?;
    check(&loaded, term)?;
    loaded.diagnostics.iter().for_each(|diagnostic| term.diagnostic(diagnostic));
    strict(&args.input, loaded.diagnostics.iter())?;
    let identities = classify::identities(&loaded.session);
    let passes = kernel_sums::by_pass(&loaded.session, &identities);
    if passes.is_empty() {
        let message = "no kernel with a time in the input".to_owned();
        return Err(CliError::Unusable { message, hint: None });
    }
    let mut kernels =
        present::kernels::table(Catalogue::english(), &loaded.session, &identities, &passes);
    kernels.rows.truncate(args.top.map_or(usize::MAX, usize::from));
    let text = if args.csv { csv(&kernels)? } else { table(&kernels) };
    term.print(text.as_bytes())?;
    errors(loaded.diagnostics.iter())
}

/// Prints the kernels to profile as YAML. Texts are JSON strings, which are YAML.
fn list(args: &Kernels, term: &mut Term) -> Result<(), CliError> {
    let (rules, names): (Vec<String>, Vec<String>) =
        args.input.stages.iter().cloned().partition(|stage| stage.contains('='));
    let mut input = args.input.clone();
    input.stages = rules;
    let loaded = load(&input, term)?;
    loaded.diagnostics.iter().for_each(|diagnostic| term.diagnostic(diagnostic));
    strict(&input, loaded.diagnostics.iter())?;
    let facts = Facts::new(&loaded.session);
    let stage = names.first().map(String::as_str);
    if names.len() > 1 {
        return Err(CliError::Usage("--yaml lists the kernels of one --stage NAME".to_owned()));
    }
    let top = args.top.map_or(LISTED, usize::from);
    let selected = kernel_sums::select(&loaded.session, &facts, stage, top).ok_or_else(|| {
        let stage = stage.map_or_else(String::new, |stage| format!(" in a stage {stage}"));
        CliError::Unusable {
            message: format!("no kernel{stage} in the timeline of the input"),
            hint: None,
        }
    })?;
    let mut out =
        String::from("# launches: numbers among all launches of the function, from 0\nkernels:\n");
    for one in &selected {
        out.push_str(&format!("  - name: {}\n", quoted(&one.name)));
        out.push_str(&format!(
            "    regex: {}\n",
            quoted(&format!("^{}$", regex::escape(&one.function)))
        ));
        out.push_str(&format!("    share: {:.6}\n    launches: {:?}\n", one.share, one.launches));
    }
    if let Some(window) = kernel_sums::window(&loaded.session, &facts, stage, &selected) {
        out.push_str(
            "# launches of all these functions together that hold a typical one of each\n",
        );
        out.push_str(&format!("window: {{skip: {}, count: {}}}\n", window.skip, window.count));
    }
    out.push_str("name_base: function\n");
    term.print(out.as_bytes())?;
    errors(loaded.diagnostics.iter())
}

fn csv(kernels: &Dataset) -> Result<String, CliError> {
    let bytes = crate::render::csv::bytes(kernels).map_err(CliError::Render)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn table(kernels: &Dataset) -> String {
    let columns: Vec<usize> = COLUMNS
        .iter()
        .filter_map(|id| kernels.columns.iter().position(|column| column.id == *id))
        .collect();
    let mut lines = vec![columns.iter().map(|at| kernels.columns[*at].title.to_owned()).collect()];
    for row in &kernels.rows {
        let shown =
            columns.iter().map(|at| clean(&row[*at].show(kernels.columns[*at].unit)).into_owned());
        lines.push(shown.collect::<Vec<_>>());
    }
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let last = columns.len().saturating_sub(1);
    let mut out = String::new();
    for line in &lines {
        for (at, cell) in line.iter().enumerate() {
            let pad = " ".repeat(width(at) - cell.chars().count());
            if at == last {
                out.push_str(cell);
            } else {
                out.push_str(&format!("{pad}{cell}  "));
            }
        }
        out.push('\n');
    }
    out
}
