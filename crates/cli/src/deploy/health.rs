//! Whether a deployed server works: each of its functions starts with the settings that it has, and the endpoint
//! answers as a caller sees it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use http::header::HOST;
use serde_json::{Value, json};
use url::Url;

use super::requests::{Account, Ask, Failure, LAMBDA};
use super::stack::{Resource, Stack};
use crate::clock::{self, pause};
use crate::exit::{Exit, Stop};
use crate::limits::{ANSWER_MAX, AWS_PAUSE, HEALTHY_MAX};

/// The kind of a function in a stack.
pub(super) const FUNCTION: &str = "AWS::Lambda::Function";

/// The function of the stack that answers requests.
const API: &str = "Api";

/// How a program of Longhaul begins the line that says why it ends.
const REASON: &str = "error: ";

/// Checks all functions and the endpoint.
pub(super) async fn check(account: &Account, stack: &Stack) -> Result<(), Stop> {
    for function in stack.resources(account).await?.iter().filter(|resource| resource.kind == FUNCTION) {
        if let Some(why) = refusal(account, function).await? {
            return Err(Stop::new(Exit::Failed, format!("the function {} does not start: {why}", function.name)));
        }
    }
    let Some(url) = endpoint(stack) else { return Ok(()) };
    let until = clock::instant() + HEALTHY_MAX;
    loop {
        let why = match ask(account, stack, &url).await {
            Ok(Health::Well) => return Ok(()),
            Ok(Health::Unwell(why)) => why,
            Err(stop) if stop.exit == Exit::Unreachable => stop.why,
            Err(stop) => return Err(stop),
        };
        // A new name, permission or certificate is not known everywhere at once.
        if clock::instant() > until {
            let record = stack
                .outputs
                .get("DomainTarget")
                .map_or_else(String::new, |target| format!("; the record of the domain name has to point to {target}"));
            return Err(Stop::new(
                Exit::Failed,
                format!("the server was deployed, and does not answer: {why}{record}"),
            ));
        }
        pause(AWS_PAUSE).await;
    }
}

/// The MCP endpoint of a stack.
pub(super) fn endpoint(stack: &Stack) -> Option<Url> {
    stack.outputs.get("McpUrl")?.parse().ok()
}

/// The answer, as a caller sees it.
pub(super) enum Health {
    Well,
    Unwell(String),
}

/// Asks the endpoint once, as a caller does.
pub(super) async fn ask(account: &Account, stack: &Stack, mcp: &Url) -> Result<Health, Stop> {
    let mut url = mcp.clone();
    let path = mcp.path().strip_suffix("/mcp").unwrap_or_default().to_owned();
    url.set_path(&format!("{path}/healthz"));
    let what = url.to_string();
    let mut request = reqwest::Request::new(Method::GET, url);
    *request.timeout_mut() = Some(ANSWER_MAX);
    let auth = stack.parameters.get("AuthMode").map_or("iam", String::as_str);
    let host = mcp.host_str().unwrap_or_default();
    if auth == "iam" {
        account.sign(&mut request, if host.contains(".lambda-url.") { "lambda" } else { "execute-api" }).await?;
    }
    if let Some(emulator) = emulator(account).await? {
        request.headers_mut().insert(HOST, host.parse().map_err(|_not| Stop::usage(format!("{host} is not a host")))?);
        let there = emulated(host, request.url().path());
        *request.url_mut() = emulator;
        request.url_mut().set_path(&there);
    }
    let answer = account.exchange(request, &what).await?;
    Ok(match answer.status {
        200..=299 => Health::Well,
        // An authorizer in front of the function wants a token, which this command does not have.
        401 | 403 if auth == "gateway" => Health::Well,
        status => Health::Unwell(format!("{what} answers with status {status}")),
    })
}

/// The emulator that stands for all of AWS, if `AWS_ENDPOINT_URL` names one: its names are not in DNS.
async fn emulator(account: &Account) -> Result<Option<Url>, Stop> {
    let url: Option<Url> = account.endpoint(&LAMBDA).await?.parse().ok();
    let is_aws = |url: &Url| [".amazonaws.com", ".amazonaws.com.cn"].iter().any(|end| url.as_str().contains(end));
    Ok(url.filter(|url| !is_aws(url)))
}

/// The emulator's URL for this path of AWS: it finds APIs by their path only.
fn emulated(host: &str, path: &str) -> String {
    let Some((api, _)) = host.split_once(".execute-api.") else { return path.to_owned() };
    match path.strip_suffix("/healthz").and_then(|stage| stage.strip_prefix('/')) {
        Some(stage) => format!("/_aws/execute-api/{api}/{stage}/healthz"),
        None => format!("/_aws/execute-api/{api}/$default{path}"),
    }
}

/// Why a function does not start; `None` if it does, or if this user may not invoke it.
async fn refusal(account: &Account, function: &Resource) -> Result<Option<String>, Stop> {
    let event = if function.name == API { request() } else { json!({"Records": []}) };
    let ask = Ask {
        service: &LAMBDA,
        method: Method::POST,
        path: format!("/2015-03-31/functions/{}/invocations", function.physical),
        headers: vec![("x-amz-log-type", "Tail".to_owned()), ("content-type", "application/json".to_owned())],
        body: event.to_string().into_bytes(),
        what: format!("an invocation of {}", function.name),
    };
    let answer = match account.send(&ask).await {
        Ok(answer) => answer,
        Err(Failure::Refused(refused)) if refused.code.contains("AccessDenied") => return Ok(None),
        Err(failure) => return Err(failure.into()),
    };
    if answer.header("x-amz-function-error").is_empty() {
        return Ok(None);
    }
    let body = answer.json();
    let log = STANDARD.decode(answer.header("x-amz-log-result")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let kind = body["errorType"].as_str().unwrap_or_default();
    let message = body["errorMessage"].as_str().unwrap_or("it ends with an error");
    let said = log.lines().rev().chain([message]).find_map(|line| line.split_once(REASON));
    let said = said.map(|(_, why)| why.trim());
    // A program that runs may refuse an event such as this one.
    let refuses = said.is_some() || function.name != API || kind.starts_with("Runtime.");
    Ok(refuses.then(|| said.unwrap_or(message).to_owned()))
}

/// A request to a function URL.
fn request() -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": "/healthz", "rawQueryString": "",
        "headers": {"host": "localhost"}, "isBase64Encoded": false,
        "requestContext": {
            "accountId": "anonymous", "apiId": "longhaul", "domainName": "localhost", "domainPrefix": "longhaul",
            "http": {"method": "GET", "path": "/healthz", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1",
                "userAgent": "longhaul"},
            "requestId": "healthz", "routeKey": "$default", "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000", "timeEpoch": 1_767_225_600_000_u64,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_endpoint_has_its_place_in_an_emulator() {
        let api = "x1.execute-api.eu-west-1.amazonaws.com";
        for (host, path, there) in [
            ("x1.lambda-url.eu-west-1.on.aws", "/healthz", "/healthz"),
            (api, "/healthz", "/_aws/execute-api/x1/$default/healthz"),
            (api, "/prod/healthz", "/_aws/execute-api/x1/prod/healthz"),
        ] {
            assert_eq!(emulated(host, path), there);
        }
    }
}
