//! Enums as tables: one line gives a value its documentation, its name and what else is fixed for it.

/// An enum without fields. The name of a value is the one in files, messages and `ALL`, which has the order of the table.
///
/// A column that all values have is an exhaustive function: `pub enum Counter, tier: Tier { A = "a" => Tier::Gate, }`.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $of:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        $vis enum $of {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $of {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $of:ident, $column:ident: $kind:ty {
            $($(#[$doc:meta])* $variant:ident = $name:literal => $value:expr,)*
        }
    ) => {
        $crate::named! {
            $(#[$meta])*
            $vis enum $of {
                $($(#[$doc])* $variant = $name,)*
            }
        }

        impl $of {
            pub fn $column(self) -> $kind {
                match self {
                    $(Self::$variant => $value,)*
                }
            }
        }
    };
}

/// An enum with fields. A value's stable code stands behind its fields; programs match on it. A value that
/// passes on the code of what it holds has a pattern and that code: `Fault(Fault) => Self::Fault(it) => it.code(),`.
macro_rules! coded {
    (
        $(#[$meta:meta])*
        pub enum $of:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($field:tt)* })? $(($($held:tt)*))?
                    $(= $code:literal)? $(=> $passed:pat => $on:expr)?,
            )*
        }
    ) => {
        $(#[$meta])*
        pub enum $of {
            $($(#[$doc])* $variant $({ $($field)* })? $(($($held)*))?,)*
        }

        impl $of {
            pub(crate) const CODES: &[&str] = &[$($($code,)?)*];

            /// Stable: programs match on it.
            pub fn code(&self) -> &'static str {
                match self {
                    $($(Self::$variant { .. } => $code,)? $($passed => $on,)?)*
                }
            }
        }
    };
}
