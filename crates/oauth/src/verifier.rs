//! From a token to its bearer.

use std::sync::Arc;

use longhaul_core::{Clock, Identity, OwnerId, Principal, Timestamp, VerifiedIdentity};

use crate::Fetch;
use crate::audience::{Audiences, Resource};
use crate::config::OauthConfig;
use crate::keys::{IssuerKeys, Keys, NoKeys};
use crate::refusal::Refusal;
use crate::remembered::{Fingerprint, Proven, Remembered};
use crate::token::Token;

/// Verifies tokens.
pub(crate) struct Verifier {
    issuers: Vec<Arc<IssuerKeys>>,
    audiences: Audiences,
    owner_claim: Option<String>,
    claims: Vec<String>,
    clock: Arc<dyn Clock>,
    remembered: Remembered,
}

impl Verifier {
    pub(crate) fn new(config: &OauthConfig, fetch: &Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Self {
        let keys = |issuer: &_| Arc::new(IssuerKeys::new(Clone::clone(issuer), Arc::clone(fetch), Arc::clone(&clock)));
        Self {
            issuers: config.issuers.iter().map(keys).collect(),
            audiences: config.audiences.clone(),
            owner_claim: config.owner_claim.clone(),
            claims: config.claims.clone(),
            remembered: Remembered::default(),
            clock,
        }
    }

    /// Who bears this token, which was sent to `here`.
    pub(crate) async fn verify(&self, token: &str, here: &Resource) -> Result<Arc<Principal>, Refusal> {
        let now = self.clock.now();
        let fingerprint = Fingerprint::of(token, here.name());
        if let Some(proven) = self.remembered.find(fingerprint, now)
            && let Some(keys) = self.issuers.get(proven.issuer)
            && keys.current().await.is_ok_and(|keys| keys.version == proven.version)
        {
            return Ok(proven.principal);
        }
        let proven = self.prove(token, here, now).await?;
        let principal = Arc::clone(&proven.principal);
        self.remembered.insert(fingerprint, now, proven);
        Ok(principal)
    }

    /// Everything that needs no key is checked first: a token that could not be accepted anyway fetches nothing.
    async fn prove(&self, text: &str, here: &Resource, now: Timestamp) -> Result<Proven, Refusal> {
        let token = Token::parse(text)?;
        let issuer = token.claims.issuer()?;
        let issuer = self.issuers.iter().position(|keys| keys.issuer.name() == issuer).ok_or(Refusal::Issuer)?;
        let keys = self.issuers.get(issuer).ok_or(Refusal::Issuer)?;
        let until = token.claims.check_times(now)?;
        if !self.audiences.accept(here, token.claims.audiences()?.into_iter()) {
            return Err(Refusal::Audience);
        }
        if token.claims.is_another_kind() {
            return Err(Refusal::AnotherKind);
        }
        if token.claims.is_bound() {
            return Err(Refusal::Bound);
        }
        let version = signed(&token, keys).await?;
        let principal = Arc::new(self.principal(&token, keys.issuer.name())?);
        Ok(Proven { principal, issuer, version, until })
    }

    fn principal(&self, token: &Token<'_>, issuer: &str) -> Result<Principal, Refusal> {
        let claims = &token.claims;
        let subject = claims.subject()?;
        let owner = match &self.owner_claim {
            None => Identity::Verified { issuer, subject, tenant: "" },
            Some(claim) => Identity::Verified { issuer, subject: "", tenant: claims.owner(claim)? },
        };
        let mut identity = VerifiedIdentity::new(issuer, subject);
        identity.claims = claims.visible(&self.claims)?;
        Ok(Principal { owner: OwnerId::of(owner), identity: Some(identity), scopes: claims.scopes()? })
    }
}

/// The version of the issuer's keys that the token is signed with. A key that is not known may be new.
async fn signed(token: &Token<'_>, keys: &Arc<IssuerKeys>) -> Result<u64, Refusal> {
    let known = keys.current().await.map_err(|NoKeys { retry_after_s }| Refusal::NoKeys { retry_after_s })?;
    match is_signed(token, &known) {
        Some(is_signed) => said(is_signed, &known),
        None => match keys.after(&known).await {
            Some(newer) => said(is_signed(token, &newer).unwrap_or(false), &newer),
            None => Err(Refusal::Signature),
        },
    }
}

const fn said(is_signed: bool, keys: &Keys) -> Result<u64, Refusal> {
    if is_signed { Ok(keys.version) } else { Err(Refusal::Signature) }
}

/// Whether one of the keys that the token names made its signature; `None` if it names none of them.
fn is_signed(token: &Token<'_>, keys: &Keys) -> Option<bool> {
    let candidates = keys.set.candidates(token.key_id.as_deref(), token.algorithm)?;
    Some(candidates.into_iter().any(|key| token.is_signed_by(key)))
}
