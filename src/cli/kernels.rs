//! `rooflens kernels`: the kernel table on standard output, or the list of kernels to profile.

use super::args::{Input, Kernels, Sort};
use super::error::CliError;
use super::load::{check, errors, load, strict};
use super::term::Term;
use crate::analysis::kernels::kernel_sums::yaml;
use crate::document::{Cell, Dataset};
use crate::render::text::clean;

/// Columns of the printed table; the pass where there are several.
const COLUMNS: [&str; 7] = [
    "total_ns", "share", "count", "mean_ns", "pass", "class", "name",
];

/// Kernels that the list holds where `--top` does not say.
const LISTED: usize = 10;

/// Prints the kernels of all passes, the most time first.
pub(super) fn run(args: &Kernels, term: &mut Term) -> Result<(), CliError> {
    if args.yaml {
        return list(args, term);
    }
    let (input, stages) = split_stages(&args.input);
    let mut capture = load(&input, term)?;
    check(&capture, term)?;
    term.diagnostics(capture.diagnostics.iter());
    strict(&args.input, capture.diagnostics.iter())?;
    if !stages.is_empty() {
        capture.keep_stages(&stages)?;
    }
    let Some(mut kernels) = capture.kernel_table() else {
        return Err(CliError::unusable("no kernel with a time in the input"));
    };
    sort(&mut kernels, args.sort);
    let count = args.top.map_or(usize::MAX, usize::from);
    kernels.rows.truncate(count);
    let text = match args.csv {
        true => csv(&kernels)?,
        false => table(&kernels),
    };
    term.print(text.as_bytes())?;
    errors(capture.diagnostics.iter())
}

/// The input with those stages that have a regular expression, and the names of the others.
fn split_stages(input: &Input) -> (Input, Vec<String>) {
    let mut input = input.clone();
    let stages = std::mem::take(&mut input.stages);
    let (rules, names) = stages.into_iter().partition(|stage| stage.contains('='));
    input.stages = rules;
    (input, names)
}

/// Sorts the rows; those that are alike stay in the order of their time.
fn sort(kernels: &mut Dataset, by: Sort) {
    let column = match by {
        // As they come, one pass after another.
        Sort::Total => return,
        Sort::Count => "count",
        Sort::Mean => "mean_ns",
        Sort::Max => "max_ns",
        Sort::Name => "name",
    };
    let Some(column) = kernels.position(column) else {
        return;
    };
    let number = |row: &Vec<Cell>| match row[column] {
        Cell::Int(value) => value as f64,
        Cell::Float(value) => value,
        _ => f64::NEG_INFINITY,
    };
    match by {
        Sort::Name => kernels.rows.sort_by_key(|row| row[column].plain()),
        _ => kernels.rows.sort_by(|a, b| number(b).total_cmp(&number(a))),
    }
}

/// Prints the kernels to profile.
fn list(args: &Kernels, term: &mut Term) -> Result<(), CliError> {
    let (input, names) = split_stages(&args.input);
    let capture = load(&input, term)?;
    term.diagnostics(capture.diagnostics.iter());
    strict(&input, capture.diagnostics.iter())?;
    let stage = match &names[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => {
            let message = "--yaml lists the kernels of one --stage NAME";
            return Err(CliError::Usage(message.to_owned()));
        }
    };
    let count = args.top.map_or(LISTED, usize::from);
    let Some(list) = capture.kernels_to_profile(stage, count) else {
        let stage = stage.map_or_else(String::new, |stage| format!(" in a stage {stage}"));
        let message = format!("no kernel{stage} in the timeline of the input");
        return Err(CliError::unusable(message));
    };
    let text = yaml(&list.kernels, list.window);
    term.print(text.as_bytes())?;
    errors(capture.diagnostics.iter())
}

fn csv(kernels: &Dataset) -> Result<String, CliError> {
    let bytes = crate::render::csv::bytes(kernels).map_err(CliError::Render)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn table(kernels: &Dataset) -> String {
    let mut columns = Vec::new();
    for id in COLUMNS {
        let column = kernels.position(id);
        columns.extend(column.filter(|column| id != "pass" || has_several(kernels, *column)));
    }
    let mut lines = vec![Vec::new()];
    for column in &columns {
        lines[0].push(kernels.columns[*column].title.to_owned());
    }
    for row in &kernels.rows {
        let mut line = Vec::new();
        for column in &columns {
            let cell = row[*column].show(kernels.columns[*column].unit);
            line.push(clean(&cell).into_owned());
        }
        lines.push(line);
    }
    let mut widths = vec![0; columns.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            if column + 1 == columns.len() {
                out.push_str(cell);
            } else {
                out.push_str(&format!("{cell:>width$}  "));
            }
        }
        out.push('\n');
    }
    out
}

/// Whether a column has several values.
fn has_several(table: &Dataset, column: usize) -> bool {
    table
        .rows
        .iter()
        .any(|row| row[column] != table.rows[0][column])
}
