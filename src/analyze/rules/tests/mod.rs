//! Rules on typed results made by hand.

use rooflens_schemas::{PassKind, Scope, StageKind};

mod causes;
mod data;
mod kernels;
mod known;
mod named;

mod operators;
mod parts;
mod pauses;
mod practices;
mod products;
mod profiled;
mod summary;
mod transfers;
mod work;

use super::draft::Draft;
use super::evidence::Evidence;
use super::rule::{Look, Outcome};
use super::stage::{Nested, StageLine};
use super::*;
use rooflens_analysis::engine::baseline;
use rooflens_analysis::engine::classify::ClassGroup;
use rooflens_analysis::engine::facts::Stage;
use rooflens_analysis::engine::platform::Platform;
use rooflens_analysis::engine::stage_stats::Summary;
use rooflens_analysis::testing::trace;
use rooflens_analysis::time::drift;
use rooflens_analysis::time::idle::line::CauseGaps;
use rooflens_analysis::time::idle::{Cause, IdleTime, StageIdle};
use rooflens_analysis::{self, Context, Facts, Options};
use rooflens_document::{Catalogue, Cell, Inline, Severity};
use rooflens_hardware::Hardware;
use rooflens_session::{CopyKind, MemoryKind, Ns, PassId, ProcessId, Session, Timing};
use rooflens_units::{Bytes, Ratio, Time};

/// Results and stages of one pass `nsys`.
struct Made {
    known: rooflens_analysis::Results,
    session: Session,
    facts: Facts,
    hardware: Hardware,
    options: Options,
    stages: Vec<StageLine>,
}

fn scope(pass: &str, stage: &str) -> Scope {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Scope {
        pass: some(pass),
        stage: some(stage),
        ..Scope::default()
    }
}

impl Default for Made {
    fn default() -> Self {
        Self {
            known: rooflens_analysis::Results::NONE,
            session: trace(""),
            facts: Facts::default(),
            hardware: Hardware::default(),
            options: Options::default(),
            stages: Vec::new(),
        }
    }
}

/// Adds timed repeats of a stage in a pass without a profiler.
fn add_repeats(
    session: &mut Session,
    (stage, pass): (&str, &str),
    steps: Option<u64>,
    times: &[i64],
) {
    let [stage, pass] = [stage, pass].map(|text| session.intern(text));
    for (repeat, duration) in (0..).zip(times.iter().copied()) {
        session.timings.push(Timing {
            stage,
            repeat,
            duration: Ns(duration),
            steps,
            batch: None,
            tokens: None,
            keys: None,
            artifact: pass,
            pass,
            profiled: Some(false),
        });
    }
}

impl Made {
    /// A stage of ten counted instances of `time` ns in a run of `run` ns.
    fn stage(mut self, name: &str, kind: StageKind, time: f64, run: f64) -> Self {
        let stage = self.add_stage(name, kind, time, None);
        self.stages.push(StageLine {
            text: Catalogue::keys_and_arguments(),
            stage,
            process: ProcessId(0),
            label: name.to_owned(),
            kind,
            scope: scope("nsys", name),
            time: Time(time),
            busy: Time::ZERO,
            busy_share: Ratio::ZERO,
            operations: Count::ZERO,
            operation_time: Time::ZERO,
            figures: rooflens_schemas::Evidence::default(),
            counted: Count(10.0),
            steps: None,
            nested: Vec::new(),
            unprofiled: None,
            overlapped: Time::ZERO,
            timed: None,
            kernels: (stage, ProcessId(0)),
            of_loop: Time(run),
            waits_for: None,
            is_host_bound: false,
            waits: crate::known::UNLIMITED,
            beyond_host: crate::known::UNLIMITED,
            issuing: Time::ZERO,
            artifact: "nsys/timeline.sqlite".to_owned(),
            window: None,
        });
        self
    }

    fn last(&mut self) -> &mut StageLine {
        self.stages.last_mut().unwrap()
    }

    /// Number and time of the operations of the stage that was added last.
    fn operations(mut self, number: f64, time: f64) -> Self {
        (self.last().operations, self.last().operation_time) = (Count(number), Time(time));
        self
    }

