//! What the issuing threads ran while the GPU waited for them: CPU samples in idle time with a cause of the host.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Inputs;
use super::cause::Cause;
use super::line::StageIdle;
use crate::Context;
use rooflens_session::{Ns, Session, StrId};

/// Samples of a function, or of what a library without symbols ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// File name of the library or program.
    pub library: StrId,
    /// Function; empty without symbols.
    pub function: StrId,
    /// Samples.
    pub samples: usize,
}

/// Counts the samples of all lines of passes that have some.
pub(super) fn find(context: &Context<'_>, inputs: &Inputs<'_>, lines: &mut [StageIdle]) {
    let session = context.session;
    if session.cpu_samples.is_empty() {
        return;
    }
    let mut by_time: Vec<usize> = (0..session.cpu_samples.len()).collect();
    by_time.sort_by_key(|row| session.cpu_samples.time[*row]);
    for line in lines {
        line.sampled = sampled(context, inputs, line, &by_time);
    }
}

/// Looks for the gap of each sample: there are far fewer samples than gaps.
fn sampled(
    context: &Context<'_>,
    inputs: &Inputs<'_>,
    line: &StageIdle,
    by_time: &[usize],
) -> Vec<Sampled> {
    let (session, samples) = (context.session, &context.session.cpu_samples);
    let mut counts: BTreeMap<(StrId, StrId), usize> = BTreeMap::new();
    let windows = line.summary.counted_instances(context.facts);
    for window in windows.filter_map(|instance| line.window(instance)) {
        let first = by_time.partition_point(|row| samples.time[*row] < window.0);
        let within = by_time[first..].iter().copied();
        for row in within.take_while(|row| samples.time[*row] < window.1) {
            let time = samples.time[row];
            let mut gaps = inputs.gaps.of(&Cause::HOST, line.gpu, (time, time + Ns(1)));
            let issuing = gaps
                .next()
                .and_then(|(_, op)| context.facts.ops.api_call[op as usize]);
            let thread = issuing.map(|call| session.api_calls.thread[call.index()]);
            if thread == Some(samples.thread[row]) {
                *counts
                    .entry((samples.library[row], samples.function[row]))
                    .or_default() += 1;
            }
        }
    }
    let row = |((library, function), samples)| Sampled {
        library,
        function,
        samples,
    };
    let mut rows: Vec<Sampled> = counts.into_iter().map(row).collect();
    rows.sort_by_key(|row| by_count(session, row));
    rows
}

/// The most first; of equally many by name.
fn by_count<'a>(session: &'a Session, row: &Sampled) -> (Reverse<usize>, &'a str, &'a str) {
    (
        Reverse(row.samples),
        session.text(row.library),
        session.text(row.function),
    )
}

impl StageIdle {
    /// Number of CPU samples while the GPU waited for the host.
    pub fn samples(&self) -> usize {
        self.sampled.iter().map(|row| row.samples).sum()
    }

    /// The samples by library, the most first; of equally many by name.
    pub fn libraries(&self, session: &Session) -> Vec<(StrId, usize)> {
        let mut counts: BTreeMap<StrId, usize> = BTreeMap::new();
        for row in &self.sampled {
            *counts.entry(row.library).or_default() += row.samples;
        }
        let mut rows: Vec<(StrId, usize)> = counts.into_iter().collect();
        rows.sort_by_key(|(library, samples)| (Reverse(*samples), session.text(*library)));
        rows
    }
}
