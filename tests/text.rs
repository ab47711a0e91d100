//! The catalogue of words and the code that says them agree: no key and no argument is missing or left over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use rooflens::document::{Catalogue, Lang};

/// Keys that are put together in code: their last part is an id, which must stand in the code.
const BY_ID: [&str; 2] = ["columns", "thresholds"];

/// Keys of a rule's table that are put together in code.
const OF_RULES: [&str; 5] = ["name", "do", "if", "cause", "advice_without_pytorch"];

/// Keys of a rule's table that the frame of rules says where they are there.
const OF_FRAME: [&str; 8] = [
    "statement",
    "advice",
    "next",
    "needs",
    "basis",
    "root_cause",
    "root_action",
    "root_if",
];

/// The folders whose code and templates say words.
const SPEAKERS: [&str; 2] = ["src", "templates"];

#[test]
fn each_message_is_said_with_its_arguments() {
    let known: BTreeMap<&str, Vec<&str>> = Catalogue::english().keys().collect();
    let mut wrong = Vec::new();
    let calls = calls();
    assert!(
        calls.len() > 100,
        "the scanner finds {} messages",
        calls.len()
    );
    for (place, key, arguments) in &calls {
        let Some(expected) = known.get(key.as_str()) else {
            wrong.push(format!("{place}: no message {key}"));
            continue;
        };
        let given: BTreeSet<&str> = arguments.iter().map(String::as_str).collect();
        if given != expected.iter().copied().collect() {
            wrong.push(format!(
                "{place}: {key} takes {expected:?}, is given {given:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A rule gives the frame arguments by name, and its messages take them: the file of a rule is named as its table.
#[test]
fn messages_of_rules_take_the_arguments_that_the_rule_gives() {
    let name = Regex::new(r"^(\w+)\s*=").expect("a valid pattern");
    let id = Regex::new(r#"(?:rule!|Rule::new)\(\s*"([a-z0-9-]+)""#).expect("a valid pattern");
    let mut rules = 0;
    for (path, text) in files("src/analyze/rules") {
        let mut given = BTreeSet::new();
        for (start, call) in text.match_indices("arguments! {") {
            for argument in arguments(&text[start + call.len()..]) {
                given.extend(name.captures(&argument).map(|found| found[1].to_owned()));
            }
        }
        // Most files have one rule; rules of one file share their arguments.
        let mut tables = BTreeSet::new();
        for found in id.captures_iter(&text) {
            tables.insert(found[1].replace('-', "_"));
        }
        if tables.is_empty() {
            let stem = path.file_stem().expect("a file");
            tables.insert(stem.to_string_lossy().into_owned());
        }
        let mut taken = BTreeSet::new();
        for (key, arguments) in Catalogue::english().keys() {
            let Some((table, last)) = key.split_once('.') else {
                continue;
            };
            let is_said = tables.contains(table)
                && !text.contains(&format!("\"{key}\""))
                && (OF_FRAME.contains(&last) || text.contains(&format!("\"{last}\"")));
            if is_said {
                taken.extend(arguments.into_iter().map(str::to_owned));
            }
        }
        // Modules that are no rule have no messages.
        if text.contains("Rule::new(") && !path.ends_with("rule.rs") {
            assert_eq!(given, taken, "{}", path.display());
            rules += tables.len();
        }
    }
    assert_eq!(rules, rooflens::rules::rules().count());
}

#[test]
fn all_languages_have_the_same_messages_with_the_same_arguments() {
    // Words for values of data are needed only where they differ from the value, and bases of metrics are data.
    let messages = |lang: Lang| -> BTreeMap<&str, Vec<&str>> {
        Catalogue::of(lang)
            .keys()
            .filter(|(key, _)| !key.starts_with("words.") && !key.starts_with("basis."))
            .collect()
    };
    let english = messages(Lang::En);
    for lang in Lang::ALL {
        let own = messages(lang);
        let differs = |key: &&&str| own.get(**key) != english.get(**key);
        let wrong: BTreeSet<&&str> = own.keys().chain(english.keys()).filter(differs).collect();
        assert!(wrong.is_empty(), "{lang:?}: {wrong:#?}");
    }
}

/// A column of a data set whose declaration names the data set has a heading: of the data set, or a shared one.
#[test]
fn each_column_has_a_heading() {
    let declaration = Regex::new(r#"columns! \{\s*(?:\w+|Table::new\(\w+), "(\w+)""#);
    let declaration = declaration.expect("a valid pattern");
    let column = Regex::new(r#"(?m)^\s*(?:\w+ )*"(\w+)" ="#).expect("a valid pattern");
    let keys: BTreeSet<&str> = Catalogue::english().keys().map(|(key, _)| key).collect();
    let mut columns = 0;
    let mut missing = Vec::new();
    for (path, text) in files("src") {
        for start in declaration.captures_iter(&text) {
            let table = &start[1];
            let rest = &text[start.get(0).expect("whole").end()..];
            let lines = rest.split("} }").next().unwrap_or_default();
            for column in column.captures_iter(lines) {
                let column = &column[1];
                columns += 1;
                let of_table = format!("tables.{table}.{column}");
                let of_all = format!("columns.{column}");
                if !keys.contains(of_table.as_str()) && !keys.contains(of_all.as_str()) {
                    missing.push(format!("{}: {of_table}", path.display()));
                }
            }
        }
    }
    assert!(columns > 400, "the scanner finds {columns} columns");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn no_data_set_repeats_a_shared_heading() {
    let catalogues = Lang::ALL.map(Catalogue::of);
    let headings =
        catalogues.map(|catalogue| (catalogue.group("tables"), catalogue.group("columns")));
    let mut repeated = Vec::new();
    for key in headings[0].0.keys() {
        let (_, column) = key.split_once('.').expect("a table and a column");
        let is_shared = headings
            .iter()
            .all(|(tables, columns)| tables.get(key) == columns.get(column));
        if is_shared {
            repeated.push(key);
        }
    }
    assert!(
        headings[0].0.len() > 100,
        "{} headings",
        headings[0].0.len()
    );
    assert!(repeated.is_empty(), "{repeated:#?}");
}

#[test]
fn each_message_is_used() {
    let said: BTreeSet<String> = calls().into_iter().map(|(_, key, _)| key).collect();
    let code: String = SPEAKERS
        .iter()
        .flat_map(|folder| files(folder))
        .map(|(_, text)| text)
        .collect();
    let ids: BTreeSet<&str> = Regex::new(r#""([\w-]+)"|words\.(\w+)"#)
        .expect("a valid pattern")
        .captures_iter(&code)
        .filter_map(|found| Some(found.get(1).or(found.get(2))?.as_str()))
        .collect();
    let keys: BTreeSet<&str> = Regex::new(r#""([a-z_]+(?:\.[a-z_0-9-]+)+)""#)
        .expect("a valid pattern")
        .captures_iter(&code)
        .filter_map(|found| Some(found.get(1)?.as_str()))
        .collect();
    let is_used = |key: &str| {
        let (group, last) = (
            key.split('.').next(),
            key.rsplit('.').next().unwrap_or_default(),
        );
        match group {
            Some("words") => code.contains(&format!("\"{}\"", &key["words.".len()..])),
            Some(
                "glossary"
                | "compare_glossary"
                | "experiments_glossary"
                | "fleet_glossary"
                | "microbench_glossary"
                | "serving_glossary",
            ) => true,
            Some("sections" | "tables") => key
                .split('.')
                .skip(1)
                .all(|id| id == "title" || ids.contains(id)),
            Some(group) if BY_ID.contains(&group) || group == "page" => {
                ids.contains(last) || ids.contains(last.replace('_', "-").as_str())
            }
            Some(rule) if OF_RULES.contains(&last) || OF_FRAME.contains(&last) => {
                ids.contains(rule.replace('_', "-").as_str())
            }
            // A rule chooses between several messages by the last part of their keys.
            Some(rule) if ids.contains(rule.replace('_', "-").as_str()) => ids.contains(last),
            _ => false,
        }
    };
    let unused: Vec<&str> = Catalogue::english()
        .keys()
        .map(|(key, _)| key)
        .filter(|key| !said.contains(*key) && !keys.contains(key) && !is_used(key))
        .collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Each `say!`, `words!`, `basis!` and `method!`: where it stands, its key, and the names of its arguments.
fn calls() -> Vec<(String, String, Vec<String>)> {
    let call = Regex::new(r"\b(say|words|method|basis)!\(").expect("a valid pattern");
    let name = Regex::new(r"^(\w+)\s*=").expect("a valid pattern");
    let mut all = Vec::new();
    for (path, text) in files("src") {
        if path.starts_with("src/write/document/text") {
            continue;
        }
        for found in call.captures_iter(&text) {
            let (start, kind) = (found.get(0).expect("whole").end(), &found[1]);
            let mut parts = arguments(&text[start..]);
            if kind != "basis" {
                // The context, which has the words.
                parts.remove(0);
            }
            let Some(key) = parts
                .first()
                .and_then(|key| key.strip_prefix('"')?.strip_suffix('"'))
            else {
                all.push((
                    path.display().to_string(),
                    format!("{:?}", parts.first()),
                    Vec::new(),
                ));
                continue;
            };
            let names = parts[1..]
                .iter()
                .filter_map(|part| Some(name.captures(part)?[1].to_owned()));
            let names: Vec<String> = names.collect();
            let place = path.display().to_string();
            if kind == "method" {
                all.push((place.clone(), format!("{key}.method.title"), Vec::new()));
                all.push((place, format!("{key}.method.text"), names));
            } else {
                all.push((place, key.to_owned(), names));
            }
        }
    }
    all
}

/// The arguments of a call up to its closing parenthesis.
fn arguments(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                part.push('"');
                while let Some(inside) = characters.next() {
                    part.push(inside);
                    match inside {
                        '\\' => part.extend(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part).trim().to_owned());
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    parts.push(part.trim().to_owned());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Path and text of the sources below a folder, without tests and comments.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("readable").file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|kind| kind == "rs" || kind == "typ")
            {
                let text = fs::read_to_string(root.join(&path)).expect("readable");
                let lines = text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"));
                files.push((path, lines.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    files
}
