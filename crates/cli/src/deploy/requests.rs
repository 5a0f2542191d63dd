//! Signed requests to the services of AWS that a deployment needs.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul_core::{strict_json, with_causes};
use longhaul_gateway::jobs::{Aws, SigningError};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;

use super::xml::Element;
use crate::clock::pause;
use crate::exit::{Exit, Stop};
use crate::limits::{AWS_ANSWER_BYTES_MAX, AWS_CONNECT_MAX, AWS_PAUSE, AWS_REQUEST_MAX, AWS_TRIES_MAX};

/// A service: the SDKs' name of it in `AWS_ENDPOINT_URL_NAME`, and the first label of its host name.
#[derive(Debug)]
pub(super) struct Service {
    id: &'static str,
    host: &'static str,
    /// The version of its requests, for services that answer in XML.
    version: &'static str,
}

pub(super) const CLOUDFORMATION: Service =
    Service { id: "CloudFormation", host: "cloudformation", version: "2010-05-15" };
pub(super) const STS: Service = Service { id: "STS", host: "sts", version: "2011-06-15" };
pub(super) const S3: Service = Service { id: "S3", host: "s3", version: "" };
pub(super) const LAMBDA: Service = Service { id: "Lambda", host: "lambda", version: "" };
pub(super) const LOGS: Service = Service { id: "CloudWatch Logs", host: "logs", version: "" };

/// An answer of AWS.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null if it is something else.
    pub(super) fn json(&self) -> Value {
        strict_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Why AWS does not do what it was asked.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
    /// The operation.
    what: String,
}

impl Refused {
    fn of(what: &str, answer: &Answer) -> Self {
        let text = String::from_utf8_lossy(&answer.body);
        let (code, message) = match Element::parse(&text) {
            // S3 has the error outermost, the others wrap it.
            Some(xml) if xml.find("Error").is_some() => {
                (xml.text("Error/Code").to_owned(), xml.text("Error/Message").to_owned())
            }
            Some(xml) => (xml.text("Code").to_owned(), xml.text("Message").to_owned()),
            None => of_json(answer, &answer.json()),
        };
        Self { status: answer.status, code, message, what: what.to_owned() }
    }

    /// Whether the same request may succeed later.
    fn is_passing(&self) -> bool {
        self.status == 429
            || self.status >= 500
            || ["Throttl", "TooManyRequests"].iter().any(|word| self.code.contains(word))
    }

    fn is_about_credentials(&self) -> bool {
        let codes = [
            "ExpiredToken",
            "InvalidClientTokenId",
            "UnrecognizedClient",
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
        ];
        codes.iter().any(|code| self.code.starts_with(code))
    }
}

/// The code and the message of an error in JSON.
fn of_json(answer: &Answer, body: &Value) -> (String, String) {
    let text = |names: [&str; 2]| names.iter().find_map(|name| body[*name].as_str()).unwrap_or_default().to_owned();
    let code = Some(text(["__type", "code"])).filter(|code| !code.is_empty());
    let code = code.unwrap_or_else(|| answer.header("x-amzn-errortype").to_owned());
    let code = code.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
    (code, text(["message", "Message"]))
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        let Refused { status, code, message, what } = &refused;
        let code = if code.is_empty() { format!("status {status}") } else { code.clone() };
        if refused.is_about_credentials() {
            return Self::new(Exit::NotSignedIn, format!("AWS does not take these credentials: {message} ({code})"));
        }
        Self::new(Exit::Failed, format!("AWS refuses {what}: {message} ({code})"))
    }
}

/// Either AWS refused, or it could not be asked.
#[derive(Debug)]
pub(super) enum Failure {
    Refused(Refused),
    Stop(Stop),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refused) => refused.into(),
            Failure::Stop(stop) => stop,
        }
    }
}

/// The account and the region that the environment names.
pub(super) struct Account {
    aws: Arc<Aws>,
    client: reqwest::Client,
}

/// A request to a service.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) service: &'a Service,
    pub(super) method: Method,
    /// The path and the query. It has no characters that a signature would encode differently.
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// The name of the operation in errors.
    pub(super) what: String,
}

