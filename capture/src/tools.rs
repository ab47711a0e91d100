//! What is there to capture with: nsys and ncu, and what they say they can do.

use std::path::PathBuf;

use crate::args::Common;
use crate::snapshot::runner::Runner;

/// The tools of this machine.
pub(crate) struct Probe {
    /// nsys, or why there is none.
    pub(crate) nsys: Result<Profiler, String>,
    /// ncu, or why there is none.
    pub(crate) ncu: Result<Profiler, String>,
}

/// A profiler and what it prints about itself. Flags are chosen by this text: they differ between versions.
#[derive(Clone, Debug)]
pub(crate) struct Profiler {
    /// As it is started.
    pub(crate) program: String,
    /// The line in which it says its version.
    pub(crate) version: String,
    /// Its help.
    pub(crate) help: String,
    /// Sections and sets of ncu.
    pub(crate) lists: String,
}

impl Probe {
    /// Asks the tools. nsys and ncu take a second each, so that only those are asked that are wanted.
    pub(crate) fn of(
        runner: &impl Runner,
        common: &Common,
        wants_nsys: bool,
        wants_ncu: bool,
    ) -> Self {
        let not_asked = || Err("it is not asked for".to_owned());
        let nsys = if wants_nsys {
            nsys(runner, &common.profilers.nsys)
        } else {
            not_asked()
        };
        let ncu = if wants_ncu {
            ncu(runner, &common.profilers.ncu)
        } else {
            not_asked()
        };
        Self { nsys, ncu }
    }
}

impl Profiler {
    /// Whether the help names this option, as a whole word.
    pub(crate) fn knows(&self, option: &str) -> bool {
        has_word(&self.help, option)
    }

    /// Whether ncu lists a section or a set of this name.
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.lists
            .lines()
            .any(|line| line.split_whitespace().next() == Some(name))
    }
}

/// The program of that name next to this one, or the one on the path.
pub(crate) fn find(name: &str) -> Option<String> {
    let next_to_program = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found: Option<PathBuf> = next_to_program
        .into_iter()
        .chain(on_path)
        .find(|path| path.is_file());
    found.map(|path| path.to_string_lossy().into_owned())
}

fn nsys(runner: &impl Runner, program: &str) -> Result<Profiler, String> {
    let version = version(&runner.output(program, &["--version"])?, "version");
    let mut help = runner.output(program, &["profile", "--help"])?;
    help.push_str(
        &runner
            .output(program, &["export", "--help"])
            .unwrap_or_default(),
    );
    Ok(Profiler {
        program: program.to_owned(),
        version,
        help,
        lists: String::new(),
    })
}

fn ncu(runner: &impl Runner, program: &str) -> Result<Profiler, String> {
    let version = version(&runner.output(program, &["--version"])?, "Version");
    let help = runner.output(program, &["--help"])?;
    let mut lists = runner
        .output(program, &["--list-sections"])
        .unwrap_or_default();
    lists.push('\n');
    lists.push_str(&runner.output(program, &["--list-sets"]).unwrap_or_default());
    Ok(Profiler {
        program: program.to_owned(),
        version,
        help,
        lists,
    })
}

fn version(text: &str, word: &str) -> String {
    let line = text
        .lines()
        .find(|line| line.contains(word))
        .or_else(|| text.lines().next());
    line.unwrap_or_default().trim().to_owned()
}

fn has_word(text: &str, word: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    text.match_indices(word)
        .any(|(at, _)| ends(&text[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::runner::Fake;

    #[test]
    fn an_option_is_a_whole_word() {
        assert!(has_word(
            "  --gpu-metrics-device=<id>",
            "--gpu-metrics-device"
        ));
        assert!(!has_word(
            "  --gpu-metrics-devices=<id>",
            "--gpu-metrics-device"
        ));
        assert!(has_word("--set-x\n--set arg", "--set"));
    }

    #[test]
    fn a_missing_tool_is_a_reason() {
        assert_eq!(
            nsys(&Fake::new(), "nsys").err().as_deref(),
            Some("nsys is not on the path")
        );
        let fake = Fake::new().with(
            "ncu --version",
            Ok("Copyright\nVersion 2024.1.0.0 (build)\n"),
        );
        assert_eq!(
            ncu(&fake, "ncu").err().as_deref(),
            Some("ncu is not on the path")
        );
        let found = ncu(
            &fake.with("ncu", Ok("SpeedOfLight  GPU Speed Of Light\n")),
            "ncu",
        );
        let found = found.expect("answers");
        assert_eq!(found.version, "Version 2024.1.0.0 (build)");
        assert!(found.lists("SpeedOfLight") && !found.lists("Speed"));
    }
}
