//! Values of a trace as its many writers wrote them: numbers as strings, nulls, lists where none belong.
//! What is of another type than expected is taken as absent; it never fails the event.

use std::borrow::Cow;

use super::json::{Invalid, Json, Kind, Value};
use super::time::nanoseconds;
use rooflens_session::{Dim3, Ns};

/// A text; numbers are their digits, everything else is empty.
pub(super) type Text<'a> = Cow<'a, str>;

/// A process or thread: `pid` and `tid` may be numbers or names.
#[derive(Debug)]
pub(super) enum Name<'a> {
    /// A number, or a text that is one.
    Number(i64),
    /// Any other text.
    Text(Text<'a>),
}

impl Default for Name<'_> {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl<'a> Value<'a> {
    /// An integer, written as a number or as a text.
    pub(super) fn integer(self) -> Result<Option<i64>, Invalid> {
        Ok(match self.kind {
            Kind::Number => self.json.parse().ok().or_else(|| whole(self.json)),
            Kind::Text | Kind::Escaped => self.text()?.trim().parse().ok(),
            Kind::List | Kind::Other => None,
        })
    }

    /// A time in microseconds, as nanoseconds.
    pub(super) fn time(self) -> Option<Ns> {
        match self.kind {
            Kind::Text => nanoseconds(self.inner()),
            _ => nanoseconds(self.json),
        }
    }

    /// `[x, y, z]`.
    pub(super) fn extent(self) -> Result<Dim3, Invalid> {
        let mut extent = [0; 3];
        if self.kind == Kind::List {
            let mut slots = extent.iter_mut();
            Json::new(self.json).list(|json| {
                let number = json.value()?.integer()?;
                if let Some(slot) = slots.next() {
                    *slot = number
                        .and_then(|number| u32::try_from(number).ok())
                        .unwrap_or(0);
                }
                Ok(())
            })?;
        }
        let [x, y, z] = extent;
        Ok(Dim3 { x, y, z })
    }

    /// A process or a thread.
    pub(super) fn name(self) -> Result<Name<'a>, Invalid> {
        Ok(match self.kind {
            Kind::Number => Name::Number(handle(self.json)),
            Kind::Text => {
                let text = self.text()?;
                text.parse().map_or(Name::Text(text), Name::Number)
            }
            Kind::Escaped => Name::Text(self.text()?),
            Kind::List | Kind::Other => Name::default(),
        })
    }
}

/// A whole number that is written with a fraction or an exponent; those below 2^53 are exact.
fn whole(number: &str) -> Option<i64> {
    let number: f64 = number.parse().ok()?;
    let whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    whole.then_some(number as i64)
}

/// A number of a thread; handles of 2^63 and above keep their bits.
fn handle(number: &str) -> i64 {
    let integer = number
        .parse()
        .or_else(|_| number.parse().map(u64::cast_signed));
    integer.unwrap_or_else(|_| number.parse::<f64>().map_or(0, |number| number as i64))
}
