//! Lengths on the page: a type of their own, because the values of axes are numbers, too.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

use rooflens_units::Ratio;

/// A length or a place on the page in points.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Serialize)]
#[serde(transparent)]
pub(crate) struct Pt(pub(crate) f64);

/// An angle in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Degrees(pub(crate) f64);

/// A place on the page: distances from its left and upper edge.
pub(crate) type Place = (Pt, Pt);

impl Pt {
    /// No length.
    pub(crate) const ZERO: Self = Self(0.0);

    /// The shorter of two.
    pub(crate) const fn min(self, limit: Self) -> Self {
        Self(self.0.min(limit.0))
    }

    /// The longer of two.
    pub(crate) const fn max(self, limit: Self) -> Self {
        Self(self.0.max(limit.0))
    }

    /// The length, or the bound that it exceeds.
    pub(crate) const fn clamp(self, low: Self, high: Self) -> Self {
        Self(self.0.clamp(low.0, high.0))
    }

    /// The length without the sign.
    pub(crate) const fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// The next whole number of points.
    pub(crate) fn ceil(self) -> Self {
        Self(libm::ceil(self.0))
    }

    /// The length of a line that goes so far to the right and down.
    pub(crate) fn hypot(self, down: Self) -> Self {
        Self(libm::hypot(self.0, down.0))
    }

    /// The middle of two places.
    pub(crate) const fn midpoint(self, end: Self) -> Self {
        Self(f64::midpoint(self.0, end.0))
    }

    /// The order of [`f64::total_cmp`], for sorts.
    pub(crate) fn total_cmp(&self, length: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&length.0)
    }
}

impl fmt::Display for Pt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Add for Pt {
    type Output = Self;

    fn add(self, length: Self) -> Self {
        Self(self.0 + length.0)
    }
}

impl Sub for Pt {
    type Output = Self;

    fn sub(self, length: Self) -> Self {
        Self(self.0 - length.0)
    }
}

impl Neg for Pt {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl AddAssign for Pt {
    fn add_assign(&mut self, length: Self) {
        self.0 += length.0;
    }
}

impl SubAssign for Pt {
    fn sub_assign(&mut self, length: Self) {
        self.0 -= length.0;
    }
}

impl Mul<f64> for Pt {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

impl Mul<Ratio> for Pt {
    type Output = Self;

    fn mul(self, share: Ratio) -> Self {
        self * share.0
    }
}

impl Div<f64> for Pt {
    type Output = Self;

    fn div(self, divisor: f64) -> Self {
        Self(self.0 / divisor)
    }
}

/// How many times the second length goes into the first.
impl Div for Pt {
    type Output = f64;

    fn div(self, length: Self) -> f64 {
        self.0 / length.0
    }
}

impl Sum for Pt {
    fn sum<I: Iterator<Item = Self>>(lengths: I) -> Self {
        Self(lengths.map(|length| length.0).sum())
    }
}
