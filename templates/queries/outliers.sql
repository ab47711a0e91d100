-- Captures with a stage that takes over 1.5 times the median of the same model, GPUs and sizes.
with groups as (
    select model, gpu, gpus, workload, stage, count(*) as captures, median(coalesce(unprofiled_ns, profiled_ns)) as mid_ns
    from headline
    group by model, gpu, gpus, workload, stage
)
select h.capture as capture, h.run as run, h.stage as stage, coalesce(h.unprofiled_ns, h.profiled_ns) / g.mid_ns as times_median
from headline as h
join groups as g on h.model = g.model and h.gpu = g.gpu and h.gpus = g.gpus and h.workload = g.workload and h.stage = g.stage
where g.captures >= 5 and coalesce(h.unprofiled_ns, h.profiled_ns) > 1.5 * g.mid_ns
order by times_median desc, capture, stage;
