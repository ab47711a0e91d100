//! What a report of Nsight Compute (`.ncu-rep`) tells of host and user, covered in place.
//!
//! A report holds the host's name twice, the machine's addresses, the address of the profiled process in the header
//! of each block, and home folders in its command line, the path of its program and the paths of its sources. Each is
//! overwritten by as many asterisks, so that every length in the file stays true. Field numbers are those of the
//! definitions that come with Nsight Compute (`extras/FileFormat`).
//!
//! ```text
//! "NVR\0"  u32 size  FileHeader  { u32 size  BlockHeader  payload }*
//! payload: { u32 size  message }*, sources first, then results
//! ```

use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// First bytes of a report.
pub const MAGIC: &[u8] = b"NVR\0";

/// Fields of a block's header that are covered: the names of host and target, their addresses, and the address of the
/// profiled process.
const NAMES: [&[u64]; 5] = [
    &[3, 3, 5],
    &[3, 4, 5],
    &[3, 3, 7, 1],
    &[3, 4, 7, 1],
    &[6, 2],
];

/// Fields of a block's header with paths: the command line and the program.
const PATHS: [&[u64]; 2] = [&[3, 11], &[6, 3]];

/// The path of a source's file.
const SOURCE_PATH: &[u64] = &[8, 1, 1];

/// Number of sources, and bytes of the payload.
const SOURCES: &[u64] = &[1];
const PAYLOAD: &[u64] = &[5];

/// Folders whose folders are named after users.
const HOMES: [&[u8]; 4] = [b"/home/", b"/Users/", b"/users/", b"\\Users\\"];

/// Home folders, each with the length of the folder that it is in.
type Homes = BTreeSet<(Vec<u8>, usize)>;

/// Names shorter than this may be words of the command line by chance.
const SHORTEST: usize = 4;

/// Largest message that is read; results of the full set take about 1 MiB, machine code somewhat more.
const MAX_MESSAGE: u64 = 256 << 20;

/// Bytes that are looked at at once for home folders; longer than any of them.
const CHUNK: usize = 4 << 20;

/// Longest home folder that is looked for.
const MAX_HOME: usize = 256;

/// Covers names and addresses of the host and the users' names in paths. Gives the number of places that were covered
/// and were not before. A report that is cut off is covered as far as it goes.
///
/// # Errors
/// Reading or writing fails, or the file is no report of this format (`InvalidData`): then it may still tell all.
pub fn cover<F: Read + Write + Seek>(report: &mut F) -> io::Result<u64> {
    let mut homes = BTreeSet::new();
    let names = match cover_names(report, &mut homes) {
        Ok(covered) => covered,
        // What was covered until the file ended is written.
        Err(Stop::Cut(covered)) => covered,
        Err(Stop::Failed(error)) => return Err(error),
    };
    Ok(names + cover_homes(report, &homes)?)
}

/// Why the walk over the blocks ended before the file did.
enum Stop {
    /// The file ends within a block; so many places were covered.
    Cut(u64),
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Walks over the blocks, covers names in their headers and gathers home folders.
fn cover_names<F: Read + Write + Seek>(report: &mut F, homes: &mut Homes) -> Result<u64, Stop> {
    let end = report.seek(SeekFrom::End(0))?;
    report.rewind()?;
    if message(report, 4)?.as_deref() != Some(MAGIC) {
        return Err(malformed("it does not begin like one").into());
    }
    let mut covered = 0;
    let Some(size) = size(report)? else {
        return Err(Stop::Cut(0));
    };
    report.seek(SeekFrom::Current(size as i64))?;
    while let Some(size) = self::size(report)? {
        let start = report.stream_position()?;
        let Some(mut header) = message(report, size)? else {
            return Err(Stop::Cut(covered));
        };
        let cut = cover_header(&mut header, homes);
        if cut > 0 {
            report.seek(SeekFrom::Start(start))?;
            report.write_all(&header)?;
            covered += cut;
        }
        let payload = report.stream_position()?;
        let next = number(&header, PAYLOAD).and_then(|length| payload.checked_add(length));
        let next = next.ok_or_else(|| malformed("the size of a block makes no sense"))?;
        for _ in 0..number(&header, SOURCES).unwrap_or(0) {
            let Some(size) = self::size(report)? else {
                return Err(Stop::Cut(covered));
            };
            let Some(source) = message(report, size)? else {
                return Err(Stop::Cut(covered));
            };
            find(&source, 0..source.len(), SOURCE_PATH, &mut |path| {
                gather(&source[path], homes)
            });
        }
        if next > end {
            return Err(Stop::Cut(covered));
        }
        report.seek(SeekFrom::Start(next))?;
    }
    Ok(covered)
}

/// Covers the names in a header, and where they stand in its command line.
fn cover_header(header: &mut [u8], homes: &mut Homes) -> u64 {
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for field in NAMES {
        find(header, 0..header.len(), field, &mut |name| names.push(name));
    }
    for field in PATHS {
        find(header, 0..header.len(), field, &mut |path| paths.push(path));
    }
    let known: Vec<Vec<u8>> = names
        .iter()
        .map(|name| header[name.clone()].to_vec())
        .collect();
    let mut covered = names.into_iter().map(|name| hide(&mut header[name])).sum();
    for path in paths {
        gather(&header[path.clone()], homes);
        for name in known.iter().filter(|name| name.len() >= SHORTEST) {
            covered += hide_all(&mut header[path.clone()], name, 0);
        }
    }
    covered
}

/// Covers the users' names of home folders wherever these occur.
fn cover_homes<F: Read + Write + Seek>(report: &mut F, homes: &Homes) -> io::Result<u64> {
    let (mut start, mut covered) = (0, 0);
    while !homes.is_empty() {
        report.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        (&mut *report).take(CHUNK as u64).read_to_end(&mut chunk)?;
        let mut here = 0;
        // The longest first: a name may begin another.
        for (home, kept) in homes.iter().rev() {
            here += hide_all(&mut chunk, home, *kept);
        }
        if here > 0 {
            report.seek(SeekFrom::Start(start))?;
            report.write_all(&chunk)?;
            covered += here;
        }
        if chunk.len() < CHUNK {
            break;
        }
        // What is cut by the end of this chunk is whole in the next.
        start += (CHUNK - MAX_HOME) as u64;
    }
    Ok(covered)
}

/// Adds the home folders in a text: `/home/` and the name after it.
fn gather(text: &[u8], homes: &mut Homes) {
    for rest in (0..text.len()).map(|at| &text[at..]) {
        let Some(parent) = HOMES.iter().find(|parent| rest.starts_with(parent)) else {
            continue;
        };
        let is_part =
            |byte: &&u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte) || **byte > 0x7f;
        let name = rest[parent.len()..].iter().take_while(is_part).count();
        let home = &rest[..parent.len() + name];
        if name > 0 && home.len() <= MAX_HOME {
            homes.insert((home.to_vec(), parent.len()));
        }
    }
}

