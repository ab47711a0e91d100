//! Runs of a whole command (`runs.json`), and the wall times of passes with a profiler next to them.
//!
//! ```json
//! {"version": 1, "runs": [{"warmup": true, "exit_code": 0, "wall_ns": 2100000000, "started_utc_ns": 0}]}
//! ```

use rooflens_schemas::{ArtifactKind, CommandRuns, PassKind, manifest, runs};

use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::{ArtifactFile, Bundle};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Severity};
use rooflens_session::{CommandRun, Ns, Session};

/// Reads `runs.json`.
pub static IMPORTER: Importer = Importer {
    kind: ArtifactKind::Runs,
    sniff,
    import,
};

const MAX_BYTES: u64 = 16 << 20;

/// The list comes after the version, so that the beginning of a long file says what it is.
fn sniff(prefix: &Prefix<'_>) -> bool {
    let has = |key: &str| prefix.contains(key);
    let is_object = prefix.bytes.trim_ascii_start().starts_with(b"{");
    is_object
        && ["\"runs\"", "\"wall_ns\"", "\"exit_code\""]
            .into_iter()
            .all(has)
}

fn import(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let bytes = file.content()?.document(MAX_BYTES)?;
    let listed: CommandRuns = serde_json::from_slice(&bytes)?;
    if listed.version != runs::VERSION {
        let (what, found) = ("version".to_owned(), listed.version.to_string());
        let expected = "1";
        return Err(IngestErrorKind::Value {
            what,
            found,
            expected,
        }
        .into());
    }
    if listed.runs.is_empty() {
        return Err(IngestErrorKind::Empty("it lists no run".to_owned()).into());
    }
    let pass = session.intern(&file.pass);
    let artifact = session.intern(&file.path);
    let room = session.room() / size_of::<CommandRun>() as u64;
    for (number, run) in (0_u32..).zip(&listed.runs) {
        if u64::from(number) >= room {
            diagnostics
                .push(IngestError::from(IngestErrorKind::Budget).into_diagnostic(&file.path));
            break;
        }
        let Ok(duration) = i64::try_from(run.wall_ns) else {
            let message = format!("run {number} has no wall time and is skipped");
            let diagnostic = Diagnostic::new(Severity::DataLoss, "runs/value", message);
            diagnostics.push(diagnostic.artifact(&file.path));
            continue;
        };
        session.command_runs.push(CommandRun {
            pass,
            kind: file.pass_kind.unwrap_or(PassKind::Baseline),
            run: number,
            warmup: run.warmup,
            duration: Ns(duration),
            exit_code: Some(run.exit_code.into()),
            artifact,
        });
    }
    Ok(())
}

