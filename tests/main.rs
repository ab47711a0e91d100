//! All tests of the program in one: each program of tests is linked with all that it tests.

mod architecture;
mod browser;
mod bundle;
mod cli;
mod comparison;
mod documentation;
mod fixtures;
#[cfg(target_os = "linux")]
mod hostile;
mod ingest_nsys;
mod ingest_torch;
mod jobs;
mod kernel_lists;
mod lake;
mod layouts;
mod names;
mod output;
mod planted;
mod prediction;
mod recipes;
mod redaction;
mod render;
mod reports;
mod schemas;
mod snippets;
mod style;
mod support;
mod text;
mod what_if;
mod wrong;
