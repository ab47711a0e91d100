//! Kernel names taken apart: one spelling for all profilers.

use std::sync::LazyLock;

use regex::Regex;
use rooflens_session::names::demangled;

/// A pattern over names, which are ASCII: classes of all letters of Unicode take long to compile and to look for.
pub(super) fn ascii(pattern: &str) -> Result<Regex, regex::Error> {
    let ascii = [
        (r"\w", "[0-9A-Za-z_]"),
        (r"\d", "[0-9]"),
        (r"\b", r"(?-u:\b)"),
    ];
    Regex::new(
        &ascii.iter().fold(pattern.to_owned(), |text, (class, own)| {
            text.replace(class, own)
        }),
    )
}

/// One that the program states.
pub(super) fn pattern(text: &str) -> Regex {
    ascii(text).expect("the pattern is constant")
}

/// A kernel name in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The whole name, in one spelling and in lower case.
    pub(super) text: String,
    /// The function's path without template arguments, in lower case: `at::native::reduce_kernel`.
    pub(super) own: String,
    /// The whole name in one spelling and its own case.
    pub(super) whole: String,
    /// The last part of the path, in its own case: `reduce_kernel`.
    pub(super) base: String,
}

impl Name {
    /// Takes a name apart.
    pub(super) fn new(name: &str) -> Self {
        let readable = demangled(name);
        // What cannot be demangled, cut short for one, still has identifiers.
        let whole = match readable.starts_with("_Z") {
            true => one_spelling(&identifiers(&readable)),
            false => one_spelling(&readable),
        };
        // FBGEMM's name makes no GEMM of what else it has.
        let base_path = path(&whole).replace("fbgemm_gpu::", "");
        let base = base_path.rsplit("::").next().unwrap_or_default().to_owned();
        Self {
            text: whole.to_lowercase(),
            own: base_path.to_lowercase(),
            whole,
            base,
        }
    }
}

/// The name without what profilers spell differently: anonymous namespaces, casts of template arguments,
/// a leading `void`.
fn one_spelling(name: &str) -> String {
    static CAST: LazyLock<Regex> = LazyLock::new(|| {
        let types = r"(?:unsigned )?(?:int|long long|long|short|char)|bool|signed char";
        pattern(&format!(r"\((?:{types})\)(-?\d)"))
    });
    let plain = name
        .replace("(anonymous namespace)::", "")
        .replace("<unnamed>::", "")
        .replace("{anonymous}::", "");
    let plain = plain.trim();
    CAST.replace_all(plain.strip_prefix("void ").unwrap_or(plain), "$1")
        .into_owned()
}

/// The function's path without return type, template arguments and parameters.
fn path(name: &str) -> String {
    let mut path_text = String::new();
    let mut depth = 0_usize;
    let mut return_type = false;
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '(' => break,
            // What stands before a space is the return type, if more follows.
            ' ' => return_type = true,
            c => {
                if std::mem::take(&mut return_type) {
                    path_text.clear();
                }
                path_text.push(c);
            }
        }
    }
    path_text
}

/// The identifiers of a mangled name as `path<the rest>`: enough for rules, which look for words.
fn identifiers(mangled: &str) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut rest: Vec<&str> = Vec::new();
    let mut offset = 2;
    let mut in_path = true;
    while offset < mangled.len() {
        let digits = mangled[offset..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        let length = mangled[offset..offset + digits]
            .parse::<usize>()
            .unwrap_or(0);
        let start = offset + digits;
        let word = start
            .checked_add(length)
            .and_then(|end| mangled.get(start..end));
        match word.filter(|word| is_identifier(word)) {
            Some(word) if in_path => path.push(word),
            Some(word) => rest.push(word),
            None => {
                // A letter within the path is its start or a qualifier; any other ends it.
                in_path &= path.is_empty() || mangled[offset..].starts_with('L');
                offset = start + mangled[start..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
        }
        offset = start + length;
    }
    path.retain(|word| !word.starts_with("_GLOBAL__N"));
    if path.is_empty() {
        return mangled.to_owned();
    }
    format!("{}<{}>", path.join("::"), rest.join(", "))
}

fn is_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profilers_spell_one_kernel_alike() {
        let nsys =
            Name::new("void at::native::<unnamed>::norm_kernel<c10::Half, (bool)0, (int)-1>(T1 *)");
        assert_eq!(nsys.own, "at::native::norm_kernel");
        assert_eq!(nsys.base, "norm_kernel");
        assert_eq!(nsys.text, "at::native::norm_kernel<c10::half, 0, -1>(t1 *)");
        let kineto =
            Name::new("void at::native::(anonymous namespace)::norm_kernel<c10::Half>(int)");
        assert_eq!(kineto.own, nsys.own);
    }

    #[test]
    fn return_types_and_parameters_are_no_part_of_the_path() {
        let name =
            Name::new("std::enable_if<!T7, void>::type internal::gemvx::kernel<int, float>(T1)");
        assert_eq!(name.own, "internal::gemvx::kernel");
        assert_eq!(Name::new("add(float *, int)").base, "add");
    }

    #[test]
    fn mangled_names_give_their_identifiers() {
        let name = Name::new("_ZN2at6native13reduce_kernelILi512ENS0_8ReduceOpIfEEEEvT_");
        assert_eq!(name.own, "at::native::reduce_kernel");
        assert!(name.text.contains("reduceop"), "{}", name.text);
        assert_eq!(Name::new("_Z3addPfi").base, "add");
    }

    #[test]
    fn broken_names_are_kept() {
        for name in [
            "",
            "_Z",
            "_Z9",
            "_Z99999999999999999999999x",
            "a<<<",
            ">>>(",
            "_Zé3ab",
            "_Z4é",
        ] {
            Name::new(name);
        }
    }
}
