//! The ranges or operators that are open around moments of threads.

use rustc_hash::FxHashMap;

use crate::model::{Ns, StrId, ThreadId};

/// An interval of a thread: (thread, start, end, name).
pub(super) type Named = (ThreadId, Ns, Ns, StrId);

/// Names within names: paths by number, 0 the empty one.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// The path around each moment.
    pub(super) of: Vec<u32>,
    /// Outer path and own name of each path but the empty one.
    nodes: Vec<(u32, StrId)>,
}

impl Paths {
    /// The paths around moments, which ascend by (thread, time). One sweep after a sort.
    pub(super) fn new(mut intervals: Vec<Named>, moments: &[(ThreadId, Ns)]) -> Self {
        intervals.sort_unstable_by_key(|one| (one.0, one.1, std::cmp::Reverse(one.2), one.3));
        let mut paths = Self { of: Vec::with_capacity(moments.len()), nodes: Vec::new() };
        let mut index: FxHashMap<(u32, StrId), u32> = FxHashMap::default();
        // Open intervals, outermost first: thread, end, path.
        let mut open: Vec<(ThreadId, Ns, u32)> = Vec::new();
        let mut next = intervals.into_iter().peekable();
        for moment in moments {
            while let Some((thread, start, end, name)) =
                next.next_if(|one| (one.0, one.1) <= *moment)
            {
                let outer = close(&mut open, (thread, start));
                let path = *index.entry((outer, name)).or_insert_with(|| {
                    paths.nodes.push((outer, name));
                    paths.nodes.len() as u32
                });
                open.push((thread, end, path));
            }
            paths.of.push(close(&mut open, *moment));
        }
        paths
    }

    /// Name of the innermost interval of a path.
    pub(super) fn innermost(&self, path: u32) -> Option<StrId> {
        Some(self.node(path)?.1)
    }

    /// The names of a path, outermost first.
    pub(super) fn names(&self, path: u32) -> Vec<StrId> {
        let mut names = Vec::new();
        let mut at = path;
        while let Some((outer, name)) = self.node(at) {
            names.push(name);
            at = outer;
        }
        names.reverse();
        names
    }

    fn node(&self, path: u32) -> Option<(u32, StrId)> {
        self.nodes.get((path as usize).checked_sub(1)?).copied()
    }
}

/// Closes what has ended by a moment; gives the path that is open then.
fn close(open: &mut Vec<(ThreadId, Ns, u32)>, moment: (ThreadId, Ns)) -> u32 {
    while let Some((thread, end, path)) = open.last().copied() {
        if thread == moment.0 && end > moment.1 {
            return path;
        }
        open.pop();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_thread_at_the_moment() {
        let (a, b, c) = (StrId(1), StrId(2), StrId(3));
        let (one, two) = (ThreadId(0), ThreadId(1));
        let intervals = vec![(one, 0, 100, a), (one, 10, 50, b), (one, 60, 70, b), (two, 0, 9, c)];
        let moments = [(one, 5), (one, 10), (one, 55), (one, 69), (one, 100), (two, 5), (two, 50)];
        let paths = Paths::new(intervals, &moments);
        let names: Vec<Vec<StrId>> = paths.of.iter().map(|path| paths.names(*path)).collect();
        let ab = vec![a, b];
        let expected = vec![vec![a], ab.clone(), vec![a], ab, vec![], vec![c], vec![]];
        assert_eq!(names, expected);
        assert_eq!(paths.innermost(paths.of[1]), Some(b));
    }
}
