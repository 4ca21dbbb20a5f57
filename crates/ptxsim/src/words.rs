//! Enums whose values PTX names by words.

/// `words! { pub enum Ty { U8 = "u8", } }` makes the enum `Ty` with the function `Ty::parse`.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $of:ident {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $of {
            $($(#[$doc])* $variant,)*
        }

        impl $of {
            /// Returns the value that a word of PTX names.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;
