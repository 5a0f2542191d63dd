//! An OpenTelemetry collector: it decodes and keeps the spans that it is sent by OTLP over HTTP.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message;

use crate::receiver::read;

/// A span as it came, with its ids in the form of `traceparent`.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// Its trace.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of its parent; empty if it has none.
    pub parent: String,
    /// Its attributes, and those of its resource.
    pub attributes: BTreeMap<String, String>,
    /// Whether it says that it failed.
    pub has_failed: bool,
    /// The request that brought it, as text.
    pub request: String,
}

/// Listens until the test ends.
pub struct Collector {
    port: u16,
    spans: Arc<Mutex<Vec<Exported>>>,
}

impl Collector {
    /// One that takes everything whose header `authorization` is this, if it is anything.
    pub fn new(authorization: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let spans = Arc::<Mutex<Vec<Exported>>>::default();
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, authorization, &kept);
            }
        });
        Self { port, spans }
    }

    /// Where it is, as `OTEL_EXPORTER_OTLP_ENDPOINT` says it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All spans that came so far.
    pub fn spans(&self) -> Vec<Exported> {
        self.spans.lock().unwrap().clone()
    }

    /// All spans, once `enough` says so.
    pub async fn until(&self, what: &str, enough: impl Fn(&[Exported]) -> bool) -> Vec<Exported> {
        for _ in 0..600 {
            let spans = self.spans();
            if enough(&spans) {
                return spans;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what} did not come within a minute: {:#?}", self.spans());
    }
}

fn serve(mut stream: TcpStream, authorization: Option<&str>, kept: &Mutex<Vec<Exported>>) {
    let Some((headers, body)) = read(&stream, "POST /v1/traces ") else { return };
    let is_wanted = authorization.is_none_or(|wanted| headers.get("authorization").is_some_and(|sent| sent == wanted));
    let status = if is_wanted { "200 OK" } else { "401 Unauthorized" };
    if is_wanted {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        kept.lock().unwrap().extend(decoded(&body));
    }
    // The server may be gone.
    drop(write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
}

fn decoded(body: &[u8]) -> Vec<Exported> {
    let request = ExportTraceServiceRequest::decode(body).expect("the request is of OTLP");
    let text = format!("{request:?}");
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let of_resource = attributes(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let mut all = of_resource.clone();
            all.extend(attributes(span.attributes));
            spans.push(Exported {
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: all,
                // STATUS_CODE_ERROR
                has_failed: span.status.is_some_and(|status| status.code == 2),
                request: text.clone(),
            });
        }
    }
    spans
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| match attribute.value?.value? {
        any_value::Value::StringValue(text) => Some((attribute.key, text)),
        other => Some((attribute.key, format!("{other:?}"))),
    };
    attributes.into_iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
