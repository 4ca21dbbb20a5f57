//! Defines enums as tables: one line gives a value its documentation, its name, and whatever else is fixed for it.

/// Defines an enum without fields. The name of a value is the one in files and messages, and `ALL` has the values in
/// the order of the table.
///
/// A column that all values have becomes an exhaustive function: `pub enum Counter, tier: Tier { A = "a" => Tier::Gate,
/// }`. The pages of docs/ list the values of such a table with their documentation.
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
            $($(#[doc = $doc:literal])* $variant:ident = $name:literal => $value:expr,)*
        }
    ) => {
        $crate::named! {
            $(#[$meta])*
            $vis enum $of {
                $($(#[doc = $doc])* $variant = $name,)*
            }
        }

        impl $of {
            pub fn documentation(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)*).trim_ascii(),)*
                }
            }

            pub fn $column(self) -> $kind {
                match self {
                    $(Self::$variant => $value,)*
                }
            }
        }
    };
}

/// Defines an enum of reasons that have a stable code, which programs match on. `Lost = "lost" [Fail],` has the code
/// and the outcomes of its verdicts. Reasons that only `baseline update` gives have no outcomes. The first paragraph of
/// the documentation is the meaning, and the second says what to do. docs/verdicts.md lists both under `[Topic]`, which
/// holds for all values after it.
///
/// A value that passes on the code of what it holds has a pattern and that code: `Fault(Fault) => Self::Fault(it) =>
/// it.code(),`. With a guard, it may have a code of its own for the rest.
macro_rules! coded {
    (
        $(#[$meta:meta])*
        pub enum $of:ident {
            $([$topic:ident] $(
                $(#[doc = $doc:literal])*
                $(#[cfg_attr $condition:tt])?
                $variant:ident $({ $($field:tt)* })? $(($($held:tt)*))?
                    $(= $code:literal [$($outcome:ident),*])?
                    $(=> $passed:pat $(if $guard:expr)? => $on:expr)*,
            )+)+
        }
    ) => {
        $(#[$meta])*
        pub enum $of {
            $($(
                $(#[doc = $doc])*
                $(#[cfg_attr $condition])?
                $variant $({ $($field)* })? $(($($held)*))?,
            )+)+
        }

        impl $of {
            pub(crate) const CODES: &[$crate::CodedVariant] = &[$($(
                $crate::CodedVariant {
                    topic: $crate::Topic::$topic,
                    documentation: concat!($($doc, "\n",)*),
                    codes: &[$(($code, &[$($crate::Outcome::$outcome),*]))?],
                },
            )+)+];

            /// Returns the stable code, which programs match on.
            pub fn code(&self) -> &'static str {
                match self {
                    $($(
                        $($passed $(if $guard)? => $on,)*
                        $(Self::$variant { .. } => $code,)?
                    )+)+
                }
            }
        }
    };
}
