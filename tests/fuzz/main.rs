//! Fuzzing on stable: a seeded mutator over fixtures and small files of all formats, for a second by default.
//!
//! `ROOFLENS_FUZZ_SECONDS=60` fuzzes for so long, `ROOFLENS_FUZZ_SEED=7` elsewhere, `ROOFLENS_FUZZ_TARGET=pages` one target
//! alone, `ROOFLENS_FUZZ_CUTS=10000` cuts files at so many places, and `ROOFLENS_FUZZ_CORPUS=DIR` writes inputs and dictionary for cargo-fuzz (`tests/fuzz/cargo-fuzz`). An input that
//! panics is written to the folder for temporary files and named.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod corpus;
mod cuts;
mod mutate;
mod targets;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mutate::{DICTIONARY, Random, mutated};
use targets::Target;

/// Executions of each target without a time.
const EXECUTIONS: u64 = 30;

fn setting(name: &str) -> Option<String> {
    std::env::var(format!("ROOFLENS_FUZZ_{name}")).ok()
}

#[test]
fn no_input_panics_or_costs_too_much() {
    let seconds = setting("SECONDS").and_then(|text| text.parse::<u64>().ok());
    let seed = setting("SEED")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let only = setting("TARGET");
    let chosen = |target: &&Target| only.as_ref().is_none_or(|only| only == target.0);
    let targets: Vec<&Target> = targets::ALL.iter().filter(chosen).collect();
    let share = seconds.map(|all| Duration::from_secs(all) / targets.len().max(1) as u32);
    let mut crashes = String::new();
    for target in targets {
        let (executions, crash) = fuzz(target, share, seed);
        eprintln!("{}: {executions} executions", target.0);
        if let Some(path) = crash {
            writeln!(crashes, "{} panics on {path}", target.0).unwrap();
        }
    }
    assert!(crashes.is_empty(), "{crashes}");
}

/// Runs a target until its time is up or an input panics: executions, and the path of that input.
fn fuzz(target: &Target, share: Option<Duration>, seed: u64) -> (u64, Option<String>) {
    let inputs = corpus::of(target.0);
    let (mut random, began, mut executions) = (Random(seed), Instant::now(), 0);
    let goes_on = |executions: u64| match share {
        Some(share) => began.elapsed() < share,
        None => executions < EXECUTIONS,
    };
    while goes_on(executions) {
        let at = random.below(inputs.len());
        let other = random.below(inputs.len());
        let data = mutated(&mut random, &inputs[at], &inputs[other]);
        executions += 1;
        if catch_unwind(AssertUnwindSafe(|| (target.1)(&data))).is_err() {
            let path =
                std::env::temp_dir().join(format!("rooflens-{}-{seed}-{executions}", target.0));
            std::fs::write(&path, &data).unwrap();
            return (executions, Some(path.display().to_string()));
        }
    }
    (executions, None)
}

/// Inputs that once did harm, and the target that they did it to.
#[test]
fn what_once_did_harm_does_none() {
    for (target, data) in corpus::HARMFUL {
        let found = targets::ALL.iter().find(|known| known.0 == *target);
        found.unwrap_or_else(|| panic!("no target {target}")).1(data);
    }
}

#[test]
fn a_corpus_for_other_fuzzers() {
    let Some(folder) = setting("CORPUS") else {
        return;
    };
    for (name, _) in targets::ALL {
        let folder = std::path::Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (at, data) in corpus::of(name).into_iter().enumerate() {
            std::fs::write(folder.join(at.to_string()), data).unwrap();
        }
    }
    let escaped = |word: &&[u8]| -> String {
        let text: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{text}\"\n")
    };
    let words: String = DICTIONARY.iter().map(escaped).collect();
    std::fs::write(std::path::Path::new(&folder).join("dictionary"), words).unwrap();
}
