//! `longhaul login` and `longhaul logout`.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use longhaul_client::{Challenge, Client, Credentials, Error, Target, with_causes};
use reqwest::{Request, StatusCode};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
};
use url::Url;

use super::bearer::{Bearer, Trial};
use super::discovery::{Failed, discover, says};
use super::logins::Place;
use super::redirect::{Answer, Asked, Redirect};
use crate::address::check_secure;
use crate::args::LogIn;
use crate::exit::{Exit, Stop};
use crate::limits::USER_MAX;
use crate::out;

/// The name of this client for authorization servers.
const NAME: &str = "longhaul";

/// Opens pages.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Logs the user in at the server's authorization server, in the browser.
///
/// `again` is the command that does so.
pub(crate) async fn login(target: Target, how: &LogIn, secret: Option<String>, again: &str) -> Result<Exit, Stop> {
    let server = target.url.clone();
    check_secure(&server)?;
    let place =
        Place::of(&server).ok_or_else(|| Stop::usage("neither XDG_STATE_HOME nor HOME says where to keep it"))?;
    let challenge = challenge_of(target.clone()).await?;
    let (manager, metadata) = discover(&server, challenge.as_deref()).await.map_err(|why| stopped(&server, why))?;
    let redirect = Redirect::open(how.callback_port).await;
    let redirect = redirect.map_err(|error| {
        Stop::new(Exit::Unexpected, format!("the browser cannot come back to port {}: {error}", how.callback_port))
    })?;
    let scopes = scopes(&manager, how, &place).await;
    let hint = hint_of(&scopes, &metadata, again);
    let session = begin(manager, &metadata, how, secret, scopes, &redirect, &place).await;
    let session = session.map_err(|why| match why {
        Failed::NoRegistration(why) => stopped(
            &server,
            Failed::Wrong(format!(
                "{why}: register a client at the authorization server yourself, then: {again} --client-id ID"
            )),
        ),
        why => stopped(&server, why),
    })?;
    show(session.get_authorization_url(), how);
    let state = state_of(session.get_authorization_url());
    let names_itself = says(&metadata, "authorization_response_iss_parameter_supported");
    let asked = Asked { state: &state, issuer: metadata.issuer.as_deref(), names_itself };
    let answer = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => return Err(Stop::interrupted()),
        answer = tokio::time::timeout(USER_MAX, redirect.answer(&asked)) => answer,
    };
    let refused = |why: String| Stop::new(Exit::NotSignedIn, why);
    let (code, issuer) = match answer {
        Ok(Answer::Code { code, issuer }) => (code, issuer),
        Ok(Answer::Refused(why)) => {
            return Err(refused(format!("the authorization server refuses the sign-in: {}{hint}", out::line(&why))));
        }
        Ok(Answer::OfAnother) => {
            return Err(refused("another authorization server has answered than the one that was asked".to_owned()));
        }
        Err(_late) => return Err(refused(format!("you did not sign in within {} minutes", USER_MAX.as_secs() / 60))),
    };
    let held = place.hold().await.map_err(refused)?;
    let got = session.handle_callback_with_issuer(&code, &state, issuer.as_deref()).await;
    got.map_err(|error| stopped(&server, error.into()))?;
    drop(held);
    try_out(target, again).await
}

/// Sends the new token once: the server's error is more useful now than before every other command.
async fn try_out(mut target: Target, again: &str) -> Result<Exit, Stop> {
    let server = target.url.clone();
    let bearer = Bearer::of(&server, again.to_owned());
    target.credentials = bearer.map(|bearer| Arc::new(Trial(bearer)) as Arc<dyn Credentials>);
    match Client::connect(target, None).await {
        Ok(client) => client.close().await,
        Err(error @ (Error::NotSignedIn(_) | Error::NoCredentials(_))) => {
            let why = out::line(&error.to_string());
            let why = format!("the authorization server gave a token for {server}, which does not accept it: {why}");
            return Err(Stop::new(Exit::NotSignedIn, why));
        }
        Err(error) => out::say(&format!("warning: the token could not be tried: {}", out::line(&error.to_string()))),
    }
    out::say(&format!("Logged in to {server}"));
    Ok(Exit::Well)
}

/// A hint for a user who was refused, and has requested no scopes.
fn hint_of(scopes: &[String], metadata: &AuthorizationMetadata, again: &str) -> String {
    if !scopes.is_empty() {
        return String::new();
    }
    let known = metadata.scopes_supported.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
    let known = if known.is_empty() || known.contains('\'') { "SCOPES".to_owned() } else { out::line(&known) };
    format!("; no scope was asked for. To ask for some: {again} --scope '{known}'")
}

