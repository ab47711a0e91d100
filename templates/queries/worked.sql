-- Findings and stage times: the median time of captures with a finding about a stage over that of captures without it, of
-- the same model, GPUs and sizes. A ratio above 1 goes with the fault; it does not prove that the fault is the cause.
with times as (
    select capture, model, gpu, gpus, workload, stage, coalesce(unprofiled_ns, profiled_ns) as ns
    from headline
    where coalesce(unprofiled_ns, profiled_ns) is not null
), found as (
    select distinct capture, stage, rule
    from findings
    where saved_ns is not null and stage is not null
), rules as (
    select distinct t.model, t.gpu, t.gpus, t.workload, t.stage, f.rule
    from times as t join found as f on t.capture = f.capture and t.stage = f.stage
), judged as (
    select r.rule as rule, t.model as model, t.gpu as gpu, t.stage as stage, t.workload as workload, t.gpus as gpus,
        case when f.capture is null then null else t.ns end as with_ns,
        case when f.capture is null then t.ns else null end as without_ns
    from rules as r
    join times as t on r.model = t.model and r.gpu = t.gpu and r.gpus = t.gpus and r.workload = t.workload and r.stage = t.stage
    left join found as f on f.capture = t.capture and f.stage = t.stage and f.rule = r.rule
)
select rule, model, gpu, stage, count(with_ns) as captures_with, count(without_ns) as captures_without,
    median(with_ns) / median(without_ns) as times
from judged
group by rule, model, gpu, gpus, workload, stage
having count(with_ns) >= 5 and count(without_ns) >= 5
order by times desc, rule, model, gpu, stage;
