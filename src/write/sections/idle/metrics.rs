//! Metrics of idle time and launches.

use rooflens_schemas::{Metric, Scope, Unit};

use super::causes;
use crate::Context;
use rooflens_analysis::time::idle::between::Between;
use rooflens_analysis::time::idle::{Cause, Line};
use rooflens_document::catalogue::{
    BETWEEN_HOST, BETWEEN_IDLE, BETWEEN_IDLE_SHARE, IDLE, IDLE_SHARE, LAUNCH_API_TIME,
    LAUNCHES_PER_STEP, LAUNCHES_PER_TOKEN, MEAN_KERNEL_TIME, QUEUE_DEPTH, QUEUE_EMPTY_SHARE,
    QUEUE_TIME,
};
use rooflens_document::{MetricDef, Quantity};

/// All metrics of a line.
pub(super) fn of_line(context: &Context<'_>, line: &Line) -> Vec<Metric> {
    let mut all = idle(context, line);
    all.extend(launches(context, line, &line.scope(context)));
    let evidence = line.evidence(context);
    all.iter_mut()
        .for_each(|metric| metric.evidence = vec![evidence.clone()]);
    all
}

fn idle(context: &Context<'_>, line: &Line) -> Vec<Metric> {
    let scope = line.scope(context);
    let over = format!(
        "÷ {} of {} instances ({} in all)",
        Quantity::ns(line.pool.time),
        line.instances.len(),
        line.summary.instances
    );
    let idle = line.idle();
    let basis = format!("idle time {} {over}", Quantity::ns(idle));
    let mut all = vec![
        IDLE.derived(
            scope.clone(),
            line.scaled(idle),
            format!("{basis} × stage time"),
        ),
        IDLE_SHARE.derived(scope.clone(), line.share(idle), basis),
    ];
    for cause in Cause::ALL {
        let (metric, _, meaning) = causes::of(cause);
        all.push(match line.of_stage(cause) {
            Err(missing) => metric.unavailable(scope.clone(), context.missing(missing)),
            Ok(time) => {
                let spread = line.spread(&[cause]);
                let (some, sum) = (spread.instances, Quantity::ns(line.of(cause)));
                let basis = format!(
                    "idle time {sum} {over} × stage time; in {some} of them at least 1 %: {meaning}"
                );
                metric.derived(scope.clone(), time, basis)
            }
        });
    }
    all
}

fn launches(context: &Context<'_>, line: &Line, scope: &Scope) -> Vec<Metric> {
    let launches = &line.launches;
    let mut all = Vec::new();
    let mut add = |metric: &MetricDef, value: Option<f64>, basis: String, reason: &str| {
        let value = value
            .map(|value| (value, basis))
            .ok_or_else(|| reason.to_owned());
        all.push(metric.known(scope.clone(), value));
    };
    let no_calls = match line.has_calls() {
        Ok(()) => "no launch of the stage has its API call in the artifact".to_owned(),
        Err(missing) => context.missing(missing),
    };
    let no_calls = no_calls.as_str();
    let calls = launches.calls;
    let or_no_calls = |reason| if calls == 0 { no_calls } else { reason };
    let basis = format!(
        "{calls} launch calls ÷ steps of {} instances",
        line.instances.len()
    );
    let reason = or_no_calls("the stage has no steps with a range of their own");
    add(&LAUNCHES_PER_STEP, launches.per_step, basis, reason);
    let basis = format!(
        "{calls} launch calls ÷ tokens of {} instances",
        line.instances.len()
    );
    let reason = or_no_calls("workload.toml does not state the sizes of the stage");
    add(&LAUNCHES_PER_TOKEN, launches.per_token, basis, reason);
    let basis = format!("{} ns ÷ {} kernels", launches.kernel_time, launches.kernels);
    let reason = "the stage runs no kernel that the artifact shows";
    add(&MEAN_KERNEL_TIME, launches.mean_kernel(), basis, reason);
    let mean = launches
        .mean_call
        .map(|time| Quantity::new(time, Unit::Nanoseconds).to_string());
    let basis = format!(
        "median of {calls} launch calls; mean {}",
        mean.unwrap_or_default()
    );
    add(&LAUNCH_API_TIME, launches.median_call, basis, no_calls);
    let basis = format!(
        "median from the return of the launch call to the start of its first operation; {} of {calls} began \
         before the return and are not in it",
        launches.begun_in_call
    );
    add(&QUEUE_TIME, launches.queue_time, basis, no_calls);
    let basis = format!(
        "launches issued and not begun, mean over busy time; at most {}",
        launches.depth_max
    );
    add(&QUEUE_DEPTH, launches.depth_mean(), basis, no_calls);
    let basis = "time in which no launch is issued and not begun ÷ time, over all instances that count; launches of \
                 all stages"
        .to_owned();
    add(
        &QUEUE_EMPTY_SHARE,
        line.queue_empty_share(),
        basis,
        no_calls,
    );
    all
}

/// Idle time between the stages, and its share of the run.
pub(super) fn between(context: &Context<'_>, one: &Between) -> Vec<Metric> {
    let scope = one.scope(context);
    let (windows, idle, run) = (one.windows(), one.idle(), one.run);
    let over = format!("{windows} times between instances of outermost stages that count");
    let basis = format!("idle time of {over}");
    let share = format!("idle time {idle} ns ÷ run {run} ns: the instances and {over}");
    let host = one
        .host()
        .map_err(|missing| context.missing(missing))
        .map(|host| {
            let basis =
                format!("that of it for which the host had not issued the next work, of {over}");
            (host as f64, basis)
        });
    let mut all = vec![
        BETWEEN_IDLE.derived(scope.clone(), idle as f64, basis),
        BETWEEN_IDLE_SHARE.derived(scope.clone(), one.share(idle), share),
        BETWEEN_HOST.known(scope, host),
    ];
    let evidence = one.evidence(context);
    all.iter_mut()
        .for_each(|metric| metric.evidence = vec![evidence.clone()]);
    all
}
