//! Executed floating-point operations from instruction and tensor counters.

use super::lookup::Launch;
use rooflens_session::Arrange;
use rooflens_units::{Count, Flops, Seconds};

/// What was counted, or why it was not.
#[derive(Clone, Debug, PartialEq)]
pub enum FlopCount {
    /// Operations by dtype and pipe, zeros excluded; none: the launch computes with integers or not at all.
    Counted(Vec<Part>),
    /// Why there is no number: a key of the catalogue.
    NotCounted(&'static str),
}

/// Operations of one dtype on one kind of pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// dtype as the hardware table names it; `fp16_vector` has no peak there.
    pub dtype: &'static str,
    /// On tensor cores.
    pub tensor: bool,
    /// Operations.
    pub flops: Flops,
}

impl FlopCount {
    /// Operations of all dtypes, if they were counted.
    pub fn total(&self) -> Option<Flops> {
        match self {
            Self::Counted(parts) => Some(sum(parts)),
            Self::NotCounted(_) => None,
        }
    }

    /// The part with the most operations.
    pub fn main(&self) -> Option<&Part> {
        let parts = match self {
            Self::Counted(parts) => parts,
            Self::NotCounted(_) => return None,
        };
        parts
            .iter()
            .reduce(|best, next| if next.flops > best.flops { next } else { best })
    }
}

/// One precision of the scalar pipes: letter in metric names, dtype, and operations that an
/// add, a multiply and a fused multiply-add of one thread do.
struct Scalar {
    letter: char,
    dtype: &'static str,
    add: u8,
    multiply: u8,
    fused: u8,
    /// Fused multiply-adds count even if no add and no multiply ran next to them.
    fused_alone: bool,
}

/// Half-precision instructions work on packed pairs, as ncu's own half-precision roofline counts them.
/// Compilers also load constants with HFMA2: on Hopper, concatenations of integers execute one and more a
/// thread. Launches with HFMA2 alone are therefore taken to compute nothing in half precision.
const SCALAR: &[Scalar] = &[
    Scalar {
        letter: 'f',
        dtype: "fp32",
        add: 1,
        multiply: 1,
        fused: 2,
        fused_alone: true,
    },
    Scalar {
        letter: 'd',
        dtype: "fp64",
        add: 1,
        multiply: 1,
        fused: 2,
        fused_alone: true,
    },
    Scalar {
        letter: 'h',
        dtype: "fp16_vector",
        add: 2,
        multiply: 2,
        fused: 4,
        fused_alone: false,
    },
];

/// Source types in the names of tensor counters, and the dtypes that peaks are given for.
const TENSOR: &[(&str, &str)] = &[
    ("bf16", "bf16"),
    ("fp16", "fp16"),
    ("tf32", "tf32"),
    ("fp64", "fp64_tensor"),
    ("fp8", "fp8"),
    ("fp4_fp6_fp8", "fp8"),
    ("fp4", "fp4"),
    ("int8", "int8"),
    ("int4", "int4"),
    ("int1", "int1"),
];

const TENSOR_PREFIX: &str = "sm__ops_path_tensor_";

/// The sum, which is 0 and not −0 of no parts.
fn sum(parts: &[Part]) -> Flops {
    Flops::ZERO + parts.iter().map(|part| part.flops).sum::<Flops>()
}

/// What thread instructions count, made from the table that counts: dtype and operations of each.
pub fn instructions() -> String {
    let scalar_flops = |kind: &Scalar| {
        let Scalar {
            letter,
            dtype,
            add,
            multiply,
            fused,
            ..
        } = kind;
        format!("{dtype}: {add} × {letter}add + {multiply} × {letter}mul + {fused} × {letter}fma; ")
    };
    SCALAR.iter().map(scalar_flops).collect()
}

/// Counts the operations of a launch; `tensor_cores` is what the kernel's name says about them.
pub(super) fn count(
    launch: &Launch<'_>,
    seconds: Option<Seconds>,
    tensor_cores: Option<bool>,
) -> FlopCount {
    let by_clock = || {
        let clock = launch.id("Hz", "smsp__cycles_elapsed.avg.per_second")?;
        Some(clock * seconds?.0)
    };
    let cycles = launch.id("cycle", "smsp__cycles_elapsed.avg");
    let cycles = cycles.or_else(by_clock).map(Count);
    let scalar: Vec<Part> = SCALAR
        .iter()
        .filter_map(|kind| scalar(launch, cycles, kind))
        .collect();
    let tensor = tensor(launch);
    let used = tensor_cores.unwrap_or_else(|| tensor_pipe_used(launch));
    match tensor {
        None if used => FlopCount::NotCounted("roofline.not_counted.tensor"),
        None if scalar.is_empty() => FlopCount::NotCounted("roofline.not_counted.instructions"),
        Some(parts) if scalar.is_empty() && sum(&parts) == Flops::ZERO => {
            FlopCount::NotCounted("roofline.not_counted.scalar")
        }
        tensor => {
            let parts = scalar.into_iter().chain(tensor.unwrap_or_default());
            FlopCount::Counted(parts.filter(|part| part.flops.is_positive()).collect())
        }
    }
}

