//! The endpoints that may stand in front of an API function on AWS, with their changes to requests and answers.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use serde_json::{Map, Value, json};

/// The stage of the REST API, which paths begin with.
const STAGE: &str = "/prod";

/// The prefix of the HTTP API's paths here. On AWS it has a host of its own.
const HTTP_API: &str = "/http-api";

/// The name that function URLs and both kinds of API give to `WWW-Authenticate` in answers of a function.
const REMAPPED: HeaderName = HeaderName::from_static("x-amzn-remapped-www-authenticate");

/// Where the integration of the HTTP API in `template.yaml` takes `WWW-Authenticate` from.
const MAPPED_FROM: HeaderName = HeaderName::from_static("x-longhaul-www-authenticate");

/// The endpoint of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A function URL.
    FunctionUrl,
    /// An HTTP API of API Gateway.
    HttpApi,
    /// A REST API of API Gateway.
    RestApi,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::FunctionUrl, Self::HttpApi, Self::RestApi];

    /// The prefix of its paths here.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::FunctionUrl => "",
            Self::HttpApi => HTTP_API,
            Self::RestApi => STAGE,
        }
    }

    /// The door that a path leads to, and the rest of the path.
    pub fn of(path: &str) -> (Self, &str) {
        let through = |door: Self| path.strip_prefix(door.prefix()).filter(|rest| rest.starts_with('/'));
        let named = [Self::RestApi, Self::HttpApi].into_iter().find_map(|door| Some((door, through(door)?)));
        named.unwrap_or((Self::FunctionUrl, path))
    }

    /// The event that it makes of a request.
    pub async fn event_of(self, request: Request<Incoming>) -> Value {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let path = Self::of(head.uri.path()).1.to_owned();
        let query = head.uri.query().unwrap_or_default();
        match self {
            Self::FunctionUrl | Self::HttpApi => {
                self.format_2(head.method.as_str(), &path, query, &head.headers, &body)
            }
            Self::RestApi => format_1(head.method.as_str(), &path, query, &head.headers, &body),
        }
    }

    fn format_2(self, method: &str, path: &str, query: &str, headers: &HeaderMap, body: &Bytes) -> Value {
        let route = if self == Self::HttpApi { format!("{method} {path}") } else { "$default".to_owned() };
        json!({
            "version": "2.0",
            "routeKey": route,
            "rawPath": path,
            "rawQueryString": query,
            "headers": last_values(headers),
            "requestContext": {
                "accountId": "anonymous",
                "apiId": "host",
                "authorizer": {"iam": {"accountId": "111122223333", "userArn": "arn:aws:iam::111122223333:user/host",
                                       "userId": "AIDAHOST"}},
                "domainName": "host.lambda-url.us-east-1.on.aws",
                "domainPrefix": "host",
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1",
                         "sourceIp": "127.0.0.1", "userAgent": "runtime-host"},
                "requestId": "host",
                "routeKey": route,
                "stage": "$default",
                "time": "21/Nov/2025:12:00:00 +0000",
                "timeEpoch": 1_763_726_400_000_u64,
            },
            "body": BASE64_STANDARD.encode(body),
            "isBase64Encoded": true,
        })
    }

    /// The headers of an answer, as the endpoint changes them.
    pub fn remap(self, status: StatusCode, headers: &mut HeaderMap) {
        if let Some(challenge) = headers.remove(WWW_AUTHENTICATE) {
            headers.insert(REMAPPED, challenge);
        }
        let maps = self == Self::HttpApi && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Some(challenge) = headers.get(MAPPED_FROM).filter(|_| maps).cloned() {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
    }
}

fn format_1(method: &str, path: &str, query: &str, headers: &HeaderMap, body: &Bytes) -> Value {
    let proxied = path.strip_prefix("/.well-known/");
    let resource = if proxied.is_some() { "/.well-known/{proxy+}" } else { path };
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let pairs: Vec<_> = pairs.collect();
    let last: Map<_, _> = pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut all: Map<String, Value> = Map::new();
    for (name, value) in pairs {
        all.entry(name).or_insert_with(|| json!([])).as_array_mut().expect("they are lists").push(json!(value));
    }
    json!({
        "resource": resource,
        "path": path,
        "httpMethod": method,
        "headers": last_values(headers),
        "multiValueHeaders": every_value(headers),
        "queryStringParameters": if last.is_empty() { Value::Null } else { last.into() },
        "multiValueQueryStringParameters": if all.is_empty() { Value::Null } else { all.into() },
        "pathParameters": proxied.map_or(Value::Null, |proxied| json!({"proxy": proxied})),
        "stageVariables": null,
        "requestContext": {
            "accountId": "111122223333",
            "apiId": "host",
            "domainName": "host.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "host",
            "extendedRequestId": "host=",
            "httpMethod": method,
            "identity": {"accountId": "111122223333", "caller": "AIDAHOST", "sourceIp": "127.0.0.1", "user": "AIDAHOST",
                         "userAgent": "runtime-host", "userArn": "arn:aws:iam::111122223333:user/host"},
            "path": format!("{STAGE}{path}"),
            "protocol": "HTTP/1.1",
            "requestId": "host",
            "requestTime": "21/Nov/2025:12:00:00 +0000",
            "requestTimeEpoch": 1_763_726_400_000_u64,
            "resourceId": "host",
            "resourcePath": resource,
            "stage": STAGE.trim_start_matches('/'),
        },
        "body": if body.is_empty() { Value::Null } else { String::from_utf8_lossy(body).into() },
        "isBase64Encoded": false,
    })
}

fn last_values(headers: &HeaderMap) -> Map<String, Value> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn every_value(headers: &HeaderMap) -> Map<String, Value> {
    let all = |name: &HeaderName| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
    headers.keys().map(|name| (name.as_str().to_owned(), all(name).into())).collect()
}

fn text(value: &HeaderValue) -> Value {
    json!(value.to_str().expect("the tests send text"))
}
