//! What ran on what: advice is for the vendor, the compute capability and the framework that the data show.

use rooflens_schemas::PassKind;
use rooflens_session::{PassId, Session};

use crate::engine::measured_peaks::gpu_name;

/// Who made the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Nothing tells.
    #[default]
    Unknown,
}

/// What ran on what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    /// Who made the GPU.
    pub vendor: Vendor,
    /// Compute capability of an NVIDIA GPU, major × 10 + minor; the least of several.
    pub capability: Option<u32>,
    /// PyTorch ran: its trace, its kernels, its ranges or its version are in the bundle, or a model of Transformers is.
    pub pytorch: bool,
    /// `torch.compile` made some of it: kernels have the names that its Inductor gives, or the capture program saw it.
    pub compiled: bool,
    /// A process is a Python without `torch.compile`, which needs 3.8.
    pub is_old_python: bool,
}

/// Parts of names of executables of Python before 3.8.
const OLD_PYTHON: [&str; 3] = ["python2", "python3.6", "python3.7"];

/// Parts of names of kernels that PyTorch or its compiler made.
const PYTORCH_KERNELS: [&str; 5] = ["at::", "c10::", "torch", "triton_", "pytorch_flash"];

/// Parts of GPU names by which AMD's are known.
const AMD: [&str; 4] = ["AMD", "Radeon", "Instinct", "gfx9"];

impl Platform {
    /// What the tables tell; the GPU is that of a pass, where one is given.
    pub fn of(session: &Session, pass: Option<PassId>) -> Self {
        let vendor = vendor(session, pass);
        let gpus = &session.gpus;
        let of_pass = |row: &usize| pass.is_none_or(|pass| gpus.pass[*row] == pass);
        let mut least = (0..gpus.len())
            .filter(of_pass)
            .filter_map(|row| gpus.compute_capability[row])
            .min();
        least = least.or_else(|| gpus.compute_capability.iter().copied().flatten().min());
        let capability = least.filter(|_| vendor != Vendor::Amd);
        Self {
            vendor,
            capability,
            pytorch: is_pytorch(session),
            compiled: is_compiled(session),
            is_old_python: is_old_python(session),
        }
    }

    /// Whether products of TF32 and bf16 have tensor cores: compute capability 8.0; none if nothing tells.
    pub fn has_tf32(&self) -> Option<bool> {
        self.at_least(80)
    }

    /// Whether products of FP8 have tensor cores: compute capability 8.9.
    pub fn has_fp8(&self) -> Option<bool> {
        self.at_least(89)
    }

    /// Whether there are tensor cores: compute capability 7.0.
    pub fn has_tensor_cores(&self) -> Option<bool> {
        self.at_least(70)
    }

    fn at_least(&self, capability: u32) -> Option<bool> {
        match self.vendor {
            Vendor::Amd => Some(false),
            Vendor::Nvidia | Vendor::Unknown => self.capability.map(|own| own >= capability),
        }
    }
}

fn vendor(session: &Session, pass: Option<PassId>) -> Vendor {
    let name = gpu_name(session, pass);
    let by_nvidia = |kind: &PassKind| *kind == PassKind::Counters;
    if AMD.iter().any(|part| name.contains(part)) {
        Vendor::Amd
    } else if !name.is_empty() || session.passes.kind.iter().any(by_nvidia) {
        Vendor::Nvidia
    } else {
        Vendor::Unknown
    }
}

fn is_pytorch(session: &Session) -> bool {
    let is_kernel = |name: &str| PYTORCH_KERNELS.iter().any(|part| name.contains(part));
    let is_range = |name: &str| name.starts_with("aten::") || name.starts_with("ProfilerStep#");
    session.model.is_some()
        || session.passes.kind.contains(&PassKind::Operators)
        || session
            .kernels
            .name
            .iter()
            .any(|name| is_kernel(session.text(*name)))
        || session
            .ranges
            .name
            .iter()
            .any(|name| is_range(session.text(*name)))
        || session
            .environment
            .key
            .iter()
            .any(|key| session.text(*key) == "PyTorch")
}

fn is_old_python(session: &Session) -> bool {
    let mut names = session
        .processes
        .name
        .iter()
        .map(|name| session.text(*name));
    names.any(|name| OLD_PYTHON.iter().any(|part| name.contains(part)))
}

fn is_compiled(session: &Session) -> bool {
    let is_kernel = |name: &str| name.starts_with("triton_") && name.contains("_fused_");
    session.workload.noted.contains_key("torch.compile")
        || session
            .kernels
            .name
            .iter()
            .any(|name| is_kernel(session.text(*name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(gpu: &str, capability: u32, kernel: &str) -> Platform {
        let mut session = Session::default();
        let pass = session.add_pass("nsys", PassKind::Timeline, "a.sqlite");
        let row = session.gpu(pass, 0).index();
        session.gpus.name[row] = session.strings.intern(gpu);
        session.gpus.compute_capability[row] = Some(capability);
        session.kernel(kernel, "");
        Platform::of(&session, Some(pass))
    }

    #[test]
    fn types_are_those_of_the_compute_capability_and_none_of_amd() {
        let volta = platform("Tesla V100-PCIE-32GB", 70, "k");
        assert_eq!(
            (volta.has_tensor_cores(), volta.has_tf32()),
            (Some(true), Some(false))
        );
        let ampere = platform("NVIDIA A100-SXM4-40GB", 80, "k");
        assert_eq!(
            (ampere.has_tf32(), ampere.has_fp8()),
            (Some(true), Some(false))
        );
        assert_eq!(
            platform("NVIDIA GeForce RTX 4090", 89, "k").has_fp8(),
            Some(true)
        );
        let amd = platform("AMD Radeon Graphics", 90, "k");
        assert_eq!(
            (amd.vendor, amd.capability, amd.has_tf32()),
            (Vendor::Amd, None, Some(false))
        );
        assert_eq!(Platform::default().has_tf32(), None);
    }

    #[test]
    fn what_inductor_named_is_compiled() {
        let is_compiled = |kernel| platform("NVIDIA H200", 90, kernel).compiled;
        assert!(is_compiled("triton_poi_fused_mul_silu_1"));
        // A kernel of somebody's own, one of XLA, and one of eager PyTorch.
        for kernel in [
            "triton_softmax_kernel",
            "triton_fusion_3",
            "at::native::fused_dropout",
        ] {
            assert!(!is_compiled(kernel), "{kernel}");
        }
    }

    #[test]
    fn pytorch_is_known_by_its_kernels() {
        assert!(platform("x", 80, "void at::native::copy<float>(T1)").pytorch);
        assert!(!platform("x", 80, "nvkernel_main_F1L20_2").pytorch);
    }
}