    /// The idle time of a stage, of which the GPU computes so long.
    fn line(&mut self, stage: usize, time: f64, busy: f64) -> &mut StageIdle {
        if self.known.idle.is_err() {
            self.known.idle = Ok(IdleTime::default());
        }
        let idle = self.known.idle.as_mut().unwrap();
        let at = idle
            .lines
            .iter()
            .position(|line| line.summary.stage == stage);
        let at = at.unwrap_or_else(|| {
            idle.lines.push(StageIdle::made(stage, Time(time)));
            idle.lines.len() - 1
        });
        idle.lines[at].pool.busy[0] = Ns((10.0 * busy) as i64);
        &mut idle.lines[at]
    }

    /// The idle time of the stage that was added last.
    fn last_line(&mut self) -> &mut StageIdle {
        let stage = self.last();
        let (index, time, busy) = (stage.stage, stage.time, stage.time * stage.busy_share);
        self.line(index, time.0, busy.0)
    }

    /// Idle time of a cause of the stage that was added last.
    fn idle(mut self, cause: Cause, time: f64) -> Self {
        self.last_line().set(cause, Time(time));
        self
    }

    /// The host's own work on an instance of the stage that was added last.
    fn host(mut self, time: f64) -> Self {
        self.last_line().set_host(Time(time));
        self
    }

    /// Idle time of a cause of the stage that was added last, by instance.
    fn each(mut self, cause: Cause, times: &[f64]) -> Self {
        let times: Vec<Time> = times.iter().copied().map(Time).collect();
        self.last_line().set_each(cause, &times);
        self
    }

    /// Number of the gaps of a cause in all instances of the stage that was added last.
    fn gaps(mut self, cause: Cause, gaps: u64) -> Self {
        self.last_line().gaps[cause as usize] = CauseGaps {
            gaps,
            longest: Ns(400),
        };
        self
    }

    /// Eight instances of a stage whose time changes so much, with the statistic of the trend.
    fn pace(mut self, stage: usize, drift: f64, z: f64) -> Self {
        let summary = Summary {
            stage,
            ..Summary::default()
        };
        let series = drift::Series {
            pass: PassId(0),
            subject: drift::Subject::Stage(summary),
            instances: (0..8)
                .map(|number| drift::Instance {
                    number,
                    time: Ns(1),
                    host: Ns(1),
                    sizes: Default::default(),
                })
                .collect(),
            left_out: Vec::new(),
            median: Time(1.0),
            alike: (0..8).collect(),
            trend: Some(drift::Trend {
                slope: Time(0.0),
                z,
            }),
            thirds: Some((Time(1.0), Time(1.0 + drift))),
            middle: Some(Time(1.0 + drift / 2.0)),
            drift: Some(Ratio(drift)),
            outliers: Vec::new(),
            jump: None,
        };
        self.known.drift = Ok(drift::Drift {
            series: vec![series],
        });
        self
    }

    /// Timed repeats of a stage.
    fn repeats(mut self, stage: &str, pass: &str, steps: Option<u64>, times: &[i64]) -> Self {
        add_repeats(&mut self.session, (stage, pass), steps, times);
        let Self {
            session,
            facts,
            hardware,
            options,
            ..
        } = &self;
        self.known.baseline = baseline::compute(&Context::new(session, facts, hardware, options));
        self
    }

    /// Adds a stage to the facts: each stage, nested ones too, has its own index.
    fn add_stage(
        &mut self,
        name: &str,
        kind: StageKind,
        time: f64,
        parent: Option<usize>,
    ) -> usize {
        let (pass, name, stage) = (PassId(0), name.to_owned(), self.facts.stages.len());
        self.facts.stages.push(Stage {
            pass,
            name,
            kind,
            parent,
            instances: 0..0,
        });
        let (instances, counted) = (10, 10);
        let summary = Summary {
            stage,
            instances,
            counted,
            time: Time(time),
            ..Summary::default()
        };
        self.facts.summaries.push(summary);
        stage
    }

    fn steps(mut self, steps: f64) -> Self {
        self.stages.last_mut().unwrap().steps = Some(Count(steps));
        self
    }

