//! A reader of pickles that hold data alone: None, truth values, numbers, texts, lists, tuples, dicts.
//!
//! Nothing is ever constructed: an opcode that names or calls anything refuses the file. Opcodes are those of Python's
//! pickletools. Values lie in one list and refer to each other by number, so no depth and no cycle costs stack, and what is
//! shared is there once.

use rustc_hash::FxHashMap;

use crate::{IngestError, IngestErrorKind};
use rooflens_diagnostic::Location;

/// A value; parts are numbers of others.
#[derive(Debug, PartialEq)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// A list or a tuple.
    List(Vec<u32>),
    Dict(Vec<(u32, u32)>),
}

/// Bytes that a value takes at the most, with its place on the stack, in the memo and in a list.
const NODE_BYTES: u64 = (size_of::<Node<'_>>() + 16) as u64;

/// Numbers of the values that need no more than one node.
const NONE: u32 = 0;
const FALSE: u32 = 1;
const TRUE: u32 = 2;

/// A pickle.
pub(super) struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: u32,
}

/// A pickle while it is read.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<u32>,
    marks: Vec<usize>,
    memo: FxHashMap<u32, u32>,
    /// Values, references and parts that may still be made.
    left: u64,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle in no more memory than `room`.
    ///
    /// # Errors
    /// Where it is damaged, cut off, too large, or holds other than data.
    pub(super) fn read(bytes: &'a [u8], room: u64) -> Result<Self, IngestError> {
        let nodes = vec![Node::None, Node::Bool(false), Node::Bool(true)];
        let (stack, marks, memo) = (Vec::new(), Vec::new(), FxHashMap::default());
        let left = room / NODE_BYTES;
        let mut machine = Machine {
            bytes,
            at: 0,
            nodes,
            stack,
            marks,
            memo,
            left,
        };
        loop {
            let offset = machine.at;
            let step = machine
                .step()
                .map_err(|error| error.at(Location::Byte(offset as u64)))?;
            if let Some(root) = step {
                return Ok(Self {
                    nodes: machine.nodes,
                    root,
                });
            }
        }
    }

    pub(super) const fn root(&self) -> u32 {
        self.root
    }

    pub(super) fn node(&self, id: u32) -> &Node<'a> {
        &self.nodes[id as usize]
    }

    /// The value of a key of a dict.
    pub(super) fn get(&self, dict: u32, key: &str) -> Option<u32> {
        let Node::Dict(items) = self.node(dict) else {
            return None;
        };
        let is_key = |id: u32| matches!(self.node(id), Node::Text(text) if *text == key);
        items
            .iter()
            .rev()
            .find(|(id, _)| is_key(*id))
            .map(|(_, value)| *value)
    }

    /// The items of a list; none of another value.
    pub(super) fn items(&self, list: Option<u32>) -> &[u32] {
        match list.map(|list| self.node(list)) {
            Some(Node::List(items)) => items,
            _ => &[],
        }
    }
}

fn damaged(what: &str) -> IngestError {
    let (what, found) = ("the pickle".to_owned(), what.to_owned());
    IngestErrorKind::Value {
        what,
        found,
        expected: "values on the stack for each opcode",
    }
    .into()
}

impl<'a> Machine<'a> {
    /// Runs one opcode; the value of the whole if it ends.
    fn step(&mut self) -> Result<Option<u32>, IngestError> {
        let opcode = self.take(1)?[0];
        match opcode {
            b'.' => return self.pop().map(Some),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => {
                self.spend(1)?;
                self.marks.push(self.stack.len());
            }
            b'0' => drop(self.pop()?),
            b'2' => {
                let top = self.top()?;
                self.put(top)?;
            }
            b'N' => self.put(NONE)?,
            0x88 => self.put(TRUE)?,
            0x89 => self.put(FALSE)?,
            b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' => self.number(opcode)?,
            b'X' | 0x8c | 0x8d => self.text(opcode)?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b']' | b')' => self.push(Node::List(Vec::new()))?,
            b't' | b'l' | 0x85..=0x87 => self.sequence(opcode)?,
            b'd' => {
                let items = self.since_mark()?;
                self.push(Node::Dict(Vec::new()))?;
                self.set(&items)?;
            }
            b'a' | b'e' => {
                let items = if opcode == b'a' {
                    vec![self.pop()?]
                } else {
                    self.since_mark()?
                };
                self.append(items)?;
            }
            b's' | b'u' => {
                let items = match opcode {
                    b's' => self.last(2)?,
                    _ => self.since_mark()?,
                };
                self.set(&items)?;
            }
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(opcode)?,
            _ => return Err(refuse(opcode)),
        }
        Ok(None)
    }

