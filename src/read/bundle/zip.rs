//! ZIP archives, by their central directory: names, places and sizes; entries stored or deflated.
//!
//! APPNOTE.TXT of PKWARE, 4.3. Encryption, other methods and archives of several files are refused.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::content::{Content, Packing};
use super::walk::MAX_FILES;

/// Signatures of the central directory's end, of the same of large archives with its locator, of a directory entry and
/// of an entry itself.
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const DIRECTORY: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

/// Bytes of these without what varies.
const END_BYTES: u64 = 22;
const DIRECTORY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// Bytes of the central directory beyond which it is refused: it is read as a whole.
const MAX_DIRECTORY: u64 = 16 << 20;

/// A value that stands in an extra field of 64 bits instead.
const LARGE: u64 = 0xffff_ffff;

/// True if the file is a zip.
pub(super) fn is_zip(content: &Content, prefix: &[u8]) -> bool {
    content.packing() == Packing::Plain && (prefix.starts_with(LOCAL) || prefix.starts_with(END))
}

/// An entry of the central directory.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Path as it was written.
    pub(super) name: Vec<u8>,
    flags: u64,
    method: u64,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
    /// Unix mode; 0 if the archive was written elsewhere.
    mode: u64,
}

impl Entry {
    /// True if it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.name.ends_with(b"/")
    }

    /// Why it is not unpacked, if it is not.
    pub(super) const fn fault(&self) -> Option<&'static str> {
        match (self.mode & 0o170_000, self.method) {
            (0o120_000, _) => Some("a symbolic link"),
            (0o100_000 | 0o040_000 | 0, _) if self.flags & 1 != 0 => Some("encrypted"),
            (0o100_000 | 0o040_000 | 0, 0 | 8) => None,
            (0o100_000 | 0o040_000 | 0, _) => Some("packed by a method other than deflate"),
            _ => Some("of an unknown kind"),
        }
    }
}

/// All entries.
pub(super) fn entries(file: &mut File) -> io::Result<Vec<Entry>> {
    let (offset, bytes) = directory(file)?;
    if bytes > MAX_DIRECTORY {
        return Err(fault("its directory is too large"));
    }
    let rest = read_at(file, offset, bytes)?;
    let (mut rest, mut entries) = (rest.as_slice(), Vec::new());
    while rest.starts_with(DIRECTORY) {
        if entries.len() >= MAX_FILES {
            return Err(fault("it has more entries than a capture has files"));
        }
        let fixed = rest.get(..DIRECTORY_BYTES).ok_or_else(cut)?;
        let [name, extra, comment] = [28, 30, 32].map(|offset| number(fixed, offset, 2) as usize);
        let after = DIRECTORY_BYTES + name + extra + comment;
        let record = rest.get(..after).ok_or_else(cut)?;
        let is_unix = fixed[5] == 3;
        let mut entry = Entry {
            name: record[DIRECTORY_BYTES..DIRECTORY_BYTES + name].to_vec(),
            flags: number(fixed, 8, 2),
            method: number(fixed, 10, 2),
            crc: number(fixed, 16, 4) as u32,
            packed: number(fixed, 20, 4),
            size: number(fixed, 24, 4),
            offset: number(fixed, 42, 4),
            mode: if is_unix { number(fixed, 40, 2) } else { 0 },
        };
        let extra = &record[DIRECTORY_BYTES + name..DIRECTORY_BYTES + name + extra];
        enlarge(&mut entry, extra)?;
        entries.push(entry);
        rest = &rest[after..];
    }
    Ok(entries)
}

/// The unpacked bytes of an entry. As many as it states are read, which [`Checked`] holds it to.
pub(super) fn open(file: &mut File, entry: &Entry) -> io::Result<Box<dyn Read>> {
    let local = read_at(file, entry.offset, LOCAL_BYTES as u64)?;
    if !local.starts_with(LOCAL) {
        return Err(fault("an entry is not where its directory says"));
    }
    let after = LOCAL_BYTES as u64 + number(&local, 26, 2) + number(&local, 28, 2);
    let start = entry.offset.checked_add(after).ok_or_else(cut)?;
    file.seek(SeekFrom::Start(start))?;
    let packed: Take<File> = file.try_clone()?.take(entry.packed);
    Ok(match entry.method {
        0 => Box::new(packed),
        _ => Box::new(DeflateDecoder::new(BufReader::with_capacity(
            1 << 18,
            packed,
        ))),
    })
}

