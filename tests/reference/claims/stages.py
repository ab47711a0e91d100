"""Findings about stages, derived from the artifact by itself: a pattern of each statement and what its words should say.

A pattern has a group for each number and name of the statement. A derivation gives the value of each group: shares as ratios,
times in nanoseconds. Definitions: docs/methodology.md, docs/findings.md.
"""

import collections
import statistics

from parts import (alone, between, bytes_of, copies_of, host, kernels_of, largest_group, library_samples, median_busy,
                          no_tensor_cores, os_calls, sync_calls, tf32_gemms, unattributed, unknown_kernels)
from idle import LABELS, kind

WORDS = {"host code": "CPU code outside CUDA", "launching": "kernel launch", "blocking copy": "blocking memcpy",
         "operating system": "OS call", "off CPU": "CPU thread off CPU", "collective": "waiting for a collective",
         "queue, latency": "queue latency"}
CAUSE = {cause: WORDS.get(label, label) for cause, label in LABELS.items()}
APART = ", excluding stalls in few of them"
PAUSES = "intermittent CPU stalls"
IDLE = r"(?:The GPU is idle for (?P<share>\S+ %) of .+?(?: \((?P<least>\S+ %) to (?P<most>\S+ %) by iteration\))?)"
FEW = (r"(?:In (?P<few>\S+) of (?P<all>\S+) iterations of .+? the GPU is idle for (?P<time>\S+ \S+) in all, up to "
       r"(?P<up_share>\S+ %) of an iteration,)")
IDLES = f"(?:{IDLE}|{FEW})"
SAMPLED = r"(?: The issuing thread was sampled (?P<samples>\S+) times while the GPU waits for it: (?P<libraries_text>.+)\.)?"


def pooled(found, *causes):
    return sum(times[cause] for _, _, _, times in found for cause in causes) / sum(whole for _, _, whole, _ in found)


def median_time(found):
    return statistics.median(whole for _, _, whole, _ in found)


def of_idle(work, found, causes):
    """The words about idle time that rules share."""
    shares = [sum(times[cause] for cause in causes) / whole for _, _, whole, times in found]
    return dict(share=pooled(found, *causes), least=min(shares), most=max(shares), up_share=max(shares),
                gain=pooled(found, *causes) * median_time(found),
                few=sum(share >= 0.01 for share in shares), all=len(shares),
                time=sum(times[cause] for _, _, _, times in found for cause in causes))


def stage_busy(work, stage, process, found):
    busy = median_busy(found)
    causes = {CAUSE[cause]: pooled(found, cause) for cause in CAUSE if cause != "unknown" or pooled(found, cause) > 0}
    if work.pauses:
        pauses = beyond_typical(work, stage, process, found) / sum(whole for _, _, whole, _ in found)
        causes |= {PAUSES: pauses, CAUSE["host_code"]: causes[CAUSE["host_code"]] - pauses}
    # What fewer than half of the instances have, at 1 % or more, is theirs and not the stage's.
    occurs = {CAUSE[cause]: sum(times[cause] >= 0.01 * whole for _, _, whole, times in found) for cause in CAUSE}
    common = {cause: own for cause, own in causes.items()
              if occurs[CAUSE["host_code"] if cause == PAUSES else cause] * 2 >= len(found)}
    largest, cause = max(causes, key=causes.get), max(common or causes, key=causes.get)
    group, share = largest_group(work, stage, process)
    exposed = statistics.median(alone(work, one, "communication") for one, *_ in found)
    time = median_time(found)
    sizes = [op.end - op.start for one, *_ in found for op in one.ops]
    return dict(time=time, share=1 - busy, busy_share=busy, cause_text=cause, cause_share=causes[cause],
                apart_text=APART if largest != cause else "", count=len(found),
                sole_text=cause, group_text=group, group_share=share, exposed_share=exposed / time,
                operations=statistics.median(len(one.ops) for one, *_ in found), mean=statistics.mean(sizes))


def allocation(work, stage, process, found):
    calls, share = host(work, stage, process, lambda name: kind(name) == "allocation")
    return dict(of_idle(work, found, ["allocation"]), calls=calls, calls_share=share)


def host_bound(work, stage, process, found):
    causes = ["host_code", "os", "off_cpu"]
    whole = pooled(found, *causes)
    samples, libraries = library_samples(work, found, causes)
    pauses = beyond_typical(work, stage, process, found) / sum(whole for _, _, whole, _ in found)
    besides = pooled(found, *causes) - pauses
    told = of_idle(work, found, causes)
    if work.pauses:
        told["gain"] = besides * median_time(found)
    waits = pooled(found, "host_code") < pooled(found, "os", "off_cpu")
    return dict(told, besides_share=besides, os_share=pooled(found, "os") / whole, samples=samples,
                does_text="waits" if waits else "works", calls_text=os_calls(work, found),
                off_share=pooled(found, "off_cpu") / whole, libraries_text=libraries)


