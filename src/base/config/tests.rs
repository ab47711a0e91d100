use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args as _, Command, value_parser};

use crate::file::File;
use crate::{CommandLine, ConfigError, ConfigFlags, FILE_NAME, Program};

const PROFILES: &str = "[profile.default]\n\n[profile.deep]\npreset = \"full\"\ntop = 20\n";

/// A program with options of each kind. Tables belong to programs, so it has the name of the capture program.
fn program() -> Command {
    let value = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Set);
    let list = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Append);
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let presets = ["roofline", "full", "memory"];
    let all = Command::new("all").args([
        value("preset")
            .default_value("roofline")
            .value_parser(presets),
        value("top")
            .default_value("10")
            .value_parser(value_parser!(u32)),
        value("trace-dir").value_parser(value_parser!(PathBuf)),
        value("gate"),
        value("instance").requires("gate"),
        list("label"),
        list("trace")
            .value_delimiter(',')
            .default_value("cuda,nvtx"),
        flag("steps"),
        flag("no-inject").conflicts_with("steps"),
        value("profile").default_value("default"),
        value("output").short('o').required(true),
        Arg::new("command").last(true).num_args(1..),
    ]);
    let manifest = Command::new("manifest").arg(list("label"));
    let command = Command::new("rooflens-capture").subcommand_required(true);
    ConfigFlags::augment_args(command).subcommands([all, manifest])
}

/// What the command line means in a folder.
fn meaning(folder: &Path, arguments: &str) -> Result<CommandLine, ConfigError> {
    let words = format!("rooflens-capture {arguments}");
    let words = words.split_whitespace().map(OsString::from).collect();
    let name = "rooflens-capture";
    Program {
        name,
        profiles: PROFILES,
        folder,
    }
    .command_line(&program(), words)
}

/// The arguments of a run with a file, without the first ones, or the error. The folder of the file is `DIR`.
fn run(file: &str, arguments: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(FILE_NAME);
    fs::write(&path, file).expect("writable");
    let given = format!("--config {} all -o run {arguments}", path.display());
    let text = match meaning(Path::new("/"), &given) {
        Ok(CommandLine::Run(words, _)) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            Ok(words[6..].join(" "))
        }
        Ok(CommandLine::Show(text)) => Ok(text),
        Err(error) => Err(error.to_string()),
    };
    let hide = |text: String| text.replace(&folder.path().display().to_string(), "DIR");
    text.map(hide).map_err(hide)
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

#[test]
fn options_become_arguments_before_the_command() {
    let file = "[capture]\npreset = \"memory\"\ntop = 3\nsteps = true\nno-inject = false\n\
                label = [\"a=1\", \"b=2\"]\ntrace-dir = \"traces\"\n";
    let words = "--preset=memory --top=3 --steps --label=a=1 --label=b=2 --trace-dir=DIR/traces";
    assert_eq!(
        run(file, "-- python3 x.py"),
        Ok(format!("{words} -- python3 x.py"))
    );
    assert_eq!(run(file, ""), ok(words));
    assert_eq!(
        run("[capture]\ntrace-dir = \"/abs\"", ""),
        ok("--trace-dir=/abs")
    );
}

#[test]
fn a_flag_wins_and_replaces_a_list() {
    let file = "[capture]\npreset = \"memory\"\nlabel = [\"a=1\", \"b=2\"]";
    assert_eq!(
        run(file, "--preset full"),
        ok("--preset full --label=a=1 --label=b=2")
    );
    assert_eq!(run(file, "--label c=3"), ok("--label c=3 --preset=memory"));
}

