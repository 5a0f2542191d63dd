//! Signatures of Standard Webhooks, symmetric ones (`v1`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Secret;

/// The header `webhook-signature`: one signature for each secret, so that a receiver that knows one of them is content.
/// `at_s` are seconds since the epoch, those of `webhook-timestamp`.
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, at_s: u64, body: &str) -> String {
    let signed = |secret: &Secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{at_s}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    secrets.iter().map(signed).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
