//! Rooflines of profiled kernels: operations per second against operations per byte.

pub mod device;
pub mod group;
pub mod roofs;
pub mod workload;

use std::collections::BTreeMap;

use self::device::Device;
use self::group::Group;
use self::roofs::Roofs;
use crate::counters::ncu::KernelCounters;
use crate::counters::ncu::flops::FlopCount;
use crate::{Context, Known};
use rooflens_session::{Arrange, PassId};
use rooflens_units::{Flops, Ratio, Seconds};

/// The kernels of one pass under their roofs.
pub struct PassRoofline {
    /// The pass.
    pub pass: PassId,
    /// Its GPU.
    pub device: Option<Device>,
    /// The roofs of that GPU.
    pub roofs: Roofs,
    /// Launches of one kernel, grid and block, the longest first.
    pub groups: Vec<Group>,
    /// Operations by dtype and pipe, the most first.
    pub types: Vec<TypeSum>,
}

/// Operations of one dtype on one kind of pipe.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypeSum {
    /// dtype as the hardware table names it.
    pub dtype: &'static str,
    /// On tensor cores.
    pub tensor: bool,
    /// Launches with such operations.
    pub launches: u64,
    /// Operations.
    pub flops: Flops,
    /// Share of all operations of the pass.
    pub share: Ratio,
    /// Time of the launches.
    pub seconds: Seconds,
}

/// The rooflines of all passes with profiled launches.
pub fn compute(context: &Context<'_>) -> Known<Vec<PassRoofline>> {
    let pass_roofline = |(pass, kernels): (PassId, Vec<&KernelCounters>)| {
        let groups = group::groups(&kernels, context.options.classifier);
        let device = device::of_pass(context.session, pass);
        let dtypes = groups.iter().filter_map(|group| group.dtype);
        let roofs = Roofs::new(context, device.as_ref(), dtypes, &kernels);
        PassRoofline {
            pass,
            device,
            roofs,
            types: types(&kernels),
            groups,
        }
    };
    Ok(context
        .results
        .counters()?
        .by_pass()
        .into_iter()
        .map(pass_roofline)
        .collect())
}

fn types(kernels: &[&KernelCounters]) -> Vec<TypeSum> {
    let mut sums = BTreeMap::<(&'static str, bool), TypeSum>::new();
    for kernel in kernels {
        let FlopCount::Counted(parts) = &kernel.flops else {
            continue;
        };
        for part in parts {
            let (dtype, tensor) = (part.dtype, part.tensor);
            let sum = sums.entry((dtype, tensor)).or_default();
            (sum.dtype, sum.tensor, sum.launches) = (dtype, tensor, sum.launches + 1);
            sum.flops += part.flops;
            sum.seconds += kernel.seconds.unwrap_or_default();
        }
    }
    let total: Flops = sums.values().map(|sum| sum.flops).sum();
    let with_share = |sum: TypeSum| TypeSum {
        share: Ratio(sum.flops / total),
        ..sum
    };
    let mut sums: Vec<TypeSum> = sums.into_values().map(with_share).collect();
    // Equal sums keep the order of their names.
    sums.arrange_by(|a, b| b.flops.total_cmp(&a.flops));
    sums
}
