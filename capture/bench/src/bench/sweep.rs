//! Which cases are run: a TOML file in which each size is a number or a list of numbers.

use std::collections::BTreeMap;

use rooflens_units::{Bytes, Flops, Seconds};
use serde::Deserialize;

use super::operation::{Case, DESCRIPTIONS, Description, Kind};
use crate::cuda::{Dtype, Plan};

/// What is run if no file is given.
pub(super) const DEFAULT: &str = include_str!("default.toml");

/// More cases than that are a mistake.
const MOST_CASES: usize = 10_000;
/// Sizes go to CUDA as 32-bit numbers; bytes of a copy need not.
const LARGEST: u64 = i32::MAX as u64;

/// The cases, and how each is measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sweep {
    pub(crate) plan: Plan,
    pub(crate) cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    samples: Option<u32>,
    sample_ms: Option<f64>,
    warmup_ms: Option<f64>,
    case: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    operation: String,
    dtype: Option<OneOrMore<String>>,
    #[serde(flatten)]
    sizes: BTreeMap<String, OneOrMore<u64>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T: Clone> OneOrMore<T> {
    fn list(&self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value.clone()],
            Self::More(values) => values.clone(),
        }
    }
}

impl Sweep {
    /// Reads a file's text. The cases are in the order of the file; within an entry the last size varies fastest.
    ///
    /// # Errors
    /// What is wrong, and what is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        if document.version != 1 {
            return Err(format!(
                "version {} is not known: expected 1",
                document.version
            ));
        }
        let samples = document.samples.unwrap_or(30) as usize;
        let times = [
            document.sample_ms.unwrap_or(2.0),
            document.warmup_ms.unwrap_or(50.0),
        ];
        if !times.iter().all(|ms| (0.0..=60_000.0).contains(ms)) {
            return Err("sample_ms and warmup_ms must be from 0 to 60000".to_owned());
        }
        if !(3..=100_000).contains(&samples) {
            return Err("samples must be from 3 to 100000".to_owned());
        }
        let [sample_time, warmup_time] = times.map(|ms| Seconds(ms / 1e3));
        let plan = Plan {
            samples,
            sample_time,
            warmup_time,
        };
        let mut cases = Vec::new();
        for entry in &document.case {
            expand(entry, &mut cases).map_err(|reason| format!("{}: {reason}", entry.operation))?;
        }
        Ok(Self { plan, cases })
    }
}

fn expand(entry: &Entry, cases: &mut Vec<Case>) -> Result<(), String> {
    let found = DESCRIPTIONS
        .iter()
        .find(|description| description.name == entry.operation);
    let Some(description) = found else {
        let known: Vec<&str> = DESCRIPTIONS
            .iter()
            .map(|description| description.name)
            .collect();
        return Err(format!(
            "not an operation: expected one of {}",
            known.join(", ")
        ));
    };
    let unknown = entry
        .sizes
        .keys()
        .find(|name| !description.sizes.iter().any(|(known, _)| known == name));
    if let Some(name) = unknown {
        let known: Vec<&str> = description.sizes.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "{name} is not a size of it: expected {}",
            known.join(", ")
        ));
    }
    for dtype in dtypes(entry, description.kind)? {
        let mut lists = vec![BTreeMap::new()];
        for (name, default) in description.sizes {
            let values = entry
                .sizes
                .get(*name)
                .map_or_else(|| vec![*default], OneOrMore::list);
            let grown = lists.iter().flat_map(|sizes| {
                values.iter().map(|value| {
                    let mut sizes: BTreeMap<&'static str, u64> = sizes.clone();
                    sizes.insert(name, *value);
                    sizes
                })
            });
            if lists.len().saturating_mul(values.len()) > MOST_CASES {
                return Err(format!("more than {MOST_CASES} cases"));
            }
            lists = grown.collect();
        }
        let kind = description.kind;
        cases.extend(lists.into_iter().map(|sizes| Case { kind, dtype, sizes }));
    }
    if cases.len() > MOST_CASES {
        return Err(format!("more than {MOST_CASES} cases"));
    }
    cases
        .iter()
        .try_for_each(|case| check(case, case.kind.description()))
}

