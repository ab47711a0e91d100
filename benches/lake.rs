//! Results of thousands of captures for a lake, from the distributions of fixtures.
//!
//! `cargo bench --bench lake -- FOLDER CAPTURES ROWS` writes `FOLDER/<number>/results/`: captures of a year on three
//! drivers, each with so many rows of kernels. With driver [`SLOW`] the captures of [`PLANTED`] take [`FACTOR`] times as
//! long: the regression that `templates/queries/regressions.sql` is to find, and the only one. One capture of a hundred
//! takes [`OUTLIER`] times as long. Half of the captures have no findings, and take [`REPAIRED`] of the time.

use std::fs;
use std::path::{Path, PathBuf};

use rooflens::document::{Cell, Dataset};
use rooflens::report::Report;
use rooflens::{Lang, Options, lake};
use sha2::{Digest, Sha256};

/// Fixtures whose results are varied.
const FIXTURES: [&str; 4] = [
    "h200-llama-8b",
    "h200-vit-train",
    "h200x2-ddp",
    "h200-qwen-0.5b",
];

/// The fixture whose captures one driver slows.
const PLANTED: &str = "h200-vit-train";

/// The driver that does.
const SLOW: &str = "590.44.01";

/// How long they take then.
const FACTOR: f64 = 1.12;

/// How much longer one capture of a hundred takes.
const OUTLIER: f64 = 2.0;

/// Time without findings: less of a change than a regression is.
const REPAIRED: f64 = 0.97;

const DRIVERS: [&str; 3] = ["570.86.15", "580.65.06", SLOW];

/// Names of kernels in all captures of a fixture together.
const NAMES: usize = 3000;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let Some(folder) = args.next().map(PathBuf::from) else {
        // `cargo bench` of everything.
        return;
    };
    let mut number = |default: usize| {
        args.next()
            .and_then(|arg| arg.parse().ok())
            .unwrap_or(default)
    };
    let (captures, rows) = (number(100), number(1000));
    let bases = FIXTURES.map(|name| (name, base(name)));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Not by rayon, whose threads begin with the next capture while polars writes one.
    std::thread::scope(|scope| {
        for first in 0..threads {
            let (bases, folder) = (&bases, &folder);
            scope.spawn(move || {
                for capture in (first..captures).step_by(threads) {
                    let (name, base) = &bases[capture % bases.len()];
                    write(
                        &varied(base, *name == PLANTED, capture, rows),
                        &folder.join(capture.to_string()),
                    );
                }
            });
        }
    });
}

fn write(report: &Report, folder: &Path) {
    for (path, bytes) in lake::results(report).expect("results of a capture") {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, bytes).expect("writable");
    }
}

fn base(name: &str) -> Report {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name);
    let capture = rooflens::open([path]).expect("the fixture opens");
    let analysis = capture
        .analyze(&Options::default())
        .expect("it has measurements");
    analysis.report(Lang::En)
}

/// The results of a base as those of another capture.
fn varied(base: &Report, is_planted: bool, number: usize, rows: usize) -> Report {
    let mut random = Random(number as u64 + 1);
    let driver = DRIVERS[random.below(DRIVERS.len())];
    let mut factor = 1.0 + 0.04 * (random.share() - 0.5);
    if is_planted && driver == SLOW {
        factor *= FACTOR;
    }
    if random.below(100) == 0 {
        factor *= OUTLIER;
    }
    let is_repaired = random.below(2) == 0;
    if is_repaired {
        factor *= REPAIRED;
    }
    let mut report = base.clone();
    let hash = Sha256::digest(format!("generated {number}"));
    report.meta.bundle_id = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let (month, day) = (1 + random.below(12), 1 + random.below(28));
    report.meta.captured_at = Some(format!("2026-{month:02}-{day:02}T12:00:00Z"));
    for dataset in &mut report.datasets {
        match dataset.id {
            "kernels" => repeat(dataset, rows, &mut random),
            "findings" if is_repaired => dataset.rows.clear(),
            "environment" => dataset.rows = vec![fact("driver", "version", driver)],
            _ => {}
        }
        scale(dataset, factor);
    }
    if report.dataset("environment").is_none() {
        report.datasets.push(environment(driver));
    }
    report
}

fn fact(subject: &str, key: &str, value: &str) -> Vec<Cell> {
    [subject, key, value, "generated"].map(Cell::from).to_vec()
}

fn environment(driver: &str) -> Dataset {
    use rooflens::document::Column;
    Dataset {
        id: "environment",
        title: String::new(),
        columns: ["subject", "key", "value", "artifact"]
            .map(|id| Column::text(id, id))
            .to_vec(),
        rows: vec![fact("driver", "version", driver)],
    }
}

/// Multiplies all times of a data set.
fn scale(dataset: &mut Dataset, factor: f64) {
    for (place, column) in dataset.columns.iter().enumerate() {
        if !column.id.ends_with("_ns") {
            continue;
        }
        for row in &mut dataset.rows {
            row[place] = match &row[place] {
                Cell::Int(value) => Cell::Float(*value as f64 * factor),
                Cell::Float(value) => Cell::Float(value * factor),
                cell => cell.clone(),
            };
        }
    }
}

/// Repeats the rows of a data set of kernels under other names.
fn repeat(dataset: &mut Dataset, rows: usize, random: &mut Random) {
    let (Some(name), false) = (dataset.position("name"), dataset.rows.is_empty()) else {
        return;
    };
    let first = random.below(NAMES);
    let mut repeated = Vec::with_capacity(rows);
    for number in 0..rows {
        // A number has one name in all captures of a fixture.
        let number = (first + number) % NAMES;
        let mut row = dataset.rows[number % dataset.rows.len()].clone();
        let text = format!("{}_{number}", row[name].plain());
        row[name] = Cell::Name(text.into());
        repeated.push(row);
    }
    dataset.rows = repeated;
}

/// Numbers that are the same on every machine: xorshift*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
