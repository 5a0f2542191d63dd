//! Secrets that webhooks are signed with.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How many bytes a secret may have.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A symmetric secret as Standard Webhooks writes it: `whsec_`, and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is no secret. Says nothing about what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not `whsec_` followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

impl Secret {
    /// The secret in `text`.
    ///
    /// # Errors
    /// [`InvalidSecret`]
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let bytes = text.trim().strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
        bytes.filter(|bytes| BYTES.contains(&bytes.len())).map(Self).ok_or(InvalidSecret)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_its_prefix_and_enough_bytes() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert!(Secret::parse(&of(24)).is_ok() && Secret::parse(&of(64)).is_ok());
        assert!(Secret::parse(&format!("{}\n", of(32))).is_ok(), "editors add the end of a line");
        for text in [of(23), of(65), of(32).replace("whsec_", ""), "whsec_?".to_owned(), String::new()] {
            assert_eq!(Secret::parse(&text), Err(InvalidSecret), "{text}");
        }
    }

    #[test]
    fn it_is_not_printed() {
        let secret = Secret::parse(&format!("whsec_{}", STANDARD.encode([7; 24]))).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
