//! The framing of a report: magic, file header, then blocks of a header and a payload of sized messages.
//!
//! ```text
//! "NVR\0"  u32 size  FileHeader  { u32 size  BlockHeader  payload }*
//! payload: { u32 size  message }*, sources first (machine code, skipped), then results
//! ```

use std::io::{self, ErrorKind, Read};

use super::messages::{BlockHeader, file_version};
use super::wire::Malformed;

/// First bytes of a report.
pub(super) const MAGIC: &[u8] = b"NVR\0";

/// Largest header and largest result that are read. A result of the full set takes about 1 MiB.
const MAX_MESSAGE: u64 = 256 << 20;

/// Why reading ended before the file did.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file ends within a block.
    Cut,
    /// The framing makes no sense at this byte.
    Malformed(u64),
    /// The session takes all that its input allows.
    Budget,
    /// The bytes could not be had.
    Io(io::Error),
}

/// A report being read from its beginning.
pub(super) struct Blocks<R> {
    reader: R,
    /// Bytes read so far.
    offset: u64,
    /// Bytes of the payload that were not read yet.
    payload: u64,
    /// Messages of the payload that are not results and come before them.
    sources: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Blocks<R> {
    /// Reads magic and file header; gives the version of the format.
    pub(super) fn open(reader: R) -> Result<(Self, u32), Stop> {
        let mut blocks = Self {
            reader,
            offset: 0,
            payload: 0,
            sources: 0,
            buffer: Vec::new(),
        };
        let mut magic = [0; 4];
        blocks.exact(&mut magic)?;
        if magic != MAGIC {
            return Err(Stop::Malformed(0));
        }
        let size = blocks.size()?.ok_or(Stop::Cut)?;
        blocks.message(size)?;
        let version = file_version(&blocks.buffer).map_err(|Malformed| Stop::Malformed(4))?;
        Ok((blocks, version))
    }

    /// The next block's header; none at the end of the file.
    pub(super) fn block(&mut self) -> Result<Option<BlockHeader>, Stop> {
        self.skip(self.payload)?;
        self.payload = 0;
        let start = self.offset;
        let Some(size) = self.size()? else {
            return Ok(None);
        };
        self.message(size)?;
        let header = BlockHeader::read(&self.buffer).map_err(|Malformed| Stop::Malformed(start))?;
        (self.payload, self.sources) = (header.payload, header.sources);
        Ok(Some(header))
    }

    /// Bytes read so far.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next result of the block; none at its end.
    pub(super) fn result(&mut self) -> Result<Option<&[u8]>, Stop> {
        while self.payload > 0 {
            let start = self.offset;
            let size = self.size()?.ok_or(Stop::Cut)?;
            let Some(rest) = self.payload.checked_sub(4 + size) else {
                return Err(Stop::Malformed(start));
            };
            self.payload = rest;
            if self.sources == 0 {
                self.message(size)?;
                return Ok(Some(&self.buffer));
            }
            self.sources -= 1;
            self.skip(size)?;
        }
        Ok(None)
    }

    /// A size; none at the end of the file.
    fn size(&mut self) -> Result<Option<u64>, Stop> {
        let mut bytes = [0; 4];
        match self.fill(&mut bytes)? {
            0 => Ok(None),
            4 => Ok(Some(u64::from(u32::from_le_bytes(bytes)))),
            _ => Err(Stop::Cut),
        }
    }

    /// The next `size` bytes into the buffer, which grows with what is there and not with what is announced.
    fn message(&mut self, size: u64) -> Result<(), Stop> {
        if size > MAX_MESSAGE {
            return Err(Stop::Malformed(self.offset));
        }
        self.buffer.clear();
        let read = (&mut self.reader)
            .take(size)
            .read_to_end(&mut self.buffer)
            .map_err(stop)?;
        self.offset += read as u64;
        if read as u64 == size {
            Ok(())
        } else {
            Err(Stop::Cut)
        }
    }

    fn skip(&mut self, size: u64) -> Result<(), Stop> {
        let skipped =
            io::copy(&mut (&mut self.reader).take(size), &mut io::sink()).map_err(stop)?;
        self.offset += skipped;
        if skipped == size {
            Ok(())
        } else {
            Err(Stop::Cut)
        }
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        if self.fill(bytes)? == bytes.len() {
            Ok(())
        } else {
            Err(Stop::Cut)
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, Stop> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(stop(error)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}

/// A packed file that was cut ends unexpectedly.
fn stop(error: io::Error) -> Stop {
    match error.kind() {
        ErrorKind::UnexpectedEof => Stop::Cut,
        _ => Stop::Io(error),
    }
}
