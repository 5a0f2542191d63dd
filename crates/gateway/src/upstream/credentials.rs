//! Credentials of a server behind a URL that are renewed while the gateway runs. They are from a file or a command that
//! is read again, from an authorization server, or from a sign-in of the command `longhaul`.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use longhaul::SystemClock;
use longhaul_client::{Challenge, Credentials, Error, with_causes};
use longhaul_core::Clock;
use longhaul_core::strict_json;
use reqwest::{Request, StatusCode};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use url::{Url, form_urlencoded};

use crate::limits;
use crate::target::{ClientCredentials, Launch, Login, RESERVED, Source};

/// The credentials for one server.
pub(super) fn credentials(source: &Source, server: &Url) -> Arc<dyn Credentials> {
    match source {
        Source::Login(Login(Some(login))) => Arc::clone(login),
        source => Arc::new(Renewed { source: source.clone(), server: server.clone(), kept: Mutex::default() }),
    }
}

struct Renewed {
    source: Source,
    server: Url,
    kept: Mutex<Option<Kept>>,
}

/// Headers, and until when they are valid, in milliseconds, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    headers: HeaderMap,
    until_ms: Option<u64>,
}

impl Kept {
    fn is_over(&self) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= SystemClock.now().as_ms())
    }

    /// Whether a request had these headers.
    fn was_sent_in(&self, sent: &HeaderMap) -> bool {
        self.headers.iter().all(|(name, value)| sent.get(name) == Some(value))
    }
}

impl Credentials for Renewed {
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            let mut kept = self.kept.lock().await;
            let is_good = kept.as_ref().is_some_and(|kept| !kept.is_over());
            if !is_good || matches!(self.source, Source::File(_)) {
                *kept = Some(self.fetch().await.map_err(Error::NoCredentials)?);
            }
            request.headers_mut().extend(kept.iter().flat_map(|kept| kept.headers.clone()));
            Ok(())
        })
    }

    fn renew<'a>(&'a self, challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async {
            if challenge.status != StatusCode::UNAUTHORIZED {
                return Ok(false);
            }
            let mut kept = self.kept.lock().await;
            // Another request may have renewed them meanwhile.
            if kept.as_ref().is_none_or(|kept| kept.was_sent_in(challenge.sent)) {
                *kept = Some(self.fetch().await.map_err(Error::NoCredentials)?);
            }
            Ok(kept.as_ref().is_some_and(|kept| !kept.was_sent_in(challenge.sent)))
        })
    }
}

impl Renewed {
    async fn fetch(&self) -> Result<Kept, String> {
        match &self.source {
            Source::File(file) => {
                let cannot = |why: &dyn std::fmt::Display| {
                    format!("the credentials in {} cannot be used: {why}", file.display())
                };
                let text = longhaul_core::settings::read_text(file, limits::CREDENTIALS_BYTES_MAX);
                read(&text.map_err(|error| cannot(&error))?).map_err(|why| cannot(&why))
            }
            Source::Command(launch) => {
                let cannot = |why: String| format!("the command `{}` brings no credentials: {why}", launch.command);
                read(&printed(launch).await.map_err(cannot)?).map_err(cannot)
            }
            Source::Client(client) => client
                .token(&self.server)
                .await
                .map_err(|why| format!("the authorization server {} gives no token: {why}", origin(&client.token_url))),
            Source::Login(_) => {
                let how =
                    format!("run `longhaul login {}`, and start the gateway with `longhaul gateway`", self.server);
                Err(format!("the sign-ins of the command are not known here: {how}"))
            }
        }
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The output of a command, which has a limited time for it.
async fn printed(launch: &Launch) -> Result<String, String> {
    let mut command = tokio::process::Command::new(&launch.command);
    command.args(&launch.args).env_clear().envs(&launch.env).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().ok_or("its output cannot be read")?;
    let run = async {
        let mut text = String::new();
        let mut all = stdout.take(limits::CREDENTIALS_BYTES_MAX + 1);
        all.read_to_string(&mut text).await.map_err(|error| error.to_string())?;
        if text.len() as u64 > limits::CREDENTIALS_BYTES_MAX {
            return Err(format!("it prints more than {} bytes", limits::CREDENTIALS_BYTES_MAX));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if status.success() { Ok(text) } else { Err(format!("it ended with {status}")) }
    };
    let late = || format!("it did not end within {} seconds", limits::CREDENTIALS_MAX.as_secs());
    tokio::time::timeout(limits::CREDENTIALS_MAX, run).await.unwrap_or_else(|_late| Err(late()))
}

/// Headers as files and commands have them: an object of headers, the same in `headers` with `expiresIn` in seconds, or
/// a token alone. An error does not quote the text.
fn read(text: &str) -> Result<Kept, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    if !text.starts_with('{') {
        return Ok(Kept { headers: HeaderMap::from_iter([(AUTHORIZATION, bearer(text)?)]), until_ms: None });
    }
    let object: serde_json::Map<String, Value> =
        strict_json::from_str(text).map_err(|_unquoted| "it is neither JSON nor a token in one line".to_owned())?;
    let (headers, expires_in) = match object.get("headers").and_then(Value::as_object) {
        Some(headers) => (headers, object.get("expiresIn").and_then(Value::as_f64)),
        None => (&object, None),
    };
    if headers.is_empty() {
        return Err("it has no header".to_owned());
    }
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let value = value.as_str().ok_or_else(|| format!("its header `{name}` is not a string"))?;
        let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            return Err(format!("its header `{name}` cannot be sent"));
        };
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("its header `{name}` is set by the protocol"));
        }
        value.set_sensitive(true);
        all.insert(name, value);
    }
    Ok(Kept { headers: all, until_ms: expires_in.map(until_ms) })
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_unquoted| "the token cannot be sent in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// When credentials that are valid for so many seconds are renewed: a little earlier.
fn until_ms(expires_in: f64) -> u64 {
    let lives = Duration::try_from_secs_f64(expires_in.max(0.0)).unwrap_or(Duration::MAX);
    let ms = u64::try_from(lives.saturating_sub(limits::RENEWED_BEFORE).as_millis()).unwrap_or(u64::MAX);
    SystemClock.now().as_ms().saturating_add(ms)
}

