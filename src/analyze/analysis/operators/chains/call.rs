//! Calls of operators as tensors: sizes, strides and types that a trace recorded.

use rustc_hash::FxHashMap;
use serde_json::Value;

use rooflens_session::{Session, StrId};
use rooflens_units::{Bytes, Count};

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dtype {
    /// Short name, such as `bf16`; empty if the type is not known.
    pub name: &'static str,
    /// Bytes of an element.
    pub bytes: u64,
}

impl Dtype {
    fn of(name: &str) -> Self {
        let (name, bytes) = match name {
            "double" => ("fp64", 8),
            "float" => ("fp32", 4),
            "c10::BFloat16" => ("bf16", 2),
            "c10::Half" => ("fp16", 2),
            "long int" | "long" => ("int64", 8),
            "int" => ("int32", 4),
            "short int" | "short" => ("int16", 2),
            "signed char" => ("int8", 1),
            "unsigned char" => ("uint8", 1),
            "bool" => ("bool", 1),
            name if name.contains("Float8") => ("fp8", 1),
            _ => ("", 4),
        };
        Self { name, bytes }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self.name, "fp64" | "fp32" | "bf16" | "fp16" | "fp8")
    }
}

/// A tensor that a call got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) dims: Vec<u64>,
    /// Strides in elements; empty if they were not recorded.
    pub(super) strides: Vec<i64>,
    pub(super) dtype: Dtype,
}

impl Tensor {
    /// Elements, those of an expanded dimension each time.
    pub(super) fn elements(&self) -> Count {
        Count(self.dims.iter().map(|size| *size as f64).product())
    }

    /// Elements that lie in memory: an expanded dimension counts once.
    pub(super) fn stored(&self) -> Count {
        let sizes = self.dims.iter().enumerate();
        let stored = sizes.filter(|(axis, _)| self.strides.get(*axis) != Some(&0));
        Count(stored.map(|(_, size)| *size as f64).product())
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes(self.stored().0 * self.dtype.bytes as f64)
    }

    /// Axes of more than one element, that with the largest stride first; none if strides were not recorded.
    pub(super) fn order(&self) -> Option<Vec<usize>> {
        if self.strides.len() != self.dims.len() {
            return None;
        }
        let mut axes: Vec<usize> = (0..self.dims.len())
            .filter(|axis| self.dims[*axis] > 1)
            .collect();
        axes.sort_by_key(|axis| (std::cmp::Reverse(self.strides[*axis]), *axis));
        Some(axes)
    }

    /// Whether the channels of an image lie next to each other.
    pub(super) fn is_channels_last(&self) -> bool {
        self.dims.len() >= 4 && self.dims[1] > 1 && self.strides.get(1) == Some(&1)
    }
}

/// What a call computes with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Call {
    pub(super) name: StrId,
    /// Tensors with dimensions, in the order of the inputs.
    pub(super) tensors: Vec<Tensor>,
    /// Dimensions of the tensors of the first list.
    pub(super) list: Vec<Vec<u64>>,
    /// Elements of the result of an operator that works element by element.
    pub(super) elements: Count,
}

impl Call {
    pub(super) fn new(session: &Session, row: usize) -> Self {
        let operators = &session.operators;
        let [shapes, strides, types] = [
            operators.shapes[row],
            operators.strides[row],
            operators.types[row],
        ]
        .map(|text| serde_json::from_str(session.text(text)).unwrap_or(Value::Null));
        let mut tensors = Vec::new();
        for (input, shape) in shapes.as_array().into_iter().flatten().enumerate() {
            let dims: Option<Vec<u64>> = numbers(shape, Value::as_u64);
            if let Some(dims) = dims.filter(|dims| !dims.is_empty()) {
                let dtype = types.get(input).and_then(Value::as_str).unwrap_or_default();
                let strides = strides
                    .get(input)
                    .and_then(|strides| numbers(strides, Value::as_i64));
                tensors.push(Tensor {
                    dims,
                    strides: strides.unwrap_or_default(),
                    dtype: Dtype::of(dtype),
                });
            }
        }
        let lists = shapes.as_array().into_iter().flatten();
        let mut lists = lists.filter_map(dims_of_list);
        Self {
            name: operators.name[row],
            elements: broadcast(&tensors),
            tensors,
            list: lists.next().unwrap_or_default(),
        }
    }

