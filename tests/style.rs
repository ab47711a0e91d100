//! The words of documents, help texts, catalogues and comments: `docs/style.md` lists those that are banned.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// Words in the text of this list are examples of what not to write.
const EXEMPT: &str = "docs/style.md";

/// Chinese constructions that the guide replaces.
const BANNED_CHINESE: [&str; 2] = ["不带性能分析器", "带性能分析器"];

#[test]
fn documents_have_no_banned_word() {
    let mut documents = files(Path::new("docs"), "md");
    documents.extend(
        [
            "README.md",
            "capture/README.md",
            "fixtures/README.md",
            "reports/README.md",
            "templates/README.md",
        ]
        .map(PathBuf::from),
    );
    documents.retain(|path| path != Path::new(EXEMPT));
    // Pages of findings name the arguments of messages; blocks of code show what programs print.
    let argument = Regex::new(r"‹\w+›|(?s)```.*?```").expect("a valid pattern");
    let texts = documents.iter().map(|path| {
        let text = read(path);
        let words = argument.replace_all(&text, "").into_owned();
        (path.display().to_string(), words)
    });
    check(texts.collect());
}

#[test]
fn catalogues_have_no_banned_word() {
    // Quoted keys are values of data files and names in braces are arguments: no page shows either.
    let names = Regex::new(r#"(?m)^"[^"]*" =|\{\w+"#).expect("a valid pattern");
    let english = files(Path::new("src/write/document/text/en"), "toml");
    let messages = english.iter().map(|path| {
        let text = read(path);
        let words = names.replace_all(&text, "").into_owned();
        (path.display().to_string(), words)
    });
    check(messages.collect());
    for path in files(Path::new("src/write/document/text/zh"), "toml") {
        let text = read(&path);
        for banned in BANNED_CHINESE {
            assert!(!text.contains(banned), "{}: {banned}", path.display());
        }
    }
}

#[test]
fn help_texts_have_no_banned_word() {
    let program = env!("CARGO_BIN_EXE_rooflens");
    let main = help(program, &[]);
    let commands = main.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{main}");
    let mut texts = vec![("rooflens --help".to_owned(), main.clone())];
    for command in commands {
        texts.push((
            format!("rooflens {command} --help"),
            help(program, &[command]),
        ));
    }
    check(texts);
}

#[test]
fn comments_have_no_banned_word() {
    let comment = Regex::new(r"(?m)^\s*//.*$").expect("a valid pattern");
    let mut texts = Vec::new();
    for folder in ["src", "schemas", "capture", "tests", "benches"] {
        for path in files(Path::new(folder), "rs") {
            let text = read(&path);
            let comments: Vec<&str> = comment.find_iter(&text).map(|line| line.as_str()).collect();
            texts.push((path.display().to_string(), comments.join("\n")));
        }
    }
    check(texts);
}

#[test]
fn the_list_of_banned_words_is_read() {
    let banned = banned();
    assert!(banned.is_match("the causes are told by name"));
    assert!(banned.is_match("Left\nout"));
    assert!(!banned.is_match("untold, besideness, unprofiled"));
}

/// Fails with every place of the texts that has a banned word.
fn check(texts: Vec<(String, String)>) {
    let banned = banned();
    let mut places = BTreeSet::new();
    assert!(!texts.is_empty());
    for (name, text) in texts {
        for word in banned.find_iter(&text) {
            let line = text[..word.start()].lines().count().max(1);
            places.insert(format!("{name}:{line}: {}", word.as_str()));
        }
    }
    let places: Vec<String> = places.into_iter().collect();
    assert!(
        places.is_empty(),
        "docs/style.md bans:\n{}",
        places.join("\n")
    );
}

/// The first column of the table under "Banned words", as one pattern.
fn banned() -> Regex {
    let guide = read(Path::new(EXEMPT));
    let (_, section) = guide
        .split_once("## Banned words")
        .expect("the section is there");
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    let words: Vec<String> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split(','))
        .map(|word| regex::escape(word.trim()).replace(' ', r"\s+"))
        .collect();
    assert!(words.len() > 20, "{words:?}");
    Regex::new(&format!(r"(?i)\b(?:{})\b", words.join("|"))).expect("a valid pattern")
}

fn help(program: &str, command: &[&str]) -> String {
    let output = Command::new(program)
        .args(command)
        .arg("--help")
        .output()
        .expect("rooflens runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn read(path: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Files with this extension below a folder of the repository, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder));
        for entry in entries.expect("a folder") {
            let entry = entry.expect("readable");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
