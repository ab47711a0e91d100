//! Which rows of a table a query looks at: all, or those of an index that is made when it is first wanted.

use std::ffi::c_int;
use std::ops::Range;

use rooflens_units::{Count, Ratio};

/// Rows of a table by a key, those of the same key in their order.
pub(super) struct Index(Vec<(i64, u32)>);

impl Index {
    /// The index of these keys, one a row; rows without a key are equal to nothing.
    pub(super) fn new(keys: impl Iterator<Item = Option<i64>>) -> Self {
        let mut rows = Vec::new();
        for (row, key) in (0..).zip(keys) {
            rows.extend(key.map(|key| (key, row)));
        }
        rows.sort_unstable();
        Self(rows)
    }

    /// Places of the rows whose keys lie from `low` to `high`.
    pub(super) fn between(&self, low: i64, high: i64) -> Range<usize> {
        let start = self.0.partition_point(|(key, _)| *key < low);
        start..self.0.partition_point(|(key, _)| *key <= high).max(start)
    }

    /// The row at a place.
    pub(super) fn row(&self, place: usize) -> usize {
        self.0[place].1 as usize
    }
}

/// Conditions of a query that an index could serve, by their numbers.
#[derive(Default)]
pub(super) struct Plan {
    equal: Vec<Equal>,
    above: Vec<End>,
    below: Vec<End>,
}

/// A condition that compares a column with one value.
struct Equal {
    column: usize,
    condition: usize,
    /// Estimated rows with the value.
    rows: Count,
}

/// A condition that gives an end of the values of a column.
struct End {
    column: usize,
    condition: usize,
}

/// A path through a table.
pub(super) struct Path {
    /// What [`Plan::read`] reads.
    pub(super) number: c_int,
    /// Conditions whose values are wanted, in order.
    pub(super) constraints: Vec<usize>,
    /// Estimated rows that are read.
    pub(super) rows: Count,
}

impl Path {
    /// Rows of an index.
    const fn of_index(column: usize, bits: c_int, constraints: Vec<usize>, rows: Count) -> Self {
        Self {
            number: (column as c_int) << BITS | bits,
            constraints,
            rows,
        }
    }

    /// Cost of the path, in rows of a walk through the table.
    pub(super) fn cost(&self) -> Count {
        match self.number {
            0 => self.rows,
            _ => self.rows * LOOKUP,
        }
    }
}

/// Bits of the number that say which values are wanted; the column is above them.
const EQUAL: c_int = 1;
const ABOVE: c_int = 2;
const BELOW: c_int = 4;
const BITS: u32 = 3;

/// Cost of a row that is found by an index, in rows of a walk through the table.
const LOOKUP: Ratio = Ratio(2.0);

/// Divisors of the rows of a table that give the estimated rows between two ends, and beyond one end.
const BETWEEN: f64 = 20.0;
const BEYOND: f64 = 3.0;

impl Plan {
    /// A condition that compares a column with one value, which about `rows` rows have.
    pub(super) fn equal(&mut self, column: usize, condition: usize, rows: Count) {
        // The first column is the row number.
        let rows = if column == 0 { Count(1.0) } else { rows };
        self.equal.push(Equal {
            column,
            condition,
            rows,
        });
    }

    /// A condition that gives the lower end of a column.
    pub(super) fn above(&mut self, column: usize, condition: usize) {
        self.above.push(End { column, condition });
    }

    /// A condition that gives the upper end of a column.
    pub(super) fn below(&mut self, column: usize, condition: usize) {
        self.below.push(End { column, condition });
    }

    /// The path with the fewest rows of a table of `rows`.
    pub(super) fn choose(&self, rows: usize) -> Path {
        let rows = Count(rows as f64);
        let mut paths = Vec::new();
        for equal in &self.equal {
            let constraints = vec![equal.condition];
            paths.push(Path::of_index(equal.column, EQUAL, constraints, equal.rows));
        }
        for low in &self.above {
            let column = low.column;
            let high = self.below.iter().find(|high| high.column == column);
            paths.push(match high {
                Some(high) => {
                    let ends = vec![low.condition, high.condition];
                    Path::of_index(column, ABOVE | BELOW, ends, rows / BETWEEN)
                }
                None => Path::of_index(column, ABOVE, vec![low.condition], rows / BEYOND),
            });
        }
        for high in &self.below {
            let end = vec![high.condition];
            paths.push(Path::of_index(high.column, BELOW, end, rows / BEYOND));
        }
        let mut best = Path {
            number: 0,
            constraints: Vec::new(),
            rows,
        };
        for path in paths {
            if path.cost() < best.cost() {
                best = path;
            }
        }
        best
    }

    /// The column of a path, and of each value whether it is the lower end and the upper end; none for all rows.
    pub(super) fn read(number: c_int) -> Option<(usize, Vec<(bool, bool)>)> {
        let ends = match number & ((1 << BITS) - 1) {
            EQUAL => vec![(true, true)],
            ABOVE => vec![(true, false)],
            BELOW => vec![(false, true)],
            0 => return None,
            _ => vec![(true, false), (false, true)],
        };
        Some(((number >> BITS) as usize, ends))
    }
}
