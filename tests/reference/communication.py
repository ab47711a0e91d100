"""Communication figures of a capture of several ranks, derived without Rooflens.

usage: communication.py | communication.py EXPORT.sqlite [NVML.csv] | communication.py RANK0.json[.gz] RANK1.json[.gz] ...

Without arguments: derives the figures of `h200x2-ddp` and `h100x2-parallel` from the export, the NVML samples and the traces
of both ranks, for `tests/data/expected`.

One nsys export with all ranks in it, or one PyTorch trace a rank. Prints, for each rank, the whole pass and
(nsys) each range that the default domain names: communication, exposed communication, waiting and transfer
time, as nanoseconds; what the ends of collectives say of the clocks; bytes on the bus by operation where they are
recorded; who waits in messages; and by range how much slower the same kernels are on the slower rank, with the
mean SM clocks if NVML samples are given. Uses the standard library alone.
"""

import contextlib
import csv
import gzip
import json
import sqlite3
import statistics
import struct
import sys
from collections import defaultdict
from decimal import Decimal

import expected


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def covered(a, b):
    """Length of the intersection of two disjoint sorted lists, by a merge."""
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


class Rank:
    def __init__(self):
        # (start, end, name, api start, api thread, (operation, bytes of the message) or None)
        self.nccl, self.compute, self.copies = [], [], []
        self.ranges = []  # (start, end, name, thread)
        self.grids = {}  # of computing kernels


def payloads(db):
    """By thread, in order: begin and end in which NCCL launches a kernel, operation, bytes of the message."""
    columns = {row[1] for row in db.execute("pragma table_info(NVTX_EVENTS)")}
    tables = {row[0] for row in db.execute("select name from sqlite_master")}
    if "binaryData" not in columns or "NVTX_PAYLOAD_SCHEMA_ENTRIES" not in tables:
        return {}
    fields = defaultdict(dict)
    for schema, name, offset, kind in db.execute(
        "select schemaId, name, coalesce(offset, 0), type from NVTX_PAYLOAD_SCHEMA_ENTRIES"
    ):
        fields[schema][name] = (offset, {5: "<i", 18: "<Q", 22: "<Q"}.get(kind))
    events = db.execute(
        "select n.start, n.end, n.globalTid, coalesce(n.text, s.value), n.binaryData from NVTX_EVENTS n "
        "left join StringIds s on s.id = n.textId where n.domainId != 0 and n.eventType = 59 order by n.start"
    ).fetchall()
    size_of, held, found = {}, {}, defaultdict(list)
    for start, end, tid, name, blob in events:
        said = {}
        if blob is not None:
            _, schema, _, at = struct.unpack_from("<4Q", blob)
            said = {key: struct.unpack_from(form, blob, at + offset)[0]
                    for key, (offset, form) in fields[schema].items() if form}
        communicator = (tid & ~0xFFFFFF, said.get("NCCL communicator ID"))
        if "No. of ranks" in said:
            size_of[communicator] = said["No. of ranks"]
        elif "Message size [bytes]" in said:
            ranks = size_of[communicator]
            whole = {"ncclAllGather": ranks, "ncclReduceScatter": ranks, "ncclAlltoAll": ranks}.get(name, 1)
            call = (name, said["Message size [bytes]"] * whole)
            if name in ("ncclSend", "ncclRecv"):
                held[tid] = call  # of a group of its own, which launches at its end
            else:
                found[tid].append((start, end, call))
        elif name == "ncclGroupEnd" and tid in held:
            found[tid].append((start, end, held.pop(tid)))
    return found