    fn number(&mut self, opcode: u8) -> Result<(), IngestError> {
        let length = match opcode {
            b'J' => 4,
            b'K' => 1,
            b'M' => 2,
            b'G' => 8,
            0x8a => self.little(1)? as usize,
            _ => self.little(4)? as usize,
        };
        let bytes = self.take(length)?;
        let node = match opcode {
            b'G' => Node::Float(f64::from_bits(u64::from_be_bytes(array(bytes)))),
            b'K' | b'M' => Node::Int(i64::from_le_bytes(array(bytes))),
            // Two's complement of any length; addresses beyond 63 bits keep their low ones.
            _ => {
                let fill = if bytes.last().is_some_and(|last| *last >= 0x80) {
                    0xff
                } else {
                    0
                };
                let mut wide = [fill; 8];
                let kept = bytes.len().min(8);
                wide[..kept].copy_from_slice(&bytes[..kept]);
                Node::Int(i64::from_le_bytes(wide))
            }
        };
        self.push(node)
    }

    fn text(&mut self, opcode: u8) -> Result<(), IngestError> {
        let length = self.little(match opcode {
            0x8c => 1,
            b'X' => 4,
            _ => 8,
        })?;
        let length = usize::try_from(length).map_err(|_| IngestErrorKind::Truncated)?;
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("a text that is not UTF-8"))?;
        self.push(Node::Text(text))
    }

    fn sequence(&mut self, opcode: u8) -> Result<(), IngestError> {
        let items = match opcode {
            0x85..=0x87 => self.last(usize::from(opcode - 0x84))?,
            _ => self.since_mark()?,
        };
        self.spend(items.len() as u64)?;
        self.push(Node::List(items))
    }

    fn append(&mut self, items: Vec<u32>) -> Result<(), IngestError> {
        self.spend(items.len() as u64)?;
        let list = self.top()?;
        match &mut self.nodes[list as usize] {
            Node::List(list) => list.extend(items),
            _ => return Err(damaged("an item for no list")),
        }
        Ok(())
    }

    fn set(&mut self, items: &[u32]) -> Result<(), IngestError> {
        self.spend(items.len() as u64)?;
        let dict = self.top()?;
        match &mut self.nodes[dict as usize] {
            Node::Dict(dict) if items.len().is_multiple_of(2) => {
                dict.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            _ => return Err(damaged("a pair for no dict")),
        }
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> Result<(), IngestError> {
        let number = match opcode {
            b'q' | b'h' => self.little(1)? as u32,
            b'r' | b'j' => self.little(4)? as u32,
            _ => u32::try_from(self.memo.len()).map_err(|_| IngestErrorKind::Budget)?,
        };
        if matches!(opcode, b'h' | b'j') {
            let node = self.memo.get(&number).copied();
            return self.put(node.ok_or_else(|| damaged("a reference to nothing"))?);
        }
        self.spend(1)?;
        let top = self.top()?;
        self.memo.insert(number, top);
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], IngestError> {
        let bytes = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.get(..length));
        let bytes = bytes.ok_or(IngestErrorKind::Truncated)?;
        self.at += length;
        Ok(bytes)
    }

    fn little(&mut self, length: usize) -> Result<u64, IngestError> {
        Ok(u64::from_le_bytes(array(self.take(length)?)))
    }

    fn spend(&mut self, count: u64) -> Result<(), IngestError> {
        self.left = self
            .left
            .checked_sub(count)
            .ok_or(IngestErrorKind::Budget)?;
        Ok(())
    }

    fn push(&mut self, node: Node<'a>) -> Result<(), IngestError> {
        let id = u32::try_from(self.nodes.len()).map_err(|_| IngestErrorKind::Budget)?;
        self.put(id)?;
        self.nodes.push(node);
        Ok(())
    }

    fn put(&mut self, id: u32) -> Result<(), IngestError> {
        self.spend(1)?;
        self.stack.push(id);
        Ok(())
    }

    /// Values above the last mark belong to it.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<u32, IngestError> {
        self.stack
            .last()
            .copied()
            .ok_or_else(|| damaged("without a value"))
    }

    fn pop(&mut self) -> Result<u32, IngestError> {
        if self.stack.len() <= self.floor() {
            return Err(damaged("without a value"));
        }
        self.stack.pop().ok_or_else(|| damaged("without a value"))
    }

    fn last(&mut self, count: usize) -> Result<Vec<u32>, IngestError> {
        let from = self
            .stack
            .len()
            .checked_sub(count)
            .filter(|from| *from >= self.floor());
        Ok(self
            .stack
            .split_off(from.ok_or_else(|| damaged("without a value"))?))
    }

    fn since_mark(&mut self) -> Result<Vec<u32>, IngestError> {
        let mark = self.marks.pop().ok_or_else(|| damaged("without a mark"))?;
        Ok(self.stack.split_off(mark))
    }
}

/// The low bytes of a number.
fn array(bytes: &[u8]) -> [u8; 8] {
    let mut wide = [0; 8];
    let kept = bytes.len().min(8);
    wide[..kept].copy_from_slice(&bytes[..kept]);
    wide
}

fn refuse(opcode: u8) -> IngestError {
    let reason = match opcode {
        b'c' | 0x93 | b'R' | b'b' | b'o' | b'i' | 0x81 | 0x92 => "names a class or calls it",
        _ => "is of no data",
    };
    let message = format!("opcode 0x{opcode:02x} of the pickle {reason}: only plain data is read");
    IngestErrorKind::Unsupported(message).into()
}
