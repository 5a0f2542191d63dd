//! Signed requests with a JSON body, to services of which the program needs one operation. The reasons against a client
//! of the SDK are in docs/adr/0016 and 0026. The signer and the HTTP client are those of the SDK for DynamoDB and SQS.

use std::error::Error;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_types::service_config::ServiceConfigKey;
use futures::future::{Either, select};
use http::Request;
use http_body_util::{BodyExt, Limited};
use longhaul_core::{Clock, limits, strict_json, with_causes};
use serde::Deserialize;

/// The longest answer: a secret has at most 64 KiB, and JSON may need six bytes for one.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

const TRY_MS_MAX: u64 = 3_000;

/// Tries of one call, with a pause before each further one.
const TRIES_MAX: u64 = 4;
const PAUSE_MS: u64 = 200;

/// Why a call was not successful. It repeats no part of the request.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: String,
    /// The service's name for the reason, if it gave one.
    code: Option<String>,
}

impl Refused {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: None }
    }

    fn because(error: &(dyn Error + 'static)) -> Self {
        Self::new(limits::cut(&with_causes(error), limits::MESSAGE_BYTES_MAX))
    }

    /// Whether the service gave this reason. Some services write their own name before it.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code.as_deref().is_some_and(|own| own.rsplit('#').next() == Some(code))
    }
}

/// A try that may be followed by another one, or not.
enum Try {
    Again(Refused),
    Never(Refused),
}

pub(crate) struct Call<'a> {
    /// The first label of the service's host name, which is also what the request is signed for.
    pub(crate) service: &'a str,
    /// The ending of the variable for its endpoint, in the SDKs' words: `AWS_ENDPOINT_URL_` and this in capitals.
    pub(crate) id: &'a str,
    pub(crate) partition: &'a str,
    pub(crate) region: &'a str,
    /// The value of `x-amz-target`.
    pub(crate) target: &'a str,
    pub(crate) body: String,
    /// The subject of its lines in the log.
    pub(crate) about: &'a str,
}

impl Call<'_> {
    /// The address of the service in its region.
    pub(crate) fn url(&self) -> String {
        let suffix = match self.partition {
            "aws-cn" => "amazonaws.com.cn",
            "aws-eusc" => "amazonaws.eu",
            _ => "amazonaws.com",
        };
        format!("https://{}.{}.{suffix}/", self.service, self.region)
    }
}

/// Makes such calls, for the account and the endpoints of a configuration.
pub(crate) struct Caller {
    config: SdkConfig,
    connector: Connector,
}

impl Caller {
    pub(crate) fn new(config: &SdkConfig) -> Self {
        let connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build();
        Self { config: config.clone(), connector }
    }

    /// The body of a successful answer, after a few tries.
    pub(crate) async fn call(&self, call: &Call<'_>, clock: &dyn Clock) -> Result<Vec<u8>, Refused> {
        for number in 1..TRIES_MAX {
            match self.attempt(call, clock).await {
                Ok(body) => return Ok(body),
                Err(Try::Never(refused)) => return Err(refused),
                Err(Try::Again(refused)) => {
                    tracing::warn!(about = call.about, why = refused.why, "a call was not successful; retrying");
                }
            }
            clock.sleep_ms(PAUSE_MS * number).await;
        }
        self.attempt(call, clock).await.map_err(|(Try::Again(refused) | Try::Never(refused))| refused)
    }

    async fn attempt(&self, call: &Call<'_>, clock: &dyn Clock) -> Result<Vec<u8>, Try> {
        let credentials = self.credentials().await.map_err(Try::Again)?;
        let request = self.request(call, &credentials, clock).map_err(Try::Never)?;
        let answer = std::pin::pin!(self.answer(request));
        let (status, body) = match select(answer, clock.sleep_ms(TRY_MS_MAX)).await {
            Either::Left((answer, _)) => answer.map_err(Try::Again)?,
            Either::Right(_) => {
                return Err(Try::Again(Refused::new(format!("there was no answer in {TRY_MS_MAX} ms"))));
            }
        };
        match status {
            200 => Ok(body),
            500.. | 429 => Err(Try::Again(refusal(status, &body))),
            _ if is_throttled(&body) => Err(Try::Again(refusal(status, &body))),
            _ => Err(Try::Never(refusal(status, &body))),
        }
    }

    async fn credentials(&self) -> Result<Credentials, Refused> {
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or_else(|| Refused::new("this process has no credentials for AWS"))?;
        provider.provide_credentials().await.map_err(|error| Refused::because(&error))
    }

    /// Where the configuration says that the service is, or where it is otherwise.
    fn url(&self, call: &Call<'_>) -> String {
        let key =
            ServiceConfigKey::builder().service_id(call.id).env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
        let own = key.ok().and_then(|key| self.config.service_config()?.load_config(key));
        own.or_else(|| self.config.endpoint_url().map(str::to_owned)).unwrap_or_else(|| call.url())
    }

    fn request(&self, call: &Call<'_>, credentials: &Credentials, clock: &dyn Clock) -> Result<HttpRequest, Refused> {
        let url = self.url(call);
        let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", call.target)];
        let identity = credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(call.region)
            .name(call.service)
            .time(UNIX_EPOCH + Duration::from_millis(clock.now().as_ms()))
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| Refused::because(&error))?
            .into();
        let body = SignableBody::Bytes(call.body.as_bytes());
        let signable = SignableRequest::new("POST", url.as_str(), headers.into_iter(), body);
        let signed = sign(signable.map_err(|error| Refused::because(&error))?, &params);
        let (instructions, _signature) = signed.map_err(|error| Refused::because(&error))?.into_parts();
        let builder = headers.iter().fold(Request::post(url), |builder, (name, value)| builder.header(*name, *value));
        let request = builder.body(SdkBody::from(call.body.clone()));
        let mut request = request.map_err(|error| Refused::because(&error))?;
        instructions.apply_to_request_http1x(&mut request);
        HttpRequest::try_from(request).map_err(|error| Refused::because(&error))
    }

    async fn answer(&self, request: HttpRequest) -> Result<(u16, Vec<u8>), Refused> {
        let answer = self.connector.call(request).await.map_err(|error| Refused::because(&error))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_error| Refused::new("the answer was cut off, or is too long"))?;
        Ok((status, body.to_bytes().to_vec()))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

/// A service's description of a refusal.
#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
}

fn problem(body: &[u8]) -> Option<Problem> {
    strict_json::from_slice(body).ok()
}

fn is_throttled(body: &[u8]) -> bool {
    problem(body).and_then(|problem| problem.kind).is_some_and(|kind| kind.contains("Throttl"))
}

fn refusal(status: u16, body: &[u8]) -> Refused {
    let Some(Problem { kind, message }) = problem(body) else { return Refused::new(format!("HTTP status {status}")) };
    let words = [kind.clone(), message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    let why = limits::cut(&format!("HTTP status {status}, {words}"), limits::MESSAGE_BYTES_MAX);
    Refused { why, code: kind }
}
