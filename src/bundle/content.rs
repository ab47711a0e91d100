//! The bytes of a file, whatever it is packed in: plain, gzip or zstd, told by the first bytes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tempfile::NamedTempFile;

/// Inflated size beyond which a file is refused: 16 GiB.
pub const MAX_INFLATED: u64 = 16 << 30;

/// Inflated bytes per packed byte beyond which a file is refused as a bomb, once it is over 256 MiB.
pub const MAX_RATIO: u64 = 400;

const BOMB_FLOOR: u64 = 256 << 20;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As it is.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// zstd frames.
    Zstd,
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

/// A file whose packing is known.
#[derive(Clone, Debug)]
pub struct Content {
    path: PathBuf,
    packing: Packing,
    packed_bytes: u64,
}

impl Content {
    /// Looks at the first bytes of `path`.
    pub fn open(path: &Path) -> Result<Self, ContentError> {
        let mut file = File::open(path)?;
        let packed_bytes = file.metadata()?.len();
        let mut magic = [0; 4];
        let read = read_up_to(&mut file, &mut magic)?;
        let packing = match &magic[..read] {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Packing::Zstd,
            _ => Packing::Plain,
        };
        Ok(Self { path: path.to_owned(), packing, packed_bytes })
    }

    /// How the file is packed.
    pub const fn packing(&self) -> Packing {
        self.packing
    }

    /// Size of the file as it lies there.
    pub const fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// The unpacked bytes as a stream; reading on past the limits is an error of kind
    /// [`io::ErrorKind::FileTooLarge`].
    pub fn reader(&self) -> Result<Box<dyn Read + Send>, ContentError> {
        let file = BufReader::with_capacity(1 << 18, File::open(&self.path)?);
        Ok(match self.packing {
            Packing::Plain => Box::new(file),
            Packing::Gzip => Box::new(self.limited(MultiGzDecoder::new(file))),
            Packing::Zstd => Box::new(self.limited(zstd::Decoder::with_buffer(file)?)),
        })
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

    /// A plain file with these bytes, for readers that need one: itself, or a temporary copy.
    pub fn plain_file(&self) -> Result<PlainFile, ContentError> {
        if self.packing == Packing::Plain {
            return Ok(PlainFile { path: self.path.clone(), temporary: None });
        }
        let mut temporary = NamedTempFile::new()?;
        io::copy(&mut self.reader()?, temporary.as_file_mut())?;
        Ok(PlainFile { path: temporary.path().to_owned(), temporary: Some(temporary) })
    }

    fn limited<R: Read>(&self, inner: R) -> Limited<R> {
        let by_ratio = self.packed_bytes.saturating_mul(MAX_RATIO).max(BOMB_FLOOR);
        Limited { inner, left: by_ratio.min(MAX_INFLATED) }
    }
}

/// A file without packing; removed on drop if it was made for the occasion.
#[derive(Debug)]
pub struct PlainFile {
    /// Where it is.
    pub path: PathBuf,
    temporary: Option<NamedTempFile>,
}

impl PlainFile {
    /// Whether this is an unpacked copy.
    pub const fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::from(io::ErrorKind::FileTooLarge)),
        }
        Ok(read)
    }
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
