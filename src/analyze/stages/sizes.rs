//! Sizes of stage instances, by the calls of the outermost model in them.

use rooflens_session::{Ns, Session, StrId, ThreadId};

/// Phase of the calls that train.
const TRAIN: &str = "train";

/// Sizes of an iteration: workloads may change them from one to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sizes {
    /// Sequences: of calls that train the sum, for they lead to one update; else the most of a call.
    pub batch: Option<u64>,
    /// Tokens of a sequence, the most of a call; of a prompt in chunks, their sum.
    pub tokens: Option<u64>,
    /// Keys that the attention of a sequence reads, the most of a call.
    pub keys: Option<u64>,
}

impl Sizes {
    /// What decides how long an iteration takes: of a single token, a few keys more or less do not.
    pub fn of_work(self) -> Self {
        let keys = self.keys.filter(|_| self.tokens != Some(1));
        Self { keys, ..self }
    }
}

/// The calls of the outermost model by thread, by start.
pub(super) struct CallSizes<'a> {
    session: &'a Session,
    /// Rows of `model_calls`, by thread.
    threads: Vec<Vec<usize>>,
    train: Option<StrId>,
}

impl<'a> CallSizes<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        let calls = &session.model_calls;
        let mut threads = vec![Vec::new(); session.threads.len()];
        for (row, thread) in calls.thread.iter().enumerate() {
            threads[thread.index()].push(row);
        }
        for rows in &mut threads {
            rows.sort_unstable_by_key(|row| (calls.start[*row], *row));
        }
        let mut phases = calls.phase.iter().copied();
        let train = phases.find(|phase| session.text(*phase) == TRAIN);
        Self {
            session,
            threads,
            train,
        }
    }

    /// The sizes of the calls of a thread that start in [start, end).
    pub(super) fn of(&self, thread: ThreadId, start: Ns, end: Ns) -> Sizes {
        let calls = &self.session.model_calls;
        let rows = &self.threads[thread.index()];
        let first = rows.partition_point(|row| calls.start[*row] < start);
        let is_within = |row: &&usize| calls.start[**row] < end;
        let within = rows[first..].iter().take_while(is_within);
        let is_train = |row: &&usize| Some(calls.phase[**row]) == self.train;
        let trains = within.clone().any(|row| is_train(&row));
        let (mut sizes, mut sum, mut is_step) = (Sizes::default(), 0_u64, false);
        // A step does not train what it calls without gradients, such as a reference model.
        for row in within.filter(|row| !trains || is_train(row)).copied() {
            let batch = calls.batch[row];
            sizes.batch = match sizes.batch.zip(batch) {
                Some((sum, batch)) if trains => Some(sum.saturating_add(batch)),
                _ => sizes.batch.max(batch),
            };
            sizes.tokens = sizes.tokens.max(calls.tokens[row]);
            sizes.keys = sizes.keys.max(calls.keys[row]);
            let tokens = calls.tokens[row].unwrap_or(1);
            sum = sum.saturating_add(tokens);
            is_step |= tokens == 1;
        }
        // Each chunk of a prompt reads the keys of those before it.
        if !is_step && sizes.keys == Some(sum) {
            sizes.tokens = sizes.keys;
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::StageTables;
    use rooflens_analysis::testing::trace;

    /// A range with a kernel, and calls of the model in it.
    fn iteration(name: &str, begin: i64, calls: &[&str]) -> String {
        let (launch, kernel, end) = (begin + 1, begin + 5, begin + 1000);
        let mut events = format!("range {name} {begin}..{end}\n");
        events += &format!(
            "launch {launch}..{kernel} -> gemm {kernel}..{}\n",
            kernel + 50
        );
        for (number, call) in (0..).zip(calls) {
            let start = begin + 10 + 100 * number;
            events += &format!("range rooflens:call {call} {start}..{}\n", start + 90);
        }
        events
    }

    fn sizes(events: &[String]) -> Vec<Sizes> {
        let tables = StageTables::new(&trace(&events.concat()));
        let instances = tables.instances.iter();
        instances.map(|instance| instance.sizes).collect()
    }

    #[test]
    fn instances_have_the_sizes_of_the_calls_in_them() {
        let steps = [
            "decode batch=4 tokens=1 keys=513",
            "decode batch=4 tokens=1 keys=514",
        ];
        let loops = [
            iteration("decode", 2000, &steps),
            iteration("decode", 4000, &[]),
            iteration("decode", 6000, &["decode batch=1 tokens=1"]),
        ];
        let chunks = [
            "prefill batch=4 tokens=512 keys=512",
            "prefill batch=4 tokens=100 keys=612",
        ];
        let cached = ["prefill batch=4 tokens=100 keys=612"];
        let prompts = [
            iteration("prefill", 2000, &chunks),
            iteration("prefill", 4000, &cached),
        ];
        let of = |batch, tokens, keys| Sizes {
            batch,
            tokens,
            keys,
        };
        let expected = [
            of(Some(4), Some(1), Some(514)),
            Sizes::default(),
            of(Some(1), Some(1), None),
        ];
        assert_eq!(sizes(&loops), expected);
        let expected = [
            of(Some(4), Some(612), Some(612)),
            of(Some(4), Some(100), Some(612)),
        ];
        assert_eq!(sizes(&prompts), expected);
    }

    #[test]
    fn sequences_before_an_update_add_up() {
        let passes = ["train batch=8 tokens=300", "train batch=5 tokens=200"];
        let sizes = sizes(&[iteration("train_step", 2000, &passes)]);
        assert_eq!(sizes[0].batch, Some(13));
        assert_eq!(sizes[0].tokens, Some(300));
    }

    #[test]
    fn calls_without_gradients_are_not_trained() {
        let passes = ["prefill batch=8 tokens=700", "train batch=5 tokens=200"];
        let sizes = sizes(&[iteration("train_step", 2000, &passes)]);
        assert_eq!((sizes[0].batch, sizes[0].tokens), (Some(5), Some(200)));
    }
}