/// Adds the passes with a profiler to runs without one: each ran the same command once. A pass that was ended early says
/// nothing of its cost.
pub(super) fn add_profiled(bundle: &Bundle, session: &mut Session) {
    if session.command_runs.is_empty() {
        return;
    }
    let passes = bundle.manifest.iter().flat_map(|manifest| &manifest.passes);
    for pass in passes {
        let is_profiled = matches!(
            pass.kind,
            PassKind::Timeline | PassKind::Counters | PassKind::Operators
        );
        let wall = pass.wall_ns.and_then(|wall| i64::try_from(wall).ok());
        let is_whole = pass.cut.is_none() && pass.skipped.is_none();
        if let Some(wall) = wall.filter(|_| is_profiled && is_whole) {
            let row = CommandRun {
                pass: session.intern(&pass.id),
                kind: pass.kind,
                run: 0,
                warmup: false,
                duration: Ns(wall),
                exit_code: pass.exit_code.map(i64::from),
                artifact: session.intern(manifest::FILE_NAME),
            };
            session.command_runs.push(row);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::sniffs;

    const RUNS: &str = r#"{"version": 1, "runs": [
        {"warmup": true, "exit_code": 0, "wall_ns": 9000, "started_utc_ns": 5},
        {"exit_code": 3, "wall_ns": 100},
        {"warmup": false, "exit_code": 0, "wall_ns": 18446744073709551615},
        {"warmup": false, "exit_code": 0, "wall_ns": 200}]}"#;

    /// A bundle of these runs with this list of passes.
    fn opened(runs: &str, passes: Option<&str>) -> (Session, Diagnostics) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("baseline")).unwrap();
        fs::write(root.path().join("baseline/runs.json"), runs).unwrap();
        if let Some(passes) = passes {
            let sha256 = rooflens_bundle::sha256(runs.as_bytes());
            let text = format!(
                r#"{{"version": 1, "name": "x", "tool": {{"name": "test"}}, "passes": {passes}, "artifacts": [
                {{"path": "baseline/runs.json", "kind": "runs", "pass": "baseline", "sha256": "{sha256}",
                "bytes": {}}}]}}"#,
                runs.len()
            );
            fs::write(root.path().join("manifest.json"), text).unwrap();
        }
        let mut diagnostics = Diagnostics::default();
        let mut bundle =
            rooflens_bundle::open(&[root.path().to_owned()], &mut diagnostics).unwrap();
        crate::identify(&mut bundle, &mut diagnostics);
        let session = crate::import(&bundle, &mut diagnostics, &mut |_| ());
        (session, diagnostics)
    }

    /// A program that fails by itself fails in each pass.
    #[test]
    fn passes_that_did_not_run_to_their_end_are_facts() {
        let passes = r#"[{"id": "baseline", "kind": "baseline", "exit_code": 2},
            {"id": "nsys", "kind": "timeline", "exit_code": 2},
            {"id": "ncu", "kind": "counters", "exit_code": 9},
            {"id": "torch", "kind": "operators", "cut": "its time was up"}]"#;
        let (session, _) = opened(RUNS, Some(passes));
        let facts = &session.environment;
        let ended = (0..facts.len()).filter(|row| session.text(facts.key[*row]) == manifest::ENDED);
        let ended = ended.map(|row| {
            let [pass, how] = [facts.subject[row], facts.value[row]];
            (session.text(pass), session.text(how))
        });
        let expected = [("ncu", "9"), ("torch", manifest::ENDED_BY_TIME)];
        assert_eq!(ended.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn runs_are_read_with_their_exit_codes() {
        assert!(sniffs(&IMPORTER, "runs.json", RUNS));
        let timings = r#"{"version": 1, "stages": {"runs": {"ms": [1.0]}}}"#;
        assert!(!sniffs(&IMPORTER, "runs.json", timings));
        let (session, diagnostics) = opened(RUNS, None);
        let runs = &session.command_runs;
        assert_eq!(runs.duration, [Ns(9000), Ns(100), Ns(200)]);
        assert_eq!(runs.run, [0, 1, 3]);
        assert_eq!(runs.warmup, [true, false, false]);
        assert_eq!(runs.exit_code, [Some(0), Some(3), Some(0)]);
        assert_eq!(session.text(runs.pass[0]), "baseline");
        let codes: Vec<&str> = diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect();
        assert_eq!(codes, ["runs/value"]);
        assert!(session.is_measured());
    }

    #[test]
    fn other_versions_and_empty_lists_are_refused() {
        for text in [
            r#"{"version": 2, "runs": [{"exit_code": 0, "wall_ns": 1}]}"#,
            r#"{"version": 1, "runs": [], "x": ["wall_ns", "exit_code"]}"#,
            r#"{"version": 1, "runs": [{"exit_code": 0, "wall_ns": -1}]}"#,
        ] {
            let (session, diagnostics) = opened(text, None);
            assert_eq!(diagnostics.worst(), Some(Severity::Error), "{text}");
            assert!(session.command_runs.is_empty());
        }
    }

    #[test]
    fn whole_passes_with_a_profiler_are_runs_too() {
        let passes = r#"[{"id": "baseline", "kind": "baseline", "wall_ns": 200, "exit_code": 0},
            {"id": "nsys", "kind": "timeline", "wall_ns": 300, "exit_code": 0},
            {"id": "torch", "kind": "operators", "wall_ns": 400, "cut": "its time was up"},
            {"id": "ncu", "kind": "counters", "wall_ns": 900},
            {"id": "ncu-b", "kind": "counters", "skipped": "no time"}]"#;
        let (session, _) = opened(RUNS, Some(passes));
        let runs = &session.command_runs;
        let names: Vec<&str> = runs.pass.iter().map(|pass| session.text(*pass)).collect();
        assert_eq!(names, ["baseline", "baseline", "baseline", "nsys", "ncu"]);
        assert_eq!(runs.duration[3..], [Ns(300), Ns(900)]);
        assert_eq!(runs.exit_code[3..], [Some(0), None]);
        // Without runs of a baseline nothing is compared.
        let empty = opened("{}", Some(passes)).0;
        assert!(empty.command_runs.is_empty());
    }
}
