//! Work of forward that backward computes again, as activation checkpoints do.
//!
//! Autograd issues backward on a thread of its own, and attention and normalizations go backward by other kernels than
//! forward. Where that thread launches those of forward, backward computes activations again. The largest number of such
//! launches for each one of forward counts for all kernels of forward, so that the time is an upper bound.

use std::collections::BTreeMap;

use super::{Chain, ChainKind, Example, Finder};
use crate::engine::classify::ClassGroup;

use rooflens_session::KernelId;
use rooflens_units::{Count, Time};

/// How libraries name kernels of backward.
const BACKWARD: [&str; 4] = ["backward", "bwd", "bprop", "grad"];

/// Launches of backward for each of forward from which on backward computes again: one layer of four has a checkpoint.
const LEAST: f64 = 0.25;

/// Positions of the launches of a kernel with a number of blocks, by the thread of forward and by others.
type Launches = BTreeMap<(KernelId, u64), [Vec<usize>; 2]>;

impl Finder<'_> {
    /// Kernels that backward of each instance computes again, as one group per instance.
    pub(super) fn recomputed(&mut self) {
        for positions in self.instances().into_values() {
            let launches = self.by_thread(&positions);
            let Some(times) = self.times_again(&launches) else {
                continue;
            };
            let mut again = Vec::new();
            for [forward, backward] in launches.values() {
                let count = (forward.len() as f64 * times).round() as usize;
                again.extend(backward.iter().take(count));
            }
            again.sort_unstable();
            let chain = Chain {
                kernels_left: 0.0,
                bound: Some(Time::ZERO),
                example: Example {
                    factor: (times >= 1.0).then_some(Count(times.round())),
                    ..Example::default()
                },
                ..self.chain(ChainKind::Recomputed, again)
            };
            self.chains.push(chain);
        }
    }

    fn by_thread(&self, positions: &[usize]) -> Launches {
        let issued = |position: &usize| self.items.list[*position].issued;
        let first = positions
            .iter()
            .filter_map(issued)
            .min_by_key(|(_, at)| *at);
        let mut launches = Launches::new();
        for position in positions {
            if let (Some((forward, _)), Some((thread, _))) = (first, issued(position)) {
                let item = self.items.list[*position];
                let of_kernel = launches.entry((item.kernel, item.blocks)).or_default();
                of_kernel[usize::from(thread != forward)].push(*position);
            }
        }
        launches
    }

    /// Launches of attention and normalizations in backward for each one in forward.
    fn times_again(&self, launches: &Launches) -> Option<f64> {
        let is_of_backward = |kernel: KernelId| {
            let name = self.items.session.kernel_name(kernel).to_lowercase();
            BACKWARD.iter().any(|part| name.contains(part))
        };
        let mut kernels = launches.iter();
        let trains = kernels
            .any(|((kernel, _), [forward, _])| forward.is_empty() && is_of_backward(*kernel));
        let of_forward = launches.values().filter_map(|[forward, backward]| {
            let class = self.items.list[*forward.first()?].class;
            let is_of_forward = matches!(
                class.group(),
                ClassGroup::Attention | ClassGroup::Normalization
            );
            is_of_forward.then(|| backward.len() as f64 / forward.len() as f64)
        });
        let times = of_forward.fold(0.0, f64::max);
        (trains && times >= LEAST).then_some(times)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::chains;
    use super::super::{Group, Place};
    use super::*;

    /// A step that launches attention and a GEMM twice in forward, so often again on autograd's thread, and attention of
    /// backward; each kernel takes 10 µs.
    fn step(again: usize, backward: &str) -> Option<Group> {
        let mut text = String::from("range step 0..900us\n");
        let (mut host, mut gpu) = (0, 100);
        let mut launch = |kernel: &str| {
            let (call, end) = (host, gpu + 10);
            text += &format!(
                "launch {call}us..{}us -> {kernel} {gpu}us..{end}us\n",
                call + 1
            );
            (host, gpu) = (host + 2, end);
        };
        for _ in 0..2 {
            launch("flash_fwd_kernel");
            launch("gemm");
        }
        launch("thread");
        for _ in 0..again {
            launch("flash_fwd_kernel");
            launch("gemm");
        }
        launch(backward);
        let text = text.replace("launch 8us..9us -> thread 140us..150us\n", "thread 2\n");
        let text = text + "thread 1\noperator aten::mm [[8,8],[8,8]] float 0us..1us";
        let place: Place = chains(&text).places[0].clone();
        place.group(ChainKind::Recomputed).cloned()
    }

    #[test]
    fn forward_kernels_on_the_thread_of_backward_are_computed_again() {
        let group = step(4, "flash_bwd_kernel").unwrap();
        // Four times two kernels of 10 µs, for two in forward.
        assert_eq!(group.saved(), Some(Time(80_000.0)));
        assert_eq!(group.example.factor, Some(Count(2.0)));
        // A checkpoint of half of the layers has no whole number.
        let group = step(1, "flash_bwd_kernel").unwrap();
        assert_eq!(group.saved(), Some(Time(20_000.0)));
        assert_eq!(group.example.factor, None);
        assert_eq!(step(0, "flash_bwd_kernel"), None);
        // Another thread that runs the same model does not go backward.
        assert_eq!(step(2, "flash_fwd_kernel_2"), None);
    }
}
