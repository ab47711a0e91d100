//! What is asked: prompts of common words by a distribution of lengths, or those of a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::args::ServeArguments;
use super::load::{Lengths, Random};
use crate::error::CaptureError;

/// Each is one token, with the blank before it, in the vocabularies of today.
const WORDS: &str = "the of and to in is that it for was on are as with his they at be this from have or by one had \
not but what all were when we there can an your which their said if do will each about how up out them then she many \
some so these would other into has more her two like him see time could no make than first been its who now people my \
made over did down only way find use may water long little very after words called just where most know";

/// Makes the bodies of requests.
pub(super) struct Prompts {
    source: Source,
    output: Lengths,
    words: Vec<&'static str>,
    is_chat: bool,
    /// The body up to what differs.
    start: String,
}

enum Source {
    Lengths(Lengths),
    Rows(Vec<Row>),
}

/// A line of a dataset.
#[derive(Deserialize)]
struct Row {
    prompt: Option<String>,
    messages: Option<Box<RawValue>>,
    output_tokens: Option<u32>,
}

/// A body, and about how many tokens its prompt has.
pub(super) struct Body {
    pub(super) json: String,
    pub(super) words: u64,
}

impl Prompts {
    pub(super) fn of(arguments: &ServeArguments) -> Result<Self, CaptureError> {
        let source = match &arguments.traffic.dataset {
            Some(path) => Source::Rows(rows(path, arguments.traffic.chat)?),
            None => Source::Lengths(arguments.traffic.prompt_tokens.clone()),
        };
        let mut body = serde_json::Map::new();
        body.insert("model".to_owned(), arguments.model.clone().into());
        body.insert("stream".to_owned(), true.into());
        body.insert(
            "stream_options".to_owned(),
            serde_json::json!({"include_usage": true}),
        );
        if !arguments.traffic.stop_at_eos {
            body.insert("ignore_eos".to_owned(), true.into());
        }
        body.extend(arguments.traffic.extra_body.clone().unwrap_or_default());
        let mut start = serde_json::Value::from(body).to_string();
        start.pop();
        let words = WORDS.split(' ').collect();
        let output = arguments.traffic.output_tokens.clone();
        Ok(Self {
            source,
            output,
            words,
            is_chat: arguments.traffic.chat,
            start,
        })
    }

    /// The body of the request at this place; rows of a dataset come in turn.
    pub(super) fn body(&self, index: u64, mut random: Random) -> Body {
        let (prompt, words, output_tokens) = match &self.source {
            Source::Lengths(lengths) => {
                let length = lengths.draw(&mut random) as usize;
                let words: Vec<&str> = (0..length)
                    .map(|_| self.words[random.below(self.words.len())])
                    .collect();
                (self.prompt(&words.join(" ")), length, None)
            }
            Source::Rows(rows) => {
                let row = &rows[(index % rows.len() as u64) as usize];
                let text = row.prompt.as_deref().unwrap_or_default();
                let of_messages = |messages: &RawValue| messages.get().split_whitespace().count();
                match row.messages.as_deref().filter(|_| self.is_chat) {
                    Some(messages) => {
                        let prompt = format!("\"messages\":{}", messages.get());
                        (prompt, of_messages(messages), row.output_tokens)
                    }
                    None => (
                        self.prompt(text),
                        text.split_whitespace().count(),
                        row.output_tokens,
                    ),
                }
            }
        };
        let output_tokens = output_tokens.unwrap_or_else(|| self.output.draw(&mut random));
        let json = format!("{},\"max_tokens\":{output_tokens},{prompt}}}", self.start);
        Body {
            json,
            words: words as u64,
        }
    }

    fn prompt(&self, text: &str) -> String {
        let text = serde_json::Value::from(text);
        match self.is_chat {
            true => format!("\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]"),
            false => format!("\"prompt\":{text}"),
        }
    }
}

fn rows(path: &Path, is_chat: bool) -> Result<Vec<Row>, CaptureError> {
    let file = File::open(path).map_err(CaptureError::io(path))?;
    let refused = |reason: String| CaptureError::File(path.to_owned(), reason);
    let mut rows = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(CaptureError::io(path))?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Result<Row, String> = serde_json::from_str(&line)
            .map_err(|error| error.to_string())
            .and_then(|row: Row| match (&row.prompt, &row.messages) {
                (None, None) => Err("neither \"prompt\" nor \"messages\"".to_owned()),
                (None, Some(_)) if !is_chat => Err("\"messages\" need --chat".to_owned()),
                _ => Ok(row),
            });
        rows.push(row.map_err(|reason| refused(format!("line {}: {reason}", index + 1)))?);
    }
    match rows.is_empty() {
        true => Err(refused("it holds no prompts".to_owned())),
        false => Ok(rows),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    fn prompts(more: &[&str]) -> Result<Prompts, CaptureError> {
        let line = ["serve", "-o=x", "--url=http://h", "--model=m", "--rate=1"];
        Prompts::of(&Line::try_parse_from(line.iter().chain(more)).unwrap().serve)
    }

    fn body(prompts: &Prompts, index: u64) -> Value {
        serde_json::from_str(&prompts.body(index, Random::new(0, index)).json).unwrap()
    }

    #[test]
    fn prompts_are_words_and_differ() {
        let prompts = prompts(&["--prompt-tokens", "7", "--output-tokens", "5"]).unwrap();
        let (first, second) = (body(&prompts, 0), body(&prompts, 1));
        assert_eq!(first["prompt"].as_str().unwrap().split(' ').count(), 7);
        assert_ne!(first["prompt"], second["prompt"]);
        assert_eq!(body(&prompts, 0), first);
        let expected = serde_json::json!({"model": "m", "stream": true, "ignore_eos": true,
            "stream_options": {"include_usage": true}, "max_tokens": 5, "prompt": first["prompt"]});
        assert_eq!(first, expected);
        assert_eq!(prompts.body(0, Random::new(0, 0)).words, 7);
    }

    #[test]
    fn rows_of_a_dataset_come_in_turn() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rows = "{\"prompt\": \"a \\\"b\\\"\", \"output_tokens\": 3}\n\n{\"messages\": [{\"role\": \"user\"}]}\n";
        std::fs::write(file.path(), rows).unwrap();
        let dataset = ["--dataset", file.path().to_str().unwrap()];
        let chat = prompts(&[&dataset[..], &["--chat", "--stop-at-eos"]].concat()).unwrap();
        let first = body(&chat, 2);
        assert_eq!(first["messages"][0]["content"], "a \"b\"");
        assert_eq!(
            (&first["max_tokens"], first.get("ignore_eos")),
            (&Value::from(3), None)
        );
        assert_eq!(
            body(&chat, 1)["messages"],
            serde_json::json!([{"role": "user"}])
        );
        assert_eq!(body(&chat, 1)["max_tokens"], 128);
        let refused = prompts(&dataset).err().unwrap().to_string();
        assert!(
            refused.ends_with("line 3: \"messages\" need --chat"),
            "{refused}"
        );
        for (text, reason) in [("", "no prompts"), ("{}", "neither"), ("x", "line 1")] {
            std::fs::write(file.path(), text).unwrap();
            let refused = prompts(&dataset).err().unwrap().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn members_of_the_users_own_are_sent() {
        let own = ["--extra-body", r#"{"temperature": 0, "ignore_eos": false}"#];
        let sent = body(&prompts(&own).unwrap(), 0);
        assert_eq!(
            (&sent["temperature"], &sent["ignore_eos"]),
            (&0.into(), &false.into())
        );
    }
}
