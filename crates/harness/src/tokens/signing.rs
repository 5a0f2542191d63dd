//! Private keys, their public halves as JWKs, and tokens that they sign.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The bytes in the alphabet of tokens.
pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a text in the alphabet of tokens.
pub fn decoded(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// A private key.
pub enum Private {
    /// RSA with 2,048 bits.
    Rsa(RsaKeyPair),
    /// On the curve P-256.
    P256(EcdsaKeyPair),
    /// On the curve P-384.
    P384(EcdsaKeyPair),
    /// On the curve P-521.
    P521(EcdsaKeyPair),
    /// On Edwards' curve.
    Ed(Ed25519KeyPair),
}

impl Private {
    /// A new key for this algorithm.
    pub fn of(algorithm: &str) -> Self {
        match algorithm {
            "ES256" => Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
            "ES384" => Self::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()),
            "ES512" => Self::P521(EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).unwrap()),
            "EdDSA" | "Ed25519" => Self::ed(),
            _ => Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        }
    }

    /// A new key on Edwards' curve.
    pub fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    /// The public part of the key.
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => key.public_key().as_ref().to_vec(),
            Self::P256(key) | Self::P384(key) | Self::P521(key) => key.public_key().as_ref().to_vec(),
            Self::Ed(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// The key as an issuer publishes it.
    pub fn jwk(&self, id: &str) -> Value {
        let public = self.public();
        let point = |curve, bytes: usize| {
            json!({"kty": "EC", "kid": id, "crv": curve, "x":
            encoded(&public[1..=bytes]), "y": encoded(&public[bytes + 1..])})
        };
        match self {
            // In DER: nine bytes, the modulus of 256, two, and the exponent.
            Self::Rsa(_) => {
                json!({"kty": "RSA", "kid": id, "n": encoded(&public[9..265]), "e": encoded(&public[267..])})
            }
            Self::P256(_) => point("P-256", 32),
            Self::P384(_) => point("P-384", 48),
            Self::P521(_) => point("P-521", 66),
            Self::Ed(_) => json!({"kty": "OKP", "kid": id, "crv": "Ed25519", "x": encoded(&public)}),
        }
    }

    /// The signature of a message.
    pub fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(key) => {
                let encoding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
            Self::P256(key) | Self::P384(key) | Self::P521(key) => {
                key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
            }
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims, which are JSON strings.
    pub fn token_of(&self, header: &str, claims: &str) -> String {
        let algorithm = serde_json::from_str::<Value>(header).unwrap()["alg"].as_str().unwrap_or_default().to_owned();
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = encoded(self.sign(&algorithm, message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// A token with this header and these claims.
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        self.token_of(&header.to_string(), &claims.to_string())
    }
}

/// A token whose HMAC has this key.
pub fn hmac_token(header: &Value, claims: &Value, key: &[u8]) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes());
    format!("{message}.{}", encoded(tag))
}