    /// The type of the result: the widest floating-point type of the inputs; of an operator in place that of the target.
    pub(super) fn output(&self, session: &Session) -> Dtype {
        let in_place = session.text(self.name).ends_with('_');
        let first = self.tensors.first().map(|tensor| tensor.dtype);
        let types = self.tensors.iter().map(|tensor| tensor.dtype);
        let widest = types
            .filter(|dtype| dtype.is_float())
            .max_by_key(|dtype| dtype.bytes);
        match first {
            Some(first) if in_place => first,
            first => widest.or(first).unwrap_or_default(),
        }
    }

    /// Tensors that the operator reads: all but the target of a copy.
    pub(super) fn inputs(&self, session: &Session) -> &[Tensor] {
        match session.text(self.name) {
            "aten::copy_" => self.tensors.get(1..).unwrap_or_default(),
            _ => &self.tensors,
        }
    }

    /// Bytes of the tensors that the operator reads.
    pub(super) fn bytes(&self, session: &Session) -> Bytes {
        let bytes = self.inputs(session).iter().map(|tensor| tensor.bytes().0);
        Bytes(bytes.sum())
    }

    /// Operands of a GEMM: M×K and K×N, maybe in batches.
    fn operands(&self, session: &Session) -> Option<[&Tensor; 2]> {
        let name = session.text(self.name);
        let first = match name {
            "aten::mm" | "aten::bmm" => 0,
            "aten::addmm" | "aten::baddbmm" | "aten::_addmm_activation" => 1,
            _ => return None,
        };
        let operands = [self.tensors.get(first)?, self.tensors.get(first + 1)?];
        operands
            .iter()
            .all(|tensor| tensor.dims.len() >= 2)
            .then_some(operands)
    }

    /// The GEMM that the call is.
    pub(super) fn product(&self, session: &Session) -> Option<MatrixProduct<'_>> {
        let [left, right] = self.operands(session)?;
        let depth = *left.dims.last()?;
        let columns = *right.dims.last()?;
        let elements = Count(left.elements().0 / depth.max(1) as f64 * columns as f64);
        Some(MatrixProduct {
            left,
            right,
            depth: Count(depth as f64),
            elements,
        })
    }
}

/// A GEMM.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixProduct<'a> {
    pub(super) left: &'a Tensor,
    pub(super) right: &'a Tensor,
    /// Length of the sums.
    pub(super) depth: Count,
    /// Elements of the output.
    pub(super) elements: Count,
}

fn numbers<T>(value: &Value, number: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(number).collect()
}

/// The dimensions of the tensors of a list; none if it is no list or has no tensors.
fn dims_of_list(list: &Value) -> Option<Vec<Vec<u64>>> {
    let dims = list.as_array().filter(|list| !list.is_empty())?;
    dims.iter()
        .map(|dims| numbers(dims, Value::as_u64))
        .collect()
}

/// Elements of tensors broadcast to one another; those of the largest if they do not fit.
fn broadcast(tensors: &[Tensor]) -> Count {
    let rank = tensors.iter().map(|tensor| tensor.dims.len()).max();
    let largest = tensors.iter().map(Tensor::elements);
    let largest = largest.fold(Count::ZERO, Count::max);
    let mut elements = 1.0;
    for axis in 1..=rank.unwrap_or(0) {
        let sizes = tensors.iter().filter_map(|tensor| {
            let from_end = tensor.dims.len().checked_sub(axis)?;
            Some(tensor.dims[from_end])
        });
        let mut size = 1;
        for other in sizes {
            if size != 1 && other != 1 && size != other {
                return largest;
            }
            size = size.max(other);
        }
        elements *= size as f64;
    }
    if tensors.is_empty() {
        Count::ZERO
    } else {
        Count(elements).max(largest)
    }
}

/// Distinct calls: a model calls few operators with few shapes.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) list: Vec<Call>,
    known: FxHashMap<[StrId; 4], u32>,
}

impl Calls {
    /// The number of the call of an operator.
    pub(super) fn of(&mut self, session: &Session, row: usize) -> u32 {
        let operators = &session.operators;
        let key = [
            operators.name[row],
            operators.shapes[row],
            operators.strides[row],
            operators.types[row],
        ];
        let list = &mut self.list;
        *self.known.entry(key).or_insert_with(|| {
            list.push(Call::new(session, row));
            (list.len() - 1) as u32
        })
    }
}
