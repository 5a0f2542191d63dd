//! A resource server, its issuer and its clock.

use std::sync::Arc;

use harness::tokens::issuer::Issuer;
use harness::tokens::signing::Private;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Request, StatusCode};
use longhaul_core::settings::table::{self, Callers};
use longhaul_core::settings::{Place, SettingsError, Values};
use longhaul_core::{Clock, Principal};
use longhaul_http::oauth::{OauthConfig, ResourceServer};
use longhaul_http::{Identify, Rejection};
use longhaul_testkit::ManualClock;
use serde_json::{Value, json};

pub(crate) const AUDIENCE: &str = "https://mcp.example.com/mcp";

pub(crate) struct World {
    pub(crate) issuer: Issuer,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) server: Arc<ResourceServer>,
    pub(crate) key: Private,
}

/// What is on the command line of a local server with `--auth oauth`.
pub(crate) fn values(issuers: &[&str], audiences: &[&str]) -> Values {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let mut values = Values::defaults(Place::Local, &[&table::ALL]);
    values.set(&table::AUTH, &Callers::Oauth);
    values.set(&table::OAUTH_ISSUER, &list(issuers));
    values.set(&table::OAUTH_AUDIENCE, &list(audiences));
    values
}

pub(crate) fn config(values: &Values) -> Result<OauthConfig, SettingsError> {
    OauthConfig::of(values)?.with_own_url(values)
}

impl World {
    /// With one key, called `1`.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Values)) -> Self {
        let (issuer, key) = (Issuer::start().await, Private::ed());
        issuer.publish(&[key.jwk("1")]);
        let clock = Arc::new(ManualClock::default());
        let mut values = values(&[&issuer.name], &[AUDIENCE]);
        change(&mut values);
        values.set(&table::SCOPE_CALL, &["call", "offline_access"].map(str::to_owned).into());
        let config = config(&values).unwrap();
        let server = Arc::new(ResourceServer::new(config, Arc::clone(&clock) as _));
        Self { issuer, clock, server, key }
    }

    pub(crate) fn now_s(&self) -> u64 {
        self.clock.now().as_ms() / 1_000
    }

    /// The claims of a good token that holds for a day.
    pub(crate) fn claims(&self) -> Value {
        let now = self.now_s();
        json!({"iss": self.issuer.name, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + 86_400, "scope": "call \
            read"})
    }

    /// The claims of a good token, with some of them changed.
    pub(crate) fn claims_with(&self, changes: &Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        claims
    }

    pub(crate) fn token_with(&self, changes: &Value) -> String {
        self.key.token(&header("1"), &self.claims_with(changes))
    }

    pub(crate) fn token(&self) -> String {
        self.token_with(&json!({}))
    }

    pub(crate) async fn identify(&self, token: &str) -> Result<Principal, Refused> {
        let request = request(&[&format!("Bearer {token}")]);
        match self.server.identify(&request).await {
            Ok(identified) => Ok(identified.principal),
            Err(rejection) => Err(Refused::of(&rejection)),
        }
    }

    /// Why a token is refused with 401.
    pub(crate) async fn fault(&self, token: &str) -> String {
        let refused = self.identify(token).await.expect_err("the token is refused");
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
        assert!(refused.challenge.contains("error=\"invalid_token\""), "{}", refused.challenge);
        refused.message
    }

    pub(crate) async fn accepts(&self, token: &str) -> bool {
        self.identify(token).await.is_ok()
    }
}

pub(crate) fn header(key_id: &str) -> Value {
    json!({"alg": "EdDSA", "typ": "at+jwt", "kid": key_id})
}

pub(crate) fn request(authorization: &[&str]) -> Parts {
    let request = Request::post("/mcp").header("host", "mcp.example.com");
    let request = authorization.iter().fold(request, |request, value| request.header(AUTHORIZATION, *value));
    request.body(()).unwrap().into_parts().0
}

/// A refusal, as its sender sees it.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) challenge: String,
    pub(crate) retry_after: Option<String>,
}

impl Refused {
    pub(crate) fn of(rejection: &Rejection) -> Self {
        let answer = rejection.into_response();
        let text = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        Self {
            status: answer.status(),
            message: rejection.to_string(),
            challenge: text(WWW_AUTHENTICATE).unwrap_or_default(),
            retry_after: text(RETRY_AFTER),
        }
    }
}
