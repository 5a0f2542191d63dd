//! A token as it arrives: a JWT in its compact form (RFC 7515, RFC 7519, RFC 9068), before anything of it is verified.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::oauth::algorithm::ALLOWED;
use crate::oauth::claims::Claims;
use crate::oauth::key_set::Key;
use crate::oauth::object;
use crate::oauth::refusal::Refusal;

/// Bytes of a token. Tokens of large organisations, with all the groups of a user, have 8 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a key's id.
const KEY_ID_BYTES_MAX: usize = 512;

/// The types of tokens that are accepted, in any case (RFC 9068, section 4); many issuers write `JWT`, or none.
const TYPES: [&str; 4] = ["at+jwt", "application/at+jwt", "JWT", "application/JWT"];

/// Members that a header must not have, because their features are not supported here. These are critical extensions,
/// encryption, compression and payloads that are not encoded.
const NOT_DONE: [&str; 4] = ["crit", "enc", "zip", "b64"];

/// A token that can be read, and nothing more.
pub(crate) struct Token<'a> {
    /// The signed part.
    message: &'a str,
    signature: Vec<u8>,
    pub(crate) algorithm: &'static str,
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Claims,
}

impl<'a> Token<'a> {
    /// Reads a token. Its header's `jwk`, `jku`, `x5u` and `x5c` are not looked at: keys come from the issuer alone.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Refusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        let (message, signature) = text.rsplit_once('.').ok_or(Refusal::NotSigned)?;
        let (header, claims) = message.split_once('.').ok_or(Refusal::NotSigned)?;
        let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_not_said| Refusal::NotSigned);
        let header = object::parse(&decoded(header)?).ok_or(Refusal::NotSigned)?;
        let (algorithm, key_id) = (algorithm(&header)?, key_id(&header)?);
        check(&header)?;
        let claims = Claims::parse(&decoded(claims)?)?;
        Ok(Self { message, signature: decoded(signature)?, algorithm, key_id, claims })
    }

    /// Whether `key` made the signature.
    pub(crate) fn is_signed_by(&self, key: &Key) -> bool {
        key.has_signed(self.message.as_bytes(), &self.signature)
    }
}

fn algorithm(header: &Map<String, Value>) -> Result<&'static str, Refusal> {
    let stated = header.get("alg").and_then(Value::as_str).ok_or(Refusal::Header)?;
    let allowed = ALLOWED.iter().find(|algorithm| algorithm.is_called(stated));
    allowed.map(|algorithm| algorithm.name).ok_or(Refusal::Header)
}

fn key_id(header: &Map<String, Value>) -> Result<Option<String>, Refusal> {
    match header.get("kid") {
        None => Ok(None),
        Some(Value::String(id)) if id.len() <= KEY_ID_BYTES_MAX => Ok(Some(id.clone())),
        Some(_) => Err(Refusal::Header),
    }
}

fn check(header: &Map<String, Value>) -> Result<(), Refusal> {
    let is_of_type = match header.get("typ") {
        None => true,
        Some(Value::String(stated)) => TYPES.iter().any(|accepted| accepted.eq_ignore_ascii_case(stated)),
        Some(_) => false,
    };
    let is_plain = NOT_DONE.iter().all(|name| !header.contains_key(*name));
    if is_of_type && is_plain { Ok(()) } else { Err(Refusal::Header) }
}
