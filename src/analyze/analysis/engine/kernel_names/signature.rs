//! Kernel names in one spelling: what nsys, Nsight Compute and PyTorch write of the same function.

use std::sync::LazyLock;

use regex::Regex;

/// The name without what tools spell differently: namespaces, casts of template arguments, `true` and `false`,
/// suffixes of numbers, lambdas, `void` and `const`, whitespace. Parameters stay.
pub(super) fn signature(name: &str) -> String {
    static CAST: LazyLock<Regex> = LazyLock::new(|| {
        let types = r"(?:unsigned |signed )?(?:int|long long|long|short|char)|bool";
        pattern(&format!(r"\((?:{types})\)(-?\d)"))
    });
    static LAMBDA: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\[lambda\(([^()]*)\) \(instance (\d+)\)\]"));
    static SUFFIX: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d+)[uUlL]+\b"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(true|false|void|const)\b"));
    static NAMESPACE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\}|\b[A-Za-z_]\w*)::")
    });
    let text = LAMBDA.replace_all(name, "{lambda($1)#$2}");
    let text = CAST.replace_all(&text, "$1");
    let text = SUFFIX.replace_all(&text, "$1");
    let text = NAMESPACE.replace_all(&text, "");
    let text = WORD.replace_all(&text, |word: &regex::Captures<'_>| match &word[0] {
        "true" => "1",
        "false" => "0",
        _ => "",
    });
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A signature without the lists of parameters: tools write the types that were deduced, or `T1`.
pub(super) fn without_parameters(signature: &str) -> String {
    let mut out = String::with_capacity(signature.len());
    let mut depth = 0_usize;
    for c in signature.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NSYS: &str = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::cos_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)";

    #[test]
    fn nsight_compute_and_nsys_agree_in_the_signature() {
        let ncu = "void at::vectorized_elementwise_kernel<4, at::cos_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, 2>>(int, T2, T3)";
        assert_eq!(signature(NSYS), signature(ncu));
        let other = NSYS.replace("cos_kernel", "sin_kernel");
        assert_ne!(signature(NSYS), signature(&other));
        assert_eq!(
            signature("void f<(bool)0, <unnamed>::Size<(unsigned int)4>>(const char *)"),
            signature("void f<false, (anonymous namespace)::Size<4u> >(char const*)")
        );
    }

    #[test]
    fn pytorch_and_nsys_agree_without_parameters() {
        let torch = "void at::native::vectorized_elementwise_kernel<4, at::native::cos_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int, at::native::cos_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>)";
        let stem = |name: &str| without_parameters(&signature(name));
        assert_ne!(signature(NSYS), signature(torch));
        assert_eq!(stem(NSYS), stem(torch));
        // What was applied is no namespace, though `::` follows it.
        assert!(stem(NSYS).contains("cos_kernel_cuda"));
    }

    #[test]
    fn strange_names_are_kept() {
        for name in ["", "((((", "))))", "[lambda(", "::::", "é::kernel<ü>()"] {
            without_parameters(&signature(name));
        }
        assert_eq!(
            signature("nvjet_sm90_tst_64x8_64x16"),
            "nvjet_sm90_tst_64x8_64x16"
        );
    }
}
