-- Model FLOPs utilization by model, GPU and stage.
select model, gpu, stage, count(*) as captures, min(mfu) as low, median(mfu) as mid, max(mfu) as high
from headline
where mfu is not null
group by model, gpu, stage
order by captures desc, model, gpu, stage;
