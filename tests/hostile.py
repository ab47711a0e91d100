#!/usr/bin/env python3
"""Makes hostile inputs: small files whose cost once was out of proportion to their size.

    tests/hostile.py FOLDER [SCALE] [NAME…]

SCALE multiplies the size (1 by default): a cost in proportion doubles when it does. `tests/hostile.rs` runs them."""

import gzip
import io
import json
import os
import sqlite3
import struct
import sys
import tarfile
import zlib


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    body = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def sized(body):
    return struct.pack("<I", len(body)) + body


def report(launches, names=()):
    """An Nsight Compute report of one block: its launches as messages, its names of metrics."""
    payload = b"".join(map(sized, launches))
    strings = message(4, *(message(1, name) for name in names))
    header = number(2, len(launches)) + strings + number(5, len(payload)) + message(6, number(1, 7))
    return b"NVR\0" + sized(number(1, 7)) + sized(header) + payload


KERNEL = message(7, "k")


def trace(events):
    """A PyTorch trace of these events."""
    head = '{"schemaVersion":1,"deviceProperties":[],"traceEvents":[\n'
    return (head + ",\n".join(events) + "\n]}\n").encode()


def kernel(at, length, device=0, stream=7, name="k", category="kernel"):
    args = {"device": device, "stream": stream, "correlation": at}
    event = {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": at, "dur": length}
    return json.dumps({**event, "args": args}, separators=(",", ":"))


def call(at, length, correlation):
    return json.dumps({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at,
                       "dur": length, "args": {"correlation": correlation}}, separators=(",", ":"))


def archive(scale):
    """A hundred packed traces, each of which inflates a thousandfold, in a packed archive."""
    one = gzip.compress(trace([kernel(1, 2)] * (200_000 * scale)), 9, mtime=0)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for at in range(100):
            entry = tarfile.TarInfo(f"bundle/{at}.json.gz")
            entry.size = len(one)
            tar.addfile(entry, io.BytesIO(one))
    return "archive.tar.gz", gzip.compress(out.getvalue(), 9, mtime=0)


def zipped(scale):
    """A zip of overlapping entries: a thousand names, all of one place that inflates to a megabyte."""
    packed = zlib.compress(b"[" + b" " * (1_000_000 * scale), 9, -15)
    crc, size = zlib.crc32(b"[" + b" " * (1_000_000 * scale)), 1_000_000 * scale + 1
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 8, 0, 0, crc, len(packed), size, 1, 0) + b"a" + packed
    entries = b"".join(
        struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 0, crc, len(packed), size, 4, 0, 0, 0, 0, 0, 0)
        + f"{at:04}".encode() for at in range(1000))
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 1000, 1000, len(entries), len(local), 0)
    return "overlap.zip", local + entries + end


def fields(scale):
    """Fields of two bytes that become metrics."""
    return "fields.ncu-rep", gzip.compress(report([KERNEL + b"\x6a\0" * (6_000_000 * scale)], ["a"]), 9, mtime=0)


def sections(scale):
    """Fields of two bytes that become sections."""
    return "sections.ncu-rep", gzip.compress(report([KERNEL + b"\x8a\1\0" * (4_000_000 * scale)], ["a"]), 9, mtime=0)


def ranges_of_states(scale):
    """Names of one byte around each launch."""
    domain = message(2, *[message(3, message(1, "a"))] * (1_000_000 * scale))
    return "states.ncu-rep", gzip.compress(report([KERNEL + message(21, message(2, domain))], ["a"]), 9, mtime=0)


def links(scale):
    """A remark of nothing but beginnings of links."""
    item = message(1, message(1, message(1, "@" * (1_000_000 * scale))))
    rule = message(19, message(1, "r"), message(3, item), message(4, "s"))
    return "links.ncu-rep", gzip.compress(report([KERNEL + rule], ["a"]), 9, mtime=0)


def section_clones(scale):
    """A long name of a section that each remark of a rule repeats."""
    body = message(3, *[message(1, message(1, b""))] * (20_000 * scale))
    rule = message(19, message(1, "r"), body, message(4, "s" * 20_000 * scale))
    return "clones.ncu-rep", gzip.compress(report([KERNEL + rule], ["a"]), 9, mtime=0)


def names(scale):
    """Many names of metrics and many launches."""
    count = 20_000 * scale
    return "names.ncu-rep", gzip.compress(report([KERNEL] * count, [f"n{at}" for at in range(count)]), 9, mtime=0)


