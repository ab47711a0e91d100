//! `rooflens.toml` and profiles of the program as it is run.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

/// The program in a folder with a project file; without an environment that names profilers.
fn program(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rooflens-capture"));
    command
        .current_dir(folder)
        .env_remove("ROOFLENS_NSYS")
        .env_remove("ROOFLENS_NCU")
        .args(arguments.split_whitespace());
    command
}

fn project(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join("rooflens.toml"), text).expect("writable");
    folder
}

fn printed(command: &mut Command) -> String {
    let output = command.assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("UTF-8")
}

/// The value of an option and its source.
fn shown(text: &str, key: &str) -> (String, String) {
    let line = text.lines().find(|line| {
        let line = line.trim_start_matches("# ");
        line.split_whitespace().next() == Some(key)
    });
    let (option, source) = line.and_then(|line| line.split_once("  # ")).expect(key);
    (option.trim_end().to_owned(), source.to_owned())
}

#[test]
fn options_of_the_file_are_in_the_plan_and_flags_win() {
    let folder = project("[capture]\noutput = \"run\"\nrepeats = 3\npasses = [\"baseline\"]\n");
    let plan = printed(&mut program(folder.path(), "all --dry-run -- true"));
    assert_eq!(
        plan,
        "# snapshot, with python3\n# baseline, 3 times after 0 for warm-up\ntrue\n"
    );
    let plan = printed(&mut program(
        folder.path(),
        "all --dry-run --repeats 1 -- true",
    ));
    assert_eq!(plan, "# snapshot, with python3\n# baseline\ntrue\n");
    let said = program(folder.path(), "all --dry-run -- true")
        .output()
        .expect("runs")
        .stderr;
    assert_eq!(
        String::from_utf8_lossy(&said),
        "rooflens-capture: options from rooflens.toml\n"
    );
    // Without the file the folder of the bundle is missing.
    program(folder.path(), "all --dry-run --no-config -- true")
        .assert()
        .code(125);
}

#[test]
fn paths_are_those_of_the_folder_of_the_file() {
    let folder = project("[capture]\noutput = \"run\"\n");
    let below = folder.path().join("a/b");
    fs::create_dir_all(&below).expect("writable");
    program(&below, "snapshot").assert().success();
    assert!(folder.path().join("run/snapshot/env.json").is_file());
}

#[test]
fn every_option_has_a_source() {
    let folder = project("[capture]\ntop = 3\nnsys = \"file-nsys\"\nncu = \"file-ncu\"\n");
    let mut command = program(folder.path(), "all --gate decode --show-config");
    command.env("ROOFLENS_NSYS", "nsys-of-the-environment");
    let text = printed(&mut command);
    for (key, option, source) in [
        ("top", "top = 3", "rooflens.toml:2"),
        ("gate", "gate = \"decode\"", "flag"),
        (
            "nsys",
            "nsys = \"nsys-of-the-environment\"",
            "environment, ROOFLENS_NSYS",
        ),
        ("ncu", "ncu = \"file-ncu\"", "rooflens.toml:4"),
        ("preset", "preset = \"roofline\"", "default"),
        ("budget", "# budget", "default"),
        (
            "passes",
            "passes = [\"baseline\", \"nsys\", \"torch\", \"ncu\"]",
            "default",
        ),
    ] {
        assert_eq!(shown(&text, key), (option.to_owned(), source.to_owned()));
    }
}

#[test]
fn built_in_profiles_are_options_of_all() {
    let folder = tempfile::tempdir().expect("there is room");
    for (name, key, value) in [
        ("quick", "passes", "[\"baseline\", \"nsys\"]"),
        (
            "default",
            "passes",
            "[\"baseline\", \"nsys\", \"torch\", \"ncu\"]",
        ),
        ("deep", "preset", "\"full\""),
        ("training", "window", "\"10:5\""),
        ("serving", "window", "\"50:20\""),
    ] {
        let arguments = format!("all --no-config --profile {name} --show-config");
        let (option, source) = shown(&printed(&mut program(folder.path(), &arguments)), key);
        assert_eq!(option, format!("{key} = {value}"), "{name}");
        let expected = match name {
            "default" => "default".to_owned(),
            name => format!("profile {name}"),
        };
        assert_eq!(source, expected);
    }
    let unknown = program(folder.path(), "all --profile nightly -o run -- true")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(125));
    assert!(
        said.contains("there are deep, default, quick, serving, training"),
        "{said}"
    );
}

#[test]
fn a_load_test_has_a_table_of_its_own() {
    let folder = project(
        "[capture]\nwarmup = 7\n[serve]\nurl = \"http://localhost:1/v1\"\nmodel = \"m\"\nrate = [1, 2.5]\n",
    );
    let text = printed(&mut program(folder.path(), "serve -o run --show-config"));
    assert_eq!(shown(&text, "rate").0, "rate = [1, \"2.5\"]");
    assert_eq!(
        shown(&text, "warmup"),
        ("warmup = 1".to_owned(), "default".to_owned())
    );
    let text = printed(&mut program(
        folder.path(),
        "serve -o run --concurrency 4 --show-config",
    ));
    assert_eq!(
        shown(&text, "rate"),
        ("# rate".to_owned(), "default".to_owned())
    );
}

#[test]
fn a_wrong_file_stops_the_program_before_it_does_anything() {
    for (text, message) in [
        (
            "[capture]\ngates = \"x\"\n",
            "rooflens.toml:2: unknown key 'gates'; the nearest key is 'gate'",
        ),
        (
            "[capture]\npreset = \"fast\"\n",
            "rooflens.toml:2: 'preset': invalid value 'fast'",
        ),
        (
            "[capture]\nsteps = 1\n",
            "rooflens.toml:2: 'steps': expected true or false",
        ),
        (
            "[profile.x]\nurl = \"y\"\n",
            "rooflens.toml:2: unknown key 'url'",
        ),
        ("[reports]\n", "rooflens.toml:1: unknown key 'reports'"),
    ] {
        let folder = project(text);
        let output = program(folder.path(), "snapshot -o run")
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(said.contains(message), "{said}");
        assert!(!folder.path().join("run").exists());
    }
}

#[test]
fn the_example_is_valid() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/examples/rooflens.toml"
    );
    let folder = tempfile::tempdir().expect("there is room");
    for command in ["all --profile night", "serve"] {
        let arguments = format!("{command} --show-config --config {example}");
        let text = printed(&mut program(folder.path(), &arguments));
        assert!(text.contains(example), "{text}");
    }
}
