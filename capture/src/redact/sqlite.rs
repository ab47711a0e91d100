//! Rows of an SQLite file, read and overwritten in place.
//!
//! The file format is small where only rows of ordinary tables are wanted: <https://www.sqlite.org/fileformat2.html>.
//! An engine would be nine more crates and a megabyte of C; what is needed of one is to find the text of some columns
//! and to write as many other bytes over it, which changes no structure.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Deeper trees are not of real files: SQLite's own are at most 20 deep.
const MAX_DEPTH: u32 = 40;

/// Longest row that is read: nsys keeps no longer text.
const MAX_PAYLOAD: u64 = 256 << 20;

/// An SQLite file.
pub(crate) struct Database {
    file: File,
    page_size: usize,
    usable: usize,
    pages: u32,
}

/// An ordinary table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    root: u32,
    /// Names of the columns.
    pub(crate) columns: Vec<String>,
}

/// A row: its values and where they lie.
pub(crate) struct Row {
    payload: Vec<u8>,
    /// Pieces of the payload in the file: where each begins, and how long it is.
    pieces: Vec<(u64, usize)>,
    /// Type, offset and length of each value.
    values: Vec<(u64, usize, usize)>,
    pub(crate) rowid: i64,
}

impl Database {
    /// Opens a file that no one else writes.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut header = [0; 100];
        file.read_exact_at(&mut header, 0)?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.saturating_sub(usize::from(header[20]));
        let is_utf8 = header[56..60] == [0, 0, 0, 1];
        let plain = header.starts_with(b"SQLite format 3\0") && is_utf8;
        if !plain || !page_size.is_power_of_two() || usable < 480 {
            return Err(invalid("it is no SQLite database in UTF-8"));
        }
        let pages = file.metadata()?.len() / page_size as u64;
        let pages = u32::try_from(pages).map_err(|_| invalid("it has too many pages"))?;
        Ok(Self { file, page_size, usable, pages })
    }

    /// The ordinary tables.
    pub(crate) fn tables(&self) -> io::Result<Vec<Table>> {
        let schema = Table { name: String::new(), root: 1, columns: Vec::new() };
        let mut tables = Vec::new();
        self.rows(&schema, |row| {
            let root = row.integer(3).and_then(|root| u32::try_from(root).ok());
            if let (Some("table"), Some(name), Some(root), Some(sql)) =
                (row.str(0), row.str(1), root, row.str(4))
                && root > 0
                && !sql.to_ascii_uppercase().contains("WITHOUT ROWID")
            {
                tables.push(Table { name: name.to_owned(), root, columns: columns(sql) });
            }
            Ok(())
        })?;
        Ok(tables)
    }

    /// Calls for each row, in the order of row ids.
    pub(crate) fn rows(
        &self,
        table: &Table,
        mut each: impl FnMut(&Row) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut budget = self.pages;
        self.walk(table.root, MAX_DEPTH, &mut budget, &mut each)
    }

    /// Writes this byte over a value.
    pub(crate) fn overwrite(&self, row: &Row, column: usize, byte: u8) -> io::Result<()> {
        let Some(&(_, start, length)) = row.values.get(column) else { return Ok(()) };
        let (end, mut at) = (start + length, 0);
        for &(offset, piece) in &row.pieces {
            let (from, to) = (start.max(at), end.min(at + piece));
            if from < to {
                let bytes = vec![byte; to - from];
                self.file.write_all_at(&bytes, offset + (from - at) as u64)?;
            }
            at += piece;
        }
        Ok(())
    }

    /// Clears the unused parts of a table's pages: deleted rows stay there, and a page that was split still holds the
    /// rows that moved elsewhere.
    pub(crate) fn clear_unused(&self, table: &Table) -> io::Result<()> {
        let mut budget = self.pages;
        let mut numbers = Vec::new();
        self.numbers(table.root, MAX_DEPTH, &mut budget, &mut numbers)?;
        for number in numbers {
            let page = self.page(number)?;
            for unused in unused(&page, header_start(number))? {
                if page[unused.clone()].iter().any(|byte| *byte != 0) {
                    let at = self.offset(number) + unused.start as u64;
                    self.file.write_all_at(&vec![0; unused.len()], at)?;
                }
            }
        }
        Ok(())
    }

    fn walk(
        &self,
        number: u32,
        depth: u32,
        budget: &mut u32,
        each: &mut impl FnMut(&Row) -> io::Result<()>,
    ) -> io::Result<()> {
        let page = self.page_within(number, depth, budget)?;
        let start = header_start(number);
        let cells = usize::from(be16(&page, start + 3)?);
        match page[start] {
            13 => {
                for cell in 0..cells {
                    let at = usize::from(be16(&page, start + 8 + 2 * cell)?);
                    each(&self.row(&page, number, at)?)?;
                }
                Ok(())
            }
            5 => {
                for child in children(&page, start, cells)? {
                    self.walk(child, depth - 1, budget, each)?;
                }
                Ok(())
            }
            _ => Err(invalid("a page is not of a table")),
        }
    }

    /// The pages of a tree, without those that rows flow over to.
    fn numbers(
        &self,
        number: u32,
        depth: u32,
        budget: &mut u32,
        numbers: &mut Vec<u32>,
    ) -> io::Result<()> {
        let page = self.page_within(number, depth, budget)?;
        let start = header_start(number);
        let cells = usize::from(be16(&page, start + 3)?);
        numbers.push(number);
        if page[start] == 5 {
            for child in children(&page, start, cells)? {
                self.numbers(child, depth - 1, budget, numbers)?;
            }
        }
        Ok(())
    }

    /// A page of a tree, which has no more pages than the file.
    fn page_within(&self, number: u32, depth: u32, budget: &mut u32) -> io::Result<Vec<u8>> {
        *budget = budget.checked_sub(1).ok_or_else(|| invalid("a tree has a cycle"))?;
        if depth == 0 {
            return Err(invalid("a tree is too deep"));
        }
        self.page(number)
    }

    fn page(&self, number: u32) -> io::Result<Vec<u8>> {
        if number == 0 || number > self.pages {
            return Err(invalid("a page is not there"));
        }
        let mut page = vec![0; self.page_size];
        self.file.read_exact_at(&mut page, self.offset(number))?;
        Ok(page)
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number - 1) * self.page_size as u64
    }

    fn row(&self, page: &[u8], number: u32, at: usize) -> io::Result<Row> {
        let (length, at) = varint(page, at)?;
        let (rowid, at) = varint(page, at)?;
        if length > MAX_PAYLOAD {
            return Err(invalid("a row is too long"));
        }
        let length = length as usize;
        let local = self.local(length);
        let piece = page.get(at..at + local).ok_or_else(|| invalid("a row leaves its page"))?;
        let mut row = Row {
            payload: piece.to_vec(),
            pieces: vec![(self.offset(number) + at as u64, local)],
            values: Vec::new(),
            rowid: rowid as i64,
        };
        if local < length {
            let next = be32(page, at + local)?;
            self.overflow(&mut row, next, length)?;
        }
        row.values = values(&row.payload)?;
        Ok(row)
    }

    /// Bytes of a payload that lie on its leaf.
    fn local(&self, length: usize) -> usize {
        let most = self.usable - 35;
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (self.usable - 4);
        if fitting <= most { fitting } else { least }
    }

    fn overflow(&self, row: &mut Row, mut next: u32, length: usize) -> io::Result<()> {
        while row.payload.len() < length {
            let page = self.page(next)?;
            let size = (length - row.payload.len()).min(self.usable - 4);
            row.payload.extend_from_slice(&page[4..4 + size]);
            row.pieces.push((self.offset(next) + 4, size));
            next = be32(&page, 0)?;
        }
        Ok(())
    }
}

