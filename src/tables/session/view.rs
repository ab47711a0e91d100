//! Tables as files and queries show them: with the columns that people would otherwise compute or join each time, and
//! with plain cells only.
//!
//! Each begins with `id`, the row number that columns of other tables refer to: `launches.kernel` is `kernels.id`.
//! `name` is the kernel's where a table refers to kernels, `duration` is end − start, and dimensions are three columns,
//! as in nsys: so the same SQL runs over the session and over its Parquet files.

use std::ops::Range;

use super::table::{Cell, Kind, Table};
use super::tables::Dim3;
use super::{Session, StrId};

/// A column of a view.
#[derive(Clone, Debug)]
pub struct ViewColumn {
    /// Column name.
    pub name: String,
    /// What it holds.
    pub doc: String,
    /// What its cells are; never [`Kind::Dim3`].
    pub kind: Kind,
    source: Source,
}

/// Where a cell comes from: columns of the table by number.
#[derive(Clone, Copy, Debug)]
enum Source {
    RowNumber,
    Own(usize),
    Axis(usize, Axis),
    KernelName(usize),
    Duration(usize, usize),
}

/// One of three dimensions.
type Axis = fn(Dim3) -> u32;

/// The axes of dimensions.
const AXES: [(&str, Axis); 3] = [
    ("x", |size| size.x),
    ("y", |size| size.y),
    ("z", |size| size.z),
];

/// The cells of a column: a value for each row, and whether the row has one; `None` where all have.
pub type Values<T> = (Vec<T>, Option<Vec<bool>>);

/// Words of a description that are a unit, with its symbol; what contains another comes first.
const UNITS: [(&str, &str); 9] = [
    ("bytes per second", "B/s"),
    ("bytes", "B"),
    ("nanoseconds", "ns"),
    ("milliwatts", "mW"),
    ("megahertz", "MHz"),
    ("hertz", "Hz"),
    ("degrees Celsius", "°C"),
    ("percent", "%"),
    ("per second", "1/s"),
];

/// The columns of a table's view.
pub fn columns(table: &dyn Table) -> Vec<ViewColumn> {
    let own = table.columns();
    let at = |name: &str| own.iter().position(|column| column.name == name);
    let column = |name: &str, doc: &str, kind, source| ViewColumn {
        name: name.to_owned(),
        doc: doc.to_owned(),
        kind,
        source,
    };
    let mut all = vec![column(
        "id",
        "Number of the row, from 0; columns of other tables refer to it.",
        Kind::Int,
        Source::RowNumber,
    )];
    for (index, one) in own.iter().enumerate() {
        if one.kind != Kind::Dim3 {
            all.push(column(one.name, one.doc, one.kind, Source::Own(index)));
            continue;
        }
        all.extend(AXES.iter().map(|(axis, part)| {
            let doc = format!("{} along {axis}.", one.doc.trim_end_matches('.'));
            column(
                &format!("{}_{axis}", one.name),
                &doc,
                Kind::Int,
                Source::Axis(index, *part),
            )
        }));
    }
    if let (Some(kernel), None) = (at("kernel"), at("name")) {
        all.push(column(
            "name",
            "Name of the kernel.",
            Kind::Text,
            Source::KernelName(kernel),
        ));
    }
    if let (Some(start), Some(end)) = (at("start"), at("end")) {
        let doc = "End − start, nanoseconds.";
        all.push(column(
            "duration",
            doc,
            Kind::Int,
            Source::Duration(start, end),
        ));
    }
    all
}

