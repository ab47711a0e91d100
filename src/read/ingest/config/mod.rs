//! Descriptions of the workload and the machine: `workload.toml`, the model's `config.json`, `env.json` and `notes.md`.
//!
//! These files describe the run and hold no measurement. People and other programs write them, so an unreadable one is
//! a diagnostic, and the measurements are still read.

use std::borrow::Cow;

use rooflens_schemas::{ArtifactKind, Workload, python, workload};
use serde_json::{Value, json};

use super::{Importer, IngestError, IngestErrorKind, Prefix};
use rooflens_bundle::{ArtifactFile, COMMAND_LINE};
use rooflens_diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use rooflens_session::pattern::check_stages;
use rooflens_session::{Session, llm};

/// Reads `workload.toml`. Unknown keys are errors: the file is written by hand, and a typo must not pass.
pub static WORKLOAD: Importer = Importer {
    kind: ArtifactKind::Workload,
    sniff: sniff_workload,
    import: import_workload,
};

/// Reads a Hugging Face `config.json`.
pub static MODEL: Importer = Importer {
    kind: ArtifactKind::ModelConfig,
    sniff: sniff_model,
    import: import_model,
};

/// Reads `env.json`: `{"version": 1, "entries": [{"subject", "key", "value" or "missing_reason"}]}`.
pub static ENVIRONMENT: Importer = Importer {
    kind: ArtifactKind::Environment,
    sniff: sniff_environment,
    import: import_environment,
};

/// Keeps `notes.md` as it is: the report turns it into text. Markdown has no mark of its own, so the name decides.
pub static NOTES: Importer = Importer {
    kind: ArtifactKind::Notes,
    sniff: |prefix| prefix.name == "notes.md",
    import: import_notes,
};

/// Code of the diagnostic about a config whose dimensions cannot be used.
pub const UNSUPPORTED: &str = "model/unsupported";

/// No file of these kinds is larger in good faith.
const MAX_BYTES: u64 = 64 << 20;

/// Notes are read by people: these are a hundred pages.
const MAX_NOTES: u64 = 256 << 10;

fn sniff_workload(prefix: &Prefix<'_>) -> bool {
    if prefix.name == workload::FILE_NAME {
        return true;
    }
    let parse = || toml::from_str::<Workload>(&prefix.text()).ok();
    prefix.complete
        && prefix.name.ends_with(".toml")
        && parse().is_some_and(|workload| workload != Workload::default())
}

fn import_workload(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let text = text_of(file, MAX_BYTES)?;
    let workload: Workload = toml::from_str(&text).map_err(|mut error| {
        let location = error
            .span()
            .map_or(Location::Whole, |span| line_of(&text, span.start));
        error.set_input(None); // Without it the message is one line; the place is in `at`.
        IngestError::from(error).at(location)
    })?;
    check_stages(&workload.stages).map_err(|fault| IngestErrorKind::Value {
        what: fault.what,
        found: fault.found,
        expected: fault.expected,
    })?;
    if session.workload != Workload::default() {
        let message = "a second workload description; the first one counts";
        let diagnostic = Diagnostic::new(Severity::Notice, "workload/second", message);
        diagnostics.push(diagnostic.artifact(&file.path));
        return Ok(());
    }
    if !workload.inferred.is_empty() {
        let keys = workload.inferred.join(", ");
        let message = format!("inferred by the capture program from the running workload: {keys}");
        let diagnostic = Diagnostic::new(Severity::Notice, "workload/inferred", message);
        let hint =
            "check them, edit the file where one is wrong, and strike checked ones from `inferred`";
        diagnostics.push(diagnostic.artifact(&file.path).hint(hint));
    }
    for (key, value) in &workload.noted {
        session.add_fact(&file.path, "workload", key, value);
    }
    session.workload = workload;
    Ok(())
}

/// The line of a byte offset, counted from 1.
fn line_of(text: &str, offset: usize) -> Location {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    Location::Line(before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1)
}

fn sniff_model(prefix: &Prefix<'_>) -> bool {
    if !starts_object(prefix) {
        return false;
    }
    if prefix.complete {
        return python::json(&prefix.text())
            .is_ok_and(|value| llm::is_config(&value) || is_quantization(&value));
    }
    // Lists of quantized modules can make a config longer than the prefix.
    let dimensions = prefix.contains("\"num_hidden_layers\"") || prefix.contains("\"hidden_size\"");
    let named = prefix.contains("\"model_type\"") || prefix.contains("\"architectures\"");
    dimensions && named && !prefix.contains("\"traceEvents\"") && !prefix.contains("_ms\":")
}

