//! The walls between modules, the weight of the capture program, and the shape of the code.
//!
//! `docs/architecture.md` says why.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::root;

/// The folders of `src` that group crates, in the order of the data.
const FOLDERS: [&str; 6] = ["base", "tables", "read", "analyze", "write", "studies"];

/// The folders of `analysis`: each uses those before it.
const GROUPS: [&str; 9] = [
    "engine",
    "kernels",
    "operators",
    "memory",
    "system",
    "counters",
    "utilization",
    "communication",
    "time",
];

/// What importers share; next to these, no importer uses another.
const SHARED_BY_IMPORTERS: [&str; 9] = [
    "abi",
    "database",
    "error",
    "identify",
    "nesting",
    "profiles",
    "stats_tables",
    "testing",
    "unread",
];

/// What renderers share; next to these, no renderer uses another.
const SHARED_BY_RENDERERS: [&str; 11] = [
    "appendix",
    "brand",
    "length",
    "measure",
    "page",
    "pagination",
    "paper",
    "svg",
    "table",
    "text",
    "world",
];

/// The most crates, itself included, that the capture program may consist of.
const CAPTURE_CRATES: usize = 84;

/// What must not be compiled into the capture program.
const HEAVY: [&str; 8] = [
    "cudarc",
    "polars-core",
    "rayon",
    "rooflens",
    "rusqlite",
    "schemars",
    "tokio",
    "typst",
];

/// What must not be compiled into anything: the analyzer works offline. `.deny.toml` has the same list, with rustls for
/// the capture program alone.
const NETWORK: [&str; 7] = [
    "curl",
    "h2",
    "hyper",
    "native-tls",
    "object_store",
    "openssl",
    "reqwest",
];

/// Longest file and longest function, in lines.
const LONGEST: (usize, usize) = (800, 100);

/// The table of `docs/architecture.md` lists every member of the workspace with the crates that its `Cargo.toml` lists.
#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let document = read("docs/architecture.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter(|line| line.starts_with("| `rooflens"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let members = captures(r#"(?m)^    "([^"]+)",$"#, &read("Cargo.toml"));
    assert_eq!(
        rows.len(),
        members.len(),
        "crates in the table and in the workspace"
    );
    for row in rows {
        let (name, folder, uses) = (row[1].trim_matches('`'), row[2].trim_matches('`'), row[4]);
        let folder = if folder == "src" { "." } else { folder };
        assert!(
            members.iter().any(|member| member == folder),
            "{name} is not in {folder}"
        );
        let listed: BTreeSet<String> = captures("`([a-z-]+)`", uses).into_iter().collect();
        assert_eq!(listed, dependencies(folder), "crates that {name} uses");
    }
}

/// The crates of this repository that a crate's `Cargo.toml` lists, without the prefix of their names.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let Some((_, dependencies)) = manifest.split_once("\n[dependencies]\n") else {
        return BTreeSet::new();
    };
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    captures(r"(?m)^rooflens-([a-z-]+)", dependencies)
        .into_iter()
        .collect()
}

#[test]
fn folders_of_the_analysis_use_those_before_them() {
    let mut breaches = Vec::new();
    for (index, group) in GROUPS.iter().enumerate() {
        for file in rust_files(&format!("src/analyze/analysis/{group}")) {
            for used in captures(r"\bcrate::(\w+)", &code(&file)) {
                if GROUPS[index + 1..].contains(&used.as_str()) {
                    breaches.push(format!("{}: {used}", file.display()));
                }
            }
        }
    }
    assert!(
        breaches.is_empty(),
        "over the wall:\n{}",
        breaches.join("\n")
    );
}

#[test]
fn importers_and_renderers_do_not_know_one_another() {
    let mut breaches = Vec::new();
    for (parent, shared) in [
        ("read/ingest", &SHARED_BY_IMPORTERS[..]),
        ("write/render", &SHARED_BY_RENDERERS[..]),
    ] {
        for file in rust_files(&format!("src/{parent}")) {
            let Some(own) = part_of(&file, parent) else {
                continue;
            };
            for used in siblings(&file, parent, &code(&file)) {
                if used != own && !shared.contains(&used.as_str()) && is_part(parent, &used) {
                    breaches.push(format!("{} uses {parent}::{used}", file.display()));
                }
            }
        }
    }
    assert!(
        breaches.is_empty(),
        "over the wall:\n{}",
        breaches.join("\n")
    );
}

#[test]
fn only_the_command_line_prints() {
    let printing = Regex::new(r"\b(e?print(ln)?|dbg)!").expect("a valid pattern");
    for file in rust_files("src") {
        let allowed = ["cli", "main"].contains(&module_of(&file).as_deref().unwrap_or("main"));
        let found = printing
            .find(&code(&file))
            .map(|found| found.as_str().to_owned());
        assert!(
            allowed || found.is_none(),
            "{}: {}",
            file.display(),
            found.unwrap_or_default()
        );
    }
}