impl Table {
    /// Where a column is.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }
}

impl Row {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Text or blob.
    pub(crate) fn bytes(&self, column: usize) -> Option<&[u8]> {
        let &(kind, start, length) = self.values.get(column)?;
        (kind >= 12).then(|| &self.payload[start..start + length])
    }

    /// Text.
    pub(crate) fn str(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// A whole number.
    pub(crate) fn integer(&self, column: usize) -> Option<i64> {
        let &(kind, start, length) = self.values.get(column)?;
        match kind {
            8 => Some(0),
            9 => Some(1),
            1..=6 => {
                let bytes = &self.payload[start..start + length];
                let sign = if bytes[0] >= 0x80 { -1 } else { 0 };
                Some(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
            }
            _ => None,
        }
    }
}

/// Type, offset and length of each value of a record.
fn values(payload: &[u8]) -> io::Result<Vec<(u64, usize, usize)>> {
    let (header, mut at) = varint(payload, 0)?;
    let header = usize::try_from(header).ok().filter(|end| *end <= payload.len());
    let header = header.ok_or_else(|| invalid("a record is cut"))?;
    let (mut values, mut start) = (Vec::new(), header);
    while at < header {
        let (kind, next) = varint(payload, at)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return Err(invalid("a value has no type")),
            _ => usize::try_from((kind - 12) / 2).unwrap_or(usize::MAX),
        };
        let end = start.checked_add(length).filter(|end| *end <= payload.len());
        let end = end.ok_or_else(|| invalid("a value is cut"))?;
        values.push((kind, start, length));
        (at, start) = (next, end);
    }
    Ok(values)
}

/// What no cell uses: the gap between the cells' addresses and the cells, and the blocks that were freed among them
/// without their heads, which link them.
fn unused(page: &[u8], start: usize) -> io::Result<Vec<Range<usize>>> {
    let cells = usize::from(be16(page, start + 3)?);
    let header = if page[start] == 5 { 12 } else { 8 };
    let from = start + header + 2 * cells;
    let to = match be16(page, start + 5)? {
        0 => 65_536,
        content => usize::from(content),
    };
    let mut ranges: Vec<Range<usize>> = std::iter::once(from..to).collect();
    let mut block = usize::from(be16(page, start + 1)?);
    while block != 0 {
        let (next, size) = (usize::from(be16(page, block)?), usize::from(be16(page, block + 2)?));
        ranges.push(block + 4..block + size);
        // They lie in order: anything else is a cycle.
        block = if next > block { next } else { 0 };
    }
    ranges.retain(|range| range.start < range.end && range.end <= page.len());
    Ok(ranges)
}

fn children(page: &[u8], start: usize, cells: usize) -> io::Result<Vec<u32>> {
    let mut children = Vec::with_capacity(cells + 1);
    for cell in 0..cells {
        let at = usize::from(be16(page, start + 12 + 2 * cell)?);
        children.push(be32(page, at)?);
    }
    children.push(be32(page, start + 8)?);
    Ok(children)
}

/// The first page begins with the header of the file.
const fn header_start(number: u32) -> usize {
    if number == 1 { 100 } else { 0 }
}

/// Names of the columns of `CREATE TABLE name (column type, …)`. nsys explains its columns in comments.
fn columns(sql: &str) -> Vec<String> {
    let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
    let sql = lines.collect::<Vec<_>>().join(" ");
    let inner = sql.split_once('(').map_or("", |(_, inner)| inner);
    let (mut depth, mut quoted, mut part, mut parts) = (0, false, String::new(), Vec::new());
    for c in inner.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {}
        }
        part.push(if c == ',' && depth == 0 && !quoted { ' ' } else { c });
    }
    parts.push(part);
    let name = |part: &String| {
        let word = part.split_whitespace().next()?.trim_matches(['"', '`', '[', ']', ')']);
        let is_constraint = ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"]
            .iter()
            .any(|start| word.eq_ignore_ascii_case(start));
        (!word.is_empty() && !is_constraint).then(|| word.to_owned())
    };
    parts.iter().filter_map(name).collect()
}