def launch_bound(work, stage, process, found):
    samples, libraries = library_samples(work, found, ["launching"])
    kernels = kernels_of(work, found)
    vanish = ("launching", "first_use", "allocation", "os", "off_cpu")
    gain = sum(statistics.median(times[cause] for _, _, _, times in found) for cause in vanish)
    host_code = sum(times["host_code"] for _, _, _, times in found)
    typical = host_code - beyond_typical(work, stage, process, found, least=float("-inf"))
    if gaps_with(work, found, "host_code") >= 5 * len(found):
        gain += typical / len(found)
    launching = sum(times["launching"] for _, _, _, times in found)
    others = [sum(times[cause] for _, _, _, times in found) for cause in LABELS if cause not in ("launching", "host_code")]
    if launching < max(typical, *others):
        gain = pooled(found, "launching") * median_time(found)
    steps = sum(work.steps(one) for one, *_ in found)
    calls = {call for one, *_ in found for op in one.ops for call in [work.call(op)] if call and "aunch" in call[1][3]}
    return dict(of_idle(work, found, ["launching"]), samples=samples, libraries_text=libraries,
                launches=len(calls) / steps if steps else None,
                gain=min(gain, (1 - median_busy(found)) * median_time(found)),
                operations=statistics.median(len(one.ops) for one, *_ in found),
                kernel=statistics.mean(op.end - op.start for op in kernels),
                call=statistics.median(call[1] - call[0] for _, call in calls) if calls else None)


def gaps_with(work, found, cause):
    """Number of gaps with time of a cause."""
    number = 0
    for one, gpu, _, _ in found:
        first, last = min(op.start for op in one.ops), max(op.end for op in one.ops)
        for gap in work.gaps_within(gpu, first, last):
            number += any(max(start, first) < min(end, last) for start, end, own in gap[2] if own == cause)
    return number


def queue_gaps(work, stage, process, found):
    lengths = []
    for one, gpu, _, _ in found:
        first, last = min(op.start for op in one.ops), max(op.end for op in one.ops)
        for gap in work.gaps_within(gpu, first, last):
            time = sum(max(min(end, last) - max(start, first), 0) for start, end, cause in gap[2] if cause == "queue")
            lengths += [time] if time else []
    return dict(of_idle(work, found, ["queue"]), gaps=len(lengths), mean=statistics.mean(lengths) if lengths else 0)


def sync_bound(work, stage, process, found):
    calls, longest, around = sync_calls(work, stage, process)
    causes = ["sync", "copy"]
    return dict(of_idle(work, found, causes), copies_share=pooled(found, "copy") / pooled(found, *causes), calls=calls,
                call_text=longest, around_text=around)


def first_use(work, stage, process, found):
    return of_idle(work, found, ["first_use"])


def short_kernels(work, stage, process, found):
    ops = [op for one, *_ in found for op in one.ops]
    kernels = kernels_of(work, found)
    return dict(mean=statistics.mean(op.end - op.start for op in ops),
                operations=statistics.median(len(one.ops) for one, *_ in found),
                kernel=statistics.mean(op.end - op.start for op in kernels) if kernels else None)


def exposed_copies(work, stage, process, found):
    time = median_time(found)
    own = [one for one, *_ in found]
    # The link still carries them, both directions at once at best.
    only = sum(alone(work, one, "copies and memsets") for one in own) / len(own)
    return dict(share=statistics.median(alone(work, one, "copy") for one in own) / time, gain=min(only, time - only / 2),
                bytes=statistics.median(bytes_of(work, one) for one in own),
                kernels_share=statistics.median(alone(work, one, "kernels") for one in own) / time)


def pageable_copies(work, stage, process, found):
    pageable, crossing, times = 0, 0, []
    for one, *_ in found:
        copies = copies_of(work, one)
        times.append(sum(op.end - op.start for op, _ in copies))
        pageable += sum(size for op, size in copies if op.pageable)
        crossing += sum(size for op, size in copies if work.crosses(op))
    time = median_time(found)
    share = pageable / crossing if crossing else None
    return dict(pageable_share=share, share=statistics.median(times) / time,
                gain=share * statistics.median(times) if crossing else None)


