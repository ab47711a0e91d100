//! The spans that trees are made of: ranges, frames of modules, functions of Python, operators.

use super::names::FrameKind;
use crate::engine::nesting::{Nesting, Span};
use rooflens_schemas::ranges::LIBRARY_DOMAINS;
use rooflens_session::{FrameId, Ns, OperatorId, RangeId, RangeKind, Session, StrId, ThreadId};

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A range of the user.
    Range(RangeId),
    /// The source frame of a module.
    Module(FrameId),
    /// A function of Python.
    Function(FrameId),
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
    /// The span of the first operator, if operators are among them; the others follow.
    operators: Option<u32>,
}

impl Spans {
    /// Ranges and modules of all passes.
    pub fn of_modules(session: &Session) -> Self {
        let every_pass = vec![true; session.passes.len()];
        let mut spans = Self::empty(session);
        spans.add_ranges(session, &every_pass);
        spans.add_frames(session, &every_pass, FrameKind::Module);
        spans.nested(session)
    }

    /// Ranges, modules and operators of the passes that have operators.
    pub fn of_operators(session: &Session) -> Self {
        let mut passes = vec![false; session.passes.len()];
        session
            .operators
            .pass
            .iter()
            .for_each(|pass| passes[pass.index()] = true);
        let mut spans = Self::empty(session);
        spans.add_ranges(session, &passes);
        spans.add_frames(session, &passes, FrameKind::Module);
        spans.add_operators(session);
        spans.nested(session)
    }

    /// The functions of Python of all passes, and nothing else.
    pub fn of_functions(session: &Session) -> Self {
        let mut spans = Self::empty(session);
        spans.add_frames(
            session,
            &vec![true; session.passes.len()],
            FrameKind::Function,
        );
        spans.nested(session)
    }

    fn empty(session: &Session) -> Self {
        Self {
            source: Vec::new(),
            name: Vec::new(),
            span: Vec::new(),
            nesting: Nesting::default(),
            of_range: vec![None; session.ranges.len()],
            operators: None,
        }
    }

    fn nested(mut self, session: &Session) -> Self {
        self.nesting = Nesting::new(&self.span, &session.api_calls);
        self
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
            let span = Span {
                thread,
                start,
                end: ranges.end[row],
            };
            self.add(Source::Range(id), ranges.name[row], span);
        }
    }

    fn add_frames(&mut self, session: &Session, passes: &[bool], kind: FrameKind) {
        let frames = &session.frames;
        let mut kinds: Vec<Option<FrameKind>> = vec![None; session.strings.len()];
        for id in frames
            .ids()
            .filter(|id| passes[frames.pass[id.index()].index()])
        {
            let row = id.index();
            let name = frames.name[row];
            let name_kind =
                kinds[name.index()].get_or_insert_with(|| FrameKind::of(session.text(name)));
            if *name_kind == kind {
                let (thread, start) = (frames.thread[row], frames.start[row]);
                let span = Span {
                    thread,
                    start,
                    end: frames.end[row],
                };
                let module = kind == FrameKind::Module;
                self.add(
                    if module {
                        Source::Module(id)
                    } else {
                        Source::Function(id)
                    },
                    name,
                    span,
                );
            }
        }
    }

    fn add_operators(&mut self, session: &Session) {
        let operators = &session.operators;
        self.operators = Some(self.span.len() as u32);
        for id in operators.ids() {
            let row = id.index();
            let (thread, start) = (operators.thread[row], operators.start[row]);
            let span = Span {
                thread,
                start,
                end: operators.end[row],
            };
            self.add(Source::Operator(id), operators.name[row], span);
        }
    }

    /// The span of an operator, or else the innermost one around its start.
    pub fn of_operator(&self, session: &Session, operator: OperatorId) -> Option<u32> {
        let row = operator.index();
        let operators = &session.operators;
        let around = || self.at(operators.thread[row], operators.start[row]);
        self.operators
            .map(|first| first + operator.0)
            .or_else(around)
    }

    /// The innermost span that is open on a thread at a time.
    pub fn at(&self, thread: ThreadId, time: Ns) -> Option<u32> {
        let order = &self.nesting.order;
        let after = order.partition_point(|span| {
            let span = &self.span[*span as usize];
            (span.thread, span.start) <= (thread, time)
        });
        let mut innermost = after.checked_sub(1).map(|last| order[last]);
        while let Some(span) = innermost {
            let Span {
                thread: own, end, ..
            } = self.span[span as usize];
            if own == thread && end > time {
                break;
            }
            innermost = self.nesting.parent[span as usize];
        }
        innermost
    }
}
