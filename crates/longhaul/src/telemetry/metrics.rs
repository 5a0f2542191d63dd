//! The export of metrics by OTLP over HTTP.
//!
//! Prometheus and the collector read one registry: this converts the text for Prometheus. All values are totals since
//! the start, so nothing is buffered for a collector that is away, and the next export brings what it missed.

use std::error::Error;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use longhaul_core::settings::{EnvSource, SettingsError, Values, table};
use longhaul_core::{Clock, IdSource, with_causes};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use percent_encoding::percent_decode_str;
use prost::Message;

use super::export::{Away, resource};
use crate::settings::ProcessEnv;
use crate::{OsIds, SystemClock};

/// How long a collector may take. A server that stops waits for its last export.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two exports, in milliseconds, unless `OTEL_METRIC_EXPORT_INTERVAL` has another one.
const INTERVAL_MS: u64 = 60_000;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Sends metrics to one collector.
pub(crate) struct MetricsExporter {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
    interval_ms: u64,
    resource: Resource,
    started_ns: u64,
    away: Away,
}

impl MetricsExporter {
    /// The exporter to the collector that the settings name, unless `OTEL_METRICS_EXPORTER` is `none`.
    pub(crate) fn of(values: &Values) -> Result<Option<Self>, SettingsError> {
        let Some(endpoint) = values.find(&table::OTLP_ENDPOINT)? else { return Ok(None) };
        if text_of("OTEL_METRICS_EXPORTER").is_some_and(|name| name == "none") {
            return Ok(None);
        }
        let refused =
            |error: &(dyn Error + 'static)| values.refuse(&table::OTLP_ENDPOINT, &endpoint, &with_causes(error));
        let http = reqwest::Client::builder().user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        Ok(Some(Self {
            http: http.timeout(TIMEOUT).build().map_err(|error| refused(&error))?,
            url: format!("{}/v1/metrics", endpoint.trim_end_matches('/')),
            headers: headers(&text_of("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default()),
            interval_ms: text_of("OTEL_METRIC_EXPORT_INTERVAL").and_then(|ms| ms.parse().ok()).unwrap_or(INTERVAL_MS),
            resource: of_this_process(),
            started_ns: now_ns(),
            away: Away::default(),
        }))
    }

    /// Waits until the next export.
    pub(crate) async fn pause(&self) {
        SystemClock.sleep_ms(self.interval_ms.max(1)).await;
    }

    /// Whether the collector did not take metrics within the last minute.
    pub(crate) fn has_failed_lately(&self) -> bool {
        self.away.was_lately()
    }

    /// Sends the values of `text`, which is in the text format of Prometheus.
    pub(crate) async fn send(&self, text: &str) {
        let metrics = converted(text, self.started_ns, now_ns());
        let scope = InstrumentationScope { name: "longhaul".to_owned(), ..InstrumentationScope::default() };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
        let body = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
        let request = self.http.post(&self.url).headers(self.headers.clone()).body(body);
        if let Err(error) = request.send().await.and_then(reqwest::Response::error_for_status) {
            self.away.warn("metrics", &error);
        }
    }
}

fn text_of(variable: &str) -> Option<String> {
    ProcessEnv.get(variable)?.into_string().ok()
}

fn now_ns() -> u64 {
    SystemClock.now().as_ms().saturating_mul(1_000_000)
}

/// The headers of a variable: `name=value,name=value`, with values that may be percent-encoded.
fn headers(variable: &str) -> HeaderMap {
    let parsed = |(name, value): (&str, &str)| {
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((HeaderName::try_from(name.trim()).ok()?, HeaderValue::try_from(&*value).ok()?))
    };
    let mut headers: HeaderMap =
        variable.split(',').filter_map(|header| header.split_once('=')).filter_map(parsed).collect();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers
}

/// The resource, with an id of its own: the totals of two processes are not one series.
fn of_this_process() -> Resource {
    const INSTANCE: &str = "service.instance.id";
    let mut attributes = ResourceAttributesWithSchema::from(&resource()).attributes.0;
    if attributes.iter().all(|attribute| attribute.key != INSTANCE) {
        let mut id = [0; 16];
        OsIds.fill(&mut id);
        attributes.push(attribute(INSTANCE, format!("{:032x}", u128::from_be_bytes(id))));
    }
    Resource { attributes, ..Resource::default() }
}

fn attribute(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// The metrics of a text in the format of Prometheus, with the names that it has there.
fn converted(text: &str, start_time_unix_nano: u64, time_unix_nano: u64) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some((_name, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            help = text;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (name, description, data) = (name.to_owned(), help.to_owned(), Some(without_points(kind)));
            metrics.push(Metric { name, description, data, ..Metric::default() });
        } else if let (Some(Metric { name, data: Some(data), .. }), Some(sample)) = (metrics.last_mut(), sample(line)) {
            let number = NumberDataPoint { start_time_unix_nano, time_unix_nano, ..NumberDataPoint::default() };
            let histogram =
                HistogramDataPoint { start_time_unix_nano, time_unix_nano, ..HistogramDataPoint::default() };
            match data {
                Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. }) => {
                    data_points.push(sample.into_number(number));
                }
                Data::Histogram(Histogram { data_points, .. }) => sample.add_to(name, data_points, histogram),
                Data::ExponentialHistogram(_) | Data::Summary(_) => {}
            }
        }
    }
    metrics
}

fn without_points(kind: &str) -> Data {
    match kind {
        "counter" => Data::Sum(Sum { aggregation_temporality: CUMULATIVE, is_monotonic: true, ..Sum::default() }),
        "histogram" => Data::Histogram(Histogram { aggregation_temporality: CUMULATIVE, ..Histogram::default() }),
        _ => Data::Gauge(Gauge::default()),
    }
}

/// One line of the text: a name, labels and a value.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<KeyValue>,
    value: &'t str,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Vec::new();
    while let Some((key, quoted)) = rest.strip_prefix(['{', ',']).and_then(|rest| rest.split_once("=\"")) {
        let value;
        (value, rest) = unquoted(quoted)?;
        labels.push(attribute(key, value));
    }
    Some(Sample { name, labels, value: rest.trim_start_matches('}').trim_start() })
}

