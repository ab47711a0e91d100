//! What a capture without GPU work holds of the host: calls, ranges, CPU samples, threads.

use std::collections::BTreeMap;

use crate::{Context, Known, Missing};
use rooflens_schemas::PassKind;
use rooflens_session::{Arrange, CallKind, Ns, PassId, Session, StrId, ThreadId};
use rooflens_units::Ratio;

/// Passes of timelines without GPU work.
#[derive(Debug)]
pub struct HostWork {
    /// Each pass.
    pub passes: Vec<HostPass>,
}

/// A pass, and what it holds instead of GPU work.
#[derive(Debug)]
pub struct HostPass {
    /// The pass.
    pub pass: PassId,
    /// What the profiler was asked to trace; empty if the capture does not tell.
    pub traced: Vec<String>,
    /// From the first record to the last, nanoseconds; none of sums that another tool computed.
    pub span: Option<Ns>,
    /// CUDA calls by name, those with most time first.
    pub cuda: Vec<Calls>,
    /// Calls of the operating system's libraries also.
    pub system: Vec<Calls>,
    /// Ranges also.
    pub ranges: Vec<Calls>,
    /// CPU samples by function and library, the most frequent first.
    pub samples: Vec<Sampled>,
    /// Threads, those with most records first.
    pub threads: Vec<Thread>,
}

/// Calls or ranges of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// The name.
    pub name: StrId,
    /// How many.
    pub count: u64,
    /// Their durations together, nanoseconds; nested ones count too.
    pub total: Ns,
    /// The longest, nanoseconds.
    pub longest: Ns,
}

/// CPU samples of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The function; empty without symbols.
    pub function: StrId,
    /// Its library.
    pub library: StrId,
    /// Samples.
    pub count: u64,
    /// Of all samples of the pass.
    pub share: Ratio,
}

/// What was recorded of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// The thread.
    pub thread: ThreadId,
    /// Calls of the operating system's libraries, and their time in nanoseconds.
    pub system: (u64, Ns),
    /// CPU samples.
    pub samples: u64,
    /// Times off the CPU, and how long together, nanoseconds.
    pub off_cpu: (u64, Ns),
}

/// Sums up the passes without GPU work, in a session that has none at all.
pub fn compute(context: &Context<'_>) -> Known<HostWork> {
    let session = context.session;
    let summed = &session.call_sums.pass;
    // Sums of calls stand next to those of kernels; a timeline says more.
    let kernels = session.is_measured() && (!session.launches.is_empty() || summed.is_empty());
    if kernels || !session.has_host_work() {
        return Err(Missing("missing.gpu_work"));
    }
    let is_wanted = |pass: &PassId| {
        session.passes.kind[pass.index()] == PassKind::Timeline
            && (!session.is_measured() || summed.contains(pass))
    };
    let passes = session
        .passes
        .ids()
        .filter(is_wanted)
        .map(|pass| of_pass(session, pass));
    Ok(HostWork {
        passes: passes.collect(),
    })
}

/// Names with their intervals.
struct Spans<'a> {
    pass: &'a [PassId],
    name: &'a [StrId],
    start: &'a [Ns],
    end: &'a [Ns],
}

impl Spans<'_> {
    fn of(&self, pass: PassId) -> impl Iterator<Item = usize> {
        (0..self.pass.len()).filter(move |row| self.pass[*row] == pass)
    }

    fn sums(&self, session: &Session, pass: PassId) -> Vec<Calls> {
        let mut sums: BTreeMap<StrId, Calls> = BTreeMap::new();
        for row in self.of(pass) {
            let (name, time) = (
                self.name[row],
                self.end[row].saturating_sub(self.start[row]),
            );
            let calls = sums.entry(name).or_insert(Calls {
                name,
                count: 0,
                total: Ns::ZERO,
                longest: Ns::ZERO,
            });
            calls.count += 1;
            calls.total = calls.total.saturating_add(time);
            calls.longest = calls.longest.max(time);
        }
        sorted(sums.into_values().collect(), session)
    }
}

fn sorted(mut sums: Vec<Calls>, session: &Session) -> Vec<Calls> {
    sums.arrange_by(|a, b| {
        b.total
            .cmp(&a.total)
            .then_with(|| session.text(a.name).cmp(session.text(b.name)))
    });
    sums
}

/// What another tool summed up.
fn summed(session: &Session, pass: PassId, kind: CallKind) -> Vec<Calls> {
    let sums = &session.call_sums;
    let rows = (0..sums.len()).filter(|row| sums.pass[*row] == pass && sums.kind[*row] == kind);
    let calls = rows.map(|row| Calls {
        name: sums.name[row],
        count: sums.count[row],
        total: sums.total[row],
        longest: sums.max[row],
    });
    sorted(calls.collect(), session)
}

