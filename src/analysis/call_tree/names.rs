//! Names of spans made comparable: `model.layers.3.mlp` is one of `model.layers.*.mlp`.

use rustc_hash::FxHashMap;

use crate::model::{Session, StrId};

/// How PyTorch names frames of modules: class and number.
const MODULE: &str = "nn.Module: ";

/// Number of a folded name.
pub(super) type FoldedId = u32;

/// Folded names by the names that they stand for.
#[derive(Debug, Default)]
pub(super) struct Folded {
    texts: Vec<String>,
    by_name: FxHashMap<StrId, FoldedId>,
    by_text: FxHashMap<String, FoldedId>,
}

impl Folded {
    /// The folded name of a name.
    pub(super) fn of(&mut self, session: &Session, name: StrId) -> FoldedId {
        let Self { texts, by_name, by_text } = self;
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
    pub(super) fn text(&self, folded: FoldedId) -> &str {
        self.texts.get(folded as usize).map_or("", String::as_str)
    }
}

/// Whether a frame is that of a module.
pub(super) fn is_module(frame: &str) -> bool {
    frame.starts_with(MODULE)
}

/// Numbers that stand alone become `*`; the number of a module's frame goes, for its class says all.
pub fn fold(name: &str) -> String {
    if let Some(module) = name.strip_prefix(MODULE) {
        let class = module.trim_end_matches(|c: char| c.is_ascii_digit());
        return class.strip_suffix('_').unwrap_or(module).to_owned();
    }
    let separates = |c: char| !c.is_alphanumeric();
    let mut folded = String::with_capacity(name.len());
    for part in name.split_inclusive(separates) {
        let end = part.char_indices().next_back().filter(|(_, c)| separates(*c));
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
            ("schritt 5: äö", "schritt *: äö"),
            ("", ""),
        ] {
            assert_eq!(fold(name), folded, "{name}");
        }
    }
}
