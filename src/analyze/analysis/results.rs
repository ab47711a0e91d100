//! How results are declared, computed and read. The list of them is in `lib.rs`.

use rooflens_schemas::PassKind;
use rooflens_session::Session;

/// Why a result is not there, and what to capture to have it: a key of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub &'static str);

/// A result, or what is missing for it.
pub type Known<T> = Result<T, Missing>;

/// Why a session has no GPU work: what its artifacts hold instead tells.
pub fn no_gpu_work(session: &Session) -> Missing {
    let launches = |name: &&rooflens_session::StrId| session.text(**name).contains("Launch");
    Missing(
        if session.api_calls.name.iter().any(|name| launches(&name)) {
            "missing.lost_activity"
        } else if !session.operators.is_empty() {
            "missing.cuda_activities"
        } else if session.passes.kind.contains(&PassKind::Operators) {
            "missing.empty_window"
        } else {
            "missing.gpu_work"
        },
    )
}

/// Of a result that is asked for before its turn.
pub(crate) const NOT_YET: Missing = Missing("missing.not_computed");

/// Each `name: Type = compute;` becomes a field of [`Results`] and its accessor. The order of declaration is that of
/// computation: `compute(&Context) -> Known<Type>` finds the earlier results in its context.
macro_rules! results {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $compute:path;)*) => {
        /// The results of one bundle, each computed once: from the tables, and from the results before it.
        pub struct Results {
            $($(#[$doc])* pub $name: Known<$type>,)*
        }

        /// Before anything is computed.
        static NONE: Results = Results::NONE;

        impl Results {
            /// Before anything is computed.
            pub const NONE: Self = Self { $($name: Err($crate::results::NOT_YET),)* };

            /// Computes all of them.
            pub fn compute(context: &Context<'_>) -> Self {
                let mut results = Self::NONE;
                $(
                    let result = $compute(&context.with(&results));
                    results.$name = result;
                )*
                results
            }

            /// Computes those of these names: for tests that make their facts by hand.
            pub fn some(context: &Context<'_>, names: &[&str]) -> Self {
                let mut results = Self::NONE;
                $(
                    if names.contains(&stringify!($name)) {
                        let result = $compute(&context.with(&results));
                        results.$name = result;
                    }
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
