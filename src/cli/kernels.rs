//! `rooflens kernels`: the kernel table on standard output, or the list of kernels to profile.

use std::collections::BTreeSet;

use super::args::{Input, Kernels, Sort};
use super::error::CliError;
use super::load::{check, errors, load, strict};
use super::term::{Term, quoted};
use crate::analysis::Facts;
use crate::analysis::engine::classify;
use crate::analysis::engine::facts::OpSource;
use crate::analysis::kernels::kernel_sums;
use crate::document::{Catalogue, Cell, Dataset};
use crate::render::text::clean;
use crate::sections;
use crate::session::{Copies, GraphLaunches, KernelSums, Launches, Session};

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
    let (input, stages) = asked(&args.input);
    let mut loaded = load(&input, term)?;
    check(&loaded, term)?;
    loaded
        .diagnostics
        .iter()
        .for_each(|diagnostic| term.diagnostic(diagnostic));
    strict(&args.input, loaded.diagnostics.iter())?;
    if !stages.is_empty() {
        keep_stages(&mut loaded.session, &stages)?;
    }
    let identities = classify::identities(&loaded.session);
    let passes = kernel_sums::by_pass(&loaded.session, &identities);
    if passes.is_empty() {
        let message = "no kernel with a time in the input".to_owned();
        return Err(CliError::Unusable {
            message,
            hint: None,
        });
    }
    let mut kernels =
        sections::kernels::table(Catalogue::english(), &loaded.session, &identities, &passes);
    sort(&mut kernels, args.sort);
    kernels
        .rows
        .truncate(args.top.map_or(usize::MAX, usize::from));
    let text = if args.csv {
        csv(&kernels)?
    } else {
        table(&kernels)
    };
    term.print(text.as_bytes())?;
    errors(loaded.diagnostics.iter())
}

/// The input with those stages that have a regular expression, and the names of the others.
fn asked(input: &Input) -> (Input, Vec<String>) {
    let (rules, names) = input
        .stages
        .iter()
        .cloned()
        .partition(|stage| stage.contains('='));
    (
        Input {
            stages: rules,
            ..input.clone()
        },
        names,
    )
}

/// Leaves the GPU operations of some stages alone, so that shares are of them.
fn keep_stages(session: &mut Session, names: &[String]) -> Result<(), CliError> {
    let facts = Facts::new(session);
    let is_asked = |name: &str| names.iter().any(|asked| asked == name);
    if let Some(missing) = names
        .iter()
        .find(|name| facts.stages.iter().all(|one| one.name != **name))
    {
        let known: BTreeSet<&str> = facts.stages.iter().map(|one| one.name.as_str()).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(CliError::Unusable {
            message: format!(
                "no stage {missing} in the input; there are {}",
                known.join(", ")
            ),
            hint: None,
        });
    }
    let stages = facts.stages.iter().filter(|stage| is_asked(&stage.name));
    let instances = stages.flat_map(|stage| facts.instances_of(stage));
    let ops: BTreeSet<u32> = instances.flat_map(|one| one.ops.iter().copied()).collect();
    let (mut launches, mut copies, mut graphs) = (
        Launches::default(),
        Copies::default(),
        GraphLaunches::default(),
    );
    for op in ops {
        match facts.ops.source[op as usize] {
            OpSource::Launch(id) => {
                launches.push(session.launches.row(id));
            }
            OpSource::Copy(id) => {
                copies.push(session.copies.row(id));
            }
            OpSource::Graph(id) => {
                graphs.push(session.graph_launches.row(id));
            }
        }
    }
    (session.launches, session.copies, session.graph_launches) = (launches, copies, graphs);
    session.kernel_sums = KernelSums::default();
    Ok(())
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
    let Some(at) = kernels.columns.iter().position(|one| one.id == column) else {
        return;
    };
    let number = |row: &Vec<Cell>| match row[at] {
        Cell::Int(value) => value as f64,
        Cell::Float(value) => value,
        _ => f64::NEG_INFINITY,
    };
    match by {
        Sort::Name => kernels.rows.sort_by_key(|row| row[at].plain()),
        _ => kernels.rows.sort_by(|a, b| number(b).total_cmp(&number(a))),
    }
}

/// Prints the kernels to profile as YAML. Texts are JSON strings, which are YAML.
fn list(args: &Kernels, term: &mut Term) -> Result<(), CliError> {
    let (input, names) = asked(&args.input);
    let loaded = load(&input, term)?;
    loaded
        .diagnostics
        .iter()
        .for_each(|diagnostic| term.diagnostic(diagnostic));
    strict(&input, loaded.diagnostics.iter())?;
    let facts = Facts::new(&loaded.session);
    let stage = names.first().map(String::as_str);
    if names.len() > 1 {
        return Err(CliError::Usage(
            "--yaml lists the kernels of one --stage NAME".to_owned(),
        ));
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
        out.push_str(&format!(
            "    share: {:.6}\n    launches: {:?}\n",
            one.share, one.launches
        ));
    }
    if let Some(window) = kernel_sums::window(&loaded.session, &facts, stage, &selected) {
        out.push_str(
            "# launches of all these functions together that hold a typical one of each\n",
        );
        out.push_str(&format!(
            "window: {{skip: {}, count: {}}}\n",
            window.skip, window.count
        ));
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
    let pass = kernels
        .columns
        .iter()
        .position(|column| column.id == "pass");
    let is_one = pass.is_none_or(|at| {
        kernels
            .rows
            .iter()
            .all(|row| row[at] == kernels.rows[0][at])
    });
    let columns: Vec<usize> = COLUMNS
        .iter()
        .filter(|id| **id != "pass" || !is_one)
        .filter_map(|id| kernels.columns.iter().position(|column| column.id == *id))
        .collect();
    let mut lines = vec![
        columns
            .iter()
            .map(|at| kernels.columns[*at].title.to_owned())
            .collect(),
    ];
    for row in &kernels.rows {
        let shown = columns
            .iter()
            .map(|at| clean(&row[*at].show(kernels.columns[*at].unit)).into_owned());
        lines.push(shown.collect::<Vec<_>>());
    }
    let width = |at: usize| {
        lines
            .iter()
            .map(|line| line[at].chars().count())
            .max()
            .unwrap_or(0)
    };
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
