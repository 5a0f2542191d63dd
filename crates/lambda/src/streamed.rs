//! Answers that Lambda passes on to the client as they are written.
//!
//! The runtime client takes such an answer through a channel with room for one part. So even a short one leaves in four
//! small writes. Its connection lacks `TCP_NODELAY`: the kernel holds the second write back until the first is
//! acknowledged. Answers are therefore sent from here, over a connection of their own. The parts that are ready leave
//! in one write.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use futures::{FutureExt, future};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::client::legacy::connect::HttpConnector;
use lambda_http::StreamAdapter;
use lambda_runtime::tower::layer::layer_fn;
use lambda_runtime::{
    Context, Diagnostic, Error, LambdaEvent, LambdaInvocation, Runtime, Service, StreamResponse, service_fn,
};
use lambda_runtime_api_client::body::Body as Sent;
use lambda_runtime_api_client::{PooledClient, PooledClientBuilder, build_request};
use longhaul_mcp::Body;
use serde::de::IgnoredAny;

use crate::event::{HttpEvent, UnreadableEvent};

/// Names the invocation of an answer, so that a late answer is not mistaken for the one of the next invocation.
const INVOCATION_ID: HeaderName = HeaderName::from_static("lambda-runtime-invocation-id");

const RESPONSE_MODE: HeaderName = HeaderName::from_static("lambda-runtime-function-response-mode");
const ERROR_TYPE: HeaderName = HeaderName::from_static("lambda-runtime-function-error-type");

/// The content type of an answer with a head, [`HEAD_ENDS`] and a body.
const WITH_HEAD: HeaderValue = HeaderValue::from_static("application/vnd.awslambda.http-integration-response");

/// The names of trailers that Lambda requires. The bodies here do not fail, so no trailer follows them.
const TRAILERS: [HeaderValue; 2] = [
    HeaderValue::from_static("lambda-runtime-function-error-type"),
    HeaderValue::from_static("lambda-runtime-function-error-body"),
];

/// The content type of an answer that has none because it has no body. All clients accept it. Some accept no other type
/// except that of event streams.
const TYPE_OF_EMPTY: HeaderValue = HeaderValue::from_static("application/json");

/// The separator of the head of an answer from its body.
const HEAD_ENDS: [u8; 8] = [0; 8];

/// Answers invocations with `answer` until the sandbox ends.
pub(crate) async fn run<F, A>(answer: F) -> Result<(), Error>
where
    F: Fn(lambda_http::Request) -> A + Send + Sync,
    A: Future<Output = Response<Body>> + Send,
{
    let (answer, runtime_api) = (&answer, &client(PooledClient::builder()));
    let answers = move |invocation| send(answer, runtime_api, invocation);
    // The runtime's own way to answer is replaced, and never called.
    let unused = service_fn(|_event: LambdaEvent<IgnoredAny>| future::ready(Ok::<_, Infallible>(())));
    Runtime::new(unused).layer(layer_fn(move |_unused| service_fn(answers))).run().await
}

/// A client of the Runtime API whose connection sends what is written at once.
fn client(builder: PooledClientBuilder) -> PooledClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    builder.with_connector(connector).build()
}

async fn send<F, A>(answer: &F, runtime_api: &PooledClient, invocation: LambdaInvocation) -> Result<(), Error>
where
    F: Fn(lambda_http::Request) -> A + Send + Sync,
    A: Future<Output = Response<Body>> + Send,
{
    let LambdaInvocation { parts, body, context } = invocation;
    let request_id = context.request_id.clone();
    let answered = AssertUnwindSafe(answered(answer, &body, context)).catch_unwind().await;
    let request = match answered.unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(answer) => response(&request_id, answer),
        Err(diagnostic) => error(&request_id, &diagnostic),
    };
    let mut request = request?;
    if let Some(id) = parts.headers.get(INVOCATION_ID) {
        request.headers_mut().insert(INVOCATION_ID, id.clone());
    }
    let status = runtime_api.call(request).await?.status();
    if !status.is_success() {
        // As when the function has run out of time: the next request may be answered.
        tracing::error!(request_id, status = status.as_u16(), "Lambda did not take an answer");
    }
    Ok(())
}

