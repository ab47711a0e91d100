//! Enums whose values have words.

/// Declares an enum with its values in report order, `ALL`, and with the words that reports and tables print, `label`,
/// where values have some.
#[macro_export]
macro_rules! labels {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$each:meta])* $value:ident,)+ }) => {
        $(#[$about])*
        pub enum $name { $($(#[$each])* $value,)+ }

        impl $name {
            /// All values in report order.
            pub const ALL: [Self; [$(stringify!($value)),+].len()] = [$(Self::$value),+];
        }
    };
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$each:meta])* $value:ident = $label:literal,)+ }) => {
        $crate::labels! { $(#[$about])* pub enum $name { $($(#[$each])* $value,)+ } }

        impl $name {
            /// The words that reports and tables print.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$value => $label,)+ }
            }
        }
    };
}
