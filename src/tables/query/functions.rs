//! Functions that SQLite lacks and engineers ask for, named and computed as in DuckDB and polars: `median(x)`,
//! `quantile_cont(x, share)`, `stddev(x)`, `sqrt(x)`, `floor(x)` and `ceil(x)`.

use rooflens_stats::{quantile, sample_deviation};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};

/// Functions of one number.
type OfOne = fn(f64) -> f64;
const OF_ONE: [(&str, OfOne); 3] = [
    ("sqrt", f64::sqrt),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
];

/// Functions of many numbers, which come sorted, and of a share: name, number of arguments, function.
type OfMany = fn(&[f64], f64) -> Option<f64>;
const OF_MANY: [(&str, i32, OfMany); 3] = [
    ("median", 1, quantile),
    ("quantile_cont", 2, quantile),
    ("stddev", 1, deviation),
];

/// Adds them to a connection.
pub(super) fn add(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, function) in OF_ONE {
        connection.create_scalar_function(name, 1, flags, move |context| {
            Ok(context.get::<Option<f64>>(0)?.map(function))
        })?;
    }
    for (name, arguments, function) in OF_MANY {
        connection.create_aggregate_function(name, arguments, flags, Sorted(function))?;
    }
    Ok(())
}

struct Sorted(OfMany);

impl Aggregate<(Vec<f64>, f64), Option<f64>> for Sorted {
    fn init(&self, _: &mut Context<'_>) -> Result<(Vec<f64>, f64)> {
        Ok((Vec::new(), 0.5))
    }

    fn step(&self, context: &mut Context<'_>, (values, share): &mut (Vec<f64>, f64)) -> Result<()> {
        values.extend(context.get::<Option<f64>>(0)?);
        if context.len() > 1 {
            *share = context.get(1)?;
        }
        match (0.0..=1.0).contains(share) {
            true => Ok(()),
            false => Err(Error::UserFunctionError(
                "a share of quantile_cont is from 0 to 1".into(),
            )),
        }
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        values: Option<(Vec<f64>, f64)>,
    ) -> Result<Option<f64>> {
        let Some((mut values, share)) = values else {
            return Ok(None);
        };
        values.sort_unstable_by(f64::total_cmp);
        Ok((self.0)(&values, share))
    }
}

/// The standard deviation of a sample.
fn deviation(values: &[f64], _: f64) -> Option<f64> {
    sample_deviation(values)
}
