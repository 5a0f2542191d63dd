//! Why a token is not accepted.

use std::borrow::Cow;

use crate::InvalidToken;

/// Why a token is not accepted: what an honest caller needs to know, and nothing of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is longer than any token should be.
    TooLarge,
    /// It is not a signed JWT.
    NotSigned,
    /// Its header asks for something that is not done here.
    Header,
    /// Its claims are not a JSON object.
    Claims,
    /// It lacks this claim.
    NoClaim(&'static str),
    /// This claim cannot be read.
    Claim(&'static str),
    /// Its issuer is not accepted here.
    Issuer,
    /// It is for another server.
    Audience,
    /// It names no audience, and this server has no list of clients.
    NoAudience,
    /// It is too old.
    Expired,
    /// It is not valid yet.
    Early,
    /// It is an ID token, or one that renews others.
    AnotherKind,
    /// It is worth something only together with a key, which cannot be checked here.
    Bound,
    /// It was not signed by a key of its issuer.
    Signature,
    /// It does not say who bears it.
    NoSubject,
    /// It does not say whose tasks its bearer sees: this claim has not exactly one value.
    NoOwner(String),
    /// The claims that tools may see are too large.
    LargeClaims,
    /// The keys of its issuer are not known now, so it cannot be verified.
    NoKeys {
        /// When to try again.
        retry_after_s: u64,
    },
}

impl Refusal {
    /// The message for the caller.
    pub(crate) fn reason(&self) -> Cow<'static, str> {
        let fixed = match self {
            Self::NoClaim(claim) => return format!("the token lacks the claim `{claim}`").into(),
            Self::Claim(claim) => return format!("the token's claim `{claim}` cannot be read").into(),
            Self::NoOwner(claim) => {
                let why = "which says whose tasks these are, or has several values in it";
                return format!("the token lacks the claim `{claim}`, {why}").into();
            }
            Self::TooLarge => "the token is too large",
            Self::NotSigned => "the token is not a signed JWT, and this server accepts no other tokens",
            Self::Header => "the token is signed in a way, or is of a type, that this server does not accept",
            Self::Claims => "the token's claims are not a JSON object",
            Self::Issuer => "the token is not from an authorization server that this server accepts",
            Self::Audience => "the token was not issued for this server: ask for one with its URL as the resource",
            Self::NoAudience => {
                "the token says for which client it is, and not for which server: this server accepts the clients that \
                 its operator lists"
            }
            Self::Expired => "the token has expired",
            Self::Early => "the token is not valid yet",
            Self::AnotherKind => "the token is not an access token: ID tokens and refresh tokens are not accepted",
            Self::Bound => "the token is bound to a key, which this server cannot check: ask for a plain bearer token",
            Self::Signature => "the token's signature cannot be verified",
            Self::NoSubject => "the token lacks `sub`, which says whose tasks these are",
            Self::LargeClaims => "the token's claims are too large",
            Self::NoKeys { .. } => "the keys of the token's issuer cannot be fetched now",
        };
        fixed.into()
    }

    pub(crate) fn invalid_token(&self) -> InvalidToken {
        InvalidToken(self.reason())
    }
}
