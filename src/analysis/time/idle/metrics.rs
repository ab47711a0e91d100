//! Metrics of idle time and launches.

use rooflens_schemas::{Evidence, Metric, StageKind, Unit};

use super::cause::Cause;
use super::line::Line;
use crate::analysis::Context;
use crate::findings::{Quantity, derived, unavailable};
use crate::model::{PassId, Session};

/// What the artifact of a pass can tell of idle time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    calls: bool,
    os: bool,
    off_cpu: bool,
    profiler: bool,
}

impl Traced {
    /// What the tables hold of a pass.
    pub(super) fn new(session: &Session, pass: PassId) -> Self {
        Self {
            calls: session.api_calls.pass.contains(&pass),
            os: session.os_calls.pass.contains(&pass),
            off_cpu: session.off_cpu.pass.contains(&pass),
            profiler: session.overheads.pass.contains(&pass),
        }
    }

    /// Why a cause cannot be told, if it cannot.
    fn missing(self, cause: Cause) -> Option<&'static str> {
        match cause {
            Cause::Unknown | Cause::OtherWork => None,
            _ if !self.calls => Some("the artifact holds no CUDA call"),
            Cause::Os if !self.os => Some(
                "the artifact holds no call of the operating system; capture with -t cuda,nvtx,osrt",
            ),
            Cause::OffCpu if !self.off_cpu => Some(
                "the artifact holds no event of the scheduler; capture with --cpuctxsw=process-tree",
            ),
            Cause::Profiler if !self.profiler => Some("the artifact tells no profiler overhead"),
            _ => None,
        }
    }
}

/// All metrics of a line.
pub(super) fn metrics(context: &Context<'_>, line: &Line, traced: Traced) -> Vec<Metric> {
    let mut all = idle(context, line, traced);
    all.extend(launches(context, line, traced));
    let pass = line.summary.stage(context.facts).pass;
    let artifact = context.session.passes.artifact[pass.index()];
    let evidence = Evidence {
        artifact: context.session.text(artifact).to_owned(),
        table: Some("launches, copies, api_calls, os_calls, off_cpu, overheads".to_owned()),
        rows: Some(line.sums.iter().map(|sum| sum.gaps).sum()),
    };
    for metric in &mut all {
        metric.evidence = vec![evidence.clone()];
    }
    all
}

fn idle(context: &Context<'_>, line: &Line, traced: Traced) -> Vec<Metric> {
    let scope = line.scope(context);
    let time = |time| Quantity::new(line.per_instance(time), Unit::Nanoseconds);
    let over = format!(
        "the instance of median stage time, {} ({} of {} instances count)",
        time(line.middle.time),
        line.instances,
        line.summary.instances
    );
    let idle = line.idle();
    let basis = format!("stage time − busy time {} of {over}", time(line.middle.busy.total()));
    let value = line.per_instance(idle);
    let mut all = vec![derived("idle", scope.clone(), Unit::Nanoseconds, value, basis)];
    let basis = format!("idle {} ÷ stage time of {over}", time(idle));
    all.push(derived("idle_share", scope.clone(), Unit::Ratio, line.share(idle), basis));
    for cause in Cause::ALL {
        let (id, unit) = (cause.metric(), Unit::Nanoseconds);
        if let Some(reason) = traced.missing(cause) {
            all.push(unavailable(id, scope.clone(), unit, reason));
            continue;
        }
        let basis = format!("idle time in which {}, of {over}", cause.meaning());
        all.push(derived(id, scope.clone(), unit, line.per_instance(line.of(cause)), basis));
    }
    all
}

fn launches(context: &Context<'_>, line: &Line, traced: Traced) -> Vec<Metric> {
    let scope = line.scope(context);
    let launches = &line.launches;
    let mut all = Vec::new();
    let mut add = |id: &str, unit, value: Option<f64>, basis: String, reason: &str| {
        all.push(match value {
            Some(value) => derived(id, scope.clone(), unit, value, basis),
            None => unavailable(id, scope.clone(), unit, reason),
        });
    };
    let no_calls = match traced.calls {
        true => "no launch of the stage has its API call in the artifact",
        false => "the artifact holds no CUDA call",
    };
    let calls = launches.calls;
    let basis = format!("{calls} launch calls ÷ steps of {} instances", line.instances);
    let reason =
        if calls == 0 { no_calls } else { "the stage has no steps with a range of their own" };
    add("launches_per_step", Unit::Count, per_step(context, line), basis, reason);
    let basis = format!("{calls} launch calls ÷ tokens of {} instances", line.instances);
    let reason = match calls {
        0 => no_calls,
        _ => "workload.toml does not state the sizes of the stage",
    };
    add("launches_per_token", Unit::One, per_token(context, line), basis, reason);
    let basis = format!("{} ns ÷ {} kernels", launches.kernel_time, launches.kernels);
    let (mean, reason) =
        (launches.mean_kernel(), "the stage runs no kernel that the artifact shows");
    add("mean_kernel_time", Unit::Nanoseconds, mean, basis, reason);
    let basis = format!("{} ns ÷ {calls} launch calls", launches.call_time);
    add("launch_api_time", Unit::Nanoseconds, launches.mean_call(), basis, no_calls);
    let basis = format!(
        "median from the return of the launch call to the start of its first operation; {} of {calls} began \
         before the return and are not in it",
        launches.begun_in_call
    );
    add("queue_time", Unit::Nanoseconds, launches.queue_time, basis, no_calls);
    let basis = format!(
        "launches issued and not begun, mean over busy time; at most {}",
        launches.depth_max
    );
    add("queue_depth", Unit::One, launches.depth_mean(), basis, no_calls);
    let empty = (calls > 0).then(|| line.queue_empty_share());
    let basis =
        "time in which no launch is issued and not begun ÷ stage time, of the instance of median \
                 stage time; launches of all stages"
            .to_owned();
    add("queue_empty_share", Unit::Ratio, empty, basis, no_calls);
    all
}

/// Launch calls of a step: a decode step, or a training step.
pub(super) fn per_step(context: &Context<'_>, line: &Line) -> Option<f64> {
    let steps = match line.summary.kind(context.facts) {
        StageKind::DecodeStep | StageKind::TrainStep => 1.0,
        _ => line.summary.steps?,
    };
    per(line, steps)
}

/// Launch calls of a token that the stage processes or produces, over the whole batch.
pub(super) fn per_token(context: &Context<'_>, line: &Line) -> Option<f64> {
    let pass = line.summary.stage(context.facts).pass;
    let pass = context.session.pass_name(pass);
    let workload = context.session.workload.for_pass(pass);
    let tokens = match line.summary.kind(context.facts) {
        StageKind::Decode => line.summary.steps.or(workload.output_tokens.map(|n| n as f64))?,
        StageKind::DecodeStep => 1.0,
        StageKind::Optimizer | StageKind::Other => return None,
        StageKind::Prefill | StageKind::Forward | StageKind::Backward | StageKind::TrainStep => {
            workload.prompt_tokens? as f64
        }
    };
    per(line, tokens * workload.batch? as f64)
}

fn per(line: &Line, things: f64) -> Option<f64> {
    let launches = line.launches.calls as f64 / line.instances.max(1) as f64;
    (line.launches.calls > 0 && things > 0.0).then(|| launches / things)
}