#[test]
fn an_option_that_conflicts_with_a_flag_is_dropped() {
    // Only one of the two declares the conflict.
    assert_eq!(
        run("[capture]\nsteps = true", "--no-inject"),
        ok("--no-inject")
    );
    assert_eq!(run("[capture]\nno-inject = true", "--steps"), ok("--steps"));
    let both = run("[capture]\nsteps = true\nno-inject = true", "").expect_err("a conflict");
    assert!(both.starts_with("with DIR/rooflens.toml: "), "{both}");
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn an_option_of_the_file_may_need_another_of_the_file() {
    let file = "[capture]\ngate = \"decode\"\ninstance = 2";
    assert_eq!(run(file, ""), ok("--gate=decode --instance=2"));
}

#[test]
fn a_profile_stands_where_it_is_named() {
    let file = "[capture]\npreset = \"memory\"\n";
    let deep = "[capture]\npreset = \"memory\"\nprofile = \"deep\"\n";
    assert_eq!(
        run(file, "--profile deep"),
        ok("--profile deep --preset=full --top=20")
    );
    assert_eq!(run(deep, ""), ok("--preset=memory --profile=deep --top=20"));
    assert_eq!(
        run(deep, "--top 4"),
        ok("--top 4 --preset=memory --profile=deep")
    );
    assert_eq!(
        run(deep, "--profile default"),
        ok("--profile default --preset=memory")
    );
    let night = format!("{file}[profile.night]\ntop = 5\n[profile.deep]\ntop = 7\n");
    assert_eq!(
        run(&night, "--profile night"),
        ok("--profile night --top=5 --preset=memory")
    );
    // The file's profile replaces the built-in profile of the same name.
    assert_eq!(
        run(&night, "--profile deep"),
        ok("--profile deep --top=7 --preset=memory")
    );
    let unknown = run(&night, "--profile x").expect_err("no such profile");
    assert_eq!(
        unknown,
        "no profile is named 'x'; there are deep, default, night"
    );
}

#[test]
fn faults_have_file_line_and_key() {
    for (file, message) in [
        (
            "[capture]\n\npresett = \"full\"",
            "3: unknown key 'presett'; the nearest key is 'preset'",
        ),
        ("[capture]\nxyzzy = 1", "2: unknown key 'xyzzy'"),
        ("[capture]\nhelp = true", "2: unknown key 'help'"),
        ("[capture]\nconfig = \"x\"", "2: unknown key 'config'"),
        (
            "[capture]\noutput = 1\ntop = true",
            "3: 'top': expected a string or a number",
        ),
        (
            "[capture]\nsteps = \"yes\"",
            "2: 'steps': expected true or false",
        ),
        (
            "[capture]\ntop = [1, 2]",
            "2: 'top': expected a string or a number",
        ),
        (
            "[capture]\nlabel = true",
            "2: 'label': expected a string, a number, or a list of these",
        ),
        (
            "[capture]\ngate = 2026-01-02",
            "2: 'gate': expected a string, a number, true, false, or a list of strings and numbers",
        ),
        (
            "[capture]\nlabel = [[1]]",
            "2: 'label': expected a string, a number, true, false, or a list of strings and numbers",
        ),
        (
            "[capture]\ntop = -1",
            "2: 'top': invalid value '-1' for '--top <top>': -1 is not in 0..=4294967295",
        ),
        (
            "[profile.x]\ntop = \"many\"",
            "2: 'top': invalid value 'many' for '--top <top>': invalid digit found in string",
        ),
        ("capture = 1", "1: 'capture' is a table: write [capture]"),
        (
            "profile = { deep = 1 }",
            "1: 'deep' is a profile: write [profile.deep]",
        ),
        (
            "\n[captur]\n",
            "2: unknown key 'captur'; tables are serve, capture, serve-report, bench-report, predict, report and profile.NAME",
        ),
    ] {
        assert_eq!(
            run(file, ""),
            Err(format!("DIR/rooflens.toml:{message}")),
            "{file}"
        );
    }
    let syntax = run("[capture]\ntop = \n", "").expect_err("no TOML");
    assert!(syntax.starts_with("DIR/rooflens.toml:2: "), "{syntax}");
    let preset = run("[capture]\npreset = \"x\"", "").expect_err("no such preset");
    assert!(
        preset.contains("[possible values: roofline, full, memory]"),
        "{preset}"
    );
}

#[test]
fn tables_of_the_other_program_are_not_read() {
    assert_eq!(run("[report]\nlanguage = 1\n[predict]\nx = 1", ""), ok(""));
}

#[test]
fn wrong_arguments_and_questions_for_help_do_not_read_the_file() {
    for arguments in ["--no-such-flag", "--help", "--top many"] {
        assert_eq!(run("[captur]", arguments), ok(arguments));
    }
}

#[test]
fn the_nearest_file_above_the_folder_is_read() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let (project, below) = (root.path().join("a"), root.path().join("a/b/c"));
    fs::create_dir_all(&below).expect("writable");
    fs::write(root.path().join(FILE_NAME), "[capture]\ntop = 1").expect("writable");
    fs::write(
        project.join(FILE_NAME),
        "[capture]\ntop = 2\ntrace-dir = \"t\"",
    )
    .expect("writable");
    // A folder of this name is no file.
    fs::create_dir(below.join(FILE_NAME)).expect("writable");
    let words = |arguments: &str| match meaning(&below, arguments).expect("valid") {
        CommandLine::Run(words, file) => (words[4..].to_vec(), file),
        CommandLine::Show(text) => panic!("{text}"),
    };
    let (arguments, file) = words("all -o run");
    let traces = format!("--trace-dir={}", project.join("t").display());
    assert_eq!(arguments, ["--top=2", &traces]);
    assert_eq!(file, Some(project.join(FILE_NAME)));
    assert_eq!(
        words("all -o run --no-config"),
        (vec!["--no-config".into()], None)
    );
    let missing = meaning(&below, "all --config nowhere.toml").expect_err("no file");
    assert!(
        missing
            .to_string()
            .starts_with("cannot read nowhere.toml: "),
        "{missing}"
    );
}

