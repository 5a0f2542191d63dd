//! The token of a user who has signed in: sent with each request to its server, and renewed when it has expired.

use std::time::{Duration, UNIX_EPOCH};

use futures::future::BoxFuture;
use longhaul_client::{Challenge, Credentials, Error};
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Request, StatusCode};
use rmcp::transport::auth::{OAuthClientConfig, WWWAuthenticateParams};
use serde_json::Value;
use url::Url;

use super::discovery::{Failed, discover};
use super::logins::{Login, Place};
use crate::clock;
use crate::limits::OVER_SOON;
use crate::out;

/// The sign-in at a server, if there is one.
pub(crate) struct Bearer {
    server: Url,
    place: Place,
    how: String,
}

impl Bearer {
    /// For a server; `None` if no variable names the folder of sign-ins. `how` is the command with which its user logs
    /// in.
    pub(crate) fn of(server: &Url, how: String) -> Option<Self> {
        Some(Self { server: server.clone(), place: Place::of(server)?, how })
    }

    fn logged_out(&self, why: &str) -> Error {
        Error::NoCredentials(format!("{why}; to log in: {}", self.how))
    }

    fn read(&self) -> Result<Option<Login>, Error> {
        self.place.read().map_err(|why| self.logged_out(&why))
    }

    async fn authorize(&self, request: &mut Request) -> Result<(), Error> {
        // No other server gets it.
        if *request.url() != self.server {
            return Ok(());
        }
        let Some(login) = self.read()? else { return Ok(()) };
        let mut token = token_of(&login);
        if is_over_soon(&login) {
            token = self.renewed(token.as_deref()).await?;
        }
        let Some(token) = token else { return Ok(()) };
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_error| self.logged_out("the token cannot be sent"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }

    /// Another token than the expired one.
    async fn renewed(&self, over: Option<&str>) -> Result<Option<String>, Error> {
        let _held = self.place.hold().await.map_err(|why| self.logged_out(&why))?;
        let Some(login) = self.read()? else { return Err(self.logged_out("not logged in any more")) };
        let now = token_of(&login);
        if now.as_deref() != over {
            return Ok(now);
        }
        match self.renew_held(login).await {
            Ok(token) => Ok(Some(token)),
            Err(Failed::Unreachable(why)) => {
                Err(Error::Unreachable(format!("the authorization server did not renew the token: {why}")))
            }
            Err(Failed::Wrong(why) | Failed::NoRegistration(why)) => {
                Err(self.logged_out(&format!("the token cannot be renewed: {}", out::line(&why))))
            }
            Err(Failed::LoggedOut) => {
                // The token is of no more use.
                self.place.remove().map_err(Error::NoCredentials)?;
                Err(self.logged_out("the log-in is over"))
            }
        }
    }

    async fn renew_held(&self, login: Login) -> Result<String, Failed> {
        let (mut manager, _metadata) = discover(&self.server, None).await?;
        manager.set_credential_store(self.place.renewing(&login));
        // Checks that the issuer of these tokens is still the same.
        if !manager.initialize_from_store().await? {
            return Err(Failed::LoggedOut);
        }
        if let Some(secret) = login.client_secret {
            let config =
                OAuthClientConfig::new(login.tokens.client_id, self.server.as_str()).with_client_secret(secret);
            manager.configure_client(config)?;
        }
        manager.refresh_token().await?;
        let renewed = self.place.read().map_err(Failed::Wrong)?;
        renewed.as_ref().and_then(token_of).ok_or(Failed::LoggedOut)
    }

    async fn after(&self, challenge: &Challenge<'_>) -> Result<bool, Error> {
        let said = challenge.text.map(|text| WWWAuthenticateParams::parse(text, &self.server)).unwrap_or_default();
        let sent = challenge.sent.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        match (challenge.status, sent) {
            (StatusCode::UNAUTHORIZED, Some(sent)) => {
                let renewed = self.renewed(Some(sent)).await;
                renewed.map(|token| token.is_some()).map_err(|error| quoting(error, said.error_description))
            }
            (StatusCode::UNAUTHORIZED, None) => match challenge.text {
                Some(text) if text.to_ascii_lowercase().starts_with("bearer") => Err(self.logged_out("not logged in")),
                Some(_) => Ok(false),
                // API Gateway hides the server's demand.
                None => Err(self.logged_out(&format!("the server refuses this caller: status {}", challenge.status))),
            },
            (_, Some(_)) if said.is_insufficient_scope() => Err(self.step_up(&said.scope.unwrap_or_default()).await),
            _ => Ok(false),
        }
    }

    /// Notes the scopes that the server wants, so that the next sign-in requests them too.
    async fn step_up(&self, scopes: &str) -> Error {
        let noted = async {
            let _held = self.place.hold().await?;
            let Some(mut login) = self.place.read()? else { return Ok(()) };
            let new = scopes.split_whitespace().filter(|scope| !login.wanted.iter().any(|one| one == scope));
            let new: Vec<String> = new.map(str::to_owned).collect();
            login.wanted.extend(new);
            self.place.write(&login)
        };
        match noted.await {
            Ok(()) => self.logged_out(&format!("the server wants more scopes for this: `{}`", out::line(scopes))),
            Err(why) => self.logged_out(&why),
        }
    }
}

/// An error with the server's words about the token: another token may be refused for the same reason.
fn quoting(error: Error, said: Option<String>) -> Error {
    match (error, said) {
        (Error::NoCredentials(why), Some(said)) => {
            Error::NoCredentials(format!("the server refuses the token: {}; {why}", out::line(&said)))
        }
        (error, _) => error,
    }
}

/// The token of a new sign-in, which is tried once: it is not renewed.
pub(super) struct Trial(pub(super) Bearer);

impl Credentials for Trial {
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.0.authorize(request))
    }

    fn renew<'a>(&'a self, challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async {
            let Self(bearer) = self;
            let said = challenge.text.map(|text| WWWAuthenticateParams::parse(text, &bearer.server));
            match said.filter(WWWAuthenticateParams::is_insufficient_scope) {
                Some(said) => Err(bearer.step_up(&said.scope.unwrap_or_default()).await),
                None => Ok(false),
            }
        })
    }
}

impl Credentials for Bearer {
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.authorize(request))
    }

    fn renew<'a>(&'a self, challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.after(challenge))
    }
}

/// The access token. Its type does not let anything but JSON see it without the crate that it is from.
fn token_of(login: &Login) -> Option<String> {
    field(login, "access_token").and_then(|token| token.as_str().map(str::to_owned))
}

fn is_over_soon(login: &Login) -> bool {
    let lives = field(login, "expires_in").and_then(|seconds| seconds.as_u64());
    let (Some(lives), Some(begun)) = (lives, login.tokens.token_received_at) else { return false };
    let now = clock::system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(begun.saturating_add(lives)) < now + OVER_SOON
}

fn field(login: &Login, name: &str) -> Option<Value> {
    let tokens = serde_json::to_value(login.tokens.token_response.as_ref()?).ok()?;
    tokens.get(name).cloned()
}