def regexes(scale):
    """A thousand patterns that compile to much."""
    stages = "".join(f'[[stages]]\nname = "s{at}"\nmatch = "(\\\\w{{{60 + at % 7}}}x|y){{2}}z{at}"\n' for at in range(1000 * scale))
    folder = {"workload.toml": stages.encode()}
    ranges = [json.dumps({"ph": "X", "cat": "user_annotation", "name": f"r{at}", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 9},
                         separators=(",", ":")) for at in range(100)]
    folder["trace.json"] = trace(ranges + [kernel(10 * at, 5) for at in range(100)])
    return "regexes", folder


def deep(scale):
    """Two hundred stages in each other around all kernels."""
    stages = "".join(f'[[stages]]\nname = "s{at}"\nmatch = "s{at}"\n' for at in range(200))
    count = 5_000 * scale
    events = [json.dumps({"ph": "X", "cat": "user_annotation", "name": f"s{at}", "pid": 1, "tid": 1, "ts": at,
                          "dur": 100 * count + 1000 - 2 * at}, separators=(",", ":")) for at in range(200)]
    for at in range(count):
        start = 300 + 100 * at
        events += [call(start, 2, at), kernel(start + 5, 20).replace(f'"correlation":{start + 5}', f'"correlation":{at}')]
    return "deep", {"workload.toml": stages.encode(), "trace.json.gz": gzip.compress(trace(events), 9, mtime=0)}


def streams(scale):
    """As many streams as kernels, all at work at once."""
    count = 1500 * scale
    return "streams.json.gz", gzip.compress(trace([kernel(at, 10 * count, stream=at) for at in range(count)]), 9, mtime=0)


def devices(scale):
    """As many devices as kernels."""
    return "devices.json.gz", gzip.compress(trace([kernel(at, 1, device=at) for at in range(40_000 * scale)]), 9, mtime=0)


def columns(scale):
    """Many columns and many rows."""
    count = 20_000 * scale
    head = ["ID", "Process ID", "Process Name", "Kernel Name"] + [f"m__{at}.sum" for at in range(count)]
    rows = [f"{at},7,p,k,1" for at in range(count)]
    return "columns.csv", ("\n".join([",".join(f'"{name}"' for name in head)] + rows) + "\n").encode()


def cells(scale):
    """Cells of one byte, each of which becomes a metric."""
    head = ["ID", "Process ID", "Process Name", "Kernel Name"] + [f"m__{at}.sum" for at in range(1000)]
    rows = [f"{at},7,p,k" + ",1" * 1000 for at in range(5000 * scale)]
    return "cells.csv.gz", gzip.compress(("\n".join([",".join(f'"{name}"' for name in head)] + rows) + "\n").encode(), 9, mtime=0)


def passes(scale):
    """A manifest of many passes and many artifacts."""
    count = 20_000 * scale
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    artifact = [{"path": f"a{at}", "kind": "torch_trace", "pass": f"p{at}", "sha256": empty, "bytes": 0} for at in range(count)]
    manifest = {"version": 1, "name": "b", "tool": {"name": "t", "version": "1"},
                "passes": [{"id": f"p{at}", "kind": "operators", "command": ["c"]} for at in range(count)], "artifacts": artifact}
    artifact[0]["path"] = "trace.json"
    return "passes", {"manifest.json": json.dumps(manifest).encode(), "trace.json": trace([kernel(1, 2)])}


def recordings(scale):
    """Small traces, as many as a folder may hold."""
    one = trace([call(1, 2, 1), kernel(5, 20).replace('"correlation":5', '"correlation":1')])
    return "recordings", {f"t{at}.json": one for at in range(2000 * scale)}


def long_name(scale):
    """A kernel whose name is a million characters."""
    return "name.json", trace([kernel(1, 2, name="n" * 1_000_000 * scale), call(0, 1, 1)])


def export(kernels, ranges, strings):
    """An Nsight Systems export: kernels (start, end, device, stream, correlation, name), calls, ranges (start, end, kind, thread, text)."""
    path = f"/tmp/hostile-{os.getpid()}.sqlite"
    base = sqlite3.connect(path)
    base.executescript("""
        PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
            globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
            globalTid INTEGER, domainId INTEGER);""")
    process, thread = 0x0100_0000_0700_0000, 0x0100_0000_0700_0007
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [*enumerate(strings), (len(strings), "cudaLaunchKernel_v7000")])
    base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?)",
                     [(s, e, d, t, c, process, n, n) for s, e, d, t, c, n in kernels])
    base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0)",
                     [(s - 20, s - 10, thread, c, len(strings)) for s, e, d, t, c, n in kernels])
    base.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, 0)", [(s, e, k, x, thread) for s, e, k, x in ranges])
    base.commit()
    base.close()
    with open(path, "rb") as file:
        content = file.read()
    os.remove(path)
    return content


