//! What is open on a thread of the host at some moments.

use std::cmp::Reverse;

use rooflens_session::{Ns, StrId, ThreadId};

/// Moments of threads, by number.
pub struct Moments {
    /// Thread, time, number; ascending.
    order: Vec<(ThreadId, Ns, usize)>,
    count: usize,
}

impl Moments {
    /// Numbers them as they come; at those that are absent nothing is open.
    pub fn new(moments: impl ExactSizeIterator<Item = Option<(ThreadId, Ns)>>) -> Self {
        let count = moments.len();
        let numbered = moments.enumerate();
        let mut order: Vec<(ThreadId, Ns, usize)> = numbered
            .filter_map(|(number, moment)| moment.map(|(thread, time)| (thread, time, number)))
            .collect();
        order.sort_unstable();
        Self { order, count }
    }

    /// Names of the rows of a table that are open at each moment, the outermost first. One pass over the table.
    pub fn open(
        &self,
        threads: &[ThreadId],
        starts: &[Ns],
        ends: &[Ns],
        names: &[StrId],
    ) -> Vec<Vec<StrId>> {
        let mut open = vec![Vec::new(); self.count];
        let mut first = 0;
        for (row, thread) in threads.iter().enumerate() {
            let (start, end) = (starts[row], ends[row]);
            let before = |moment: &(ThreadId, Ns, usize)| (moment.0, moment.1) < (*thread, start);
            // Rows ascend, nearly: the place is mostly that of the row before.
            let is_same = self.order[..first].last().is_none_or(before)
                && !self.order[first..].first().is_some_and(before);
            if !is_same {
                first = self.order.partition_point(before);
            }
            let inside = self.order[first..].iter();
            for moment in inside.take_while(|moment| moment.0 == *thread && moment.1 < end) {
                open[moment.2].push((start, Reverse(end), row));
            }
        }
        let names = |mut open: Vec<(Ns, Reverse<Ns>, usize)>| {
            open.sort_unstable();
            open.into_iter().map(|(.., row)| names[row]).collect()
        };
        open.into_iter().map(names).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_that_of_the_thread_at_the_moment() {
        let (a, b, c) = (StrId(1), StrId(2), StrId(3));
        let (one, two) = (ThreadId(0), ThreadId(1));
        let (starts, ends) = ([10, 0, 60, 0].map(Ns), [50, 100, 70, 9].map(Ns));
        let moments = [
            (one, 5),
            (two, 50),
            (one, 10),
            (one, 55),
            (one, 69),
            (one, 100),
            (two, 5),
        ]
        .map(|(thread, time)| (thread, Ns(time)));
        let moments = Moments::new(
            [moments.map(Some).to_vec(), vec![None]]
                .concat()
                .into_iter(),
        );
        let found = moments.open(&[one, one, one, two], &starts, &ends, &[b, a, b, c]);
        let ab = vec![a, b];
        let expected = [
            vec![a],
            vec![],
            ab.clone(),
            vec![a],
            ab,
            vec![],
            vec![c],
            vec![],
        ];
        assert_eq!(found, expected);
    }
}
