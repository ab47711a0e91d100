//! The SM clock during a stage: from sampled hardware counters of the same pass, or from NVML.

use crate::analysis::Context;
use crate::analysis::facts::StageInstance;
use crate::analysis::stats::mean;
use crate::model::{Ns, PassId};

/// Names of counters that hold the clock of the SMs, in megahertz.
const COUNTERS: [&str; 2] = ["GPC Clock Frequency", "SM Clock Frequency"];

/// Clock samples of a pass on its clock, by time.
pub(super) struct Clocks {
    samples: Vec<(Ns, f64)>,
    /// Where they are from.
    pub(super) source: &'static str,
}

impl Clocks {
    /// The samples of a pass; of its GPU if the pass knows several.
    pub(super) fn of(context: &Context<'_>, pass: PassId) -> Option<Self> {
        counters(context, pass).or_else(|| nvml(context, pass))
    }

    /// Mean clock in hertz over the projections of these instances; none if no sample lies in one.
    pub(super) fn mean<'a>(
        &self,
        instances: impl Iterator<Item = &'a StageInstance>,
    ) -> Option<f64> {
        let mut values = Vec::new();
        for (start, end) in instances.filter_map(|one| one.projection) {
            let first = self.samples.partition_point(|sample| sample.0 < start);
            let last = self.samples.partition_point(|sample| sample.0 <= end);
            values.extend(self.samples.get(first..last)?.iter().map(|sample| sample.1));
        }
        mean(&values)
    }
}

fn counters(context: &Context<'_>, pass: PassId) -> Option<Clocks> {
    let session = context.session;
    let table = &session.counter_samples;
    if table.is_empty() {
        return None;
    }
    let mut metrics = table.metric.clone();
    metrics.sort_unstable();
    metrics.dedup();
    let is_clock =
        |name: &str| COUNTERS.iter().any(|prefix| name.starts_with(prefix)) && name.contains("MHz");
    metrics.retain(|id| is_clock(session.text(*id)));
    let own = (0..table.len()).filter(|row| {
        table.pass[*row] == pass && metrics.contains(&table.metric[*row]) && table.value[*row] > 0.0
    });
    sorted(own.map(|row| (table.time[row], table.value[row] * 1e6)), "sampled GPU metrics")
}

fn nvml(context: &Context<'_>, pass: PassId) -> Option<Clocks> {
    let session = context.session;
    let table = &session.device_samples;
    let origin = session.passes.utc_origin[pass.index()]?;
    let used = (0..session.gpus.len()).filter(|row| session.gpus.pass[*row] == pass);
    let used: Vec<u32> = used.map(|row| session.gpus.ordinal[row]).collect();
    let alone = table.device.windows(2).all(|pair| pair[0] == pair[1]);
    let own = (0..table.len()).filter(|row| alone || used.contains(&table.device[*row]));
    let own = own.filter_map(|row| {
        Some((table.utc[row].saturating_sub(origin), f64::from(table.sm_mhz[row]?) * 1e6))
    });
    sorted(own, "NVML samples")
}

fn sorted(samples: impl Iterator<Item = (Ns, f64)>, source: &'static str) -> Option<Clocks> {
    let mut samples: Vec<(Ns, f64)> = samples.collect();
    samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    (!samples.is_empty()).then_some(Clocks { samples, source })
}
