//! The HTTP frontend: every request is checked here before MCP sees it.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, PROXY_AUTHORIZATION, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use longhaul_core::audit::CallerSpan;
use longhaul_core::{MissingScopes, Principal};

use crate::budget::{Budget, Held};
use crate::rejection::full;
use crate::{
    Anyone, Body, CALLBACKS_PATH, Challenge, HEALTH_PATH, Identified, Identify, MCP_PATH, OriginPolicy, Rejection,
    SlowBody, audited, cors,
};

/// Extension of an answer: the caller was not verified, and the audit log has a denied authentication.
#[derive(Clone, Copy, Debug)]
pub struct DeniedLogIn;

/// The sender of an admitted request.
#[derive(Clone, Debug, PartialEq)]
pub enum Sender {
    /// A caller of the MCP endpoint, as it was identified.
    Caller(Box<Principal>),
    /// A holder of the token of a callback, who is not identified.
    Holder {
        /// The token, as it stands in the path.
        token: String,
    },
}

/// Headers that carry the caller's credentials. They are removed once the owner is known: tools can read all headers,
/// and must not be able to act with the caller's credentials.
const CREDENTIALS: [HeaderName; 5] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-api-key"),
];

/// How many bytes beyond the limit are read and discarded before the refusal is sent.
const DISCARDED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Checks requests and routes them to MCP or to the health check.
#[derive(Clone)]
pub struct HttpFrontend {
    origin_policy: OriginPolicy,
    identify: Arc<dyn Identify>,
    budget: Budget,
    callbacks: Budget,
}

impl HttpFrontend {
    /// A frontend with this origin policy, which treats every caller as the anonymous owner.
    #[must_use]
    pub fn new(origin_policy: OriginPolicy) -> Self {
        let (budget, callbacks) = (Budget::of_callers(), Budget::of_callbacks());
        Self { origin_policy, identify: Arc::new(Anyone), budget, callbacks }
    }

    /// The same frontend, with another way to identify callers.
    #[must_use]
    pub fn identified_by(mut self, identify: Arc<dyn Identify>) -> Self {
        self.identify = identify;
        self
    }

    /// Answers `request`: directly, or through `server` once the request has been checked, its sender is known, and its
    /// body has been read completely.
    pub async fn answer<B, F, Fut>(&self, request: Request<B>, server: F) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        F: FnOnce(Request<Bytes>, Sender) -> Fut + Send,
        Fut: Future<Output = Response<Body>> + Send,
    {
        let page = self.origin_policy.page(request.headers());
        let answer = match self.admit(request).await {
            Ok(Admitted::Mcp(request, identified, held)) => {
                let Identified { principal, challenge } = *identified;
                let answer = server(*request, Sender::Caller(Box::new(principal))).await;
                drop(held);
                challenged(answer, &challenge)
            }
            Ok(Admitted::Callback(request, token, held)) => {
                let answer = server(*request, Sender::Holder { token }).await;
                drop(held);
                answer
            }
            Ok(Admitted::Preflight(headers)) => return cors::permission(page, headers),
            Ok(Admitted::Document(document)) => published(document),
            Ok(Admitted::Health) => json(Bytes::from_static(b"{\"status\":\"ok\"}\n")),
            Err(rejection) => rejected(&rejection),
        };
        cors::readable(answer, page)
    }

    async fn admit<B>(&self, request: Request<B>) -> Result<Admitted, Rejection>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        self.origin_policy.check_host(&parts.uri, &parts.headers)?;
        // Everyone may read such a document, whatever page they look at.
        let document = self.identify.document(&parts);
        if document.is_none() {
            self.origin_policy.check_origin(&parts.headers)?;
        }
        if cors::is_preflight(&parts) {
            return Ok(Admitted::Preflight(cors::allowed_headers(&parts)));
        }
        match parts.uri.path() {
            HEALTH_PATH if matches!(parts.method, Method::GET | Method::HEAD) => Ok(Admitted::Health),
            HEALTH_PATH => Err(Rejection::Method),
            MCP_PATH => {
                let identified = self.identify.identify(&parts).await?;
                if let Some(caller) = parts.extensions.get::<CallerSpan>() {
                    caller.identified(&identified.principal);
                }
                let (body, held) = read_json(&parts, body, &self.budget).await?;
                let request = Request::from_parts(without_credentials(parts, MCP_PATH), body);
                Ok(Admitted::Mcp(Box::new(request), Box::new(identified), held))
            }
            path if path.starts_with(CALLBACKS_PATH) => {
                if parts.method != Method::POST {
                    return Err(Rejection::OnlyPost);
                }
                let token = path.strip_prefix(CALLBACKS_PATH).unwrap_or_default().to_owned();
                let (body, held) = read_json(&parts, body, &self.callbacks).await?;
                let request = Request::from_parts(without_credentials(parts, CALLBACKS_PATH), body);
                Ok(Admitted::Callback(Box::new(request), token, held))
            }
            _ => match document {
                Some(document) if matches!(parts.method, Method::GET | Method::HEAD) => {
                    Ok(Admitted::Document(document))
                }
                Some(_) => Err(Rejection::Method),
                None => Err(Rejection::NoSuchPath),
            },
        }
    }
}

