//! The checked-in JSON Schemas are those of the types, and what the repository holds is valid by them.
//!
//! `SNAPSHOTS=overwrite cargo test --test all schemas` writes the schemas.

use std::fs;
use std::path::{Path, PathBuf};

use rooflens_schemas::{Manifest, Workload};
use serde_json::Value;

use crate::support::root;

const BUNDLE: &str = "bundle.v1.schema.json";
const METRICS: &str = "metrics.v1.schema.json";
const WORKLOAD: &str = "workload.v1.schema.json";

#[test]
fn the_schemas_are_those_of_the_types() {
    for (name, schema) in rooflens_schemas::json_schemas() {
        let path = root().join("schemas").join(name);
        let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        text.push('\n');
        if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
            fs::write(&path, &text).expect("writable");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "schemas/{name} is stale; write it with SNAPSHOTS=overwrite"
        );
    }
}

#[test]
fn the_schema_of_results_is_that_of_the_tables() {
    let path = root().join("schemas/results.v1.schema.json");
    let schema = rooflens::lake::schema::json_schema();
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        fs::write(&path, &text).expect("writable");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "the schema is stale; write it with SNAPSHOTS=overwrite"
    );
}

#[test]
fn every_manifest_is_valid() {
    let manifests = find(&root().join("fixtures"), "manifest.json");
    assert!(manifests.len() >= 6, "found {} manifests", manifests.len());
    for path in manifests {
        validate(BUNDLE, &path, &json(&path));
        let bytes = fs::read(&path).expect("readable");
        Manifest::from_json(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn every_workload_is_valid() {
    for path in find(&root().join("fixtures"), "workload.toml") {
        let text = fs::read_to_string(&path).expect("readable");
        let value: Value = toml::from_str(&text).expect("valid TOML");
        validate(WORKLOAD, &path, &value);
        toml::from_str::<Workload>(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn every_metrics_file_is_valid() {
    for path in find(&root().join("reports"), "metrics.json") {
        validate(METRICS, &path, &json(&path));
    }
}

#[test]
fn the_schemas_refuse_what_the_types_refuse() {
    let valid = serde_json::json!({"version": 1, "name": "x", "tool": {"name": "hand"}});
    assert_eq!(faults(BUNDLE, &valid), None);
    for wrong in [
        serde_json::json!({"version": 1, "name": "x"}),
        serde_json::json!({"version": "1", "name": "x", "tool": {"name": "hand"}}),
        serde_json::json!({"version": 1, "name": "x", "tool": {"name": "hand"}, "passes": [{}]}),
    ] {
        assert!(faults(BUNDLE, &wrong).is_some(), "{wrong}");
    }
}

/// Why the value is not valid by the schema of that name.
fn faults(name: &str, value: &Value) -> Option<String> {
    let schemas = rooflens_schemas::json_schemas();
    let schema = schemas
        .into_iter()
        .find(|(known, _)| *known == name)
        .expect("a known name")
        .1;
    let mut compiled = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("memory:schema", schema.to_value())
        .expect("a valid schema");
    let index = compiler
        .compile("memory:schema", &mut compiled)
        .expect("a valid schema");
    compiled
        .validate(value, index)
        .err()
        .map(|error| format!("{error:#}"))
}

fn validate(schema: &str, path: &Path, value: &Value) {
    if let Some(faults) = faults(schema, value) {
        panic!("{}: {faults}", path.display());
    }
}

fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files of that name under `folder`, sorted; none if there is no such folder.
fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(find(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found.sort();
    found
}
