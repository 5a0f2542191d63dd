//! An OpenTelemetry collector: it decodes and keeps the spans and the metrics that it is sent by OTLP over HTTP.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
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

/// The last values of metrics, by name and labels as `/metrics` shows them: `name{label="value"}`. A histogram has its
/// number of values.
pub type Metrics = BTreeMap<String, f64>;

#[derive(Default)]
struct Kept {
    spans: Vec<Exported>,
    metrics: Metrics,
}

/// Listens until the test ends.
pub struct Collector {
    port: u16,
    kept: Arc<Mutex<Kept>>,
}

impl Collector {
    /// One that takes everything whose header `authorization` is this, if it is anything.
    pub fn new(authorization: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let kept = Arc::<Mutex<Kept>>::default();
        let keeping = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, authorization, &keeping);
            }
        });
        Self { port, kept }
    }

    /// Where it is, as `OTEL_EXPORTER_OTLP_ENDPOINT` says it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All spans that came so far.
    pub fn spans(&self) -> Vec<Exported> {
        self.kept.lock().unwrap().spans.clone()
    }

    /// The metrics that came so far.
    pub fn metrics(&self) -> Metrics {
        self.kept.lock().unwrap().metrics.clone()
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

fn serve(mut stream: TcpStream, authorization: Option<&str>, kept: &Mutex<Kept>) {
    let Some((path, headers, body)) = read(&stream, "POST /v1/") else { return };
    let is_wanted = authorization.is_none_or(|wanted| headers.get("authorization").is_some_and(|sent| sent == wanted));
    let status = if is_wanted { "200 OK" } else { "401 Unauthorized" };
    if is_wanted {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let mut kept = kept.lock().unwrap();
        match path.as_str() {
            "/v1/traces" => kept.spans.extend(decoded(&body)),
            "/v1/metrics" => kept.metrics.extend(decoded_metrics(&body)),
            other => panic!("{other} is not a path of OTLP"),
        }
    }
    // The server may be gone.
    drop(write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
}

fn decoded_metrics(body: &[u8]) -> Metrics {
    let request = ExportMetricsServiceRequest::decode(body).expect("the request is of OTLP");
    let mut metrics = Metrics::new();
    for resource in request.resource_metrics {
        let of_resource = attributes(resource.resource.map(|resource| resource.attributes).unwrap_or_default());
        assert!(of_resource.contains_key("service.instance.id"), "{of_resource:?}");
        for metric in resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            metrics.extend(values(metric.data.expect("a metric has values"), &metric.name));
        }
    }
    metrics
}

fn values(data: Data, name: &str) -> Vec<(String, f64)> {
    let points = match data {
        Data::Gauge(gauge) => gauge.data_points,
        Data::Sum(sum) => {
            assert!(sum.is_monotonic && sum.data_points.iter().all(|point| point.start_time_unix_nano > 0), "{sum:?}");
            sum.data_points
        }
        Data::Histogram(histogram) => {
            let counted = |point: &HistogramDataPoint| {
                assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count, "{point:?}");
                (name.to_owned() + "_count", point.count.to_string().parse().unwrap())
            };
            return histogram.data_points.iter().map(counted).collect();
        }
        other => panic!("{other:?} has no form in Prometheus"),
    };
    let value = |value: Option<Value>| match value.expect("a point has a value") {
        Value::AsDouble(value) => value,
        Value::AsInt(value) => value.to_string().parse().unwrap(),
    };
    points.into_iter().map(|point| (name.to_owned() + &labels(&point.attributes), value(point.value))).collect()
}

fn labels(labels: &[KeyValue]) -> String {
    let label = |label: &KeyValue| match label.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(value)) => format!("{}=\"{value}\"", label.key),
        other => panic!("a label is text: {other:?}"),
    };
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.iter().map(label).collect::<Vec<_>>().join(","))
    }
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
