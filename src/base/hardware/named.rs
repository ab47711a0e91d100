//! GPUs by names as people write them, such as `rtx4090` and `A100-80GB`.

use std::fmt;

use super::{Gpu, Hardware};

/// Letters and digits of a name below which it fits too many GPUs.
const SHORTEST: usize = 3;

/// GPUs that the message about an unknown name lists at most.
const LISTED: usize = 8;

/// A name that leads to no GPU, or to several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGpu {
    /// The name.
    pub name: String,
    /// Names of GPUs with the most similar names.
    pub similar: Vec<String>,
}

impl std::error::Error for UnknownGpu {}

impl fmt::Display for UnknownGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no GPU named {}; ", self.name)?;
        if self.similar.is_empty() {
            write!(f, "“rooflens gpus” lists the known ones")
        } else {
            write!(f, "there are {}", self.similar.join(", "))
        }
    }
}

impl Hardware {
    /// The GPU of that name, or the one in whose name all of its words are.
    ///
    /// # Errors
    /// No GPU has the name, or several have.
    pub fn named(&self, name: &str) -> Result<&Gpu, UnknownGpu> {
        match self.matching(name)[..] {
            [gpu] => Ok(gpu),
            _ => Err(self.unknown(name)),
        }
    }

    /// The GPU of that name, or those in one of whose names all of its words are.
    pub fn matching(&self, name: &str) -> Vec<&Gpu> {
        if let Some(gpu) = self.find(name) {
            return vec![gpu];
        }
        let mut words = Vec::new();
        for word in name.split(|character: char| !character.is_alphanumeric()) {
            let word = plain(word);
            if !word.is_empty() && word != "nvidia" {
                words.push(word);
            }
        }
        if words.is_empty() {
            return Vec::new();
        }
        let has_words = |name: &String| {
            let name = plain(name);
            words.iter().all(|word| name.contains(word))
        };
        let is_match = |gpu: &&Gpu| has_words(&gpu.name) || gpu.aliases.iter().any(has_words);
        self.gpus.iter().filter(is_match).collect()
    }

    /// The error for a name that leads to no single GPU.
    pub fn unknown(&self, name: &str) -> UnknownGpu {
        let mut similar = Vec::new();
        for gpu in self.similar(name).into_iter().take(LISTED) {
            similar.push(gpu.name.clone());
        }
        UnknownGpu {
            name: name.to_owned(),
            similar,
        }
    }

    /// The GPUs that the name leads to, or its longest beginning that leads to any.
    fn similar(&self, name: &str) -> Vec<&Gpu> {
        let mut beginning = name;
        while plain(beginning).len() >= SHORTEST {
            let gpus = self.matching(beginning);
            if !gpus.is_empty() {
                return gpus;
            }
            let last = beginning.chars().next_back().map_or(0, char::len_utf8);
            beginning = &beginning[..beginning.len() - last];
        }
        Vec::new()
    }
}

/// The letters and digits of a name in lower case.
fn plain(name: &str) -> String {
    let characters = name.chars().filter(|character| character.is_alphanumeric());
    characters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them_lead_to_gpus_and_wrong_ones_to_the_nearest() {
        let hardware = Hardware::builtin();
        for (name, expected) in [
            ("rtx4090", "GeForce RTX 4090"),
            ("h200sxm", "H200 SXM"),
            ("mi250x", "Instinct MI250X"),
            ("b200", "B200"),
            ("t5000", "Jetson T5000"),
        ] {
            let gpus = hardware.matching(name);
            let first = gpus.first().map(|gpu| gpu.name.as_str());
            assert_eq!(first, Some(expected), "{name}");
        }
        let gpus = hardware.matching("a100-80gb");
        let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        assert_eq!(names, ["A100 PCIe 80GB", "A100 SXM4 80GB"]);
        for part in [
            "orin", "thor", "gb300", "v100", "titan", "quadro", "2080", "mi355",
        ] {
            assert!(!hardware.matching(part).is_empty(), "{part}");
        }
        let similar = hardware.unknown("h1000").to_string();
        assert!(
            similar.contains("there are H100 SXM5 80GB, H100 PCIe 80GB"),
            "{similar}"
        );
        let unknown = hardware.unknown("xyz").to_string();
        assert!(unknown.contains("lists the known ones"), "{unknown}");
    }
}
