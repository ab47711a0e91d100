//! The SM clock during stages: from sampled hardware counters of the same pass, or from NVML.

use crate::Context;
use rooflens_session::{GpuId, Ns, PassId};
use rooflens_stats::mean;
use rooflens_units::Hertz;

/// Names of counters that hold the clock of the SMs, in megahertz.
const COUNTERS: [&str; 2] = ["GPC Clock Frequency", "SM Clock Frequency"];

/// Clock samples of a pass on its clock, by time.
pub struct Clocks {
    samples: Vec<(Ns, Hertz)>,
    /// Where they are from.
    pub source: &'static str,
}

impl Clocks {
    /// The samples of a GPU of a pass, or of all that the pass knows.
    pub fn of(context: &Context<'_>, pass: PassId, gpu: Option<GpuId>) -> Option<Self> {
        counters(context, pass, gpu).or_else(|| nvml(context, pass, gpu))
    }

    /// Mean clock over these times; none if no sample lies in one.
    pub fn mean(&self, times: impl Iterator<Item = (Ns, Ns)>) -> Option<Hertz> {
        let mut values = Vec::new();
        for (start, end) in times {
            let first = self.samples.partition_point(|sample| sample.0 < start);
            let last = self.samples.partition_point(|sample| sample.0 <= end);
            let inside = self.samples.get(first..last)?;
            values.extend(inside.iter().map(|(_, clock)| clock.0));
        }
        mean(&values).map(Hertz)
    }
}

fn counters(context: &Context<'_>, pass: PassId, gpu: Option<GpuId>) -> Option<Clocks> {
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
    let rows = (0..table.len()).filter(|row| {
        let same = gpu.is_none() || table.gpu[*row] == gpu;
        same && table.pass[*row] == pass
            && metrics.contains(&table.metric[*row])
            && table.value[*row] > 0.0
    });
    sorted(
        rows.map(|row| (table.time[row], Hertz(table.value[row] * 1e6))),
        "sampled GPU metrics",
    )
}

fn nvml(context: &Context<'_>, pass: PassId, gpu: Option<GpuId>) -> Option<Clocks> {
    let session = context.session;
    let table = &session.device_samples;
    let origin = session.passes.utc_origin[pass.index()]?;
    let of_pass = |id: &GpuId| session.gpus.pass[id.index()] == pass;
    let used = session
        .gpus
        .ids()
        .filter(|id| of_pass(id) && gpu.is_none_or(|gpu| gpu == *id));
    let used: Vec<u32> = used.map(|id| session.gpus.ordinal[id.index()]).collect();
    let alone = table.device.windows(2).all(|pair| pair[0] == pair[1]);
    let samples = (0..table.len()).filter(|row| alone || used.contains(&table.device[*row]));
    let samples = samples.filter_map(|row| {
        Some((
            table.utc[row].saturating_sub(origin),
            Hertz(f64::from(table.sm_mhz[row]?) * 1e6),
        ))
    });
    sorted(samples, "NVML samples")
}

fn sorted(samples: impl Iterator<Item = (Ns, Hertz)>, source: &'static str) -> Option<Clocks> {
    let mut samples: Vec<(Ns, Hertz)> = samples.collect();
    samples.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    (!samples.is_empty()).then_some(Clocks { samples, source })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rooflens_schemas::PassKind;

    use super::*;
    use crate::{Facts, Options};
    use rooflens_hardware::Hardware;
    use rooflens_session::{CounterSample, Session};

    #[test]
    fn each_gpu_has_the_mean_of_its_own_samples() {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "nsys/timeline.sqlite");
        let metric = session.intern("GPC Clock Frequency [MHz]");
        let gpus = [0, 1].map(|ordinal| session.gpu(pass, ordinal));
        for (gpu, values) in gpus
            .into_iter()
            .zip([[1980.0, 1900.0, 100.0], [1500.0, 1400.0, 100.0]])
        {
            for (time, value) in [10, 20, 30].into_iter().zip(values) {
                let gpu = Some(gpu);
                session.counter_samples.push(CounterSample {
                    time: Ns(time),
                    metric,
                    value,
                    pass,
                    gpu,
                });
            }
        }
        let facts = Facts::new(&session);
        let (hardware, options) = (Hardware::default(), Options::default());
        let context = Context::new(&session, &facts, &hardware, &options);
        let mean = |gpu| {
            Clocks::of(&context, pass, gpu)
                .unwrap()
                .mean([(Ns(5), Ns(25))].into_iter())
        };
        assert_eq!(mean(Some(gpus[0])), Some(Hertz(1940e6)));
        assert_eq!(mean(Some(gpus[1])), Some(Hertz(1450e6)));
        assert_eq!(mean(None), Some(Hertz(1695e6)));
    }
}
