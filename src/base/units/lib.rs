//! Quantities as types: a time is not a size, and adding them does not compile.
//!
//! Each type holds one number in the base unit that files and pages use. `Ns` is an integer, because captures record
//! integer nanoseconds and sums of them must be exact. All others are floating point: they come from models, means and
//! counters. The products and quotients that make sense are declared at the end of this file, and there are no others:
//! `bytes / seconds` is a [`BytesPerSecond`], `bytes + seconds` an error.
//!
//! The number is the public field `0`, for constants, patterns and arithmetic that no unit describes.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod slo;

use rooflens_schemas::Unit;
pub use slo::Slo;

/// A type that holds a number of one unit.
pub trait Measure: Copy {
    /// The unit.
    const UNIT: Unit;

    /// The number in that unit.
    fn number(self) -> f64;
}

/// A real number with a unit or a pure one: what samples of statistics consist of.
pub trait Real: Copy {
    /// The number as the type holds it: of [`Seconds`] the seconds.
    fn real(self) -> f64;

    /// The type that holds a number.
    fn of_real(number: f64) -> Self;
}

impl Real for f64 {
    fn real(self) -> f64 {
        self
    }

    fn of_real(number: f64) -> Self {
        number
    }
}

/// Makes types that hold a number samples.
macro_rules! reals {
    ($($name:ident)*) => {$(
        impl Real for $name {
            fn real(self) -> f64 {
                self.0
            }

            fn of_real(number: f64) -> Self {
                Self(number)
            }
        }
    )*};
}

/// Declares types that hold a number of one unit, and the macro `for_each_measure!`, which calls a macro with all of
/// their names: conversions into cells, quantities and arguments are implemented once for all of them.
macro_rules! measures {
    ($($(#[$doc:meta])* $name:ident: $unit:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
            )]
            #[serde(transparent)]
            pub struct $name(pub f64);

            impl $name {
                /// Nothing of it.
                pub const ZERO: Self = Self(0.0);

                /// The size without the sign.
                #[must_use]
                pub const fn abs(self) -> Self {
                    Self(self.0.abs())
                }

                /// The smaller of two.
                #[must_use]
                pub const fn min(self, other: Self) -> Self {
                    Self(self.0.min(other.0))
                }

                /// The larger of two.
                #[must_use]
                pub const fn max(self, other: Self) -> Self {
                    Self(self.0.max(other.0))
                }

                /// The value, or the bound that it exceeds.
                #[must_use]
                pub const fn clamp(self, low: Self, high: Self) -> Self {
                    Self(self.0.clamp(low.0, high.0))
                }

                /// Greater than zero.
                pub fn is_positive(&self) -> bool {
                    self.0 > 0.0
                }

                /// Neither infinite nor NaN.
                pub const fn is_finite(self) -> bool {
                    self.0.is_finite()
                }

                /// The order of [`f64::total_cmp`], for sorts.
                pub fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
                    self.0.total_cmp(&other.0)
                }
            }

            impl Measure for $name {
                const UNIT: Unit = Unit::$unit;

                fn number(self) -> f64 {
                    self.0
                }
            }

            arithmetic!($name, f64);
            reals!($name);

            impl std::ops::Mul<$name> for f64 {
                type Output = $name;

                fn mul(self, measure: $name) -> $name {
                    $name(self * measure.0)
                }
            }

            /// How many times the second goes into the first.
            impl std::ops::Div for $name {
                type Output = f64;

                fn div(self, other: Self) -> f64 {
                    self.0 / other.0
                }
            }
        )*

        /// Calls a macro with the names of all floating-point units: `for_each_measure!(implement)`.
        #[macro_export]
        macro_rules! for_each_measure {
            ($call:ident) => { $call! { $($name)* } };
        }
    };
}

