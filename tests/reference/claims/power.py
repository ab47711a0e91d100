"""The rule about limits of clocks, derived from NVML samples; each sample counts by its utilization.

Definition: docs/findings/clock-limits.md.
"""

import csv
import json
from xml.etree import ElementTree

# Bits of `nvmlClocksEventReasons`.
REASONS = {"sw_power_cap": 4, "hw_slowdown": 8, "sw_thermal": 32, "hw_thermal": 64, "hw_power_brake": 128}
PATTERN = (r"GPU (\d+) reports (\S+) for (?P<share>\S+ %) of its busy time(?: \(NVML: [^)]+\))?(?:, while "
           r"sampled board power stays at or below (?P<most>\S+ \S+), under the limit of (?P<limit>\S+ \S+))?\. "
           r"Its mean SM clock is (?P<clock>\S+ \S+) with it and (?P<clock_without>\S+ \S+) without\."
           r"(?: At the end it is (?P<last>\S+ \S+): a longer run can be slower\.)?.*? Samples of (\S+)\.")


def mean_clock(samples):
    weights = [float(sample["util_gpu_pct"]) for sample in samples]
    return sum(float(sample["sm_mhz"]) * 1e6 * weight for sample, weight in zip(samples, weights)) / sum(weights)


def power_limit(snapshot, gpu):
    """Watts, as `nvidia-smi -q -x` or the capture program wrote it."""
    xml = snapshot / "nvidia-smi.xml"
    if xml.exists():
        # Modules of several GPUs have limits of their own, which may be none.
        limits = [own.text.split()[0] for own in ElementTree.parse(xml).iter("current_power_limit")]
        return float([own for own in limits if own != "N/A"][gpu])
    entries = json.loads((snapshot / "env.json").read_text(encoding="utf-8"))["entries"]
    return float([entry["value"] for entry in entries if entry["key"] == "power_limit_w"][gpu])


def clock_limit(source, gpu, reason, name):
    (file,) = [file for suffix in ("", ".zst") for file in (source.path / name).glob("nvml.csv" + suffix)]
    with open(source.unpacked(file), encoding="utf-8", newline="") as table:
        samples = [sample for sample in csv.DictReader(table) if sample.get("gpu", gpu) in (gpu, "", None)]
    stating = [sample for sample in samples if sample["throttle_reasons"] not in ("", None)]
    limited = [sample for sample in stating if int(sample["throttle_reasons"]) & REASONS[reason]]
    others = [sample for sample in stating if sample not in limited]
    weight = sum(float(sample["util_gpu_pct"] or 0) for sample in limited)
    share = weight / sum(float(sample["util_gpu_pct"] or 0) for sample in stating)
    period = int(samples[-1]["t_ns"]) - int(samples[0]["t_ns"])
    busy = period * sum(float(sample["util_gpu_pct"] or 0) for sample in samples) / 100 / len(samples)
    clock, without = mean_clock(limited), mean_clock(others)
    # A clock that falls has not found its level: the last quarter of the samples at work with the reason.
    at_work = [float(sample["sm_mhz"]) * 1e6 for sample in limited if float(sample["util_gpu_pct"] or 0) > 0]
    quarter = at_work[len(at_work) - len(at_work) // 4:]
    return dict(last=sum(quarter) / len(quarter) if quarter else None, share=share, clock=clock, clock_without=without, limit=power_limit(source.path / "snapshot", int(gpu)),
                most=max(float(sample["power_mw"]) for sample in samples) / 1e3, gain=busy * share * (1 - clock / without))
