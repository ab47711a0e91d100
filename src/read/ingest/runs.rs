//! Grouping of Nsight Compute files into runs where no manifest states the passes. Groups follow from the content, so
//! the same files give the same passes at the root, in folders, in a list and in an archive.

use std::collections::{BTreeMap, BTreeSet};

use rooflens_bundle::{ArtifactFile, Bundle};

use super::profiles::Origin;

/// Pages of one report: files of one folder that begin with the same process.
struct Report {
    folder: String,
    files: Vec<usize>,
    only_launch: Option<u32>,
}

/// Gives all files of one run the same pass: pages of one report, and reports of one launch each that are numbered
/// (`kernel_0001_…`, `kernel_0002_…`).
pub(super) fn unite(bundle: &mut Bundle) {
    let mut series = BTreeMap::<(String, String), Vec<Report>>::new();
    let mut names = BTreeSet::new();
    let reports = reports(&bundle.files);
    let mut in_folder = BTreeMap::<String, usize>::new();
    for report in &reports {
        *in_folder.entry(report.folder.clone()).or_default() += 1;
    }
    for report in reports {
        let alone = in_folder[&report.folder] == 1;
        let series_key = series_of(&report, &bundle.files).filter(|_| report.only_launch.is_some());
        match series_key {
            Some(series_key) => series.entry(series_key).or_default().push(report),
            None => set_pass(
                bundle,
                &mut names,
                &[&report],
                &name(&report, alone, &bundle.files),
            ),
        }
    }
    for ((folder, prefix), reports) in series {
        let name = match reports.as_slice() {
            [report] => name(report, in_folder[&report.folder] == 1, &bundle.files),
            _ if folder.is_empty() => trimmed(&prefix),
            _ => folder,
        };
        set_pass(
            bundle,
            &mut names,
            &reports.iter().collect::<Vec<_>>(),
            &name,
        );
    }
}

fn reports(files: &[ArtifactFile]) -> Vec<Report> {
    let mut reports = BTreeMap::<(String, i64), Report>::new();
    for (at, file) in files.iter().enumerate() {
        let Some(Origin {
            process,
            only_launch,
        }) = super::origin(file)
        else {
            continue;
        };
        let folder = file
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .to_owned();
        let empty = Report {
            folder: folder.clone(),
            files: Vec::new(),
            only_launch,
        };
        let report = reports.entry((folder, process)).or_insert(empty);
        report.files.push(at);
        report.only_launch = report
            .only_launch
            .filter(|_| report.only_launch == only_launch);
    }
    reports.into_values().collect()
}

/// The folder that numbered reports lie in, and what their names begin with: the report's own folder has the number,
/// or at the root its files have it.
fn series_of(report: &Report, files: &[ArtifactFile]) -> Option<(String, String)> {
    let stem = stem(report, files);
    let (parent, name) = match report.folder.rsplit_once('/') {
        Some((parent, name)) => (parent, name),
        None if report.folder.is_empty() => ("", stem.as_str()),
        None => ("", report.folder.as_str()),
    };
    let digit = name.find(|c: char| c.is_ascii_digit())?;
    Some((parent.to_owned(), name[..digit].to_owned()))
}

/// A report's pass: its folder if it lies there alone, else what the names of its files have in common.
fn name(report: &Report, alone: bool, files: &[ArtifactFile]) -> String {
    if alone && !report.folder.is_empty() {
        return report.folder.clone();
    }
    trimmed(&stem(report, files))
}

/// What the file names of a report begin with; one file's without its extension.
fn stem(report: &Report, files: &[ArtifactFile]) -> String {
    let names = report.files.iter().map(|file| {
        let path = files[*file].path.as_str();
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        name.split_once('.')
            .map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
    });
    let common = |a: String, b: &str| {
        a.chars()
            .zip(b.chars())
            .take_while(|(a, b)| a == b)
            .map(|(a, _)| a)
            .collect()
    };
    let mut names = names;
    let first = names.next().unwrap_or_default().to_owned();
    names.fold(first, common)
}

/// A name without separators at its end.
fn trimmed(name: &str) -> String {
    match name.trim_end_matches(|c: char| !c.is_alphanumeric()) {
        "" => "ncu".to_owned(),
        name => name.to_owned(),
    }
}

fn set_pass(bundle: &mut Bundle, names: &mut BTreeSet<String>, reports: &[&Report], name: &str) {
    let mut unique_name = name.to_owned();
    for number in 2.. {
        if names.insert(unique_name.clone()) {
            break;
        }
        unique_name = format!("{name} · {number}");
    }
    for file in reports.iter().flat_map(|report| &report.files) {
        bundle.files[*file].pass.clone_from(&unique_name);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use rooflens_diagnostic::Diagnostics;

    /// The passes of pages by path, each with its process and the numbers of its launches.
    fn passes(pages: &[(&str, i64, &[u32])]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, process, launches) in pages {
            let header = "\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"m__x.sum\"\n";
            let rows = launches
                .iter()
                .map(|launch| format!("\"{launch}\",\"{process}\",\"a\",\"k\",\"1\"\n"));
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, header.to_owned() + &rows.collect::<String>()).unwrap();
        }
        let mut diagnostics = Diagnostics::default();
        let mut bundle =
            rooflens_bundle::open(&[root.path().to_owned()], &mut diagnostics).unwrap();
        crate::identify(&mut bundle, &mut diagnostics);
        bundle.files.into_iter().map(|file| file.pass).collect()
    }

    #[test]
    fn pages_of_one_process_are_one_pass_and_reports_of_others_are_not() {
        let loose = [
            ("decode.details.csv", 7, &[0, 1][..]),
            ("decode.raw.csv", 7, &[0, 1]),
            ("prefill.raw.csv", 8, &[0, 1]),
        ];
        assert_eq!(passes(&loose), ["decode", "decode", "prefill"]);
        let folder = loose.map(|(_, process, launches)| (process, launches));
        let [a, b, c] = folder;
        let within = [
            ("n/details.csv", a.0, a.1),
            ("n/raw.csv", b.0, b.1),
            ("n/x.csv", c.0, c.1),
        ];
        let passes_within = passes(&within);
        assert_eq!(passes_within[0], passes_within[1]);
        assert_ne!(passes_within[0], passes_within[2]);
        assert_eq!(passes(&within[..2]), ["n", "n"]);
        assert_eq!(
            passes(&[("raw.csv", 7, &[0]), ("details.csv", 7, &[0])]),
            ["ncu", "ncu"]
        );
    }

    #[test]
    fn numbered_reports_of_one_launch_are_one_pass() {
        let run = [
            ("run/k_01/raw.csv", 7, &[0][..]),
            ("run/k_02/raw.csv", 9, &[0]),
        ];
        assert_eq!(passes(&run), ["run", "run"]);
        assert_eq!(
            passes(&[("k_01/raw.csv", 7, &[0]), ("k_02/a.csv", 9, &[0])]),
            ["k", "k"]
        );
        // Ranks of several launches each are runs of their own.
        let ranks = [
            ("rank0/raw.csv", 7, &[0, 1][..]),
            ("rank1/raw.csv", 9, &[0, 1]),
        ];
        assert_eq!(passes(&ranks), ["rank0", "rank1"]);
    }
}
