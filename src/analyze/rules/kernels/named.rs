//! Kernels of PyTorch whose name alone says that another operator computes the same in less time.

use super::{Kernels, THRESHOLD};
use crate::evidence::Evidence;
use crate::practices;
use crate::rule::{Look, Rule};
use crate::stage::StageLine;
use rooflens_document::Inline;
use rooflens_units::Ratio;

/// `torch.cat` in a decode stage: a KV cache that each step copies to append a token.
pub(crate) static GROWING_CACHE: Rule = Rule::new("growing-cache", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| {
        if !stage.is_decode() {
            return Look::NotApplicable(words!(evidence, "growing_cache.no_decode"));
        }
        match practices::has_static_cache(evidence, stage) {
            true => Look::Passed,
            false => look(evidence, stage, |name| name.contains("CatArrayBatchedCopy")),
        }
    })
})
.on_kernels();

/// Rows gathered by index in a decode stage: a KV cache that a beam search reorders after each token.
pub(crate) static GATHERED_CACHE: Rule = Rule::new("gathered-cache", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| match stage.is_decode() {
        false => Look::NotApplicable(words!(evidence, "growing_cache.no_decode")),
        true => look(evidence, stage, |name| {
            name.contains("vectorized_gather_kernel") || name.contains("indexSelect")
        }),
    })
})
.on_kernels();

/// `index_put_(accumulate=True)`: the indices are sorted, and one warp adds all rows of an index one after another.
pub(crate) static SORTED_SUMS: Rule = Rule::new("sorted-sums", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| {
        let look = look(evidence, stage, |name| {
            name.contains("indexing_backward_kernel")
        });
        match (look, has_unsorted_sums(evidence, stage)) {
            (Look::Found(draft), true) => {
                let draft = draft.root("root_cause", "root_action_indexing");
                draft.only_if("root_if").advice("advice_indexing").into()
            }
            (look, _) => look,
        }
    })
})
.on_kernels();

/// Whether a stage adds rows by index with atomics, which no deterministic algorithm does.
fn has_unsorted_sums(evidence: &Evidence<'_>, stage: &StageLine) -> bool {
    let work = evidence.work(stage.key());
    work.is_some_and(|work| evidence.launches(work, |name| name.contains("indexFunc")) > 0)
}

/// Depthwise convolutions with filters of other sizes than 1, 3 and 5.
pub(crate) static DEPTHWISE: Rule = Rule::new("depthwise-filters", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| {
        look(evidence, stage, |name| {
            name.contains("conv_depthwise") && name.contains("generic")
        })
    })
})
.on_kernels();

/// FFTs by Bluestein's algorithm, which computes FFTs of more than twice the length: cuFFT takes it for lengths with a large
/// prime factor.
pub(crate) static PRIME_FFTS: Rule = Rule::new("prime-ffts", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| look(evidence, stage, |name| name.contains("bluestein_fft")))
})
.on_kernels();

/// Kernels of `torch.randperm`: random keys, numbers in order, and a sort of both.
const PERMUTATION: [&str; 4] = ["randperm", "RadixSort", "random_from_to", "arange"];

/// `torch.randperm` of many elements, of which all are sorted.
pub(crate) static PERMUTATIONS: Rule = Rule::new("permutations", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| {
        let permutes = |work| evidence.launches(work, |name| name.contains("randperm")) > 0;
        match evidence.work(stage.key()).is_some_and(permutes) {
            true => look(evidence, stage, |name| {
                PERMUTATION.iter().any(|part| name.contains(part))
            }),
            false => Look::Passed,
        }
    })
})
.on_kernels();

/// `torch.multinomial` with replacement: one thread block normalizes a row, however long.
pub(crate) static ROW_SAMPLING: Rule = Rule::new("row-sampling", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| look(evidence, stage, |name| name.contains("renormRowsL1")))
})
.on_kernels();

/// `torch.sort` and its kin on floating-point values, of which programs often use the first alone.
pub(crate) static VALUE_SORTS: Rule = Rule::new("value-sorts", &[THRESHOLD], |evidence| {
    evidence.each_of_kernels(|stage| {
        look(evidence, stage, |name| {
            sorts_values(name) || SORT_INDICES.iter().any(|part| name.contains(part))
        })
    })
})
.on_kernels();

/// Kernels of `torch.sort` around its sorts.
const SORT_INDICES: [&str; 3] = [
    "fill_reverse_indices",
    "fill_index_and_segment",
    "sort_postprocess",
];

/// Types of keys that no other operator of PyTorch sorts: indices are integers.
const VALUES: [&str; 6] = [
    "float",
    "double",
    "__half",
    "__nv_bfloat16",
    "c10::Half",
    "c10::BFloat16",
];

/// Whether a kernel of CUB sorts by floating-point keys.
fn sorts_values(name: &str) -> bool {
    let policy = name.split_once("policy_hub<");
    let (_, keys) = policy.unwrap_or_default();
    name.contains("RadixSort") && VALUES.iter().any(|value| keys.starts_with(value))
}

/// A finding if kernels with such names take much of a stage: all of their time could go.
fn look(evidence: &Evidence<'_>, stage: &StageLine, is: fn(&str) -> bool) -> Look {
    let Some(work) = evidence.work(stage.key()) else {
        return Look::InsufficientData;
    };
    let kernels = Kernels::of_stage(evidence, stage, work, |_, name| {
        is(name).then_some(Ratio::ONE)
    });
    kernels.map_or(Look::Passed, |kernels| {
        kernels.look(stage, |kernels| {
            arguments! {
                stage = Inline::strong(&stage.label),
                kernel = kernels.name(),
                kernels = kernels.per_iteration(),
                time = kernels.time,
                share = kernels.share(),
            }
        })
    })
}
