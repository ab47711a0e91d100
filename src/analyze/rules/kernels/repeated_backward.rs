//! Layers whose backward pass runs several times for each forward pass, such as once for each loss.

use std::collections::BTreeSet;

use super::sequences::{Launch, iterations};
use super::{Kernels, SHARE, THRESHOLD};
use crate::draft::Draft;
use crate::evidence::Evidence;
use crate::rule::{Look, Rule};
use crate::stage::StageLine;
use rooflens_analysis::kernels::stage_work::StageWork;
use rooflens_document::{Inline, Quantity};
use rooflens_session::{KernelId, ThreadId};
use rooflens_units::Ratio;

pub(crate) static RULE: Rule = Rule::new("repeated-backward", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| look(evidence, stage))
})
.on_kernels();

/// Parts of the names of kernels of which each layer runs one in a pass.
struct Pair {
    forward: &'static [&'static str],
    backward: &'static str,
    /// Repetitions from which on gradients of gradients do not explain them: those run the pass of a layer twice.
    least: u64,
}

const fn pair(forward: &'static [&'static str], backward: &'static str, least: u64) -> Pair {
    Pair {
        forward,
        backward,
        least,
    }
}

static PAIRS: [Pair; 9] = [
    pair(
        &["batch_norm_transform_input"],
        "batch_norm_backward_elemt",
        2,
    ),
    pair(&["bn_fw_tr"], "bn_bw", 2),
    pair(&["flash_fwd"], "flash_bwd_dq_dk_dv", 2),
    pair(&["fmha_cutlassF"], "fmha_cutlassB", 2),
    pair(
        &["layer_norm_kernel", "LayerNormForward"],
        "layer_norm_grad_input",
        3,
    ),
    pair(&["GeluCUDAKernelImpl"], "GeluBackwardCUDAKernelImpl", 3),
    pair(&["silu_kernel"], "silu_backward_kernel", 3),
    pair(&["SoftMaxForward"], "SoftMaxBackward", 3),
    pair(&["softmax_warp_forward"], "softmax_warp_backward", 3),
];

/// Layers of a forward pass at least.
const LAYERS: f64 = 2.0;

/// A pair of a stage, of which the backward pass runs so many times for each forward pass.
struct Repeated {
    pair: &'static Pair,
    times: u64,
    launches: u64,
}

fn look(evidence: &Evidence<'_>, stage: &StageLine) -> Look {
    let Some(work) = evidence.work(stage.key()) else {
        return Look::InsufficientData;
    };
    let repeated = PAIRS
        .iter()
        .filter_map(|pair| repeated(evidence, stage, work, pair));
    let Some(repeated) = repeated.max_by_key(|repeated| repeated.launches) else {
        return Look::Passed;
    };
    let launches = backward_pass(evidence, work, repeated.pair);
    let Some(mut kernels) = Kernels::of_launches(evidence, stage, work, &launches) else {
        return Look::Passed;
    };
    let saved = Ratio::ONE - Ratio(1.0 / repeated.times as f64);
    for (_, time) in &mut kernels.saved {
        *time = *time * saved;
    }
    if kernels.share() < SHARE {
        return Look::Passed;
    }
    let arguments = arguments! {
        stage = Inline::strong(&stage.label),
        kernel = Inline::code(repeated.pair.backward),
        kernels = Quantity::count(work.per_instance(repeated.launches as f64).round() as u64),
        times = Quantity::count(repeated.times),
        time = kernels.time,
        share = kernels.share(),
    };
    let draft = Draft::new(kernels.finding(stage), arguments);
    draft.cause_if(true).into()
}

/// How often the backward pass of a pair runs in a stage, if it is a multiple of the forward passes in all stages.
fn repeated(
    evidence: &Evidence<'_>,
    stage: &StageLine,
    work: &StageWork,
    pair: &'static Pair,
) -> Option<Repeated> {
    let count = |work: &StageWork, is_of: &dyn Fn(&str) -> bool| -> u64 {
        let of_kind = work
            .kernels
            .iter()
            .filter(|(kernel, ..)| is_of(evidence.session.kernel_name(*kernel)));
        of_kind.map(|(_, launches, _)| *launches).sum()
    };
    let launches = count(work, &|name| name.contains(pair.backward));
    if launches == 0 {
        return None;
    }
    let of_process = evidence
        .stages
        .iter()
        .filter(|other| other.process == stage.process);
    let works = of_process.filter_map(|other| evidence.work(other.key()));
    let forward: u64 = works
        .map(|work| count(work, &|name| pair.is_forward(name)))
        .sum();
    let is_network = forward as f64 >= LAYERS * stage.counted.0;
    let times = launches.checked_div(forward).unwrap_or(0);
    (is_network && times >= pair.least && launches == times * forward).then_some(Repeated {
        pair,
        times,
        launches,
    })
}

/// The launches of the threads that run backward passes alone; if there are none, those of the pair.
fn backward_pass<'a>(evidence: &Evidence<'a>, work: &StageWork, pair: &Pair) -> Vec<Launch<'a>> {
    let named = |is_of: &dyn Fn(&str) -> bool| -> BTreeSet<KernelId> {
        let kernels = work.kernels.iter().map(|(kernel, ..)| *kernel);
        kernels
            .filter(|kernel| is_of(evidence.session.kernel_name(*kernel)))
            .collect()
    };
    let backward = named(&|name| name.contains(pair.backward));
    let forward = named(&|name| pair.is_forward(name));
    let launches: Vec<Launch<'a>> = iterations(evidence, work).into_iter().flatten().collect();
    let threads = |kernels: &BTreeSet<KernelId>| -> BTreeSet<ThreadId> {
        let of_kernels = launches
            .iter()
            .filter(|launch| kernels.contains(&launch.kernel));
        of_kernels.filter_map(|launch| launch.thread).collect()
    };
    let (own, others) = (threads(&backward), threads(&forward));
    let is_of_pass = |launch: &Launch<'_>| match launch.thread {
        Some(thread) if own.is_disjoint(&others) => own.contains(&thread),
        _ => backward.contains(&launch.kernel),
    };
    launches.into_iter().filter(is_of_pass).collect()
}

impl Pair {
    fn is_forward(&self, name: &str) -> bool {
        self.forward.iter().any(|part| name.contains(part))
    }
}
