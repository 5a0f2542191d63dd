//! The operator's settings of access tokens.

use std::collections::BTreeSet;

use longhaul_core::settings::{Kind, Setting, SettingsError, Values, table};

use crate::oauth::audience::Audiences;
use crate::oauth::issuer::Issuer;
use crate::oauth::web_url;

/// Issuers of one server.
const ISSUERS_MAX: usize = 16;

/// Audiences of one server.
const AUDIENCES_MAX: usize = 16;

/// Clients of one server whose tokens need no audience.
const CLIENT_IDS_MAX: usize = 64;

/// The most scopes in a challenge: all of them are in one header.
const SCOPES_ADVERTISED_MAX: usize = 32;

/// The scope for a refresh token. That is between it and the issuer, and no resource needs it.
const OFFLINE_ACCESS: &str = "offline_access";

/// Claims that tools may see.
const CLAIMS_MAX: usize = 32;

/// Whose tokens are accepted, for whom they have to be issued, and what is read of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthConfig {
    pub(crate) issuers: Vec<Issuer>,
    pub(crate) audiences: Audiences,
    /// The clients whose tokens need no audience.
    pub(crate) client_ids: Vec<String>,
    /// The claim whose value is the owner; the subject if there is none.
    pub(crate) owner_claim: Option<String>,
    /// The claims that tools may see.
    pub(crate) claims: Vec<String>,
    /// The scopes that clients should request at first: those of methods, or those that the operator names. The scopes
    /// of single tools are requested when a tool needs them. A client that gets no scope in its challenge requests all
    /// scopes of the metadata, which MCP therefore calls the minimal set. An issuer may refuse the whole login of a
    /// user who may not have one of them.
    pub(crate) scopes: Vec<String>,
}

impl OauthConfig {
    /// The configuration in `values`.
    pub fn of(values: &Values) -> Result<Self, SettingsError> {
        let issuers = listed(values, &table::OAUTH_ISSUER, ISSUERS_MAX)?;
        if issuers.is_empty() {
            let why = "it needs the authorization server whose tokens are accepted: set LONGHAUL_OAUTH_ISSUERS \
                       (--oauth-issuer)";
            return Err(values.refuse(&table::AUTH, &values.get(&table::AUTH)?, why));
        }
        let wrong_issuer = || {
            let why = format!(
                "each of them must be {}, and without query; of Microsoft Entra ID the tenant may be left open, as in \
                 https://login.microsoftonline.com/{{tenantid}}/v2.0",
                web_url::EXPECTED
            );
            values.refuse(&table::OAUTH_ISSUER, &issuers, &why)
        };
        let parsed = issuers.iter().map(|name| Issuer::parse(name)).collect::<Option<_>>().ok_or_else(wrong_issuer)?;
        let audiences = listed(values, &table::OAUTH_AUDIENCE, AUDIENCES_MAX)?;
        let wrong_audience = |_: &str| {
            let why = "each of them must be the URL of the MCP endpoint, such as https://mcp.example.com/mcp, without \
                       user name, query and fragment; or another name that the issuer has for it, such as \
                       api://longhaul";
            values.refuse(&table::OAUTH_AUDIENCE, &audiences, why)
        };
        Ok(Self {
            issuers: parsed,
            audiences: Audiences::parse(&audiences).map_err(wrong_audience)?,
            client_ids: listed(values, &table::OAUTH_CLIENT_ID, CLIENT_IDS_MAX)?,
            owner_claim: values.find(&table::OAUTH_OWNER_CLAIM)?,
            claims: listed(values, &table::OAUTH_CLAIMS, CLAIMS_MAX)?,
            scopes: scopes(values)?,
        })
    }

    /// The same, for a server whose operator has to set its URL: the server cannot find out how its callers reach it.
    pub fn with_own_url(self, values: &Values) -> Result<Self, SettingsError> {
        if self.audiences.resources.is_empty() {
            let why = "it needs the URL of this endpoint as its callers know it, which their tokens have to be issued \
                       for: set --oauth-audience (LONGHAUL_OAUTH_AUDIENCES)";
            return Err(values.refuse(&table::AUTH, &values.get(&table::AUTH)?, why));
        }
        Ok(self)
    }

    /// The hosts of the audiences: names of this server.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.audiences.resources.iter().map(|resource| resource.host()).collect()
    }
}

/// The scopes that clients should ask for at first.
fn scopes(values: &Values) -> Result<Vec<String>, SettingsError> {
    if let Some(advertised) = values.find(&table::SCOPES_ADVERTISED)?.filter(|scopes| !scopes.is_empty()) {
        let refuse = |why: &str| Err(values.refuse(&table::SCOPES_ADVERTISED, &advertised, why));
        if advertised.len() > SCOPES_ADVERTISED_MAX {
            return refuse(&format!("there must be at most {SCOPES_ADVERTISED_MAX} of them"));
        }
        if advertised.contains(OFFLINE_ACCESS) {
            return refuse("leave offline_access out: clients ask for it themselves, where the issuer offers it");
        }
        return Ok(advertised.into_iter().collect());
    }
    let mut scopes = BTreeSet::new();
    for setting in [&table::SCOPE_CALL, &table::SCOPE_READ, &table::SCOPE_CANCEL] {
        scopes.extend(values.find(setting)?.unwrap_or_default());
    }
    Ok(scopes.into_iter().filter(|scope| scope != OFFLINE_ACCESS).collect())
}

fn listed<K: Kind<Value = Vec<String>>>(
    values: &Values,
    setting: &Setting<K>,
    most: usize,
) -> Result<Vec<String>, SettingsError> {
    let list = values.find(setting)?.unwrap_or_default();
    if list.len() > most {
        return Err(values.refuse(setting, &list, &format!("there must be at most {most} of them")));
    }
    Ok(list)
}
