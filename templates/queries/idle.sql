-- Idle GPU time within stages by cause. A capture counts once for each pass and stage.
select cause, count(distinct capture) as captures, sum(gaps) as gaps, round(sum(total_ns) / 1e9, 6) as idle_s
from idle
group by cause
order by idle_s desc, cause;