fn import_model(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let value = python::json(&text_of(file, MAX_BYTES)?)?;
    if is_quantization(&value) {
        return add_quantization(&value, file, session, diagnostics);
    }
    let named = session
        .workload
        .config
        .as_ref()
        .filter(|_| file.pass != COMMAND_LINE);
    let named_other = named.is_some_and(|path| *path != file.path);
    if named_other || session.model.is_some() {
        let message = "another model config describes the workload; this one is not used";
        let diagnostic = Diagnostic::new(Severity::Notice, "model/second", message);
        diagnostics.push(diagnostic.artifact(&file.path));
        return Ok(());
    }
    add_model(&value, &file.path, session, diagnostics);
    Ok(())
}

/// True if it is the `hf_quant_config.json` that TensorRT Model Optimizer writes next to a model's config.
fn is_quantization(value: &Value) -> bool {
    value.get("producer").is_some() && value.get("quantization").is_some_and(Value::is_object)
}

/// Sets how the weights of the session's model are stored.
fn add_quantization(
    value: &Value,
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let algorithm = value
        .pointer("/quantization/quant_algo")
        .and_then(Value::as_str);
    let algorithm = algorithm.unwrap_or("unnamed").to_lowercase();
    let Some(model) = &mut session.model else {
        let message = format!(
            "only how weights are quantized ({algorithm}), not the model: that is in its config.json"
        );
        return Err(IngestError::from(IngestErrorKind::Unsupported(message))
            .hint("give both: rooflens report config.json hf_quant_config.json"));
    };
    if model.quantized.is_none() {
        model.quantized = llm::weight_format(&algorithm).map(str::to_owned);
        let message = format!("the weights are quantized ({algorithm})");
        let diagnostic = Diagnostic::new(Severity::Notice, "model/remark", message);
        diagnostics.push(diagnostic.artifact(&file.path));
    }
    Ok(())
}

/// A config that was not saved names no class, and so no head: then the workload is named after the class that ran.
fn with_class<'a>(config: &'a Value, session: &Session) -> Cow<'a, Value> {
    let is_named = config.get("architectures").is_some_and(Value::is_array);
    let class = session.workload.name.as_ref().filter(|_| !is_named);
    let Some((class, keys)) = class.zip(config.as_object()) else {
        return Cow::Borrowed(config);
    };
    let mut keys = keys.clone();
    keys.insert("architectures".to_owned(), json!([class]));
    Cow::Owned(Value::Object(keys))
}

/// Sets the session's model from a config, or says why its dimensions cannot be used.
pub(super) fn add_model(
    config: &Value,
    path: &str,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) {
    match llm::parse(&with_class(config, session)) {
        Ok(model) => {
            let model = match session.workload.image_size {
                Some(sides) => model.viewing(sides),
                None => model,
            };
            for remark in &model.remarks {
                let diagnostic = Diagnostic::new(Severity::Notice, "model/remark", remark.clone());
                diagnostics.push(diagnostic.artifact(path));
            }
            session.model = Some(model);
        }
        Err(reason) => {
            let message = format!("the model's FLOPs and bytes are not known: {reason}");
            let diagnostic = Diagnostic::new(Severity::Notice, UNSUPPORTED, message);
            diagnostics.push(diagnostic.artifact(path));
        }
    }
}

fn sniff_environment(prefix: &Prefix<'_>) -> bool {
    if !starts_object(prefix) {
        return false;
    }
    if prefix.complete {
        let value = serde_json::from_slice::<Value>(prefix.bytes).ok();
        return value.is_some_and(|value| {
            let entries = value.get("entries").and_then(Value::as_array);
            value.get("version").is_some_and(Value::is_u64)
                && entries.is_some_and(|entries| entries.iter().all(is_entry))
        });
    }
    ["\"version\"", "\"entries\"", "\"subject\"", "\"key\""]
        .iter()
        .all(|key| prefix.contains(key))
        && !prefix.contains("\"traceEvents\"")
}

fn is_entry(entry: &Value) -> bool {
    entry.get("subject").is_some_and(Value::is_string)
        && entry.get("key").is_some_and(Value::is_string)
}