fn scalar(launch: &Launch<'_>, cycles: Option<Count>, kind: &Scalar) -> Option<Part> {
    let executed = |op: &str| {
        let name = format!(
            "sass_thread_inst_executed_op_{}{op}_pred_on.sum",
            kind.letter
        );
        let counted = |unit| launch.id("inst", &format!("{unit}__{name}")).map(Count);
        counted("smsp").or_else(|| counted("sm")).or_else(|| {
            let rate = launch.id("inst/cycle", &format!("smsp__{name}.per_cycle_elapsed"))?;
            Some(rate * cycles?)
        })
    };
    let (add, multiply, fused) = (executed("add")?, executed("mul")?, executed("fma")?);
    let counts = kind.fused_alone || (add + multiply).is_positive();
    let flops = |each: u8, executed: Count| Flops(f64::from(each) * executed.0);
    let flops = if counts {
        flops(kind.add, add) + flops(kind.multiply, multiply) + flops(kind.fused, fused)
    } else {
        Flops::ZERO
    };
    Some(Part {
        dtype: kind.dtype,
        tensor: false,
        flops,
    })
}

/// A tensor counter's name taken apart: `op_hgmma_src_fp16_dst_fp32_sparsity_off`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TensorName<'a> {
    instruction: Option<&'a str>,
    source: &'a str,
    rest: &'a str,
}

impl<'a> TensorName<'a> {
    fn read(metric: &'a str) -> Option<Self> {
        let name = metric.strip_prefix(TENSOR_PREFIX)?.strip_suffix(".sum")?;
        let (before, types) = name.split_once("src_")?;
        let instruction = before
            .strip_prefix("op_")
            .map(|text| text.trim_end_matches('_'));
        let end = ["_dst_", "_sparsity_"]
            .iter()
            .filter_map(|mark| types.find(mark))
            .min();
        let (source, rest) = types.split_at(end.unwrap_or(types.len()));
        Some(Self {
            instruction,
            source,
            rest,
        })
    }

    /// Whether `self` counts everything that `other` counts and more.
    fn covers(&self, other: &Self) -> bool {
        let wider_types = other.rest.len() > self.rest.len() && other.rest.starts_with(self.rest);
        let wider_instruction = self.instruction.is_none() && other.instruction.is_some();
        self.source == other.source
            && (wider_instruction || (self.instruction == other.instruction && wider_types))
    }
}

/// Operations on tensor cores; absent if no such counter was collected.
fn tensor(launch: &Launch<'_>) -> Option<Vec<Part>> {
    let counters: Vec<(TensorName<'_>, f64)> = launch
        .numbers()
        .filter_map(|(name, value)| Some((TensorName::read(name)?, value)))
        .collect();
    if counters.is_empty() {
        return None;
    }
    let base = counters
        .iter()
        .filter(|(name, _)| !counters.iter().any(|(other, _)| other.covers(name)));
    let mut parts: Vec<Part> = Vec::new();
    for (name, value) in base {
        let dtype = TENSOR
            .iter()
            .find(|(source, _)| *source == name.source)
            .map_or("other", |entry| entry.1);
        match parts.iter_mut().find(|part| part.dtype == dtype) {
            Some(part) => part.flops += Flops(*value),
            None => parts.push(Part {
                dtype,
                tensor: true,
                flops: Flops(*value),
            }),
        }
    }
    parts.arrange_by_key(|part| part.dtype);
    Some(parts)
}

/// Instructions of the tensor pipe that multiply floating-point numbers; `imma` and its like multiply integers.
const FLOATING: [&str; 5] = ["_hmma", "_dmma", "_hgmma", "_qmma", "_utcmma"];

/// Whether floating-point products ran on the tensor pipe: by the counters of its instructions, and without those by
/// the pipe as a whole. Integer multiplies run on it too: there no number is better than a wrong one.
fn tensor_pipe_used(launch: &Launch<'_>) -> bool {
    let about = |name: &str| {
        name.starts_with("sm__inst_executed_pipe_tensor") || name.starts_with("sm__pipe_tensor")
    };
    let is_floating = |name: &str| FLOATING.iter().any(|part| name.contains(part));
    let (mut told, mut floating, mut any) = (false, false, false);
    for (name, value) in launch.numbers().filter(|(name, _)| about(name)) {
        told |= is_floating(name);
        floating |= is_floating(name) && value > 0.0;
        any |= value > 0.0;
    }
    if told { floating } else { any }
}