def crossing(scale, count=15_000, label="request"):
    """Requests of a server, each a range with a start and an end of its own that crosses its neighbours, over as many kernels."""
    count *= scale
    kernels = [(100 * at + 50, 100 * at + 90, 0, 7, at + 1, at % 5) for at in range(count)]
    ranges = [(100 * at, 100 * at + 6400, 60, label) for at in range(count)]
    return "crossing.sqlite", export(kernels, ranges, [f"k{at}" for at in range(5)])


def crossing_all(scale):
    """Ranges all of which are open at once."""
    count = 4_000 * scale
    kernels = [(100 * at + 50, 100 * at + 90, 0, 7, at + 1, 0) for at in range(count)]
    ranges = [(at, 100 * count + at, 60, "r") for at in range(count)]
    return "crossing-all.sqlite", export(kernels, ranges, ["k"])


def crossing_names(scale):
    """The same with a name each."""
    count = 4_000 * scale
    kernels = [(100 * at + 50, 100 * at + 90, 0, 7, at + 1, 0) for at in range(count)]
    ranges = [(at, 100 * count + at, 60, f"r{at}") for at in range(count)]
    return "crossing-names.sqlite", export(kernels, ranges, ["k"])


def nested(scale):
    """Ranges in ranges."""
    count = 4_000 * scale
    kernels = [(100 * at + 50, 100 * at + 90, 0, 7, at + 1, 0) for at in range(count)]
    ranges = [(at, 200 * count - at, 59, f"r{at}") for at in range(count)]
    return "nested.sqlite", export(kernels, ranges, ["k"])


def many(kind):
    """A trace of as many of something as of kernels."""

    def make(scale):
        count = 5_000 * scale

        def value(of, at, other):
            return at if of == kind else other

        events = []
        for at in range(count):
            pid, tid, device = value("processes", at, 1), value("threads", at, 1), value("few_devices", at % 256, 0)
            x = {"ph": "X", "pid": pid, "tid": tid}
            stage, shape = f"stage {chr(97 + at % 26)}{value('stages', at, '')}", [[at if kind == "shapes" else 8, 8]]
            events += [json.dumps(event, separators=(",", ":")) for event in [
                {**x, "cat": "user_annotation", "name": stage if kind in ("stages", "letters") else "step", "ts": 10 * at, "dur": 9},
                {**x, "cat": "cpu_op", "name": f"aten::op{value('operators', at, '')}", "ts": 10 * at + 1, "dur": 8,
                 "args": {"Input Dims": shape, "External id": at}},
                {**x, "cat": "python_function", "name": f"f{value('functions', at, '')}.py(1): g", "ts": 10 * at + 1, "dur": 8},
                {**x, "cat": "cuda_runtime", "name": f"cudaLaunchKernel{value('calls', at, '')}", "ts": 10 * at + 2, "dur": 3,
                 "args": {"correlation": at}}]]
            events.append(kernel(10 * at + 5, 20 if kind == "overlaps" else 4, device, value("streams", at, 7), f"k{value('kernels', at, '')}"
                                 ).replace('"correlation"', '"External id":%d,"correlation"' % at))
        return f"many-{kind}.json.gz", gzip.compress(trace(events), 9, mtime=0)

    make.__name__ = f"many_{kind}"
    return make


MANY = ["processes", "threads", "few_devices", "stages", "letters", "shapes", "operators", "functions", "calls", "overlaps", "streams", "kernels", "nothing"]


def launches(kind):
    """A raw page of as many of something as of launches."""

    def make(scale):
        count = 5_000 * scale
        head = ["ID", "Process ID", "Process Name", "Kernel Name", "Device", "Context", "gpu__time_duration.sum", "dram__bytes.sum"]
        rows = [",".join([str(at), "7", "p", f"k{at if kind == 'kernels' else ''}", str(at if kind == "devices" else 0), "1", "10", "20"])
                for at in range(count)]
        return f"launches-{kind}.csv", ("\n".join([",".join(f'"{name}"' for name in head)] + ['"","","","","","","ns","byte"'] + rows) + "\n").encode()

    make.__name__ = f"launches_{kind}"
    return make


def samples(scale):
    """Device samples of as many GPUs."""
    count = 20_000 * scale
    rows = [f"2024/01/31 12:00:{at % 60:02}.{at % 1000:03}, {at}, 38.74 W" for at in range(count)]
    return "samples.csv", ("timestamp, index, power.draw [W]\n" + "\n".join(rows) + "\n").encode()