def exposed_communication(work, stage, process, found):
    time = median_time(found)
    exposed = statistics.median(alone(work, one, "communication") for one, *_ in found)
    return dict(share=exposed / time, gain=exposed)


def beyond_typical(work, stage, process, found, least=0):
    """Host code beyond that of as many typical instances, or steps where there are few instances."""
    times = [times["host_code"] for _, _, _, times in found]
    steps = [times["host_code"] for _, _, _, times in work.idle(f"{stage}_step", process)] if len(times) < 3 else []
    if len(times) < 3 and not steps:
        return 0
    typical = statistics.median(steps) * len(steps) if steps else statistics.median(times) * len(times)
    return max(sum(times) - typical, least)


def host_pauses(work, stage, process, found):
    beyond = beyond_typical(work, stage, process, found)
    listed = longest_stalls(work, found)
    return dict(time=beyond, gain=beyond, all=len(found), **listed)


def longest_stalls(work, found):
    """The longest stretches of host code in the longest gaps, and what most of them end with."""
    gaps = []
    for one, gpu, _, _ in found:
        first, last = min(op.start for op in one.ops), max(op.end for op in one.ops)
        for gap in work.gaps_within(gpu, first, last):
            time = collections.Counter()
            for start, end, cause in gap[2]:
                time[cause] += max(min(end, last) - max(start, first), 0)
            gaps.append((gap, time))
    listed = sorted(gaps, key=lambda one: one[0][0] - one[0][1])[:20]
    stalls = [(gap, time) for gap, time in listed if time and time.most_common(1)[0][0] == "host_code"]
    ended = collections.Counter()
    for gap, _ in stalls:
        ended[work.ended_by(gap[1])] += gap[1] - gap[0]
    whole = sum(gap[1] - gap[0] for gap, _ in stalls)
    name, most = ended.most_common(1)[0] if ended else (None, 0)
    return dict(longest=max(time["host_code"] for _, time in gaps), listed=len(stalls), whole=whole, ended_by=name,
                ended_share=most / whole if whole else None,
                ended_count=sum(work.ended_by(gap[1]) == name for gap, _ in stalls))