    /// A stage within the one that was added last.
    fn holds(mut self, kind: StageKind, name: &str) -> Self {
        let outer = self.stages.last().unwrap().stage;
        let (stage, process) = (self.add_stage(name, kind, 0.0, Some(outer)), ProcessId(0));
        let one = Nested {
            stage,
            process,
            kind,
            scope: scope("nsys", name),
        };
        self.stages.last_mut().unwrap().nested.push(one);
        self
    }

    fn evidence(&self) -> Evidence<'_> {
        let context = Context::new(&self.session, &self.facts, &self.hardware, &self.options);
        let mut evidence = Evidence {
            stages: self.stages.clone(),
            primary: Some(PassId(0)),
            kernel_pass: Some(PassId(0)),
            pass: "nsys".to_owned(),
            dtype: Some("bf16".to_owned()),
            memory: Some(Bytes(1000.0)),
            platform: Platform::of(&self.session, Some(PassId(0))),
            ..Evidence::empty(context.with(&self.known), Catalogue::keys_and_arguments())
        };
        evidence.add_unprofiled();
        evidence.add_limits();
        evidence
    }

    fn outcome(&self, rule: &Rule) -> Outcome {
        rule.judge(&self.evidence())
    }

    fn found(&self, rule: &Rule) -> Vec<Finding> {
        match self.outcome(rule) {
            Outcome::Found(drafts) => {
                let evidence = self.evidence();
                let say = |draft: &Draft| draft.finding(rule.id, &evidence);
                drafts.iter().map(say).collect()
            }
            other => panic!("{}: {other:?}", rule.id),
        }
    }

    fn one(&self, rule: &Rule) -> Finding {
        let mut found = self.found(rule);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// Why a rule says nothing: `not applicable` or `abstained`, and the reason.
fn silent(outcome: Outcome) -> (&'static str, String) {
    match outcome {
        Outcome::NotApplicable(why) => ("not applicable", why),
        Outcome::InsufficientData(why) => ("abstained", why),
        other => panic!("{other:?}"),
    }
}

/// A draft without words.
fn draft() -> Draft {
    Draft::new(Finding::default(), Vec::new())
}

/// The rule of this id.
fn rule(id: &str) -> &'static Rule {
    rules().find(|rule| rule.id == id).expect("a rule")
}

fn decode() -> Made {
    Made::default().stage("decode", StageKind::Decode, 1000.0, 20_000.0)
}

fn prefill() -> Made {
    Made::default().stage("prefill", StageKind::Prefill, 1000.0, 20_000.0)
}

fn words(inlines: &[Inline]) -> String {
    inlines.iter().map(Inline::plain).collect()
}

/// The reason of a rule that another one makes pointless.
fn covered_by(rule: &Rule) -> String {
    format!(
        "findings.said_by{{rule={}}}",
        Catalogue::keys_and_arguments().rule(rule.id)
    )
}

fn saved(observation: &Finding) -> f64 {
    observation.gain.as_ref().expect("a bound").saved_ns.0
}

#[test]
fn nothing_is_found_in_nothing() {
    for rule in rules() {
        let outcome = Made::default().outcome(rule);
        assert!(
            matches!(outcome, Outcome::InsufficientData(_)),
            "{}: {outcome:?}",
            rule.id
        );
    }
}

#[test]
fn ids_are_unique() {
    let mut ids: Vec<&str> = rules().map(|rule| rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), rules().count());
}