def facts(scale):
    """Facts of as many subjects, and as many that are missing."""
    entries = [{"subject": f"s{at}", "key": "k", "value": "v"} for at in range(20_000 * scale)]
    entries += [{"subject": f"s{at}", "key": "k", "missing_reason": "r"} for at in range(20_000 * scale)]
    return "facts", {"env.json": json.dumps({"version": 1, "entries": entries}).encode(), "trace.json": trace([kernel(1, 2)])}


def lines(scale):
    """A JSON Lines export of nsys with as many strings, and a value as deep."""
    where = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": "1", "correlationId": 1}
    event = {"CudaEvent": {"startNs": "1", "endNs": "5", **where, "kernel": {"shortName": "0", "demangledName": "0"}}}
    deep = '{"CudaEvent":' + "[" * 50_000 * scale + "]" * 50_000 * scale + "}"
    strings = json.dumps({"data": ["a"] * 200_000 * scale})
    return "events.jsonl", "\n".join([json.dumps(event), deep, strings, ""]).encode()


def packed(members):
    """A packed archive of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members:
            entry = tarfile.TarInfo(f"bundle/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(out.getvalue(), 9, mtime=0)


def members(scale):
    """As many members as a folder may hold, of a byte each."""
    return "members.tar.gz", packed((f"{at}.json", b"{") for at in range(9000 * scale))


def empties(scale):
    """Files that are nothing but empty streams."""
    empty = gzip.compress(b"", 9, mtime=0) * 100_000 * scale
    return "empties.tar.gz", packed((f"{at}.json.gz", empty) for at in range(20))


def load_tests(scale):
    """Results of many load tests."""
    requests = [0.001] * 500 * scale
    one = json.dumps({"backend": "vllm", "model_id": "m", "completed": 500 * scale, "duration": 9.0, "ttfts": requests, "itls": [requests] * 9,
                      "input_lens": [1] * 500 * scale, "output_lens": [1] * 500 * scale}).encode()
    return "load-tests.tar.gz", packed((f"{at}.json", one) for at in range(100))


def benchmarks(scale):
    """Many results of microbenchmarks, all of values and none of sense."""
    one = json.dumps({"version": 1, "devices": [{"name": "g", "results": [{}] * 10_000 * scale}]}).encode()
    return "benchmarks.tar.gz", packed((f"bench-{at}.json", one) for at in range(100))


def stack(scale):
    """Ranges in ranges, deeper than any stack."""
    count = 100_000 * scale
    return "stack.sqlite", export([(50, 90, 0, 7, 1, 0)], [(at, 4 * count - at, 59, "r") for at in range(count)], ["k"])


def large_page(scale):
    """A raw page of short rows."""
    head = '"ID","Process ID","Process Name","Kernel Name","Device","Context","gpu__time_duration.sum"\n"","","","","","","ns"\n'
    return "large-page.csv", (head + "\n".join(f"{at},7,p,k,0,1,9" for at in range(550_000 * scale)) + "\n").encode()


def large_sums(scale):
    """A sum of as many kernels."""
    head = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    return "large-sums.csv", (head + "\n".join(f"0.0,1,1,1.0,1.0,1,1,0.0,k{at}" for at in range(300_000 * scale)) + "\n").encode()


def large_report(scale):
    """Launches of two bytes."""
    return "large-launches.ncu-rep", report([KERNEL] * 1_400_000 * scale, ["a"])


def large_names(scale):
    """Names of metrics, and launches."""
    return "large-names.ncu-rep", report([KERNEL] * 400_000 * scale, [f"n{at}" for at in range(800_000 * scale)])


def large_states(scale):
    """Launches within many ranges."""
    domain = message(2, *[message(3, message(1, "a"))] * 30)
    return "large-states.ncu-rep", report([KERNEL + message(21, message(2, domain))] * 60_000 * scale, ["a"])


ALL = [members, empties, load_tests, benchmarks, stack, large_page, large_sums, large_report, large_names, large_states, archive, zipped, deep, recordings, fields, sections, ranges_of_states, links, section_clones, names, regexes, streams, devices, columns, cells, passes,
       long_name, crossing, crossing_all, crossing_names, nested,
       *map(many, MANY), *map(launches, ["kernels", "devices"]), samples, facts, lines]


def main():
    folder, scale, chosen = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3:]
    for make in ALL:
        if chosen and make.__name__ not in chosen:
            continue
        name, content = make(scale)
        path = os.path.join(folder, name)
        parts = {path: content} if isinstance(content, bytes) else {os.path.join(path, part): text for part, text in content.items()}
        for path, text in parts.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(text)


if __name__ == "__main__":
    main()
