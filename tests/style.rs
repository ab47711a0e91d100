//! The words of documents, help texts, catalogues and comments: `docs/style.md` lists those that are banned.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

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

/// Tests assert keys and arguments, so that a wording can change without a change to tests.
#[test]
fn tests_assert_no_sentence_of_a_report() {
    let mut fragments = BTreeSet::new();
    for path in files(Path::new("src/write/document/text"), "toml") {
        fragments.extend(fragments_of_messages(&read(&path)));
    }
    assert!(fragments.len() > 5_000, "{} fragments", fragments.len());
    let mut places = Vec::new();
    for folder in ["src", "schemas", "capture", "tests"] {
        for path in files(Path::new(folder), "rs") {
            if INPUTS_OF_TESTS.contains(&path.to_string_lossy().as_ref()) {
                continue;
            }
            for sentence in asserted_sentences(&test_code(&path), &fragments) {
                places.push(format!("{}: {sentence}", path.display()));
            }
        }
    }
    assert!(
        places.is_empty(),
        "assert keys and arguments instead:\n{}",
        places.join("\n")
    );
}

#[test]
fn a_sentence_in_a_test_is_seen() {
    let fragments =
        fragments_of_messages(r#"cause = "{stage} waits for the CPU to launch[ ({count} calls].""#);
    let seen = |code: &str| asserted_sentences(code, &fragments).len();
    assert_eq!(
        seen(r#"contains("prefill waits for the CPU to launch")"#),
        1
    );
    assert_eq!(seen(r#"contains("Waits for the CPU, to")"#), 1);
    // Four words, and words around an argument.
    assert_eq!(seen(r#"contains("waits for the CPU")"#), 0);
    assert_eq!(seen(r#"contains("the CPU to launch 12 calls")"#), 0);
}

/// The sample report is an input of tests, in its own words; this file has examples.
const INPUTS_OF_TESTS: [&str; 2] = ["tests/support/sample_report.rs", "tests/style.rs"];

/// So many words in a row are a sentence; fewer may be a term.
const SENTENCE: usize = 5;

/// Each run of words of the messages of a catalogue, as long as a sentence, without arguments in it.
fn fragments_of_messages(catalogue: &str) -> BTreeSet<String> {
    let message = Regex::new(r#"(?m)^[^=\n]+ = (?:"((?:[^"\\]|\\.)*)"|'([^']*)')"#);
    let argument = Regex::new(r"\{[^{}]*\}").expect("a valid pattern");
    let mut fragments = BTreeSet::new();
    for line in message.expect("a valid pattern").captures_iter(catalogue) {
        let text = line.get(1).or(line.get(2)).expect("a message").as_str();
        for part in argument.split(text) {
            fragments.extend(runs_of_words(part));
        }
    }
    fragments
}

/// The string literals of the code that have a fragment of a message.
fn asserted_sentences(code: &str, fragments: &BTreeSet<String>) -> Vec<String> {
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("a valid pattern");
    let mut sentences = Vec::new();
    for literal in literal.captures_iter(code) {
        let mut runs = runs_of_words(&literal[1]).into_iter();
        if runs.any(|run| fragments.contains(&run)) {
            sentences.push(literal[1].to_owned());
        }
    }
    sentences
}

/// A word, or a Chinese character.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\p{Han}|[^\s\p{Han}]*[\p{L}\p{N}--\p{Han}][^\s\p{Han}]*").expect("a valid pattern")
});

/// Words in a row without punctuation and case; each Chinese character is a word.
fn runs_of_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in WORD.find_iter(text) {
        let word = word.as_str().trim_matches(|c: char| !c.is_alphanumeric());
        words.push(word.to_lowercase());
    }
    words.windows(SENTENCE).map(|run| run.join(" ")).collect()
}

/// The code of tests in a file, without comments: all of it, the module of tests, or nothing.
fn test_code(path: &Path) -> String {
    let text = read(path);
    let is_test = path.components().any(|part| part.as_os_str() == "tests")
        || path.ends_with("tests.rs")
        || path.to_string_lossy().ends_with("_tests.rs");
    let start = match is_test {
        true => Some(0),
        false => text.find("#[cfg(test)]\nmod tests {"),
    };
    let code = start.map_or("", |start| &text[start..]);
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let lines: Vec<&str> = code.lines().filter(is_code).collect();
    lines.join("\n")
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