fn import_environment(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let value: Value = serde_json::from_str(&text_of(file, MAX_BYTES)?)?;
    let version = value.get("version").and_then(Value::as_u64);
    if version != Some(1) {
        return Err(IngestErrorKind::Value {
            what: "version".to_owned(),
            found: value.get("version").unwrap_or(&Value::Null).to_string(),
            expected: "1",
        }
        .into());
    }
    let entries = value.get("entries").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let (Some(subject), Some(key)) = (text("subject"), text("key")) else {
            let message = "an entry has no subject or no key and is skipped";
            let diagnostic = Diagnostic::new(Severity::DataLoss, "environment/entry", message);
            diagnostics.push(diagnostic.artifact(&file.path));
            continue;
        };
        match (entry.get("value"), text("missing_reason")) {
            (Some(Value::String(value)), _) => session.add_fact(&file.path, subject, key, value),
            (Some(value @ (Value::Number(_) | Value::Bool(_))), _) => {
                session.add_fact(&file.path, subject, key, &value.to_string());
            }
            // A variable that is not set is no gap in the record.
            (_, Some(_)) if subject == "env" => {}
            (_, Some(reason)) => {
                let message = format!("{subject}: {key} was not recorded: {reason}");
                let diagnostic = Diagnostic::new(Severity::Info, "environment/missing", message);
                diagnostics.push(diagnostic.artifact(&file.path));
            }
            _ => {}
        }
    }
    Ok(())
}

fn import_notes(
    file: &ArtifactFile,
    session: &mut Session,
    diagnostics: &mut Diagnostics,
) -> Result<(), IngestError> {
    let text = text_of(file, MAX_NOTES)?;
    if session.notes.is_some() {
        let diagnostic = Diagnostic::new(
            Severity::Notice,
            "notes/second",
            "a second file of notes; the first one counts",
        );
        diagnostics.push(diagnostic.artifact(&file.path));
        return Ok(());
    }
    session.notes = Some((file.path.clone(), text));
    Ok(())
}

fn starts_object(prefix: &Prefix<'_>) -> bool {
    let text = prefix
        .bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(prefix.bytes);
    text.trim_ascii_start().starts_with(b"{")
}