# Of each rule the pattern of its statement and its derivation.
RULES = {
    "stage-busy": (
        r".+? takes (?P<time>\S+ \S+)(?: for \S+ steps)?; the GPU is (?:busy for (?P<busy_share>\S+ %) of it"
        r"(?:\. Shares of busy time: (?P<group_text>.+?) (?P<group_share>\S+ %)(?:; [^.]+(?:\.\d+ %[^.]*)*)?)?"
        r"|idle for (?P<share>\S+ %) of it(?: and runs operations of other stages or iterations for (?P<other_share>\S+ %))?"
        r"(?:\. Main cause over (?P<count>\S+) profiled iterations?(?P<apart_text>" + APART + r"|): (?P<cause_text>.+), "
        r"(?P<cause_share>\S+ %) of (?:its|their) time)?(?:\. Cause: (?P<sole_text>[^.]+?))?"
        r"(?:, between (?P<operations>\S+) operations of (?P<mean>\S+ \S+) on average)?)\."
        r"(?: Exposed communication takes (?P<exposed_share>\S+ %) of stage time"
        r"(?:, up to (?P<waiting_share>\S+ %) of it waiting for the last rank to arrive)?\.)?", stage_busy),
    "allocator-stalls": (
        f"(?:{IDLES} inside calls that allocate or free memory|.+? makes (?P<calls>\\S+) CUDA calls? that allocate or free "
        r"memory; they take (?P<calls_share>\S+ %) of its time on the CPU)\.", allocation),
    "host-bound": (
        r"(?:Excluding intermittent stalls, the GPU is idle for (?P<besides_share>\S+ %) of .+?|" + IDLES
        + r") while the CPU thread (?P<does_text>works|waits) outside CUDA calls"
        r"(?:, (?P<os_share>\S+ %) of this idle time in operating-system calls(?: \((?P<calls_text>[^)]+)\))?)?(?:, (?P<off_share>\S+ %) of this idle time off CPU \(preempted or blocked\))?\."
        r"(?: In \S+ % of the CPU code of its longest gaps the loop waits for the DataLoader's next batch\.)?"
        + SAMPLED, host_bound),
    "first-use": (f"{IDLES} inside calls that load code, launch a kernel for the first time, or instantiate a graph\\.",
                  first_use),
    "queue-gaps": (
        f"{IDLES} between operations (?:already launched|replayed by a CUDA graph)"
        r"(?: \((?P<gaps>\S+) gaps? over all measured iterations, mean (?P<mean>\S+ \S+)\))?, after the CPU issued them\.",
        queue_gaps),
    "sync-bound": (
        f"{IDLES} inside synchronizing calls(?: and blocking copies \\((?P<copies_share>\\S+ %) of this idle time\\))?"
        r"(?: \(median (?P<calls>\S+) calls per iteration\))?, before they return\."
        r"(?: Longest in (?P<call_text>\S+?)(?: in (?P<around_text>.+))?\.)?", sync_bound),
    "launch-bound": (
        f"(?:.+? is launch-bound\\. )?{IDLES} while the CPU issues the next operation"
        r"(?:; (?P<launches>\S+) launches per step)?(?:; (?P<operations>\S+) GPU operations per iteration)?"
        r"(?:; mean kernel duration (?P<kernel>\S+ \S+?))?(?:; median launch call (?P<call>\S+ \S+?))?\." + SAMPLED,
        launch_bound),
    "short-kernels": (
        r"(?:Kernels in .+? last (?P<kernel>\S+ \S+)|GPU operations in .+? last (?P<mean>\S+ \S+)) on average, with "
        r"(?P<operations>\S+) operations per iteration"
        r"(?:, comparable to the cost of a kernel launch\.|\. CUDA graphs replay at least half of them.+)", short_kernels),
    "exposed-copies": (
        r".+? spends (?P<share>\S+ %) of its time in transfers not overlapped with kernels; it transfers (?P<bytes>\S+ \S+) "
        r"per iteration, and kernels without concurrent transfers take (?P<kernels_share>\S+ %) of its time\.", exposed_copies),
    "pageable-copies": (
        r"(?P<pageable_share>\S+ %) of the bytes that .+? transfers between host and GPU use pageable memory; memory "
        r"transfers take (?P<share>\S+ %) of stage time\. Pageable transfers are staged and can block the CPU thread\.",
        pageable_copies),
    "exposed-communication": (r"Exposed communication takes (?P<share>\S+ %) of .+?"
                              r"(?:; up to (?P<waiting_share>\S+ %) of it is waiting for the last rank to arrive)?\.",
                              exposed_communication),
    "host-pauses": (
        r".+? loses (?P<time>\S+ \S+) over (?P<all>\S+) measured iterations? to intermittent CPU stalls absent from (?:the median "
        r"iteration|median steps); the longest lasts (?P<longest>\S+ \S+?)"
        r"(?:\. The (?P<listed>\S+) longest stalls take (?P<whole>\S+ \S+); (?P<ended_share>\S+ %) of it "
        r"is in (?P<ended_count>\S+) stalls? that directly precedes? (?:.+?)"
        r"(?: in range .+)?)?\.", host_pauses),
    "between-stages": (
        r"The GPU is idle between stages for (?P<share>\S+ %) of the (?P<run>\S+ \S+) of the measured loop, the largest part between "
        r"(?P<after_text>.+) and (?P<before_text>.+) \(median (?P<median>\S+ \S+), n = (?P<n>\S+)\)\. Largest cause there: "
        r"(?P<cause_text>.+?)(?:; the range (?P<range_text>.+) covers (?P<range_share>\S+ %) of the time between them)?\.",
        between),
    "attribution-coverage": (
        r"(?:(?P<inferred_share>\S+ %) of operations in .+? were issued by a thread without NVTX ranges, such as the autograd thread\. "
        r"They are assigned to the range of the only other thread that had one open\.|(?P<share>\S+ %) of GPU time in pass .+?, from the first "
        r"stage on, belongs to no stage; stage figures exclude it\.)", unattributed),
    "no-tensor-cores": (
        r"(?:GEMMs in fp32 run without tensor cores for (?P<time>\S+ \S+), (?P<share>\S+ %) of kernel time; the largest is "
        r"(?P<kernel_text>.+)|Convolutions in (?P<dtype_text>\S+) run without tensor cores for (?P<convolutions>\S+ \S+), "
        r"(?P<convolutions_share>\S+ %) of kernel time; the largest is (?P<convolution_kernel_text>.+))\.", no_tensor_cores),
    "tf32-gemms": (
        r"GEMMs run in TF32 for (?P<time>\S+ \S+), (?P<share>\S+ %) of kernel time; the largest is (?P<kernel_text>.+)\.",
        tf32_gemms),
    "unknown-kernels": (
        r"(?P<share>\S+ %) of kernel time in pass .+? is in kernels that are neither classified by name nor known to be "
        r"application kernels(?:; the largest is (?P<kernel_text>.+))?\.", unknown_kernels),
}
