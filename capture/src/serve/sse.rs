//! Server-sent events of the OpenAI API: which of them carry tokens, and what the server counted.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::record::RequestError;

/// Longest line that is held.
const MOST_LINE: usize = 1 << 20;

/// A stream of events that is being read.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// A line whose end has not arrived.
    line: Vec<u8>,
}

/// What an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// It carries text, or a call of a tool.
    pub(super) has_token: bool,
    /// The model says why it stopped.
    pub(super) is_finish: bool,
    /// `[DONE]`
    pub(super) is_done: bool,
    pub(super) usage: Option<Usage>,
}

/// What the server counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) prompt_tokens: u64,
    #[serde(default)]
    pub(super) completion_tokens: u64,
}

impl Events {
    /// Takes bytes as they came and gives the events that they complete.
    pub(super) fn feed(
        &mut self,
        mut input: &[u8],
        mut on_event: impl FnMut(Event) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (line, rest) = (&input[..end], &input[end + 1..]);
            input = rest;
            let event = if self.line.is_empty() {
                event(line)?
            } else {
                self.hold(line)?;
                let line = std::mem::take(&mut self.line);
                event(&line)?
            };
            event.map_or(Ok(()), &mut on_event)?;
        }
        self.hold(input)
    }

    fn hold(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        if self.line.len() + piece.len() > MOST_LINE {
            return Err(RequestError::Stream("a line of more than 1 MiB"));
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }
}

/// The event of a line. An event of this API is one line of JSON, so that none of more lines is waited for. Comments,
/// which keep connections alive, and other fields are passed over.
fn event(line: &[u8]) -> Result<Option<Event>, RequestError> {
    let Some(data) = line.strip_prefix(b"data:") else {
        return Ok(None);
    };
    let data = data.trim_ascii();
    if data.is_empty() {
        return Ok(None);
    }
    if data == b"[DONE]" {
        return Ok(Some(Event {
            is_done: true,
            ..Event::default()
        }));
    }
    let chunk: Chunk = serde_json::from_slice(data)
        .map_err(|_| RequestError::Stream("an event that is not the API's JSON"))?;
    if chunk.error.is_some() {
        return Err(RequestError::Server);
    }
    let texts = chunk.choices.iter().flatten().flat_map(Choice::texts);
    let has_token = texts.into_iter().any(|text| text.0);
    let is_finish = chunk
        .choices
        .iter()
        .flatten()
        .any(|choice| choice.finish_reason.0);
    Ok(Some(Event {
        has_token,
        is_finish,
        is_done: false,
        usage: chunk.usage,
    }))
}

/// `completions` and `chat/completions`, as far as it matters here.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Choice {
    text: Filled,
    delta: Option<Delta>,
    finish_reason: Filled,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Filled,
    reasoning: Filled,
    reasoning_content: Filled,
    tool_calls: Filled,
}

impl Choice {
    fn texts(&self) -> [Filled; 5] {
        let delta = self.delta.as_ref();
        let of = |part: fn(&Delta) -> Filled| delta.map_or(Filled(false), part);
        [
            self.text,
            of(|delta| delta.content),
            of(|delta| delta.reasoning),
            of(|delta| delta.reasoning_content),
            of(|delta| delta.tool_calls),
        ]
    }
}

/// Whether a text or a list is there and not empty. Nothing of it is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Filled(bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FilledVisitor)
    }
}

struct FilledVisitor;

impl<'de> Visitor<'de> for FilledVisitor {
    type Value = Filled;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list or null")
    }

    fn visit_unit<E>(self) -> Result<Filled, E> {
        Ok(Filled(false))
    }

    fn visit_str<E>(self, text: &str) -> Result<Filled, E> {
        Ok(Filled(!text.is_empty()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Filled, A::Error> {
        let mut is_filled = false;
        while list.next_element::<IgnoredAny>()?.is_some() {
            is_filled = true;
        }
        Ok(Filled(is_filled))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Filled, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Filled(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], piece: usize) -> Result<Vec<Event>, RequestError> {
        let (mut events, mut read) = (Events::default(), Vec::new());
        for piece in input.chunks(piece) {
            events.feed(piece, |event| {
                read.push(event);
                Ok(())
            })?;
        }
        Ok(read)
    }

    fn one(data: &str) -> Event {
        let events = read(format!("data: {data}\n\n").as_bytes(), 1000).expect(data);
        assert_eq!(events.len(), 1, "{data}");
        events[0]
    }

    #[test]
    fn tokens_are_events_with_text() {
        for (choice, has_token) in [
            (r#"{"text":"a"}"#, true),
            (r#"{"text":""}"#, false),
            (r#"{"delta":{"role":"assistant","content":""}}"#, false),
            (
                r#"{"delta":{"content":null,"reasoning_content":"hm"}}"#,
                true,
            ),
            (r#"{"delta":{"content":null,"reasoning":"hm"}}"#, true),
            (r#"{"delta":{"tool_calls":[{"index":0}]}}"#, true),
            (r#"{"delta":{"tool_calls":[]}}"#, false),
            (
                r#"{"delta":{"content":"\u00fc"},"logprobs":{"a":[1,{}]}}"#,
                true,
            ),
        ] {
            let event = one(&format!(
                r#"{{"id":"x","choices":[{choice}],"usage":null}}"#
            ));
            assert_eq!(
                (event.has_token, event.is_finish),
                (has_token, false),
                "{choice}"
            );
        }
        let last = one(r#"{"choices":[{"text":"","finish_reason":"length"}]}"#);
        assert!(last.is_finish && !last.has_token);
        let usage =
            one(r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"x":1}}"#);
        assert_eq!(
            usage.usage,
            Some(Usage {
                prompt_tokens: 9,
                completion_tokens: 4
            })
        );
        assert!(one("[DONE]").is_done);
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = b": ping\r\n\r\nevent: x\r\ndata: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata:\n\ndata:[DONE]\n\n";
        for piece in 1..stream.len() {
            let events = read(stream, piece).expect("valid");
            let said: Vec<_> = events
                .iter()
                .map(|event| (event.has_token, event.is_done))
                .collect();
            assert_eq!(said, [(true, false), (false, true)]);
        }
    }

    #[test]
    fn garbage_is_an_error_in_bounded_memory() {
        let deep = format!("data: {{\"choices\":{}", "[".repeat(100_000));
        let long = vec![b'x'; 2 << 20];
        for stream in [
            &b"data: {\"choices\":[{\"text\":\"\xff\xfe\"}]}\n\n"[..],
            b"data: {\"choices\":[{\"text\":\"a\"}\n\n",
            b"data: hello\n\n",
            b"data: {\"usage\":{\"prompt_tokens\":-1}}\n\n",
            format!("{deep}\n").as_bytes(),
            &long,
        ] {
            assert!(matches!(read(stream, 4096), Err(RequestError::Stream(_))));
        }
        let error = read(
            b"data: {\"error\":{\"message\":\"key sk-1 is bad\"}}\n\n",
            9,
        );
        assert_eq!(error, Err(RequestError::Server));
    }
}
