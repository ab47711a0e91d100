//! A real report against the pages that ncu 2025.3.1 exported from it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{codes, metrics, read};
use rooflens_bundle::ArtifactFile;
use rooflens_diagnostic::Severity;
use rooflens_session::{ProfileRule, Session};

fn fixture(name: &str) -> Vec<u8> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/h200-llama-1b/ncu-decode");
    let file = ArtifactFile {
        location: folder.join(name),
        ..ArtifactFile::default()
    };
    file.content().unwrap().bytes(1 << 30).unwrap()
}

/// Base unit and size in it of a unit over a column, by ncu's documentation: decimal prefixes.
fn unit(printed: &str) -> (String, f64) {
    let (top, bottom) = printed.split_once('/').unwrap_or((printed, ""));
    let (top, factor) = match top {
        "Kbyte" => ("byte", 1e3),
        "Mbyte" => ("byte", 1e6),
        "Gbyte" => ("byte", 1e9),
        "Tbyte" => ("byte", 1e12),
        "ns" | "nsecond" => ("s", 1e-9),
        "us" | "usecond" => ("s", 1e-6),
        "ms" | "msecond" => ("s", 1e-3),
        "Mhz" => ("Hz", 1e6),
        "Ghz" => ("Hz", 1e9),
        "hz" => ("Hz", 1.0),
        other => (other, 1.0),
    };
    let (bottom, divisor) = match bottom {
        "ns" | "nsecond" => ("s", 1e-9),
        "us" | "usecond" => ("s", 1e-6),
        "ms" | "msecond" => ("s", 1e-3),
        "second" => ("s", 1.0),
        "Kbyte" => ("byte", 1e3),
        other => (other, 1.0),
    };
    let base = match (top, bottom) {
        (top, "") => top.to_owned(),
        ("cycle", "s") => "Hz".to_owned(),
        (top, bottom) => format!("{top}/{bottom}"),
    };
    (base, factor / divisor)
}