impl Account {
    pub(super) fn from_environment() -> Result<Self, Stop> {
        let client = reqwest::Client::builder()
            .connect_timeout(AWS_CONNECT_MAX)
            .timeout(AWS_REQUEST_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build();
        let client = client.map_err(|error| Stop::new(Exit::Unexpected, format!("no HTTP client: {error}")))?;
        Ok(Self { aws: Aws::from_environment(), client })
    }

    pub(super) async fn region(&self) -> Result<String, Stop> {
        self.aws.region(None).await.map_err(unsigned)
    }

    /// Where a service is.
    pub(super) async fn endpoint(&self, service: &Service) -> Result<String, Stop> {
        self.aws.endpoint(service.id, service.host).await.map_err(unsigned)
    }

    /// Signs a request of a caller of the server.
    pub(super) async fn sign(&self, request: &mut reqwest::Request, service: &str) -> Result<(), Stop> {
        self.aws.sign(request, service, None).await.map_err(unsigned)
    }

    /// An operation of a service that answers in XML: the element of its result.
    pub(super) async fn query(
        &self,
        service: &Service,
        operation: &str,
        input: &[(String, String)],
    ) -> Result<Element, Failure> {
        let answer = self
            .send(&Ask {
                service,
                method: Method::POST,
                path: "/".to_owned(),
                headers: vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8".to_owned())],
                body: form(service, operation, input),
                what: operation.to_owned(),
            })
            .await?;
        let text = String::from_utf8_lossy(&answer.body);
        let wrong = || Failure::Stop(Stop::new(Exit::Unexpected, format!("AWS answers {operation} with no XML")));
        let mut outer = Element::parse(&text).ok_or_else(wrong)?;
        Ok(outer.take(&format!("{operation}Result")))
    }

    /// An operation of CloudWatch Logs.
    pub(super) async fn logs(&self, operation: &str, input: &Value) -> Result<Value, Failure> {
        let headers = vec![
            ("content-type", "application/x-amz-json-1.1".to_owned()),
            ("x-amz-target", format!("Logs_20140328.{operation}")),
        ];
        let (body, what) = (input.to_string().into_bytes(), operation.to_owned());
        let ask = Ask { service: &LOGS, method: Method::POST, path: "/".to_owned(), headers, body, what };
        Ok(self.send(&ask).await?.json())
    }

    /// Sends a request until it has a final answer: each of them may be sent again.
    pub(super) async fn send(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match self.send_once(ask).await {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(answer),
                Ok(answer) => Failure::Refused(Refused::of(&ask.what, &answer)),
                Err(stop) => Failure::Stop(stop),
            };
            let is_passing = match &failure {
                Failure::Refused(refused) => refused.is_passing(),
                Failure::Stop(stop) => stop.exit == Exit::Unreachable,
            };
            if tries == AWS_TRIES_MAX || !is_passing {
                return Err(failure);
            }
            pause(AWS_PAUSE * tries).await;
        }
    }

    async fn send_once(&self, ask: &Ask<'_>) -> Result<Answer, Stop> {
        let base = self.endpoint(ask.service).await?;
        let url = Url::parse(&format!("{base}{}", ask.path));
        let url = url.map_err(|error| Stop::usage(format!("{base} is not a URL of AWS: {error}")))?;
        let mut request = reqwest::Request::new(ask.method.clone(), url);
        for (name, value) in &ask.headers {
            let value =
                HeaderValue::from_str(value).map_err(|_not| Stop::usage(format!("{name} cannot be {value}")))?;
            request.headers_mut().insert(HeaderName::from_static(name), value);
        }
        if !request.headers().contains_key(CONTENT_TYPE) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        }
        *request.body_mut() = Some(ask.body.clone().into());
        self.aws.sign(&mut request, ask.service.host, None).await.map_err(unsigned)?;
        self.exchange(request, &ask.what).await
    }

    /// Sends a request once, and reads the whole answer.
    pub(super) async fn exchange(&self, request: reqwest::Request, what: &str) -> Result<Answer, Stop> {
        let unreachable = |error: reqwest::Error| {
            let why = with_causes(&error.without_url());
            Stop::new(Exit::Unreachable, format!("{what} has no answer: {why}"))
        };
        let mut response = self.client.execute(request).await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > AWS_ANSWER_BYTES_MAX {
                return Err(Stop::new(Exit::Unexpected, format!("the answer to {what} is too large")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body })
    }
}

fn unsigned(error: SigningError) -> Stop {
    let why = match error {
        SigningError::NoCredentials(why) => format!("there are no AWS credentials: {why}"),
        SigningError::NoRegion => "no region is configured: set AWS_REGION, such as eu-west-1".to_owned(),
        SigningError::Request(why) => return Stop::new(Exit::Unexpected, format!("no request can be signed: {why}")),
    };
    Stop::new(Exit::NotSignedIn, why)
}

/// The body of a request to a service that answers in XML.
fn form(service: &Service, operation: &str, input: &[(String, String)]) -> Vec<u8> {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", operation).append_pair("Version", service.version).extend_pairs(input);
    form.finish().into_bytes()
}

/// The members of a list, as requests write them.
pub(super) fn members<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let values = values.into_iter().enumerate();
    values.map(|(index, value)| (format!("{name}.member.{}", index + 1), value.to_owned())).collect()
}

/// A name and its value.
pub(super) fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
