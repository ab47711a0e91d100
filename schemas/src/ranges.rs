//! Names of NVTX ranges: which are phases of the workload, and which are a library's.

/// The range that PyTorch's profiler opens around each step, numbered.
pub const PROFILER_STEP: &str = "ProfilerStep";

/// NVTX domains of libraries: their ranges are not phases of the workload.
pub const LIBRARY_DOMAINS: [&str; 8] =
    ["NCCL", "cuBLAS", "cuBLASLt", "cuDNN", "cuSPARSE", "CCCL", "TensorRT", "libcudf"];

/// What `torch.autograd.profiler.emit_nvtx` adds to the name of an operator, whichever comes first.
const OPERATOR_MARKS: [&str; 3] = [", seq = ", ", op_id = ", ", sizes = "];

/// How collectives of PyTorch and operators without marks begin.
const OPERATORS: [&str; 3] = ["nccl:", "aten::", "autograd::"];

/// The name that the code gave a range, without what `emit_nvtx` adds.
pub fn given_name(name: &str) -> &str {
    let marks = OPERATOR_MARKS.iter().filter_map(|mark| name.find(mark));
    &name[..marks.min().unwrap_or(name.len())]
}

/// Whether a range of this name and domain may be a phase of the workload that no rule names: of the user, and no operator.
pub fn is_of_user(name: &str, domain: &str) -> bool {
    !LIBRARY_DOMAINS.contains(&domain)
        && given_name(name) == name
        && !OPERATORS.iter().any(|start| name.starts_with(start))
}

/// `iteration 3` is an instance of `iteration N`, and `ProfilerStep#12` of `ProfilerStep`.
pub fn generic_name(name: &str) -> String {
    if name.starts_with(PROFILER_STEP) {
        return PROFILER_STEP.to_owned();
    }
    let mut out = String::new();
    let mut in_digits = false;
    for letter in name.trim().chars().take(80) {
        if !letter.is_ascii_digit() {
            out.push(letter);
        } else if !in_digits {
            out.push('N');
        }
        in_digits = letter.is_ascii_digit();
    }
    // Names such as `model.layers.3` are told apart by their digits; a name that is only digits is not.
    if name.chars().all(|letter| letter.is_ascii_digit()) { name.to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_emit_nvtx_are_those_of_operators() {
        let given = |name| given_name(name);
        assert_eq!(given("aten::mm, op_id = 123, sizes = [[4, 8], [8, 2]]"), "aten::mm");
        assert_eq!(given("AddmmBackward0, seq = 7, op_id = 9"), "AddmmBackward0");
        assert_eq!(given("forward"), "forward");
        assert_eq!(given("a, b"), "a, b");
    }

    #[test]
    fn numbers_of_iterations_are_no_part_of_the_name() {
        assert_eq!(generic_name("iteration 3"), "iteration N");
        assert_eq!(generic_name("ProfilerStep#12"), "ProfilerStep");
        assert_eq!(generic_name("42"), "42");
    }
}