#[test]
fn stages_come_first_then_the_gravest_then_the_largest() {
    // Of a run of 20 000 ns: 10 × 300 = 15 %, 10 × 500 = 25 %, 10 × 60 = 3 %.
    let made = Made::default()
        .stage("a", StageKind::Decode, 1000.0, 20_000.0)
        .busy(0.5)
        .idle(Cause::Launching, 300.0)
        .copies(&[(CopyKind::HostToDevice, MemoryKind::Pinned, 8, 60, 60)])
        .stage("b", StageKind::Decode, 1000.0, 20_000.0)
        .idle(Cause::Launching, 500.0);
    let found = judge(&made.evidence()).0;
    let order: Vec<(&str, Severity, f64)> = found
        .findings
        .iter()
        .map(|one| (one.id, one.severity, one.weight_ns.0))
        .collect();
    assert_eq!(
        order,
        [
            ("stage-busy", Severity::Note, 10_000.0),
            ("stage-busy", Severity::Note, 10_000.0),
            ("launch-bound", Severity::Critical, 5000.0),
            ("launch-bound", Severity::Warning, 3000.0),
            ("exposed-copies", Severity::Note, 600.0),
        ]
    );
    assert_eq!(found.findings[2].title, "launch_bound.name: b");
    let rules = found
        .datasets
        .iter()
        .find(|dataset| dataset.id == "rules")
        .unwrap();
    assert_eq!(rules.rows.len(), super::rules().count());
    assert_eq!(rules.rows[1][2], Cell::Text("found 2".into()));
}

#[test]
fn one_iteration_makes_no_finding_critical() {
    let severity = |counted: f64| {
        let mut made = decode().idle(Cause::Launching, 500.0);
        (made.stages[0].counted, made.stages[0].of_loop) = (Count(counted), Time(1000.0 * counted));
        let found = judge(&made.evidence()).0.findings;
        found
            .iter()
            .find(|one| one.id == "launch-bound")
            .unwrap()
            .severity
    };
    // Half of the run, in one iteration or in two.
    assert_eq!(
        (severity(1.0), severity(2.0)),
        (Severity::Warning, Severity::Critical)
    );
}

#[test]
fn the_largest_cause_of_idle_time_is_named() {
    let made = decode().busy(0.3).idle(Cause::Launching, 200.0);
    let made = made.idle(Cause::Sync, 450.0).utilization(0.0, 0.12);
    let found = made.one(rule("stage-busy"));
    assert_eq!(
        words(&found.statement),
        "stage_busy.idle{stage=decode, idle=70.0 %, time=1.00 µs, share=45.0 %, count=10, why=synchronizing call, mean=0 ns}stage_busy.mbu{mbu=12.0 %}"
    );
    assert_eq!(found.advice, None, "the rule of the cause advises");
}

#[test]
fn a_busy_stage_names_its_largest_parts() {
    let made = prefill().busy(0.95);
    let made = made.groups(&[
        (ClassGroup::Attention, 200),
        (ClassGroup::Communication, 600),
    ]);
    let found = made.one(rule("stage-busy"));
    let groups = "low_mfu.other{class=communication, value=75.0 %}; low_mfu.other{class=attention, value=25.0 %}";
    let expected =
        format!("stage_busy.busy{{stage=prefill, busy=95.0 %, time=1.00 µs, groups={groups}}}");
    assert_eq!(words(&found.statement), expected);
    assert!(words(&found.advice.unwrap()).contains("stage_busy.advice_collectives"));
}

#[test]
fn a_rule_is_clear_only_where_it_looked_and_nothing_is_moot() {
    let found = || Look::from(draft());
    let moot = || Look::Suppressed("x says it".to_owned());
    let of = |looks: Vec<(&'static str, Look)>| {
        Outcome::of_stages(looks.into_iter()).or_needs("y".to_owned())
    };
    assert!(
        matches!(of(vec![("a", found()), ("b", moot())]), Outcome::Found(one) if one.len() == 1)
    );
    let why = silent(of(vec![("a", moot()), ("b", Look::Passed), ("c", moot())]));
    assert_eq!(why, ("not applicable", "a, c: x says it".to_owned()));
    // What has nothing to look at does not hide what is clear.
    let nothing = || Look::NotApplicable("no x".to_owned());
    assert_eq!(
        of(vec![("a", nothing()), ("b", Look::Passed)]),
        Outcome::PASSED
    );
    let why = silent(of(vec![("a", nothing()), ("b", Look::InsufficientData)]));
    assert_eq!(why, ("not applicable", "a: no x".to_owned()));
    let partly = of(vec![("a", Look::InsufficientData), ("b", Look::Passed)]);
    assert_eq!(partly, Outcome::Passed("a".to_owned()));
    assert_eq!(of(vec![("a", Look::Passed)]), Outcome::PASSED);
    assert_eq!(
        silent(of(vec![("a", Look::InsufficientData)])),
        ("abstained", "y".to_owned())
    );
}

