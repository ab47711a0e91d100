//! Values of a trace as its many writers wrote them: numbers as strings, nulls, lists where none belong.
//! What is of another type than expected is taken as absent; it never fails the event.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::time::nanoseconds;
use rooflens_model::{Dim3, Ns};

/// A text; numbers become their digits, everything else is empty.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// An integer, written as a number or as a string.
#[derive(Debug, Default)]
pub(super) struct Integer(pub(super) Option<i64>);

/// A time in microseconds, as nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Time(pub(super) Option<Ns>);

/// `[x, y, z]`.
#[derive(Debug, Default)]
pub(super) struct Extent(pub(super) Dim3);

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

/// Passes over a list, whatever it holds.
pub(super) fn drain_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Passes over an object, whatever it holds.
pub(super) fn drain_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// The visits in which a value of another type is taken as absent.
macro_rules! absent {
    ($absent:expr; $($visit:ident),*) => {
        $(absent!(@$visit $absent);)*
    };
    (@bool $absent:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
    (@unit $absent:expr) => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
    (@numbers $absent:expr) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok($absent)
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($absent)
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
    (@str $absent:expr) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok($absent)
        }
    };
    (@list $absent:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            $crate::torch::value::drain_list(list)?;
            Ok($absent)
        }
    };
    (@object $absent:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
            $crate::torch::value::drain_object(object)?;
            Ok($absent)
        }
    };
}
pub(super) use absent;

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    absent!(Text::default(); bool, unit, list, object);
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct IntegerVisitor;

impl<'de> Visitor<'de> for IntegerVisitor {
    type Value = Integer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Integer(i64::try_from(number).ok()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Integer(Some(number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        // Whole numbers below 2^53 are exact.
        let whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
        Ok(Integer(whole.then_some(number as i64)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Integer(text.trim().parse().ok()))
    }

    absent!(Integer(None); bool, unit, list, object);
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntegerVisitor)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        Ok(Self(nanoseconds(text)))
    }
}

struct ExtentVisitor;

impl<'de> Visitor<'de> for ExtentVisitor {
    type Value = Extent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("three extents")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut extent = [0; 3];
        let mut count = 0;
        while let Some(Integer(number)) = list.next_element()? {
            if let Some(slot) = extent.get_mut(count) {
                *slot = number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
            }
            count += 1;
        }
        let [x, y, z] = extent;
        Ok(Extent(Dim3 { x, y, z }))
    }

    absent!(Extent::default(); bool, unit, numbers, str, object);
}

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExtentVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a name")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        // Thread handles of 2^63 and above keep their bits.
        Ok(Name::Number(number as i64))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Name::Number(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Name::Number(number as i64))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(text.parse().map_or(Name::Text(Text(Cow::Borrowed(text))), Name::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Name::Text(Text(Cow::Owned(text.to_owned()))))
    }

    absent!(Name::default(); bool, unit, list, object);
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}
