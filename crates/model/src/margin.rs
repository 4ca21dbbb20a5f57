use super::Num;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much worse than a stored value another one may be; worse as the metric defines it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Margin {
    /// A share of the stored value: 0.02 for `+2%`.
    Share(Num),
    /// As many more, or fewer, whatever the stored value is: 2 for `+2`. For counts and bytes that repeat exactly.
    Amount { amount: u64 },
}

impl Margin {
    /// Returns the margin in the unit in which a change is compared with it.
    pub fn number(self) -> f64 {
        match self {
            Self::Share(share) => share.0,
            Self::Amount { amount } => amount as f64,
        }
    }

    /// Returns whether the margin allows no more than another one. Returns `None` if that depends on the stored value.
    pub fn allows_at_most(self, other: Self) -> Option<bool> {
        match (self, other) {
            (Self::Share(_), Self::Share(_)) | (Self::Amount { .. }, Self::Amount { .. }) => {
                Some(self.number() <= other.number())
            }
            // No change at all is the same demand in either unit.
            _ if self.number() == 0.0 => Some(true),
            _ if other.number() == 0.0 => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn share(share: f64) -> Margin {
        Margin::Share(Num(share))
    }

    const fn amount(amount: u64) -> Margin {
        Margin::Amount { amount }
    }

    #[test]
    fn a_share_is_a_number_in_json_and_an_amount_says_that_it_is_one() {
        for (margin, text) in [(share(0.02), "0.02"), (amount(3), r#"{"amount":3}"#)] {
            assert_eq!(serde_json::to_string(&margin).unwrap(), text);
            assert_eq!(serde_json::from_str::<Margin>(text).unwrap(), margin);
        }
        for damaged in [
            r#"{"amount":-1}"#,
            r#"{"amount":1,"of":2}"#,
            r#""2%""#,
            "null",
        ] {
            assert!(
                serde_json::from_str::<Margin>(damaged).is_err(),
                "{damaged}"
            );
        }
    }

    #[test]
    fn nothing_is_the_same_in_either_unit_and_all_else_depends_on_the_value() {
        for (one, other, expected) in [
            (share(0.01), share(0.02), Some(true)),
            (share(0.03), share(0.02), Some(false)),
            (amount(1), amount(1), Some(true)),
            (amount(2), amount(1), Some(false)),
            (share(0.0), amount(0), Some(true)),
            (amount(0), share(0.0), Some(true)),
            (amount(0), share(0.1), Some(true)),
            (amount(1), share(0.0), Some(false)),
            (share(0.1), amount(0), Some(false)),
            (share(0.1), amount(1), None),
            (amount(1), share(10.0), None),
            (share(f64::NAN), share(0.0), Some(false)),
            (share(f64::NAN), amount(5), None),
        ] {
            assert_eq!(one.allows_at_most(other), expected, "{one:?} {other:?}");
        }
    }
}
