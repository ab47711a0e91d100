//! Where the events of a trace begin, and where its text may be cut between two events.

use memchr::{memchr2, memrchr};

/// The beginning of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The events begin at this byte, just after the `[`.
    Events(usize),
    /// The events are the outermost array and begin at this byte, just after the `[`.
    Array(usize),
    /// More bytes are needed to tell.
    Open,
    /// An object without `traceEvents`, or no JSON, as seen at this byte.
    Foreign(usize),
}

/// Finds the array of events among the keys of the outermost object.
pub(super) fn find_events(bytes: &[u8]) -> Head {
    match skip_space(bytes, 0) {
        None => Head::Open,
        Some(at) if bytes[at] == b'[' => Head::Array(at + 1),
        Some(at) if bytes[at] == b'{' => find_key(bytes, at + 1).unwrap_or(Head::Open),
        Some(at) => Head::Foreign(at),
    }
}

/// Goes through `"key": value` pairs; `None` if the bytes end first.
fn find_key(bytes: &[u8], mut at: usize) -> Option<Head> {
    loop {
        at = skip_space(bytes, at)?;
        if bytes[at] != b'"' {
            return Some(Head::Foreign(at));
        }
        let end = string_end(bytes, at + 1)?;
        let key = &bytes[at + 1..end];
        at = skip_space(bytes, end + 1)?;
        if bytes[at] != b':' {
            return Some(Head::Foreign(at));
        }
        at = skip_space(bytes, at + 1)?;
        if key == b"traceEvents" {
            return Some(if bytes[at] == b'[' {
                Head::Events(at + 1)
            } else {
                Head::Foreign(at)
            });
        }
        // A value ends at the comma or the bracket that follows it at its own depth.
        let mut value = Scan::default();
        match value.run(bytes, at, true) {
            Some(Stop::Comma(comma)) => at = comma + 1,
            Some(Stop::Close(close)) => return Some(Head::Foreign(close)),
            None => return None,
        }
    }
}

/// Where a run of events may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// At the comma at this byte, after whole events.
    Comma(usize),
    /// The array ends with the `]` at this byte.
    End(usize),
    /// There is no end of an event in the bytes.
    Nowhere,
}

/// The exact cut of `bytes`, which begin between two events.
pub(super) fn exact_cut(bytes: &[u8]) -> Cut {
    let mut scan = Scan::default();
    match scan.run(bytes, 0, false) {
        Some(Stop::Close(at)) => Cut::End(at),
        Some(Stop::Comma(_)) | None => scan.last_comma.map_or(Cut::Nowhere, Cut::Comma),
    }
}

/// A likely cut: the last comma that stands between `}` and `{`. It may lie within an event or a
/// string; then the text before it is no run of whole events, which its parser will notice.
pub(super) fn likely_cut(bytes: &[u8]) -> Cut {
    let mut end = bytes.len();
    while let Some(brace) = memrchr(b'{', &bytes[..end]) {
        if let Some(comma) = last_before(bytes, brace, b',')
            && last_before(bytes, comma, b'}').is_some()
        {
            return Cut::Comma(comma);
        }
        end = brace;
    }
    Cut::Nowhere
}

/// The place of `wanted` before `end`, if nothing but space lies between.
fn last_before(bytes: &[u8], end: usize, wanted: u8) -> Option<usize> {
    let last = bytes[..end]
        .iter()
        .rposition(|byte| !byte.is_ascii_whitespace())?;
    (bytes[last] == wanted).then_some(last)
}

/// An element of a list: the bytes between its brackets and commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// First byte.
    pub(super) start: usize,
    /// Byte behind the last.
    pub(super) end: usize,
    /// A comma or the end of the list follows.
    pub(super) closed: bool,
}

/// The elements of the list that `bytes` hold, without an empty last one.
pub(super) fn elements(bytes: &[u8]) -> impl Iterator<Item = Element> {
    let mut next = Some(1);
    std::iter::from_fn(move || {
        let start = next?;
        let (end, closed) = match Scan::default().run(bytes, start, true) {
            Some(Stop::Comma(comma)) => {
                next = Some(comma + 1);
                return Some(Element {
                    start,
                    end: comma,
                    closed: true,
                });
            }
            Some(Stop::Close(close)) => (close, true),
            None => (bytes.len(), false),
        };
        next = None;
        let empty = bytes[start..end].trim_ascii().is_empty();
        (!empty).then_some(Element { start, end, closed })
    })
}

enum Stop {
    Comma(usize),
    Close(usize),
}

/// Keeps count of brackets and passes over strings; iterative, whatever the depth.
#[derive(Default)]
struct Scan {
    depth: usize,
    last_comma: Option<usize>,
}

impl Scan {
    /// Runs on until the bracket that closes the outer level, or (`first`) the first comma there.
    fn run(&mut self, bytes: &[u8], start: usize, first: bool) -> Option<Stop> {
        let mut position = start;
        while let Some(byte) = bytes.get(position) {
            match byte {
                b'"' => position = string_end(bytes, position + 1)?,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => return Some(Stop::Close(position)),
                b'}' | b']' => self.depth -= 1,
                b',' if self.depth == 0 && first => return Some(Stop::Comma(position)),
                b',' if self.depth == 0 => self.last_comma = Some(position),
                _ => {}
            }
            position += 1;
        }
        None
    }
}

/// The closing quote of the string whose text begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn skip_space(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    rest.iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .map(|skipped| at + skipped)
}

#[cfg(test)]
mod tests {
    use super::{Cut, Head, exact_cut, find_events, likely_cut};

    #[test]
    fn the_events_are_found_among_the_outer_keys_only() {
        let text = r#" {"a": {"traceEvents": [1]}, "b\"": "traceEvents\": [", "traceEvents" : [{"#;
        assert_eq!(find_events(text.as_bytes()), Head::Events(text.len() - 1));
        assert_eq!(find_events(b"\n[{"), Head::Array(2));
        assert_eq!(find_events(b"{\"traceEv"), Head::Open);
        assert_eq!(find_events(b"{\"a\": [1, 2], \"b\": 3}"), Head::Foreign(20));
        assert_eq!(find_events(b"{\"traceEvents\": 3}"), Head::Foreign(16));
        assert_eq!(find_events(b"\x00\x05\x16\x07"), Head::Foreign(0));
    }

    #[test]
    fn an_exact_cut_passes_over_strings_and_nested_values() {
        assert_eq!(
            exact_cut(br#"{"a": "}, {"}, {"b": [{}, {}"#),
            Cut::Comma(13)
        );
        assert_eq!(
            exact_cut(br#"{"a": "\\"}, {"b": 1}], "x": [1]}"#),
            Cut::End(21)
        );
        assert_eq!(exact_cut(br#"{"a": "\"}, {"#), Cut::Nowhere);
        assert_eq!(exact_cut(b"]"), Cut::End(0));
        assert_eq!(exact_cut("[".repeat(1_000_000).as_bytes()), Cut::Nowhere);
    }

    #[test]
    fn a_likely_cut_is_the_last_comma_between_braces() {
        assert_eq!(likely_cut(b"{}\n},\n  {\"a\": {"), Cut::Comma(4));
        assert_eq!(likely_cut(b"{},{},{"), Cut::Comma(5));
        assert_eq!(likely_cut(b"[{, {"), Cut::Nowhere);
        assert_eq!(likely_cut(b""), Cut::Nowhere);
    }
}
