//! What a bundle holds of its stages: the input of a prediction.

use std::collections::BTreeMap;

use rooflens_analysis::engine::classify::KernelClass;
use rooflens_analysis::engine::facts::{Captured, OpIndex, OpSource, StageInstance};
use rooflens_analysis::engine::measured_peaks::{Measured, gpu_name};
use rooflens_analysis::engine::stage_stats::{Summary, summaries};
use rooflens_analysis::kernels::gemm::slots;
use rooflens_analysis::kernels::matmul::roof::dtype;
use rooflens_analysis::kernels::matmul::{Gemm, Product, Shape};
use rooflens_analysis::time::idle::Cause;
use rooflens_analysis::{Context, Known, results};
use rooflens_hardware::{DTYPES, Gpu, element_bytes};
use rooflens_schemas::StageKind;
use rooflens_schemas::workload::Mode;
use rooflens_session::{Dim3, KernelId, Ns};
use rooflens_stats::quantile;

use rooflens_units::{Bytes, Count, Flops, Ratio, Time};

use super::{Device, Interval, Kernel, Stage, Work, stage::GAP};

/// The results that [`stages`] reads, for `Results::some`.
pub const RESULTS: [&str; 3] = ["baseline", "matmul", "idle"];

/// Causes of idle time that neither faster kernels nor graphs take away.
const KEPT: [Cause; 7] = [
    Cause::Sync,
    Cause::Allocator,
    Cause::Copy,
    Cause::Os,
    Cause::OffCpu,
    Cause::Communication,
    Cause::OtherWork,
];

/// Ceilings of a GPU as specified.
pub fn device(gpu: &Gpu) -> Device {
    let rates = gpu
        .peaks
        .iter()
        .map(|peak| (peak.dtype.clone(), peak.dense))
        .collect();
    Device {
        name: gpu.name.clone(),
        bandwidth: gpu.memory_bandwidth,
        rates,
        sms: Count(f64::from(gpu.sm_count)),
        measured: false,
    }
}

/// Ceilings of the measured GPU, as measured on it where the bundle has them; none if the GPU is not in the table.
pub fn own_device(context: &Context<'_>) -> Option<Device> {
    let name = gpu_name(context.session, context.facts.primary_pass(context.session));
    let gpu = context.gpu_spec(&name)?;
    let measured = Measured::of(context, &name);
    let mut device = device(gpu);
    if let Some(bandwidth) = measured.bandwidth() {
        (device.bandwidth, device.measured) = (bandwidth, true);
    }
    for dtype in DTYPES {
        if let Some(rate) = measured.rate(Some(gpu), dtype) {
            device.rates.retain(|(name, _)| name != dtype);
            device.rates.push(((*dtype).to_owned(), rate));
            device.measured = true;
        }
    }
    Some(device)
}

/// The outermost stages of the primary pass.
///
/// # Errors
/// What is missing if no pass has GPU work.
pub fn stages(context: &Context<'_>) -> Known<Vec<Stage>> {
    let primary = context.facts.primary_pass(context.session);
    let primary = primary.ok_or_else(|| results::no_gpu_work(context.session))?;
    let mut stages: Vec<Stage> = Vec::new();
    for summary in summaries(context.facts, primary) {
        if summary.is_outermost(context.facts) {
            stages.push(stage(context, summary));
        }
    }
    let paces = stages.iter().filter_map(|stage| stage.host_launch);
    let least = paces.reduce(Time::min);
    for stage in &mut stages {
        stage.host_launch = stage.host_launch.or(least);
    }
    Ok(stages)
}

