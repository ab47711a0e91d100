//! Links between documents lead somewhere, and the site of `docs/` has every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use rooflens::rules::rules;

/// Documents outside of `docs/` whose links are followed, too.
const OTHERS: [&str; 6] = [
    "README.md",
    "capture/README.md",
    "fixtures/README.md",
    "reports/README.md",
    "schemas/README.md",
    "templates/README.md",
];

#[test]
fn links_lead_to_files_and_headings() {
    let mut dead = Vec::new();
    let mut followed = 0;
    for document in documents().into_iter().chain(OTHERS.map(PathBuf::from)) {
        for link in links(&document) {
            if link.contains("://") {
                continue;
            }
            followed += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                file => normal(&document.parent().expect("a folder").join(file)),
            };
            let is_there = super::root().join(&target).exists()
                && (heading.is_empty() || anchors(&target).contains(heading));
            if !is_there {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(followed > 150, "{followed} links");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// mdBook makes pages of what `SUMMARY.md` lists and of nothing else; its pages are in a site of their own, so they
/// link to no file outside of it.
#[test]
fn the_site_has_every_page() {
    let listed: BTreeSet<String> = links(Path::new("docs/SUMMARY.md")).into_iter().collect();
    let mut pages: BTreeSet<String> = documents()
        .iter()
        .map(|page| {
            page.strip_prefix("docs")
                .expect("in it")
                .to_string_lossy()
                .replace('\\', "/")
        })
        .collect();
    pages.remove("SUMMARY.md");
    assert_eq!(listed, pages);
    for page in documents() {
        let leaves = |link: &String| {
            !link.contains("://")
                && !normal(&page.parent().expect("docs").join(link)).starts_with("docs")
        };
        let outside: Vec<String> = links(&page).into_iter().filter(leaves).collect();
        assert!(outside.is_empty(), "{}: {outside:?}", page.display());
    }
}

#[test]
fn each_rule_has_a_page_that_the_list_of_findings_links() {
    let listed: BTreeSet<String> = links(Path::new("docs/findings.md")).into_iter().collect();
    for rule in rules() {
        let page = format!("findings/{}.md", rule.id);
        assert!(
            super::root().join("docs").join(&page).exists(),
            "docs/{page} is missing"
        );
        assert!(
            listed.contains(&page),
            "docs/findings.md does not list {page}"
        );
    }
}

/// The documents in `docs/`, by their path from the root.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(super::root().join(&folder)).expect("readable") {
            let entry = entry.expect("readable");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Where the links and pictures of a document lead.
fn links(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(super::root().join(document)).expect("readable");
    Parser::new_ext(&text, Options::ENABLE_TABLES)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        })
        .collect()
}

/// The anchors of a document's headings: letters, digits, `-` and `_`, in lower case, spaces as `-`.
fn anchors(document: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(super::root().join(document)).expect("readable");
    let (mut found, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new(&text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                found.extend(heading.take().map(|text| anchor(&text)))
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

fn anchor(heading: &str) -> String {
    let kept = |character: char| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then_some(other),
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
        path
    })
}
