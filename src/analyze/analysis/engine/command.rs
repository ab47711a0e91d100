//! Runs of the whole command: their median without a profiler, and what each profiler adds.

use rooflens_schemas::{Evidence, PassKind, Scope};

use crate::{Context, Known, Missing};
use rooflens_session::{Ns, Session, StrId};
use rooflens_stats::Statistics;
use rooflens_units::{Ratio, Time};

/// The runs of the command.
pub struct Command {
    /// Passes without a profiler, in the order of the table.
    pub baselines: Vec<Repeats>,
    /// Passes with a profiler, in the order of the table.
    pub profiled: Vec<ProfiledRun>,
}

/// Runs of one pass without a profiler.
pub struct Repeats {
    /// Name of the pass.
    pub pass: StrId,
    /// Path of the artifact.
    pub artifact: StrId,
    /// Wall times of the counted runs.
    pub statistics: Statistics<Time>,
    /// Runs for warm-up, which do not count.
    pub warmup: usize,
    /// Runs with another exit code than 0, which do not count either.
    pub failed: usize,
}

/// The run of a pass with a profiler.
pub struct ProfiledRun {
    /// Name of the pass.
    pub pass: StrId,
    /// What was recorded.
    pub kind: PassKind,
    /// Wall time.
    pub duration: Ns,
    /// Wall time ÷ median of the first baseline.
    pub ratio: Ratio,
}

/// The runs; missing without a counted run of a baseline.
pub fn compute(context: &Context<'_>) -> Known<Command> {
    let session = context.session;
    let runs = &session.command_runs;
    let mut passes: Vec<StrId> = Vec::new();
    for row in 0..runs.len() {
        if runs.kind[row] == PassKind::Baseline && !passes.contains(&runs.pass[row]) {
            passes.push(runs.pass[row]);
        }
    }
    let mut baselines = Vec::new();
    for pass in passes {
        baselines.extend(Repeats::of(session, pass));
    }
    let first = baselines.first().ok_or(Missing("missing.baseline"))?;
    let median = first.statistics.median;
    let mut profiled = Vec::new();
    for row in 0..runs.len() {
        let is_baseline = runs.kind[row] == PassKind::Baseline;
        let is_whole = runs.exit_code[row].is_none_or(|code| code == 0);
        if !is_baseline && is_whole && median.is_positive() {
            profiled.push(ProfiledRun {
                pass: runs.pass[row],
                kind: runs.kind[row],
                duration: runs.duration[row],
                ratio: Ratio::of(runs.duration[row].time(), median),
            });
        }
    }
    Ok(Command {
        baselines,
        profiled,
    })
}

impl Repeats {
    fn of(session: &Session, pass: StrId) -> Option<Self> {
        let runs = &session.command_runs;
        let (mut times, mut warmup, mut failed) = (Vec::new(), 0, 0);
        let of_pass = (0..runs.len()).filter(|row| runs.pass[*row] == pass);
        let mut artifact = None;
        for row in of_pass {
            artifact = Some(runs.artifact[row]);
            if runs.warmup[row] {
                warmup += 1;
            } else if runs.exit_code[row] == Some(0) {
                times.push(runs.duration[row].time());
            } else {
                failed += 1;
            }
        }
        Some(Self {
            pass,
            artifact: artifact?,
            statistics: Statistics::of(&times)?,
            warmup,
            failed,
        })
    }

    /// What its figures rest on.
    pub fn evidence(&self, session: &Session) -> Evidence {
        Evidence {
            artifact: session.text(self.artifact).to_owned(),
            table: Some("command_runs".to_owned()),
            rows: Some(self.statistics.n as u64),
        }
    }

    /// What metrics are about.
    pub fn scope(&self, session: &Session) -> Scope {
        Scope {
            pass: Some(session.text(self.pass).to_owned()),
            ..Scope::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::command_runs;
    use crate::{Facts, Options};
    use rooflens_hardware::Hardware;

    fn command(session: &Session) -> Known<Command> {
        let (facts, hardware, options) =
            (Facts::default(), Hardware::default(), Options::default());
        compute(&Context::new(session, &facts, &hardware, &options))
    }

    #[test]
    fn warm_up_and_failed_runs_do_not_count() {
        let mut session = command_runs(&[90, 10, 30, 20, 50], &[("nsys", PassKind::Timeline, 26)]);
        session.command_runs.warmup[0] = true;
        session.command_runs.exit_code[4] = Some(1);
        let command = command(&session).expect("there are runs");
        let baseline = &command.baselines[0];
        // Of 10, 30 and 20.
        assert_eq!(
            (baseline.statistics.n, baseline.statistics.median),
            (3, Time(20.0))
        );
        assert_eq!((baseline.warmup, baseline.failed), (1, 1));
        assert_eq!(command.profiled[0].ratio, Ratio(1.3));
    }

    #[test]
    fn without_a_run_that_counts_nothing_is_compared() {
        let mut session = command_runs(&[10], &[("nsys", PassKind::Timeline, 26)]);
        session.command_runs.exit_code[0] = Some(139);
        let missing = command(&session).err();
        assert_eq!(missing, Some(Missing("missing.baseline")));
    }

    #[test]
    fn a_profiler_whose_run_failed_has_no_cost() {
        let passes = [
            ("nsys", PassKind::Timeline, 26),
            ("ncu", PassKind::Counters, 70),
        ];
        let mut session = command_runs(&[10], &passes);
        session.command_runs.exit_code[1] = Some(1);
        // The capture ended the command under ncu.
        session.command_runs.exit_code[2] = None;
        let command = command(&session).expect("there are runs");
        let ratios: Vec<Ratio> = command.profiled.iter().map(|run| run.ratio).collect();
        assert_eq!(ratios, [Ratio(7.0)]);
    }
}
