"""Parts of findings about stages that need more than idle time by cause: copies, calls, samples, times between stages."""

import bisect
import collections
import re
import sqlite3
import statistics

from cpu_samples import HOST
from cpu_samples import samples as samples_of
from idle import kind, process_of, rows, union, within
from instances import MARK, covered, outermost, projection
from kernel_names import (class_of, group_of, CONVOLUTIONS, is_fp32_engine, is_fp32_transform, is_fp32_without_tensor_cores,
                          is_fp32_between, is_tf32_product)


def details(work, op):
    return work.capture.details[op.rank]


def kernels_of(work, found):
    return [op for one, *_ in found for op in one.ops if not op.copy]


def is_program_alone(work):
    """Whether no framework ran: kernels without a class are the program's own."""
    names = (details(work, op)["name"] or "" for op in work.capture.ops)
    return not work.source.passes("operators") and not any(re.search(r"at::|c10::|triton", name) for name in names)


def largest_group(work, stage, process):
    """The group of kernels with most busy time: a computing kernel first, of several the one that began first."""
    times = collections.Counter()
    for one in work.counted(stage, process):
        for gpu in {op.gpu for op in one.ops}:
            own = [(class_of(details(work, op)), op) for op in one.ops if op.gpu == gpu]
            taken = []
            for place in (lambda c: c not in ("communication", "copy"), lambda c: c == "communication", lambda c: c == "copy"):
                for name, op in own:
                    if place(name):
                        free = uncovered([(op.start, op.end)], taken)
                        times[group_of(details(work, op))] += free
                        taken = insert(taken, op.start, op.end) if free else taken
    if "Shares of busy time: other" in work.statement:
        # All that has no group of its own.
        times["other"] = sum(times.pop(name, 0) for name in ("other", "FFT", "sorting, top-k", "pooling, resampling", "compiler fusion"))
    group, most = times.most_common(1)[0]
    return "application kernel" if group == "other" and is_program_alone(work) else group, most / times.total()


def insert(taken, start, end):
    """Disjoint sorted times with one more."""
    first = bisect.bisect_left(taken, start, key=lambda own: own[1])
    last = bisect.bisect_right(taken, end, key=lambda own: own[0])
    if first < last:
        start, end = min(start, taken[first][0]), max(end, taken[last - 1][1])
    taken[first:last] = [[start, end]]
    return taken


def uncovered(intervals, cover):
    """Length of the union of times that disjoint sorted others do not cover."""
    left = 0
    for start, end in union(intervals):
        at = bisect.bisect_right(cover, start, key=lambda own: own[1])
        left += end - start
        while at < len(cover) and cover[at][0] < end:
            left -= min(end, cover[at][1]) - max(start, cover[at][0])
            at += 1
    return left


def is_of(work, op, what):
    name = class_of(details(work, op))
    if what == "copy":
        return op.copy and "MEMSET" not in details(work, op)["kind"].upper()
    if what == "copies and memsets":
        return op.copy
    if what == "communication":
        return name == "communication"
    return not op.copy and (what == "kernels" or name != "communication")


def alone(work, one, what):
    """Time of copies without kernels, of kernels without copies, of collectives without computing kernels; by GPU."""
    other = {"copy": "kernels", "kernels": "copy", "communication": "compute", "copies and memsets": "kernels"}[what]
    total = 0
    gpus = {op.gpu for op in one.ops}
    for gpu in gpus:
        own = [(op.start, op.end) for op in one.ops if op.gpu == gpu and is_of(work, op, what)]
        cover = union((op.start, op.end) for op in work.capture.ops if op.gpu == gpu and is_of(work, op, other)) if own else []
        total += uncovered(own, cover)
    return total / len(gpus)


def copies_of(work, one):
    return [(op, details(work, op)["bytes"] or 0) for op in one.ops if is_of(work, op, "copy")]


def bytes_of(work, one):
    return sum(size for _, size in copies_of(work, one))


def starting_in(work, one):
    """The calls of the process that start in the range of an instance and lie in no other call, by thread."""
    for thread, calls in work.capture.calls.items():
        if process_of(thread) == one.process:
            for call in calls:
                if one.start is None or one.start <= call[0] < one.end:
                    yield thread, call


def host(work, stage, process, wanted):
    """Median number of such calls of an instance, and their share of its time on the host.

    A whole capture has no range on the host: from the first start to the last end of its calls."""
    numbers, times, hosts = [], [], []
    for one in work.counted(stage, process):
        own = list(starting_in(work, one))
        chosen = [call for _, call in own if wanted(call[3])]
        numbers.append(len(chosen))
        times.append(sum(call[1] - call[0] for call in chosen))
        hosts.append(one.end - one.start if one.start is not None else
                     max((call[1] for _, call in own), default=0) - min((call[0] for _, call in own), default=0))
    if not any(hosts):
        return 0, 0
    return statistics.median(numbers), statistics.median(times) / statistics.median(hosts)