/// Compares each metric of each launch with the cells of a raw page, to the digits that are printed.
/// Gives the number of compared cells and the differences.
fn compare(session: &Session, page: &str, units_too: bool) -> (usize, Vec<String>) {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(page.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let [header, units, launches @ ..] = rows.as_slice() else {
        panic!("a header and units")
    };
    assert_eq!(session.kernel_profiles.len(), launches.len());
    let first = header.iter().position(|name| name == "CC").unwrap() + 1;
    let (mut compared, mut different) = (0, Vec::new());
    for (profile, row) in launches.iter().enumerate() {
        let mut left: BTreeMap<&str, _> = metrics(session, profile)
            .into_iter()
            .map(|row| (row.0, row))
            .collect();
        for column in (first..header.len()).filter(|column| !row[*column].is_empty()) {
            compared += 1;
            let (name, cell, (base, factor)) =
                (&header[column], &row[column], unit(&units[column]));
            let read = left.remove(name);
            let same = read.is_some_and(|(_, unit, value, text)| {
                let number: Option<f64> = cell
                    .replace(',', "")
                    .parse()
                    .ok()
                    .filter(|x: &f64| x.is_finite());
                let same_value = match number {
                    Some(number) => value.is_some_and(|value| {
                        let digits = cell
                            .split_once('.')
                            .map_or(0, |(_, fraction)| fraction.len());
                        let half = 0.500_001 * 10_f64.powi(-(digits as i32)) * factor;
                        let size = value.abs() * 4e-16;
                        // Without a unit a page gives times as they are: nanoseconds.
                        let shown = if base.is_empty() && unit == "s" {
                            value * 1e9
                        } else {
                            value
                        };
                        (shown - number * factor).abs() <= half + size
                    }),
                    None => text == Some(cell),
                };
                same_value && (unit == base || !units_too)
            });
            if !same {
                different.push(format!(
                    "{profile} {name}: {cell} {}, read {read:?}",
                    &units[column]
                ));
            }
        }
        different.extend(
            left.into_values()
                .map(|row| format!("{profile}: only in the report: {row:?}")),
        );
    }
    (compared, different)
}

#[test]
fn every_metric_of_every_launch_is_that_of_the_exported_page() {
    let (session, diagnostics, _) = read(&[&fixture("decode.ncu-rep.zst")]);
    assert_eq!(codes(&diagnostics), [""; 0]);
    let page = String::from_utf8(fixture("decode.raw.csv.zst")).unwrap();
    let (compared, different) = compare(&session, &page, true);
    assert_eq!(different, [""; 0]);
    // 45 launches of 2215 cells that are not empty, counted with Python's csv over the page.
    assert_eq!(compared, 99_675);
}

#[test]
fn launches_and_the_gpu_are_those_of_the_exported_page() {
    let (session, _, _) = read(&[&fixture("decode.ncu-rep.zst")]);
    let (page, _, _) = read(&[&fixture("decode.raw.csv.zst")]);
    for id in page.kernel_profiles.ids() {
        let (mine, theirs) = (
            session.kernel_profiles.row(id),
            page.kernel_profiles.row(id),
        );
        let key = |row: &rooflens_session::KernelProfile| {
            (
                row.ordinal,
                row.process,
                row.context,
                row.stream,
                row.device,
                row.compute_capability,
            )
        };
        assert_eq!(key(&mine), key(&theirs));
        assert_eq!((mine.grid, mine.block), (theirs.grid, theirs.block));
        assert_eq!(session.text(mine.nvtx), page.text(theirs.nvtx));
        // ncu shortens names when it prints them: it drops namespaces and casts.
        let (mine, theirs) = (session.text(mine.name), page.text(theirs.name));
        assert!(
            mine == theirs || mine.contains("::") && mine.len() > theirs.len(),
            "{mine}\n{theirs}"
        );
    }
    let gpu = |session: &Session| {
        let gpu = session.gpus.row(session.gpus.ids().next().unwrap());
        let name = session.text(gpu.name).to_owned();
        (name, gpu.sm_count, gpu.clock_hz, gpu.compute_capability)
    };
    assert_eq!(
        gpu(&session),
        (
            "NVIDIA H200".to_owned(),
            Some(132),
            Some(1_980_000_000),
            Some(90)
        )
    );
    assert_eq!(gpu(&session), gpu(&page));
}

/// Remarks by launch, section and rule, each with its speedup to 4 significant digits.
fn remarks(session: &Session) -> Vec<String> {
    let line = |row: ProfileRule| {
        let ordinal = session.kernel_profiles.ordinal[row.profile.index()];
        let texts = [
            row.section,
            row.rule,
            row.kind,
            row.description,
            row.speedup_kind,
        ];
        let speedup = row.speedup.map(|percent| format!("{:.3e}", percent.0));
        format!(
            "{ordinal} {:?} {speedup:?}",
            texts.map(|id| session.text(id))
        )
    };
    let rules = &session.profile_rules;
    let mut lines: Vec<String> = rules.ids().map(|id| line(rules.row(id))).collect();
    lines.sort();
    lines
}

#[test]
fn rules_are_those_of_the_exported_details() {
    let (session, _, _) = read(&[&fixture("decode.ncu-rep.zst")]);
    let (page, _, _) = read(&[&fixture("decode.details.csv.zst")]);
    assert!(page.profile_rules.len() > 400);
    assert_eq!(remarks(&session), remarks(&page));
}

#[test]
fn pages_of_a_report_in_the_bundle_add_nothing() {
    let [report, raw, details] = [
        "decode.ncu-rep.zst",
        "decode.raw.csv.zst",
        "decode.details.csv.zst",
    ]
    .map(fixture);
    let (alone, _, _) = read(&[&report]);
    let (all, diagnostics, results) = read(&[&report, &raw, &details]);
    assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
    assert_eq!(codes(&diagnostics), ["ncu/in-report", "ncu/in-report"]);
    assert_eq!(diagnostics.worst(), Some(Severity::Info));
    assert_eq!(all.profile_metrics.len(), alone.profile_metrics.len());
    assert_eq!(all.profile_rules.len(), alone.profile_rules.len());
    // A page of another run is not of this report: its process is another one.
    let page = String::from_utf8(raw).unwrap();
    let process = alone.kernel_profiles.process[0];
    let renumbered = page.replace(&format!("\"{process}\""), "\"4242\"");
    let (both, _, _) = read(&[&report, renumbered.as_bytes()]);
    assert_eq!(both.kernel_profiles.len(), 90);
}
