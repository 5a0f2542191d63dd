//! The HTTP events that the API function takes: of a function URL, of an HTTP API, and of a REST API. For all of them,
//! later code sees one form. It has the path below the stage and below the base path of a custom domain. It has each
//! value of a repeated header, and the verified caller.

use std::collections::HashMap;

use aws_lambda_events::apigw::{
    ApiGatewayProxyRequest, ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerIamDescription,
    ApiGatewayRequestAuthorizerJwtDescription, ApiGatewayRequestIdentity, ApiGatewayV2httpRequest,
};
use aws_lambda_events::query_map::QueryMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Uri};
use lambda_http::request::LambdaRequest;
use longhaul_core::strict_json;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

use crate::sender::sender;

/// The stage of an HTTP API that has no prefix in paths.
const DEFAULT_STAGE: &str = "$default";

/// The scheme with which a request reached the endpoint in front of the function.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// One HTTP event.
#[derive(Debug)]
pub struct HttpEvent(LambdaRequest);

/// An event that is not a request of an endpoint of the function.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// Another service sent it.
    #[error(
        "the event is from {sender}, and this function answers a function URL, an HTTP API or a REST API. Let one of \
         these invoke it ({cause})"
    )]
    OfAnother {
        /// The sender of the event.
        sender: &'static str,
        /// The missing part.
        cause: serde_json::Error,
    },
    /// Its sender is unknown.
    #[error("the event is not a request of a function URL, an HTTP API or a REST API: {0}")]
    Unknown(serde_json::Error),
}

impl HttpEvent {
    /// Reads the JSON of an event.
    pub fn read(event: &[u8]) -> Result<Self, UnreadableEvent> {
        read(event).map(Self).map_err(|cause| {
            let value: Value = strict_json::from_slice(event).unwrap_or_default();
            match sender(&value) {
                Some(sender) => UnreadableEvent::OfAnother { sender, cause },
                None => UnreadableEvent::Unknown(cause),
            }
        })
    }

    /// The event as `lambda_http` has it.
    #[must_use]
    pub fn into_inner(self) -> LambdaRequest {
        self.0
    }
}

fn read(event: &[u8]) -> Result<LambdaRequest, serde_json::Error> {
    let format: Format = strict_json::from_slice(event)?;
    if format.is_2() {
        strict_json::from_slice(event).map(of_http_api).map(LambdaRequest::ApiGatewayV2)
    } else {
        strict_json::from_slice(event).map(of_rest_api).map(LambdaRequest::ApiGatewayV1)
    }
}

/// The member that distinguishes the two payload formats.
#[derive(Deserialize)]
struct Format {
    /// A REST API sends none.
    #[serde(default)]
    version: Value,
    /// Payload format 2.0 has the method elsewhere; but `cargo lambda watch` sends one here too, which is always `GET`.
    #[serde(rename = "httpMethod", default)]
    http_method: Option<IgnoredAny>,
}

impl Format {
    fn is_2(&self) -> bool {
        self.version == "2.0" || self.http_method.is_none()
    }
}

impl<'de> Deserialize<'de> for HttpEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(event.get().as_bytes()).map_err(D::Error::custom)
    }
}

/// An event of a function URL or an HTTP API (payload format 2.0).
fn of_http_api(mut event: ApiGatewayV2httpRequest) -> ApiGatewayV2httpRequest {
    let route = event.route_key.as_deref().and_then(|key| key.split_once(' ')).map(|(_method, path)| path);
    let stage = event.request_context.stage.take();
    let sent = event.raw_path.unwrap_or_default();
    let path = path_below(route, &event.path_parameters, stage.as_deref(), sent);
    event.raw_path = Some(of_a_url(path, &mut event.headers, &mut event.request_context.domain_name));
    // The endpoint has no parameters. `lambda_http` would repeat them in the URL as they were sent.
    event.raw_query_string = None;
    leave_out_unreadable(&mut event.body, event.is_base64_encoded);
    event.query_string_parameters = QueryMap::default();
    event
}

fn of_rest_api(mut event: ApiGatewayProxyRequest) -> ApiGatewayProxyRequest {
    let stage = event.request_context.stage.take();
    let sent = event.path.unwrap_or_default();
    let path = path_below(event.resource.as_deref(), &event.path_parameters, stage.as_deref(), sent);
    for name in repeated(&event.multi_value_headers) {
        // Each header is here too, but with its last value only, which would replace all of them.
        event.headers.remove(name);
    }
    let domain = &mut event.request_context.domain_name;
    let path = of_a_url(path, &mut event.headers, domain);
    event.path = Some(of_a_url(path, &mut event.multi_value_headers, domain));
    event.query_string_parameters = QueryMap::default();
    event.multi_value_query_string_parameters = QueryMap::default();
    leave_out_unreadable(&mut event.body, event.is_base64_encoded);
    let authorizer = verified_by(&event.request_context.identity, &event.request_context.authorizer);
    event.request_context.authorizer = authorizer;
    event
}