fn of_pass(session: &Session, pass: PassId) -> HostPass {
    let (calls, system, ranges) = (&session.api_calls, &session.os_calls, &session.ranges);
    let cuda = Spans {
        pass: &calls.pass,
        name: &calls.name,
        start: &calls.start,
        end: &calls.end,
    };
    let system = Spans {
        pass: &system.pass,
        name: &system.name,
        start: &system.start,
        end: &system.end,
    };
    let ranges = Spans {
        pass: &ranges.pass,
        name: &ranges.name,
        start: &ranges.start,
        end: &ranges.end,
    };
    let by_tool = session.call_sums.pass.contains(&pass);
    let sums = |spans: &Spans<'_>, kind| match by_tool {
        true => summed(session, pass, kind),
        false => spans.sums(session, pass),
    };
    HostPass {
        pass,
        traced: traced(session, pass),
        span: (!by_tool).then(|| span(session, pass, &[&cuda, &system, &ranges])),
        cuda: sums(&cuda, CallKind::Cuda),
        system: sums(&system, CallKind::System),
        ranges: sums(&ranges, CallKind::Range),
        samples: samples(session, pass),
        threads: threads(session, pass),
    }
}

/// What the capture says that it traced.
fn traced(session: &Session, pass: PassId) -> Vec<String> {
    let (facts, name) = (&session.environment, session.pass_name(pass));
    let is_own = |row: &usize| {
        session.text(facts.subject[*row]) == name && session.text(facts.key[*row]) == "traced"
    };
    let values = (0..facts.len())
        .filter(is_own)
        .map(|row| session.text(facts.value[row]));
    values
        .flat_map(|value| value.split(", "))
        .map(str::to_owned)
        .collect()
}