fn dtypes(entry: &Entry, kind: Kind) -> Result<Vec<Dtype>, String> {
    let Some(names) = &entry.dtype else {
        return Ok(vec![Dtype::Bf16]);
    };
    if kind.is_copy() {
        return Err("a copy has no dtype".to_owned());
    }
    let usable = [Dtype::Fp32, Dtype::Tf32, Dtype::Fp16, Dtype::Bf16];
    let one = |name: &String| {
        let dtype = Dtype::from_name(name).filter(|dtype| usable.contains(dtype));
        dtype.ok_or_else(|| format!("dtype {name}: expected fp32, tf32, fp16 or bf16"))
    };
    names.list().iter().map(one).collect()
}

/// Refuses what no kernel can do, so that sizes never overflow later.
fn check(case: &Case, description: &Description) -> Result<(), String> {
    for (name, _) in description.sizes {
        let value = case.size(name);
        let least = u64::from(!matches!(*name, "bias" | "padding"));
        let most = match *name {
            "bias" => 1,
            "bytes" => 1 << 40,
            _ => LARGEST,
        };
        if !(least..=most).contains(&value) {
            return Err(format!("{name} = {value}: expected {least} to {most}"));
        }
    }
    if case.bytes() > Bytes(1e15) || case.flops() > Flops(1e21) {
        return Err(format!("{}: too large", case.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_multiplied_out_in_order() {
        let text = r#"
            version = 1
            samples = 5
            [[case]]
            operation = "linear"
            dtype = ["bf16", "fp16"]
            sequence = [1, 2]
            out = [8, 16]
            bias = 1
            [[case]]
            operation = "copy_d2d"
            bytes = 4096
        "#;
        let sweep = Sweep::parse(text).expect("is valid");
        assert_eq!(
            sweep.plan,
            Plan {
                samples: 5,
                sample_time: Seconds(2e-3),
                warmup_time: Seconds(0.05)
            }
        );
        assert_eq!(sweep.cases.len(), 2 * 2 * 2 + 1);
        let rows = sweep
            .cases
            .iter()
            .map(|case| (case.dtype, case.size("sequence"), case.size("out")));
        let rows: Vec<_> = rows.take(5).collect();
        let bf16 = Dtype::Bf16;
        assert_eq!(
            rows,
            [
                (bf16, 1, 8),
                (bf16, 1, 16),
                (bf16, 2, 8),
                (bf16, 2, 16),
                (Dtype::Fp16, 1, 8)
            ]
        );
        // What is not stated has its default.
        assert_eq!(
            (sweep.cases[0].size("in"), sweep.cases[0].size("bias")),
            (4096, 1)
        );
    }

    #[test]
    fn mistakes_are_told() {
        let wrong = |entry: &str, expected: &str| {
            let said = Sweep::parse(&format!("version = 1\n[[case]]\n{entry}")).expect_err(entry);
            assert!(said.contains(expected), "{said}");
        };
        wrong("operation = \"sort\"", "expected one of linear,");
        wrong(
            "operation = \"gelu\"\nheads = 4",
            "heads is not a size of it",
        );
        wrong(
            "operation = \"gelu\"\nhidden = 0",
            "hidden = 0: expected 1 to",
        );
        wrong("operation = \"gelu\"\nhidden = -1", "");
        wrong(
            "operation = \"gelu\"\ndtype = \"int8\"",
            "expected fp32, tf32, fp16 or bf16",
        );
        wrong(
            "operation = \"linear\"\nin = 2147483647\nout = 2147483647",
            "too large",
        );
        wrong("operation = \"copy_d2d\"\ndtype = \"fp32\"", "no dtype");
        assert!(
            Sweep::parse("version = 2\ncase = []").is_err_and(|said| said.contains("expected 1"))
        );
    }

    #[test]
    fn a_product_of_lists_that_is_too_long_is_refused() {
        let list: Vec<String> = (1..=200).map(|value| value.to_string()).collect();
        let list = list.join(", ");
        let text = format!(
            "version = 1\n[[case]]\noperation = \"gelu\"\nbatch = [{list}]\nsequence = [{list}]\nhidden = [{list}]"
        );
        assert!(Sweep::parse(&text).is_err_and(|said| said.contains("more than 10000")));
    }

    #[test]
    fn the_default_runs_every_operation() {
        let sweep = Sweep::parse(DEFAULT).expect("is valid");
        for description in DESCRIPTIONS {
            let runs = sweep.cases.iter().any(|case| case.kind == description.kind);
            assert!(runs, "{}", description.name);
        }
    }
}
