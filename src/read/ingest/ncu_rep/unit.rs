//! Units of metrics by their names: reports hold numbers in base units and do not say which.
//!
//! Names are built by rule, `unit__quantity_qualifiers.rollup.submetric`. The result is what ncu prints
//! over the columns of an exported page, its oddities included, in our base units.

/// The unit of a metric, and by what its numbers are divided to be in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    /// Our name of the unit; empty for plain numbers.
    pub(super) name: &'static str,
    /// Divisor.
    pub(super) divisor: f64,
}

/// Metrics that no rule covers, by the beginning of their names.
const NAMED: &[(&str, &str)] = &[
    ("derived__pct_occupancy_per_register_count", "%/register"),
    ("derived__pct_occupancy_per_barrier_count", ""),
    ("derived__pct_occupancy_", "%"),
    ("derived__l1tex__lsu_writeback_bytes", ""),
    ("derived__lts__lts2xbar_bytes", "byte"),
    ("derived__sm__", "thread"),
    ("derived__smsp__sass", "thread"),
    ("derived__avg_thread", "thread"),
    ("derived__derivative_avg_thread", "thread"),
    ("gcc__xbar2gcc_sectors", ""),
    ("idc__requests", ""),
    ("launch__block_dim_", "block"),
    ("launch__cluster_max_active", "cluster"),
    ("launch__cluster_max_potential_size", "block"),
    ("launch__occupancy_limit_", "block"),
    ("launch__persisting_l2_cache_size", "byte"),
    ("launch__registers_per_thread", "register/thread"),
    ("launch__shared_mem_config_size", "byte"),
    ("launch__shared_mem_per_block", "byte/block"),
    ("launch__sm_count", "SM"),
    ("launch__thread_count", "thread"),
    ("launch__", ""),
    ("memory_l", "sectors"),
    ("profiler__pmsampler_merged_samples", "sample"),
    ("sm__icc_requests", "cycle"),
    ("smsp__imc_requests", "cycle"),
    ("smsp__sass_inst_executed_memdesc_explicit_evict_type", ""),
];

/// Words in names, the unit of what they count, that of its rate per second and that per cycle; first match wins.
const COUNTED: &[(&str, &str, &str, &str)] = &[
    ("wavefronts", "", "", ""),
    ("conflicts", "", "", ""),
    ("opcode", "", "", ""),
    ("ops", "", "", ""),
    ("inst", "inst", "inst/s", "inst/cycle"),
    ("instructions", "inst", "inst/s", "inst/cycle"),
    ("branch", "branches", "", ""),
    ("sectors", "sector", "sector/s", "sector/cycle"),
    ("bytes", "byte", "byte/s", "byte/cycle"),
    ("passes", "pass", "", ""),
    ("cycles", "cycle", "Hz", ""),
    ("writeback", "cycle", "Hz", ""),
    ("warps", "warp", "", "warp"),
    ("threads", "thread", "", ""),
    ("ctas", "block", "", ""),
];

/// The unit of a metric.
pub(super) fn of(metric: &str) -> Unit {
    // Sampled metrics begin with the sampler's name: `TPC.TriageCompute.sm__cycles_active.avg`.
    let metric = metric
        .split_once(".TriageCompute.")
        .map_or(metric, |(_, name)| name);
    // ncu prints %/Kbyte over a thousandth of a number that is per kilobyte already.
    if metric == "derived__pct_occupancy_per_shared_mem_size" {
        return Unit {
            name: "%/byte",
            divisor: 1e6,
        };
    }
    let name = name(metric);
    // Times are nanoseconds.
    Unit {
        name,
        divisor: if name == "s" { 1e9 } else { 1.0 },
    }
}

fn name(metric: &str) -> &'static str {
    let (base, suffix) = metric.split_once('.').unwrap_or((metric, ""));
    if suffix.contains("pct") || base.ends_with("_pct") {
        return "%";
    }
    if let Some((_, unit)) = NAMED.iter().find(|(start, _)| base.starts_with(start)) {
        return unit;
    }
    let (unit, quantity) = base.split_once("__").unwrap_or(("", base));
    match (unit, suffix) {
        ("device" | "nvlink" | "numa" | "c2clink", _) => "",
        ("gpu", _) if quantity.contains("time_duration") => "s",
        ("profiler", _) if quantity.ends_with("interval_time") => "s",
        (_, "ratio" | "max_rate") => ratio(quantity),
        ("lts" | "gcc", _) if quantity.contains("requests") => "request",
        _ => counted(quantity, suffix),
    }
}

fn ratio(quantity: &str) -> &'static str {
    if quantity.contains("bytes_per_sector") {
        "byte/sector"
    } else if quantity.contains("sectors_per_request") {
        "sector/request"
    } else if quantity.contains("per_issue_active") {
        "inst"
    } else if quantity.starts_with("average_warp") {
        "cycle"
    } else {
        ""
    }
}

fn counted(quantity: &str, suffix: &str) -> &'static str {
    let has = |word: &str| quantity.split('_').any(|part| part == word);
    let row = COUNTED.iter().find(|(word, ..)| has(word));
    let Some((_, count, per_second, per_cycle)) = row else {
        return "";
    };
    if suffix.ends_with("per_second") {
        per_second
    } else if suffix.ends_with("peak_sustained") || suffix.contains("per_cycle") {
        per_cycle
    } else {
        count
    }
}