/// A stream of an entry whose length and checksum are compared with what the directory states.
pub(super) struct Checked<R> {
    inner: R,
    crc: Crc,
    bytes: u64,
    stated: (u64, u32),
}

impl<R: Read> Checked<R> {
    /// The stream of that entry.
    pub(super) fn new(inner: R, entry: &Entry) -> Self {
        Self {
            inner,
            crc: Crc::new(),
            bytes: 0,
            stated: (entry.size, entry.crc),
        }
    }

    /// Fails if what was read is not what the directory states.
    pub(super) fn check(&self) -> io::Result<()> {
        if (self.bytes, self.crc.sum()) == self.stated {
            return Ok(());
        }
        Err(fault(
            "an entry is damaged: its length or checksum is not what the directory states",
        ))
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.crc.update(&buffer[..read]);
        self.bytes += read as u64;
        if self.bytes > self.stated.0 {
            return Err(fault("an entry is larger than its directory states"));
        }
        Ok(read)
    }
}

/// Place and size of the central directory.
fn directory(file: &mut File) -> io::Result<(u64, u64)> {
    let length = file.metadata()?.len();
    // A comment of 64 KiB at most may follow the end.
    let tail = length.min(END_BYTES + 0xffff);
    let bytes = read_at(file, length - tail, tail)?;
    let end_start = memchr::memmem::rfind(&bytes, END).ok_or_else(cut)?;
    let end = bytes
        .get(end_start..end_start + END_BYTES as usize)
        .ok_or_else(cut)?;
    if number(end, 4, 2) != number(end, 6, 2) {
        return Err(fault("it is one of several files"));
    }
    let (size, offset) = (number(end, 12, 4), number(end, 16, 4));
    let locator = end_start
        .checked_sub(20)
        .and_then(|from| bytes.get(from..end_start));
    let Some(locator) = locator.filter(|bytes| bytes.starts_with(LOCATOR_64)) else {
        return Ok((offset, size));
    };
    let end = read_at(file, number(locator, 8, 8), 56)?;
    if !end.starts_with(END_64) {
        return Err(cut());
    }
    Ok((number(&end, 48, 8), number(&end, 40, 8)))
}

/// Takes sizes and offset from the extra field of large archives, in the order of the header.
fn enlarge(entry: &mut Entry, extra: &[u8]) -> io::Result<()> {
    let mut rest = extra;
    while rest.len() >= 4 {
        let (id, length) = (number(rest, 0, 2), number(rest, 2, 2) as usize);
        let field = rest.get(4..4 + length).ok_or_else(cut)?;
        if id == 1 {
            let mut values = field.chunks_exact(8).map(|bytes| number(bytes, 0, 8));
            for value in [&mut entry.size, &mut entry.packed, &mut entry.offset] {
                if *value == LARGE {
                    *value = values.next().ok_or_else(cut)?;
                }
            }
        }
        rest = &rest[4 + length..];
    }
    Ok(())
}

fn read_at(file: &mut File, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    if read.len() as u64 == bytes {
        Ok(read)
    } else {
        Err(cut())
    }
}

