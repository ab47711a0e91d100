//! The keys of a `config.json`, and what is wrong with them.

use std::cell::RefCell;

use serde_json::Value;

/// No dimension of a model is larger; keeps products of three of them within 64 bits.
pub(super) const MAX_DIMENSION: u64 = 1 << 18;

/// No vocabulary, window or context is larger.
const MAX_TOKENS: u64 = 1 << 24;

/// What is in the names of the fields of these.
const OF_TOKENS: [&str; 6] = ["vocab", "position", "window", "seq", "length", "context"];

/// No image, patch or window has more on a side, and none has more channels: products of four of them and a dimension are
/// formed.
pub(super) const MAX_SIDE: u64 = 1 << 12;

/// No model has more layers.
const MAX_LAYERS: u64 = 4096;

/// Why a config cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Unsupported {
    /// It does not say what it is.
    #[error("model_type is missing")]
    NoType,
    /// A family of which the layers are not known.
    #[error("model type {model_type} is not supported{}", and_missing(.missing))]
    Type {
        /// `model_type`.
        model_type: String,
        /// The fields of any decoder that it lacks.
        missing: Vec<&'static str>,
    },
    /// Fields that the family needs are not there.
    #[error("the config of model type {model_type} lacks {}", .fields.join(", "))]
    Missing {
        /// `model_type`.
        model_type: String,
        /// The fields.
        fields: Vec<&'static str>,
    },
    /// A field holds something that cannot be.
    #[error("{field} is not a plausible number")]
    Implausible {
        /// The field.
        field: &'static str,
    },
    /// Something of which FLOPs and bytes are not known.
    #[error("it has {0}")]
    Feature(String),
}

fn and_missing(missing: &[&str]) -> String {
    match missing {
        [] => String::new(),
        missing => format!(", and its config lacks {}", missing.join(", ")),
    }
}

/// The keys of the language model, then those of the document around it. `null` is absent.
pub(super) struct Keys<'a> {
    inner: &'a Value,
    outer: &'a Value,
    /// Defaults of the class, for a config that is nested in another: it is published without what equals them.
    defaults: &'a Value,
    /// What was asked for and is not there.
    missing: RefCell<Vec<&'static str>>,
    fault: RefCell<Option<Unsupported>>,
}

impl<'a> Keys<'a> {
    pub(super) const fn new(inner: &'a Value, outer: &'a Value, defaults: &'a Value) -> Self {
        Self {
            inner,
            outer,
            defaults,
            missing: RefCell::new(Vec::new()),
            fault: RefCell::new(None),
        }
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        let stated = |value: &'a Value| value.get(key).filter(|value| !value.is_null());
        stated(self.inner)
            .or_else(|| stated(self.outer))
            .or_else(|| stated(self.defaults))
    }

    /// Keys of an object in this config.
    pub(super) fn of(&self, key: &str) -> Keys<'a> {
        let inner = self.value(key).unwrap_or(&Value::Null);
        Keys::new(inner, &Value::Null, &Value::Null)
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or(default)
    }

    /// A list, such as of layers: its beginning, where it has more than a model has layers.
    pub(super) fn list(&self, key: &str) -> Option<&'a [Value]> {
        let list = self.value(key)?.as_array()?;
        Some(&list[..list.len().min(MAX_LAYERS as usize)])
    }

    /// A list of words, such as the types of layers.
    pub(super) fn words(&self, key: &str) -> Option<Vec<&'a str>> {
        let list = self.list(key)?;
        Some(
            list.iter()
                .map(|word| word.as_str().unwrap_or_default())
                .collect(),
        )
    }

    /// A number of the first of these keys that is stated, then of the first with a default.
    pub(super) fn maybe(&self, keys: &[&'static str]) -> Option<u64> {
        let first = |documents: [&'a Value; 2]| {
            keys.iter().find_map(|key| {
                let mut values = documents.iter().filter_map(|value| value.get(key));
                Some((*key, values.find(|value| !value.is_null())?))
            })
        };
        let (field, value) =
            first([self.inner, self.outer]).or_else(|| first([self.defaults, &Value::Null]))?;
        // Gemma 3n repeats one inner size for each layer.
        let value = value
            .as_array()
            .and_then(|list| list.first())
            .unwrap_or(value);
        let is_of_tokens = OF_TOKENS.iter().any(|word| field.contains(word));
        let most = if is_of_tokens {
            MAX_TOKENS
        } else {
            MAX_DIMENSION
        };
        let number = value.as_u64().filter(|number| *number <= most);
        if number.is_none() {
            self.refuse(Unsupported::Implausible { field });
        }
        number
    }

    pub(super) fn or(&self, keys: &[&'static str], default: u64) -> u64 {
        self.maybe(keys).unwrap_or(default)
    }

    /// A number of pixels, patches or channels.
    pub(super) fn side(&self, keys: &[&'static str], default: u64) -> u64 {
        let side = self.or(keys, default);
        if side > MAX_SIDE
            && let Some(field) = keys.first()
        {
            self.refuse(Unsupported::Implausible { field });
        }
        side.min(MAX_SIDE)
    }

    /// A number that must be there and not be 0. Where it is not, it counts as missing, and is 1 meanwhile.
    pub(super) fn need(&self, keys: &[&'static str]) -> u64 {
        let number = self.maybe(keys).filter(|number| *number > 0);
        if number.is_none()
            && let Some(first) = keys.first()
            && !self.missing.borrow().contains(first)
        {
            self.missing.borrow_mut().push(first);
        }
        number.unwrap_or(1)
    }

    /// Layers.
    pub(super) fn depth(&self) -> u64 {
        let depth = self.need(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"]);
        if depth > MAX_LAYERS {
            self.refuse(Unsupported::Implausible {
                field: "num_hidden_layers",
            });
        }
        depth.min(MAX_LAYERS)
    }

    /// Remembers the first thing that makes the config useless.
    pub(super) fn refuse(&self, why: Unsupported) {
        self.fault.borrow_mut().get_or_insert(why);
    }

    /// What is wrong, if anything is.
    pub(super) fn check(&self, model_type: &str) -> Result<(), Unsupported> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let fields = self.missing.take();
        match fields.is_empty() {
            true => Ok(()),
            false => Err(Unsupported::Missing {
                model_type: model_type.to_owned(),
                fields,
            }),
        }
    }
}
