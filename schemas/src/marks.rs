//! Marks: ranges that the modules which `rooflens-capture` injects open around what the host does.
//!
//! PyTorch opens ranges in NVTX's default domain only, so a prefix of the name represents the domain. The name of a call of
//! the outermost model holds its sizes: `call prefill batch=8 tokens=1024 keys=1024`, or `new shape …` for the first call
//! with inputs of this shape.

/// Domain of the marks in tables: they are never phases of the workload.
pub const DOMAIN: &str = "rooflens";

/// How their names begin.
pub const PREFIX: &str = "rooflens:";

/// A mark by the name of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// What the host does; absent for a model call that may be any work.
    pub host: Option<&'a str>,
    /// The call of the outermost model that it is.
    pub call: Option<ModelCall<'a>>,
}

/// A call of the outermost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCall<'a> {
    /// `train`, `prefill`, `decode` or `forward`.
    pub phase: &'a str,
    /// Sequences.
    pub batch: Option<u64>,
    /// Tokens of a sequence.
    pub tokens: Option<u64>,
    /// Keys that the attention of a sequence reads.
    pub keys: Option<u64>,
}

/// The mark of this name; none for a range of the workload.
pub fn mark(name: &str) -> Option<Mark<'_>> {
    let name = name.strip_prefix(PREFIX)?;
    if let Some(call) = name.strip_prefix("call") {
        let (host, call) = (None, model_call(call));
        return Some(Mark { host, call });
    }
    let call = name.strip_prefix("new shape").and_then(model_call);
    let host = Some(name);
    Some(Mark { host, call })
}

/// A phase with sizes; none without any size.
fn model_call(text: &str) -> Option<ModelCall<'_>> {
    let (phase, sizes) = text.strip_prefix(' ')?.split_once(' ')?;
    let size = |key: &str| {
        let mut sizes = sizes.split(' ').filter_map(|size| size.split_once('='));
        let (_, value) = sizes.find(|(name, _)| *name == key)?;
        value.parse().ok()
    };
    let (batch, tokens, keys) = (size("batch"), size("tokens"), size("keys"));
    let is_known = batch.or(tokens).or(keys).is_some();
    is_known.then_some(ModelCall {
        phase,
        batch,
        tokens,
        keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_sizes_and_other_marks_say_what_the_host_does() {
        let call = |phase, batch, tokens, keys| ModelCall {
            phase,
            batch,
            tokens,
            keys,
        };
        let decode = call("decode", Some(8), Some(1), Some(1025));
        let of = |name| mark(name).map(|mark| (mark.host, mark.call));
        let name = "rooflens:call decode batch=8 tokens=1 keys=1025";
        assert_eq!(of(name), Some((None, Some(decode))));
        let image = call("forward", Some(2), None, None);
        let shape = "new shape forward batch=2";
        let name = "rooflens:new shape forward batch=2";
        assert_eq!(of(name), Some((Some(shape), Some(image))));
        let gc = "rooflens:gc generation 2";
        assert_eq!(of(gc), Some((Some("gc generation 2"), None)));
        assert_eq!(of("gc generation 2"), None);
    }

    #[test]
    fn damaged_sizes_are_none() {
        for name in [
            "rooflens:call",
            "rooflens:call decode",
            "rooflens:call decode ",
            "rooflens:call decode batch=-1",
            "rooflens:call decode batch=99999999999999999999",
            "rooflens:call  batch",
        ] {
            let none = Mark {
                host: None,
                call: None,
            };
            assert_eq!(mark(name), Some(none), "{name}");
        }
    }
}