#[test]
fn the_core_reads_no_clock_environment_or_file() {
    let outside = Regex::new(r"\bstd::(env|fs|net|process|time)\b|\bSystemTime\b|\bInstant\b")
        .expect("a valid pattern");
    for module in [
        "session",
        "query",
        "parquet",
        "hardware",
        "llm",
        "units",
        "stats",
        "document",
        "analysis",
        "sections",
        "rules",
        "render",
        "predict",
        "serving",
        "microbench",
    ] {
        for file in rust_files("src")
            .into_iter()
            .filter(|f| module_of(f).as_deref() == Some(module))
        {
            let code = code(&file);
            let found = outside.find(&code).map_or("", |found| found.as_str());
            assert!(found.is_empty(), "{}: {found}", file.display());
        }
    }
}

/// Virtual tables are structs that begin with SQLite's own, which only `unsafe` can promise; nothing else is.
#[test]
fn the_analyzer_has_no_unsafe_code_but_two_promises() {
    let unsafe_code = Regex::new(r"\bunsafe\b").expect("a valid pattern");
    for folder in ["src", "schemas/src"] {
        for file in rust_files(folder) {
            let code = code(&file).replace("unsafe_code", "");
            let found: Vec<&str> = code
                .lines()
                .filter(|line| unsafe_code.is_match(line))
                .collect();
            let expected: &[&str] = match file.ends_with("query/vtab.rs") {
                true => &[
                    "unsafe impl<'vtab> VTab<'vtab> for Rows {",
                    "unsafe impl VTabCursor for Cursor {",
                ],
                false => &[],
            };
            assert_eq!(found, expected, "{}", file.display());
        }
    }
}

/// Programs and libraries without `unsafe` forbid it; the others deny it but where they say why.
#[test]
fn every_crate_says_what_it_does_about_unsafe_code() {
    let reasons = Regex::new(r"#\[allow\(unsafe_code(, reason)?").expect("a valid pattern");
    let roots = ["src", "schemas/src", "capture/src", "capture/bench/src"]
        .into_iter()
        .flat_map(rust_files)
        .filter(|file| file.ends_with("lib.rs") || file.ends_with("main.rs"));
    for file in roots {
        let code = code(&file);
        let has = |attribute| code.lines().any(|line| line == attribute);
        assert!(
            has("#![forbid(unsafe_code)]") || has("#![deny(unsafe_code)]"),
            "{}",
            file.display()
        );
    }
    for file in ["src", "capture/src", "capture/bench/src"]
        .into_iter()
        .flat_map(rust_files)
    {
        let text = fs::read_to_string(root().join(&file)).expect("readable");
        let mut allowed = reasons.captures_iter(&text);
        assert!(
            allowed.all(|found| found.get(1).is_some()),
            "{}",
            file.display()
        );
    }
}

