//! The file as a stream of blocks of whole events: one thread reads and inflates, the others parse.
//!
//! A block is cut where a comma stands between `}` and `{`. That is nearly always between two events,
//! and it proves itself: the first block begins at an event, and a block that parses as a list of
//! whole values up to its cut puts the next one at the begin of an event. If one does not, the file
//! is read once more with cuts that a scanner of all brackets and strings finds.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use rayon::prelude::*;

use super::block::{parse_each, parse_whole};
use super::is_legacy;
use super::rows::{BlockRows, FileRows};
use super::split::{Cut, Head, exact_cut, find_events, likely_cut};

/// Bytes of a block, as a rule.
pub(super) const BLOCK: usize = 1 << 19;

/// Blocks parsed at once, for each thread and in all.
const BATCH_PER_THREAD: usize = 2;
const BATCH_MAX: usize = 32;

/// Bytes that one event may have; as many blocks of this size may be in memory as are in work.
const MAX_EVENT: usize = 16 << 20;

/// Bytes that all that stands before the events may have, and all that stands after them.
const MAX_HEADER: usize = 64 << 20;

/// The text before the events of a list in an object.
const LIST_HEAD: &[u8] = b"{\"traceEvents\":[";

/// How blocks are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    /// Where it is likely right, and proved by parsing.
    Likely,
    /// Where it is right; an event that does not parse then is not valid.
    Exact,
}

/// How a file ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// As it should.
    Whole,
    /// Within the events, at this byte.
    CutOff(u64),
    /// It cannot be unpacked or read further than to this byte.
    Unreadable(u64, io::Error),
}

/// All of a file that could be read.
#[derive(Debug)]
pub(super) struct File {
    /// The text before the events, up to their `[`.
    pub(super) head: Vec<u8>,
    /// The text after the events, from behind their `]`.
    pub(super) tail: Vec<u8>,
    /// The events.
    pub(super) rows: FileRows,
    /// How it ends.
    pub(super) ending: Ending,
}

/// Why a file cannot be read at all.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The outermost object holds no list of events, as seen at this byte.
    NoEvents(u64),
    /// The outermost value is a list of another profiler's events.
    Legacy,
    /// The file ends before its events begin.
    CutOff(u64),
    /// A part of it is longer than any part of a trace, from this byte on.
    TooLong(u64),
    /// Its rows take more memory than the input may.
    Budget,
    /// The bytes cannot be had.
    Io(io::Error),
}

struct Block {
    /// `[`, events and `]` up to `length`.
    buffer: Vec<u8>,
    length: usize,
    /// Where in the file the first byte after the `[` is.
    offset: u64,
}

/// Reads all events in blocks of about `block` bytes, as long as their rows take no more than `room`. `None` if a likely cut proves wrong, or something
/// is not valid: read again with exact cuts.
pub(super) fn read(
    reader: &mut (dyn Read + Send),
    cutting: Cutting,
    block: usize,
    room: u64,
) -> Result<Option<File>, Refusal> {
    let batch = (BATCH_PER_THREAD * rayon::current_num_threads()).min(BATCH_MAX);
    let (blocks, received) = sync_channel(batch);
    let (spare, spares) = channel();
    thread::scope(|scope| {
        let splitter = Splitter::new(reader, cutting, block, spares);
        // A thread fails where memory for its stack does.
        let splitter = thread::Builder::new()
            .spawn_scoped(scope, move || splitter.run(&blocks))
            .map_err(|error| Refusal::Io(io::Error::new(io::ErrorKind::OutOfMemory, error)))?;
        let rows = parse_all(&received, batch, cutting, &spare, room);
        // A reader whose blocks nobody takes stops.
        drop(received);
        let splitter = splitter.join();
        let rows = rows?;
        let outer = splitter.expect("the reader returns its errors")?;
        let Outer { head, tail, ending } = outer;
        Ok(rows.map(|rows| File {
            head,
            tail,
            rows,
            ending,
        }))
    })
}

/// Parses the blocks batch by batch, while the rows of the batch before are put together in order.
fn parse_all(
    blocks: &Receiver<Block>,
    batch: usize,
    cutting: Cutting,
    spare: &Sender<Vec<u8>>,
    room: u64,
) -> Result<Option<FileRows>, Refusal> {
    let mut file_rows = FileRows::default();
    let mut parsed: Vec<BlockRows> = Vec::new();
    loop {
        let next = blocks.recv().into_iter().chain(blocks.try_iter());
        let next: Vec<Block> = next.take(batch).collect();
        let parse = |block| parse_block(block, cutting, spare);
        let (rows, ()) = rayon::join(
            || {
                next.into_par_iter()
                    .map(parse)
                    .collect::<Option<Vec<BlockRows>>>()
            },
            || parsed.into_iter().for_each(|rows| file_rows.absorb(rows)),
        );
        let Some(rows) = rows else { return Ok(None) };
        parsed = rows;
        if file_rows.bytes() > room {
            return Err(Refusal::Budget);
        }
        if parsed.is_empty() {
            return Ok(Some(file_rows));
        }
    }
}