/// Covers all of `text`; 1 if something was not covered yet.
fn hide(text: &mut [u8]) -> u64 {
    let covers = text.iter().any(|byte| *byte != b'*');
    text.fill(b'*');
    u64::from(covers)
}

/// Covers each occurrence of `needle`, except for its first `kept` bytes. Gives their number.
fn hide_all(text: &mut [u8], needle: &[u8], kept: usize) -> u64 {
    let Some(first) = needle.first() else {
        return 0;
    };
    let (mut at, mut covered) = (0, 0);
    while let Some(next) = text[at..].iter().position(|byte| byte == first) {
        at += next;
        if text[at..].starts_with(needle) {
            covered += hide(&mut text[at + kept..at + needle.len()]);
        }
        at += 1;
    }
    covered
}

/// A size; none at the end of the file.
fn size(report: &mut impl Read) -> io::Result<Option<u64>> {
    let bytes = message(report, 4)?;
    let bytes = bytes.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    Ok(bytes.map(|bytes| u64::from(u32::from_le_bytes(bytes))))
}

/// The next bytes; none if the file ends before.
fn message(report: &mut impl Read, size: u64) -> io::Result<Option<Vec<u8>>> {
    if size > MAX_MESSAGE {
        return Err(malformed("the size of a message makes no sense"));
    }
    let mut bytes = Vec::new();
    report.take(size).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == size).then_some(bytes))
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a report of a known format: {why}"),
    )
}

/// Where the fields at a path of field numbers lie, from the outermost message on.
fn find(bytes: &[u8], within: Range<usize>, path: &[u64], found: &mut dyn FnMut(Range<usize>)) {
    let Some((number, rest)) = path.split_first() else {
        return found(within);
    };
    let mut at = within.start;
    while at < within.end
        && let Some(field) = field(&bytes[..within.end], at)
    {
        if field.number == *number && !field.content.is_empty() {
            find(bytes, field.content.clone(), rest, found);
        }
        at = field.end;
    }
}

/// The integer in a field of the outermost message.
fn number(message: &[u8], path: &[u64]) -> Option<u64> {
    let mut at = 0;
    while let Some(field) = field(message, at) {
        if [field.number] == path {
            return field.integer;
        }
        at = field.end;
    }
    None
}

/// A field of a message in the wire format of protocol buffers.
struct Field {
    number: u64,
    integer: Option<u64>,
    /// Where its text or message lies.
    content: Range<usize>,
    end: usize,
}

/// The field that begins at `at`; none at the end and where there is no field.
fn field(message: &[u8], at: usize) -> Option<Field> {
    let (tag, at) = varint(message, at)?;
    let plain = |integer, end| (integer, at..at, end);
    let (integer, content, end) = match tag & 7 {
        0 => varint(message, at).map(|(integer, end)| plain(Some(integer), end))?,
        1 => plain(None, at + 8),
        2 => {
            let (length, start) = varint(message, at)?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            (None, start..end, end)
        }
        5 => plain(None, at + 4),
        _ => return None,
    };
    (end <= message.len()).then_some(Field {
        number: tag >> 3,
        integer,
        content,
        end,
    })
}

