//! Kernels: which ran, how often, and for how long.

mod command;
mod sums;

use std::collections::BTreeMap;

use rooflens_schemas::Evidence;

use crate::engine::classify::{KernelClass, KernelIdentity};
use crate::engine::intervals::total;
use crate::results::no_gpu_work;
use crate::{Context, Facts, Known};
use rooflens_session::{Arrange, Ns, PassId, Session};
use rooflens_units::Ratio;

pub use command::{ENOUGH, command};
pub use rooflens_stages::selection::{
    Selected, Window, exactly, select, select_of_sums, window, yaml,
};
pub use sums::KernelSum;

/// Share of kernel time in unclassified kernels, or in application kernels, from which on the report says so.
pub const OTHER_LIMIT: Ratio = Ratio(0.02);

/// The kernels of one pass.
#[derive(Clone, Debug, Default)]
pub struct PassKernels {
    /// Pass.
    pub pass: PassId,
    /// Kernels by time descending, then name.
    pub sums: Vec<KernelSum>,
    /// Launches.
    pub launches: u64,
    /// Kernel time: the sum of all durations, nanoseconds.
    pub total: Ns,
    /// That of kernels of no known class.
    pub other: Ns,
    /// That of kernels of the profiled program itself.
    pub application: Ns,
    /// Libraries by time descending, then name.
    pub libraries: Vec<LibrarySum>,
}

/// The kernels of one library in one pass.
#[derive(Clone, Debug)]
pub struct LibrarySum {
    /// Name; empty if unknown.
    pub library: &'static str,
    /// Distinct kernels.
    pub kernels: u64,
    /// Launches.
    pub launches: u64,
    /// Sum of durations, nanoseconds.
    pub total: Ns,
}

/// Adds up the kernels of each pass with kernels, in order of the passes.
pub fn compute(context: &Context<'_>) -> Known<Vec<PassKernels>> {
    let session = context.session;
    let none = session.launches.is_empty()
        && session.kernel_sums.is_empty()
        && session.copies.is_empty()
        && session.graph_launches.is_empty();
    if none {
        return Err(no_gpu_work(session));
    }
    Ok(by_pass(session, &context.facts.identities))
}

/// The same from the tables alone.
pub fn by_pass(session: &Session, identities: &[KernelIdentity]) -> Vec<PassKernels> {
    let sums = sums::kernel_sums(session);
    let passes = sums.chunk_by(|a, b| a.pass == b.pass);
    passes.map(|sums| of_pass(sums, identities)).collect()
}

fn of_pass(sums: &[KernelSum], identities: &[KernelIdentity]) -> PassKernels {
    let mut libraries: BTreeMap<&'static str, LibrarySum> = BTreeMap::new();
    for sum in sums {
        let library = identities[sum.kernel.index()].library;
        let empty = LibrarySum {
            library,
            kernels: 0,
            launches: 0,
            total: Ns::ZERO,
        };
        let row = libraries.entry(library).or_insert(empty);
        row.kernels += 1;
        row.launches = row.launches.saturating_add(sum.count);
        row.total = row.total.saturating_add(sum.total);
    }
    let mut libraries: Vec<LibrarySum> = libraries.into_values().collect();
    libraries.arrange_by_key(|library| std::cmp::Reverse(library.total));
    let class_time = |class| total(of_class(sums, identities, class).map(|sum| sum.total));
    PassKernels {
        pass: sums[0].pass,
        launches: sums
            .iter()
            .map(|sum| sum.count)
            .fold(0, u64::saturating_add),
        total: total(sums.iter().map(|sum| sum.total)),
        other: class_time(KernelClass::Other),
        application: class_time(KernelClass::Application),
        sums: sums.to_vec(),
        libraries,
    }
}

fn of_class<'a>(
    sums: &'a [KernelSum],
    identities: &'a [KernelIdentity],
    class: KernelClass,
) -> impl Iterator<Item = &'a KernelSum> {
    sums.iter()
        .filter(move |sum| identities[sum.kernel.index()].class == class)
}

impl PassKernels {
    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        session.evidence(self.pass, "launches", self.launches)
    }

    /// A time as a share of the kernel time, where there is any.
    pub fn share(&self, part: Ns) -> Option<Ratio> {
        (self.total > Ns::ZERO).then(|| Ratio::of(part, self.total))
    }

    /// The kernels of a class with what their names tell.
    pub fn identified<'a>(
        &'a self,
        facts: &'a Facts,
        class: KernelClass,
    ) -> impl Iterator<Item = (&'a KernelSum, &'a KernelIdentity)> {
        let pairs = self
            .sums
            .iter()
            .map(|sum| (sum, &facts.identities[sum.kernel.index()]));
        pairs.filter(move |(_, identity)| identity.class == class)
    }

    /// The kernels of a class, the most time first.
    pub fn of_class<'a>(
        &'a self,
        identities: &'a [KernelIdentity],
        class: KernelClass,
    ) -> impl Iterator<Item = &'a KernelSum> {
        of_class(&self.sums, identities, class)
    }
}
