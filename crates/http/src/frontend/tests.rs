//! What is refused before MCP sees it, and what pages may read.

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
    for kind in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x=y"] {
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

    fn poll_frame(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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
        frontend.answer(request.body(Full::new(body)).unwrap(), async |_, sender| of_a_holder(&sender)).await.status()
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
        Err(Rejection::Unauthorized { reason: "send a token".into(), challenge })
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
        let request = Request::options("/mcp").header("origin", PAGE).header("access-control-request-method", "POST");
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