async fn answered<F, A>(
    answer: &F,
    event: &[u8],
    context: Context,
) -> Result<StreamResponse<impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static>, Diagnostic>
where
    F: Fn(lambda_http::Request) -> A + Send + Sync,
    A: Future<Output = Response<Body>> + Send,
{
    let event = HttpEvent::read(event).map_err(|error| unreadable(&error))?;
    let answering = StreamAdapter::from(service_fn(|request| answer(request).map(not_empty).map(Ok::<_, Infallible>)))
        .call(LambdaEvent::new(event.into_inner(), context));
    let StreamResponse { mut metadata_prelude, stream } = match answering.await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    metadata_prelude.headers.entry(CONTENT_TYPE).or_insert(TYPE_OF_EMPTY);
    Ok(StreamResponse { metadata_prelude, stream })
}

/// The answer with one byte if it has none, where its status allows one. Function URLs and CloudFront may hold back a
/// streamed answer until its first byte. Readers of JSON and of text ignore it.
fn not_empty(answer: Response<Body>) -> Response<Body> {
    if answer.status() == StatusCode::NO_CONTENT || answer.size_hint().exact() != Some(0) {
        return answer;
    }
    answer.map(|_empty| Full::from("\n").boxed_unsync())
}

fn unreadable(error: &UnreadableEvent) -> Diagnostic {
    tracing::error!(error = error as &dyn std::error::Error, "an event cannot be read");
    Diagnostic { error_type: "UnreadableEvent".to_owned(), error_message: format!("the event cannot be read: {error}") }
}

/// The panic itself is logged where it happens.
fn panicked(panic: &(dyn Any + Send)) -> Diagnostic {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let error_message = format!("the function panicked: {}", text.unwrap_or("no message"));
    Diagnostic { error_type: "Panic".to_owned(), error_message }
}

/// The request that brings an answer. Its head is the first part of the body, so that both leave together.
fn response<S>(request_id: &str, answer: StreamResponse<S>) -> Result<Request<Sent>, Error>
where
    S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
{
    let mut head = serde_json::to_vec(&answer.metadata_prelude)?;
    head.extend(HEAD_ENDS);
    let parts = stream::once(future::ready(Ok(Bytes::from(head)))).chain(answer.stream).map_ok(Frame::data);
    let mut request = build_request()
        .method(http::Method::POST)
        .uri(format!("/2018-06-01/runtime/invocation/{request_id}/response"))
        .header(CONTENT_TYPE, WITH_HEAD)
        .header(TRANSFER_ENCODING, "chunked")
        .header(RESPONSE_MODE, "streaming")
        .body(Sent::new(StreamBody::new(parts)))?;
    for name in TRAILERS {
        request.headers_mut().append(TRAILER, name);
    }
    Ok(request)
}

