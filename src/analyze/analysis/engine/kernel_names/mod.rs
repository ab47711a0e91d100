//! Which kernel name of one tool is which of another, and how that was found.

mod signature;

use std::collections::{BTreeMap, BTreeSet};

use md5::{Digest, Md5};

use crate::Facts;
use crate::engine::facts::OpSource;
use rooflens_session::{KernelId, PassId, Session};
use signature::{signature, without_parameters};

rooflens_stages::labels! {
    /// How a name was found.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum How {
        /// Letter by letter.
        Exact = "exact name",
        /// A folder or file bears the md5 of the name.
        Md5 = "md5 in the path",
        /// In one spelling.
        Signature = "signature",
        /// In one spelling, without parameters.
        WithoutParameters = "signature without parameters",
        /// Several kernels have this signature: not decided.
        Ambiguous = "ambiguous",
        /// No kernel has it.
        None = "not matched",
    }
}

/// md5 of a name as lower-case hexadecimal digits: what tools name folders of kernels by.
pub fn md5_hex(name: &str) -> String {
    Md5::digest(name.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Kernel names, to be found by the spellings of other tools. `T` tells the kernel.
pub struct Names<T> {
    exact: BTreeMap<String, T>,
    /// By sum, with the function: a report in a kernel's folder may hold others.
    md5: BTreeMap<String, (String, T)>,
    signature: BTreeMap<String, BTreeSet<T>>,
    stem: BTreeMap<String, BTreeSet<T>>,
}

impl<T: Copy + Ord> Names<T> {
    /// Names that differ, each with its kernel.
    pub fn new<'a>(names: impl Iterator<Item = (&'a str, T)>) -> Self {
        let mut keys = Self {
            exact: BTreeMap::new(),
            md5: BTreeMap::new(),
            signature: BTreeMap::new(),
            stem: BTreeMap::new(),
        };
        for (name, kernel) in names {
            let signature = signature(name);
            keys.md5
                .insert(md5_hex(name), (function(&signature).to_owned(), kernel));
            keys.stem
                .entry(without_parameters(&signature))
                .or_default()
                .insert(kernel);
            keys.signature.entry(signature).or_default().insert(kernel);
            keys.exact.insert(name.to_owned(), kernel);
        }
        keys
    }

    /// The kernel of that name, the surest way first; `path` is the file that the name is from.
    ///
    /// A spelling that several kernels share decides nothing, and coarser ones are not tried.
    pub fn find(&self, name: &str, path: &str) -> (How, Option<T>) {
        if let Some(kernel) = self.exact.get(name) {
            return (How::Exact, Some(*kernel));
        }
        let signature = signature(name);
        let named = hashes(path).find_map(|hash| self.md5.get(hash));
        if let Some((_, kernel)) = named.filter(|(own, _)| own == function(&signature)) {
            return (How::Md5, Some(*kernel));
        }
        let stem = without_parameters(&signature);
        let spellings = [
            (How::Signature, self.signature.get(&signature)),
            (How::WithoutParameters, self.stem.get(&stem)),
        ];
        for (how, kernels) in spellings {
            let Some(kernels) = kernels else { continue };
            return match kernels.first() {
                Some(kernel) if kernels.len() == 1 => (how, Some(*kernel)),
                _ => (How::Ambiguous, None),
            };
        }
        (How::None, None)
    }
}

/// The kernels that ran in a pass, to be found by name.
pub fn of_pass(session: &Session, facts: &Facts, pass: PassId) -> Names<KernelId> {
    let mut ran = vec![false; session.kernels.len()];
    for source in &facts.ops.source[facts.ops_of(pass)] {
        if let OpSource::Launch(launch) = source {
            ran[session.launches.kernel[launch.index()].index()] = true;
        }
    }
    let kernels = session.kernels.ids().filter(|kernel| ran[kernel.index()]);
    Names::new(kernels.map(|kernel| (session.kernel_name(kernel), kernel)))
}

/// What stands before template arguments and parameters.
fn function(signature: &str) -> &str {
    signature.split(['<', '(']).next().unwrap_or_default()
}

/// The md5 sums that a path bears: words of 32 hexadecimal digits.
fn hashes(path: &str) -> impl Iterator<Item = &str> {
    path.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| {
            word.len() == 32
                && word
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names<u32> {
        let all = [
            "void a::f<(int)1>(T1 *)",
            "void b::f<(int)1>(T1 *)",
            "void g<(bool)1>(T1)",
            "h",
        ];
        Names::new(all.into_iter().zip(0..))
    }

    #[test]
    fn names_are_found_the_surest_way() {
        let names = names();
        assert_eq!(
            names.find("void a::f<(int)1>(T1 *)", ""),
            (How::Exact, Some(0))
        );
        assert_eq!(
            names.find("void g<true>(T1)", ""),
            (How::Signature, Some(2))
        );
        assert_eq!(
            names.find("void ns::g<true>(int)", ""),
            (How::WithoutParameters, Some(2))
        );
        assert_eq!(names.find("unheard of", ""), (How::None, None));
    }

    #[test]
    fn two_kernels_of_one_signature_are_not_decided_by_chance() {
        assert_eq!(names().find("void f<1>(T1 *)", ""), (How::Ambiguous, None));
    }

    #[test]
    fn the_md5_of_the_name_in_a_path_decides() {
        // `printf h | md5sum`
        let path = "ncu/kernel_0007_2510c39011c5be704182423e3a695e91/ncu.details.csv";
        assert_eq!(md5_hex("h"), "2510c39011c5be704182423e3a695e91");
        assert_eq!(names().find("h<int>(T1)", path), (How::Md5, Some(3)));
        assert_eq!(names().find("another kernel", path), (How::None, None));
    }
}