impl std::fmt::Debug for HttpFrontend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFrontend").field("origin_policy", &self.origin_policy).finish_non_exhaustive()
    }
}

enum Admitted {
    Mcp(Box<Request<Bytes>>, Box<Identified>, Held),
    Callback(Box<Request<Bytes>>, String, Held),
    Document(Bytes),
    Health,
    /// A browser asks whether a page may send a request, which may have these headers.
    Preflight(HeaderValue),
}

fn rejected(rejection: &Rejection) -> Response<Body> {
    let mut answer = rejection.into_response();
    // Of what the audit log has, there may be a flood.
    if audited::denied(rejection) {
        answer.extensions_mut().insert(DeniedLogIn);
    } else {
        tracing::info!(%rejection, "a request was refused");
    }
    answer
}

fn without_credentials(mut parts: Parts, path: &'static str) -> Parts {
    for name in &CREDENTIALS {
        parts.headers.remove(name);
    }
    strip_query(&mut parts, path);
    // The Lambda runtime repeats the query and the authorizer's claims in here.
    parts.extensions.clear();
    parts
}

/// Removes the query, which may carry credentials under any name. The endpoints have no parameters.
fn strip_query(parts: &mut Parts, path: &'static str) {
    if parts.uri.query().is_some() {
        parts.uri = Uri::from_static(path);
    }
}

/// Whether a body is said to be JSON, and nothing else. A web page can send any other type, or none, to another server
/// without asking it first.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else { return false };
    let essence = only.to_str().ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// The whole body, which has to be JSON if it is posted.
async fn read_json<B>(parts: &Parts, body: B, budget: &Budget) -> Result<(Bytes, Held), Rejection>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if parts.method == Method::POST && !body.is_end_stream() && !is_json(&parts.headers) {
        discard(Box::pin(body)).await;
        return Err(Rejection::ContentType);
    }
    read(body, budget).await
}

/// The whole body. It stays counted in `budget` for as long as it is held.
async fn read<B>(body: B, budget: &Budget) -> Result<(Bytes, Held), Rejection>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = Box::pin(body);
    let mut intake = budget.intake();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(&*error.into()))?;
        let taken = frame.data_ref().map_or(Ok(()), |data| intake.take(data));
        if let Err(rejection) = taken {
            drop(intake);
            discard(body).await;
            return Err(rejection);
        }
    }
    Ok(intake.finish())
}

fn unreadable(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Rejection {
    if error.is::<SlowBody>() {
        return Rejection::SlowBody;
    }
    tracing::debug!(%error, "a request's body could not be read");
    Rejection::Unreadable
}

/// Reads the rest of a body that is refused. Most clients look for a response only after they have sent everything: one
/// that is cut off earlier never learns the reason. A body that does not end within the bound is cut off.
async fn discard<B: http_body::Body<Data = Bytes>>(mut body: Pin<Box<B>>) {
    let mut discarded = 0;
    while let Some(Ok(frame)) = body.frame().await
        && discarded < DISCARDED_BYTES_MAX
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
    }
}

fn json(body: Bytes) -> Response<Body> {
    let mut response = Response::new(full(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A document for everyone, also for scripts of web pages.
fn published(document: Bytes) -> Response<Body> {
    let mut response = json(document);
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// The answer of MCP; one that says which scopes are missing becomes a refusal that tells how to get them.
fn challenged(mut answer: Response<Body>, challenge: &Challenge) -> Response<Body> {
    if let Some(missing) = answer.extensions().get::<MissingScopes>() {
        audited::insufficient(missing);
        let header = challenge.insufficient(missing);
        *answer.status_mut() = StatusCode::FORBIDDEN;
        answer.headers_mut().insert(WWW_AUTHENTICATE, header);
    }
    answer
}

#[cfg(test)]
mod tests;