fn text_of(file: &ArtifactFile, limit: u64) -> Result<String, IngestError> {
    let bytes = file.content()?.document(limit)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let location = Location::Byte(error.utf8_error().valid_up_to() as u64);
        IngestError::from(IngestErrorKind::Unsupported(
            "the file is not UTF-8 text".to_owned(),
        ))
        .at(location)
    })?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or(text.clone(), ToOwned::to_owned))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{import_into, sniffs};

    fn import(
        importer: &Importer,
        text: &str,
        session: &mut Session,
    ) -> (Result<(), IngestError>, Diagnostics) {
        import_into(importer, "config.json", text, session)
    }

    #[test]
    fn the_class_that_ran_says_whether_a_model_has_a_head() {
        let parameters = |name: &str| {
            let mut session = Session::default();
            session.workload.name = Some(name.to_owned());
            let config = r#"{"model_type": "bert", "architectures": null, "hidden_size": 4,
                "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
                "max_position_embeddings": 3, "type_vocab_size": 2, "vocab_size": 10}"#;
            import(&MODEL, config, &mut session).0.unwrap();
            session.model.unwrap().parameters()
        };
        // Tables 4·15, their norm 8; projections 4·20, MLP 2·32 + 12, norms 16; pooler 20.
        assert_eq!(parameters("BertModel"), 68 + 80 + 76 + 16 + 20);
        // A dense layer 20, its norm 8 and a bias of 10 instead of the pooler.
        assert_eq!(parameters("BertForMaskedLM"), 240 + 20 + 8 + 10);
    }

    #[test]
    fn a_workload_is_read_and_a_typo_in_it_is_an_error_with_its_line() {
        let mut session = Session::default();
        let (result, _) = import(&WORKLOAD, "batch = 8\nprompt_tokens = 1024\n", &mut session);
        assert!(result.is_ok());
        assert_eq!(session.workload.batch, Some(8));

        let (result, _) = import(
            &WORKLOAD,
            "batch = 8\n\nbatsh = 9\n",
            &mut Session::default(),
        );
        assert_eq!(result.unwrap_err().at, Location::Line(3));
    }

    #[test]
    fn the_three_json_kinds_are_told_apart() {
        let config = r#"{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}"#;
        let timings = format!(r#"{{"config": {config}, "batch": 1, "decode_ms": [1.0]}}"#);
        let environment = r#"{"version": 1, "entries": [{"subject": "gpu 0", "key": "name"}]}"#;
        assert!(sniffs(&MODEL, "config.json", config));
        assert!(!sniffs(&MODEL, "config.json", &timings));
        assert!(!sniffs(&MODEL, "env.json", environment));
        assert!(sniffs(&ENVIRONMENT, "env.json", environment));
        assert!(!sniffs(&ENVIRONMENT, "env.json", config));
        assert!(!sniffs(&ENVIRONMENT, "env.json", &timings));
        assert!(sniffs(&WORKLOAD, "workload.toml", ""));
        assert!(sniffs(&WORKLOAD, "my.toml", "batch = 1"));
        assert!(!sniffs(&WORKLOAD, "Cargo.toml", "[package]\nname = \"x\""));
    }

    #[test]
    fn environment_entries_become_facts_and_missing_ones_are_said() {
        let text = r#"{"version": 1, "entries": [
            {"subject": "gpu 0", "key": "name", "value": "NVIDIA H200"},
            {"subject": "host", "key": "cpus", "value": 16},
            {"subject": "ncu", "key": "version", "missing_reason": "not installed"},
            {"key": "lost"}]}"#;
        let mut session = Session::default();
        let (result, diagnostics) = import(&ENVIRONMENT, text, &mut session);
        assert!(result.is_ok());
        let values: Vec<_> = session
            .environment
            .value
            .iter()
            .map(|value| session.text(*value))
            .collect();
        assert_eq!(values, ["NVIDIA H200", "16"]);
        let codes: Vec<_> = diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, ["environment/missing", "environment/entry"]);
    }

    #[test]
    fn notes_are_kept_as_they_are_once_and_refused_where_they_are_no_text() {
        let mut session = Session::default();
        assert!(
            import(&NOTES, "\u{feff}# A\n{{mfu}}\n", &mut session)
                .0
                .is_ok()
        );
        let kept = session.notes.clone();
        assert_eq!(
            kept.as_ref().map(|(_, text)| text.as_str()),
            Some("# A\n{{mfu}}\n")
        );
        let (result, diagnostics) = import(&NOTES, "other", &mut session);
        assert!(result.is_ok() && session.notes == kept);
        assert_eq!(
            diagnostics
                .iter()
                .map(|diagnostic| diagnostic.code)
                .collect::<Vec<_>>(),
            ["notes/second"]
        );
        let long = "x".repeat((256 << 10) + 1);
        assert!(import(&NOTES, &long, &mut Session::default()).0.is_err());
        assert!(sniffs(&NOTES, "notes.md", "") && !sniffs(&NOTES, "README.md", ""));
    }

    #[test]
    fn what_nobody_stated_is_said_and_what_was_noted_is_a_fact() {
        let text = "batch = 8\ninferred = [\"batch\"]\n[noted]\noptimizer = \"AdamW\"\n";
        let mut session = Session::default();
        let (result, diagnostics) = import(&WORKLOAD, text, &mut session);
        assert!(result.is_ok() && session.workload.batch == Some(8));
        let codes: Vec<_> = diagnostics
            .iter()
            .map(|diagnostic| (diagnostic.code, diagnostic.severity))
            .collect();
        assert_eq!(codes, [("workload/inferred", Severity::Notice)]);
        let fact = [session.environment.key[0], session.environment.value[0]];
        assert_eq!(fact.map(|id| session.text(id)), ["optimizer", "AdamW"]);
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let text = r#"{"version": 2, "entries": []}"#;
        let (result, _) = import(&ENVIRONMENT, text, &mut Session::default());
        assert_eq!(result.unwrap_err().to_string(), "version is 2, expected 1");
    }

    #[test]
    fn an_unsupported_model_leaves_none_and_says_why() {
        let text = r#"{"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2}"#;
        let mut session = Session::default();
        let (result, diagnostics) = import(&MODEL, text, &mut session);
        assert!(result.is_ok());
        assert_eq!(session.model, None);
        assert_eq!(diagnostics.worst(), Some(Severity::Notice));
    }
}