/// The path, or that of nothing if no URL has it. Takes away the host and the scheme of which no URL can be made:
/// `lambda_http` makes one of all three, and panics if it cannot.
fn of_a_url(path: String, headers: &mut HeaderMap, domain: &mut Option<String>) -> String {
    if headers.get(HOST).is_some_and(|host| !host.to_str().is_ok_and(is_host)) {
        headers.remove(HOST);
    }
    if headers.get(FORWARDED_PROTO).is_some_and(|scheme| scheme != "https" && scheme != "http") {
        headers.remove(FORWARDED_PROTO);
    }
    domain.take_if(|domain| !is_host(domain));
    let is_path = path.starts_with('/') && is_url(&format!("https://localhost{path}"));
    if is_path { path } else { "/".to_owned() }
}

/// Leaves out a body that is declared as base64 and is not: `lambda_http` would panic. A request that needs a body is
/// then refused.
fn leave_out_unreadable(body: &mut Option<String>, is_base64: bool) {
    if body.take_if(|body| is_base64 && STANDARD.decode(body).is_err()).is_some() {
        tracing::warn!("the body of an event is not in base64, as the event says, and is left out");
    }
}

/// Whether a text is a host, and perhaps a port, in every reading of URLs.
fn is_host(text: &str) -> bool {
    text.parse::<Authority>().is_ok() && is_url(&format!("https://{text}/"))
}

fn is_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.as_str().parse::<Uri>().is_ok())
}

/// The path that the API defines, without the stage and without what a custom domain puts before it. `route` is the
/// path of the route that matched, in which a name in braces stands for a parameter.
fn path_below(route: Option<&str>, parameters: &HashMap<String, String>, stage: Option<&str>, sent: String) -> String {
    if let Some(path) = route.filter(|route| route.starts_with('/')).and_then(|route| filled(route, parameters)) {
        return path;
    }
    let below = stage.filter(|stage| *stage != DEFAULT_STAGE).and_then(|stage| {
        let rest = sent.strip_prefix('/')?.strip_prefix(stage)?;
        rest.starts_with('/').then(|| rest.to_owned())
    });
    below.unwrap_or(sent)
}

/// The path of a route, with its parameters; `None` if one of them is missing.
fn filled(route: &str, parameters: &HashMap<String, String>) -> Option<String> {
    let segment = |segment: &str| {
        let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return Some(segment.to_owned());
        };
        parameters.get(name.strip_suffix('+').unwrap_or(name)).cloned()
    };
    let segments: Option<Vec<String>> = route.split('/').map(segment).collect();
    Some(segments?.join("/"))
}

fn repeated(headers: &HeaderMap) -> Vec<&HeaderName> {
    headers.keys().filter(|name| headers.get_all(*name).iter().nth(1).is_some()).collect()
}

/// The caller of a REST API, in the form in which an HTTP API says it. A REST API names the signer in `identity`, and
/// a token's claims in `claims`. Only an authorizer for user pools writes the latter: the answers of other authorizers
/// cannot contain an object.
fn verified_by(
    identity: &ApiGatewayRequestIdentity,
    authorizer: &ApiGatewayRequestAuthorizer,
) -> ApiGatewayRequestAuthorizer {
    let mut verified = ApiGatewayRequestAuthorizer::default();
    verified.iam = identity.user_arn.is_some().then(|| signer(identity));
    verified.jwt = authorizer.fields.get("claims").and_then(Value::as_object).map(|claims| {
        let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
        jwt.claims = claims.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        jwt.scopes = jwt.claims.get("scope").map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        jwt
    });
    verified
}

fn signer(identity: &ApiGatewayRequestIdentity) -> ApiGatewayRequestAuthorizerIamDescription {
    let mut iam = ApiGatewayRequestAuthorizerIamDescription::default();
    iam.access_key.clone_from(&identity.access_key);
    iam.account_id.clone_from(&identity.account_id);
    iam.caller_id.clone_from(&identity.caller);
    iam.user_arn.clone_from(&identity.user_arn);
    iam.user_id.clone_from(&identity.user);
    iam
}