#[test]
fn files_and_functions_are_short() {
    let mut long = Vec::new();
    let (longest_file, longest_function) = LONGEST;
    for file in [
        "src",
        "schemas/src",
        "capture/src",
        "capture/bench/src",
        "tests",
    ]
    .into_iter()
    .flat_map(rust_files)
    {
        let text = fs::read_to_string(root().join(&file)).expect("readable");
        if text.lines().count() > longest_file {
            long.push(format!(
                "{}: {} lines",
                file.display(),
                text.lines().count()
            ));
        }
        for (name, lines) in functions(&code(&file)) {
            if lines > longest_function {
                long.push(format!("{}: fn {name}: {lines} lines", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "split by subject:\n{}", long.join("\n"));
}

#[test]
fn functions_are_measured_whole() {
    let text = "impl A {\n    fn a(\n        b: u8,\n    ) {\n        if b {\n        }\n    }\n\n    fn c() {}\n    fn d();\n}\n";
    let expected = [("a", 6), ("c", 1), ("d", 1)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(functions(text), expected);
}

#[test]
fn capture_stays_light() {
    let crates = crates(&["-p", "rooflens-capture", "-e", "normal"]);
    assert!(crates.len() > 20, "no dependency tree: {crates:?}");
    let names: BTreeSet<&str> = crates
        .iter()
        .filter_map(|one| one.split_whitespace().next())
        .collect();
    for heavy in HEAVY.iter().chain(&NETWORK) {
        assert!(
            !names.contains(heavy),
            "rooflens-capture depends on {heavy}"
        );
    }
    let count = crates.len();
    assert!(
        count <= CAPTURE_CRATES,
        "rooflens-capture is {count} crates:\n{crates:#?}"
    );
}

#[test]
fn nothing_brings_a_network_stack() {
    let crates = crates(&["--workspace", "-e", "normal,build,dev"]);
    assert!(crates.len() > 100, "no dependency tree: {crates:?}");
    let deny = read(".deny.toml");
    for banned in NETWORK {
        assert!(
            deny.contains(&format!("\"{banned}\"")),
            ".deny.toml does not ban {banned}"
        );
        let found = crates
            .iter()
            .find(|one| one.split_whitespace().next() == Some(banned));
        assert!(found.is_none(), "{}", found.cloned().unwrap_or_default());
    }
    assert!(deny.contains(r#"{ crate = "rustls", wrappers = ["rooflens-capture"] }"#));
    let program = self::crates(&["-p", "rooflens", "-e", "normal,build"]);
    assert!(!program.iter().any(|name| name.starts_with("rustls ")));
}

/// Both commands of the README share what they compile: no member and no test switches on a feature that the
/// program alone has not.
#[test]
fn no_crate_is_compiled_twice_for_both_commands() {
    let program = tree(&["-p", "rooflens", "-e", "normal,build"], "{p} [{f}]");
    let all = tree(&["--workspace", "-e", "normal,build,dev"], "{p} [{f}]");
    let name = |one: &str| one.split(" [").next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = program.iter().map(|one| name(one)).collect();
    assert!(known.len() > 50, "no dependency tree: {known:?}");
    let again: Vec<&String> = all
        .iter()
        .filter(|one| known.contains(&name(one)) && !program.contains(*one))
        .collect();
    assert!(
        again.is_empty(),
        "features that the program alone has not: {again:#?}"
    );
}

/// Name and version of each crate of a dependency graph.
fn crates(arguments: &[&str]) -> BTreeSet<String> {
    tree(arguments, "{p}")
}

/// The crates of a dependency graph with the features in use; `cargo metadata` would mix in the features that other
/// members of the workspace switch on.
fn tree(arguments: &[&str], format: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--prefix",
            "none",
            "--format",
            format,
        ])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    // A crate of this repository has its path behind its name, a repeated one a mark.
    let plain = |line: &str| {
        let line = line.trim_end_matches(" (*)");
        match (line.find(" ("), line.find(" [")) {
            (Some(path), Some(features)) => format!("{}{}", &line[..path], &line[features..]),
            (Some(path), None) => line[..path].to_owned(),
            _ => line.to_owned(),
        }
    };
    text.lines()
        .filter(|line| !line.is_empty())
        .map(plain)
        .collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Rust files below a folder of the repository, sorted, relative to its root.
fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("readable");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no Rust files");
    files
}

/// The text of a file without comments and without its tests, which may be tables of data and may use
/// anything.
fn code(file: &Path) -> String {
    let of_tests = |part: &std::ffi::OsStr| part == "tests" || part == "benches";
    if file.ends_with("tests.rs") || file.iter().any(of_tests) {
        return String::new();
    }
    let text = fs::read_to_string(root().join(file)).expect("readable");
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| match line.trim_start().starts_with("//") {
            true => "",
            false => line,
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The module or crate in `src` that a file belongs to; none for `lib.rs` and `main.rs`.
fn module_of(file: &Path) -> Option<String> {
    let below = file.strip_prefix("src").ok()?;
    let mut parts = below.iter();
    let first = parts.next()?.to_str()?.trim_end_matches(".rs");
    if FOLDERS.contains(&first) {
        return Some(parts.next()?.to_str()?.to_owned());
    }
    (!["lib", "main"].contains(&first)).then(|| first.to_owned())
}

/// The part of a module that a file belongs to: `nsys` for `src/read/ingest/nsys/work.rs`.
fn part_of(file: &Path, module: &str) -> Option<String> {
    let below = file.strip_prefix("src").ok()?.strip_prefix(module).ok()?;
    let first = below.iter().next()?.to_str()?.trim_end_matches(".rs");
    (first != "lib").then(|| first.to_owned())
}

fn is_part(module: &str, name: &str) -> bool {
    let folder = root().join("src").join(module);
    folder.join(name).is_dir() || folder.join(format!("{name}.rs")).is_file()
}

/// The parts of its parent module that a file names, through `crate::` or through `super::`.
fn siblings(file: &Path, parent: &str, code: &str) -> Vec<String> {
    let below = file
        .strip_prefix("src")
        .ok()
        .and_then(|path| path.strip_prefix(parent).ok());
    let folders = below.map_or(0, |path| path.iter().count() - 1);
    // `super` leads out of a folder's `mod.rs` and of a file next to it by one level less.
    let levels = if file.ends_with("mod.rs") {
        folders
    } else {
        folders + 1
    };
    let up = format!(r"(?:^|[^:\w]){}(\w+)", "super::".repeat(levels.max(1)));
    let mut names = captures(r"\bcrate::(\w+)", code);
    names.extend(captures(&up, code));
    names
}

fn captures(pattern: &str, text: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).expect("a valid pattern");
    pattern
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// Names and lengths of the functions of a file as rustfmt lays them out: a function ends where a brace
/// closes at the indentation at which it began.
fn functions(text: &str) -> Vec<(String, usize)> {
    let head = Regex::new(r"^( *)(?:pub(?:\([\w: ]+\))? )?(?:const )?fn (\w+)").expect("a pattern");
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(found) = head.captures(line) else {
            continue;
        };
        let end = format!("{}}}", &found[1]);
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = match one_line {
            true => 1,
            false => {
                lines[start..]
                    .iter()
                    .take_while(|line| **line != end)
                    .count()
                    + 1
            }
        };
        functions.push((found[2].to_owned(), length));
    }
    functions
}
