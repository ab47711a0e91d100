//! How often the injected modules time a range.

use std::path::Path;
use std::process::Command;

/// What a program of Python prints that imports the injected modules.
fn printed(program: &str) -> String {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/inject");
    let output = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", modules)
        .output()
        .expect("starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn instances_are_skipped_until_timing_one_is_affordable() {
    // (22 + 3) µs ÷ 0.25 % of 1 ms is every 10th, and so every 11th. 3 µs are 0.15 % of 2 ms. 23 µs of 1 µs: the longest period.
    let program = "from rooflens_inject.clock import skips\n\
                   print(skips(22_000, 1_000_000), skips(0, 2_000_000), skips(20_000, 1_000))";
    assert_eq!(printed(program), "10 0 1020\n");
}

#[test]
fn a_range_that_is_not_timed_is_counted() {
    // Empty ranges: the 33rd outermost one and the third inner one are the last that are timed for a while.
    let program = "
from rooflens_inject.stages import Stages

class Clock:
    def mark(self):
        return 0, None, None

    def interval(self, start, end, read):
        read(1.0, False)

stages = Stages(Clock())
for number in range(200):
    stages.enter(f'step {number}')
    stages.enter('layer')
    stages.leave()
    stages.leave()
stages.leave()
for stage in stages.all.values():
    print(stage.opened, len(stage.times) < 100)
assert not stages.stack()
";
    assert_eq!(printed(program), "200 True\n200 True\n");
}