/// A little-endian number of so many bytes; 0 beyond the end.
fn number(bytes: &[u8], offset: usize, length: usize) -> u64 {
    let digits = bytes.get(offset..offset + length).unwrap_or_default();
    digits
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn cut() -> io::Error {
    fault("it is damaged or cut off")
}

fn fault(message: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the zip archive cannot be read: {message}"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use rooflens_diagnostic::Diagnostics;

    use crate::{Content, open};

    /// A member: name, method, Unix mode, bytes.
    type Member<'a> = (&'a str, u16, u32, &'a [u8]);

    fn zip(members: &[Member<'_>]) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, method, mode, bytes) in members {
            let mut packed = bytes.to_vec();
            if *method == 8 {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(bytes).unwrap();
                packed = encoder.finish().unwrap();
            }
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            let mut common = vec![20, 0, 0, 0];
            common.extend(method.to_le_bytes());
            common.extend([0; 4]);
            common.extend(crc.sum().to_le_bytes());
            common.extend((packed.len() as u32).to_le_bytes());
            common.extend((bytes.len() as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            directory.extend(b"PK\x01\x02\x14\x03");
            directory.extend(&common);
            directory.extend([0; 8]);
            directory.extend((mode << 16).to_le_bytes());
            directory.extend((file.len() as u32).to_le_bytes());
            directory.extend(name.as_bytes());
            file.extend(b"PK\x03\x04");
            file.extend(&common);
            file.extend([0; 2]);
            file.extend(name.as_bytes());
            file.extend(&packed);
        }
        let (start, count) = (file.len() as u32, members.len() as u16);
        file.extend(&directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend(count.to_le_bytes());
        file.extend(count.to_le_bytes());
        file.extend((directory.len() as u32).to_le_bytes());
        file.extend(start.to_le_bytes());
        file.extend([0; 2]);
        file
    }

    /// Paths and bytes of what is unpacked.
    fn unpacked(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.zip");
        fs::write(&path, bytes).unwrap();
        let bundle =
            open(&[path], &mut Diagnostics::default()).map_err(|error| error.to_string())?;
        let read = |path: &Path| Content::open(path).unwrap().bytes(1 << 20).unwrap();
        Ok(bundle
            .files
            .iter()
            .map(|file| (file.path.clone(), read(&file.location)))
            .collect())
    }

    #[test]
    fn stored_and_deflated_members_are_unpacked() {
        let long = b"0123456789".repeat(1000);
        let members: [Member<'_>; 3] = [
            ("a/", 0, 0o040_755, b""),
            ("a/b.csv", 8, 0o100_644, &long),
            ("c.csv", 0, 0, b"x"),
        ];
        let files = unpacked(&zip(&members)).unwrap();
        assert_eq!(
            files,
            [
                ("a/b.csv".to_owned(), long),
                ("c.csv".to_owned(), b"x".to_vec())
            ]
        );
    }

    #[test]
    fn hostile_members_refuse_the_archive() {
        let error = |members: &[Member<'_>]| unpacked(&zip(members)).unwrap_err();
        assert!(error(&[("../evil", 0, 0, b"x")]).contains("../evil"));
        assert!(error(&[("/etc/x", 0, 0, b"x")]).contains("/etc/x"));
        assert!(error(&[("link", 0, 0o120_777, b"/etc")]).contains("symbolic link"));
        assert!(error(&[("a", 12, 0, b"x")]).contains("deflate"));
        assert!(error(&[("a", 0, 0, b"x"), ("a", 0, 0, b"y")]).contains("two files"));
        // 80 MiB of zeros deflate to 80 kB: more than a hundredfold and 32 MiB.
        let bomb = error(&[("a", 8, 0, &vec![0; 80 << 20])]);
        assert!(bomb.contains("inflates"), "{bomb}");
    }

    #[test]
    fn damaged_archives_are_refused() {
        let whole = zip(&[
            ("a.csv", 8, 0, b"some bytes that are long enough"),
            ("b.csv", 0, 0, b"xyz"),
        ]);
        for cut in [5, 30, 60, whole.len() - 30, whole.len() - 1] {
            assert!(unpacked(&whole[..cut]).is_err(), "{cut}");
        }
        let mut wrong = whole.clone();
        let offset = wrong.windows(3).position(|bytes| bytes == b"xyz").unwrap();
        wrong[offset] = b'q';
        assert!(unpacked(&wrong).unwrap_err().contains("checksum"));
    }

    #[test]
    fn xz_and_bzip2_are_read_like_gzip_and_cut_ones_fail() {
        // lzma.compress(b"t_ns,power_mw\n10,100\n20,200\n") of Python.
        let xz = "fd377a585a000004e6d6b4460200210116000000742fe5a301001b745f6e732c706f7765725f6d770a31302c3130\
                  300a32302c3230300a0051267142d8d51b8d0001341c931aad8f1fb6f37d010000000004595a";
        let byte = |offset: usize| u8::from_str_radix(&xz[offset..offset + 2], 16).unwrap();
        let xz: Vec<u8> = (0..xz.len()).step_by(2).map(byte).collect();
        let text = b"t_ns,power_mw\n10,100\n20,200\n";
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        encoder.write_all(text).unwrap();
        for packed in [xz, encoder.finish().unwrap()] {
            let read = |bytes: &[u8]| {
                let file = tempfile::NamedTempFile::new().unwrap();
                fs::write(file.path(), bytes).unwrap();
                Content::open(file.path()).unwrap().bytes(1 << 20)
            };
            assert_eq!(read(&packed).unwrap(), text);
            assert!(read(&packed[..packed.len() - 12]).is_err());
        }
    }
}
