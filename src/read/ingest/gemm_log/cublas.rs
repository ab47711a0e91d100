//! Blocks of cuBLAS logs.

use super::{blank, size};
use rooflens_session::{GemmCall, Session};

/// A call whose arguments are being read.
pub(super) struct Block {
    function: String,
    sizes: [Option<u64>; 3],
    batch: Option<u64>,
    transposed: [bool; 2],
    /// Types of A, B and C as arguments name them.
    types: [String; 3],
    compute: String,
    process: i64,
}

impl Block {
    /// The block of the function that `I! cuBLAS (…) function … NAME(…) called` names, if it is a product.
    pub(super) fn begin(line: &str) -> Option<Self> {
        let (_, call) = line.split_once(" function ")?;
        let (head, _) = call.split_once('(')?;
        let function = head.rsplit(' ').next()?;
        let is_product = letter(function).is_some()
            || [
                "cublasGemm",
                "cublasSgemmEx",
                "cublasCgemm",
                "cublasUint8gemm",
            ]
            .iter()
            .any(|name| function.starts_with(name));
        is_product.then(|| Self {
            function: function.to_owned(),
            sizes: [None; 3],
            batch: None,
            transposed: [false; 2],
            types: Default::default(),
            compute: String::new(),
            process: 0,
        })
    }

    /// Takes an argument line; false where the block ends.
    pub(super) fn argument(&mut self, line: &str) -> bool {
        let line = line.strip_prefix("i!").unwrap_or(line).trim_start();
        if let Some(rest) = line.strip_prefix("Process=") {
            let digits = rest.split(';').next().unwrap_or_default();
            self.process = digits.parse().unwrap_or(0);
            return true;
        }
        if line.starts_with("COMPILED WITH") {
            return false;
        }
        let Some((name, rest)) = line.split_once(": type=") else {
            return true;
        };
        let Some((_, value)) = rest.split_once("val=") else {
            return true;
        };
        match name {
            "m" => self.sizes[0] = size(value),
            "n" => self.sizes[1] = size(value),
            "k" => self.sizes[2] = size(value),
            "batchCount" => self.batch = size(value),
            "trans" | "transa" => self.transposed[0] = !value.contains("OP_N"),
            "transb" => self.transposed[1] = !value.contains("OP_N"),
            "Atype" => self.types[0] = enumerator(value),
            "Btype" => self.types[1] = enumerator(value),
            "Ctype" => self.types[2] = enumerator(value),
            "computeType" => self.compute = enumerator(value),
            _ => {}
        }
        true
    }

    /// True if the sizes of the products lie in arrays.
    pub(super) fn is_grouped(&self) -> bool {
        self.function.contains("Grouped")
    }

    /// The call, if all its sizes are there.
    pub(super) fn call(&self, session: &mut Session) -> Option<GemmCall> {
        let is_vector = self.function.contains("gemv");
        let [m, n, k] = self.sizes;
        // A matrix times a vector: the sums run over the side that the output does not have.
        let (m, n, k) = match (is_vector, self.transposed[0]) {
            (false, _) => (m?, n?, k?),
            (true, false) => (m?, 1, n?),
            (true, true) => (n?, 1, m?),
        };
        let batched = self.function.contains("Batched");
        if batched && self.batch.is_none() {
            return None;
        }
        let by_letter = letter(&self.function).unwrap_or_default();
        let mut named = |text: &String| {
            session.intern(if text.is_empty() {
                by_letter
            } else {
                text.as_str()
            })
        };
        let [a_type, b_type, d_type] = [
            named(&self.types[0]),
            named(&self.types[1]),
            named(&self.types[2]),
        ];
        Some(GemmCall {
            process: self.process,
            m,
            n,
            k,
            batch: self.batch.unwrap_or(1),
            a_type,
            b_type,
            d_type,
            compute: session.intern(&self.compute),
            transpose_a: self.transposed[0],
            transpose_b: self.transposed[1],
            ..blank(session, &self.function)
        })
    }
}

/// The type of the letter of a BLAS name: `cublasSgemm_v2`.
fn letter(function: &str) -> Option<&'static str> {
    let rest = function.strip_prefix("cublas")?;
    let (letter, name) = rest.split_at_checked(1)?;
    if !name.starts_with("gemm") && !name.starts_with("gemv") {
        return None;
    }
    Some(match letter {
        "H" => "R_16F",
        "S" => "R_32F",
        "D" => "R_64F",
        "C" => "C_32F",
        "Z" => "C_64F",
        _ => return None,
    })
}

/// `R_16BF` of `CUDA_R_16BF(14)`, `COMPUTE_32F` of `CUBLAS_COMPUTE_32F(68)`.
fn enumerator(value: &str) -> String {
    let name = value.split('(').next().unwrap_or_default().trim();
    let name = name
        .strip_prefix("CUDA_")
        .or_else(|| name.strip_prefix("CUBLAS_"))
        .unwrap_or(name);
    name.to_owned()
}
