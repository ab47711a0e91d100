//! Names of GPU functions.

use std::borrow::Cow;
use std::fmt::{Error, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// Characters of a demangled name for each of the mangled one, at most. Names that represent one another within a
/// mangled name make the demangled one as much as exponentially longer.
const MAX_GROWTH: usize = 32;

/// The name as its source has it, if it is a mangled C++ name: profilers leave long ones mangled.
pub fn demangled(name: &str) -> Cow<'_, str> {
    name.starts_with("_Z")
        .then(|| demangle(name))
        .flatten()
        .map_or(name.into(), Cow::Owned)
}

fn demangle(name: &str) -> Option<String> {
    let (symbol, rest) = BorrowedSymbol::with_tail(name.as_bytes()).ok()?;
    let mut out = Bounded {
        text: String::new(),
        limit: name.len().saturating_mul(MAX_GROWTH),
    };
    symbol
        .structured_demangle(&mut out, &DemangleOptions::default())
        .ok()?;
    rest.is_empty().then_some(out.text)
}

/// A text that refuses to grow beyond its limit.
struct Bounded {
    text: String,
    limit: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> Result<(), Error> {
        self.text.push_str(part);
        if self.text.len() > self.limit {
            Err(Error)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_demangled_and_others_kept() {
        // By c++filt.
        let mangled = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_";
        let source = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)";
        assert_eq!(demangled(mangled), source);
        assert_eq!(demangled("_Z3addPfi"), "add(float*, int)");
        for kept in [
            "",
            "add",
            "_Z",
            "_Z9",
            "_Z99999999999x",
            "_Zé3ab",
            "_Z3addPf trailing",
            source,
        ] {
            assert_eq!(demangled(kept), kept);
        }
    }

    #[test]
    fn a_name_that_grows_without_bound_is_kept() {
        // Each argument is a pair of the one before it: 40 of them would be 2^40 names.
        let pair = |at: u32| format!("1pIS{0}_S{0}_E", base36(2 * at));
        let name = |pairs| format!("_Z1f1a{}", (0..pairs).map(pair).collect::<String>());
        assert_eq!(demangled(&name(2)), "f(a, p<a, a>, p<p<a, a>, p<a, a> >)");
        assert_eq!(demangled(&name(40)), name(40));
    }

    /// Numbers of substitutions: none, `0`, `1` and so on.
    fn base36(at: u32) -> String {
        let digit = |at| char::from_digit(at, 36).map(|digit| digit.to_ascii_uppercase());
        at.checked_sub(1).map_or(String::new(), |at| {
            let high = (at >= 36).then(|| digit(at / 36)).flatten();
            high.into_iter().chain(digit(at % 36)).collect()
        })
    }
}
