//! The examples of the recipes in `docs/contributing.md`: each lists the files that mention it, and no other file does.
//!
//! A recipe that needs more files than it says, or than its bar, fails here before somebody follows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

/// The heading of a recipe, and the most files that it may touch. The example of a result includes its section.
const RECIPES: [(&str, usize); 5] = [
    ("A result", 6),
    ("A section", 4),
    ("A metric", 4),
    ("A rule of findings", 7),
    ("A GPU", 1),
];

/// Folders with files that are written by hand.
const FOLDERS: [&str; 4] = ["src", "docs", "tests", "schemas"];

/// Lists that tests generate, the history, and the recipes themselves.
const NOT_BY_HAND: [&str; 4] = [
    "docs/CHANGELOG.md",
    "docs/SUMMARY.md",
    "docs/contributing.md",
    "docs/findings.md",
];

#[test]
fn recipes_list_all_files_that_their_examples_touch() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/contributing.md")).expect("the page of recipes");
    let mut texts = Vec::new();
    for folder in FOLDERS {
        add_texts(root, &root.join(folder), &mut texts);
    }
    for (heading, most) in RECIPES {
        let (id, listed) = example(&page, heading);
        let words: Vec<String> = id.split(['-', '_', ' ']).map(regex::escape).collect();
        // Kebab, snake and constant case; words of prose only if the id has words.
        let separator = if id.contains(' ') { "[-_ ]" } else { "[-_]" };
        let pattern = format!("(?i){}", words.join(separator));
        let mention = Regex::new(&pattern).expect("a pattern");
        let mut mentioning = BTreeSet::new();
        for (path, text) in &texts {
            if mention.is_match(path) || mention.is_match(text) {
                mentioning.insert(path.clone());
            }
        }
        assert_eq!(mentioning, listed, "{heading}: files that mention {id}");
        assert!(listed.len() <= most, "{heading}: {} files", listed.len());
    }
}

/// The id of a recipe's example, and the files that the recipe lists for it.
fn example(page: &str, heading: &str) -> (String, BTreeSet<String>) {
    let (_, recipe) = page
        .split_once(&format!("\n## {heading}\n"))
        .expect("a recipe");
    let recipe = recipe.split("\n## ").next().unwrap_or_default();
    let (_, line) = recipe.split_once("\nExample: ").expect("an example");
    let line = line.lines().next().unwrap_or_default();
    let code = Regex::new("`([^`]+)`").expect("a pattern");
    let mut ids = code.captures_iter(line).map(|code| code[1].to_owned());
    (ids.next().expect("an id"), ids.collect())
}

/// Adds the path and the text of each file below a folder that is text and written by hand.
fn add_texts(root: &Path, folder: &Path, texts: &mut Vec<(String, String)>) {
    for item in fs::read_dir(folder).expect("a folder") {
        let path = item.expect("an item of a folder").path();
        if path.is_dir() {
            add_texts(root, &path, texts);
            continue;
        }
        let name = path.strip_prefix(root).expect("a path of the repository");
        let name = name.to_string_lossy().into_owned();
        if NOT_BY_HAND.contains(&name.as_str()) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(&path) {
            texts.push((name, text));
        }
    }
}
