//! Measured peaks that the bundle's own GEMMs exceed: they were not the best that the GPU can do.

use std::collections::BTreeMap;

use super::roof::{bytes, dtype};
use super::{Product, Shape, Source, launch_of};
use crate::engine::facts::OpIndex;
use crate::engine::intervals::add;
use crate::engine::measured_peaks::{Measured, gpu_name};
use crate::{Context, Known};
use rooflens_session::{KernelId, Ns, PassId};
use rooflens_units::Ratio;

/// Rate ÷ measured peak from which on it is exceeded: less may be noise.
const ABOVE: Ratio = Ratio(1.02);

/// Time of launches that compute the same from which on their rate counts.
const ENOUGH: Ns = Ns(100_000);

/// A measured peak, and what GEMMs reach above it, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beaten {
    /// What was measured: a dtype, or `copy`.
    pub what: &'static str,
    /// Measured peak.
    pub measured: f64,
    /// The most that launches of one kernel and size reach together.
    pub reached: f64,
    /// The most that one launch reaches.
    pub most: f64,
}

impl Beaten {
    /// Whether it is exceeded by more than noise.
    pub fn is_invalid(&self) -> bool {
        self.reached >= self.measured * ABOVE.0
    }
}

/// The measured peaks that GEMMs of known sizes exceed.
pub fn compute(context: &Context<'_>) -> Known<Vec<Beaten>> {
    let session = context.session;
    let mut beaten: BTreeMap<&'static str, Beaten> = BTreeMap::new();
    for ((pass, kernel, product), group) in groups(context) {
        let dtype = dtype(&context.facts.identities[kernel.index()], &product);
        let name = gpu_name(session, Some(pass));
        let recorded = Measured::recorded(context, &name);
        let rate = recorded.rate(context.gpu_spec(&name), dtype);
        let mut works = Vec::new();
        if group.time >= ENOUGH {
            works.push((dtype, rate.map(|rate| rate.0), product.shape.flops().0));
        }
        // A launch this long moves more bytes than caches hold.
        if group.shortest >= ENOUGH {
            let bytes = bytes(&product).map_or(0.0, |bytes| bytes.0);
            let bandwidth = recorded.bandwidth().map(|bandwidth| bandwidth.0);
            works.push(("copy", bandwidth, bytes));
        }
        for (what, measured, work) in works {
            let Some(measured) = measured else { continue };
            let most = work / group.shortest.time().seconds().0;
            let mean = group.time.time() / group.launches as f64;
            let reached = work / mean.seconds().0;
            let peak = beaten.entry(what).or_insert(Beaten {
                what,
                measured,
                reached,
                most,
            });
            peak.reached = peak.reached.max(reached);
            peak.most = peak.most.max(most);
        }
    }
    let beaten = beaten.into_values();
    Ok(beaten.filter(|peak| peak.most > peak.measured).collect())
}

/// Launches that compute the same.
struct Group {
    launches: u64,
    time: Ns,
    shortest: Ns,
}

/// What computes the same by one kernel in one pass.
type Key = (PassId, KernelId, Product);

/// GEMMs whose sizes are sure.
fn groups(context: &Context<'_>) -> BTreeMap<Key, Group> {
    let (session, facts) = (context.session, context.facts);
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
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
        let time = launches.end[row].saturating_sub(launches.start[row]);
        let key = (launches.pass[row], launches.kernel[row], *product);
        let group = groups.entry(key).or_insert(Group {
            launches: 0,
            time: Ns::ZERO,
            shortest: Ns::MAX,
        });
        group.launches += 1;
        group.shortest = group.shortest.min(time).max(Ns(1));
        add(&mut group.time, time);
    }
    groups
}
