//! Throttle reasons: the bits of `nvmlClocksEventReasons` (before 2023 `nvmlClocksThrottleReasons`) in `nvml.h`.

/// A bit of the mask.
pub struct Reason {
    /// The bit.
    pub bit: u64,
    /// Name as nvidia-smi prints it.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The clock is lower than the user asked for.
    pub lowers_clock: bool,
}

/// The driver keeps to the power limit: a setting, and no fault.
pub const POWER_CAP: u64 = 0x4;

/// Nothing runs: no reason for a clock lower than was asked for.
pub(super) const IDLE: u64 = 0x1;

/// All bits that NVML defines.
pub const REASONS: [Reason; 9] = [
    reason(IDLE, "gpu_idle", false, "nothing runs; the clock drops"),
    reason(
        0x2,
        "applications_clocks_setting",
        false,
        "clocks are limited by the applications-clock setting",
    ),
    reason(
        POWER_CAP,
        "sw_power_cap",
        true,
        "the driver lowers clocks to stay within the power limit",
    ),
    reason(
        0x8,
        "hw_slowdown",
        true,
        "hardware halves the clocks: heat, power brake or power supply",
    ),
    reason(
        0x10,
        "sync_boost",
        true,
        "the GPU keeps pace with others of its sync-boost group",
    ),
    reason(
        0x20,
        "sw_thermal_slowdown",
        true,
        "the driver lowers clocks because of temperature",
    ),
    reason(
        0x40,
        "hw_thermal_slowdown",
        true,
        "hardware halves the clocks because of temperature",
    ),
    reason(
        0x80,
        "hw_power_brake_slowdown",
        true,
        "the system's power brake halves the clocks",
    ),
    reason(
        0x100,
        "display_clock_setting",
        false,
        "clocks are limited by the display's setting",
    ),
];

const fn reason(bit: u64, name: &'static str, lowers_clock: bool, meaning: &'static str) -> Reason {
    Reason {
        bit,
        name,
        meaning,
        lowers_clock,
    }
}

/// The name and meaning of a bit.
pub fn describe(bit: u64) -> (String, &'static str) {
    match REASONS.iter().find(|reason| reason.bit == bit) {
        Some(reason) => (reason.name.to_owned(), reason.meaning),
        None => (format!("bit {bit:#x}"), "not known to this version"),
    }
}

/// Whether a mask holds a reason that lowers the clock; unknown bits count as one.
pub fn lowers_clock(mask: u64) -> bool {
    let harmless: u64 = REASONS
        .iter()
        .filter(|reason| !reason.lowers_clock)
        .map(|r| r.bit)
        .sum();
    mask & !harmless != 0
}

/// The single bits of a mask, lowest first.
pub(super) fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS)
        .map(|shift| 1 << shift)
        .filter(move |bit| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_bit_by_bit() {
        let names: Vec<String> = bits(0x6 | 0x200).map(|bit| describe(bit).0).collect();
        assert_eq!(
            names,
            ["applications_clocks_setting", "sw_power_cap", "bit 0x200"]
        );
        assert!(!lowers_clock(0x103));
        assert!(lowers_clock(0x40) && lowers_clock(0x200));
    }
}
