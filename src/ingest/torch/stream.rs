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

use super::block::{Damage, parse};
use super::rows::{BlockRows, FileRows};
use super::split::{Cut, Head, exact_cut, find_events, likely_cut};

/// Bytes of a block.
const BLOCK: usize = 4 << 20;

/// Blocks parsed at once, for each thread and in all.
const BATCH_PER_THREAD: usize = 4;
const BATCH_MAX: usize = 32;

/// Bytes that one event, or all that stands before or after the events, may have.
const MAX_PART: usize = 64 << 20;

/// How blocks are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    /// Where it is likely right, and proved by parsing.
    Likely,
    /// Where it is right; what does not parse then is damaged.
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
    /// It does not parse from this byte on.
    Invalid(u64, String),
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
    /// The outermost value is a list.
    BareArray,
    /// The file ends before its events begin.
    CutOff(u64),
    /// A part of it is longer than any part of a trace, from this byte on.
    TooLong(u64),
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

/// Reads all events. `None` if a likely cut proves wrong: read again with exact ones.
pub(super) fn read(
    reader: &mut (dyn Read + Send),
    cutting: Cutting,
) -> Result<Option<File>, Refusal> {
    let batch = (BATCH_PER_THREAD * rayon::current_num_threads()).min(BATCH_MAX);
    let (blocks, received) = sync_channel(batch);
    let (spare, spares) = channel();
    thread::scope(|scope| {
        let splitter = scope.spawn(move || Splitter::new(reader, cutting, spares).run(&blocks));
        let (rows, damage) = parse_all(received, batch, &spare);
        let outer = splitter.join().expect("the reader returns its errors")?;
        Ok(match damage {
            Some(_) if cutting == Cutting::Likely => None,
            damage => Some(File {
                head: outer.head,
                tail: outer.tail,
                rows,
                ending: ending(outer.ending, damage),
            }),
        })
    })
}

/// What a reader found, in the light of what did not parse.
fn ending(ending: Ending, damage: Option<(u64, Damage)>) -> Ending {
    match (ending, damage) {
        (ending, None) => ending,
        (Ending::Unreadable(at, error), Some((_, damage))) if damage.cut_off => {
            Ending::Unreadable(at, error)
        }
        (Ending::CutOff(at), Some((_, damage))) if damage.cut_off => Ending::CutOff(at),
        (_, Some((offset, damage))) => {
            Ending::Invalid((offset + damage.at as u64).saturating_sub(1), damage.reason)
        }
    }
}

/// Parses the blocks batch by batch, while the rows of the batch before are put together in order.
fn parse_all(
    blocks: Receiver<Block>,
    batch: usize,
    spare: &Sender<Vec<u8>>,
) -> (FileRows, Option<(u64, Damage)>) {
    let mut all = FileRows::default();
    let mut parsed: Vec<(BlockRows, Option<(u64, Damage)>)> = Vec::new();
    let mut damage = None;
    loop {
        let next: Vec<Block> =
            blocks.recv().into_iter().chain(blocks.try_iter()).take(batch).collect();
        if next.is_empty() && parsed.is_empty() {
            return (all, damage);
        }
        let (found, rows) = rayon::join(
            || absorb(&mut all, parsed),
            || next.into_par_iter().map(|block| parse_block(block, spare)).collect(),
        );
        damage = found;
        if damage.is_some() {
            return (all, damage);
        }
        parsed = rows;
    }
}

/// Adds rows in order, up to the first damage.
fn absorb(
    all: &mut FileRows,
    parsed: Vec<(BlockRows, Option<(u64, Damage)>)>,
) -> Option<(u64, Damage)> {
    for (rows, damage) in parsed {
        all.absorb(rows);
        if damage.is_some() {
            return damage;
        }
    }
    None
}

fn parse_block(block: Block, spare: &Sender<Vec<u8>>) -> (BlockRows, Option<(u64, Damage)>) {
    let (rows, damage) = parse(&block.buffer[..block.length]);
    // The reader may have ended; then nobody needs the buffer.
    let _ = spare.send(block.buffer);
    (rows, damage.map(|damage| (block.offset, damage)))
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
    spares: Receiver<Vec<u8>>,
    /// Bytes read and not yet sent; the first `filled` hold text.
    buffer: Vec<u8>,
    filled: usize,
    /// Where in the file the buffer begins.
    offset: u64,
    /// The file ended, or broke.
    over: bool,
    error: Option<io::Error>,
}

impl<'r> Splitter<'r> {
    fn new(reader: &'r mut (dyn Read + Send), cutting: Cutting, spares: Receiver<Vec<u8>>) -> Self {
        let buffer = vec![0; BLOCK];
        Self { reader, cutting, spares, buffer, filled: 0, offset: 0, over: false, error: None }
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
                    self.grow()?;
                    continue;
                }
                Cut::End(at) => (at + 2, self.tail(at + 2)?),
                Cut::Comma(_) | Cut::Nowhere => (self.filled, Vec::new()),
            };
            let ending = self.ending(matches!(cut, Cut::End(_)));
            // If the parsers stopped at damage, nobody takes the block, and its ending does not matter.
            let _ = blocks.send(Block { buffer: self.buffer, length, offset: self.offset });
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
                Head::Events(at) => {
                    let head = self.buffer[..at].to_vec();
                    self.buffer.copy_within(at..self.filled, 1);
                    self.buffer[0] = b'[';
                    (self.filled, self.offset) = (self.filled - at + 1, at as u64);
                    return Ok(head);
                }
                Head::Array => return Err(Refusal::BareArray),
                Head::Foreign(at) => return Err(Refusal::NoEvents(at as u64)),
                Head::Open if self.over => {
                    let end = self.filled as u64;
                    return Err(self.error.take().map_or(Refusal::CutOff(end), Refusal::Io));
                }
                Head::Open => self.grow()?,
            }
        }
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

    fn grow(&mut self) -> Result<(), Refusal> {
        if self.buffer.len() >= MAX_PART {
            return Err(Refusal::TooLong(self.offset));
        }
        self.buffer.resize(self.buffer.len() * 2, 0);
        Ok(())
    }

    /// Sends what stands before the comma at `comma`; whether it was taken.
    fn send_until(&mut self, comma: usize, blocks: &SyncSender<Block>) -> bool {
        let rest = self.filled - comma;
        let mut next = self.spares.try_recv().unwrap_or_default();
        next.resize(next.len().max(BLOCK).max(2 * rest), 0);
        next[..rest].copy_from_slice(&self.buffer[comma..self.filled]);
        next[0] = b'[';
        self.buffer[comma] = b']';
        let buffer = std::mem::replace(&mut self.buffer, next);
        let block = Block { buffer, length: comma + 1, offset: self.offset };
        self.offset += comma as u64;
        self.filled = rest;
        blocks.send(block).is_ok()
    }

    /// All that follows the events. What goes beyond the limit is left out, and will not parse.
    fn tail(&mut self, start: usize) -> Result<Vec<u8>, Refusal> {
        let mut tail = self.buffer[start..self.filled].to_vec();
        let kept = (self.filled, std::mem::replace(&mut self.buffer, vec![0; 1 << 16]));
        while !self.over && tail.len() < MAX_PART {
            self.filled = 0;
            self.fill()?;
            tail.extend_from_slice(&self.buffer[..self.filled]);
        }
        (self.filled, self.buffer) = kept;
        Ok(tail)
    }
}
