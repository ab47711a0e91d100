//! The files, crates, tests and declarations that documents for contributors name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser};
use regex::Regex;

use super::root;

const DOCUMENTS: [&str; 2] = ["docs/architecture.md", "docs/contributing.md"];

/// Files that the programs write and the repository does not hold.
const OUTPUTS: [&str; 1] = ["report.json"];

/// Folders whose files a document may name without their path.
const FOLDERS: [&str; 5] = ["capture", "docs", "schemas", "src", "tests"];

#[test]
fn named_files_exist() {
    let names = names_of_files();
    let file_name = Regex::new(r"^[\w.-]+\.(json|md|py|rs|sh|toml|typ)$").expect("a pattern");
    let mut checked = 0;
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        for code in code_spans(document) {
            for word in code.split_whitespace() {
                let exists = if word.contains('/') {
                    exists(word)
                } else if file_name.is_match(word) {
                    names.contains(word) || exists(word) || OUTPUTS.contains(&word)
                } else {
                    continue;
                };
                checked += 1;
                if !exists {
                    missing.push(format!("{document}: {word}"));
                }
            }
        }
    }
    assert!(checked > 100, "{checked} names of files");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn named_crates_exist() {
    let crates = names_of_crates();
    let name = Regex::new(r"\brooflens-[a-z-]+").expect("a pattern");
    for document in DOCUMENTS {
        for name in name.find_iter(&read(document)) {
            let name = name.as_str();
            assert!(crates.contains(name), "{document}: {name}");
        }
    }
}

/// Commands such as `cargo test --test all schemas` name a module below `tests/`.
#[test]
fn named_tests_exist() {
    let names = names_of_files();
    let command = Regex::new(r"--test all (\w+)").expect("a pattern");
    let mut commands = 0;
    for document in DOCUMENTS {
        for test in command.captures_iter(&read(document)) {
            let module = format!("{}.rs", &test[1]);
            assert!(names.contains(&module), "{document}: {}", &test[0]);
            commands += 1;
        }
    }
    assert!(commands > 3, "{commands} commands");
}

/// "`SECTIONS` in `src/write/sections/lib.rs`": the file declares it. "`results!` in …": the file uses the macro.
#[test]
fn named_declarations_are_in_their_files() {
    let place = Regex::new(r"`(\w+)(!?)` in `([\w-]+/[\w/.-]+\.rs)`").expect("a pattern");
    let mut places = 0;
    for document in DOCUMENTS {
        for place in place.captures_iter(&read(document)) {
            let (name, path) = (&place[1], &place[3]);
            let pattern = match &place[2] {
                "!" => format!(r"(?m)^{name}! \{{"),
                _ => format!(r"\b(const|static|fn|enum|struct) {name}\b"),
            };
            let declaration = Regex::new(&pattern).expect("a pattern");
            let is_there = declaration.is_match(&read(path));
            assert!(is_there, "{document}: {name} in {path}");
            places += 1;
        }
    }
    assert!(places > 10, "{places} declarations");
}

/// Whether the repository has a path. Of a pattern such as `src/<x>/mod.rs`, the folder before the pattern counts.
fn exists(path: &str) -> bool {
    let is_plain = |part: &&str| !part.contains(['<', '*']);
    let plain: Vec<&str> = path.split('/').take_while(is_plain).collect();
    root().join(plain.join("/")).exists()
}

/// The inline code of a document.
fn code_spans(document: &str) -> Vec<String> {
    let text = read(document);
    let mut spans = Vec::new();
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        if let Event::Code(code) = event {
            spans.push(code.into_string());
        }
    }
    spans
}

/// The names of the packages of the workspace.
fn names_of_crates() -> BTreeSet<String> {
    let member = Regex::new(r#"(?m)^    "([^"]+)",$"#).expect("a pattern");
    let name = Regex::new(r#"(?m)^name = "([^"]+)"$"#).expect("a pattern");
    let mut names = BTreeSet::new();
    for member in member.captures_iter(&read("Cargo.toml")) {
        let manifest = read(format!("{}/Cargo.toml", &member[1]));
        names.insert(name.captures(&manifest).expect("a name")[1].to_owned());
    }
    names
}

fn names_of_files() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<_> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.file_name() {
                names.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    names
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
