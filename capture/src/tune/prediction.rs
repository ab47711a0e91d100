//! What `rooflens predict` says before the first server starts, where it is installed, the config of the model is on this
//! machine, and the GPU is known: lower bounds of latencies that no setting beats.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rooflens_units::{Slo, Time};
use serde_json::Value;

use super::args::TuneArguments;
use crate::say;
use crate::serve::args::Traffic;
use crate::snapshot;
use crate::tools;

/// Its name in the bundle; `rooflens serve-report --predicted` reads it.
const FILE: &str = "logs/prediction.json";

/// Lower bounds of a prompt alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bounds {
    ttft: Option<Time>,
    tpot: Option<Time>,
}

/// Predicts, and says what comes of it. What is missing costs the prediction, not the search.
pub(super) fn say_bounds(arguments: &TuneArguments) {
    let Some(config) = config(&arguments.command) else {
        return;
    };
    match predict(arguments, &config) {
        Ok(bounds) => {
            for line in lines(bounds, &arguments.slo) {
                say(&line);
            }
        }
        Err(reason) => say(&format!("no prediction: {reason}")),
    }
}

/// The config of the model that a command serves: a folder or file among its words.
fn config(command: &[String]) -> Option<PathBuf> {
    let words = command.iter().map(|word| match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') => value,
        _ => word.as_str(),
    });
    let paths = words.flat_map(|word| [Path::new(word).join("config.json"), PathBuf::from(word)]);
    paths
        .into_iter()
        .find(|path| path.ends_with("config.json") && path.is_file())
}

fn predict(arguments: &TuneArguments, config: &Path) -> Result<Bounds, String> {
    let program = tools::find("rooflens").ok_or("rooflens is not on the PATH")?;
    let gpu = snapshot::first_gpu().ok_or("no GPU is seen")?;
    let Traffic {
        prompt_tokens,
        output_tokens,
        ..
    } = &arguments.traffic;
    let output = arguments.output.join(FILE);
    let mut command = Command::new(program);
    command
        .args(["predict", "--batch", "1", "--gpu", &gpu, "--model"])
        .arg(config)
        .args(["--prompt", &prompt_tokens.middle().to_string()])
        .args(["--output-tokens", &output_tokens.middle().to_string()])
        .arg("-o")
        .arg(&output)
        .stdin(Stdio::null());
    let is_split = |pair: &&[String]| {
        ["--tensor-parallel-size", "--tp-size", "--tp"].contains(&pair[0].as_str())
    };
    if let Some([_, gpus]) = arguments.command.windows(2).rfind(is_split) {
        command.args(["--tp", gpus]);
    }
    let ended = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let text = std::fs::read(&output).map_err(|_| said.trim().to_owned())?;
    let report = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    Ok(bounds(&report))
}

/// The bounds of a report.
fn bounds(report: &Value) -> Bounds {
    let metrics = report["metrics"].as_array();
    let of = |id: &str| {
        let metric = metrics?.iter().find(|metric| metric["id"] == id)?;
        metric["value"]["value"].as_f64().map(Time)
    };
    Bounds {
        ttft: of("predict.ttft_bound"),
        tpot: of("predict.tpot_bound"),
    }
}

fn lines(bounds: Bounds, slo: &Slo) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, bound, limit) in [
        ("TTFT", bounds.ttft, slo.ttft),
        ("TPOT", bounds.tpot, slo.tpot),
    ] {
        let Some(bound) = bound else { continue };
        let milliseconds = bound.0 / 1e6;
        lines.push(match limit {
            Some(limit) if limit < bound => format!(
                "prediction: {name} is at least {milliseconds:.2} ms on this GPU: no setting keeps its limit"
            ),
            _ => format!("prediction: {name} is at least {milliseconds:.2} ms on this GPU"),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_bound_is_kept_by_no_setting() {
        let report = serde_json::json!({"metrics": [
            {"id": "predict.ttft_bound", "value": {"kind": "derived", "value": 7.5e6}},
            {"id": "predict.tpot_bound", "value": {"kind": "derived", "value": 3.25e6}},
            {"id": "predict.tpot_bound", "value": {"kind": "derived", "value": 9e6}},
        ]});
        let bounds = bounds(&report);
        let expected = Bounds {
            ttft: Some(Time(7.5e6)),
            tpot: Some(Time(3.25e6)),
        };
        assert_eq!(bounds, expected);
        let slo = Slo::parse("ttft=200ms,tpot=3ms").expect("limits");
        let lines = lines(bounds, &slo);
        let are_kept: Vec<bool> = lines
            .iter()
            .map(|line| !line.contains("no setting"))
            .collect();
        assert_eq!(are_kept, [true, false]);
    }

    #[test]
    fn the_config_is_that_of_a_folder_in_the_command() {
        let folder = tempfile::tempdir().expect("there is room");
        std::fs::write(folder.path().join("config.json"), "{}").expect("writable");
        let path = folder.path().to_string_lossy();
        let of = |text: String| config(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let found = Some(folder.path().join("config.json"));
        assert_eq!(of(format!("vllm serve {path}")), found);
        assert_eq!(of(format!("server --model={path}/config.json")), found);
        assert_eq!(of("vllm serve llama".to_owned()), None);
    }
}
