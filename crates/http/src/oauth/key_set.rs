//! The keys of an issuer (RFC 7517), and which of them a token may be verified with.

use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use longhaul_core::strict_json;
use serde::Deserialize;
use serde_json::Value;

use crate::oauth::algorithm::{ALLOWED, Algorithm, Keys};
use crate::oauth::issuer::is_for_tenant;

/// Keys of one issuer. Issuers publish fewer.
const KEYS_MAX: usize = 100;

/// Why a document is not a key set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("the key set is not a JSON object with a list of `keys`")]
    NotAKeySet,
    #[error("the key set has more than {KEYS_MAX} keys")]
    TooMany,
}

/// The keys of an issuer that verify signatures of an allowed algorithm. All others in its document are left out.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
}

/// A key, for one algorithm.
pub(crate) struct Key {
    algorithm: &'static str,
    source: Jwk,
    parsed: ParsedPublicKey,
}

/// A key as it is published: what is read of it.
#[derive(Clone, Deserialize, PartialEq, Eq)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// Whose tokens it signs, as Microsoft Entra ID says it.
    issuer: Option<String>,
}

impl KeySet {
    pub(crate) fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document = strict_json::from_slice(document).map_err(|_not_said| KeySetError::NotAKeySet)?;
        if document.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let readable = document.keys.into_iter().filter_map(|key| strict_json::from_value(key).ok());
        Ok(Self { keys: readable.flat_map(Key::of).collect() })
    }

    /// The keys that may have signed a token with `algorithm`: those called `id`, or the only one that fits. `None` if
    /// the key does not exist.
    pub(crate) fn candidates(&self, id: Option<&str>, algorithm: &str) -> Option<Vec<&Key>> {
        let is_named = |key: &&Key| id.is_none() || key.source.kid.as_deref() == id;
        let keys: Vec<&Key> = self.keys.iter().filter(is_named).filter(|key| key.algorithm == algorithm).collect();
        let is_clear = if id.is_some() { !keys.is_empty() } else { keys.len() == 1 };
        is_clear.then_some(keys)
    }

    /// Whether both sets have the same keys.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let keys = |set: &Self| set.keys.iter().map(|key| (key.algorithm, key.source.clone())).collect::<Vec<_>>();
        keys(self) == keys(other)
    }
}

impl Key {
    /// Whether the private half of this key made `signature`.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }

    /// Whether the key may sign tokens of `tenant`, where an issuer has many.
    pub(crate) fn may_sign_for(&self, tenant: &str) -> bool {
        self.source.issuer.as_deref().is_none_or(|of| is_for_tenant(of, tenant))
    }

    /// `source` for each algorithm that it fits. A key that says what it is for is for nothing else.
    fn of(source: Jwk) -> Vec<Self> {
        let is_for_signatures = source.usage.as_deref().is_none_or(|usage| usage == "sig")
            && source
                .key_ops
                .as_ref()
                .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        let is_stated = |algorithm: &&Algorithm| source.alg.as_deref().is_none_or(|stated| algorithm.is_called(stated));
        let fitting = ALLOWED.iter().filter(|_| is_for_signatures).filter(is_stated);
        let key = |algorithm: &'static Algorithm| {
            Some(Self { algorithm: algorithm.name, source: source.clone(), parsed: source.parse(&algorithm.keys)? })
        };
        fitting.filter_map(key).collect()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl Jwk {
    /// The key itself, if it is one of `keys`.
    fn parse(&self, keys: &Keys) -> Option<ParsedPublicKey> {
        match (self.kty.as_str(), keys) {
            ("RSA", Keys::Rsa(parameters)) => {
                let (n, e) = (number(self.n.as_deref())?, number(self.e.as_deref())?);
                RsaPublicKeyComponents { n, e }.to_parsed_public_key(parameters).ok()
            }
            ("EC", Keys::Ec { curve, bytes, verification }) if self.crv.as_deref() == Some(curve) => {
                let coordinate = |text| decoded(text).filter(|coordinate| coordinate.len() == *bytes);
                let (x, y) = (coordinate(self.x.as_deref())?, coordinate(self.y.as_deref())?);
                // The uncompressed form of a point (SEC 1, section 2.3.3).
                ParsedPublicKey::new(*verification, [&[4], &x[..], &y[..]].concat()).ok()
            }
            ("OKP", Keys::Ed25519(verification)) if self.crv.as_deref() == Some("Ed25519") => {
                ParsedPublicKey::new(*verification, decoded(self.x.as_deref())?).ok()
            }
            (_, Keys::Rsa(_) | Keys::Ec { .. } | Keys::Ed25519(_)) => None,
        }
    }
}

fn decoded(text: Option<&str>) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text?).ok()
}

/// A number without leading zeros, which some issuers write.
fn number(text: Option<&str>) -> Option<Vec<u8>> {
    Some(decoded(text)?.into_iter().skip_while(|byte| *byte == 0).collect())
}