/// The value of a label up to its quotation mark, and the text after that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = quoted.chars();
    loop {
        match rest.next()? {
            '"' => return Some((value, rest.as_str())),
            '\\' => value.push(Some(rest.next()?).filter(|escaped| *escaped != 'n').unwrap_or('\n')),
            plain => value.push(plain),
        }
    }
}

impl Sample<'_> {
    fn number(&self) -> f64 {
        self.value.parse().unwrap_or(f64::NAN)
    }

    fn count(&self) -> u64 {
        self.value.parse().unwrap_or_default()
    }

    fn into_number(self, point: NumberDataPoint) -> NumberDataPoint {
        let value = self.value.parse().map_or_else(|_fraction| Value::AsDouble(self.number()), Value::AsInt);
        NumberDataPoint { attributes: self.labels, value: Some(value), ..point }
    }

    /// Adds a line to the histogram of its labels. Buckets of the text count what is below their bound; those of OTLP
    /// do not count what is below the bound before.
    fn add_to(mut self, name: &str, points: &mut Vec<HistogramDataPoint>, empty: HistogramDataPoint) {
        let bound = self.labels.iter().position(|label| label.key == "le").map(|at| self.labels.remove(at));
        if points.last().is_none_or(|last| last.attributes != self.labels) {
            points.push(HistogramDataPoint { attributes: self.labels.clone(), ..empty });
        }
        let Some(point) = points.last_mut() else { return };
        match (self.name.strip_prefix(name), bound.and_then(|label| label.value?.value)) {
            (Some("_bucket"), Some(any_value::Value::StringValue(bound))) => {
                let below: u64 = point.bucket_counts.iter().sum();
                point.bucket_counts.push(self.count().saturating_sub(below));
                point.explicit_bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
            }
            (Some("_sum"), _) => point.sum = Some(self.number()),
            (Some("_count"), _) => point.count = self.count(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_characters() {
        let Sample { name, labels, value } = sample(r#"a_total{tool="a \"b\", c\\d",status="x\ny"} 3"#).unwrap();
        assert_eq!((name, value), ("a_total", "3"));
        assert_eq!(labels, [attribute("tool", r#"a "b", c\d"#.to_owned()), attribute("status", "x\ny".to_owned())]);
    }

    #[test]
    fn a_bucket_of_otlp_counts_what_is_between_two_bounds() {
        let text = "# HELP t Time\n# TYPE t histogram\nt_bucket{le=\"0.5\"} 1\nt_bucket{le=\"1.0\"} 1\n\
            t_bucket{le=\"+Inf\"} 4\nt_sum 9.5\nt_count 4\n";
        let [Metric { data: Some(Data::Histogram(Histogram { data_points, .. })), .. }] = &*converted(text, 1, 2)
        else {
            panic!("it is a histogram")
        };
        let [point] = &**data_points else { panic!("it has one series: {data_points:?}") };
        assert_eq!((&*point.explicit_bounds, &*point.bucket_counts), (&[0.5, 1.0][..], &[1, 0, 3][..]));
        assert_eq!((point.sum, point.count, point.time_unix_nano), (Some(9.5), 4, 2));
    }

    #[test]
    fn headers_are_decoded_and_what_is_not_a_header_is_left_out() {
        let headers = headers("authorization=Bearer%20a=b, x-tenant = one ,bad name=x");
        assert_eq!(headers["authorization"], "Bearer a=b");
        assert_eq!((&headers["x-tenant"], headers.contains_key("bad name")), (&"one".parse().unwrap(), false));
    }
}
