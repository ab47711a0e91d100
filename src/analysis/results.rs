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
    /// Counters of the profiled launches.
    counters: super::counters::ncu::Counters = super::counters::ncu::compute;
    /// The launches of the timeline that the profiled ones stand for.
    matching: super::counters::represent::matching::Matching =
        super::counters::represent::matching::compute;
    /// Profiled launches against the timeline.
    represent: super::counters::represent::Representativeness =
        super::counters::represent::compute;
    /// Executed operations and bytes of the stages of the timeline.
    workload: super::counters::roofline::workload::Workload =
        super::counters::roofline::workload::compute;
    /// Rooflines of the profiled kernels by pass.
    rooflines: Vec<super::counters::roofline::PassRoofline> = super::counters::roofline::compute;
    /// Bound classes of the profiled kernels by pass.
    ncu_kernels: Vec<super::counters::ncu_kernels::PassBounds> =
        super::counters::ncu_kernels::compute;
    /// Figures of the profiled kernels.
    details: super::counters::details::Details = super::counters::details::compute;
    /// Memory transfers by pass and stage.
    transfers: super::memory::transfers::Transfers = super::memory::transfers::compute;
}
