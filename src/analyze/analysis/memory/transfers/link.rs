//! The link between host and GPU, where the bundle says what it is.

use std::collections::BTreeSet;

use rooflens_session::Session;
use rooflens_units::BytesPerSecond;

/// Bytes per second and lane in one direction by PCIe generation: transfers per second × what the line code leaves
/// (8b/10b up to 2.0, 128b/130b up to 5.0, 242 of 256 bytes of a flit in 6.0), before the headers of packets.
/// Source: PCI-SIG, PCI Express base specifications 1.0 to 6.0.
const LANE: [f64; 6] = [
    2.5e9 * 0.8 / 8.0,
    5e9 * 0.8 / 8.0,
    8e9 * 128.0 / 130.0 / 8.0,
    16e9 * 128.0 / 130.0 / 8.0,
    32e9 * 128.0 / 130.0 / 8.0,
    64e9 * 242.0 / 256.0 / 8.0,
];

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Generation: 5 of PCIe 5.0.
    pub generation: u8,
    /// Lanes.
    pub lanes: u32,
    /// Bandwidth in one direction.
    pub peak: BytesPerSecond,
}

/// What the log of nvidia-smi and the snapshot of the capture call the most that a link can have.
const GENERATION: [&str; 2] = ["maximum PCIe generation", "pcie_generation_max"];
const LANES: [&str; 2] = ["maximum PCIe width", "pcie_lanes_max"];

/// The link that all GPUs of the bundle have at most. The one at that moment may be asleep.
pub fn pcie(session: &Session) -> Option<Link> {
    let generation = agreed(session, GENERATION)?;
    let lanes = agreed(session, LANES)?;
    let lane = LANE.get(usize::try_from(generation.checked_sub(1)?).ok()?)?;
    Some(Link {
        generation: generation as u8,
        lanes,
        peak: BytesPerSecond(lane * f64::from(lanes)),
    })
}

/// PCIe generation of GPUs from a compute capability on. Sources: datasheets of P100, A100, H100 and B300.
const GENERATIONS: [(u32, usize); 4] = [(60, 3), (80, 4), (90, 5), (103, 6)];

/// Lanes of the widest slot.
const SLOT: f64 = 16.0;

/// Parts of names of GPUs that share memory with the CPU or have another link to it: Tegra, Grace, modules in POWER systems.
const OTHER_LINKS: [&str; 9] = [
    "Tegra", "Xavier", "Orin", "Thor", "GH200", "GB200", "GB300", "GB10", "SXM2",
];

/// Bandwidth in one direction that the link of no GPU exceeds; none where that is not known of some.
pub fn most(session: &Session) -> Option<BytesPerSecond> {
    let gpus = &session.gpus;
    let mut most: Option<BytesPerSecond> = None;
    for row in 0..gpus.len() {
        let (capability, name) = (gpus.compute_capability[row]?, session.text(gpus.name[row]));
        let mut generations = GENERATIONS.iter().rev();
        let (_, generation) = generations.find(|(from, _)| *from <= capability)?;
        if name.is_empty() || OTHER_LINKS.iter().any(|part| name.contains(part)) {
            return None;
        }
        let peak = BytesPerSecond(LANE[generation - 1] * SLOT);
        most = Some(most.map_or(peak, |most| most.max(peak)));
    }
    most
}

/// The one number that all facts of some keys state: `5`, or `16x`.
fn agreed(session: &Session, keys: [&str; 2]) -> Option<u32> {
    let facts = &session.environment;
    let rows = (0..facts.len()).filter(|row| keys.contains(&session.text(facts.key[*row])));
    let values = rows.map(|row| session.text(facts.value[row]).trim());
    let values: BTreeSet<&str> = values
        .map(|value| value.trim_end_matches(['x', 'X']))
        .collect();
    let mut values = values.into_iter();
    let value = values.next()?.parse().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 · 10⁹ · 128 / 130 / 8 · 16 of the older GPU, twice that of the newer one. Nothing says what Orin shares.
    #[test]
    fn a_slot_of_the_newest_gpu_is_the_most() {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", rooflens_schemas::PassKind::Timeline, "a");
        let mut add = |ordinal, name, capability| {
            let row = session.gpu(pass, ordinal).index();
            session.gpus.name[row] = session.intern(name);
            session.gpus.compute_capability[row] = Some(capability);
            most(&session).map(|most| (most.0 / 1e6).round())
        };
        assert_eq!(add(0, "Quadro RTX 6000", 75), Some(15_754.0));
        assert_eq!(add(1, "NVIDIA A100-PCIE-40GB", 80), Some(31_508.0));
        assert_eq!(add(2, "Orin", 87), None);
    }

    #[test]
    fn sixteen_lanes_of_generation_5_carry_63_gb_a_second() {
        let mut session = Session::default();
        assert_eq!(pcie(&session), None);
        session.add_fact("smi.xml", "gpu 0", "maximum PCIe generation", "5");
        session.add_fact("smi.xml", "gpu 0", "maximum PCIe width", "16x");
        let link = pcie(&session).expect("both are stated");
        // 32 · 10⁹ · 128 / 130 / 8 · 16.
        assert!((link.peak.0 - 63.015e9).abs() < 1e6, "{link:?}");
        session.add_fact("env.json", "gpu 0", "pcie_lanes_max", "16");
        assert_eq!(pcie(&session), Some(link));
        session.add_fact("env.json", "gpu 1", "pcie_lanes_max", "8");
        assert_eq!(pcie(&session), None);
    }
}
