"""Makes tests/data/serving: one load test of 40 requests in each format that `rooflens serve-report` reads, a sweep, snapshots
of an engine, and expected.json with the figures that NumPy gives of the raw samples. Seeded; needs numpy.

    python3 tests/reference/serving.py tests/data/serving
"""

import csv
import json
import pathlib
import sys

import numpy as np

OUT = pathlib.Path(sys.argv[1])
RNG = np.random.default_rng(20261122)
COUNT = 40
PERCENTILES = (50, 90, 95, 99)
EPOCH = 1_760_000_000


def requests(rate, count, slots):
    """A queue with `slots` places: arrivals by a Poisson process, prefill by prompt length, steady decode with stalls."""
    due = np.cumsum(RNG.exponential(1 / rate, count))
    due -= due[0]
    free = np.zeros(slots)
    made = []
    for at in due:
        place = int(np.argmin(free))
        prompt, output = int(RNG.integers(100, 900)), int(RNG.integers(2, 14))
        begin = max(at, free[place])
        gaps = 0.02 + RNG.exponential(0.002, output - 1)
        first = begin + 0.03 + prompt * 5e-5
        end = first + gaps.sum()
        free[place] = end
        made.append(dict(due=at, ttft=first - at, e2e=end - at, itl=gaps.tolist(), prompt=prompt, output=output))
    return made


def spread(values):
    values = np.asarray(values, dtype=float)
    figures = {f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES}
    return dict(mean=float(values.mean()), std=float(values.std()), min=float(values.min()), max=float(values.max()), **figures)


def tpots(made):
    return [(r["e2e"] - r["ttft"]) / (r["output"] - 1) for r in made if r["output"] > 1]


def summary(made):
    """Figures in seconds."""
    span = max(r["due"] + r["e2e"] for r in made) - min(r["due"] for r in made)
    prompt, output = sum(r["prompt"] for r in made), sum(r["output"] for r in made)
    return dict(
        duration=span,
        completed=len(made),
        prompt=prompt,
        output=output,
        request_rate=len(made) / span,
        output_rate=output / span,
        total_rate=(prompt + output) / span,
        ttft=spread([r["ttft"] for r in made]),
        tpot=spread(tpots(made)),
        itl=spread([gap for r in made for gap in r["itl"]]),
        e2e=spread([r["e2e"] for r in made]),
    )


def dump(name, value):
    (OUT / name).write_text(json.dumps(value) + "\n")


def lines(name, values):
    (OUT / name).write_text("".join(json.dumps(value) + "\n" for value in values))


