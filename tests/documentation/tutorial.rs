//! The tutorial's commands of the analyzer print what it quotes.

use std::fs;
use std::process::Command;

/// A block of `sh` whose first word is `rooflens`, followed by a block of `text`, is run in the folder of its captures.
/// Lines of the quotation occur in the output in their order; `…` represents lines that are excluded.
#[test]
fn commands_of_the_tutorial_print_what_it_quotes() {
    let document = fs::read_to_string(super::root().join("docs/tutorial.md")).expect("readable");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let captures = super::root().join("tests/data/what-if");
    let mut run = 0;
    for part in document.split("```sh\n").skip(1) {
        let (command, rest) = part.split_once("```\n").expect("the block ends");
        let Some(quoted) = rest.trim_start().strip_prefix("```text\n") else {
            continue;
        };
        let Some(arguments) = command.strip_prefix("rooflens ") else {
            continue;
        };
        let (quoted, _) = quoted.split_once("```").expect("the block ends");
        let arguments = arguments.split(['|', '#']).next().expect("one part");
        let arguments = arguments.split_whitespace().map(|word| match word {
            "run-eager" => captures.join("eager").into_os_string(),
            "run-graph" => captures.join("graph").into_os_string(),
            other => other.into(),
        });
        let output = Command::new(env!("CARGO_BIN_EXE_rooflens"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("rooflens runs");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let mut lines = printed.lines().map(str::trim_end);
        for line in quoted.lines().filter(|line| *line != "…") {
            assert!(
                lines.any(|own| own == line),
                "{command}does not print: {line}\n{printed}"
            );
        }
        run += 1;
    }
    assert!(run >= 4, "{run} commands with a quotation");
}
