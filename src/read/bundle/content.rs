//! The unpacked bytes of a file. The first bytes decide between plain, gzip, zstd, xz and bzip2.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use rooflens_session::budget::{INFLATED_FLOOR, INFLATED_RATIO, Inflation};
use tempfile::NamedTempFile;

use super::aside;
use super::encoding::{Encoding, decoded};

/// Size beyond which a packed document that is read as a whole is refused, if it is not large when packed either.
const MAX_DOCUMENT: u64 = 4 << 20;

/// Bytes that a member of an archive counts as next to its own.
const MEMBER_BYTES: u64 = 16 << 10;

/// Bytes that a packed byte counts as next to what it inflates to: streams that hold nothing take time.
const PACKED_BYTE: u64 = 16;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As it is.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// zstd frames.
    Zstd,
    /// xz streams.
    Xz,
    /// bzip2 streams.
    Bzip2,
}

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// Memory that a reader of xz may take, KiB: level 9 takes 65 MiB.
const XZ_MEMORY: u32 = 128 << 10;

/// Largest file that an argument names and that is read as a whole: settings, notes, SQL.
const MAX_ARGUMENT: u64 = 64 << 20;

/// The bytes of a file that an argument names and that is no part of an input.
///
/// # Errors
/// The file cannot be read, or it has no end within 64 MiB, such as a device.
pub fn argument(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut limited = File::open(path)?.take(MAX_ARGUMENT + 1);
    limited.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_ARGUMENT {
        let message = format!("it has more than {} MiB", MAX_ARGUMENT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// Those of [`argument`], and bytes that are no UTF-8.
pub fn argument_text(path: &Path) -> io::Result<String> {
    let bytes = argument(path)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Why the bytes of a file could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The operating system refused.
    #[error("cannot read the file")]
    Io(#[from] io::Error),
    /// The file inflates beyond all reason.
    #[error("the file inflates to more than {limit} bytes and is refused")]
    TooLarge {
        /// The limit that it broke.
        limit: u64,
    },
}

impl ContentError {
    fn into_io(self) -> io::Error {
        match self {
            Self::Io(error) => error,
            other => io::Error::new(io::ErrorKind::FileTooLarge, other),
        }
    }
}

/// A file whose packing is known.
#[derive(Clone, Debug)]
pub struct Content {
    path: PathBuf,
    packing: Packing,
    /// The file is text in another encoding, or begins with a byte order mark.
    is_encoded: bool,
    packed_bytes: u64,
    inflation: Inflation,
    /// How far the file was inflated: what is read again costs nothing more.
    inflated: Arc<AtomicU64>,
    /// How far it was read.
    read: Arc<AtomicU64>,
}

impl Content {
    /// Looks at the first bytes of `path`, an input of its own. Whoever has a bundle asks its files instead.
    pub(crate) fn open(path: &Path) -> Result<Self, ContentError> {
        Self::sharing(path, None)
    }

    /// The same for one of several files that share what they may inflate to.
    pub(crate) fn sharing(
        path: &Path,
        inflation: Option<&Inflation>,
    ) -> Result<Self, ContentError> {
        let mut file = File::open(path)?;
        let packed_bytes = file.metadata()?.len();
        let mut magic = [0; 6];
        let length = read_up_to(&mut file, &mut magic)?;
        let packing = match &magic[..length] {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Packing::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Packing::Bzip2,
            _ => Packing::Plain,
        };
        let inflation = inflation.map_or_else(|| Inflation::of(packed_bytes), Clone::clone);
        let (path, inflated, read) = (path.to_owned(), Arc::default(), Arc::default());
        let is_encoded = Encoding::of(&magic[..length]).is_some();
        Ok(Self {
            path,
            packing,
            is_encoded,
            packed_bytes,
            inflation,
            inflated,
            read,
        })
    }

    /// How the file is packed.
    pub const fn packing(&self) -> Packing {
        self.packing
    }

    /// Size of the file as it lies there.
    pub const fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// What this file and those of the same input may still inflate to.
    pub const fn inflation(&self) -> &Inflation {
        &self.inflation
    }

    /// The unpacked bytes as a stream, text in UTF-8 without a byte order mark; reading on past the limits is an error of
    /// kind [`io::ErrorKind::FileTooLarge`].
    pub fn reader(&self) -> Result<Box<dyn Read + Send>, ContentError> {
        let file = File::open(&self.path)?;
        if self.packing == Packing::Plain {
            let file = BufReader::with_capacity(BUFFER, file);
            return match self.is_encoded {
                true => Ok(decoded(file)?),
                false => Ok(Box::new(file)),
            };
        }
        let packed = limited(file, PACKED_BYTE, &self.inflation, &self.read);
        let packed = BufReader::with_capacity(BUFFER, packed);
        let streams: Box<dyn Read + Send> = match self.packing {
            Packing::Plain => Box::new(packed),
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
            Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_MEMORY)),
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
        };
        Ok(decoded(limited(
            streams,
            1,
            &self.inflation,
            &self.inflated,
        ))?)
    }

    /// The first unpacked bytes, `length` at most. A damaged archive gives what could be unpacked.
    pub fn prefix(&self, length: usize) -> Result<Vec<u8>, ContentError> {
        let mut bytes = vec![0; length];
        let mut reader = self.reader()?;
        let mut filled = 0;
        while filled < length {
            match reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if filled == 0 => return Err(error.into()),
                Err(_) => break,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// All unpacked bytes, refused beyond `limit`.
    pub fn bytes(&self, limit: u64) -> Result<Vec<u8>, ContentError> {
        let mut bytes = Vec::new();
        self.reader()?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(ContentError::TooLarge { limit });
        }
        Ok(bytes)
    }

    /// All unpacked bytes of a document whose values take many times its size in memory.
    pub fn document(&self, limit: u64) -> Result<Vec<u8>, ContentError> {
        let packed = MAX_DOCUMENT.max(2 * self.packed_bytes);
        self.bytes(if self.packing == Packing::Plain {
            limit
        } else {
            limit.min(packed)
        })
    }

    /// A plain file with these bytes, for readers that need one: itself, or a temporary copy.
    pub fn plain_file(&self) -> Result<PlainFile, ContentError> {
        if self.packing == Packing::Plain && !self.is_encoded {
            return Ok(PlainFile {
                path: self.path.clone(),
                _copy: None,
            });
        }
        let temporary = aside::file(|file| {
            let mut reader = self.reader().map_err(ContentError::into_io)?;
            let mut writer = BufWriter::with_capacity(1 << 17, file.as_file_mut());
            io::copy(&mut reader, &mut writer)?;
            writer.flush()
        })?;
        Ok(PlainFile {
            path: temporary.path().to_owned(),
            _copy: Some(temporary),
        })
    }

    /// The file itself, whatever it is packed in.
    pub(super) fn file(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Takes what a member of the file costs however small it is: a file that is made, hashed and looked at.
    pub(super) fn take_member(&self) -> io::Result<()> {
        match self.inflation.take(MEMBER_BYTES) {
            true => Ok(()),
            false => Err(beyond_inflation()),
        }
    }

    /// A stream of one of several members of the file, which costs what it inflates to.
    pub(super) fn member<R: Read>(&self, inner: R) -> impl Read + use<R> {
        limited(inner, 1, &self.inflation, &Arc::default())
    }
}

/// A file without packing; removed on drop if it was made for the occasion.
#[derive(Debug)]
pub struct PlainFile {
    /// Where it is.
    pub path: PathBuf,
    _copy: Option<NamedTempFile>,
}

/// A stream of which each byte costs; what is read again costs nothing more.
struct Limited<R> {
    inner: R,
    /// What its bytes have cost so far.
    cost: u64,
    byte_cost: u64,
    inflation: Inflation,
    /// The most that a stream of these bytes has cost.
    paid: Arc<AtomicU64>,
}

fn limited<R>(
    inner: R,
    byte_cost: u64,
    inflation: &Inflation,
    paid: &Arc<AtomicU64>,
) -> Limited<R> {
    Limited {
        inner,
        cost: 0,
        byte_cost,
        inflation: inflation.clone(),
        paid: Arc::clone(paid),
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).map_err(by_kind)?;
        self.cost += self.byte_cost * read as u64;
        let before = self.paid.fetch_max(self.cost, Ordering::Relaxed);
        if self.inflation.take(self.cost.saturating_sub(before)) {
            return Ok(read);
        }
        Err(beyond_inflation())
    }
}

/// The error with its kind: zstd says in words alone that it gets no memory.
fn by_kind(error: io::Error) -> io::Error {
    match error.to_string().contains("not enough memory") {
        true => io::Error::new(io::ErrorKind::OutOfMemory, error),
        false => error,
    }
}

fn beyond_inflation() -> io::Error {
    let message = format!(
        "the input inflates to more than {} MiB and {INFLATED_RATIO} times its size",
        INFLATED_FLOOR >> 20
    );
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn streams_that_hold_nothing_cost_what_their_bytes_do() {
        let empty = GzEncoder::new(Vec::new(), Compression::default());
        let packed = empty.finish().unwrap().repeat(10_000);
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(&packed).unwrap();
        let alone = Content::open(file.path()).unwrap();
        assert_eq!(alone.bytes(1).unwrap(), b"");

        // Sixteen times their bytes are just there, and what is read again costs nothing.
        let inflation = Inflation::of(0);
        assert!(inflation.take(INFLATED_FLOOR - 16 * packed.len() as u64));
        let shared = Content::sharing(file.path(), Some(&inflation)).unwrap();
        assert!(shared.bytes(1).is_ok() && shared.bytes(1).is_ok());
        assert!(!inflation.take(1));
        let later = Content::sharing(file.path(), Some(&inflation)).unwrap();
        assert!(later.bytes(1).is_err());
    }

    #[test]
    fn memory_that_zstd_does_not_get_has_a_kind() {
        let error = io::Error::other("Allocation error : not enough memory");
        assert_eq!(by_kind(error).kind(), io::ErrorKind::OutOfMemory);
        let other = io::Error::other("Data corruption detected");
        assert_eq!(by_kind(other).kind(), io::ErrorKind::Other);
    }
}