def nsys(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    ranks = defaultdict(Rank)
    calls = {}
    mask = ~0xFFFFFF
    for start, tid, correlation in db.execute(
        "select start, globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME order by start desc"
    ):
        calls[tid & mask, correlation] = (start, tid)
    query = (
        "select k.start, k.end, s.value, k.globalPid, k.deviceId, k.correlationId, k.gridX, k.gridY, k.gridZ "
        "from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.demangledName"
    )
    device = {}
    said = payloads(db)

    def message(at, tid):
        return next((call for start, end, call in said.get(tid, ()) if start <= at < end), None)

    for start, end, name, pid, gpu, correlation, *grid in db.execute(query):
        device[pid] = gpu
        at, tid = calls.get((pid, correlation), (None, None))
        if "nccl" in name.lower():
            ranks[gpu].nccl.append((start, end, name, at, tid, message(at, tid)))
        else:
            ranks[gpu].compute.append((start, end, name, at, tid, None))
            ranks[gpu].grids[ranks[gpu].compute[-1]] = tuple(grid)
    for table in ("MEMCPY", "MEMSET"):
        for start, end, pid, gpu, correlation in db.execute(
            f"select start, end, globalPid, deviceId, correlationId from CUPTI_ACTIVITY_KIND_{table}"
        ):
            ranks[gpu].copies.append((start, end, table, *calls.get((pid, correlation), (None, None)), None))
    for start, end, name, tid in db.execute(
        "select n.start, n.end, coalesce(n.text, s.value), n.globalTid from NVTX_EVENTS n "
        "left join StringIds s on s.id = n.textId where n.domainId = 0 and n.eventType = 59"
    ):
        ranks[device[tid & mask]].ranges.append((start, end, name, tid))
    return [ranks[gpu] for gpu in sorted(ranks)]


def kineto(path):
    opener = gzip.open if path.endswith(".gz") else open
    events = json.load(opener(path), parse_float=Decimal)["traceEvents"]
    rank = Rank()
    for event in events:
        if event.get("ph") != "X" or event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        start = int(Decimal(event["ts"]) * 1000)
        end = start + int(Decimal(event["dur"]) * 1000)
        name, args = event["name"], event["args"]
        size = {"BFloat16": 2, "Float": 4}.get(args.get("dtype"))
        nbytes = max(args["In msg nelems"], args["Out msg nelems"]) * size if size else None
        call = (args["Collective name"], nbytes) if size else None
        row = (start, end, name, None, None, call)
        if event["cat"] != "kernel":
            rank.copies.append(row)
        elif "nccl" in name.lower():
            rank.nccl.append(row)
        else:
            rank.compute.append(row)
    return rank


def match(ranks):
    """Pairs of indices into the sorted collectives of two ranks, by the shift with the steadiest ends."""
    a, b = (sorted(rank.nccl) for rank in ranks)
    best = None
    for shift in range(-3, 4):
        ends = [b[i + shift][1] - a[i][1] for i in range(len(a)) if 0 <= i + shift < len(b)]
        middle = statistics.median(ends)
        spread = statistics.median(abs(end - middle) for end in ends)
        best = min(best or (spread, shift), (spread, shift))
    shift = best[1]
    return [(a[i], b[i + shift]) for i in range(len(a)) if 0 <= i + shift < len(b)], shift


def attributed(rank, window):
    """Operations whose call starts in the range, on its thread, or on a thread without ranges of its own."""
    start, end, _, thread = window
    own = {tid for *_, tid in rank.ranges}

    def inside(row):
        at, tid = row[3], row[4]
        if at is None or not start <= at < end:
            return False
        return tid == thread or tid not in own

    return [[row for row in rows if inside(row)] for rows in (rank.nccl, rank.compute, rank.copies)]


def figures(rank, nccl, ops, waits):
    comm = union(row[:2] for row in nccl)
    compute = union(row[:2] for row in rank.compute)
    window = max(row[1] for row in ops) - min(row[0] for row in ops)
    return {
        "time": window,
        "compute": length(union(row[:2] for row in ops if row in set(rank.compute))),
        "comm": length(comm),
        "exposed": length(comm) - covered(comm, compute),
        "wait": sum(waits[row][0] for row in nccl if row in waits),
        "transfer": sum(waits[row][1] for row in nccl if row in waits),
        "matched": sum(row in waits for row in nccl),
        "calls": len(nccl),
    }


def samples(path, export):
    """NVML samples on the clock of an export: time, GPU, SM clock in MHz, reasons."""
    db = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
    (zero,) = db.execute("select utcEpochNs from TARGET_INFO_SESSION_START_TIME").fetchone()
    with open(path, newline="") as file:
        return [(int(row["t_ns"]) - zero, int(row["gpu"]), float(row["sm_mhz"]), int(row["throttle_reasons"]))
                for row in csv.DictReader(file)]


def halves(pairs):
    """Half of what the ends of each collective that joins the ranks differ by: how far each is from their mean."""
    joined = [p for p in pairs if "Broadcast" not in p[0][2] and not is_message(p[0])]
    return [(p[1][1] - p[0][1]) / 2 for p in joined]


def waiting(pairs):
    """Wait and transfer of each collective on each of two ranks; messages are sent by the first rank."""
    waits = [{}, {}]
    for pair in pairs:
        transfer = min(row[1] - row[0] for row in pair)
        for at, row in enumerate(pair):
            waits[at][row] = (row[1] - row[0] - transfer, transfer)
    apart = round(2 * statistics.median(halves(pairs)))
    sent = [pair for pair in pairs if is_message(pair[0])]
    assert all("end" in pair[0][5][0] and "ec" in pair[1][5][0] for pair in sent)
    least = defaultdict(lambda: 1 << 62)
    for first, _ in sent:
        least[first[5]] = min(least[first[5]], first[1] - first[0])
    for first, second in sent:
        later, time = second[0] - first[0] - apart, first[1] - first[0]
        wait = min(later, time - least[first[5]])
        wait = wait if wait > 5000 else 0
        waits[0][first] = (wait, time - wait)
        waits[1][second] = (max(0, min(-later, second[1] - second[0])), time - wait)
    return waits


class Run:
    """Two ranks whose collectives are paired."""

    def __init__(self, paths):
        self.ranks = nsys(paths[0]) if len(paths) == 1 else [kineto(path) for path in paths]
        self.pairs, self.shift = match(self.ranks)
        self.halves = halves(self.pairs)
        self.offset = statistics.median(self.halves)
        self.waits = waiting(self.pairs)
        self.sent = [pair for pair in self.pairs if is_message(pair[0])]

    def residuals(self):
        return [abs(half - self.offset) for half in self.halves]

    def whole(self, at):
        rank = self.ranks[at]
        return figures(rank, rank.nccl, rank.nccl + rank.compute + rank.copies, self.waits[at])

    def stages(self, at):
        """The figures of each instance, by name of its range."""
        by_name = defaultdict(list)
        for window in sorted(self.ranks[at].ranges):
            nccl, compute, copies = attributed(self.ranks[at], window)
            ops = nccl + compute + copies
            if ops:
                by_name[window[2]].append(figures(self.ranks[at], nccl, ops, self.waits[at]))
        return by_name

    def bus(self, at):
        """By operation: calls of a recorded size, bytes on the bus and time of transfer."""
        found = {}
        for name in sorted({row[5][0] for row in self.ranks[at].nccl if row[5]}):
            sized = [row for row in self.ranks[at].nccl if row[5] and row[5][0] == name]
            waits = self.waits[at]
            time = sum(waits[row][1] if row in waits else row[1] - row[0] for row in sized)
            factor = 1 if any(word in name.lower() for word in ("allreduce", "send", "recv")) else 0.5  # of 2 ranks
            found[name] = len(sized), sum(row[5][1] for row in sized) * factor, time
        return found

    def waits_of_messages(self):
        return [sum(self.waits[at][pair[at]][0] for pair in self.sent) for at in (0, 1)]

    def transfer(self):
        """Median time of the transfer of a message."""
        return statistics.median([self.waits[0][pair[0]][1] for pair in self.sent]) if self.sent else None


def middle(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main(paths):
    nvml = samples(paths.pop(), paths[0]) if paths[-1].endswith(".csv") else []
    run = Run(paths)
    last = [0, 0]
    for pair in run.pairs:
        durations = [row[1] - row[0] for row in pair]
        if durations[0] != durations[1] and not is_message(pair[0]):
            last[durations.index(min(durations))] += 1
    residuals = run.residuals()
    print("shift", run.shift, "pairs", len(run.pairs), "last", last, "offsets", -run.offset, run.offset,
          "residual", statistics.median(residuals), max(residuals))
    for at in range(len(run.ranks)):
        print("rank", at, "whole", run.whole(at))
        for name, rows in run.stages(at).items():
            print("rank", at, name, len(rows), middle(rows))
        for name, (calls, size, time) in run.bus(at).items():
            print("rank", at, name, calls, "bus", size, "B", time, "ns", size / time * 1e9, "B/s")
    print("messages", len(run.sent), "waits", run.waits_of_messages(), "transfer", run.transfer())
    if run.ranks[0].ranges:
        for name, ratio, clocks in speeds(run.ranks, nvml):
            print(name, "slowdown", ratio, "clocks, samples under the power cap, samples", clocks)


def times(found, **scope):
    """The four times of a rank in one scope."""
    names = {"comm_time": "comm", "comm_exposed": "exposed", "comm_wait": "wait", "comm_transfer": "transfer"}
    return [expected.metric(name, found[key], "nanoseconds", **scope) for name, key in names.items()]


# Names of NCCL and of PyTorch.
CLASSES = {"ncclAllReduce": "all-reduce", "ncclAllGather": "all-gather", "ncclReduceScatter": "reduce-scatter",
           "ncclAlltoAll": "all-to-all", "ncclSend": "send", "ncclRecv": "receive", "allreduce": "all-reduce",
           "_allgather_base": "all-gather", "_reduce_scatter_base": "reduce-scatter", "all_to_all": "all-to-all",
           "all_to_allv": "all-to-all", "send": "send", "recv": "receive"}


def bandwidths(run, pass_name):
    found = []
    for at in (0, 1):
        for name, (_, size, time) in run.bus(at).items():
            scope = {"pass": pass_name, "rank": at, "class": CLASSES[name]}
            found.append(expected.metric("bus_bandwidth", size / time * 1e9, "bytes_per_second", 1e-9, **scope))
    return found


def of_ddp():
    bundle, stage = "h200x2-ddp", "train_step"
    with expected.unpacked(bundle, "nsys/timeline.sqlite") as path:
        run = Run([path])
    found, steps = [], [middle(run.stages(at)[stage]) for at in (0, 1)]
    for at in (0, 1):
        found += times(run.whole(at), **{"pass": "nsys", "rank": at})
        found += times(steps[at], **{"pass": "nsys", "stage": stage, "rank": at})
        share = steps[at]["exposed"] / steps[at]["time"]
        scope = {"pass": "nsys", "stage": stage, "rank": at}
        found.append(expected.metric("comm_exposed_share", share, "ratio", 1e-12, **scope))
    compute = [step["compute"] for step in steps]
    imbalance = max(compute) / statistics.mean(compute)
    found.append(expected.metric("imbalance", imbalance, "one", 1e-12, **{"pass": "nsys", "stage": stage}))
    residual = statistics.median(run.residuals())
    found.append(expected.metric("clock_residual", residual, "nanoseconds", **{"pass": "nsys"}))
    with contextlib.ExitStack() as stack:
        traces = [expected.unpacked(bundle, f"torch/rank{at}.pt.trace.json") for at in (0, 1)]
        run = Run([stack.enter_context(trace) for trace in traces])
    for at in (0, 1):
        found += times(run.whole(at), **{"pass": f"torch · rank {at}", "rank": at})
    found += bandwidths(run, "torch")
    residual = statistics.median(run.residuals())
    found.append(expected.metric("clock_residual", residual, "nanoseconds", **{"pass": "torch"}))
    expected.write(__file__, bundle, found)


def of_parallel():
    bundle, stage = "h100x2-parallel", "step"
    with contextlib.ExitStack() as stack:
        export = stack.enter_context(expected.unpacked(bundle, "nsys/timeline.sqlite"))
        nvml = samples(stack.enter_context(expected.unpacked(bundle, "nsys/nvml.csv")), export)
        run = Run([export])
    found = []
    for at in (0, 1):
        found += times(run.whole(at), **{"pass": "nsys", "rank": at})
        found += times(middle(run.stages(at)[stage]), **{"pass": "nsys", "stage": stage, "rank": at})
    found += bandwidths(run, "nsys")
    residual = statistics.median(run.residuals())
    found.append(expected.metric("clock_residual", residual, "nanoseconds", **{"pass": "nsys"}))
    found += messages(run, "nsys")
    for name, ratio, clocks in speeds(run.ranks, nvml):
        if name == stage:
            for at, (clock, *_) in enumerate(clocks):
                row = {"pass": "nsys", "stage": stage, "rank": str(at)}
                found.append(expected.cell("ranks", "sm_clock_hz", clock * 1e6, "hertz", 1e-9, **row))
            slow, (_, capped, count) = {"pass": "nsys", "stage": stage, "rank": "1"}, clocks[1]
            found.append(expected.cell("ranks", "slowdown", ratio[1], "one", 1e-9, **slow))
            by_clock = (clocks[0][0] / clocks[1][0] - 1) / (ratio[1] - 1)
            found.append(expected.cell("ranks", "by_clock", by_clock, "ratio", 1e-9, **slow))
            found.append(expected.cell("ranks", "clock_limit_share", capped / count, "ratio", 1e-9, **slow))
    with contextlib.ExitStack() as stack:
        traces = [expected.unpacked(bundle, f"torch/rank{at}.pt.trace.json") for at in (0, 1)]
        run = Run([stack.enter_context(trace) for trace in traces])
    found += bandwidths(run, "torch") + messages(run, "torch")
    expected.write(__file__, bundle, found)


def messages(run, pass_name):
    """The messages that rank 0 sends to rank 1, all of one size."""
    row = {"pass": pass_name, "from": "0", "to": "1"}
    size, transfer, (sender, receiver) = run.sent[0][0][5][1], run.transfer(), run.waits_of_messages()
    return [
        expected.cell("messages", "count", len(run.sent), "count", **row),
        expected.cell("messages", "sender_wait_ns", sender, "nanoseconds", **row),
        expected.cell("messages", "receiver_wait_ns", receiver, "nanoseconds", **row),
        expected.cell("messages", "transfer_ns", transfer, "nanoseconds", **row),
        expected.cell("messages", "bandwidth", size / transfer * 1e9, "bytes_per_second", 1e-9, **row),
    ]


def is_message(row):
    return row[5] is not None and ("Send" in row[5][0] or "Recv" in row[5][0] or row[5][0] in ("send", "recv"))


def speeds(ranks, nvml):
    """By range: time of the slower rank's kernels ÷ that of the same on the faster one; mean clocks in MHz."""
    for name in dict.fromkeys(window[2] for rank in ranks for window in sorted(rank.ranges)):
        sums, windows = [], []
        for rank in ranks:
            table, spans = defaultdict(lambda: [0, 0]), []
            for window in (window for window in rank.ranges if window[2] == name):
                nccl, compute, copies = attributed(rank, window)
                ops = nccl + compute + copies
                if ops:
                    spans.append((min(row[0] for row in ops), max(row[1] for row in ops)))
                for row in compute:
                    table[row[2], rank.grids[row]][0] += 1
                    table[row[2], rank.grids[row]][1] += row[1] - row[0]
            sums.append(table)
            windows.append(spans)
        ratio = []
        for own, other in (sums, sums[::-1]):
            common = [key for key in own if key in other]
            here = sum(own[key][1] for key in common)
            ratio.append(here / sum(other[key][1] / other[key][0] * own[key][0] for key in common) if common else None)
        clocks = []
        for at, spans in enumerate(windows):
            inside = [row for row in nvml if row[1] == at and any(start <= row[0] <= end for start, end in spans)]
            reasons = [bool(row[3] & 4) for row in inside]
            clocks.append((statistics.mean(row[2] for row in inside), sum(reasons), len(reasons)) if inside else None)
        yield name, ratio, clocks


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1:])
    else:
        of_ddp()
        of_parallel()
