-- Stages whose median time is over 5 % longer with one driver than with another, of the same model, GPUs and sizes.
-- Five captures for each driver at least: the median of fewer moves by chance alone.
with medians as (
    select model, gpu, gpus, workload, stage, driver, count(*) as captures, median(coalesce(unprofiled_ns, profiled_ns)) as mid_ns
    from headline
    where driver is not null
    group by model, gpu, gpus, workload, stage, driver
)
select a.model as model, a.gpu as gpu, a.stage as stage, a.driver as before, b.driver as after,
    a.captures as captures_before, b.captures as captures_after, b.mid_ns / a.mid_ns - 1 as slower
from medians as a
join medians as b on a.model = b.model and a.gpu = b.gpu and a.gpus = b.gpus and a.workload = b.workload and a.stage = b.stage
where a.captures >= 5 and b.captures >= 5 and b.mid_ns > 1.05 * a.mid_ns
order by slower desc, model, gpu, stage, before, after;