fn parse_block(block: Block, cutting: Cutting, spare: &Sender<Vec<u8>>) -> Option<BlockRows> {
    let text = &block.buffer[..block.length];
    let rows = match cutting {
        Cutting::Likely => parse_whole(text),
        Cutting::Exact => parse_whole(text).or_else(|| Some(parse_each(text, block.offset))),
    };
    // The reader may have ended; then nobody needs the buffer.
    let _ = spare.send(block.buffer);
    rows
}

/// The texts around the events.
struct Outer {
    head: Vec<u8>,
    tail: Vec<u8>,
    ending: Ending,
}

/// Reads the file and cuts it into blocks.
struct Splitter<'r> {
    reader: &'r mut (dyn Read + Send),
    cutting: Cutting,
    block: usize,
    spares: Receiver<Vec<u8>>,
    /// Bytes read and not yet sent; the first `filled` hold text.
    buffer: Vec<u8>,
    filled: usize,
    /// Where in the file the buffer begins.
    offset: u64,
    /// The file ended, or broke.
    over: bool,
    error: Option<io::Error>,
    /// The events are the outermost value.
    is_list: bool,
}

impl<'r> Splitter<'r> {
    fn new(
        reader: &'r mut (dyn Read + Send),
        cutting: Cutting,
        block: usize,
        spares: Receiver<Vec<u8>>,
    ) -> Self {
        let buffer = vec![0; block];
        let (filled, offset, over, error, is_list) = (0, 0, false, None, false);
        Self {
            reader,
            cutting,
            block,
            spares,
            buffer,
            filled,
            offset,
            over,
            error,
            is_list,
        }
    }

    fn run(mut self, blocks: &SyncSender<Block>) -> Result<Outer, Refusal> {
        let head = self.head()?;
        loop {
            self.fill()?;
            // The first byte is the `[` of the block.
            let text = &self.buffer[1..self.filled];
            let cut = match self.cutting {
                Cutting::Likely if !self.over => likely_cut(text),
                _ => exact_cut(text),
            };
            let (length, tail) = match cut {
                Cut::Comma(at) if !self.over => {
                    if self.send_until(at + 1, blocks) {
                        continue;
                    }
                    (0, Vec::new())
                }
                Cut::Nowhere if !self.over => {
                    self.grow(MAX_EVENT)?;
                    continue;
                }
                Cut::End(at) => (at + 2, self.tail(at + 2)?),
                Cut::Comma(_) | Cut::Nowhere => (self.filled, Vec::new()),
            };
            let ending = self.ending(matches!(cut, Cut::End(_)));
            // If the parsers stopped, nobody takes the block, and how it ends does not matter.
            let _ = blocks.send(Block {
                buffer: self.buffer,
                length,
                offset: self.offset,
            });
            return Ok(Outer { head, tail, ending });
        }
    }

    fn ending(&mut self, closed: bool) -> Ending {
        let end = (self.offset + self.filled as u64).saturating_sub(1);
        match self.error.take() {
            Some(error) => Ending::Unreadable(end, error),
            None if closed => Ending::Whole,
            None => Ending::CutOff(end),
        }
    }

