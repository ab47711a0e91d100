//! Generated exports.

use std::cell::RefCell;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::exports::{NAMES, export};
use super::workloads::workload;
use super::{Bundle, Count, Counts};

/// Exports that are generated.
const EXPORTS: u32 = 300;

#[test]
fn both_read_generated_exports_in_the_same_way() {
    let config = Config {
        cases: EXPORTS,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let sum = RefCell::new(Counts::default());
    let names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    let strategy = (export(), proptest::option::weighted(0.5, workload(names)));
    let outcome = runner.run(&strategy, |(export, workload)| {
        let bundle = Bundle::new("generated");
        export.write(&bundle.export()).expect("SQLite writes it");
        if let Some(workload) = workload {
            bundle.describe(workload);
        }
        let counts = bundle.compare(&["decode", "nothing"]);
        sum.borrow_mut().merge(&counts);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let sum = sum.into_inner();
    sum.expect(&[
        (Count::Read, 200),
        (Count::Listed, 200),
        (Count::Refused, 8),
        (Count::Skipped, 80),
        (Count::Stages, 300),
        (Count::Instances, 700),
        (Count::Excluded, 30),
        (Count::Inferred, 200),
        (Count::Requests, 900),
        (Count::Lists, 400),
        (Count::Gates, 120),
    ]);
}
