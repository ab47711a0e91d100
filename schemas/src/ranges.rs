//! Names of NVTX ranges: which are phases of the workload, and which are a library's.

use crate::marks;

/// The range that PyTorch's profiler opens around each step, numbered.
pub const PROFILER_STEP: &str = "ProfilerStep";

/// How the range begins that PyTorch opens around the wait for a batch.
pub const DATA_LOADER: &str = "enumerate(DataLoader)#";

/// NVTX domains of libraries: their ranges are not phases of the workload.
pub const LIBRARY_DOMAINS: [&str; 9] = [
    marks::DOMAIN,
    "NCCL",
    "cuBLAS",
    "cuBLASLt",
    "cuDNN",
    "cuSPARSE",
    "CCCL",
    "TensorRT",
    "libcudf",
];

/// What `torch.autograd.profiler.emit_nvtx` adds to the name of an operator, whichever comes first.
const OPERATOR_MARKS: [&str; 3] = [", seq = ", ", op_id = ", ", sizes = "];

/// How collectives of PyTorch and operators without marks begin.
const OPERATORS: [&str; 3] = ["nccl:", "aten::", "autograd::"];

/// How names of the phases of `torch.compile` end, `dynamo_timed` of torch/_dynamo/utils.py.
const COMPILATION: &str = " (dynamo_timed)";

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
        && !is_compilation(name)
}

/// Whether a range is a phase of `torch.compile`.
pub fn is_compilation(name: &str) -> bool {
    name.ends_with(COMPILATION)
}

/// What XLA writes before the name of the module that it runs (`XlaModule:#hlo_module=jit_step,program_id=7#`,
/// `MakeTitle` of xla/service/gpu/gpu_executable.cc); behind it stand arguments.
const XLA_MODULE: &str = "hlo_module=";

/// Types whose names end with a size, without it.
const TYPES: [&str; 9] = [
    "int", "uint", "float", "bfloat", "fp", "mxfp", "nvfp", "bf", "tf",
];

/// Whether the number of a word belongs to it: one between letters (`h2d`, `conv2d`), or the size of a type (`uint8`).
fn is_word(word: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let Some((name, rest)) = word.find(is_digit).map(|place| word.split_at(place)) else {
        return true;
    };
    let after = rest.trim_start_matches(is_digit);
    match after.is_empty() {
        true => TYPES.contains(&name.to_ascii_lowercase().as_str()),
        false => !name.is_empty() && !after.contains(is_digit),
    }
}

/// `N` for each number.
fn without_numbers(word: &str) -> String {
    let mut out = String::new();
    let mut in_digits = false;
    for letter in word.chars() {
        if !letter.is_ascii_digit() {
            out.push(letter);
        } else if !in_digits {
            out.push('N');
        }
        in_digits = letter.is_ascii_digit();
    }
    out
}

/// `iteration 3` is an instance of `iteration N`, `ProfilerStep#12` of `ProfilerStep`, a step marker of JAX
/// (`train#step_num=3,_r=1#`: name, then arguments, tsl/profiler/lib/traceme_encode.h) of `train`.
pub fn generic_name(name: &str) -> String {
    if name.starts_with(PROFILER_STEP) {
        return PROFILER_STEP.to_owned();
    }
    let name = match name.strip_suffix('#').and_then(|name| name.split_once('#')) {
        Some((_, arguments)) if arguments.contains(XLA_MODULE) => {
            let module = arguments
                .split_once(XLA_MODULE)
                .map_or("", |(_, module)| module);
            module.split([',', '#']).next().unwrap_or_default()
        }
        Some((title, _)) if !title.is_empty() => title,
        _ => name,
    };
    let short: String = name.trim().chars().take(80).collect();
    let mut out = String::new();
    let is_end = |letter: char| !letter.is_alphanumeric();
    for part in short.split_inclusive(is_end) {
        match is_word(part.trim_end_matches(is_end)) {
            true => out.push_str(part),
            false => out.push_str(&without_numbers(part)),
        }
    }
    // Names such as `model.layers.3` are distinguished by their digits; a name that is only digits is not.
    if name.chars().all(|letter| letter.is_ascii_digit()) {
        name.to_owned()
    } else {
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_emit_nvtx_are_those_of_operators() {
        let given = |name| given_name(name);
        assert_eq!(
            given("aten::mm, op_id = 123, sizes = [[4, 8], [8, 2]]"),
            "aten::mm"
        );
        assert_eq!(
            given("AddmmBackward0, seq = 7, op_id = 9"),
            "AddmmBackward0"
        );
        assert_eq!(given("forward"), "forward");
        assert_eq!(given("a, b"), "a, b");
    }

    #[test]
    fn ranges_of_libraries_and_compilers_are_not_of_the_user() {
        assert!(is_of_user("forward", ""));
        for (name, domain) in [
            ("gc generation 2", marks::DOMAIN),
            ("ncclAllReduce", "NCCL"),
            ("_compile.compile_inner (dynamo_timed)", ""),
        ] {
            assert!(!is_of_user(name, domain), "{name}");
        }
    }

    #[test]
    fn numbers_of_iterations_are_no_part_of_the_name() {
        assert_eq!(generic_name("iteration 3"), "iteration N");
        assert_eq!(generic_name("ProfilerStep#12"), "ProfilerStep");
        assert_eq!(generic_name("42"), "42");
        assert_eq!(generic_name("train#step_num=3,_r=1#"), "train");
        let module = "XlaModule:#prefix=jit(f)/jit(main),hlo_module=jit_train_step,program_id=7#";
        assert_eq!(generic_name(module), "jit_train_step");
        assert_eq!(generic_name("## forward ##"), "## forward ##");
    }

    #[test]
    fn numbers_of_words_stay() {
        for (name, generic) in [
            ("h2d", "h2d"),
            ("to_uint8", "to_uint8"),
            ("conv2d 12", "conv2d N"),
            ("step12", "stepN"),
            ("b4s512", "bNsN"),
            ("32x128 tokens=4", "NxN tokens=N"),
        ] {
            assert_eq!(generic_name(name), generic);
        }
    }
}