fn stage(context: &Context<'_>, summary: &Summary) -> Stage {
    let (session, facts) = (context.session, context.facts);
    let kind = summary.kind(facts);
    let steps = summary
        .steps
        .filter(|steps| kind == StageKind::Decode && steps.is_positive());
    let unit = steps.unwrap_or(Count(1.0));
    let instances: Vec<&StageInstance> = summary.counted_instances(facts).collect();
    let number = unit * instances.len().max(1) as f64;
    let over = |value: &dyn Fn(&StageInstance) -> Time| {
        let times: Vec<Time> = instances
            .iter()
            .map(|instance| value(instance) / unit)
            .collect();
        quartiles(&times)
    };
    let ops: usize = instances.iter().map(|instance| instance.ops.len()).sum();
    let of_graph = |op: &&OpIndex| {
        matches!(facts.ops.source[**op as usize], OpSource::Graph(_))
            || facts.ops.captured[**op as usize] != Captured::NoGraph
    };
    let graphed: usize = instances
        .iter()
        .map(|instance| instance.ops.iter().filter(of_graph).count())
        .sum();
    let baseline = context.results.baseline().ok();
    let baseline = baseline.and_then(|baseline| baseline.of_summary(context, summary));
    let time = match baseline {
        Some((series, _)) => {
            let mut times = Vec::new();
            for repeat in &series.repeats {
                let per_step = steps.and(repeat.per_step());
                times.push(per_step.unwrap_or(repeat.duration.time()));
            }
            quartiles(&times)
        }
        None => over(&|instance| instance.time().unwrap_or(Ns::ZERO).time()),
    };
    let sum: Ns = instances.iter().map(|instance| instance.sum).sum();
    let mut stage = Stage {
        name: summary.label(session, facts),
        per_step: steps.is_some(),
        static_shapes: kind != StageKind::Prefill,
        time,
        profiled: baseline.is_none(),
        busy: over(&|instance| instance.busy.time() / instance.gpus.len().max(1) as f64),
        sum: sum.time() / number,
        launches: Count(ops as f64 / number.0),
        graph: graphed * 2 > ops,
        host_launch: None,
        host_range: summary.host / unit,
        kept: kept(context, summary, unit),
        kernels: kernels(context, &instances, number),
    };
    let idle = (stage.time.mid - stage.busy.mid) / stage.launches.max(Count(1.0));
    let is_paced = !stage.graph && idle > GAP.high;
    stage.host_launch = is_paced.then(|| stage.time.mid / stage.launches.max(Count(1.0)));
    stage
}

/// First quartile, median and third quartile.
fn quartiles(times: &[Time]) -> Interval {
    let mut values: Vec<f64> = times.iter().map(|time| time.0).collect();
    values.sort_by(f64::total_cmp);
    let [low, mid, high] =
        [0.25, 0.5, 0.75].map(|share| Time(quantile(&values, share).unwrap_or(0.0)));
    Interval { low, mid, high }
}

/// Idle time per unit of the causes that stay, on the process's first GPU.
fn kept(context: &Context<'_>, summary: &Summary, unit: Count) -> Vec<(&'static str, Time)> {
    let Ok(idle) = context.results.idle() else {
        return Vec::new();
    };
    let Some(line) = idle.of(summary.stage, summary.process).next() else {
        return Vec::new();
    };
    let number = line.instances.len().max(1) as f64 * unit;
    let mut times = Vec::new();
    for cause in KEPT {
        let time = line.pool.causes.of(cause).time() / number;
        if time.is_positive() {
            times.push((cause.label(), time));
        }
    }
    times
}

/// Kernel, grid, block and size of launches that are alike; attention is alike whatever the number of its keys.
type Key = (KernelClass, Option<KernelId>, Dim3, Dim3, Option<Gemm>);

/// Launches that are alike: number, time, work of all, and a row of the first.
#[derive(Default)]
struct Group {
    launches: Count,
    time: Time,
    work: Option<Work>,
    row: Option<usize>,
}

fn kernels(context: &Context<'_>, instances: &[&StageInstance], number: Count) -> Vec<Kernel> {
    let (session, facts) = (context.session, context.facts);
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    for op in instances.iter().flat_map(|instance| &instance.ops) {
        let index = *op as usize;
        let row = match facts.ops.source[index] {
            OpSource::Launch(launch) => Some(launch.index()),
            OpSource::Copy(_) | OpSource::Graph(_) => None,
        };
        let (kernel, launches) = (facts.kernel(session, *op), &session.launches);
        let size = |sizes: &[Dim3]| {
            row.and_then(|row| sizes.get(row).copied())
                .unwrap_or_default()
        };
        let product = context
            .results
            .matmul()
            .ok()
            .and_then(|products| products.get(*op));
        let product = product.filter(|product| product.main);
        let gemm = product.and_then(|product| match product.shape {
            Shape::Gemm(gemm) => Some(gemm),
            _ => None,
        });
        let class = facts.class(session, index);
        let key = (
            class,
            kernel,
            size(&launches.grid),
            size(&launches.block),
            gemm,
        );
        let group = groups.entry(key).or_default();
        group.launches += Count(1.0);
        let duration = facts.ops.end[index].saturating_sub(facts.ops.start[index]);
        group.time += duration.time();
        group.row = group.row.or(row);
        if let (Some(product), Some(kernel)) = (product, kernel) {
            let work = work(context, product, kernel);
            let sum = group.work.get_or_insert(Work {
                flops: Flops::ZERO,
                weights: Bytes::ZERO,
                inputs: Bytes::ZERO,
                outputs: Bytes::ZERO,
                ..work
            });
            sum.flops += work.flops;
            sum.weights += work.weights;
            sum.inputs += work.inputs;
            sum.outputs += work.outputs;
        }
    }
    let mut kernels: Vec<Kernel> = groups
        .iter()
        .map(|(key, group)| kernel(context, key, group, number))
        .collect();
    kernels.sort_by(|a, b| (b.time * b.launches).total_cmp(&(a.time * a.launches)));
    kernels
}

