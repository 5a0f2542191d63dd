//! The owners of tasks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A caller's identity as the HTTP frontend verified it; never what callers say about themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// Every caller of a server that was explicitly configured to accept anyone.
    Anonymous,
    /// A verified caller.
    Verified {
        /// The verifier of the subject.
        issuer: &'a str,
        /// The caller.
        subject: &'a str,
        /// On whose behalf; empty if there are no tenants.
        tenant: &'a str,
    },
}

/// The owner of a task: a hash of fixed length, so that no character inside an identity can reach another owner's keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId([u8; 32]);

/// A text that is not an owner id: not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an owner id")]
pub struct InvalidOwner;

impl OwnerId {
    /// The owner that `identity` stands for: SHA-256 over the kind and the length-prefixed fields.
    #[must_use]
    pub fn of(identity: Identity<'_>) -> Self {
        let mut hash = Sha256::new();
        match identity {
            Identity::Anonymous => hash.update([0]),
            Identity::Verified { issuer, subject, tenant } => {
                hash.update([1]);
                for field in [issuer, subject, tenant] {
                    hash.update((field.len() as u64).to_be_bytes());
                    hash.update(field);
                }
            }
        }
        Self(hash.finalize().into())
    }

    /// The hash itself.
    ///
    /// ```
    /// use longhaul_core::{Identity, OwnerId};
    ///
    /// let owner = OwnerId::of(Identity::Anonymous);
    /// assert_eq!(OwnerId::from_bytes(*owner.as_bytes()), owner);
    /// ```
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The owner whose hash this is.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [digit(byte >> 4), digit(byte & 0xf)];
        }
        f.write_str(str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "OwnerId({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

impl FromStr for OwnerId {
    type Err = InvalidOwner;

    fn from_str(text: &str) -> Result<Self, InvalidOwner> {
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_wrong_length| InvalidOwner)?;
        let (pairs, _) = digits.as_chunks::<2>();
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

/// The digit of a number below 16.
const fn digit(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'a' + number - 10 }
}

const fn hex_digit(digit: u8) -> Result<u8, InvalidOwner> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidOwner),
    }
}

impl Serialize for OwnerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OwnerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hostile() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[:#|/\u{0}a-c]{0,6}",
            any::<String>(),
            "[a-z]{1}".prop_map(|letter| letter.repeat(2048)),
        ]
    }

    proptest! {
        #[test]
        fn different_identities_are_different_owners(
            a in (hostile(), hostile(), hostile()), b in (hostile(), hostile(), hostile())
        ) {
            let owner = |t: &(String, String, String)| {
                OwnerId::of(Identity::Verified { issuer: &t.0, subject: &t.1, tenant: &t.2 })
            };
            prop_assert_eq!(owner(&a) == owner(&b), a == b);
            prop_assert_ne!(owner(&a), OwnerId::of(Identity::Anonymous));
            prop_assert_eq!(owner(&a).to_string().parse::<OwnerId>(), Ok(owner(&a)));
        }
    }

    #[test]
    fn an_owner_id_has_one_spelling() {
        let owner = OwnerId::from_bytes([0xab; 32]);
        let text = "ab".repeat(32);
        assert_eq!(owner.as_bytes(), &[0xab; 32]);
        assert_eq!(owner.to_string(), text);
        assert_eq!(format!("{owner:?}"), "OwnerId(abababab…)");
        assert_eq!(text.parse(), Ok(owner));
        for wrong in [text.to_uppercase(), "ag".repeat(32), "a:".repeat(32), "a/".repeat(32), format!("{text}a")] {
            assert_eq!(wrong.parse::<OwnerId>(), Err(InvalidOwner), "{wrong}");
        }
        let counting: Vec<u8> = (0..32_u8).map(|number| number * 7 + 3).collect();
        let counting = OwnerId::from_bytes(counting.try_into().unwrap());
        assert_eq!(counting.to_string().parse(), Ok(counting));
    }

    #[test]
    fn moving_a_character_between_fields_makes_another_owner() {
        let owner = |issuer, subject| OwnerId::of(Identity::Verified { issuer, subject, tenant: "" });
        assert_ne!(owner("auth0", ":alice"), owner("auth0:", "alice"));
    }
}
