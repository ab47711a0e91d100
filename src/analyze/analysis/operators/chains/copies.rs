//! Copies that a program could avoid: repeated tensors, other layouts, other types.

use std::collections::BTreeMap;

use super::call::{Call, Tensor};
use super::roof::rates;
use super::{Chain, ChainKind, Example, Finder, sizes};
use crate::engine::classify::KernelClass;
use rooflens_session::{OperatorId, StrId};
use rooflens_units::{Bytes, Count, Flops, Ratio, Time};

/// Elements of a source from which on repeating it is worth a look; below are bias rows and scalars.
const REPEATED: Count = Count(65_536.0);

/// Kernels after a repeated tensor among which its reader is looked for.
const READERS: usize = 4;

/// Time of a reader ÷ time of its bytes up to which memory bounds it.
const MEMORY_BOUND: f64 = 2.0;

/// Parts of the name of a kernel by TorchInductor that writes an expanded tensor.
const TRITON: &str = "triton_";
const EXPANDS: &str = "_expand_";

/// Parts of names of kernels by which cuDNN changes the layout of images.
const CONVERSIONS: [&str; 2] = ["nchwToNhwc", "nhwcToNchw"];

/// Batch normalization of PyTorch and of cuDNN, and PyTorch's kernels for channels-last.
const NORMS: [&str; 3] = ["at::native::batch_norm_", "bn_fw_tr_1C11", "bn_bw_1C11"];
const CHANNELS_LAST: &str = "channels_last";

/// Threads of a grid ÷ threads that the GPU holds from which on a kernel has enough blocks.
const FULL: Ratio = Ratio(0.70);

/// Operators that make their input contiguous in NCHW: group normalization of PyTorch on GPUs, and columns of images.
const IN_NCHW: [&str; 2] = ["aten::native_group_norm", "aten::im2col"];

/// Kernels on either side of a conversion among which such an operator is looked for: a block between two convolutions
/// has few.
const NEAR: usize = 16;