/// Seven bits a byte, the low ones first; ten bytes at most.
fn varint(message: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in message.get(at..)?.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f)
            .checked_shl(7 * index as u32)
            .unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some((value, at + index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A field of a text or message that is shorter than 128 bytes.
    fn block(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("short");
        assert!(length < 128);
        [&[number << 3 | 2, length], content].concat()
    }

    fn sized(message: &[u8]) -> Vec<u8> {
        [
            &u32::try_from(message.len()).expect("short").to_le_bytes(),
            message,
        ]
        .concat()
    }

    /// Magic, file header, and two blocks: the session with its command line, then a source and a result.
    fn report(command: &str) -> Vec<u8> {
        let system = |name: &str, address: &str| {
            [
                block(1, b"Linux"),
                block(5, name.as_bytes()),
                block(7, &block(1, address.as_bytes())),
            ]
            .concat()
        };
        let session = [
            block(3, &system("box17", "10.1.2.3")),
            block(4, &system("box17", "fe80::1%eth0")),
            block(11, command.as_bytes()),
        ];
        let process = block(
            6,
            &[
                &[8, 77],
                &block(2, b"127.0.0.1")[..],
                &block(3, b"/home/alice/bin/run"),
            ]
            .concat(),
        );
        let source = block(8, &block(1, &block(1, b"/home/bob/k.cu")));
        let result = block(7, b"void k(int) of /home/alice/ and /home/bob/");
        let payload = [sized(&source), sized(&result)].concat();
        let length = [5 << 3, u8::try_from(payload.len()).expect("short")];
        [
            MAGIC.to_vec(),
            sized(&[8, 7]),
            sized(&[&block(3, &session.concat())[..], &process, &[5 << 3, 0]].concat()),
            sized(&[&[8, 1, 16, 1], &length[..], &process].concat()),
            payload,
        ]
        .concat()
    }

    fn covered(report: &[u8]) -> (String, u64) {
        let mut file = Cursor::new(report.to_vec());
        let count = cover(&mut file).expect("a report");
        assert_eq!(file.get_ref().len(), report.len());
        (String::from_utf8_lossy(file.get_ref()).into_owned(), count)
    }

    #[test]
    fn names_addresses_and_users_are_gone_and_nothing_else() {
        let original = report("ncu run --master=10.1.2.3 --out /home/carol C:\\Users\\dave\\x");
        let (text, count) = covered(&original);
        let expected = String::from_utf8_lossy(&original)
            .replace("box17", "*****")
            .replace("10.1.2.3", "********")
            .replace("fe80::1%eth0", "************")
            .replace("127.0.0.1", "*********")
            .replace("/home/alice", "/home/*****")
            .replace("/home/bob", "/home/***")
            .replace("/home/carol", "/home/*****")
            .replace("Users\\dave", "Users\\****");
        assert_eq!(text, expected);
        // Two names, two addresses and one in the command, two of the process; alice three times, bob twice, carol, dave.
        assert_eq!(count, 2 + 2 + 1 + 2 + 3 + 2 + 1 + 1);
    }

    #[test]
    fn what_is_covered_is_left() {
        let (once, _) = covered(&report("ncu run"));
        let (twice, count) = covered(once.as_bytes());
        assert_eq!((twice, count), (once, 0));
    }

    #[test]
    fn a_report_that_is_cut_off_is_covered_as_far_as_it_goes() {
        let whole = report("ncu run");
        for length in (4..whole.len()).rev() {
            let (text, _) = covered(&whole[..length]);
            // The first header lies behind magic, file header (4 + 2) and its own size.
            let first = 14 + u32::from_le_bytes(whole[10..14].try_into().expect("four")) as usize;
            let there = String::from_utf8_lossy(&whole[..length]).contains("box17");
            assert_eq!(text.contains("box17"), there && length < first, "{length}");
        }
        assert!(cover(&mut Cursor::new(b"SQLite".to_vec())).is_err());
        assert!(cover(&mut Cursor::new(b"NV".to_vec())).is_err());
    }

    #[test]
    fn a_home_across_the_edge_of_a_chunk_is_covered() {
        let mut long = report("ncu run");
        // Bytes that follow the blocks end the walk as a message that is too large; here they belong to the last.
        let before = long.len();
        long.resize(CHUNK - 6, b'.');
        long.extend(b"/home/alice/");
        let mut file = Cursor::new(long);
        let homes = BTreeSet::from([(b"/home/alice".to_vec(), 6)]);
        assert_eq!(cover_homes(&mut file, &homes).expect("memory"), 4);
        assert!(file.get_ref().ends_with(b"/home/*****/") && before < CHUNK);
    }
}