/// A file names programs that are started, and anybody can write into `/tmp`.
#[cfg(unix)]
#[test]
fn a_file_of_another_user_must_be_named() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let (file, folder) = (root.path().join(FILE_NAME), root.path().join("a"));
    fs::create_dir(&folder).expect("writable");
    fs::write(&file, "[capture]\ntop = 1").expect("writable");
    if std::os::unix::fs::chown(&file, Some(12345), None).is_err() {
        // Only root can give a file away.
        return;
    }
    let refused = meaning(&folder, "all -o run").expect_err("another user's file");
    assert!(
        refused.to_string().contains("name it with --config"),
        "{refused}"
    );
    let named = format!("all -o run --config {}", file.display());
    assert!(meaning(&folder, &named).is_ok());
    std::os::unix::fs::chown(&folder, Some(12345), None).expect("as before");
    assert!(meaning(&folder, "all -o run").is_ok());
}

#[test]
fn all_options_are_shown_with_their_sources() {
    let file = "[capture]\ntop = 3\ntrace = [\"cuda\", \"osrt\"]\nprofile = \"deep\"";
    let shown = run(file, "--gate decode --show-config").expect("an answer");
    let rows: Vec<(&str, &str)> = shown
        .lines()
        .filter_map(|line| line.split_once("  # "))
        .map(|(option, source)| (option.trim_end(), source))
        .collect();
    assert_eq!(
        rows,
        [
            ("preset = \"full\"", "profile deep"),
            ("top = 3", "DIR/rooflens.toml:2"),
            ("# trace-dir", "default"),
            ("gate = \"decode\"", "flag"),
            ("# instance", "default"),
            ("# label", "default"),
            ("trace = [\"cuda\", \"osrt\"]", "DIR/rooflens.toml:3"),
            ("steps = false", "default"),
            ("no-inject = false", "default"),
            ("profile = \"deep\"", "DIR/rooflens.toml:4"),
            ("output = \"run\"", "flag"),
        ]
    );
    assert!(toml::from_str::<toml::Table>(&shown).is_ok(), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    let endless = File::read(Path::new("/dev/zero"));
    assert!(matches!(endless, Err(ConfigError::Read(..))));
}