/// The request that says that there is no answer.
fn error(request_id: &str, diagnostic: &Diagnostic) -> Result<Request<Sent>, Error> {
    let request = build_request()
        .method(http::Method::POST)
        .uri(format!("/2018-06-01/runtime/invocation/{request_id}/error"))
        .header(ERROR_TYPE, "unhandled")
        .body(Sent::from(serde_json::to_vec(diagnostic)?))?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::future::{Either, select};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// An event that a function URL sends.
    const EVENT: &[u8] = include_bytes!("../../../infra/events/api-function-url.json");

    fn invocation(event: &'static [u8]) -> LambdaInvocation {
        let parts = Response::builder().header(INVOCATION_ID, "i-7").body(()).unwrap().into_parts().0;
        let mut context = Context::default();
        context.request_id = "r-7".to_owned();
        LambdaInvocation { parts, body: Bytes::from_static(event), context }
    }

    /// The bytes that the Runtime API receives in its first read.
    async fn first_read<F, A>(answer: F, event: &'static [u8]) -> String
    where
        F: Fn(lambda_http::Request) -> A + Send + Sync,
        A: Future<Output = Response<Body>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let runtime_api = client(PooledClient::builder().with_endpoint(endpoint));
        let received = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 64 * 1024];
            let bytes = connection.read(&mut read).await.unwrap();
            String::from_utf8(read[..bytes].to_vec()).unwrap()
        };
        match select(pin!(received), pin!(send(&answer, &runtime_api, invocation(event)))).await {
            Either::Left((received, _)) => received,
            Either::Right(_) => panic!("nobody has answered yet"),
        }
    }

    fn text(text: &'static str) -> Response<Body> {
        Response::new(Full::from(text).boxed_unsync())
    }

    fn empty(status: StatusCode) -> Response<Body> {
        let mut answer = text("");
        *answer.status_mut() = status;
        answer
    }

    /// The client writes at once what is ready, and waits for the rest.
    #[tokio::test]
    async fn a_complete_answer_is_ready_with_its_head() {
        let answered = answered(&async |_| text("all of it"), EVENT, Context::default()).await.unwrap();
        let body = response("r-7", answered).unwrap().into_body().collect().now_or_never();
        let body = body.expect("all of it is ready").unwrap().to_bytes();
        assert!(body.ends_with(b"}\0\0\0\0\0\0\0\0all of it"), "{body:?}");
    }

    #[tokio::test]
    async fn an_answer_arrives_with_its_headers_its_head_and_its_end() {
        let read = first_read(async |_| text("all of it"), EVENT).await;
        assert!(read.starts_with("POST /2018-06-01/runtime/invocation/r-7/response HTTP/1.1\r\n"), "{read}");
        for header in [
            "lambda-runtime-invocation-id: i-7",
            "lambda-runtime-function-response-mode: streaming",
            "content-type: application/vnd.awslambda.http-integration-response",
            "transfer-encoding: chunked",
        ] {
            assert!(read.contains(&format!("{header}\r\n")), "{header} in {read}");
        }
        assert!(read.contains("\"statusCode\":200") && read.contains("application/json"), "{read}");
        assert!(read.contains("\0\0\0\0\0\0\0\0\r\n9\r\nall of it\r\n0\r\n\r\n"), "{read}");
    }

    #[tokio::test]
    async fn an_answer_without_a_body_has_one_byte_and_a_type_that_clients_take() {
        let read = first_read(async |_| empty(StatusCode::ACCEPTED), EVENT).await;
        assert!(read.contains("\"statusCode\":202") && read.contains("\"application/json\""), "{read}");
        assert!(read.contains("\0\0\0\0\0\0\0\0\r\n1\r\n\n\r\n0\r\n\r\n"), "{read}");
        let read = first_read(async |_| empty(StatusCode::NO_CONTENT), EVENT).await;
        assert!(read.ends_with("\0\0\0\0\0\0\0\0\r\n0\r\n\r\n"), "{read}");
    }

    #[tokio::test]
    async fn the_head_of_an_answer_leaves_before_its_body_is_ready() {
        let open = |_| {
            let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
            future::ready(Response::new(body.boxed_unsync()))
        };
        let read = first_read(open, EVENT).await;
        assert!(read.ends_with("\0\0\0\0\0\0\0\0\r\n"), "{read}");
    }

    #[tokio::test]
    async fn an_event_that_cannot_be_read_and_a_panic_are_errors_of_their_invocations() {
        let panics = async |_| panic!("so it does");
        for (event, kind, said) in [(&b"{}"[..], "UnreadableEvent", "cannot be read"), (EVENT, "Panic", "so it does")] {
            let read = first_read(panics, event).await;
            assert!(read.starts_with("POST /2018-06-01/runtime/invocation/r-7/error HTTP/1.1\r\n"), "{read}");
            assert!(read.contains("lambda-runtime-function-error-type: unhandled\r\n"), "{read}");
            assert!(read.contains(kind) && read.contains(said), "{read}");
        }
    }
}