impl Finder<'_> {
    /// Copies of expanded tensors. What reads such a copy reads each element several times, too.
    pub(super) fn repeats(&mut self) {
        for position in 0..self.items.list.len() {
            let copy = self.copy(position);
            let is_fused = copy.is_none();
            let Some([target, source]) = copy.or_else(|| self.fused_repeat(position)) else {
                continue;
            };
            let factor = Count(target.elements().0 / source.stored().0.max(1.0));
            if source.stored() < REPEATED || factor < Count(2.0) {
                continue;
            }
            let (target, source) = (target.clone(), source.clone());
            let (reader, also) = self.reader(position, &target, factor);
            if is_fused && reader.is_none() {
                continue;
            }
            let around = reader.and_then(|reader| self.items.list[reader].operator);
            let chain = Chain {
                also,
                bound: self.roof.moving(Bytes::ZERO).map(|_| Time::ZERO),
                example: Example {
                    sizes: sizes(&target.dims),
                    from: source.dtype,
                    to: target.dtype,
                    factor: Some(factor),
                    around: around.map(|row| self.items.session.operators.name[row as usize]),
                    ..self.example(&[position])
                },
                ..self.chain(ChainKind::Repeat, vec![position])
            };
            self.add(chain);
        }
    }

    /// Target and source of a compiled kernel that repeats a tensor along one axis.
    fn fused_repeat(&self, position: usize) -> Option<[&Tensor; 2]> {
        let name = self.items.name(position)?;
        let expands = name.starts_with(TRITON) && name.contains(EXPANDS);
        let call = self.items.call(position);
        let call = call.filter(|_| expands && !self.is_taken[position])?;
        let [source, target] = call.tensors.as_slice() else {
            return None;
        };
        let sizes = source.dims.iter().zip(&target.dims);
        let longer = sizes.filter(|(size, of_target)| size != of_target).count();
        let is_repeated = source.dims.len() == target.dims.len() && longer == 1;
        (is_repeated && source.dtype == target.dtype).then_some([target, source])
    }

    /// The attention or GEMM that reads a repeated tensor, and the time that it saves without the repeats.
    fn reader(&self, position: usize, copy: &Tensor, factor: Count) -> (Option<usize>, Time) {
        let Some(reader) = self.reading(position, copy) else {
            return (None, Time::ZERO);
        };
        let call = self.items.call(reader);
        let tensors = call.map_or(&[][..], |call| &call.tensors);
        let time = self.items.list[reader].duration().time();
        // The least time with each repeated element read once. It counts half: a reader reads keys and values.
        let (mut bytes, mut others) = (Bytes::ZERO, Bytes::ZERO);
        for tensor in tensors {
            match tensor.elements() == copy.elements() {
                true => bytes += tensor.bytes() / factor.0,
                false => others += tensor.bytes(),
            }
        }
        let flops = attention_flops(tensors);
        let least = self
            .roof
            .computing(flops, &rates(copy.dtype), bytes + others)
            .unwrap_or(time);
        let repeated = tensors
            .iter()
            .filter(|tensor| tensor.elements() == copy.elements());
        let share = repeated.count().max(1) as f64;
        (Some(reader), (time - least).max(Time::ZERO) / share)
    }

    /// The attention or GEMM after a copy that reads it.
    fn reading(&self, position: usize, copy: &Tensor) -> Option<usize> {
        let reads = |reader: &usize| {
            let class = self.items.list[*reader].class;
            let tensors = self.items.call(*reader).map(|call| &call.tensors);
            let mut tensors = tensors.into_iter().flatten();
            matches!(class, KernelClass::Attention | KernelClass::Gemm)
                && tensors.any(|tensor| tensor.elements() == copy.elements())
        };
        let end = (position + 1 + READERS).min(self.items.list.len());
        (position + 1..end).find(reads)
    }

    /// What a memory-bound reader takes beyond the time of its bytes: what a copy larger than the cache leaves in it goes to
    /// memory meanwhile. The reader of a copy that fits reads the cache.
    fn delay_of_reader(&self, position: usize, copy: &Tensor) -> Time {
        let delay = || {
            let reader = self.reading(position, copy)?;
            let read = self.items.call(reader)?.bytes(self.items.session);
            let least = self.roof.moving(read)?;
            let time = self.items.list[reader].duration().time();
            let is_bound = time > least && time < least * MEMORY_BOUND;
            is_bound.then_some(time - least)
        };
        let fits = self.roof.is_cached(copy.bytes());
        delay().filter(|_| !fits).unwrap_or_default()
    }

    /// Copies with another order of axes, and conversions that cuDNN adds. Where a program has such conversions, its
    /// normalizations lose the same layout: the first one after a conversion counts with it.
    pub(super) fn layouts(&mut self) {
        let mut norms = self.lost_by_norms();
        let converts = self.by_kernel(|name| CONVERSIONS.iter().any(|part| name.contains(part)));
        for position in 0..self.items.list.len() {
            let is_conversion = converts[self.items.list[position].kernel.index()];
            let tensors = self.copy(position).filter(|[target, source]| {
                target.dtype == source.dtype
                    && target.dims == source.dims
                    && target.order() != source.order()
                    && target.order().is_some()
                    && source.stored() == source.elements()
            });
            let (kind, tensor) = match tensors {
                Some([target, source]) => {
                    let to_channels = target.is_channels_last() != source.is_channels_last();
                    let kind = match to_channels {
                        true => ChainKind::Channels,
                        false => ChainKind::Transpose,
                    };
                    (kind, target.clone())
                }
                None if is_conversion && !self.is_taken[position] => {
                    let tensor = self
                        .items
                        .call(position)
                        .and_then(|call| call.tensors.first());
                    (ChainKind::Channels, tensor.cloned().unwrap_or_default())
                }
                None => continue,
            };
            let instance = self.items.list[position].instance();
            let norms = match kind {
                ChainKind::Channels => norms.remove(&instance).unwrap_or_default(),
                _ => Time::ZERO,
            };
            self.avoidable(kind, position, [&tensor, &tensor], norms);
        }
    }

    /// By instance, what batch normalizations lose because their grids in NCHW have a block or two per channel: in
    /// channels-last, blocks share the elements of a channel.
    fn lost_by_norms(&self) -> BTreeMap<(u32, u32), Time> {
        let mut lost: BTreeMap<(u32, u32), Time> = BTreeMap::new();
        let is_norm = self.by_kernel(|name| {
            NORMS.iter().any(|norm| name.contains(norm)) && !name.contains(CHANNELS_LAST)
        });
        for item in &self.items.list {
            let filled = self.roof.filled(item.threads);
            let filled = filled.filter(|_| is_norm[item.kernel.index()]);
            if let Some(filled) = filled.filter(|filled| *filled < FULL) {
                let of_instance = lost.entry(item.instance()).or_default();
                *of_instance += item.duration().time() * filled.rest();
            }
        }
        lost
    }

    /// What holds for the names of all kernels, of which launches have few.
    fn by_kernel(&self, holds: impl Fn(&str) -> bool) -> Vec<bool> {
        let session = self.items.session;
        let kernels = session.kernels.ids();
        kernels
            .map(|kernel| holds(session.kernel_name(kernel)))
            .collect()
    }

    /// What the elementwise kernel after a copy takes beyond the time of its bytes: with another order of axes it reads them
    /// as they lie. What fits the cache has no such time.
    fn lost_by_reader(&self, copy: usize) -> Time {
        let reader = copy + 1;
        let elements = self.items.elements(reader);
        let Some(call) = self.items.call(reader).filter(|_| {
            self.items.list[reader].class == KernelClass::Elementwise
                && self.items.is_together(copy, reader)
                && elements == self.items.elements(copy)
        }) else {
            return Time::ZERO;
        };
        let session = self.items.session;
        let written = Bytes(elements.0 * call.output(session).bytes as f64);
        let bytes = call.bytes(session) + written;
        let least = self
            .roof
            .moving(bytes)
            .filter(|_| !self.roof.is_cached(bytes));
        let time = self.items.list[reader].duration().time();
        least.map_or(Time::ZERO, |least| (time - least).max(Time::ZERO))
    }

    /// Copies that only change the type.
    pub(super) fn casts(&mut self) {
        for position in 0..self.items.list.len() {
            let Some([target, source]) = self.copy(position) else {
                continue;
            };
            if target.dtype != source.dtype && target.elements() == source.elements() {
                let (target, source) = (target.clone(), source.clone());
                let tensors = [&target, &source];
                self.avoidable(ChainKind::Cast, position, tensors, Time::ZERO);
            }
        }
    }

    /// A copy that another form of the program does not need, as normalizations do not lose `norms` in it.
    fn avoidable(
        &mut self,
        kind: ChainKind,
        position: usize,
        [target, source]: [&Tensor; 2],
        norms: Time,
    ) {
        let items = self.items;
        // The operator that wanted it: the outermost one, such as `aten::linear` under autocast.
        let copying = |name: &str| {
            let copies = ["copy_", "_to_copy", "to", "clone", "contiguous"];
            copies.contains(&name.trim_start_matches("aten::"))
        };
        let mut around = items.around(position);
        let around = around.find(|row| !copying(items.operator_name(*row)));
        let also = match kind {
            ChainKind::Channels => self.lost_by_reader(position),
            ChainKind::Cast => self.delay_of_reader(position, target),
            _ => Time::ZERO,
        };
        let is_layout = kind == ChainKind::Channels;
        let chain = Chain {
            is_within: is_layout && items.name(position) != Some("aten::copy_"),
            fixed: self.fixed_layout(position).filter(|_| is_layout),
            also: also + norms,
            norms,
            bound: self.roof.moving(Bytes::ZERO).map(|_| Time::ZERO),
            example: Example {
                sizes: sizes(&target.dims),
                from: source.dtype,
                to: target.dtype,
                around: around.map(|row| items.session.operators.name[row as usize]),
                ..self.example(&[position])
            },
            kernels_left: 0.0,
            ..self.chain(kind, vec![position])
        };
        self.add(chain);
    }

    /// An operator that computes in NCHW alone, between the convolutions before and after a conversion.
    fn fixed_layout(&self, position: usize) -> Option<StrId> {
        let list = &self.items.list;
        let is_near = |other: &usize| {
            list[*other].class != KernelClass::Convolution
                && self.items.is_together(*other, position)
        };
        let before = (0..position).rev().take(NEAR).take_while(is_near);
        let after = (position + 1..list.len()).take(NEAR).take_while(is_near);
        let calls = before
            .chain(after)
            .filter_map(|other| self.items.call(other));
        let mut names = calls.map(|call| call.name);
        names.find(|name| IN_NCHW.contains(&self.items.session.text(*name)))
    }

    /// Target and source of a copy that no group has.
    fn copy(&self, position: usize) -> Option<[&Tensor; 2]> {
        if self.is_taken[position] || self.items.name(position)? != "aten::copy_" {
            return None;
        }
        let Call { tensors, .. } = self.items.call(position)?;
        match tensors.as_slice() {
            [target, source] => Some([target, source]),
            _ => None,
        }
    }

    /// A group of kernels that one kernel replaces.
    pub(super) fn chain(&self, kind: ChainKind, items: Vec<usize>) -> Chain {
        Chain {
            kind,
            items,
            scale: 1.0,
            kernels_left: 1.0,
            others: 0.0,
            is_within: false,
            fixed: None,
            also: Time::ZERO,
            norms: Time::ZERO,
            bound: None,
            example: Example::default(),
        }
    }

    /// An example of kernels without sizes.
    pub(super) fn example(&self, positions: &[usize]) -> Example {
        let row = positions
            .iter()
            .find_map(|position| self.items.list[*position].operator);
        Example {
            operators: super::operators(self.items, positions),
            operator: row.map(|row| OperatorId::at(row as usize)),
            ..Example::default()
        }
    }
}

/// FLOPs of attention of a query to keys and values, all [.., heads, rows, size]; of other tensors none.
fn attention_flops(tensors: &[Tensor]) -> Flops {
    let [query, key, ..] = tensors else {
        return Flops::ZERO;
    };
    let [.., keys, _] = key.dims.as_slice() else {
        return Flops::ZERO;
    };
    Flops(4.0 * query.elements().0 * *keys as f64)
}
