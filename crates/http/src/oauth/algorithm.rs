//! The allowed signatures of tokens. All need a private key, so that a verifier of tokens cannot make one (RFC 7518,
//! section 3; RFC 8037; RFC 9864).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
    RSA_PSS_2048_8192_SHA512, RsaParameters, VerificationAlgorithm,
};

/// One of the algorithms that are allowed.
#[derive(Debug)]
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    /// A second name for the same.
    other_name: Option<&'static str>,
    pub(crate) keys: Keys,
}

/// The keys that an algorithm takes.
#[derive(Debug)]
pub(crate) enum Keys {
    Rsa(&'static RsaParameters),
    /// Points on a curve, whose coordinates have so many bytes.
    Ec {
        curve: &'static str,
        bytes: usize,
        verification: &'static dyn VerificationAlgorithm,
    },
    Ed25519(&'static dyn VerificationAlgorithm),
}

impl Algorithm {
    /// Whether a token or a key that states `name` means this one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.other_name == Some(name)
    }
}

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    Algorithm { name, other_name: None, keys: Keys::Rsa(parameters) }
}

const fn ec(
    name: &'static str,
    curve: &'static str,
    bytes: usize,
    verification: &'static dyn VerificationAlgorithm,
) -> Algorithm {
    Algorithm { name, other_name: None, keys: Keys::Ec { curve, bytes, verification } }
}

/// All of them. There is no `none` here and no HMAC, whose key would be the public one.
pub(crate) static ALLOWED: [Algorithm; 10] = [
    rsa("RS256", &RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &RSA_PSS_2048_8192_SHA512),
    ec("ES256", "P-256", 32, &ECDSA_P256_SHA256_FIXED),
    ec("ES384", "P-384", 48, &ECDSA_P384_SHA384_FIXED),
    ec("ES512", "P-521", 66, &ECDSA_P521_SHA512_FIXED),
    // `EdDSA` leaves the curve to the key; only one is allowed here.
    Algorithm { name: "Ed25519", other_name: Some("EdDSA"), keys: Keys::Ed25519(&ED25519) },
];
