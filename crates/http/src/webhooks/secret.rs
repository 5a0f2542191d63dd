//! Secrets, and the signatures of Standard Webhooks that are made with them: symmetric ones (`v1`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How many bytes a secret may have.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A symmetric secret as Standard Webhooks writes it: `whsec_`, and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is not a secret. The error does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not `whsec_` followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

impl Secret {
    /// The secret in `text`.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let bytes = text.trim().strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
        bytes.filter(|bytes| BYTES.contains(&bytes.len())).map(Self).ok_or(InvalidSecret)
    }
}

impl fmt::Debug for Secret {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The header `webhook-signature`: one signature for each secret, so that a receiver that knows one of them is content.
/// `at_s` are seconds since the epoch, those of `webhook-timestamp`.
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, at_s: u64, body: &str) -> String {
    let signed = |secret: &Secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{at_s}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    secrets.iter().map(signed).collect::<Vec<_>>().join(" ")
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

    #[test]
    fn a_message_is_signed_as_the_specification_says() {
        // The example of the specification's reference libraries.
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let signature = signatures(std::slice::from_ref(&secret), id, 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs() {
        let [old, new] = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
            .map(|text| Secret::parse(text).unwrap());
        let [one, other] = [&old, &new].map(|secret| signatures(std::slice::from_ref(secret), "a", 1, "{}"));
        assert_eq!(signatures(&[old, new], "a", 1, "{}"), format!("{one} {other}"));
    }
}