def table(name, header, rows):
    with open(OUT / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def ms(figures, names):
    return {new: figures[old] * 1e3 for old, new in names.items()}


def vllm(made, s, detailed):
    result = dict(date="20261122-120000", endpoint_type="openai", backend="vllm", tokenizer_id="m/model", model_id="m/model", num_prompts=COUNT, request_rate="inf", burstiness=1.0, max_concurrency=8, tensor_parallel_size=2)
    result |= dict(duration=s["duration"], completed=COUNT, failed=0, total_input_tokens=s["prompt"], total_output_tokens=s["output"], request_throughput=s["request_rate"], output_throughput=s["output_rate"], total_token_throughput=s["total_rate"])
    for name, key in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2el", "e2e")):
        result |= {f"mean_{name}_ms": s[key]["mean"] * 1e3, f"median_{name}_ms": s[key]["p50"] * 1e3, f"std_{name}_ms": s[key]["std"] * 1e3}
        result |= {f"p{p}_{name}_ms": s[key][f"p{p}"] * 1e3 for p in (90, 95, 99)}
    if detailed:
        result |= dict(input_lens=[r["prompt"] for r in made], output_lens=[r["output"] for r in made], ttfts=[r["ttft"] for r in made], itls=[r["itl"] for r in made], start_times=[5000.0 + r["due"] for r in made], errors=[""] * COUNT, generated_texts=["x"] * COUNT)
    return result


def sglang(made, s, detailed):
    result = dict(backend="sglang", dataset_name="random", request_rate=float("inf"), max_concurrency=8, random_input_len=512, random_output_len=8, random_range_ratio=0.0)
    result |= dict(duration=s["duration"], completed=COUNT, total_input_tokens=s["prompt"], total_output_tokens=s["output"], total_output_tokens_retokenized=s["output"], request_throughput=s["request_rate"], input_throughput=s["total_rate"] - s["output_rate"], output_throughput=s["output_rate"])
    for name, key in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e_latency", "e2e")):
        result |= {f"mean_{name}_ms": s[key]["mean"] * 1e3, f"median_{name}_ms": s[key]["p50"] * 1e3, f"std_{name}_ms": s[key]["std"] * 1e3, f"p99_{name}_ms": s[key]["p99"] * 1e3}
    if detailed:
        result |= dict(input_lens=[r["prompt"] for r in made], output_lens=[r["output"] for r in made], ttfts=[r["ttft"] for r in made], itls=[r["itl"] for r in made], errors=[""] * COUNT, generated_texts=["NaN Infinity"] * COUNT)
    return result


def perf_metrics(s, unit, factor):
    """Aggregates as AIPerf and GenAI-Perf name them."""
    time = lambda key: dict(unit=unit, avg=s[key]["mean"] * factor, **{k: v * factor for k, v in s[key].items() if k != "mean"})
    return dict(
        request_throughput=dict(unit="requests/sec", avg=s["request_rate"]),
        output_token_throughput=dict(unit="tokens/sec", avg=s["output_rate"]),
        request_count=dict(unit="requests", avg=float(COUNT)),
        time_to_first_token=time("ttft"),
        inter_token_latency=time("tpot"),
        inter_chunk_latency=time("itl"),
        request_latency=time("e2e"),
        input_sequence_length=dict(unit="tokens", avg=s["prompt"] / COUNT),
        output_sequence_length=dict(unit="tokens", avg=s["output"] / COUNT),
        benchmark_duration=dict(unit="sec", avg=s["duration"]),
    )


def aiperf(made, s):
    dump("aiperf.json", dict(schema_version="1.0", aiperf_version="0.3.0", **perf_metrics(s, "ms", 1e3), input_config=dict(endpoint=dict(model_names=["m/model"], type="chat"), loadgen=dict(concurrency=8))))
    records = []
    for number, r in enumerate(made):
        start = EPOCH * 10**9 + round(r["due"] * 1e9)
        metrics = dict(input_sequence_length=dict(value=r["prompt"], unit="tokens"), output_sequence_length=dict(value=r["output"], unit="tokens"), time_to_first_token=dict(value=r["ttft"] * 1e3, unit="ms"), request_latency=dict(value=r["e2e"] * 1e9, unit="ns"), inter_chunk_latency=dict(value=[gap * 1e3 for gap in r["itl"]], unit="ms"))
        records.append(dict(metadata=dict(session_num=number, request_start_ns=start, benchmark_phase="profiling"), metrics=metrics, error=None))
    lines("aiperf.jsonl", records)
    header = ["Metric", "avg", "min", "max", "p99", "p95", "p90", "p50", "std"]
    rows = []
    for title, key in (("Time to First Token (ms)", "ttft"), ("Inter Token Latency (ms)", "tpot"), ("Inter Chunk Latency (ms)", "itl"), ("Request Latency (ms)", "e2e")):
        f = s[key]
        rows.append([title] + [f[k] * 1e3 for k in ("mean", "min", "max", "p99", "p95", "p90", "p50", "std")])
    table("aiperf.csv", header, rows)
    with open(OUT / "aiperf.csv", "a") as file:
        file.write(f"\nMetric,Value\nBenchmark Duration (sec),{s['duration']}\nRequest Count (requests),{COUNT}\nRequest Throughput (requests/sec),{s['request_rate']}\nOutput Token Throughput (tokens/sec),{s['output_rate']}\n")


def genai_perf(s):
    metrics = perf_metrics(s, "ns", 1e9)
    for name in ("inter_chunk_latency", "benchmark_duration"):
        del metrics[name]
    dump("genai_perf.json", dict(**metrics, input_config=dict(model=["m/model"], perf_analyzer=dict(stimulus=dict(concurrency=8)))))
    header = ["Metric", "avg", "min", "max", "p99", "p95", "p90", "p50"]
    rows = []
    for title, key in (("Time To First Token (ms)", "ttft"), ("Request Latency (ms)", "e2e"), ("Inter Token Latency (ms)", "tpot")):
        rows.append([title] + [f"{s[key][k] * 1e3:,.2f}" for k in ("mean", "min", "max", "p99", "p95", "p90", "p50")])
    table("genai_perf.csv", header, rows)
    with open(OUT / "genai_perf.csv", "a") as file:
        file.write(f"\nMetric,Value\nOutput Token Throughput (per sec),{s['output_rate']:.2f}\nRequest Throughput (per sec),{s['request_rate']:.2f}\n")


def perf_analyzer(made):
    rows = []
    for r in made:
        start = EPOCH * 10**9 + round(r["due"] * 1e9)
        first = start + round(r["ttft"] * 1e9)
        times = [first] + [first + round(float(total) * 1e9) for total in np.cumsum(r["itl"])]
        rows.append(dict(timestamp=start, response_timestamps=times, success=True))
    dump("perf_analyzer.json", dict(experiments=[dict(experiment=dict(mode="concurrency", value=8), requests=rows)], version="2.60"))


def aggregates(s):
    x = dict(hw="h200", tp=2, ep=1, conc=8, dp_attention="false", model="m/model", framework="vllm", precision="fp8", isl=512, osl=8, tput_per_gpu=s["total_rate"] / 2, output_tput_per_gpu=s["output_rate"] / 2, input_tput_per_gpu=(s["total_rate"] - s["output_rate"]) / 2)
    for name, key in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2el", "e2e")):
        x |= {f"mean_{name}": s[key]["mean"], f"median_{name}": s[key]["p50"], f"std_{name}": s[key]["std"], f"p99_{name}": s[key]["p99"]}
    x |= dict(median_intvty=1 / s["tpot"]["p50"])
    dump("inferencex.json", x)
    latency = lambda key, units, factor: dict(units=units, **{("stddev" if k == "std" else k): v * factor for k, v in s[key].items()})
    dump("llm_d.json", dict(version="0.1", scenario=dict(model=dict(name="m/model"), host=dict(accelerator=[dict(model="H200", count=2)]), load=dict(name="vllm-benchmark", args=dict(request_rate=4.0))), metrics=dict(time=dict(duration=s["duration"]), requests=dict(total=COUNT, failures=0), latency=dict(time_to_first_token=latency("ttft", "ms", 1e3), time_per_output_token=latency("tpot", "s/token", 1), inter_token_latency=latency("itl", "ms/token", 1e3), request_latency=latency("e2e", "s", 1)), throughput=dict(output_tokens_per_sec=s["output_rate"], total_tokens_per_sec=s["total_rate"], requests_per_sec=s["request_rate"]))))
    names = dict(mean="average", min="minimum", max="maximum", p50="p50", p90="p90", p95="p95", p99="p99")
    dump("trtllm.json", dict(engine=dict(model="m/model", backend="Pytorch", dtype="bfloat16", version="1.2"), machine=dict(name="NVIDIA H200"), world_info=dict(tp_size=2, pp_size=1, ep_size=1, world_size=2, max_batch_size=64, max_num_tokens=8192), request_info=dict(num_requests=COUNT, avg_num_concurrent_requests=8.0, avg_input_length=s["prompt"] / COUNT, avg_output_length=s["output"] / COUNT), performance=dict(total_latency_ms=s["duration"] * 1e3, request_throughput_req_s=s["request_rate"], system_output_throughput_tok_s=s["output_rate"], system_total_throughput_tok_s=s["total_rate"], request_latency_percentiles_ms=ms(s["e2e"], names)), streaming_metrics=dict(avg_ttft_ms=s["ttft"]["mean"] * 1e3, avg_tpot_ms=s["tpot"]["mean"] * 1e3, ttft_percentiles=ms(s["ttft"], names), tpot_percentiles=ms(s["tpot"], names))))
    tracked = lambda key: dict(unit="s", mean=s[key]["mean"], stdev=s[key]["std"], **{k: s[key][k] for k in ("p50", "p90", "p95", "p99")})
    report = dict(prefill=dict(latency=tracked("ttft")), decode=dict(latency=tracked("e2e"), throughput=dict(unit="tokens/s", value=s["output_rate"])), per_token=dict(latency=tracked("tpot")))
    config = dict(backend=dict(name="pytorch", model="m/model", torch_dtype="bfloat16"), scenario=dict(input_shapes=dict(batch_size=8, sequence_length=512), generate_kwargs=dict(max_new_tokens=8)))
    dump("optimum.json", dict(config=config, report=report))
    flat = {}

    def walk(value, path):
        for key, inner in value.items():
            walk(inner, path + [key]) if isinstance(inner, dict) else flat.__setitem__(".".join(path + [key]), inner)

    walk(dict(config=config, report=report), [])
    table("llm_perf.csv", flat.keys(), [flat.values()])


def own(name, runs):
    out = []
    for rate, made in runs:
        out.append(dict(schema="rooflens.serving.v1", model="m/model", url="http://127.0.0.1:8000/v1", mode="open", rate=rate, concurrency=None, started_at="2026-11-22T12:00:00Z", gpu="NVIDIA H200"))
        for number, r in enumerate(made):
            sent = r["due"] + 1e-5
            out.append(dict(id=number, scheduled_s=r["due"], start_s=sent, first_token_s=r["due"] + r["ttft"], end_s=r["due"] + r["e2e"], prompt_tokens=r["prompt"], output_tokens=r["output"], itl_s=r["itl"], status="ok", error=None))
    lines(name, out)


def generic(made):
    table("requests.csv", ["id", "start_s", "TTFT (ms)", "latency_us", "prompt_tokens", "output_tokens", "error"], [[n, EPOCH + r["due"], r["ttft"] * 1e3, r["e2e"] * 1e6, r["prompt"], r["output"], ""] for n, r in enumerate(made)])
    lines("requests.jsonl", [dict(start_ms=r["due"] * 1e3, ttft_s=r["ttft"], e2e_latency_s=r["e2e"], itl_ms=[gap * 1e3 for gap in r["itl"]], input_tokens=r["prompt"], output_tokens=r["output"], success=True) for r in made])
    rows = []
    for n, r in enumerate(made):
        begin = EPOCH + r["due"]
        times = [begin + r["ttft"]] + [begin + r["ttft"] + float(total) for total in np.cumsum(r["itl"])]
        rows.append([f"User-{n % 8}", n, f"trace_{n}", begin + r["e2e"], "streaming", r["prompt"], r["output"], r["output"], 3, 1, r["ttft"], r["e2e"], float(np.mean(r["itl"])), 0, 0, True, "", 0, begin, begin + r["ttft"], begin + r["e2e"], json.dumps(times), json.dumps([1] * len(times))])
    table("replay.csv", "user_id,request_idx,trace_id,timestamp,request_type,input_tokens,output_tokens_expected,output_tokens_actual,cache_hit_blocks,cache_miss_blocks,ttft,ttlt,itl,delay_expected,delay_actual,success,error_message,theoretical_cache_hit_blocks,request_start_time,prefill_complete_time,request_complete_time,token_timestamps,tokens_per_chunk".split(","), rows)


def engine(made, s):
    """Snapshots of vLLM's counters before and after, and a log of gauges with a full KV cache."""
    bounds = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, float("inf")]

    def text(at, sets, scale):
        out = [f"# scraped_at {at}"]
        for name, values in sets.items():
            out.append(f"# TYPE vllm:{name} histogram")
            for bound in bounds:
                le = "+Inf" if np.isinf(bound) else bound
                out.append(f'vllm:{name}_bucket{{le="{le}",model_name="m/model"}} {float(sum(v <= bound for v in values)) * scale}')
            out.append(f'vllm:{name}_count{{model_name="m/model"}} {float(len(values)) * scale}')
            out.append(f'vllm:{name}_sum{{model_name="m/model"}} {float(sum(values)) * scale}')
        for name, value in (("prompt_tokens_total", s["prompt"]), ("generation_tokens_total", s["output"]), ("request_success_total", COUNT)):
            out.append(f'vllm:{name}{{model_name="m/model"}} {float(value) * scale}')
        out.append(f'vllm:num_requests_running{{model_name="m/model"}} {4.0 * scale}')
        out.append('vllm:cache_config_info{block_size="16",gpu_memory_utilization="0.9",model_name="m/model"} 1.0')
        return "\n".join(out) + "\n"

    queue = [0.25 * r["ttft"] for r in made]
    sets = dict(time_to_first_token_seconds=[r["ttft"] for r in made], e2e_request_latency_seconds=[r["e2e"] for r in made], request_queue_time_seconds=queue)
    (OUT / "before.prom").write_text(text(EPOCH, sets, 1.0))
    (OUT / "after.prom").write_text(text(EPOCH + 20, sets, 2.0))
    (OUT / "dcgm.txt").write_text("".join(f'# HELP {n} x\n# TYPE {n} gauge\n{n}{{gpu="0",UUID="GPU-x",device="nvidia0"}} {v0}\n{n}{{gpu="1",UUID="GPU-y",device="nvidia1"}} {v1}\n' for n, v0, v1 in (("DCGM_FI_DEV_GPU_UTIL", 90, 40), ("DCGM_FI_DEV_POWER_USAGE", 512.5, 300.25), ("DCGM_FI_DEV_FB_USED", 1024, 2048))))
    rows = [[EPOCH + n, n, 50.0 if n < 5 else 99.0, 32, 8, n, n * 10, n * 100, n * 50, max(0, n - 10), n * 2] for n in range(40)]
    table("engine_log.csv", "timestamp_sec,relative_time_sec,kv_cache_usage_pct,num_requests_running,num_requests_waiting,prefix_cache_hits,prefix_cache_queries,prompt_tokens_total,generation_tokens_total,num_preemptions_total,request_success_total".split(","), rows)


