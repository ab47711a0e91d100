#!/usr/bin/env python3
"""Writes the JSON Lines export that nsys would make of the report of an SQLite export: json_lines.py EXPORT.sqlite OUT.jsonl

What both say is the same afterwards: kernels, copies, memsets, synchronizations, CUDA calls, NVTX ranges, names of threads.
Numbers of 64 bits are texts, as protobuf writes them; the order of the lines is that of NVIDIA's description.
"""

import json
import sqlite3
import sys

SYNC = {1: "EVENT_SYNCHRONIZE", 2: "STREAM_WAIT_EVENT", 3: "STREAM_SYNCHRONIZE", 4: "CONTEXT_SYNCHRONIZE"}
LONG = {"startNs", "endNs", "contextId", "streamId", "globalPid", "globalTid", "name", "sizebytes", "demangledName",
        "shortName", "Timestamp", "EndTimestamp", "GlobalTid", "DomainId", "copyKind", "graphNodeId", "graphId"}
COMMON = ["correlationId", "deviceId", "contextId", "streamId", "globalPid", "graphNodeId", "graphId"]
KERNEL = ["demangledName", "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory",
          "dynamicSharedMemory", "registersPerThread"]


def main(source, out):
    database = sqlite3.connect(source)
    database.row_factory = sqlite3.Row
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(table):
        return map(dict, database.execute(f"SELECT * FROM {table}")) if table in tables else []

    def message(row, **names):
        fields = {name: row[column] for name, column in names.items() if row.get(column) is not None}
        return {name: str(value) if name in LONG else value for name, value in fields.items()}

    def same(row, names):
        return message(row, **{name: name for name in names})

    with open(out, "w") as file:
        def line(kind, name, event):
            file.write(json.dumps({"Type": kind, name: event}, separators=(",", ":"), ensure_ascii=False) + "\n")

        def work(kind, row, part, event):
            times = message(row, startNs="start", endNs="end")
            line(kind, "CudaEvent", {**times, **same(row, COMMON), part: event})

        for row in rows("NVTX_EVENTS"):
            event = message(row, Type="eventType", Timestamp="start", EndTimestamp="end", Text="text", TextId="textId",
                            GlobalTid="globalTid", DomainId="domainId")
            line(row["eventType"], "NvtxEvent", {**event, "NsTime": True})
        for row in [*rows("CUPTI_ACTIVITY_KIND_RUNTIME"), *rows("OSRT_API")]:
            event = message(row, startNs="start", endNs="end", correlationId="correlationId", eventClass="eventClass",
                            name="nameId", globalTid="globalTid")
            line(48, "TraceProcessEvent", event)
        for row in rows("CUPTI_ACTIVITY_KIND_KERNEL"):
            work(79, row, "kernel", same(row, KERNEL))
        for row in rows("CUPTI_ACTIVITY_KIND_MEMCPY"):
            event = message(row, sizebytes="bytes", copyKind="copyKind", srcKind="srcKind", dstKind="dstKind")
            work(80, row, "memcpy", event)
        for row in rows("CUPTI_ACTIVITY_KIND_MEMSET"):
            work(80, row, "memset", message(row, sizebytes="bytes"))
        for row in rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
            kind = SYNC.get(row["syncType"])
            work(106, row, "sync", {"syncType": f"SYNCHRONIZATION_TYPE_{kind}"} if kind else {})
        texts = dict(database.execute("SELECT id, value FROM StringIds"))
        data = [texts.get(number, "") for number in range(max(texts) + 1)]
        file.write(json.dumps({"data": data}, ensure_ascii=False) + "\n")
        for row in rows("ThreadNames"):
            name = {"type": "ThreadName", "globalTid": str(row["globalTid"]), "nameId": str(row["nameId"])}
            file.write(json.dumps(name) + "\n")


main(*sys.argv[1:])
