//! The folder of inputs that wrong invocations name.

use std::fs;
use std::path::Path;

use super::runs::{manifest, recorded};

/// The files that the rows are about.
pub(super) fn prepare(folder: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let trace = fs::read(data.join("one_kernel.json")).expect("readable");
    let write = |path: &str, bytes: &[u8]| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
        fs::write(path, bytes).expect("writable");
    };
    write("trace.json", &trace);
    write("cut.json", &trace[..250]);
    write(
        "h100.json",
        recorded("NVIDIA H100 80GB HBM3", 1_700_000_000, 11).as_bytes(),
    );
    write(
        "later.json",
        recorded("NVIDIA H100 80GB HBM3", 1_700_000_900, 12).as_bytes(),
    );
    write(
        "a100.json",
        recorded("NVIDIA A100-SXM4-80GB", 1_700_000_900, 11).as_bytes(),
    );
    write(
        "load.json",
        &fs::read(data.join("serving/vllm.json")).expect("readable"),
    );
    for (path, text) in TEXTS {
        write(path, text.as_bytes());
    }
    write("binary", &[0xff, 0xfd, 0, 1, 2, 3]);
    fs::create_dir(folder.join("empty-folder")).expect("writable");
    for bundle in [
        "one.bundle",
        "two.bundle",
        "runs/one",
        "runs/two",
        "changed.bundle",
    ] {
        write(&format!("{bundle}/torch/rank0.json"), &trace);
        write(
            &format!("{bundle}/manifest.json"),
            manifest(&trace).as_bytes(),
        );
    }
    write(
        "changed.bundle/manifest.json",
        manifest(b"other bytes").as_bytes(),
    );
    write("broken.bundle/torch/rank0.json", &trace);
    write("broken.bundle/manifest.json", b"{");
    write("lossy.bundle/torch/rank0.json", EMPTY_TRACE.as_bytes());
    write(
        "lossy.bundle/manifest.json",
        manifest(EMPTY_TRACE.as_bytes()).as_bytes(),
    );
    write("packed/mine", b"x");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &trace).expect("memory");
    let gzip = gzip.finish().expect("memory");
    write("cut.json.gz", &gzip[..gzip.len() / 2]);
    let tar = tar_of(&[("run/torch/rank0.json", &trace)]);
    let packed = zstd::encode_all(&tar[..], 3).expect("memory");
    write("packed.tar.zst", &packed);
    write("archived/inner.tar.zst", &packed);
    write("cut.tar.zst", &packed[..packed.len() / 2]);
    write("evil.tar", &tar_of(&[("good", b"x"), ("../evil", b"y")]));
    let sqlite = folder.join("whole.sqlite");
    let database = rusqlite::Connection::open(&sqlite).expect("writable");
    database
        .execute_batch("CREATE TABLE StringIds (id, value)")
        .expect("writable");
    drop(database);
    let bytes = fs::read(&sqlite).expect("readable");
    write("cut.sqlite", &bytes[..bytes.len() - 1]);
    #[cfg(unix)]
    std::os::unix::fs::symlink("trace.json", folder.join("link.json")).expect("writable");
}

/// Files of a few words.
const TEXTS: &[(&str, &str)] = &[
    ("empty", ""),
    ("text", "words\n"),
    ("text.txt", "nothing of a profiler\n"),
    ("text.sqlite", "no database\n"),
    ("brace.json", "{"),
    ("object.json", "{}"),
    ("notes.md", "A note.\n"),
    ("foreign/mine", "x\n"),
    ("reports-only/a.nsys-rep", "NVIDIA Tegra Profiler Report\n"),
    ("taken_files/mine.svg", "x\n"),
    ("unfinished/a/workload.toml", "batch = 1\n"),
    ("unfinished/b/workload.toml", "batch = 2\n"),
    ("taken-templates/report.typ", "mine\n"),
    ("no-logo.toml", "name = \"A\"\nlogo = \"none.png\"\n"),
    ("workload.toml", "batch = 1\n"),
    ("unknown-key.toml", "batchsize = 1\n"),
    ("wrong-type.toml", "batch = \"one\"\n"),
    (
        "bad-pattern.toml",
        "[[stages]]\nname = \"a\"\nmatch = \"(\"\nkind = \"decode\"\n",
    ),
    (
        "other-stages.toml",
        "[[stages]]\nname = \"a\"\nmatch = \"none\"\nkind = \"decode\"\n",
    ),
    (
        "config.json",
        r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}"#,
    ),
];

/// A trace in which nothing happens.
const EMPTY_TRACE: &str = r#"{"schemaVersion": 1, "traceEvents": []}"#;

/// A tar of these files, whatever their paths are.
fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_ustar_mut().expect("it is one").name[..path.len()]
            .copy_from_slice(path.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, *bytes).expect("memory");
    }
    tar.into_inner().expect("memory")
}
