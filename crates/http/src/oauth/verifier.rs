//! From a token to its bearer.

use std::sync::Arc;

use longhaul_core::{Clock, Principal, Timestamp};

use crate::oauth::Fetch;
use crate::oauth::audience::{Audiences, Resource};
use crate::oauth::config::OauthConfig;
use crate::oauth::key_set::Key;
use crate::oauth::keys::{IssuerKeys, Keys, NoKeys};
use crate::oauth::refusal::Refusal;
use crate::oauth::remembered::{Fingerprint, Proven, Remembered};
use crate::oauth::token::Token;

/// Verifies tokens.
pub(crate) struct Verifier {
    issuers: Vec<Arc<IssuerKeys>>,
    audiences: Audiences,
    client_ids: Vec<String>,
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
            client_ids: config.client_ids.clone(),
            owner_claim: config.owner_claim.clone(),
            claims: config.claims.clone(),
            remembered: Remembered::default(),
            clock,
        }
    }

    /// The bearer of this token, which was sent to `here`.
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
        let (stated, tenant) = (token.claims.issuer()?, token.claims.tenant());
        let is_stated = |keys: &Arc<IssuerKeys>| keys.issuer.is_named_by(stated, tenant);
        let issuer = self.issuers.iter().position(is_stated).ok_or(Refusal::Issuer)?;
        let keys = self.issuers.get(issuer).ok_or(Refusal::Issuer)?;
        let until = token.claims.check_times(now)?;
        self.check_audience(&token, here)?;
        if token.claims.is_another_kind() {
            return Err(Refusal::AnotherKind);
        }
        if token.claims.is_bound() {
            return Err(Refusal::Bound);
        }
        let version = signed(&token, keys).await?;
        let principal = Arc::new(self.principal(&token, stated)?);
        Ok(Proven { principal, issuer, version, until })
    }

    /// Whether the token is for this server: by its audience, or by its client if it has no audience.
    fn check_audience(&self, token: &Token<'_>, here: &Resource) -> Result<(), Refusal> {
        let is_for_here = match token.claims.client_instead_of_audience() {
            Some(_) if self.client_ids.is_empty() => return Err(Refusal::NoAudience),
            Some(client) => self.client_ids.iter().any(|allowed| allowed == client),
            None => self.audiences.accept(here, token.claims.audiences()?.into_iter()),
        };
        if is_for_here { Ok(()) } else { Err(Refusal::Audience) }
    }

    fn principal(&self, token: &Token<'_>, issuer: &str) -> Result<Principal, Refusal> {
        let claims = &token.claims;
        let subject = claims.subject()?;
        let owner = self.owner_claim.as_deref().map(|claim| Ok((claim, claims.owner(claim)?))).transpose()?;
        let visible = claims.visible(&self.claims)?;
        Principal::of_token(issuer, subject, owner, visible, claims.scopes()?).ok_or(Refusal::NoSubject)
    }
}

/// The version of the issuer's keys that the token is signed with. A key that is not known may be new.
async fn signed(token: &Token<'_>, keys: &Arc<IssuerKeys>) -> Result<u64, Refusal> {
    let known = keys.current().await.map_err(|NoKeys { retry_after_s }| Refusal::NoKeys { retry_after_s })?;
    let tenant = token.claims.issuer().ok().and_then(|stated| keys.issuer.tenant_in(stated));
    match is_signed(token, tenant, &known) {
        Some(is_signed) => said(is_signed, &known),
        None => match keys.after(&known).await {
            Some(newer) => said(is_signed(token, tenant, &newer).unwrap_or(false), &newer),
            None => Err(Refusal::Signature),
        },
    }
}

const fn said(is_signed: bool, keys: &Keys) -> Result<u64, Refusal> {
    if is_signed { Ok(keys.version) } else { Err(Refusal::Signature) }
}

/// Whether one of the keys that the token names made its signature; `None` if it names none of them.
fn is_signed(token: &Token<'_>, tenant: Option<&str>, keys: &Keys) -> Option<bool> {
    let candidates = keys.set.candidates(token.key_id.as_deref(), token.algorithm)?;
    let is_allowed = |key: &&Key| tenant.is_none_or(|tenant| key.may_sign_for(tenant));
    Some(candidates.into_iter().filter(is_allowed).any(|key| token.is_signed_by(key)))
}
