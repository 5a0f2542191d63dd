//! Callers with a token that the operator gave them: which token a request has, and who its caller is.

mod file;
mod list;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use longhaul_core::Timestamp;

pub use self::file::read_token_file;
pub use self::list::{BearerTokens, TokenEntry, TokenFaults, TokensError, time_of, time_text};
use crate::{Challenge, Identified, InvalidToken, Rejection};

/// The token that a request carries (RFC 6750, section 2.1).
///
/// # Errors
/// If it has none, or several.
pub fn bearer_token(headers: &HeaderMap) -> Result<&str, Rejection> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let (only, further) = (sent.next(), sent.next());
    if further.is_some() {
        let challenge = Challenge::default().invalid_request("send one Authorization header");
        return Err(Rejection::SeveralTokens { challenge });
    }
    only.and_then(|only| only.to_str().ok()).and_then(token).ok_or_else(|| refused(None))
}

fn token(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim_start())
}

impl BearerTokens {
    /// The caller that has `token`.
    ///
    /// # Errors
    /// If it is not in the list, or has expired.
    pub fn identify(&self, token: &str, now: Timestamp) -> Result<Identified, Rejection> {
        let entry = self.find(token).ok_or_else(|| refused(Some(InvalidToken("the token is not known".into()))))?;
        if entry.has_expired(now) {
            return Err(refused(Some(InvalidToken("the token has expired: ask the operator for a new one".into()))));
        }
        Ok(Identified { principal: entry.principal(), challenge: Challenge::default() })
    }
}

fn refused(why: Option<InvalidToken>) -> Rejection {
    Rejection::Unauthorized {
        reason: "this server wants a token that it knows, in the header `Authorization: Bearer TOKEN`".into(),
        challenge: Challenge::default().unauthorized(why, ""),
    }
}
