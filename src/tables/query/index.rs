//! Which rows of a table a query looks at: all, or those of an index that is made when it is first wanted.

use std::ffi::c_int;
use std::ops::Range;

/// Rows of a table by a key, those of the same key in their order.
pub(super) struct Index(Vec<(i64, u32)>);

impl Index {
    /// The index of these keys, one a row; rows without a key are equal to nothing.
    pub(super) fn new(keys: impl Iterator<Item = Option<i64>>) -> Self {
        let rows = (0..).zip(keys);
        let mut sorted: Vec<(i64, u32)> = rows.filter_map(|(row, key)| Some((key?, row))).collect();
        sorted.sort_unstable();
        Self(sorted)
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

/// Conditions of a query that an index could serve, to choose from.
#[derive(Default)]
pub(super) struct Plan {
    equal: Vec<(usize, usize, f64)>,
    above: Vec<(usize, usize)>,
    below: Vec<(usize, usize)>,
}

/// The chosen way through a table.
pub(super) struct Chosen {
    /// What [`Plan::read`] reads.
    pub(super) number: c_int,
    /// Conditions whose values are wanted, in order.
    pub(super) constraints: Vec<usize>,
    /// Rows that will be looked at, about.
    pub(super) rows: f64,
    /// Cost of a row.
    pub(super) cost: f64,
}

/// Bits of the number that tell what values are wanted; the column is above them.
const EQUAL: c_int = 1;
const ABOVE: c_int = 2;
const BELOW: c_int = 4;
const BITS: u32 = 3;

/// Cost of a row that is found by an index, in rows of a walk through the table.
const LOOKUP: f64 = 2.0;

impl Plan {
    /// Condition `at` compares a column with one value, which `rows` rows have, about.
    pub(super) fn equal(&mut self, column: usize, at: usize, rows: f64) {
        self.equal
            .push((column, at, if column == 0 { 1.0 } else { rows }));
    }

    /// Condition `at` gives the lower end of a column.
    pub(super) fn above(&mut self, column: usize, at: usize) {
        self.above.push((column, at));
    }

    /// Condition `at` gives the upper end of a column.
    pub(super) fn below(&mut self, column: usize, at: usize) {
        self.below.push((column, at));
    }

    /// The way that looks at the fewest rows of a table of `rows`.
    pub(super) fn choose(&self, rows: usize) -> Chosen {
        let rows = rows as f64;
        let all = Chosen {
            number: 0,
            constraints: Vec::new(),
            rows,
            cost: 1.0,
        };
        let chosen = |column: usize, bits, constraints, rows| Chosen {
            number: (column as c_int) << BITS | bits,
            constraints,
            rows,
            cost: LOOKUP,
        };
        let equal = self
            .equal
            .iter()
            .map(|(column, at, rows)| chosen(*column, EQUAL, vec![*at], *rows));
        let above = self.above.iter().map(|(column, low)| {
            let high = self.below.iter().find(|(other, _)| other == column);
            match high {
                Some((_, high)) => chosen(*column, ABOVE | BELOW, vec![*low, *high], rows / 20.0),
                None => chosen(*column, ABOVE, vec![*low], rows / 3.0),
            }
        });
        let below = self
            .below
            .iter()
            .map(|(column, high)| chosen(*column, BELOW, vec![*high], rows / 3.0));
        let ways = std::iter::once(all).chain(equal).chain(above).chain(below);
        let cost = |way: &Chosen| way.rows * way.cost;
        ways.reduce(|best, way| if cost(&way) < cost(&best) { way } else { best })
            .unwrap_or(Chosen {
                number: 0,
                constraints: Vec::new(),
                rows,
                cost: 1.0,
            })
    }

    /// The column of a chosen way, and of each value whether it is the lower end and the upper one; none for all rows.
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
