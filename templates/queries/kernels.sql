-- Kernels by the GPU time that they took in all captures. A capture counts the run with the most kernel time.
-- A name has one class; should versions of Rooflens disagree, it is the last by name. Groups by one text are the fastest.
-- Rounded to microseconds: engines add in different orders, and equal sums are to stay in the order of their names.
select name, max(class) as class, sum(once) as captures, sum(count) as launches, round(sum(total_ns) / 1e9, 6) as gpu_s
from kernels
where counted = 1
group by name
order by gpu_s desc, name
limit 20;