fn kernel(context: &Context<'_>, key: &Key, group: &Group, number: Count) -> Kernel {
    let (class, kernel, grid, _, _) = *key;
    let name = gpu_name(context.session, context.facts.primary_pass(context.session));
    let gpu = context.gpu_spec(&name);
    let slots = group.row.and_then(|row| slots(context.session, gpu, row));
    let sms = gpu.map_or(1, |gpu| u64::from(gpu.sm_count)).max(1);
    // A grid of whole blocks per SM is that of a kernel that takes its work in a loop.
    let loops = grid.volume() % sms == 0;
    let grows = matches!(
        class,
        KernelClass::Elementwise
            | KernelClass::Layout
            | KernelClass::Gather
            | KernelClass::Quantization
            | KernelClass::Normalization
            | KernelClass::Softmax
    );
    let per_launch = |sum: Bytes| sum / group.launches;
    Kernel {
        kernel,
        class,
        launches: Count(group.launches / number),
        time: group.time / group.launches,
        waves: slots
            .filter(|slots| *slots > 0)
            .map(|slots| Ratio(grid.volume() as f64 / slots as f64)),
        grid_grows: grows && !loops,
        work: group.work.map(|work| Work {
            flops: work.flops / group.launches,
            weights: per_launch(work.weights),
            inputs: per_launch(work.inputs),
            outputs: per_launch(work.outputs),
            ..work
        }),
    }
}

/// The work of a product: which of its bytes are weights, and which grow with the batch.
fn work(context: &Context<'_>, product: &Product, kernel: KernelId) -> Work {
    let identity = &context.facts.identities[kernel.index()];
    let element = element_bytes(product.operand).unwrap_or_default();
    let output = element_bytes(product.output).unwrap_or(element);
    let work = Work {
        flops: product.shape.flops(),
        dtype: dtype(identity, product),
        element,
        ..Work::default()
    };
    match product.shape {
        Shape::Gemm(gemm) => {
            let [m, n, k, batch] = [gemm.m, gemm.n, gemm.k, gemm.batch].map(|size| size as f64);
            let (rows, columns, outputs) = (
                batch * m * k * element,
                batch * k * n * element,
                batch * m * n * output,
            );
            if gemm.batch > 1 {
                return Work {
                    inputs: rows + columns,
                    outputs,
                    ..work
                };
            }
            let head = context
                .session
                .model
                .as_ref()
                .is_some_and(|model| model.vocab == gemm.n);
            if sums_over_tokens(context, gemm) {
                return Work {
                    inputs: rows + columns,
                    weights: outputs,
                    ..work
                };
            }
            Work {
                weights: columns,
                inputs: rows,
                outputs,
                linear: !head,
                ..work
            }
        }
        Shape::Attention(attention) => Work {
            inputs: attention.bytes(element),
            ..work
        },
        Shape::Convolution { .. } => work,
    }
}

/// Gradients of weights sum over the tokens: their output does not grow with them.
fn sums_over_tokens(context: &Context<'_>, gemm: Gemm) -> bool {
    let workload = &context.session.workload;
    if workload.mode != Some(Mode::Training) {
        return false;
    }
    let tokens = workload
        .batch
        .zip(workload.prompt_tokens)
        .map(|(batch, prompt)| batch * prompt);
    tokens.is_some_and(|tokens| tokens > 1 && gemm.k == tokens && gemm.m != tokens)
}