fn varint(bytes: &[u8], at: usize) -> io::Result<(u64, usize)> {
    let mut value = 0;
    for index in 0..9 {
        let byte = *bytes.get(at + index).ok_or_else(|| invalid("a number is cut"))?;
        if index == 8 {
            return Ok((value << 8 | u64::from(byte), at + 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    Err(invalid("a number is too long"))
}

fn be16(bytes: &[u8], at: usize) -> io::Result<u16> {
    let pair = bytes.get(at..at + 2).ok_or_else(|| invalid("a page is cut"))?;
    Ok(u16::from_be_bytes([pair[0], pair[1]]))
}

fn be32(bytes: &[u8], at: usize) -> io::Result<u32> {
    let four = bytes.get(at..at + 4).ok_or_else(|| invalid("a page is cut"))?;
    Ok(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn database(sql: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        Connection::open(file.path()).unwrap().execute_batch(sql).unwrap();
        file
    }

    #[test]
    fn rows_are_those_that_sqlite_wrote() {
        let file = database(
            "CREATE TABLE a ( -- it's (first,
                id INTEGER PRIMARY KEY, \"text\" TEXT, -- a, b
                n INTEGER DEFAULT (1+1), UNIQUE (n));
             WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 5000)
             INSERT INTO a SELECT i, printf('row %d %s', i, hex(zeroblob(i))), i*i*(CASE WHEN i%2 THEN -1 ELSE 1 END) FROM c;
             CREATE VIEW v AS SELECT * FROM a; CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID;",
        );
        let db = Database::open(file.path()).unwrap();
        let tables = db.tables().unwrap();
        assert_eq!(tables.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(tables[0].columns, ["id", "text", "n"]);
        let mut expected = 1;
        db.rows(&tables[0], |row| {
            let zeros = "0".repeat(2 * expected as usize);
            assert_eq!(row.rowid, expected);
            assert_eq!(row.str(1), Some(format!("row {expected} {zeros}").as_str()));
            let sign = if expected % 2 == 1 { -1 } else { 1 };
            assert_eq!(row.integer(2), Some(sign * expected * expected));
            expected += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(expected, 5001);
    }

    #[test]
    fn a_value_is_overwritten_on_all_its_pages_and_the_file_stays_sound() {
        let file = database(
            "CREATE TABLE a (name TEXT, value TEXT);
             INSERT INTO a VALUES ('keep', 'kept'), ('gone', replace(hex(zeroblob(10000)), '0', 's')), ('x', 'y');",
        );
        let db = Database::open(file.path()).unwrap();
        let table = &db.tables().unwrap()[0];
        db.rows(table, |row| {
            if row.str(0) == Some("gone") { db.overwrite(row, 1, b'*') } else { Ok(()) }
        })
        .unwrap();
        db.clear_unused(table).unwrap();
        let sqlite = Connection::open(file.path()).unwrap();
        let sound: String = sqlite.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(sound, "ok");
        let value: String =
            sqlite.query_row("SELECT value FROM a WHERE name = 'gone'", [], |r| r.get(0)).unwrap();
        assert_eq!(value, "*".repeat(20_000));
        let rest: String = sqlite
            .query_row("SELECT group_concat(value) FROM a WHERE name <> 'gone'", [], |r| r.get(0))
            .unwrap();
        assert_eq!(rest, "kept,y");
    }

    #[test]
    fn broken_files_are_errors() {
        let file = database("CREATE TABLE a (x TEXT); INSERT INTO a VALUES ('abc')");
        let bytes = std::fs::read(file.path()).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut broken = bytes.clone();
            broken[at] ^= 0xff;
            std::fs::write(file.path(), &broken).unwrap();
            let Ok(db) = Database::open(file.path()) else { continue };
            for table in db.tables().unwrap_or_default() {
                // An error or rows: no panic, no endless walk.
                let _ = db.rows(&table, |_| Ok(()));
            }
        }
    }
}
