//! What the analyses came to, as types: each is computed once, from the tables and from those before it.

use super::Context;

/// Why a result is not there, and what to capture to have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub &'static str);

/// A result, or what is missing for it.
pub type Known<T> = Result<T, Missing>;

/// Of a result that is asked for before its turn.
const NOT_YET: Missing = Missing("it was not computed");

/// Each `name: Type = compute;` becomes a field of [`Results`] and its accessor. The order of declaration is that of
/// computation: `compute(&Context) -> Known<Type>` finds the earlier results in its context.
macro_rules! results {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $compute:path;)*) => {
        /// The results of one bundle.
        pub struct Results {
            $($name: Known<$type>,)*
        }

        /// Before anything is computed.
        pub static NONE: Results = Results {
            $($name: Err(NOT_YET),)*
        };

        impl Results {
            /// Computes all of them.
            #[allow(unused_mut, unused_variables)]
            pub fn compute(context: &Context<'_>) -> Self {
                let mut results = Self { $($name: Err(NOT_YET),)* };
                $(
                    let known = $compute(&context.with(&results));
                    results.$name = known;
                )*
                results
            }

            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// What is missing for it.
                pub fn $name(&self) -> Known<&$type> {
                    self.$name.as_ref().map_err(|missing| *missing)
                }
            )*
        }
    };
}

results! {
    /// GPU work of the backward pass by the operators of the forward pass.
    backward: super::operators::backward::Backward = super::operators::backward::compute;
    /// Operators of PyTorch traces.
    operators: super::operators::calls::Operators = super::operators::calls::compute;
    /// Functions of Python.
    python: super::operators::python::Python = super::operators::python::compute;
    /// Stages by range and module.
    modules: super::operators::modules::Modules = super::operators::modules::compute;
    /// Memory transfers by pass and stage.
    transfers: super::memory::transfers::Transfers = super::memory::transfers::compute;
}
