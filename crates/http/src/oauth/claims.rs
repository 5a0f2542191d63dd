//! The claims of a token (RFC 7519, RFC 9068).

use std::collections::BTreeSet;

use longhaul_core::{Scopes, Timestamp};
use serde_json::{Map, Value};

use crate::oauth::object;
use crate::oauth::refusal::Refusal;

/// How much the clocks of an issuer and of this server may differ.
const LEEWAY_S: f64 = 30.0;

/// Bytes of a subject, or of the claim that names the owner. OpenID Connect allows 255 characters.
const NAME_BYTES_MAX: usize = 512;

/// Scopes of a token.
const SCOPES_MAX: usize = 256;

/// Audiences of a token.
const AUDIENCES_MAX: usize = 64;

/// Bytes of the claims that tools may see: they are stored with each task.
const VISIBLE_BYTES_MAX: usize = 4 * 1024;

/// The claims of a token. None of them is true before the token's signature was verified.
pub(crate) struct Claims(Map<String, Value>);

impl Claims {
    /// Reads the JSON object of a token.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Refusal> {
        object::parse(text).map(Self).ok_or(Refusal::Claims)
    }

    pub(crate) fn issuer(&self) -> Result<&str, Refusal> {
        self.text("iss").ok_or(Refusal::NoClaim("iss"))
    }

    /// The tenant of Microsoft Entra ID whose user or program this is.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.text("tid")
    }

    /// The client that the token was issued to, if the token names no audience: Amazon Cognito names the client alone
    /// in its access tokens.
    pub(crate) fn client_instead_of_audience(&self) -> Option<&str> {
        if self.0.contains_key("aud") { None } else { self.text("client_id") }
    }

    /// The caller, if the token names one.
    pub(crate) fn subject(&self) -> Result<Option<&str>, Refusal> {
        match self.0.get("sub") {
            None => Ok(None),
            Some(value) => value.as_str().filter(|subject| is_name(subject)).map(Some).ok_or(Refusal::Claim("sub")),
        }
    }

    /// Checks the times, and returns when the token ends: the clocks' difference included.
    pub(crate) fn check_times(&self, now: Timestamp) -> Result<Timestamp, Refusal> {
        let now_s = seconds(now);
        let expires_s = self.time("exp")?.ok_or(Refusal::NoClaim("exp"))? + LEEWAY_S;
        if expires_s <= now_s {
            return Err(Refusal::Expired);
        }
        for name in ["nbf", "iat"] {
            if self.time(name)?.is_some_and(|begins_s| begins_s - LEEWAY_S > now_s) {
                return Err(Refusal::Early);
            }
        }
        Ok(now.plus_ms(milliseconds(expires_s - now_s)))
    }

    /// The audience of the token.
    pub(crate) fn audiences(&self) -> Result<Vec<&str>, Refusal> {
        self.texts("aud", AUDIENCES_MAX)?.ok_or(Refusal::NoClaim("aud"))
    }

    /// Whether its bearer has to prove that it has a key (RFC 7800).
    pub(crate) fn is_bound(&self) -> bool {
        self.0.contains_key("cnf")
    }

    /// Whether the token says of itself that it is another kind: one that tells a client who logged in, or one that
    /// renews others. Issuers sign them with the same keys, and an audience may be a name that a client has too.
    pub(crate) fn is_another_kind(&self) -> bool {
        let says = |claim: &str, kinds: &[&str]| self.text(claim).is_some_and(|kind| kinds.contains(&kind));
        // OpenID Connect Core, section 3.3.2.11.
        ["at_hash", "c_hash", "s_hash"].iter().any(|hash| self.0.contains_key(*hash))
            // Amazon Cognito, and Keycloak.
            || says("token_use", &["id"])
            || says("typ", &["ID", "Refresh", "Offline", "Logout"])
    }

    /// The granted scopes: `scope` (RFC 8693), or `scp` as some issuers have it.
    pub(crate) fn scopes(&self) -> Result<Scopes, Refusal> {
        let name = if self.0.contains_key("scope") { "scope" } else { "scp" };
        let texts = self.texts(name, SCOPES_MAX)?.unwrap_or_default();
        let scopes: BTreeSet<String> = texts
            .iter()
            .flat_map(|text| text.split(' '))
            .filter(|scope| !scope.is_empty())
            .map(str::to_owned)
            .collect();
        let is_readable = scopes.len() <= SCOPES_MAX && scopes.iter().all(|scope| Scopes::is_scope(scope));
        if is_readable { Ok(Scopes::Granted(scopes)) } else { Err(Refusal::Claim(name)) }
    }

    /// The one value of the claim that names the owner.
    pub(crate) fn owner(&self, claim: &str) -> Result<&str, Refusal> {
        let value = match self.0.get(claim) {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Array(values)) => match values.as_slice() {
                [Value::String(text)] => Some(text.as_str()),
                _ => None,
            },
            Some(_) | None => None,
        };
        value.filter(|value| is_name(value)).ok_or_else(|| Refusal::NoOwner(claim.to_owned()))
    }

    /// The claims that tools may see.
    pub(crate) fn visible(&self, names: &[String]) -> Result<Map<String, Value>, Refusal> {
        let visible: Map<String, Value> =
            names.iter().filter_map(|name| Some((name.clone(), self.0.get(name)?.clone()))).collect();
        let is_small = serde_json::to_vec(&visible).is_ok_and(|text| text.len() <= VISIBLE_BYTES_MAX);
        if is_small { Ok(visible) } else { Err(Refusal::LargeClaims) }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A string, or a list of at most `most` strings.
    fn texts(&self, name: &'static str, most: usize) -> Result<Option<Vec<&str>>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(vec![text])),
            Some(Value::Array(values)) if values.len() <= most => {
                let texts: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
                texts.map(Some).ok_or(Refusal::Claim(name))
            }
            Some(_) => Err(Refusal::Claim(name)),
        }
    }

    /// A time in seconds since 1970 (RFC 7519, section 2).
    fn time(&self, name: &'static str) -> Result<Option<f64>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => {
                let time = value.as_f64().filter(|time| time.is_finite() && *time >= 0.0);
                time.map(Some).ok_or(Refusal::Claim(name))
            }
        }
    }
}

/// Whether a text may name a caller: not empty, not long, nothing that a log or a terminal would act on.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control)
}

#[expect(clippy::cast_precision_loss, reason = "times of this millennium have fewer bits than an f64 holds")]
fn seconds(time: Timestamp) -> f64 {
    time.as_ms() as f64 / 1_000.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast keeps what is too large at the largest value, and the argument is positive"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1_000.0).min(1e15) as u64
}
