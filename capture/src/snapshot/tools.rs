//! Versions of tools and of the code that runs.

use rooflens_schemas::Fact;

use super::runner::Runner;
use crate::args::Profilers;

/// Asks for a package's version without importing it, which takes seconds for some.
const PACKAGE_VERSION: &str = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";

/// Facts about tools, Python packages and the repository of the working directory.
pub(crate) fn facts(runner: &impl Runner, python: &str, profilers: &Profilers) -> Vec<Fact> {
    let mut facts = vec![
        tool(runner, "nsys", &profilers.nsys, "version"),
        tool(runner, "ncu", &profilers.ncu, "Version"),
        tool(runner, "nvcc", "nvcc", "release"),
        tool(runner, "python", python, "Python"),
    ];
    for package in ["torch", "transformers", "triton", "vllm"] {
        let version = runner.output(python, &["-c", PACKAGE_VERSION, package]);
        facts.push(match version {
            Ok(version) => Fact::known("tool", package, version.trim()),
            Err(reason) => Fact::missing("tool", package, reason),
        });
    }
    facts.extend(git(runner));
    facts
}

/// The line of what `program --version` prints that has this word.
fn tool(runner: &impl Runner, key: &str, program: &str, word: &str) -> Fact {
    match runner.output(program, &["--version"]) {
        Ok(text) => match text.lines().find(|line| line.contains(word)) {
            Some(line) => Fact::known("tool", key, line.trim()),
            None => Fact::missing("tool", key, format!("{program} --version does not say")),
        },
        Err(reason) => Fact::missing("tool", key, reason),
    }
}

fn git(runner: &impl Runner) -> [Fact; 2] {
    let commit = match runner.output("git", &["rev-parse", "HEAD"]) {
        Ok(commit) => Fact::known("git", "commit", commit.trim()),
        Err(reason) => Fact::missing("git", "commit", reason),
    };
    let dirty = match runner.output("git", &["status", "--porcelain", "--untracked-files=no"]) {
        Ok(changes) => Fact::known("git", "dirty", (!changes.trim().is_empty()).to_string()),
        Err(reason) => Fact::missing("git", "dirty", reason),
    };
    [commit, dirty]
}

#[cfg(test)]
mod tests {
    use super::super::runner::Fake;
    use super::*;

    fn profilers() -> Profilers {
        Profilers {
            nsys: "nsys".to_owned(),
            ncu: "ncu".to_owned(),
        }
    }

    #[test]
    fn versions_are_the_lines_that_hold_them() {
        let ncu = "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)\n";
        let fake = Fake::new()
            .with("ncu", Ok(ncu))
            .with(
                "nvcc",
                Ok("nvcc: NVIDIA (R) Cuda compiler\nCuda tools, release 13.0, V13.0.88\n"),
            )
            .with("my-python --version", Ok("Python 3.12.3\n"))
            .with("my-python", Ok("2.11.0+cu130\n"))
            .with("git rev-parse HEAD", Ok("4b825dc\n"))
            .with("git", Ok(" M train.py\n"));
        let facts = facts(&fake, "my-python", &profilers());
        for (subject, key, value) in [
            ("tool", "ncu", "Version 2025.3.1.0 (build 1)"),
            ("tool", "nvcc", "Cuda tools, release 13.0, V13.0.88"),
            ("tool", "python", "Python 3.12.3"),
            ("tool", "torch", "2.11.0+cu130"),
            ("git", "commit", "4b825dc"),
            ("git", "dirty", "true"),
        ] {
            assert!(
                facts.contains(&Fact::known(subject, key, value)),
                "{key}: {facts:?}"
            );
        }
        assert!(facts.contains(&Fact::missing("tool", "nsys", "nsys is not on the path")));
    }

    #[test]
    fn a_clean_repository_is_not_dirty_and_no_repository_is_neither() {
        let clean = Fake::new().with("git", Ok("\n"));
        assert_eq!(git(&clean)[1], Fact::known("git", "dirty", "false"));
        let none = Fake::new().with("git", Err("git failed: exit status: 128"));
        assert_eq!(
            git(&none)[1],
            Fact::missing("git", "dirty", "git failed: exit status: 128")
        );
    }
}
