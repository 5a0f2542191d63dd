//! How tokens may be signed: with a private key, so that nobody who can verify a token can make one (RFC 7518,
//! section 3; RFC 8037).

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, VerificationAlgorithm,
};

/// One of the algorithms that are allowed.
#[derive(Debug)]
pub(crate) struct Algorithm {
    /// Its name in the header of a token.
    pub(crate) name: &'static str,
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

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    Algorithm { name, keys: Keys::Rsa(parameters) }
}

/// All of them. There is no `none` here and no HMAC, whose key would be the one that everybody knows.
pub(crate) static ALLOWED: [Algorithm; 9] = [
    rsa("RS256", &RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &RSA_PSS_2048_8192_SHA512),
    Algorithm { name: "ES256", keys: Keys::Ec { curve: "P-256", bytes: 32, verification: &ECDSA_P256_SHA256_FIXED } },
    Algorithm { name: "ES384", keys: Keys::Ec { curve: "P-384", bytes: 48, verification: &ECDSA_P384_SHA384_FIXED } },
    Algorithm { name: "EdDSA", keys: Keys::Ed25519(&ED25519) },
];
