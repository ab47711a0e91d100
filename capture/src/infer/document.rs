//! `workload.toml` of a workload that does not describe itself.

use std::collections::BTreeMap;

use rooflens_schemas::StageKind;
use rooflens_schemas::workload::Mode;
use serde_json::Value;

use super::facts::Notes;
use super::sizes::{self, Sizes};
use super::stages::{Stages, Timed};

const HEAD: &str = "\
# What ran, as rooflens-capture saw it from inside of the workload: nobody stated it.
# Keys under `inferred` are its conclusions. Check them, and edit what is wrong.
";

/// The text, or none if nothing is known.
pub(super) fn write(
    notes: &Notes,
    sizes: &Sizes,
    stages: &Stages,
    has_config: bool,
) -> Option<String> {
    let mut keys: Vec<(&str, String)> = Vec::new();
    let mode = sizes.mode.map(|mode| match mode {
        Mode::Inference => "inference",
        Mode::Training => "training",
    });
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let share = |value: Option<f64>| value.map(|value| format!("{value:?}"));
    for (key, value) in [
        ("mode", mode.map(quoted)),
        ("dtype", sizes.dtype.map(quoted)),
        ("config", has_config.then(|| quoted("config.json"))),
        ("batch", number(sizes.batch)),
        ("prompt_tokens", number(sizes.prompt_tokens)),
        ("output_tokens", number(sizes.output_tokens)),
        ("warmup", number(stages.warmup())),
        ("model_parallel", number(sizes.model_parallel)),
        (
            "recomputation",
            sizes.recomputation.map(|value| value.to_string()),
        ),
        ("weight_gradients", share(sizes.weight_gradients)),
        ("input_gradients", share(sizes.input_gradients)),
    ] {
        keys.extend(value.map(|value| (key, value)));
    }
    let rules = rules(stages);
    let noted = noted(notes);
    if keys.is_empty() && rules.is_empty() && noted.is_empty() {
        return None;
    }
    let mut inferred: Vec<String> = keys.iter().map(|(key, _)| quoted(key)).collect();
    inferred.extend((!rules.is_empty()).then(|| quoted("stages")));
    let mut text = HEAD.to_owned();
    for remark in &sizes.remarks {
        text.push_str(&format!("# {remark}\n"));
    }
    for (key, value) in name(notes)
        .map(|name| ("name", quoted(&name)))
        .into_iter()
        .chain(keys)
    {
        text.push_str(&format!("{key} = {value}\n"));
    }
    text.push_str(&format!("inferred = [{}]\n", inferred.join(", ")));
    text.push_str(&rules);
    if !noted.is_empty() {
        text.push_str("\n[noted]\n");
        for (key, value) in noted {
            text.push_str(&format!("{} = {}\n", quoted(&key), quoted(&value)));
        }
    }
    Some(text)
}

/// A TOML string: JSON's escapes are among those of TOML.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| *c != '\u{7f}').collect();
    Value::from(plain).to_string()
}

fn name(notes: &Notes) -> Option<String> {
    let of_engine = || {
        let arguments = notes.engines.values().next()?;
        let model = ["model", "model_path"]
            .iter()
            .find_map(|key| arguments.get(*key))?
            .as_str()?;
        Some(model.rsplit('/').next().unwrap_or(model).to_owned())
    };
    let of_model = sizes::model_of(notes).map(|model| model.class.clone());
    of_model.filter(|name| !name.is_empty()).or_else(of_engine)
}

/// Which ranges are stages, where their names alone do not say it.
fn rules(stages: &Stages) -> String {
    let known: Vec<&Timed> = stages
        .all
        .iter()
        .filter(|stage| stage.kind != StageKind::Other)
        .collect();
    if stages.lacks_ranges || known.iter().all(|stage| stage.is_built_in) {
        return String::new();
    }
    let rule = |stage: &&Timed| {
        let kind = serde_json::to_value(stage.kind).unwrap_or_default();
        let kind = kind.as_str().unwrap_or("other").to_owned();
        let (name, pattern) = (quoted(&stage.name), quoted(&pattern(&stage.range)));
        format!(
            "\n[[stages]]\nname = {name}\nmatch = {pattern}\nkind = {}\n",
            quoted(&kind)
        )
    };
    known.iter().map(rule).collect()
}

/// A regular expression for the names that the report would call so: `N` may represent digits.
fn pattern(range: &str) -> String {
    let mut pattern = String::new();
    for letter in range.chars() {
        match letter {
            'N' => pattern.push_str(r"(N|\d+)"),
            letter if letter.is_alphanumeric() || letter == '_' || letter == ' ' => {
                pattern.push(letter)
            }
            letter if letter.is_ascii() => pattern.extend(['\\', letter]),
            letter => pattern.push(letter),
        }
    }
    pattern
}

