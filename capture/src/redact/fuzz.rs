//! Fuzzing of redaction: whatever surrounds planted secrets, and however a stream is cut, none of them comes out.
//!
//! `ROOFLENS_FUZZ_SECONDS=60` fuzzes for so long, `ROOFLENS_FUZZ_SEED=7` elsewhere.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{Secrets, export};

/// Executions without a time.
const EXECUTIONS: u32 = 100;

/// Values of variables whose names tell.
const PLANTED: [&str; 5] = [
    "hunter2-hunter2",
    "p\"l\\a'nt ed/é",
    "a+b/c==dd",
    "correct\nhorse",
    "%00%41secret",
];

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }
}

fn secrets() -> Secrets {
    let variables = PLANTED.iter().enumerate();
    let variables = variables.map(|(at, value)| (format!("V{at}_TOKEN"), (*value).to_owned()));
    Secrets::of(variables, &[], true)
}

/// A secret as it is, in JSON, in JSON of JSON, and in an address.
fn forms(secret: &str) -> [String; 4] {
    let json = |text: &str| {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let percent = secret.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    [
        secret.to_owned(),
        json(secret),
        json(&json(secret)),
        percent.collect(),
    ]
}

fn assert_gone(bytes: &[u8]) {
    for form in PLANTED.iter().flat_map(|secret| forms(secret)) {
        let found = memchr::memmem::find(bytes, form.as_bytes());
        assert!(
            found.is_none(),
            "{form:?} in {:?}",
            String::from_utf8_lossy(bytes)
        );
    }
}

/// Bytes between which secrets stand, some of them cut, in one of their forms.
fn text(random: &mut Random) -> Vec<u8> {
    const BETWEEN: &[u8] = b"\"\\'%+/= &,x\0\xffhuntpa";
    let mut bytes = Vec::new();
    for _ in 0..random.below(12) {
        let form = &forms(PLANTED[random.below(PLANTED.len())])[random.below(4)];
        let end = if random.below(3) == 0 {
            random.below(form.len())
        } else {
            form.len()
        };
        bytes.extend(&form.as_bytes()[..end]);
        for _ in 0..random.below(6) {
            bytes.push(BETWEEN[random.below(BETWEEN.len())]);
        }
    }
    bytes
}

fn streams(random: &mut Random, secrets: &Secrets) {
    let (bytes, mut masker, mut written) = (text(random), secrets.masker(), Vec::new());
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.below(rest.len().min(40)));
        written.extend(masker.push(piece).bytes);
        // What is out at any time is out for good.
        assert_gone(&written);
        rest = after;
    }
    written.extend(masker.finish().bytes);
    assert_eq!(written.len(), bytes.len());
    assert_gone(&written);
}

/// An export that holds the forms, with some bytes changed.
fn exports(random: &mut Random, secrets: &Secrets, healthy: &[u8]) {
    let (mut bytes, file) = (healthy.to_vec(), tempfile::NamedTempFile::new().unwrap());
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len());
        bytes[at] = random.below(256) as u8;
    }
    std::fs::write(file.path(), bytes).unwrap();
    if export::redact(file.path(), secrets).is_ok() {
        assert_gone(&std::fs::read(file.path()).unwrap());
    }
}

fn healthy() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let base = Connection::open(file.path()).unwrap();
    base.execute_batch(
        "PRAGMA page_size = 512; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);",
    )
    .unwrap();
    for form in PLANTED.iter().flat_map(|secret| forms(secret)) {
        base.execute("INSERT INTO StringIds (value) VALUES (?1)", [&form])
            .unwrap();
        let row = "INSERT INTO META_DATA_CAPTURE VALUES ('ENVIRONMENT_VARIABLE', ?1)";
        base.execute(row, [&form]).unwrap();
    }
    drop(base);
    std::fs::read(file.path()).unwrap()
}

#[test]
fn no_planted_secret_comes_out() {
    let setting = |name: &str| {
        std::env::var(format!("ROOFLENS_FUZZ_{name}"))
            .ok()?
            .parse()
            .ok()
    };
    let share = setting("SECONDS").map(Duration::from_secs);
    let mut random = Random(setting("SEED").unwrap_or(1).max(1));
    let (secrets, healthy, began) = (secrets(), healthy(), Instant::now());
    let mut executions = 0;
    while share.map_or(executions < EXECUTIONS, |share| began.elapsed() < share) {
        streams(&mut random, &secrets);
        exports(&mut random, &secrets, &healthy);
        executions += 1;
    }
}
