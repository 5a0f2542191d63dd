//! An order of a caller: how many codes of which form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The maximum number of codes in a batch: their CSV stays far below the largest result.
pub const COUNT_MAX: u32 = 100_000;

/// The maximum number of characters in a prefix.
pub const PREFIX_LENGTH_MAX: usize = 16;

/// The minimum number of random characters in a code.
pub const LENGTH_MIN: u8 = 4;

/// The maximum number of random characters in a code. With its check character a code then has 29, and the check
/// detects every transposition of two of them.
pub const LENGTH_MAX: u8 = 28;

/// How many codes must be possible for each one generated: a guess succeeds with a probability of 1 in 1,000 at most.
const SPARSENESS: u128 = 1_000;

/// A batch of access codes. Each code is the prefix, then `length` random characters, then one check character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchOrder {
    /// How many codes, 1 to 100,000.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
    /// The beginning of every code: up to 16 letters, digits, `-` and `_`.
    #[serde(default)]
    #[schemars(length(max = 16), regex(pattern = "^[A-Za-z0-9_-]*$"))]
    pub prefix: String,
    /// Random characters in each code, 4 to 28, not counting the prefix and the check character.
    #[serde(default = "default_length")]
    #[schemars(range(min = 4, max = 28))]
    pub length: u8,
}

const fn default_length() -> u8 {
    12
}

/// Why an order is refused, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OrderError {
    /// No codes, or too many.
    #[error("`count` is {0}: it must be between 1 and {COUNT_MAX}")]
    Count(u32),
    /// Too few or too many characters.
    #[error("`length` is {0}: it must be between {LENGTH_MIN} and {LENGTH_MAX}")]
    Length(u8),
    /// The prefix is too long.
    #[error("`prefix` has {0} characters: it may have at most {PREFIX_LENGTH_MAX}")]
    PrefixLength(usize),
    /// The prefix has other characters.
    #[error("`prefix` may contain only letters A-Z and a-z, digits, `-` and `_`")]
    PrefixCharacters,
    /// Codes of this length could be guessed.
    #[error(
        "{count} codes of {length} random characters could be guessed: raise `length` to {length_wanted} or more, or \
         lower `count` to {count_max}"
    )]
    TooDense {
        /// The codes ordered.
        count: u32,
        /// The length ordered.
        length: u8,
        /// A length that is enough for the count.
        length_wanted: u8,
        /// A count that is small enough for the length.
        count_max: u128,
    },
}

impl BatchOrder {
    /// Checks whether such a batch can be generated.
    pub fn check(&self) -> Result<(), OrderError> {
        if !(1..=COUNT_MAX).contains(&self.count) {
            return Err(OrderError::Count(self.count));
        }
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&self.length) {
            return Err(OrderError::Length(self.length));
        }
        let characters = self.prefix.chars().count();
        if characters > PREFIX_LENGTH_MAX {
            return Err(OrderError::PrefixLength(characters));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !self.prefix.chars().all(allowed) {
            return Err(OrderError::PrefixCharacters);
        }
        if count_max(self.length) < u128::from(self.count) {
            return Err(OrderError::TooDense {
                count: self.count,
                length: self.length,
                length_wanted: length_for(self.count),
                count_max: count_max(self.length),
            });
        }
        Ok(())
    }
}

/// How many codes of `length` random characters may be generated at once.
fn count_max(length: u8) -> u128 {
    31_u128.saturating_pow(u32::from(length)) / SPARSENESS
}

fn length_for(count: u32) -> u8 {
    (LENGTH_MIN..LENGTH_MAX).find(|length| count_max(*length) >= u128::from(count)).unwrap_or(LENGTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(count: u32, prefix: &str, length: u8) -> Result<(), OrderError> {
        BatchOrder { count, prefix: prefix.to_owned(), length }.check()
    }

    #[test]
    fn orders_within_the_limits_are_accepted() {
        assert_eq!(order(1, "", 4), Ok(()));
        assert_eq!(order(COUNT_MAX, "SPRING_2027-", LENGTH_MAX), Ok(()));
    }

    #[test]
    fn orders_beyond_the_limits_are_refused() {
        assert_eq!(order(0, "", 12), Err(OrderError::Count(0)));
        assert_eq!(order(COUNT_MAX + 1, "", 12), Err(OrderError::Count(COUNT_MAX + 1)));
        assert_eq!(order(1, "", 3), Err(OrderError::Length(3)));
        assert_eq!(order(1, "", 29), Err(OrderError::Length(29)));
        assert_eq!(order(1, "ABCDEFGHIJKLMNOPQ", 12), Err(OrderError::PrefixLength(17)));
        assert_eq!(order(1, "a b", 12), Err(OrderError::PrefixCharacters));
    }

    #[test]
    fn a_code_space_that_is_too_small_names_a_length_and_a_count_that_work() {
        let refusal = order(100_000, "", 5).unwrap_err();
        let OrderError::TooDense { length_wanted, count_max, .. } = refusal else {
            panic!("{refusal:?}");
        };
        assert_eq!(order(100_000, "", length_wanted), Ok(()));
        assert_eq!(order(u32::try_from(count_max).unwrap(), "", 5), Ok(()));
        assert!(order(u32::try_from(count_max).unwrap() + 1, "", 5).is_err());
    }

    #[test]
    fn prefix_and_length_have_defaults() {
        let order: BatchOrder = serde_json::from_str("{\"count\": 5}").unwrap();
        assert_eq!(order, BatchOrder { count: 5, prefix: String::new(), length: 12 });
    }
}