/// Signs out of a server.
pub(crate) async fn logout(server: &Url) -> Result<Exit, Stop> {
    let removed = async {
        let Some(place) = Place::of(server) else { return Ok(false) };
        // Another command that renews the token now would write it again.
        let _held = place.hold().await?;
        place.remove()
    };
    let was_there = removed.await.map_err(|why: String| Stop::new(Exit::Unexpected, why))?;
    out::say(&if was_there {
        format!("Logged out of {server}")
    } else {
        format!("You were not signed in to {server}")
    });
    Ok(Exit::Well)
}

fn stopped(server: &Url, failed: Failed) -> Stop {
    let host = server.host_str().unwrap_or_default();
    match failed {
        Failed::Unreachable(why) => Stop::new(Exit::Unreachable, format!("{host}: {}", out::line(&why))),
        Failed::Wrong(why) | Failed::NoRegistration(why) => {
            Stop::new(Exit::NotSignedIn, format!("{host}: {}", out::line(&why)))
        }
        Failed::LoggedOut => {
            Stop::new(Exit::NotSignedIn, format!("{host}: the authorization server does not let you in"))
        }
    }
}

/// Has no credentials, and keeps the server's demand for them.
#[derive(Default)]
struct Probe(Mutex<Option<String>>);

impl Credentials for Probe {
    fn add<'a>(&'a self, _request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn renew<'a>(&'a self, challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        if challenge.status == StatusCode::UNAUTHORIZED {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = challenge.text.map(str::to_owned);
        }
        Box::pin(async { Ok(false) })
    }
}

/// The server's demand of an unknown caller.
async fn challenge_of(mut target: Target) -> Result<Option<String>, Stop> {
    let probe = Arc::new(Probe::default());
    target.credentials = Some(Arc::<Probe>::clone(&probe));
    match Client::connect(target, None).await {
        Ok(client) => client.close().await,
        Err(error @ (Error::Unreachable(_) | Error::Lost(_) | Error::Busy { .. })) => return Err(error.into()),
        Err(_) => {}
    }
    Ok(probe.0.lock().unwrap_or_else(PoisonError::into_inner).take())
}

/// The scopes to request: those of the user, or those that the server wants. The latter include the scopes that it has
/// granted and missed before.
async fn scopes(manager: &AuthorizationManager, how: &LogIn, place: &Place) -> Vec<String> {
    if let Some(scopes) = &how.scope {
        return scopes.split_whitespace().map(str::to_owned).collect();
    }
    let mut scopes = manager.select_initial_scopes(&[]).await;
    // A sign-in that cannot be read is replaced.
    if let Ok(Some(before)) = place.read()
        && !before.wanted.is_empty()
    {
        scopes.extend(before.tokens.granted_scopes.into_iter().chain(before.wanted));
    }
    let mut all = Vec::new();
    for scope in scopes {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

/// Asks as the client that the user names, or as a new one.
async fn begin(
    mut manager: AuthorizationManager,
    metadata: &AuthorizationMetadata,
    how: &LogIn,
    secret: Option<String>,
    scopes: Vec<String>,
    redirect: &Redirect,
    place: &Place,
) -> Result<AuthorizationSession, Failed> {
    // An id that is a URL is a document about the client, which not all authorization servers read.
    let is_read = |id: &&String| !id.starts_with("https://") || says(metadata, "client_id_metadata_document_supported");
    let (id, secret) = match how.client_id.as_ref().filter(is_read) {
        Some(id) => (id.clone(), secret),
        None => {
            let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let client = manager.register_client(NAME, redirect.url(), &names).await;
            let client = client.map_err(|error| match error {
                AuthError::RegistrationFailed(_) => Failed::NoRegistration(with_causes(&error)),
                error => error.into(),
            })?;
            (client.client_id, client.client_secret)
        }
    };
    manager.set_credential_store(place.store(secret.clone()));
    let mut request = AuthorizationRequest::new(redirect.url()).with_preregistered_client(id);
    request = if scopes.is_empty() { request.with_initial_scope_selection() } else { request.with_scopes(scopes) };
    if let Some(secret) = secret {
        request = request.with_client_secret(secret);
    }
    AuthorizationSession::new(manager, request).await.map_err(|(_manager, error)| error.into())
}

/// The values that the answer has to repeat.
fn state_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    let state =
        url.and_then(|url| url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned()));
    state.unwrap_or_default()
}

/// Opens the page in the browser, and shows its URL for users who have no browser here.
fn show(url: &str, how: &LogIn) {
    out::say(&format!("To log in, open this page:\n\n{}\n", out::line(url)));
    if how.no_browser {
        return;
    }
    let opened = Command::new(OPENER).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = opened {
        out::say(&format!("No browser could be opened ({OPENER}: {}).", with_causes(&error)));
    }
}