#[test]
fn the_table_of_outcomes_has_what_was_found_first_and_one_row_a_reason() {
    let lacks = || Outcome::InsufficientData("counters".to_owned());
    let found = Outcome::Found(vec![draft(), draft()]);
    let all: Vec<(&Rule, Outcome)> = vec![
        (rule("wave-tail"), lacks()),
        (rule("host-bound"), Outcome::Passed("prefill".to_owned())),
        (rule("small-grids"), lacks()),
        (
            rule("short-kernels"),
            Outcome::NotApplicable("decode: moot".to_owned()),
        ),
        (rule("launch-bound"), found),
        (rule("sync-bound"), Outcome::PASSED),
    ];
    let text = |cell: &Cell| match cell {
        Cell::Text(text) => text.to_string(),
        _ => String::new(),
    };
    let made = Made::default();
    let rows: Vec<[String; 3]> = tables::outcomes(&made.evidence(), &all)
        .rows
        .iter()
        .map(|row| [0, 1, 2].map(|at| text(&row[at])))
        .collect();
    assert_eq!(
        rows,
        [
            ["found", "launch_bound.name (2)", ""],
            [
                "clear",
                "host_bound.name (findings.not_seen{stages=prefill}); sync_bound.name",
                ""
            ],
            ["not applicable", "short_kernels.name", "decode: moot"],
            ["abstained", "wave_tail.name; small_grids.name", "counters"],
        ]
        .map(|row| row.map(ToOwned::to_owned))
    );
    let outcomes: Vec<String> = tables::rules(&made.evidence(), &all)
        .rows
        .iter()
        .map(|row| text(&row[2]))
        .collect();
    assert_eq!(
        outcomes,
        [
            "found 2",
            "clear",
            "clear",
            "not applicable",
            "abstained",
            "abstained"
        ]
    );
}

#[test]
fn a_rank_that_waits_is_told_not_to_get_faster() {
    let made = |exposed: f64, wait: f64| {
        prefill()
            .busy(0.99)
            .collectives(exposed, Some(wait))
            .one(rule("stage-busy"))
    };
    // 120 of 1000 ns, of which 90 may be waiting.
    let waits = made(120.0, 90.0);
    let text = words(&waits.statement);
    assert!(
        text.ends_with("stage_busy.collectives{share=12.0 %, waiting=75.0 %}"),
        "{text}"
    );
    assert!(words(&waits.advice.unwrap()).contains("stage_busy.advice_waiting"));
    // 49 ns of waiting are below 5 %; 49 ns of collectives are not said at all.
    assert!(words(&made(120.0, 49.0).advice.unwrap()).contains("stage_busy.advice_kernels"));
    assert!(!words(&made(49.0, 49.0).statement).contains("stage_busy.collectives"));
}

#[test]
fn a_stage_says_what_remains_without_the_profiler() {
    let made = |median: i64| {
        let made = prefill().busy(0.4).repeats("prefill", "b", None, &[median]);
        words(&made.one(rule("stage-busy")).statement)
    };
    // Of 500 ns, 400 ns of busy time leave 20 %, of 950 ns 57.9 %, of 1600 ns 75 %; 300 ns are busy all the time.
    let said = |time: &str, idle: &str| {
        format!("stage_busy.idle{{stage=prefill, idle={idle} %, time={time} ns, baseline=, ")
    };
    assert!(made(500).starts_with(&said("500", "20.0")), "{}", made(500));
    assert!(made(950).starts_with(&said("950", "57.9")), "{}", made(950));
    let busy = "stage_busy.busy{stage=prefill, busy=100 %, time=300 ns, baseline=";
    assert!(made(300).starts_with(busy), "{}", made(300));
    let longer = said("1.60 µs", "75.0").replace(" ns,", ",");
    assert!(made(1600).starts_with(&longer), "{}", made(1600));
    // Of 440 ns the 400 are 90.9 %: there the GPU is the limit.
    let busy = "stage_busy.busy{stage=prefill, busy=90.9 %, time=440 ns, baseline=}";
    assert_eq!(made(440), busy);
}
