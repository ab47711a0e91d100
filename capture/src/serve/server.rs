//! What a server says of its engine: name, version and settings, for the header of results.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scrape::Source;
use super::url::Url;
use crate::redact::Secrets;

/// Engines by the prefix of their metrics and by what they say owns a model.
const ENGINES: [(&str, &str); 2] = [("vllm", "vLLM"), ("sglang", "SGLang")];

/// Facts of `cache_config_info` that a restart changes, or that repeat others.
const NOT_SETTINGS: [&str; 4] = ["engine", "model_name", "num_cpu_blocks", "num_gpu_blocks"];

/// Arguments in SGLang's `/get_server_info`. All others may be paths and keys.
const SGLANG_SETTINGS: [&str; 14] = [
    "attention_backend",
    "chunked_prefill_size",
    "context_length",
    "disable_radix_cache",
    "dp_size",
    "dtype",
    "kv_cache_dtype",
    "max_prefill_tokens",
    "max_running_requests",
    "mem_fraction_static",
    "quantization",
    "schedule_policy",
    "speculative_algorithm",
    "tp_size",
];

/// Longest value that is a setting.
const LONGEST: usize = 200;

/// An engine and its settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) engine: Option<String>,
    pub(super) settings: BTreeMap<String, String>,
}

impl Server {
    /// Asks a server. It need not answer: what it does not say is absent. `metrics` is an answer of its `/metrics`.
    pub(super) fn ask(url: &Url, model: &str, key: Option<&str>, metrics: Option<&[u8]>) -> Self {
        let at = |path: String| -> Option<Value> {
            let source = Source::of(Url {
                path,
                ..url.clone()
            })
            .ok()?;
            serde_json::from_slice(&source.ask(key).ok()?).ok()
        };
        let root = |path: &str| at(path.to_owned());
        let mut server = Self::default();
        let metrics = metrics.map(String::from_utf8_lossy).unwrap_or_default();
        let mut name = server.read_metrics(&metrics);
        if let Some(models) = at(url.below("models")) {
            name = name.or(server.read_models(&models, model));
        }
        let mut version = root("/version")
            .as_ref()
            .and_then(|answer| text(answer, "version"));
        if name == Some("SGLang")
            && let Some(info) = root("/get_server_info")
        {
            version = version.or(text(&info, "version"));
            server.read_arguments(&info);
        }
        server.engine = match (name, version) {
            (Some(name), Some(version)) => Some(format!("{name} {version}")),
            (Some(name), None) => Some(name.to_owned()),
            (None, version) => version,
        };
        server
    }

    /// Adds settings that the user states, and covers secrets.
    pub(super) fn with_labels(mut self, labels: &[(String, String)], secrets: &Secrets) -> Self {
        self.settings.extend(labels.iter().cloned());
        let masked = |text: String| secrets.masked_text(&text);
        let settings = self.settings.into_iter();
        Self {
            engine: self.engine.map(masked),
            settings: settings
                .map(|(key, value)| (masked(key), masked(value)))
                .collect(),
        }
    }