impl ViewColumn {
    /// The symbol of its unit, which its description names; empty if there is none.
    pub fn unit(&self) -> &'static str {
        let is_number = matches!(self.kind, Kind::Int | Kind::Float);
        let doc = self.doc.to_lowercase();
        let named = |(words, _): &&(&str, &str)| doc.contains(&words.to_lowercase());
        UNITS
            .iter()
            .filter(|_| is_number)
            .find(named)
            .map_or("", |(_, symbol)| symbol)
    }

    /// The cell of a row of the table that the columns were made of.
    #[inline]
    pub fn cell<'a>(&self, session: &'a Session, table: &'a dyn Table, row: usize) -> Cell<'a> {
        match self.source {
            Source::RowNumber => Cell::Int(row as i64),
            Source::Own(column) => table.cell(row, column),
            Source::Axis(column, part) => match table.cell(row, column) {
                Cell::Dim3(size) => Cell::Int(i64::from(part(size))),
                _ => Cell::Missing,
            },
            Source::KernelName(column) => {
                let Cell::Int(kernel) = table.cell(row, column) else {
                    return Cell::Missing;
                };
                let name = usize::try_from(kernel)
                    .ok()
                    .and_then(|at| session.kernels.name.get(at));
                name.map_or(Cell::Missing, |name| Cell::Interned(*name))
            }
            Source::Duration(start, end) => match (table.cell(row, start), table.cell(row, end)) {
                (Cell::Int(start), Cell::Int(end)) => Cell::Int(end.saturating_sub(start)),
                _ => Cell::Missing,
            },
        }
    }
}

// Columns of some rows, not generic: they are read here, where it is fast.
impl ViewColumn {
    /// The integers of some rows of a column of integers or row numbers.
    pub fn ints(&self, session: &Session, table: &dyn Table, rows: Range<usize>) -> Values<i64> {
        self.values(session, table, rows, |cell| {
            if let Cell::Int(value) = cell {
                Some(value)
            } else {
                None
            }
        })
    }

    /// The numbers of some rows of a column of floating-point numbers.
    pub fn floats(&self, session: &Session, table: &dyn Table, rows: Range<usize>) -> Values<f64> {
        self.values(session, table, rows, |cell| {
            if let Cell::Float(value) = cell {
                Some(value)
            } else {
                None
            }
        })
    }

    /// The ids of some rows of a column of texts of the interner. An id of another interner is that of the empty text, as in
    /// `Strings::get`.
    pub fn ids(&self, session: &Session, table: &dyn Table, rows: Range<usize>) -> Values<u32> {
        let known = |id: StrId| {
            if id.index() < session.strings.len() {
                id.0
            } else {
                0
            }
        };
        self.values(session, table, rows, |cell| {
            if let Cell::Interned(id) = cell {
                Some(known(id))
            } else {
                None
            }
        })
    }

    fn values<T: Default>(
        &self,
        session: &Session,
        table: &dyn Table,
        rows: Range<usize>,
        pick: impl Fn(Cell<'_>) -> Option<T>,
    ) -> Values<T> {
        let (mut values, mut present) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let value = pick(self.cell(session, table, row));
            present.push(value.is_some());
            values.push(value.unwrap_or_default());
        }
        let all = present.iter().all(|present| *present);
        (values, (!all).then_some(present))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_adds_what_people_join() {
        let session = Session::default();
        let columns = columns(&session.launches);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let expected = "id start end kernel pass gpu process stream correlation grid_x grid_y grid_z \
                        block_x block_y block_z registers shared_bytes graph_node graph name duration";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn units_are_those_that_descriptions_name() {
        let session = Session::default();
        let unit = |table: &dyn Table, name: &str| {
            let found = columns(table)
                .into_iter()
                .find(|column| column.name == name);
            found.map(|column| column.unit())
        };
        assert_eq!(unit(&session.launches, "duration"), Some("ns"));
        assert_eq!(unit(&session.launches, "registers"), Some(""));
        assert_eq!(unit(&session.copies, "bytes"), Some("B"));
        assert_eq!(unit(&session.gpus, "memory_bandwidth"), Some("B/s"));
        assert_eq!(unit(&session.device_samples, "sm_mhz"), Some("MHz"));
        assert_eq!(unit(&session.gpus, "clock_hz"), Some("Hz"));
        assert_eq!(unit(&session.measured_peaks, "median"), Some("1/s"));
        assert_eq!(unit(&session.kernels, "name"), Some(""));
    }
}
