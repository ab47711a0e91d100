//! Throttle reasons: the bits of `nvmlClocksEventReasons` (before 2023 `nvmlClocksThrottleReasons`) in `nvml.h`.

/// A bit of the mask.
pub(crate) struct Reason {
    pub(crate) bit: u64,
    /// Name as nvidia-smi prints it.
    pub(crate) name: &'static str,
    pub(super) meaning: &'static str,
    /// The clock is lower than the user asked for.
    pub(crate) lowers_clock: bool,
}

/// Nothing runs: no reason for a clock lower than was asked for.
pub(super) const IDLE: u64 = 0x1;

/// All bits that NVML defines.
pub(crate) const REASONS: [Reason; 9] = [
    Reason {
        bit: IDLE,
        name: "gpu_idle",
        meaning: "nothing runs; the clock drops",
        lowers_clock: false,
    },
    Reason {
        bit: 0x2,
        name: "applications_clocks_setting",
        meaning: "clocks are limited by the applications-clock setting",
        lowers_clock: false,
    },
    Reason {
        bit: 0x4,
        name: "sw_power_cap",
        meaning: "the driver lowers clocks to stay within the power limit",
        lowers_clock: true,
    },
    Reason {
        bit: 0x8,
        name: "hw_slowdown",
        meaning: "hardware halves the clocks: heat, power brake or power supply",
        lowers_clock: true,
    },
    Reason {
        bit: 0x10,
        name: "sync_boost",
        meaning: "the GPU keeps pace with others of its sync-boost group",
        lowers_clock: true,
    },
    Reason {
        bit: 0x20,
        name: "sw_thermal_slowdown",
        meaning: "the driver lowers clocks because of temperature",
        lowers_clock: true,
    },
    Reason {
        bit: 0x40,
        name: "hw_thermal_slowdown",
        meaning: "hardware halves the clocks because of temperature",
        lowers_clock: true,
    },
    Reason {
        bit: 0x80,
        name: "hw_power_brake_slowdown",
        meaning: "the system's power brake halves the clocks",
        lowers_clock: true,
    },
    Reason {
        bit: 0x100,
        name: "display_clock_setting",
        meaning: "clocks are limited by the display's setting",
        lowers_clock: false,
    },
];

/// The name and meaning of a bit.
pub(super) fn describe(bit: u64) -> (String, &'static str) {
    match REASONS.iter().find(|reason| reason.bit == bit) {
        Some(reason) => (reason.name.to_owned(), reason.meaning),
        None => (format!("bit {bit:#x}"), "not known to this version"),
    }
}

/// Whether a mask holds a reason that lowers the clock; unknown bits count as one.
pub(crate) fn lowers_clock(mask: u64) -> bool {
    let harmless: u64 = REASONS.iter().filter(|reason| !reason.lowers_clock).map(|r| r.bit).sum();
    mask & !harmless != 0
}

/// The single bits of a mask, lowest first.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|shift| 1 << shift).filter(move |bit| mask & bit != 0)
}