/// Sums and differences of one unit, and its products with a pure number.
macro_rules! arithmetic {
    ($name:ident, $number:ty) => {
        impl std::ops::Add for $name {
            type Output = Self;

            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;

            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl std::ops::AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl std::ops::SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl std::ops::Neg for $name {
            type Output = Self;

            #[inline]
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl std::ops::Mul<$number> for $name {
            type Output = Self;

            #[inline]
            fn mul(self, factor: $number) -> Self {
                Self(self.0 * factor)
            }
        }

        impl std::ops::Div<$number> for $name {
            type Output = Self;

            #[inline]
            fn div(self, divisor: $number) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(measures: I) -> Self {
                Self(measures.map(|measure| measure.0).sum())
            }
        }

        impl<'a> std::iter::Sum<&'a $name> for $name {
            fn sum<I: Iterator<Item = &'a Self>>(measures: I) -> Self {
                measures.copied().sum()
            }
        }
    };
}

measures! {
    /// A time in nanoseconds with a fraction: a mean, a median, a bound.
    Time: Nanoseconds;
    /// A size in bytes.
    Bytes: Bytes;
    /// Floating-point operations, or integer ones of tensor cores.
    Flops: Flop;
    /// A share between 0 and 1, or how many times one thing is another.
    Ratio: Ratio;
    /// A share as profilers print it, 0 to 100, or a distance of two such shares.
    Percent: Percent;
    /// A number of things that is a mean, such as launches per step.
    Count: Count;
    /// A memory or link rate.
    BytesPerSecond: BytesPerSecond;
    /// A compute rate.
    FlopsPerSecond: FlopPerSecond;
    /// Arithmetic intensity.
    FlopsPerByte: FlopPerByte;
    /// Power.
    Watts: Watts;
    /// Energy.
    Joules: Joules;
    /// A clock rate.
    Hertz: Hertz;
    /// A temperature in degrees Celsius.
    Celsius: Celsius;
    /// Throughput of a language model.
    TokensPerSecond: TokensPerSecond;
    /// Throughput of a vision model.
    ImagesPerSecond: ImagesPerSecond;
    /// Load of a server.
    RequestsPerSecond: RequestsPerSecond;
}

/// A time or a duration in integer nanoseconds on the clock of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Ns(pub i64);

arithmetic!(Ns, i64);

impl Ns {
    /// No time, or the beginning of a clock.
    pub const ZERO: Self = Self(0);
    /// Beyond every time.
    pub const MAX: Self = Self(i64::MAX);
    /// Before every time.
    pub const MIN: Self = Self(i64::MIN);

    /// The length without the sign.
    #[must_use]
    pub const fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// The same time for arithmetic with fractions; exact up to 104 days.
    #[inline]
    #[must_use]
    pub const fn time(self) -> Time {
        Time(self.0 as f64)
    }

    /// The sum, or nothing where it does not fit.
    #[inline]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, or nothing where it does not fit.
    #[inline]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The sum, or the bound that it exceeds.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or the bound that it exceeds.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The multiple, or the bound that it exceeds.
    #[inline]
    #[must_use]
    pub const fn saturating_mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// The time with the other sign, or the greatest time.
    #[inline]
    #[must_use]
    pub const fn saturating_neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

/// How many times the second goes into the first, rounded towards zero.
impl std::ops::Div for Ns {
    type Output = i64;

    #[inline]
    fn div(self, other: Self) -> i64 {
        self.0 / other.0
    }
}

/// The part of the first into which the second does not go.
impl std::ops::Rem for Ns {
    type Output = Self;

    #[inline]
    fn rem(self, other: Self) -> Self {
        Self(self.0 % other.0)
    }
}

/// The number without its unit, for texts that name it.
impl std::fmt::Display for Ns {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Measure for Ns {
    const UNIT: Unit = Unit::Nanoseconds;

    fn number(self) -> f64 {
        self.0 as f64
    }
}

/// A time in seconds: what load generators, CUDA benchmarks and predictions count in.
///
/// It has no unit of its own in files: [`Seconds::time`] gives the nanoseconds that they hold.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
)]
#[serde(transparent)]
pub struct Seconds(pub f64);

arithmetic!(Seconds, f64);
reals!(Seconds);

impl Seconds {
    /// No time.
    pub const ZERO: Self = Self(0.0);

    /// The same time in nanoseconds.
    pub const fn time(self) -> Time {
        Time(self.0 * 1e9)
    }

    /// The shorter of two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// The longer of two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// The length without the sign.
    #[must_use]
    pub const fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// Greater than zero.
    pub fn is_positive(&self) -> bool {
        self.0 > 0.0
    }

    /// Neither infinite nor NaN.
    pub const fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The order of [`f64::total_cmp`], for sorts.
    pub fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// How many times the second goes into the first.
impl std::ops::Div for Seconds {
    type Output = f64;

    fn div(self, other: Self) -> f64 {
        self.0 / other.0
    }
}

impl Measure for Seconds {
    const UNIT: Unit = Unit::Nanoseconds;

    fn number(self) -> f64 {
        self.time().0
    }
}

impl Time {
    /// The nearest integer time.
    #[inline]
    #[must_use]
    pub fn round(self) -> Ns {
        Ns(self.0.round() as i64)
    }

    /// The same time in seconds.
    pub const fn seconds(self) -> Seconds {
        Seconds(self.0 / 1e9)
    }
}

/// Declares what the product of two units is, and with it both quotients.
macro_rules! products {
    ($($left:ident * $right:ident = $product:ident;)*) => {$(
        impl std::ops::Mul<$right> for $left {
            type Output = $product;

            fn mul(self, right: $right) -> $product {
                $product(self.0 * right.0)
            }
        }

        impl std::ops::Mul<$left> for $right {
            type Output = $product;

            fn mul(self, left: $left) -> $product {
                $product(self.0 * left.0)
            }
        }

        impl std::ops::Div<$left> for $product {
            type Output = $right;

            fn div(self, left: $left) -> $right {
                $right(self.0 / left.0)
            }
        }

        impl std::ops::Div<$right> for $product {
            type Output = $left;

            fn div(self, right: $right) -> $left {
                $left(self.0 / right.0)
            }
        }
    )*};
}

products! {
    BytesPerSecond * Seconds = Bytes;
    FlopsPerSecond * Seconds = Flops;
    FlopsPerByte * Bytes = Flops;
    FlopsPerByte * BytesPerSecond = FlopsPerSecond;
    Flops * Hertz = FlopsPerSecond;
    Watts * Seconds = Joules;
}

/// Declares what an amount per time is. It is divided by nanoseconds first and scaled to seconds then, which may differ
/// in the last digit from the quotient by [`Time::seconds`].
macro_rules! rates {
    ($($amount:ident / Time = $rate:ident;)*) => {$(
        impl std::ops::Div<Time> for $amount {
            type Output = $rate;

            #[inline]
            fn div(self, time: Time) -> $rate {
                $rate(self.0 / time.0 * 1e9)
            }
        }
    )*};
}

rates! {
    Bytes / Time = BytesPerSecond;
    Flops / Time = FlopsPerSecond;
}

/// Declares that a share of a unit is of that unit.
macro_rules! shares {
    ($($unit:ident)*) => {$(
        impl std::ops::Mul<Ratio> for $unit {
            type Output = Self;

            fn mul(self, share: Ratio) -> Self {
                Self(self.0 * share.0)
            }
        }
    )*};
}

shares! { Time Seconds Bytes Flops Ratio Count BytesPerSecond FlopsPerSecond Watts Joules Hertz TokensPerSecond }

/// Declares that so many times a unit is of that unit, and that a part of it by a number is, too.
macro_rules! repeats {
    ($($unit:ident)*) => {$(
        impl std::ops::Mul<Count> for $unit {
            type Output = Self;

            fn mul(self, times: Count) -> Self {
                Self(self.0 * times.0)
            }
        }

        impl std::ops::Div<Count> for $unit {
            type Output = Self;

            fn div(self, parts: Count) -> Self {
                Self(self.0 / parts.0)
            }
        }
    )*};
}

repeats! { Time Seconds Bytes Flops }

impl Ratio {
    /// All of it.
    pub const ONE: Self = Self(1.0);

    /// The part of a whole; not finite where the whole is zero.
    pub fn of<M: Measure>(part: M, whole: M) -> Self {
        Self(part.number() / whole.number())
    }

    /// What is missing to the whole.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(1.0 - self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_times_and_sizes_give_one_another() {
        // 4.8 TB/s for 2 ms are 9.6 GB; 9.6 GB in 2 ms are 4.8 TB/s; at 3 FLOP/B they are 28.8 GFLOP.
        let (rate, time) = (BytesPerSecond(4.8e12), Time(2e6).seconds());
        let size = rate * time;
        assert_eq!(size, Bytes(9.6e9));
        assert_eq!(size / time, rate);
        assert_eq!(size / Time(2e6), rate);
        assert_eq!(FlopsPerByte(3.0) * size, Flops(28.8e9));
        assert_eq!(Seconds(0.002).time(), Time(2e6));
    }

    #[test]
    fn a_rate_over_nanoseconds_divides_before_it_scales() {
        // A byte per nanosecond is 1 GB/s; 1 ÷ 10⁻⁹ in double precision is 999999999.9999999.
        assert_eq!(Bytes(1.0) / Time(1.0), BytesPerSecond(1e9));
        let over_seconds = Flops(1.0) / Time(1.0).seconds();
        assert_eq!(over_seconds, FlopsPerSecond(999_999_999.999_999_9));
    }

    #[test]
    fn a_share_is_of_a_whole_of_its_unit() {
        assert_eq!(Ratio::of(Time(25.0), Time(100.0)), Ratio(0.25));
        assert_eq!(Ratio(0.25).rest(), Ratio(0.75));
        assert_eq!(Bytes(8.0) * Ratio(0.25), Bytes(2.0));
        assert_eq!([Watts(1.5), Watts(2.0)].iter().sum::<Watts>(), Watts(3.5));
    }
}
