//! Environment variables that change how GPU work runs. The list is closed: a variable that is not on it may be a
//! secret and is never read.

use rooflens_schemas::Fact;

const NAMES: [&str; 43] = [
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_LAUNCH_MODE",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NTHREADS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "NVTE_FLASH_ATTN",
    "NVTE_FUSED_ATTN",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "RANK",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
    "TORCH_NCCL_HIGH_PRIORITY",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_USE_V1",
    "WORLD_SIZE",
];

/// One fact a variable of the list.
pub(crate) fn facts(read: impl Fn(&str) -> Option<String>) -> Vec<Fact> {
    let fact = |name: &&str| match read(name) {
        Some(value) => Fact::known("env", *name, value),
        None => Fact::missing("env", *name, "not set"),
    };
    NAMES.iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_the_list_are_read() {
        let facts = facts(|name| {
            assert!(NAMES.contains(&name));
            (name == "RANK").then(|| "3".to_owned())
        });
        assert_eq!(facts.len(), NAMES.len());
        assert!(facts.contains(&Fact::known("env", "RANK", "3")));
        assert!(facts.contains(&Fact::missing("env", "NCCL_ALGO", "not set")));
    }

    #[test]
    fn the_list_is_sorted_and_holds_nothing_that_names_machines_or_keys() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        let telling = [
            "TOKEN", "KEY", "SECRET", "PASS", "HOST", "ADDR", "COMM_ID", "PATH", "USER",
        ];
        assert!(
            NAMES
                .iter()
                .all(|name| telling.iter().all(|part| !name.contains(part)))
        );
    }
}