fn span(session: &Session, pass: PassId, spans: &[&Spans<'_>]) -> Ns {
    let (samples, off) = (&session.cpu_samples, &session.off_cpu);
    let sampled = (0..samples.len()).filter(|row| samples.pass[*row] == pass);
    let away = (0..off.len()).filter(|row| off.pass[*row] == pass);
    let spans = spans
        .iter()
        .flat_map(|calls| calls.of(pass).map(|row| (calls.start[row], calls.end[row])));
    let times = spans
        .chain(sampled.map(|row| (samples.time[row], samples.time[row])))
        .chain(away.map(|row| (off.start[row], off.end[row])));
    let (first, last) = times.fold((Ns::MAX, Ns::MIN), |(first, last), (start, end)| {
        (first.min(start), last.max(end))
    });
    last.saturating_sub(first).max(Ns::ZERO)
}

fn samples(session: &Session, pass: PassId) -> Vec<Sampled> {
    let samples = &session.cpu_samples;
    let mut counts: BTreeMap<(StrId, StrId), u64> = BTreeMap::new();
    for row in (0..samples.len()).filter(|row| samples.pass[*row] == pass) {
        *counts
            .entry((samples.function[row], samples.library[row]))
            .or_default() += 1;
    }
    let sum: u64 = counts.values().sum();
    let mut functions: Vec<Sampled> = counts
        .into_iter()
        .map(|((function, library), count)| {
            let share = Ratio(count as f64 / sum.max(1) as f64);
            Sampled {
                function,
                library,
                count,
                share,
            }
        })
        .collect();
    let names = |function: &Sampled| {
        (
            session.text(function.function),
            session.text(function.library),
        )
    };
    functions.arrange_by(|a, b| b.count.cmp(&a.count).then_with(|| names(a).cmp(&names(b))));
    functions
}

fn threads(session: &Session, pass: PassId) -> Vec<Thread> {
    let mut threads: BTreeMap<ThreadId, Thread> = BTreeMap::new();
    let mut of = |thread: ThreadId, add: &dyn Fn(&mut Thread)| {
        add(threads.entry(thread).or_insert(Thread {
            thread,
            ..Thread::default()
        }));
    };
    let (calls, samples, off) = (&session.os_calls, &session.cpu_samples, &session.off_cpu);
    for row in (0..calls.len()).filter(|row| calls.pass[*row] == pass) {
        let time = calls.end[row].saturating_sub(calls.start[row]);
        of(calls.thread[row], &|thread| {
            thread.system = (thread.system.0 + 1, thread.system.1.saturating_add(time))
        });
    }
    for row in (0..samples.len()).filter(|row| samples.pass[*row] == pass) {
        of(samples.thread[row], &|thread| thread.samples += 1);
    }
    for row in (0..off.len()).filter(|row| off.pass[*row] == pass) {
        let time = off.end[row].saturating_sub(off.start[row]);
        of(off.thread[row], &|thread| {
            thread.off_cpu = (thread.off_cpu.0 + 1, thread.off_cpu.1.saturating_add(time))
        });
    }
    let mut threads: Vec<Thread> = threads.into_values().collect();
    let records = |thread: &Thread| thread.system.0 + thread.samples + thread.off_cpu.0;
    threads.arrange_by_key(|thread| (std::cmp::Reverse(records(thread)), thread.thread));
    threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, Options, Results};
    use rooflens_hardware::Hardware;
    use rooflens_session::{CallSum, CpuSample, OffCpuTime, OsCall};

    #[test]
    fn calls_samples_and_threads_are_summed() {
        let mut session = Session::default();
        let pass = session.add_pass("report1", PassKind::Timeline, "report1.sqlite");
        let process = session.process(pass, 1 << 24, 1);
        let (one, two) = (session.thread(process, 1), session.thread(process, 2));
        let [poll, open, main, library] =
            ["poll", "open", "main", "app"].map(|name| session.intern(name));
        for (name, start, end, thread) in [
            (poll, 10, 40, one),
            (open, 50, 55, two),
            (poll, 60, 70, one),
        ] {
            session.os_calls.push(OsCall {
                start: Ns(start),
                end: Ns(end),
                name,
                pass,
                thread,
            });
        }
        for time in [20, 30, 80] {
            session.cpu_samples.push(CpuSample {
                time: Ns(time),
                function: main,
                library,
                pass,
                thread: two,
            });
        }
        session.off_cpu.push(OffCpuTime {
            start: Ns(12),
            end: Ns(38),
            pass,
            thread: one,
        });
        session.add_fact(
            "report1.sqlite",
            "report1",
            "traced",
            "OSRuntime, NvtxEvents",
        );
        let (facts, hardware, options) = (
            Facts::new(&session),
            Hardware::builtin(),
            Options::default(),
        );
        let results = Results::some(
            &Context::new(&session, &facts, &hardware, &options),
            &["host"],
        );
        let found = &results.host().expect("host work").passes[0];
        // 30 + 10 of poll, 5 of open; from 10 to 80.
        assert_eq!(
            found.system[0],
            Calls {
                name: poll,
                count: 2,
                total: Ns(40),
                longest: Ns(30)
            }
        );
        assert_eq!((found.system[1].total, found.span), (Ns(5), Some(Ns(70))));
        let all = Ratio::ONE;
        assert_eq!((found.samples[0].count, found.samples[0].share), (3, all));
        assert_eq!(found.traced, ["OSRuntime", "NvtxEvents"]);
        // Thread 2: a call and 3 samples; thread 1: 2 calls and a time off the CPU.
        assert_eq!(
            (found.threads[0].thread, found.threads[0].samples),
            (two, 3)
        );
        assert_eq!(
            (found.threads[1].system, found.threads[1].off_cpu),
            ((2, Ns(40)), (1, Ns(26)))
        );
        assert!(found.cuda.is_empty() && found.ranges.is_empty());
    }

    #[test]
    fn sums_of_another_tool_stand_next_to_kernels_and_without_a_timeline_only() {
        let mut session = Session::default();
        let pass = session.add_pass("sums", PassKind::Timeline, "api.csv");
        for (name, total, max) in [("cuMemAlloc", 4, 4), ("cuLaunchKernel", 9, 5)] {
            let name = session.intern(name);
            let kind = CallKind::Cuda;
            session.call_sums.push(CallSum {
                pass,
                kind,
                name,
                count: 2,
                total: Ns(total),
                min: Ns::ZERO,
                max: Ns(max),
                median: None,
                std: None,
            });
        }
        let work = |session: &Session| {
            let (facts, hardware, options) =
                (Facts::new(session), Hardware::builtin(), Options::default());
            compute(&Context::new(session, &facts, &hardware, &options)).ok()
        };
        let found = work(&session).expect("host work");
        assert_eq!(
            (found.passes[0].span, found.passes[0].cuda[0].total),
            (None, Ns(9))
        );
        let kernel = session.kernel("k", "");
        session.kernel_sums.push(rooflens_session::KernelSum {
            pass,
            kernel,
            count: 1,
            total: Ns(1),
            min: Ns(1),
            max: Ns(1),
            median: None,
            std: None,
        });
        assert_eq!(work(&session).map(|found| found.passes.len()), Some(1));
        session.call_sums = rooflens_session::CallSums::default();
        assert!(work(&session).is_none());
    }
}