def is_sync(work, thread, call):
    if "Synchronize" in call[3] or kind(call[3]) == "copy":
        return True
    first = work.capture.first.get((process_of(thread), call[2]))
    return first is not None and first.pageable and work.direction(first) == "DtoH"


def sync_time(work, stage, process):
    """Median time in synchronizing calls of an instance."""
    own = [[call[1] - call[0] for thread, call in starting_in(work, one) if is_sync(work, thread, call)]
           for one in work.counted(stage, process)]
    return statistics.median(map(sum, own))


def sync_calls(work, stage, process):
    """Median number of synchronizing calls of an instance, and the call with most gaps charged to it, with its operator."""
    numbers, charged = [], collections.Counter()
    syncs = {thread: [call for call in calls if is_sync(work, thread, call)] for thread, calls in work.capture.calls.items()}
    ends = {thread: [call[1] for call in calls] for thread, calls in syncs.items()}
    for one in work.counted(stage, process):
        numbers.append(sum(is_sync(work, thread, call) for thread, call in starting_in(work, one)))
    first_of = {(op.gpu, op.start): op for op in reversed(work.capture.ops)}
    for gpu in {op.gpu for op in work.capture.ops}:
        for start, end, _ in work.gaps(gpu):
            thread, call = work.call(first_of[gpu, end]) or (None, None)
            if call is None or call[0] <= start:
                continue
            at = bisect.bisect_right(ends[thread], start)
            waiting = syncs[thread][at] if at < len(syncs[thread]) else None
            if waiting and waiting[0] < call[0] and in_stage(work, stage, process, waiting):
                # Until the call returns.
                charged[waiting[3].split("_v")[0], around(work, thread, waiting)] += min(end, waiting[1]) - start
    (name, place), _ = charged.most_common(1)[0] if charged else ((None, None), 0)
    return statistics.median(numbers), name, place


def in_stage(work, stage, process, call):
    return any(one.start is None or one.start <= call[0] < one.end for one in work.counted(stage, process))


def around(work, thread, call):
    """The innermost operator around a call, else the ranges around it, the outermost first."""
    operators = [own for own in work.capture.cpu_ops.get(thread, []) if own[0] <= call[0] < own[1]]
    if operators:
        return max(operators)[2]
    ranges = [(start, end, name) for start, end, own, name in work.ranges if own == thread and start <= call[0] < -end and name]
    return " › ".join(name.removeprefix(MARK) for *_, name in ranges) or None


def percent(share):
    value = share * 100
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f} %"


def library_samples(work, found, causes):
    """CPU samples of the issuing thread in idle time with a cause of the host, and the three libraries with most."""
    if not getattr(work.capture, "path", None):
        return None, None
    if work.samples is None:
        work.samples = samples_of(work.capture.path)
    libraries, total = collections.Counter(), 0
    first_of = {(op.gpu, op.start): op for op in reversed(work.capture.ops)}
    for one, gpu, _, _ in found:
        first, last = projection(one)
        for start, end, parts in work.gaps_within(gpu, first, last):
            found_call = work.call(first_of[gpu, end])
            own = work.samples.get(found_call[0], []) if found_call else []
            for begin, finish, cause in parts if cause_of_host(parts) else []:
                low = bisect.bisect_left(own, (max(begin, first),))
                for _, library, _ in own[low:bisect.bisect_left(own, (min(finish, last),))] if cause in HOST else []:
                    libraries[library] += 1
    total = libraries.total()
    return total, ", ".join(f"{percent(count / total)} in {name}" for name, count in libraries.most_common(3))