/// What else is known, for people.
fn noted(notes: &Notes) -> BTreeMap<String, String> {
    let mut noted: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |key: &str, value: String| {
        if !value.is_empty() {
            noted.insert(key.to_owned(), value);
        }
    };
    let listed = |map: &BTreeMap<String, u64>| {
        map.iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(model) = sizes::model_of(notes) {
        add("parameters", listed(&model.parameters));
        add("attention", model.attention.clone().unwrap_or_default());
        add("quantization", listed(&model.layers));
        add("autocast", model.autocast.clone().unwrap_or_default());
        add(
            "fsdp",
            if model.is_fsdp {
                "parameters are sharded".to_owned()
            } else {
                String::new()
            },
        );
    }
    let updates = |map: &BTreeMap<String, u64>| {
        map.iter()
            .map(|(name, count)| format!("{name}, {count} updates"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    add("optimizer", updates(&notes.optimizers));
    add("torch.compile", plain(notes.compile.iter()));
    add("parallel", plain(notes.parallel.wrappers.iter()));
    add(
        "backend",
        notes.parallel.backend.clone().unwrap_or_default(),
    );
    let world = notes.parallel.world_size.or(notes.world_size);
    add(
        "processes",
        world.map(|size| size.to_string()).unwrap_or_default(),
    );
    let meshes = notes.parallel.meshes.iter().map(|mesh| {
        let sizes = mesh
            .shape
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(" x ");
        format!("{} ({})", sizes, mesh.names.join(", "))
    });
    add("device meshes", meshes.collect::<Vec<_>>().join("; "));
    for (engine, arguments) in &notes.engines {
        for (name, value) in arguments {
            add(&format!("{engine} {name}"), shown(value));
        }
    }
    noted
}

fn plain<'a>(pairs: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    pairs
        .map(|(name, value)| format!("{name} {}", shown(value)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_schemas::Workload;

    use super::super::{facts, stages};
    use super::*;

    fn written(text: &str) -> Workload {
        let notes: facts::Notes = serde_json::from_str(text).unwrap();
        let sizes = sizes::of(&notes);
        let stages = stages::of(std::slice::from_ref(&notes));
        toml::from_str(&write(&notes, &sizes, &stages, true).unwrap()).unwrap()
    }

    #[test]
    fn the_text_is_a_description_that_says_what_is_inferred() {
        let workload = written(
            r#"{"models": [{"class": "Odd \"name\"\n", "parameters": {"bfloat16": 5},
                "calls": [{"phase": "prefill", "batch": 2, "tokens": 7, "count": 1}]}],
                "compile": {"calls": 1, "mode": "reduce-overhead"},
                "engines": {"vllm": {"max_num_seqs": 64, "dtype": "auto"}}}"#,
        );
        assert_eq!(workload.name.as_deref(), Some("Odd \"name\"\n"));
        assert_eq!((workload.batch, workload.prompt_tokens), (Some(2), Some(7)));
        assert_eq!(
            workload.inferred,
            ["mode", "dtype", "config", "batch", "prompt_tokens"]
        );
        assert_eq!(
            workload.noted["torch.compile"],
            "calls 1, mode reduce-overhead"
        );
        assert_eq!(workload.noted["vllm max_num_seqs"], "64");
    }

    #[test]
    fn ranges_with_names_of_their_own_become_rules() {
        let workload = written(
            r#"{"ranges": {"it (N)": {"opened": 1, "ms": [5.0], "events": [true],
                    "seen": [{"train": 1, "backward": 1, "update": 1}]},
                "optimizer": {"opened": 1, "ms": [1.0], "events": [true], "seen": [{"update": 1}]}}}"#,
        );
        let rules: Vec<_> = workload
            .stages
            .iter()
            .map(|rule| (rule.name.as_str(), rule.kind))
            .collect();
        let expected = [
            ("it (N)", Some(StageKind::TrainStep)),
            ("optimizer", Some(StageKind::Optimizer)),
        ];
        assert_eq!(rules, expected);
        assert_eq!(
            workload.stages[0].pattern.as_deref(),
            Some(r"it \((N|\d+)\)")
        );
        let named = r#"{"ranges": {"prefill": {"opened": 1, "ms": [5.0], "events": [true]}}}"#;
        let notes: facts::Notes = serde_json::from_str(named).unwrap();
        assert_eq!(rules_of(&notes), "", "the name says it");
    }

    fn rules_of(notes: &facts::Notes) -> String {
        rules(&stages::of(std::slice::from_ref(notes)))
    }
}