    /// The text before the events; the buffer begins with their `[` then.
    fn head(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            self.fill()?;
            match find_events(&self.buffer[..self.filled]) {
                Head::Array(_) if is_legacy(&self.buffer[..self.filled]) => {
                    return Err(Refusal::Legacy);
                }
                Head::Array(at) => {
                    self.is_list = true;
                    self.begin(at);
                    return Ok(LIST_HEAD.to_vec());
                }
                Head::Events(at) => {
                    let head = self.buffer[..at].to_vec();
                    self.begin(at);
                    return Ok(head);
                }
                Head::Foreign(at) => return Err(Refusal::NoEvents(at as u64)),
                Head::Open if self.over => {
                    let end = self.filled as u64;
                    return Err(self.error.take().map_or(Refusal::CutOff(end), Refusal::Io));
                }
                Head::Open => self.grow(MAX_HEADER)?,
            }
        }
    }

    /// Drops the text before the events and keeps their `[`.
    fn begin(&mut self, at: usize) {
        self.buffer.copy_within(at..self.filled, 1);
        self.buffer[0] = b'[';
        (self.filled, self.offset) = (self.filled - at + 1, at as u64);
    }

    /// Reads until the buffer is full or the file is over.
    fn fill(&mut self) -> Result<(), Refusal> {
        while !self.over && self.filled < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.over = true,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return Err(Refusal::Io(error));
                }
                Err(error) => (self.over, self.error) = (true, Some(error)),
            }
        }
        Ok(())
    }

    /// Makes room for more of a part that has no end yet.
    fn grow(&mut self, limit: usize) -> Result<(), Refusal> {
        if self.buffer.len() >= limit {
            return Err(Refusal::TooLong(self.offset));
        }
        self.buffer.resize(self.buffer.len() * 2, 0);
        Ok(())
    }

    /// Sends what stands before the comma at `comma`; whether it was taken.
    fn send_until(&mut self, comma: usize, blocks: &SyncSender<Block>) -> bool {
        let rest = self.filled - comma;
        let mut next = self.spares.try_recv().unwrap_or_default();
        next.resize(next.len().max(self.block).max(2 * rest), 0);
        next[..rest].copy_from_slice(&self.buffer[comma..self.filled]);
        next[0] = b'[';
        self.buffer[comma] = b']';
        let buffer = std::mem::replace(&mut self.buffer, next);
        let block = Block {
            buffer,
            length: comma + 1,
            offset: self.offset,
        };
        self.offset += comma as u64;
        self.filled = rest;
        blocks.send(block).is_ok()
    }

    /// All that follows the events. Text beyond the limit is dropped, and the rest does not parse.
    fn tail(&mut self, start: usize) -> Result<Vec<u8>, Refusal> {
        let mut tail = self.buffer[start..self.filled].to_vec();
        let kept = (
            self.filled,
            std::mem::replace(&mut self.buffer, vec![0; 1 << 16]),
        );
        while !self.over && tail.len() < MAX_HEADER {
            self.filled = 0;
            self.fill()?;
            tail.extend_from_slice(&self.buffer[..self.filled]);
        }
        (self.filled, self.buffer) = kept;
        if self.is_list {
            tail.push(b'}');
        }
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cutting, Ending, File, read};

    /// 40 operators whose names look like the space between two events, as the outermost key `traceEvents`.
    fn trace(newline: &str) -> String {
        let event = |nth: u32| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"op}},{{{}","ts":{nth},"dur":1}}"#,
                nth % 3
            )
        };
        let events: Vec<String> = (0..40).map(event).collect();
        let events = events.join(&format!(",{newline}"));
        format!(
            "{{\"schemaVersion\":1,{newline}\"traceEvents\":[{newline}{events}{newline}],\"traceName\":\"t\"}}"
        )
    }

    fn read_text(text: &[u8], cutting: Cutting, block: usize) -> Option<File> {
        read(&mut &*text, cutting, block, u64::MAX).expect("it is a trace")
    }

    fn starts(file: &File) -> Vec<i64> {
        file.rows
            .rows
            .operators
            .iter()
            .map(|row| row.span.start.0)
            .collect()
    }

    #[test]
    fn all_cuts_give_the_same_events_in_order() {
        let expected: Vec<i64> = (0..40).map(|nth| nth * 1000).collect();
        for newline in ["", "\n", "\r\n\t  "] {
            let text = trace(newline);
            let mut refused = 0;
            for block in [16, 33, 64, 100, 500, 1 << 20] {
                let file =
                    read_text(text.as_bytes(), Cutting::Exact, block).expect("cuts are exact");
                assert!(matches!(file.ending, Ending::Whole));
                assert_eq!(starts(&file), expected);
                assert_eq!(file.rows.texts.len(), 1 + 3, "\"\" and three names");
                assert_eq!(file.tail, b",\"traceName\":\"t\"}");
                // A likely cut within a name is noticed, and none that is wrong gets through.
                match read_text(text.as_bytes(), Cutting::Likely, block) {
                    Some(likely) => {
                        assert_eq!(
                            (starts(&likely), likely.tail),
                            (expected.clone(), file.tail)
                        );
                    }
                    None => refused += 1,
                }
            }
            assert!(refused > 0, "some cut lies in a name");
            let plain = text
                .replace("},{0", "")
                .replace("},{1", "")
                .replace("},{2", "");
            let likely =
                read_text(plain.as_bytes(), Cutting::Likely, 200).expect("no name misleads");
            assert_eq!(starts(&likely), expected);
        }
    }

    #[test]
    fn a_list_of_events_is_a_trace_without_keys() {
        let object = trace("\n");
        let (begin, end) = (
            object.find('[').unwrap_or(0),
            object.rfind(']').unwrap_or(0),
        );
        let expected: Vec<i64> = (0..40).map(|nth| nth * 1000).collect();
        let list = format!("{}\n", &object[begin..=end]);
        let file = read_text(list.as_bytes(), Cutting::Exact, 128).expect("cuts are exact");
        assert_eq!((starts(&file), file.tail), (expected, b"\n}".to_vec()));
        let cut = read_text(&list.as_bytes()[..list.len() - 4], Cutting::Exact, 128);
        assert!(matches!(
            cut.map(|file| file.ending),
            Some(Ending::CutOff(_))
        ));
    }

    #[test]
    fn a_file_cut_off_anywhere_gives_the_events_before() {
        let text = trace("\n");
        let begin = text.find("[\n").expect("there are events") + 1;
        let end = text.rfind(']').expect("they end");
        for length in begin..=end {
            let file = read_text(&text.as_bytes()[..length], Cutting::Exact, 128).expect("exact");
            let whole = text[..length].matches("\"dur\":1}").count();
            assert_eq!(
                (starts(&file).len(), file.rows.rows.losses.invalid),
                (whole, 0)
            );
            assert!(
                matches!(file.ending, Ending::CutOff(at) if at == length as u64),
                "{length}"
            );
        }
    }
}
