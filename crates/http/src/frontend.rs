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
use longhaul_audit::CallerSpan;
use longhaul_core::{MissingScopes, Principal};

use crate::budget::{Budget, Held};
use crate::rejection::full;
use crate::{
    Anyone, Body, CALLBACKS_PATH, Challenge, HEALTH_PATH, Identified, Identify, MCP_PATH, OriginPolicy, Rejection,
    SlowBody, audited, cors,
};

/// Extension of an answer: nobody verified the caller, and the audit log has a denied log-in.
#[derive(Clone, Copy, Debug)]
pub struct DeniedLogIn;

/// Who sent a request that was admitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Sender {
    /// A caller of the MCP endpoint, as it was identified.
    Caller(Box<Principal>),
    /// Whoever has the token of a callback. Nobody asks who that is.
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

/// Reads the rest of a body that is refused: most clients look for a response only after they have sent everything, so
/// one that is cut off while it sends never learns why. A body that does not end within the bound is cut off.
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
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use http::StatusCode;
    use http_body::Frame;
    use http_body_util::Full;

    use super::*;
    use crate::{BODY_BYTES_MAX, WebOrigin};

    async fn status(method: Method, path: &str, body: Bytes) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        status_of(request.header("content-type", "application/json").body(Full::new(body)).unwrap()).await
    }

    async fn status_of(request: Request<Full<Bytes>>) -> StatusCode {
        let frontend = HttpFrontend::new(OriginPolicy::default());
        frontend.answer(request, async |_, _| Response::new(full(Bytes::new()))).await.status()
    }

    #[tokio::test]
    async fn a_body_that_a_web_page_may_send_without_asking_is_refused() {
        let post = |types: &[&str], body: &'static str| {
            let request = Request::post("/mcp").header("host", "localhost").header("origin", "http://localhost:3000");
            let request = types.iter().fold(request, |request, kind| request.header("content-type", *kind));
            status_of(request.body(Full::new(Bytes::from(body))).unwrap())
        };
        for kind in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x=y"]
        {
            assert_eq!(post(&[kind], "{}").await, StatusCode::OK, "{kind}");
        }
        for kind in [
            "text/plain",
            "text/plain; application/json",
            "text/plain;charset=application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/json, text/plain",
            "application/jsonp",
            "application/json-rpc",
            "",
        ] {
            assert_eq!(post(&[kind], "{}").await, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
        }
        assert_eq!(post(&[], "{}").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        for kinds in [["application/json", "text/plain"], ["text/plain", "application/json"]] {
            assert_eq!(post(&kinds, "{}").await, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kinds:?}");
        }
        assert_eq!(post(&[], "").await, StatusCode::OK, "there is nothing to describe");
    }

    #[tokio::test]
    async fn only_three_paths_exist() {
        assert_eq!(status(Method::POST, "/mcp", Bytes::new()).await, StatusCode::OK);
        assert_eq!(status(Method::GET, "/healthz", Bytes::new()).await, StatusCode::OK);
        assert_eq!(status(Method::POST, "/healthz", Bytes::new()).await, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(status(Method::POST, "/", Bytes::new()).await, StatusCode::NOT_FOUND);
        assert_eq!(status(Method::POST, "/mcp/x", Bytes::new()).await, StatusCode::NOT_FOUND);
        assert_eq!(status(Method::POST, "/callbacks/x", Bytes::new()).await, StatusCode::OK);
        assert_eq!(status(Method::GET, "/callbacks/x", Bytes::new()).await, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(status(Method::POST, "/callbacks", Bytes::new()).await, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        assert_eq!(status(Method::POST, "/mcp", vec![b' '; BODY_BYTES_MAX].into()).await, StatusCode::OK);
        let over = vec![b' '; BODY_BYTES_MAX + 1].into();
        assert_eq!(status(Method::POST, "/mcp", over).await, StatusCode::PAYLOAD_TOO_LARGE);
    }

    /// A body of this many frames of 1 MiB, which counts the frames that were read.
    struct Frames(usize, Arc<AtomicUsize>);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            static MIB: [u8; 1024 * 1024] = [b' '; 1024 * 1024];
            let is_over = self.1.load(Ordering::SeqCst) == self.0;
            Poll::Ready((!is_over).then(|| {
                self.1.fetch_add(1, Ordering::SeqCst);
                Ok(Frame::data(Bytes::from_static(&MIB)))
            }))
        }
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_read_to_its_end_within_a_bound_before_the_refusal() {
        for (sent, read) in [(20, 20), (usize::MAX, 70)] {
            let count = Arc::new(AtomicUsize::new(0));
            let request = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
            let request = request.body(Frames(sent, Arc::clone(&count)));
            let frontend = HttpFrontend::new(OriginPolicy::default());
            let answer = frontend.answer(request.unwrap(), async |_, _| Response::new(full(Bytes::new()))).await;
            assert_eq!((answer.status(), count.load(Ordering::SeqCst)), (StatusCode::PAYLOAD_TOO_LARGE, read));
        }
    }

    /// A body whose rest does not come in time.
    struct Slow(bool);

    impl http_body::Body for Slow {
        type Data = Bytes;
        type Error = Box<dyn std::error::Error + Send + Sync>;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let is_first = !std::mem::replace(&mut self.0, true);
            let frame = if is_first { Ok(Frame::data(Bytes::from_static(b"{"))) } else { Err(SlowBody.into()) };
            Poll::Ready(Some(frame))
        }
    }

    #[tokio::test]
    async fn a_body_that_comes_too_slowly_is_told_so() {
        let request = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        let frontend = HttpFrontend::new(OriginPolicy::default());
        let answer = frontend.answer(request.body(Slow(false)).unwrap(), async |_, _| panic!("MCP was reached")).await;
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[tokio::test]
    async fn a_callback_needs_no_caller_and_brings_json_of_a_limited_size() {
        let frontend = HttpFrontend::new(OriginPolicy::default()).identified_by(Arc::new(Nobody));
        let answer = async |kind: &str, origin: Option<&str>, body: Bytes| {
            let request = Request::post("/callbacks/token?key=secret").header("host", "localhost");
            let request = request.header("content-type", kind).header("authorization", "Bearer secret");
            let request = origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            frontend
                .answer(request.body(Full::new(body)).unwrap(), async |_, sender| of_a_holder(&sender))
                .await
                .status()
        };
        let json = || Bytes::from_static(b"{}");
        assert_eq!(answer("application/json", None, json()).await, StatusCode::OK);
        assert_eq!(answer("text/plain", None, json()).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let evil = Some("https://evil.example.com");
        assert_eq!(answer("application/json", evil, json()).await, StatusCode::FORBIDDEN);
        let over = vec![b' '; BODY_BYTES_MAX + 1].into();
        assert_eq!(answer("application/json", None, over).await, StatusCode::PAYLOAD_TOO_LARGE);
    }

    /// Nobody knows who sends them.
    #[tokio::test]
    async fn bodies_of_callbacks_take_nothing_from_those_of_callers() {
        let frontend = HttpFrontend::new(OriginPolicy::default());
        let large = |path| {
            let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
            request.body(Full::new(Bytes::from(vec![b' '; BODY_BYTES_MAX]))).unwrap()
        };
        let (mut held, mut refused) = (Vec::new(), 0);
        for _ in 0..10 {
            let answer = frontend.answer(large("/callbacks/token"), async |_, _| std::future::pending().await);
            let mut answer = Box::pin(answer);
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => refused += u32::from(answer.status() == StatusCode::SERVICE_UNAVAILABLE),
                Poll::Pending => held.push(answer),
            }
        }
        assert_eq!((held.len(), refused), (1, 9));
        let of_caller = frontend.answer(large("/mcp"), async |_, _| Response::new(full(Bytes::new())));
        assert_eq!(of_caller.await.status(), StatusCode::OK);
    }

    fn of_a_holder(sender: &Sender) -> Response<Body> {
        assert_eq!(sender, &Sender::Holder { token: "token".to_owned() });
        Response::new(full(Bytes::new()))
    }

    const DOCUMENT_PATH: &str = "/.well-known/oauth-protected-resource";

    struct Nobody;

    #[async_trait::async_trait]
    impl Identify for Nobody {
        async fn identify(&self, _request: &Parts) -> Result<Identified, Rejection> {
            let challenge = Challenge::default().unauthorized(None, "");
            Err(Rejection::Unauthorized { reason: "send a token", challenge })
        }

        fn document(&self, request: &Parts) -> Option<Bytes> {
            (request.uri.path() == DOCUMENT_PATH).then(|| Bytes::from_static(b"{}"))
        }
    }

    #[tokio::test]
    async fn an_unidentified_caller_does_not_reach_mcp() {
        let frontend = HttpFrontend::new(OriginPolicy::default()).identified_by(Arc::new(Nobody));
        let request =
            |path| Request::builder().uri(path).header("host", "localhost").body(Full::new(Bytes::new())).unwrap();
        let answer = frontend.answer(request("/mcp"), async |_, _| panic!("MCP was reached")).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(answer.headers()[WWW_AUTHENTICATE], "Bearer");
        let health = frontend.answer(request("/healthz"), async |_, _| panic!("MCP was reached")).await;
        assert_eq!(health.status(), StatusCode::OK);
    }

    /// What needs scopes inside of MCP only says which: the status and the challenge are made here.
    #[tokio::test]
    async fn an_answer_that_says_which_scopes_are_missing_is_a_refusal() {
        let request = Request::get("/mcp").header("host", "localhost").body(Full::new(Bytes::new())).unwrap();
        let frontend = HttpFrontend::new(OriginPolicy::default());
        let scopes = std::collections::BTreeSet::from(["etl:run".to_owned()]);
        let mcp = async |_, _| {
            let mut answer = Response::new(full(Bytes::from_static(b"{}")));
            answer.extensions_mut().insert(MissingScopes { missing: scopes.clone(), wanted: scopes.clone() });
            answer
        };
        let answer = frontend.answer(request, mcp).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        let challenge = answer.headers()[WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.starts_with(r#"Bearer error="insufficient_scope""#), "{challenge}");
        assert!(challenge.ends_with(r#"scope="etl:run""#), "{challenge}");
    }

    const PAGE: &str = "https://app.example.com";

    #[tokio::test]
    async fn a_page_may_send_the_headers_of_parameters_whatever_tools_call_them() {
        let allowed = async |asked: &str| {
            let origin_policy = OriginPolicy::behind_router(WebOrigin::listed(&[PAGE.to_owned()]).unwrap());
            let request =
                Request::options("/mcp").header("origin", PAGE).header("access-control-request-method", "POST");
            let request = request.header("access-control-request-headers", asked).body(Full::new(Bytes::new()));
            let frontend = HttpFrontend::new(origin_policy);
            let answer = frontend.answer(request.unwrap(), async |_, _| panic!("MCP was reached")).await;
            answer.headers()["access-control-allow-headers"].to_str().unwrap().to_owned()
        };
        let with = |more: &str| format!("{}{more}", cors::PAGE_HEADERS);
        let asked = "content-type,mcp-param-region, Mcp-Param-Day,x-other, mcp-param,mcp-param-a b,";
        assert_eq!(allowed(asked).await, with(", mcp-param-region, mcp-param-day"));
        assert_eq!(allowed("x-other").await, cors::PAGE_HEADERS);
        let many: Vec<String> = (0..100).map(|number| format!("mcp-param-{number}")).collect();
        assert_eq!(allowed(&many.join(",")).await, with(&format!(", {}", many[..64].join(", "))));
    }

    /// The answer to a request of a page, by a server that knows nobody and has one public document.
    async fn answer_to(method: Method, path: &str, origin: &str) -> Response<Body> {
        let origin_policy = OriginPolicy::behind_router(WebOrigin::listed(&[PAGE.to_owned()]).unwrap());
        let frontend = HttpFrontend::new(origin_policy).identified_by(Arc::new(Nobody));
        let request = Request::builder().method(method).uri(path).header("origin", origin);
        let request = request.header("access-control-request-method", "POST").body(Full::new(Bytes::new()));
        frontend.answer(request.unwrap(), async |_, _| panic!("MCP was reached")).await
    }

    fn readable_by(answer: &Response<Body>) -> Option<&str> {
        answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN).map(|origin| origin.to_str().unwrap())
    }

    #[tokio::test]
    async fn a_page_that_is_allowed_may_send_and_read_refusals_too() {
        let permitted = answer_to(Method::OPTIONS, "/mcp", PAGE).await;
        assert_eq!((permitted.status(), readable_by(&permitted)), (StatusCode::NO_CONTENT, Some(PAGE)));
        assert_eq!(permitted.headers()["access-control-allow-headers"], cors::PAGE_HEADERS);
        let refused = answer_to(Method::POST, "/mcp", PAGE).await;
        assert_eq!((refused.status(), readable_by(&refused)), (StatusCode::UNAUTHORIZED, Some(PAGE)));
        assert_eq!(refused.headers()["access-control-expose-headers"], cors::READABLE_HEADERS);
        assert_eq!(refused.headers()["vary"], "origin");
        for method in [Method::OPTIONS, Method::POST] {
            let refused = answer_to(method, "/mcp", "https://evil.example.com").await;
            assert_eq!((refused.status(), readable_by(&refused)), (StatusCode::FORBIDDEN, None));
        }
    }

    #[tokio::test]
    async fn every_page_may_read_a_public_document() {
        for origin in [PAGE, "https://evil.example.com"] {
            let document = answer_to(Method::GET, DOCUMENT_PATH, origin).await;
            assert_eq!((document.status(), readable_by(&document)), (StatusCode::OK, Some("*")));
            let permitted = answer_to(Method::OPTIONS, DOCUMENT_PATH, origin).await;
            assert_eq!(permitted.status(), StatusCode::NO_CONTENT);
            assert!([Some("*"), Some(origin)].contains(&readable_by(&permitted)), "{origin}");
            let refused = answer_to(Method::POST, DOCUMENT_PATH, origin).await;
            assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        }
    }

    #[tokio::test]
    async fn credentials_are_not_passed_on() {
        for path in ["/mcp?access_token=secret", "/mcp?x&y=secret", "http://localhost/mcp?secret"] {
            let request = Request::builder()
                .uri(path)
                .header("host", "localhost")
                .header("authorization", "Bearer secret")
                .header("proxy-authorization", "Basic secret")
                .header("cookie", "session=secret")
                .header("cookie", "other=secret")
                .header("x-amz-security-token", "secret")
                .header("X-Api-Key", "secret")
                .header("mcp-name", "t")
                .body(Full::new(Bytes::new()));
            let frontend = HttpFrontend::new(OriginPolicy::default());
            let answer = frontend.answer(request.unwrap(), async |request, _| without_secrets(&request)).await;
            assert_eq!(answer.status(), StatusCode::OK);
        }
    }

    fn without_secrets(request: &Request<Bytes>) -> Response<Body> {
        assert!(request.headers().values().all(|value| !value.to_str().unwrap().contains("secret")));
        assert_eq!((request.headers()["mcp-name"].as_bytes(), request.uri().path()), (&b"t"[..], "/mcp"));
        assert_eq!(request.uri().query(), None);
        Response::new(full(Bytes::new()))
    }
}
