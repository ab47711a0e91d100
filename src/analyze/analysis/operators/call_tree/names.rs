//! Names of spans made comparable: `model.layers.3.mlp` is one of `model.layers.*.mlp`.

use rustc_hash::FxHashMap;

use rooflens_schemas::ranges::given_name;
use rooflens_session::{Session, StrId};

/// How PyTorch names frames of modules: class and number.
const MODULE: &str = "nn.Module: ";

/// The file and the functions with which PyTorch calls the `forward` of a module.
const MODULE_FILE: &str = "torch/nn/modules/module.py";
const MODULE_CALLS: [&str; 2] = ["_call_impl", "_wrapped_call_impl"];

/// Number of a folded name.
pub type FoldedId = u32;

/// Folded names by the names that they represent.
#[derive(Debug, Default)]
pub struct Folded {
    texts: Vec<String>,
    by_name: FxHashMap<StrId, FoldedId>,
    by_text: FxHashMap<String, FoldedId>,
}

impl Folded {
    /// The folded name of a name.
    pub fn of(&mut self, session: &Session, name: StrId) -> FoldedId {
        let Self {
            texts,
            by_name,
            by_text,
        } = self;
        *by_name.entry(name).or_insert_with(|| {
            let text = fold(session.text(name));
            // Fewer than 2^32, as names.
            let next = texts.len() as FoldedId;
            *by_text.entry(text).or_insert_with_key(|text| {
                texts.push(text.clone());
                next
            })
        })
    }

    /// Its text.
    pub fn text(&self, folded: FoldedId) -> &str {
        self.texts.get(folded as usize).map_or("", String::as_str)
    }
}

/// What a frame of Python is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A call of a module.
    Module,
    /// A function of Python.
    Function,
    /// A function without source, and what PyTorch puts between a module and its `forward`: a part of its caller.
    Inner,
}

impl FrameKind {
    /// The kind of a frame.
    pub(super) fn of(frame: &str) -> Self {
        if frame.starts_with(MODULE) {
            return Self::Module;
        }
        match Function::of(frame) {
            Some(Function { path, name, .. })
                if !(path.ends_with(MODULE_FILE) && MODULE_CALLS.contains(&name)) =>
            {
                Self::Function
            }
            _ => Self::Inner,
        }
    }
}

/// Whether a frame is a function of Python with a source.
pub fn is_function(frame: &str) -> bool {
    FrameKind::of(frame) == FrameKind::Function
}

/// A function of Python, as PyTorch names its frames: `path/to/file.py(12): name`.
struct Function<'a> {
    path: &'a str,
    line: &'a str,
    name: &'a str,
}

impl<'a> Function<'a> {
    fn of(frame: &'a str) -> Option<Self> {
        let (place, name) = frame.split_once("): ")?;
        let (path, line) = place.rsplit_once('(')?;
        let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        (is_line && !path.is_empty()).then_some(Self { path, line, name })
    }

    /// `to/file.py:12(name)`: of the path its last two parts.
    fn label(&self) -> String {
        let cut = self
            .path
            .rmatch_indices(['/', '\\'])
            .nth(1)
            .map_or(0, |(at, _)| at + 1);
        format!("{}:{}({})", &self.path[cut..], self.line, self.name)
    }
}

/// Numbers that stand alone become `*`; the number of a module's frame goes, for its class says all. Functions of
/// Python keep their line and the end of their path.
pub fn fold(name: &str) -> String {
    if let Some(function) = Function::of(name) {
        return function.label();
    }
    if let Some(module) = name.strip_prefix(MODULE) {
        let class = module.trim_end_matches(|c: char| c.is_ascii_digit());
        return class.strip_suffix('_').unwrap_or(module).to_owned();
    }
    let name = given_name(name);
    let separates = |c: char| !c.is_alphanumeric();
    let mut folded = String::with_capacity(name.len());
    for part in name.split_inclusive(separates) {
        let end = part
            .char_indices()
            .next_back()
            .filter(|(_, c)| separates(*c));
        let (word, separator) = part.split_at(end.map_or(part.len(), |(at, _)| at));
        let number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        folded.push_str(if number { "*" } else { word });
        folded.push_str(separator);
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_stand_alone_fold() {
        for (name, folded) in [
            ("model.layers.3.mlp", "model.layers.*.mlp"),
            ("layers.12", "layers.*"),
            ("ProfilerStep#7", "ProfilerStep#*"),
            ("nn.Module: LlamaMLP_31", "LlamaMLP"),
            ("nn.Module: Conv2d_1", "Conv2d"),
            ("nn.Module: Odd", "Odd"),
            ("layer4.conv1", "layer4.conv1"),
            ("aten::add_", "aten::add_"),
            (
                "aten::mm, op_id = 123, sizes = [[4, 8], [8, 2]]",
                "aten::mm",
            ),
            ("schritt 5: äö", "schritt *: äö"),
            (
                "/opt/a/lib/data/loader.py(12): __next__",
                "data/loader.py:12(__next__)",
            ),
            (r"C:\a\run\train.py(7): step 3", r"run\train.py:7(step 3)"),
            ("train.py(115): <module>", "train.py:115(<module>)"),
            ("<frozen abc>(117): f", "<frozen abc>:117(f)"),
            ("call (a): b", "call (a): b"),
            ("", ""),
        ] {
            assert_eq!(fold(name), folded, "{name}");
        }
    }

    #[test]
    fn frames_without_source_and_calls_of_modules_are_parts_of_their_callers() {
        for (frame, kind) in [
            ("nn.Module: Linear_3", FrameKind::Module),
            (
                "torch/nn/modules/linear.py(130): forward",
                FrameKind::Function,
            ),
            (
                "torch/nn/modules/module.py(1783): _call_impl",
                FrameKind::Inner,
            ),
            (
                "torch/nn/modules/module.py(1955): __getattr__",
                FrameKind::Function,
            ),
            ("mine.py(3): _call_impl", FrameKind::Function),
            (
                "<built-in method to of Tensor object at 0x7f70>",
                FrameKind::Inner,
            ),
            ("<frozen abc>(117): __instancecheck__", FrameKind::Function),
            ("(3): f", FrameKind::Inner),
        ] {
            assert_eq!(FrameKind::of(frame), kind, "{frame}");
        }
    }
}
