//! Measured peaks that the bundle's own GEMMs exceed: they were not the best that the GPU can do, and bound nothing.

use std::collections::BTreeMap;

use super::roof::dtype;
use super::{Product, Shape, Source, launch_of};
use crate::engine::facts::OpIndex;
use crate::engine::intervals::add;
use crate::engine::measured_peaks::{Measured, gpu_name};
use crate::{Context, Known};
use rooflens_session::{KernelId, Ns, PassId};
use rooflens_units::{FlopsPerSecond, Ratio};

/// Rate ÷ measured peak from which on it is exceeded: less may be noise.
const ABOVE: Ratio = Ratio(1.02);

/// Time of launches that compute the same from which on their rate counts.
const ENOUGH: Ns = Ns(100_000);

/// A measured peak, and the rate of GEMMs above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beaten {
    /// Dtype of the rate.
    pub dtype: &'static str,
    /// Measured peak.
    pub measured: FlopsPerSecond,
    /// The highest rate that launches of one kernel and size have.
    pub reached: FlopsPerSecond,
}

/// The measured peaks that GEMMs of known sizes exceed, by dtype.
pub fn compute(context: &Context<'_>) -> Known<Vec<Beaten>> {
    let session = context.session;
    let mut by_dtype: BTreeMap<&'static str, Beaten> = BTreeMap::new();
    for ((pass, kernel, product), (launches, time)) in groups(context) {
        let dtype = dtype(&context.facts.identities[kernel.index()], &product);
        let name = gpu_name(session, Some(pass));
        let measured = Measured::recorded(context, &name).rate(context.gpu_spec(&name), dtype);
        let Some(measured) = measured.filter(|_| time >= ENOUGH) else {
            continue;
        };
        let reached = product.shape.flops() * launches as f64 / time.time();
        if reached < measured * ABOVE {
            continue;
        }
        let beaten = by_dtype.entry(dtype).or_insert(Beaten {
            dtype,
            measured,
            reached,
        });
        beaten.reached = beaten.reached.max(reached);
    }
    Ok(by_dtype.into_values().collect())
}

/// What computes the same by one kernel in one pass.
type Key = (PassId, KernelId, Product);

/// GEMMs whose sizes are sure: launches, and their time.
fn groups(context: &Context<'_>) -> BTreeMap<Key, (u64, Ns)> {
    let (session, facts) = (context.session, context.facts);
    let mut groups: BTreeMap<Key, (u64, Ns)> = BTreeMap::new();
    let Ok(products) = context.results.matmul() else {
        return groups;
    };
    if session.measured_peaks.is_empty() || !products.is_any_known() {
        return groups;
    }
    for op in 0..facts.ops.len() {
        let sure = |product: &&Product| {
            let source = matches!(
                product.source,
                Source::Operator | Source::SameOrder | Source::Log
            );
            product.main && source && matches!(product.shape, Shape::Gemm(_))
        };
        let product = products.get(op as OpIndex).filter(sure);
        let Some((product, row)) = product.zip(launch_of(facts, op as OpIndex)) else {
            continue;
        };
        let launches = &session.launches;
        let sum = groups
            .entry((launches.pass[row], launches.kernel[row], *product))
            .or_default();
        sum.0 += 1;
        add(
            &mut sum.1,
            launches.end[row].saturating_sub(launches.start[row]),
        );
    }
    groups
}