    /// Takes the settings of `cache_config_info` and gives the engine's name.
    fn read_metrics(&mut self, text: &str) -> Option<&'static str> {
        let mut engine = None;
        for line in text.lines() {
            let Some((prefix, sample)) = line.split_once(':') else {
                continue;
            };
            let known = ENGINES.iter().find(|(known, _)| *known == prefix);
            engine = engine.or(known.map(|(_, name)| *name));
            if known.is_some()
                && let Some(labels) = sample.strip_prefix("cache_config_info{")
            {
                let settings = labels_of(labels);
                self.add(settings.filter(|(key, _)| !NOT_SETTINGS.contains(&key.as_str())));
            }
        }
        engine
    }

    /// Takes the context length of a model and gives the name of the engine that owns it.
    fn read_models(&mut self, answer: &Value, model: &str) -> Option<&'static str> {
        let models = answer.get("data")?.as_array()?;
        let entry = models.iter().find(|entry| entry["id"] == model)?;
        let length = text(entry, "max_model_len");
        self.add(
            length
                .map(|length| ("max_model_len".to_owned(), length))
                .into_iter(),
        );
        let owner = entry["owned_by"].as_str()?;
        let known = ENGINES.iter().find(|(known, _)| *known == owner);
        known.map(|(_, name)| *name)
    }

    fn read_arguments(&mut self, info: &Value) {
        let settings = SGLANG_SETTINGS.iter();
        self.add(settings.filter_map(|key| Some(((*key).to_owned(), text(info, key)?))));
    }

    fn add(&mut self, settings: impl Iterator<Item = (String, String)>) {
        let is_stated = |value: &str| !matches!(value, "" | "None") && value.len() <= LONGEST;
        self.settings
            .extend(settings.filter(|(_, value)| is_stated(value)));
    }
}

/// A text, a number or a truth of an object.
fn text(object: &Value, key: &str) -> Option<String> {
    match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

/// Labels of a sample: `key="value",…}`. A value ends at a quote that is not escaped.
fn labels_of(mut text: &str) -> impl Iterator<Item = (String, String)> {
    std::iter::from_fn(move || {
        let (key, rest) = text.split_once("=\"")?;
        let mut is_escaped = false;
        let end = rest.find(|c: char| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        text = &rest[end + 1..];
        let key = key.trim_start_matches(',').trim();
        Some((key.to_owned(), rest[..end].to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(server: &Server) -> Vec<(&str, &str)> {
        server
            .settings
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .collect()
    }

    #[test]
    fn labels_of_vllm_are_settings() {
        let metrics = "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n\
            vllm:num_requests_running{engine=\"0\"} 1.0\n\
            vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",\
            gpu_memory_utilization=\"0.9\",num_gpu_blocks=\"27450\",sliding_window=\"None\",x=\"a\\\"b,c=\"} 1.0\n";
        let mut server = Server::default();
        assert_eq!(server.read_metrics(metrics), Some("vLLM"));
        let expected = [
            ("block_size", "16"),
            ("cache_dtype", "auto"),
            ("gpu_memory_utilization", "0.9"),
            ("x", "a\\\"b,c="),
        ];
        assert_eq!(settings(&server), expected);
    }

    #[test]
    fn a_model_has_a_length_and_an_owner() {
        let answer = serde_json::json!({"data": [
            {"id": "other", "owned_by": "vllm", "max_model_len": 1},
            {"id": "llama", "owned_by": "sglang", "max_model_len": 8192},
        ]});
        let mut server = Server::default();
        assert_eq!(server.read_models(&answer, "llama"), Some("SGLang"));
        assert_eq!(settings(&server), [("max_model_len", "8192")]);
        assert_eq!(server.read_models(&answer, "missing"), None);
        assert_eq!(
            server.read_models(&serde_json::json!({"data": 1}), "x"),
            None
        );
    }

    #[test]
    fn of_the_arguments_of_sglang_only_known_settings_are_kept() {
        let info = serde_json::json!({
            "api_key": "secret", "tp_size": 2, "mem_fraction_static": 0.88,
            "disable_radix_cache": false, "quantization": null, "model_path": "/home/me/llama",
        });
        let mut server = Server::default();
        server.read_arguments(&info);
        let expected = [
            ("disable_radix_cache", "false"),
            ("mem_fraction_static", "0.88"),
            ("tp_size", "2"),
        ];
        assert_eq!(settings(&server), expected);
    }

    #[test]
    fn damaged_samples_have_no_settings() {
        for line in [
            "vllm:cache_config_info{",
            "vllm:cache_config_info{a=\"b",
            "vllm:cache_config_info{}",
        ] {
            let mut server = Server::default();
            server.read_metrics(line);
            assert_eq!(settings(&server), [], "{line}");
        }
    }
}