def bounds(s):
    metric = lambda name, value, unit, by: dict(id=name, scope=dict(**({"class": by} if by else {})), value=dict(kind="derived", value=value), unit=unit, polarity="lower", basis="made up")
    dump("predicted.json", dict(version=1, bundle="m/model on H200", generator=dict(name="rooflens"), metrics=[metric("predict.ttft_bound", s["ttft"]["p50"] * 1e9 / 4, "nanoseconds", "compute"), metric("predict.tpot_bound", s["tpot"]["p50"] * 1e9 / 1.25, "nanoseconds", "bandwidth"), metric("predict.output_throughput_bound", s["output_rate"] * 3, "tokens_per_second", None)]))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    made = requests(4.0, COUNT, 8)
    s = summary(made)
    dump("vllm.json", vllm(made, s, False))
    dump("vllm_detailed.json", vllm(made, s, True))
    lines("sglang.jsonl", [sglang(made, s, False)])
    lines("sglang_detailed.jsonl", [sglang(made, s, True)])
    aiperf(made, s)
    genai_perf(s)
    perf_analyzer(made)
    aggregates(s)
    own("rooflens.jsonl", [(4.0, made)])
    generic(made)
    engine(made, s)
    bounds(s)
    sweep = [(rate, requests(rate, 60, 4)) for rate in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)]
    own("sweep.jsonl", sweep)
    good = [int(sum(r["ttft"] <= 0.1 and (r["e2e"] - r["ttft"]) / (r["output"] - 1) <= 0.025 for r in run)) for _, run in sweep]
    dump("expected.json", dict(run=s, sweep=[dict(rate=rate, good=g, **summary(run)) for (rate, run), g in zip(sweep, good)]))


main()
