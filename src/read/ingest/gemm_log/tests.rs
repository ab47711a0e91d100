#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{import_bytes, sniffs};

/// One call as cuBLASLt 13.1 logs it, on one line.
const LT: &str = include_str!("../../../../tests/data/seeds/cublaslt.log");

fn block(function: &str, arguments: &[(&str, &str)]) -> String {
    let mut text =
        format!("I! cuBLAS (v13.1.0) function cublasStatus_t {function}(int, int) called:\n");
    for (name, value) in arguments {
        text += &format!("i!  {name}: type=int; val={value}\n");
    }
    text += "i! Time: 2026-11-21T07:45:27 elapsed from start 0.1 minutes or 8.0 seconds\n";
    text + "i!Process=4583; Thread=1403; GPU=0\ni! COMPILED WITH: GNU GCC/G++ / 8.5.0\n"
}

fn import_text(text: &str) -> (Result<(), IngestError>, Session, Vec<(&'static str, u64)>) {
    let (result, session, diagnostics) = import_bytes(&IMPORTER, "gemm-log/x.log", text);
    (
        result,
        session,
        diagnostics.iter().map(|d| (d.code, d.count)).collect(),
    )
}

#[test]
fn a_trace_line_of_cublaslt_has_sizes_types_and_algorithm() {
    let api = LT.replace("[Trace]", "[Api]");
    let (result, session, lost) = import_text(&format!("{api}{LT}"));
    assert!(result.is_ok() && lost.is_empty());
    let calls = &session.gemm_calls;
    assert_eq!(calls.len(), 1, "the line of the API level is the same call");
    let call = calls.row(rooflens_session::GemmCallId(0));
    // A is stored 8192 × 2048 and transposed: the sums run over 8192.
    assert_eq!((call.m, call.n, call.k, call.batch), (2048, 4, 8192, 1));
    assert_eq!(
        (call.transpose_a, call.transpose_b, call.process),
        (true, false, 4889)
    );
    assert_eq!(
        (call.tile_m, call.tile_n, call.split_k),
        (Some(64), Some(8), Some(3))
    );
    let text = |id| session.text(id);
    assert_eq!((text(call.a_type), text(call.d_type)), ("R_16BF", "R_16BF"));
    assert_eq!(
        (text(call.stages), text(call.cluster)),
        ("64xAUTO", "4x1x1")
    );
    assert_eq!(
        (text(call.pass), text(call.compute)),
        ("gemm-log", "COMPUTE_32F")
    );
}

#[test]
fn a_block_of_cublas_has_sizes_and_types() {
    let sizes = [
        ("transa", "CUBLAS_OP_T(1)"),
        ("transb", "CUBLAS_OP_N(0)"),
        ("m", "512"),
        ("n", "8"),
        ("k", "2048"),
    ];
    let mut typed = sizes.to_vec();
    typed.extend([
        ("Atype", "CUDA_R_16BF(14)"),
        ("computeType", "CUBLAS_COMPUTE_32F(68)"),
    ]);
    let mut batched = sizes.to_vec();
    batched.push(("batchCount", "3"));
    let log = block("cublasSetStream_v2", &[("streamId", "1")])
        + &block("cublasGemmEx", &typed)
        + &block("cublasSgemmStridedBatched", &batched)
        + &block(
            "cublasSgemv_v2",
            &[("trans", "CUBLAS_OP_T(1)"), ("m", "64"), ("n", "10")],
        );
    let (result, session, lost) = import_text(&log);
    assert!(result.is_ok() && lost.is_empty(), "{lost:?}");
    let calls = &session.gemm_calls;
    let size = |row: usize| (calls.m[row], calls.n[row], calls.k[row], calls.batch[row]);
    assert_eq!([size(0), size(1)], [(512, 8, 2048, 1), (512, 8, 2048, 3)]);
    // A vector of 10: each entry is a sum over the 64 rows.
    assert_eq!(size(2), (10, 1, 64, 1));
    let types: Vec<&str> = calls.a_type.iter().map(|id| session.text(*id)).collect();
    assert_eq!(types, ["R_16BF", "R_32F", "R_32F"]);
    assert_eq!((calls.process[0], calls.tile_m[0]), (4583, None));
    assert_eq!(session.text(calls.compute[0]), "COMPUTE_32F");
}

#[test]
fn what_is_damaged_costs_its_call_and_is_counted() {
    let whole = block("cublasSgemm_v2", &[("m", "2"), ("n", "3"), ("k", "4")]);
    // A call without k, a line of neither form, a product whose inner sizes differ, a block that the file cuts.
    let log = whole.clone()
        + &block("cublasSgemm_v2", &[("m", "2"), ("n", "3")])
        + "sum garbage\n"
        + &LT.replace("Bdesc=[type=R_16BF rows=8192", "Bdesc=[type=R_16BF rows=8")
        + "I! cuBLAS (v13.1.0) function cublasStatus_t cublasSgemm_v2(int) called:\ni!  m: type=int; val=20";
    let (result, session, lost) = import_text(&log);
    assert!(result.is_ok());
    assert_eq!(
        (session.gemm_calls.len(), lost),
        (1, vec![("gemm-log/line", 4)])
    );
}

#[test]
fn grouped_products_and_endless_lines_are_left_out_and_said() {
    let log = block("cublasGemmGroupedBatchedEx", &[("group_count", "2")])
        + &"x".repeat(200_000)
        + "\n"
        + LT;
    let (result, session, lost) = import_text(&log);
    assert!(result.is_ok());
    assert_eq!(session.gemm_calls.len(), 1);
    assert_eq!(lost, [("gemm-log/line", 1), ("gemm-log/grouped", 1)]);
}

#[test]
fn a_log_without_products_is_empty_and_other_files_are_not_logs() {
    let (result, ..) = import_text(&block("cublasCreate_v2", &[]));
    assert!(matches!(
        result.unwrap_err().kind,
        IngestErrorKind::Empty(_)
    ));
    let is_log = |text: &str| sniffs(&IMPORTER, "x.log", text);
    assert!(is_log(LT) && is_log("\nI! cuBLAS (v13.1.0) function x called:\n"));
    assert!(!is_log("") && !is_log("[1, 2]") && !is_log("# a log of cuBLAS\n"));
    assert!(!is_log("[2026-11-21][nccl] init"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_bring_it_down(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), cut in 0usize..900) {
        let mut text = LT.to_owned();
        text.truncate(cut);
        text += &String::from_utf8_lossy(&bytes);
        let (_, session, _) = import_text(&text);
        proptest::prop_assert!(session.gemm_calls.len() <= 2);
    }
}
