//! `merge`: bundles of several hosts become one session.
//!
//! The first host's bundle is taken whole. Of the others come the timelines and traces of their ranks, into the passes of
//! the same names; the rest is of one host and stays where it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rooflens_schemas::{Artifact, ArtifactKind, Manifest, PassKind, manifest};
use rooflens_session::Ns;

use crate::error::CaptureError;
use crate::manifest::{Description, describe_bundle};
use crate::timeline::{self, Offset, Timeline};
use crate::{files, say};

/// Make one bundle of those that several hosts left of one run
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  rooflens-capture merge -o run1 node0 node1 node2

The bundles stand in the order of their hosts' ranks. Timelines and traces of all ranks are taken; what else there is,
of the first host alone. How the clocks differ is estimated from collectives, and said.")]
pub(crate) struct MergeArguments {
    /// Folder of the bundle that is made
    #[arg(short, long, value_name = "BUNDLE")]
    output: PathBuf,
    /// Name of the bundle, for people; the folder's name if absent
    #[arg(long)]
    name: Option<String>,
    /// Bundles, one a host
    #[arg(required = true, num_args = 2.., value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
}

/// A bundle to merge.
struct Host {
    folder: PathBuf,
    manifest: Manifest,
}

/// The bundle that is written.
struct Merged {
    output: PathBuf,
    taken: BTreeSet<String>,
    /// Rank of the next process in a timeline.
    rank: usize,
    /// The first host's timeline, and what is said of the clocks.
    first: Option<Timeline>,
    notes: Vec<String>,
}

/// Merges.
pub(crate) fn run(arguments: &MergeArguments) -> Result<String, CaptureError> {
    let output = &arguments.output;
    if output.join(manifest::FILE_NAME).exists() {
        return Err(CaptureError::Complete(output.clone()));
    }
    let hosts: Result<Vec<Host>, _> = arguments.bundles.iter().map(|path| host(path)).collect();
    let hosts = hosts?;
    let mut merged = Merged {
        output: output.clone(),
        taken: BTreeSet::new(),
        rank: 0,
        first: None,
        notes: Vec::new(),
    };
    for (number, host) in hosts.iter().enumerate() {
        merged.add(number, host)?;
    }
    let mut description = Description {
        name: arguments.name.clone(),
        ..Description::default()
    };
    if let Some(Host { manifest, .. }) = hosts.into_iter().next() {
        let tool = |artifact: Artifact| Some((artifact.pass?, artifact.producer?));
        description
            .producers
            .extend(manifest.artifacts.into_iter().filter_map(tool));
        description.labels.extend(manifest.labels);
        (description.passes, description.captured_at) = (manifest.passes, manifest.captured_at);
    }
    let mut passes = description.passes.iter_mut();
    if let Some(pass) = passes.find(|pass| pass.kind == PassKind::Timeline) {
        pass.notes.extend(merged.notes);
    }
    describe_bundle(output, description)
}

fn host(folder: &Path) -> Result<Host, CaptureError> {
    let path = folder.join(manifest::FILE_NAME);
    let bytes = fs::read(&path).map_err(CaptureError::io(&path))?;
    let manifest =
        Manifest::from_json(&bytes).map_err(|error| CaptureError::Manifest(path, error))?;
    Ok(Host {
        folder: folder.to_owned(),
        manifest,
    })
}

impl Merged {
    fn add(&mut self, number: usize, host: &Host) -> Result<(), CaptureError> {
        let mut left = 0;
        for artifact in &host.manifest.artifacts {
            let name = artifact.path.rsplit('/').next().unwrap_or_default();
            let path = match (artifact.kind, &artifact.pass) {
                (ArtifactKind::NsysSqlite, Some(pass)) => {
                    let rank = self.rank;
                    self.timeline(number, &host.folder.join(&artifact.path))?;
                    format!("{pass}/rank{rank}.sqlite{}", packing(name))
                }
                _ if number == 0 => artifact.path.clone(),
                (ArtifactKind::TorchTrace, Some(pass)) => {
                    let path = format!("{pass}/{name}");
                    match self.taken.contains(&path) {
                        true => format!("{pass}/host{number}-{name}"),
                        false => path,
                    }
                }
                _ => {
                    left += 1;
                    continue;
                }
            };
            self.take(&host.folder.join(&artifact.path), path)?;
        }
        if left > 0 {
            say(&format!(
                "{}: {left} files are of this host alone and stay there",
                host.folder.display()
            ));
        }
        Ok(())
    }

    /// Counts the ranks of a timeline, and tells its clock from that of the first host.
    fn timeline(&mut self, number: usize, path: &Path) -> Result<(), CaptureError> {
        let timeline = Timeline::open(path).map_err(CaptureError::io(path))?;
        for note in timeline.notes() {
            let note = format!("host {number}: {note}");
            say(&note);
            self.notes.push(note);
        }
        self.rank += timeline.processes().max(1);
        match &self.first {
            None => self.first = Some(timeline),
            Some(first) if number > 0 => {
                let said = clock(number, timeline::offset(first, &timeline));
                say(&said);
                self.notes.push(said);
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn take(&mut self, from: &Path, path: String) -> Result<(), CaptureError> {
        let refused = |fault| CaptureError::Path(path.clone(), fault);
        manifest::check_path(&path).map_err(refused)?;
        let to = self.output.join(&path);
        if let Some(folder) = to.parent() {
            files::make(folder)?;
        }
        files::copy(from, &to).map_err(CaptureError::io(from))?;
        self.taken.insert(path);
        Ok(())
    }
}

/// How a file is packed, by its name.
fn packing(name: &str) -> &str {
    [".zst", ".gz"]
        .into_iter()
        .find(|ending| name.ends_with(ending))
        .unwrap_or_default()
}

/// What is said of a clock.
fn clock(number: usize, offset: Option<Offset>) -> String {
    let ms = |time: Ns| time.time().0 / 1e6;
    match offset {
        Some(Offset {
            ahead,
            deviation: (middle, largest),
            matched,
        }) => format!(
            "host {number}: its clock is {:+.3} ms from that of host 0, by the ends of {matched} collectives, which \
             deviate by {:.3} ms (median; at most {:.3} ms)",
            ms(ahead),
            ms(middle),
            ms(largest)
        ),
        None => format!(
            "host {number}: how its clock differs from that of host 0 is not known: no collectives that both have as often"
        ),
    }
}
