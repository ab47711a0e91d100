//! The spans that trees are made of: ranges, frames of modules, operators.

use super::names::is_module;
use crate::analysis::nesting::{Nesting, Span};
use crate::analysis::stages::LIBRARY_DOMAINS;
use crate::model::{FrameId, Ns, OperatorId, RangeId, RangeKind, Session, StrId, ThreadId};

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A range of the user.
    Range(RangeId),
    /// The source frame of a module.
    Module(FrameId),
    /// An operator.
    Operator(OperatorId),
}

/// Nested spans of all passes.
pub struct Spans {
    /// What each is.
    pub source: Vec<Source>,
    /// Its name.
    pub name: Vec<StrId>,
    /// Its thread and times.
    pub span: Vec<Span>,
    /// How they nest.
    pub nesting: Nesting,
    /// The span of each range, by `RangeId`.
    pub of_range: Vec<Option<u32>>,
}

impl Spans {
    /// Ranges and modules of all passes.
    pub fn of_modules(session: &Session) -> Self {
        Self::new(session, &vec![true; session.passes.len()], false)
    }

    /// Ranges, modules and operators of the passes that have operators.
    pub fn of_operators(session: &Session) -> Self {
        let mut passes = vec![false; session.passes.len()];
        session.operators.pass.iter().for_each(|pass| passes[pass.index()] = true);
        Self::new(session, &passes, true)
    }

    fn new(session: &Session, passes: &[bool], with_operators: bool) -> Self {
        let mut spans = Self {
            source: Vec::new(),
            name: Vec::new(),
            span: Vec::new(),
            nesting: Nesting::default(),
            of_range: vec![None; session.ranges.len()],
        };
        spans.add_ranges(session, passes);
        spans.add_modules(session, passes);
        if with_operators {
            let operators = &session.operators;
            for id in operators.ids() {
                let row = id.index();
                let (thread, start) = (operators.thread[row], operators.start[row]);
                let span = Span { thread, start, end: operators.end[row] };
                spans.add(Source::Operator(id), operators.name[row], span);
            }
        }
        spans.nesting = Nesting::new(&spans.span, &session.api_calls);
        spans
    }

    fn add(&mut self, source: Source, name: StrId, span: Span) {
        self.source.push(source);
        self.name.push(name);
        self.span.push(span);
    }

    /// Ranges that nest, but not those of libraries, which do not structure the workload.
    fn add_ranges(&mut self, session: &Session, passes: &[bool]) {
        let ranges = &session.ranges;
        let library = |domain: StrId| LIBRARY_DOMAINS.contains(&session.text(domain));
        let mut last_domain = (StrId::default(), false);
        for id in ranges.ids() {
            let row = id.index();
            let domain = ranges.domain[row];
            if domain != last_domain.0 {
                last_domain = (domain, library(domain));
            }
            let out = last_domain.1 || ranges.kind[row] == RangeKind::StartEnd;
            if out || !passes[ranges.pass[row].index()] {
                continue;
            }
            // Fewer than 2^32, as ranges, frames and operators together in any memory.
            self.of_range[row] = Some(self.span.len() as u32);
            let (thread, start) = (ranges.thread[row], ranges.start[row]);
            let span = Span { thread, start, end: ranges.end[row] };
            self.add(Source::Range(id), ranges.name[row], span);
        }
    }

    fn add_modules(&mut self, session: &Session, passes: &[bool]) {
        let frames = &session.frames;
        for id in frames.ids() {
            let row = id.index();
            if passes[frames.pass[row].index()] && is_module(session.text(frames.name[row])) {
                let (thread, start) = (frames.thread[row], frames.start[row]);
                let span = Span { thread, start, end: frames.end[row] };
                self.add(Source::Module(id), frames.name[row], span);
            }
        }
    }

    /// The innermost span that is open on a thread at a time.
    pub fn at(&self, thread: ThreadId, time: Ns) -> Option<u32> {
        let order = &self.nesting.order;
        let after = order.partition_point(|span| {
            let span = &self.span[*span as usize];
            (span.thread, span.start) <= (thread, time)
        });
        let mut at = after.checked_sub(1).map(|last| order[last]);
        while let Some(span) = at {
            let Span { thread: own, end, .. } = self.span[span as usize];
            if own == thread && end > time {
                break;
            }
            at = self.nesting.parent[span as usize];
        }
        at
    }
}
