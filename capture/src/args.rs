//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Record a GPU machine and its profiles as a capture bundle for rooflens
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
#[command(after_help = "\
Examples:
  rooflens-capture snapshot -o run1        what the machine and its software are
  nsys profile -o run1/nsys/timeline python3 train.py
  nsys export --type sqlite run1/nsys/timeline.nsys-rep
  rooflens-capture manifest run1           list and hash all files: the bundle is complete

Exit codes: 0 done, 125 this program failed")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Snapshot(SnapshotArguments),
    Manifest(ManifestArguments),
    Peaks(crate::peaks::PeaksArguments),
    Bench(crate::bench::BenchArguments),
}

/// Record GPUs, driver, host, tool versions and known environment variables in BUNDLE/snapshot
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture snapshot -o run1
  rooflens-capture snapshot -o run1 --python .venv/bin/python

What is not there is recorded as missing, with the reason. Host names, user names, serial numbers and
environment variables beyond a fixed list are never recorded.")]
pub(crate) struct SnapshotArguments {
    /// Folder of the bundle; made if it is not there
    #[arg(short, long, value_name = "BUNDLE")]
    pub(crate) output: PathBuf,
    /// Python whose PyTorch version is asked for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
}

/// Hash all files of BUNDLE and write its manifest.json, or renew the one that is there
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture manifest run1
  rooflens-capture manifest run1 --name \"Llama-3-8B, batch 8\" --label ticket=1234

Each folder is a pass. Files are known by their names: *.sqlite, *.pt.trace.json, *.ncu-rep, nvml.csv, timings.json,
workload.toml and so on, packed with .gz or .zst or not. What a manifest that is there says of passes and files is kept.")]
pub(crate) struct ManifestArguments {
    /// Folder of the bundle
    #[arg(value_name = "BUNDLE")]
    pub(crate) bundle: PathBuf,
    /// Name for people; the folder's name if absent
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Free fact for people; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