impl ClientCredentials {
    /// A new token. The client shows its secret in the header; if the server does not take it there, in the body.
    async fn token(&self, server: &Url) -> Result<Kept, String> {
        let http = reqwest::Client::builder()
            .timeout(limits::CREDENTIALS_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| with_causes(&error))?;
        let mut asked = vec![("grant_type", "client_credentials"), ("resource", server.as_str())];
        asked.extend(self.scope.as_deref().map(|scope| ("scope", scope)));
        let body = form(String::new(), &asked);
        let request = |body: String| {
            http.post(self.token_url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
        };
        let in_header = request(body.clone()).basic_auth(encoded(&self.id), Some(encoded(&self.secret)));
        match answer(in_header).await? {
            (StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST, said) if says_invalid_client(&said) => {}
            (status, said) => return token_in(status, &said),
        }
        let both = [("client_id", &*self.id), ("client_secret", &*self.secret)];
        let (status, said) = answer(request(form(body, &both))).await?;
        token_in(status, &said)
    }
}

/// A form with these fields after those of another one.
fn form(before: String, fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(before).extend_pairs(fields).finish()
}

/// A part of the header, whose characters are those of a form (RFC 6749, 2.3.1).
fn encoded(part: &str) -> String {
    form_urlencoded::byte_serialize(part.as_bytes()).collect()
}

async fn answer(request: reqwest::RequestBuilder) -> Result<(StatusCode, Value), String> {
    let mut response = request.send().await.map_err(|error| with_causes(&error.without_url()))?;
    let (status, mut body) = (response.status(), Vec::new());
    while let Some(part) = response.chunk().await.map_err(|error| with_causes(&error.without_url()))? {
        body.extend_from_slice(&part);
        if body.len() as u64 > limits::CREDENTIALS_BYTES_MAX {
            return Err(format!("its answer has more than {} bytes", limits::CREDENTIALS_BYTES_MAX));
        }
    }
    Ok((status, strict_json::from_slice(&body).unwrap_or_default()))
}

fn says_invalid_client(said: &Value) -> bool {
    said["error"] == "invalid_client"
}

fn token_in(status: StatusCode, said: &Value) -> Result<Kept, String> {
    let Some(token) = said["access_token"].as_str().filter(|_| status.is_success()) else {
        let words = said["error_description"].as_str().or(said["error"].as_str());
        let words = words.map(|words| format!(", {words}")).unwrap_or_default();
        return Err(format!("status {}{words}", status.as_u16()));
    };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer(token)?)]);
    Ok(Kept { headers, until_ms: said["expires_in"].as_f64().map(until_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str, name: &str) -> Option<String> {
        Some(read(text).unwrap().headers.get(name)?.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_file_has_headers_or_a_token() {
        assert_eq!(header("abc\n", "authorization").as_deref(), Some("Bearer abc"));
        assert_eq!(header(r#"{"X-Key": "k", "X-Other": "o"}"#, "x-key").as_deref(), Some("k"));
        let with_end = r#"{"headers": {"X-Key": "k"}, "expiresIn": 3600}"#;
        assert_eq!(header(with_end, "x-key").as_deref(), Some("k"));
        assert!(read(with_end).unwrap().until_ms.is_some_and(|until| until > SystemClock.now().as_ms()));
        assert!(read(r#"{"headers": {"X-Key": "k"}, "expiresIn": 0}"#).unwrap().is_over());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_refused_without_its_secrets() {
        for (wrong, what) in [
            ("", "empty"),
            ("{}", "no header"),
            ("{\"secret\"", "neither JSON"),
            (r#"{"X": 7}"#, "not a string"),
            (r#"{"a b": "secret"}"#, "cannot be sent"),
            (r#"{"Mcp-Session-Id": "secret"}"#, "set by the protocol"),
            ("sec\u{1}ret", "cannot be sent"),
        ] {
            let why = read(wrong).unwrap_err();
            assert!(why.contains(what) && !why.contains("\"secret\""), "{wrong}: {why}");
        }
    }
}
