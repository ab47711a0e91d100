//! From a device name to the table's entry.

use super::Gpu;

/// Old nsys exports cut device names to this many characters.
const CUT_LENGTH: usize = 31;

/// The GPU with exactly this name; names that were cut match where only one GPU is meant.
pub(super) fn find<'a>(gpus: &'a [Gpu], device_name: &str) -> Option<&'a Gpu> {
    words(device_name).next()?;
    let whole = gpus
        .iter()
        .find(|gpu| names(gpu).any(|name| is_same(name, device_name)));
    whole.or_else(|| find_cut(gpus, device_name))
}

fn find_cut<'a>(gpus: &'a [Gpu], device_name: &str) -> Option<&'a Gpu> {
    if device_name.chars().count() != CUT_LENGTH {
        return None;
    }
    let is_cut_of = |name: &str| {
        let full = format!("NVIDIA {name}");
        full.chars().count() > CUT_LENGTH && full.starts_with(device_name)
    };
    let mut candidates = gpus.iter().filter(|gpu| names(gpu).any(is_cut_of));
    let candidate = candidates.next()?;
    candidates.next().is_none().then_some(candidate)
}

fn names(gpu: &Gpu) -> impl Iterator<Item = &str> {
    std::iter::once(gpu.name.as_str()).chain(gpu.aliases.iter().map(String::as_str))
}

/// Whether two names have the same words, in whatever case: `NVIDIA A100-SXM4-40GB` is `a100 sxm4 40gb`.
fn is_same(left: &str, right: &str) -> bool {
    let (mut left, mut right) = (words(left), words(right));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if left.eq_ignore_ascii_case(right) => {}
            _ => return false,
        }
    }
}

/// The words of a name, without the vendor.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| c.is_whitespace() || c == '-' || c == '_';
    let mut words = name
        .split(is_separator)
        .filter(|word| !word.is_empty())
        .peekable();
    words.next_if(|word| word.eq_ignore_ascii_case("nvidia"));
    words
}

#[cfg(test)]
mod tests {
    use crate::Hardware;

    fn found(name: &str) -> Option<String> {
        Hardware::builtin().find(name).map(|gpu| gpu.name.clone())
    }

    #[test]
    fn names_of_drivers_find_their_form_factor() {
        for (name, entry) in [
            ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
            ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
            ("NVIDIA H100 NVL", "H100 NVL 94GB"),
            ("NVIDIA H200", "H200 SXM"),
            ("NVIDIA H200 NVL", "H200 NVL"),
            ("NVIDIA H20", "H20"),
            ("NVIDIA H800", "H800 SXM5 80GB"),
            ("A100-PCIE-40GB", "A100 PCIe 40GB"),
            ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
            ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
            ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
            ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
            ("NVIDIA A800-SXM4-80GB", "A800 SXM4 80GB"),
            ("Tesla V100-SXM2-16GB", "V100 SXM2 16GB"),
            ("Tesla V100-PCIE-32GB", "V100 PCIe 32GB"),
            ("Tesla T4", "T4"),
            ("NVIDIA A10", "A10"),
            ("NVIDIA A10G", "A10G"),
            ("NVIDIA L4", "L4"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
            ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
            ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
            ("NVIDIA GH200 480GB", "GH200 96GB"),
            ("NVIDIA GH200 144G HBM3e", "GH200 144GB"),
            ("NVIDIA GB200", "GB200"),
            ("NVIDIA B200", "B200"),
            ("NVIDIA GB300", "GB300"),
            ("NVIDIA GB10", "GB10"),
            ("NVIDIA A100-PG509-200", "A100 PG509-200"),
            ("NVIDIA GeForce RTX 4090 D", "GeForce RTX 4090 D"),
            ("NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada"),
            (
                "NVIDIA RTX PRO 6000 Blackwell M",
                "RTX PRO 6000 Blackwell Max-Q",
            ),
            ("Tesla P100-PCIE-16GB", "Tesla P100 PCIe 16GB"),
            ("AMD Instinct MI250X", "Instinct MI250X"),
        ] {
            assert_eq!(found(name).as_deref(), Some(entry), "{name}");
        }
    }

    #[test]
    fn names_of_people_find_the_same() {
        for (name, entry) in [
            ("H200", "H200 SXM"),
            ("h100 sxm", "H100 SXM5 80GB"),
            ("rtx 4090", "GeForce RTX 4090"),
        ] {
            assert_eq!(found(name).as_deref(), Some(entry), "{name}");
        }
    }

    #[test]
    fn other_gpus_and_slices_are_unknown() {
        for name in [
            "",
            "NVIDIA",
            "H100", // Three form factors with three rates.
            "A100",
            "NVIDIA A30 MIG 2g.12gb",
            "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA GeForce RTX 4090 Laptop ",
            "NVIDIA GeForce RTX 3060 Laptop ",
            "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
            "NVIDIA RTX 5000 Ada Generation Laptop GPU",
            "NVIDIA H20-3e",
            "NVIDIA H2",
            "Quadro RTX 3000",
            "NVIDIA RTX PRO 6000 Blackwell S",
            "Orin",
            "Intel(R) HD Graphics 630",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_cut_to_31_characters_matches_the_one_gpu_that_it_can_mean() {
        let cut = "NVIDIA RTX PRO 6000 Blackwell W";
        assert_eq!(cut.len(), 31);
        assert_eq!(
            found(cut).as_deref(),
            Some("RTX PRO 6000 Blackwell Workstation")
        );
        assert_eq!(found("NVIDIA RTX PRO 6000 Blackwell"), None);
    }

    #[test]
    fn no_two_entries_share_a_name() {
        let hardware = Hardware::builtin();
        for gpu in &hardware.gpus {
            for name in super::names(gpu) {
                assert_eq!(
                    hardware.find(name).map(|found| &found.name),
                    Some(&gpu.name),
                    "{name}"
                );
            }
        }
    }
}