def os_calls(work, found):
    """The calls of the operating system with at least a tenth of the idle time in such calls, the three longest."""
    if not getattr(work.capture, "path", None):
        return None
    names, calls = work.capture.names, collections.defaultdict(list)
    with sqlite3.connect(f"file:{work.capture.path}?mode=ro", uri=True) as db:
        for row in rows(db, "OSRT_API", ["start", "end", "globalTid", "nameId"]):
            calls[row[2]].append(row)
    times = collections.Counter()
    first_of = {(op.gpu, op.start): op for op in reversed(work.capture.ops)}
    for one, gpu, _, _ in found:
        first, last = projection(one)
        for start, end, parts in work.gaps_within(gpu, first, last):
            found_call = work.call(first_of[gpu, end])
            own = calls.get(found_call[0], []) if found_call else []
            for begin, finish, cause in parts:
                begin, finish = max(begin, first), min(finish, last)
                if cause != "os" or begin >= finish:
                    continue
                inside = [call for call in own if call[0] < finish and call[1] > begin]
                for call in inside:
                    if not any(other[0] <= call[0] and call[1] <= other[1] and other is not call for other in inside):
                        times[names[call[3]]] += min(call[1], finish) - max(call[0], begin)
    most = sorted(times.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(name for name, time in most if time >= 0.1 * times.total()) if most else None


def cause_of_host(parts):
    return any(cause in HOST for _, _, cause in parts)


def chain(work):
    """Outermost instances of all stages of a process on a GPU, by the start of their work, and whether each counts."""
    key = "chain", tuple(work.stages)
    if key in work.memo:
        return work.memo[key]
    found = []
    for stage in work.stages:
        for process, instances in work.instances(stage).items():
            counts = {id(one) for one in work.counted(stage, process)}
            found += [(*projection(one), one, id(one) in counts) for one in instances if one.ops]
    outer = set(map(id, outermost(own[2] for own in found)))
    work.memo[key] = sorted((own for own in found if id(own[2]) in outer), key=lambda own: own[:2])
    return work.memo[key]


def next_range(work, pair, windows):
    """The range on the thread of the windows that begins in them and covers most of their time."""
    covers = collections.defaultdict(list)
    for start, end, driver in windows:
        for begin, finish, thread, name in work.ranges:
            if thread == driver and start <= begin < end and name and name not in pair:
                covers[name].append((begin, min(-finish, end)))
    if not covers:
        return None, 0
    name = max(covers, key=lambda name: covered(covers[name]))
    return name, covered(covers[name]) / sum(end - start for start, end, _ in windows)


def product_share(work, stage, process):
    ops = [op for one in work.counted(stage, process) for op in one.ops]
    products = sum(op.end - op.start for op in ops if class_of(details(work, op)) == "gemm")
    return products / sum(op.end - op.start for op in ops)


def unattributed(work, stage, process, found):
    """Time in no stage, from the first one on; operations of the stage that another thread issued."""
    if stage and found:
        ops = [(one, op) for one in work.counted(stage, process) for op in one.ops]
        lent = sum(work.call(op)[0] != one.thread for one, op in ops) / len(ops) if ops[0][0].thread is not None else 0
    inside = {op.rank for stage in work.stages for list_ in work.instances(stage).values() for one in list_ for op in one.ops}
    first = min(op.start for op in work.capture.ops if op.rank in inside)
    after = [op for op in work.capture.ops if op.start >= first]
    outside = sum(op.end - op.start for op in after if op.rank not in inside)
    return dict(share=outside / sum(op.end - op.start for op in after), inferred_share=lent)


def by_name(work, wanted, mean=0):
    """Time of kernels that take longer than this on average, and of all."""
    times, counts, whole = collections.Counter(), collections.Counter(), 0
    for op in work.capture.ops:
        if not op.copy:
            whole += op.end - op.start
            if wanted(details(work, op)):
                times[details(work, op)["name"]] += op.end - op.start
                counts[details(work, op)["name"]] += 1
    return collections.Counter({name: time for name, time in times.items() if time > mean * counts[name]}), whole


def in_loop(work, wanted):
    """Time of kernels in the measured loop, without those of stages that the CPU bounds."""
    from chains import measured_loop, stages_of
    from line import Line

    window = measured_loop(work)
    bounded = {op.rank for stage, process in stages_of(work) if Line(work, stage, process).is_host_bound()
               for one in work.instances(stage)[process] for op in one.ops}
    return sum(op.end - op.start for op in work.capture.ops if not op.copy and op.rank not in bounded and window
               and window[0] <= op.start and op.end <= window[1] and wanted(details(work, op)))


def saved_by(work, wanted, slow, fast):
    """What kernels of the measured loop save at the dense rate of another type."""
    from operators import RATES

    return in_loop(work, wanted) * (1 - RATES[slow] / RATES[fast])


def no_tensor_cores(work, stage, process, found):
    times, whole = by_name(work, lambda one: is_fp32_without_tensor_cores(one) or is_fp32_engine(one) or CONVOLUTIONS["fp32"](one))
    transforms = by_name(work, is_fp32_transform)[0].total()
    time = times.total() + transforms
    dtype = "bf16" if "bf16 convolutions" in work.statement else "fp16"
    half = by_name(work, CONVOLUTIONS[dtype])[0]
    # Other types have the rate of single precision without tensor cores.
    if "convolutions run" in work.statement and not work.statement.startswith("fp32"):
        gain = saved_by(work, CONVOLUTIONS[dtype], "simt fp32", dtype)
    else:
        gain = saved_by(work, lambda one: is_fp32_without_tensor_cores(one) or is_fp32_engine(one) or CONVOLUTIONS["fp32"](one),
                        "simt fp32", "fp32") + in_loop(work, is_fp32_transform)
    return dict(gain=gain, time=time, share=time / whole, transforms=transforms, kernel_text=longest(times), convolutions=half.total(),
                convolutions_share=half.total() / whole, convolution_kernel_text=longest(half))


def longest(times):
    return times.most_common(1)[0][0].replace("__half", "fp16") if times else None


def tf32_gemms(work, stage, process, found):
    times, whole = by_name(work, is_tf32_product, 5_000)
    others = by_name(work, is_fp32_between, 5_000)[0]
    return dict(time=times.total(), share=times.total() / whole, kernel_text=times.most_common(1)[0][0], others=others.total())


def unknown_kernels(work, stage, process, found):
    times, whole = by_name(work, lambda one: class_of(one) == "other")
    return dict(share=times.total() / whole, kernel_text=times.most_common(1)[0][0])