/// A claim as an HTTP API writes it.
fn text(claim: &Value) -> String {
    claim.as_str().map_or_else(|| claim.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use lambda_http::RequestExt;
    use lambda_http::request::LambdaRequest;
    use serde_json::json;

    use super::*;

    /// Found by the fuzz target `events`: a caller chooses all of this, and a panic would end the invocation.
    #[test]
    fn a_host_a_scheme_a_path_or_a_query_that_no_url_has_does_not_panic() {
        let long = format!("/{}", "x".repeat(70_000));
        for (host, scheme, path, query) in [
            ("a:99999", "https", "/mcp", ""),
            ("a b", "https", "/mcp", ""),
            ("999.1.1.1", "https", "/mcp", ""),
            ("a/b?c", "https", "/mcp", ""),
            ("a", "1:", "/mcp", ""),
            ("a", "https", ":x", ""),
            ("a", "https", &long, ""),
            ("a", "https", "/mcp", "a=<\u{7f}>"),
        ] {
            let context =
                json!({"stage": "$default", "domainName": "d.example", "http": {"method": "POST", "path": path}});
            let url = json!({
                "version": "2.0", "rawPath": path, "rawQueryString": query, "headers": {"host": host,
                    "x-forwarded-proto": scheme},
                "requestContext": context,
            });
            let headers = json!({"Host": [host], "X-Forwarded-Proto": [scheme]});
            let rest = json!({
                "httpMethod": "POST", "path": path, "headers": {"Host": host, "X-Forwarded-Proto": scheme},
                "multiValueHeaders": headers,
                "requestContext": {"stage": "prod", "domainName": "d.example", "httpMethod": "POST"},
                "multiValueQueryStringParameters": {"a": [query]},
            });
            for event in [url, rest] {
                let event: HttpEvent = serde_json::from_value(event).unwrap();
                let request: lambda_http::Request = LambdaRequest::into(event.into_inner());
                assert!(matches!(request.uri().path(), "/mcp" | "/"), "{}", request.uri());
                assert_eq!(request.uri().query(), None);
                assert!(request.request_context_ref().is_some());
            }
        }
    }

    #[test]
    fn an_event_of_another_sender_is_refused_by_the_senders_name() {
        let context = json!({"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/a/b"}});
        let balancer = json!({
            "requestContext": context, "httpMethod": "POST", "path": "/mcp", "queryStringParameters": {},
            "headers": {"host": "a.elb.amazonaws.com", "user-agent": "ELB-HealthChecker/2.0"}, "body": "",
            "isBase64Encoded": false,
        });
        let lattice = json!({
            "version": "2.0", "path": "/mcp", "method": "POST", "headers": {"host": ["a"]}, "body": "{}",
            "isBase64Encoded": false,
            "requestContext": {"serviceNetworkArn": "arn:aws:vpc-lattice:eu-west-1:1:servicenetwork/sn-1"},
        });
        let queue = json!({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]});
        for (event, named) in [(balancer, "Load Balancer"), (lattice, "VPC Lattice"), (queue, "an SQS queue")] {
            let error = HttpEvent::read(event.to_string().as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("function URL"), "{error}");
        }
        for event in ["{}", "[]", "7", "", "{\"warmer\": true}"] {
            let error = HttpEvent::read(event.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("the event is not a request of a function URL"), "{event}: {error}");
        }
    }

    fn path(route: Option<&str>, proxy: Option<&str>, stage: &str, sent: &str) -> String {
        let parameters = proxy.map(|proxy| ("proxy".to_owned(), proxy.to_owned())).into_iter().collect();
        path_below(route, &parameters, Some(stage), sent.to_owned())
    }

    #[test]
    fn a_path_is_what_the_api_defines() {
        for (route, proxy, stage, sent, expected) in [
            // A function URL, and the default route of an HTTP API.
            (None, None, "$default", "/mcp", "/mcp"),
            (None, None, "$default", "/mcp/", "/mcp/"),
            (None, None, "prod", "/prod/mcp", "/mcp"),
            (None, None, "prod", "/production/mcp", "/production/mcp"),
            (None, None, "mcp", "/mcp", "/mcp"),
            // A route, below a stage or the base path of a custom domain.
            (Some("/mcp"), None, "prod", "/mcp", "/mcp"),
            (Some("/mcp"), None, "prod", "/prod/mcp", "/mcp"),
            (Some("/mcp"), None, "prod", "/tools/v1/mcp", "/mcp"),
            (Some("/{proxy+}"), Some("mcp"), "prod", "/tools/mcp", "/mcp"),
            (Some("/.well-known/{proxy+}"), Some("a/b"), "prod", "/x/.well-known/a/b", "/.well-known/a/b"),
            (Some("/{proxy+}"), None, "prod", "/prod/mcp", "/mcp"),
        ] {
            assert_eq!(path(route, proxy, stage, sent), expected, "{route:?} {sent}");
        }
    }

    /// It was mistaken for one of a REST API, and no client of `cargo lambda watch` got an answer.
    #[test]
    fn an_event_of_cargo_lambda_watch_has_its_own_method() {
        let event = include_str!("../../../infra/events/api-cargo-lambda-watch.json");
        let event: HttpEvent = serde_json::from_str(event).unwrap();
        let request = lambda_http::Request::from(event.into_inner());
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/mcp"));
    }

    #[test]
    fn every_kind_of_event_says_where_it_comes_from() {
        for event in [
            include_str!("../../../infra/events/api-function-url.json"),
            include_str!("../../../infra/events/api-http-api.json"),
            include_str!("../../../infra/events/api-rest-api.json"),
        ] {
            let event: HttpEvent = serde_json::from_str(event).unwrap();
            let request = lambda_http::Request::from(event.into_inner());
            let address = crate::caller::source_address(request.extensions());
            assert_eq!(address.as_deref(), Some("203.0.113.7"));
        }
    }
}
