//! Signed requests to AWS services that speak JSON: the account and region of the environment, as all programs for AWS
//! find them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_types::service_config::ServiceConfigKey;
use http::{HeaderName, HeaderValue};
use longhaul::SystemClock;
use longhaul::ports::Clock;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::limits;
use crate::web::{Answer, Web, with_causes};

mod error;
pub(crate) mod words;

pub(crate) use error::{AwsError, Kind};

/// Keys that expire so soon are not used any more.
const EXPIRES_SOON: Duration = Duration::from_secs(60);

/// The account and the region that jobs are in.
#[derive(Debug)]
pub struct Aws {
    config: OnceCell<SdkConfig>,
    keys: Mutex<Option<Keys>>,
    web: Web,
}

/// A service, as its requests name it.
#[derive(Debug)]
pub(crate) struct Service {
    /// What the variable for its endpoint ends with, as in `AWS_ENDPOINT_URL_SFN`, in the SDKs' words.
    pub(crate) id: &'static str,
    /// The first label of its host name, which is also what its requests are signed for.
    pub(crate) host: &'static str,
    pub(crate) protocol: Protocol,
}

/// How a service is told what to do.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// By a header with this before the name of the operation.
    Json { content_type: &'static str, target: &'static str },
    /// By the path: the version and the operation's name in lower case.
    Rest,
}

/// Whether a request may be made again if it was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Yes,
    No,
}

impl Aws {
    /// What the environment of this process says: variables, profiles, single sign-on, web identities, containers,
    /// instances. `AWS_ENDPOINT_URL` and its forms for one service are honoured. It is read when it is first needed.
    #[must_use]
    pub fn from_environment() -> Arc<Self> {
        Arc::new(Self { config: OnceCell::new(), keys: Mutex::default(), web: Web::default() })
    }

    /// What `config` says.
    #[must_use]
    pub fn new(config: SdkConfig) -> Arc<Self> {
        Arc::new(Self { config: OnceCell::new_with(Some(config)), keys: Mutex::default(), web: Web::default() })
    }

    async fn config(&self) -> &SdkConfig {
        let https = || Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
        self.config.get_or_init(|| aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load()).await
    }

    /// Calls an operation. What AWS refuses for the moment is tried again, and so is what has no answer, if it may be.
    pub(crate) async fn call(
        &self,
        service: &Service,
        region: Option<&str>,
        operation: &str,
        input: &Value,
        repeat: Repeat,
    ) -> Result<Value, AwsError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.call_once(service, region, operation, input).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            if error.is_of_old_keys() {
                *self.keys.lock().await = None;
            }
            let may_help = match error.kind {
                Kind::NotNow => true,
                Kind::Unanswered => repeat == Repeat::Yes,
                Kind::Refused => false,
            };
            if tries == limits::TRIES_MAX || !may_help {
                return Err(error);
            }
            SystemClock.sleep_ms(limits::TRY_AGAIN_MS * u64::from(tries)).await;
        }
    }

    async fn call_once(
        &self,
        service: &Service,
        region: Option<&str>,
        operation: &str,
        input: &Value,
    ) -> Result<Value, AwsError> {
        let configured = self.config().await.region().map(ToString::to_string);
        let region = region.map(str::to_owned).or(configured).ok_or_else(|| {
            AwsError::new(
                operation,
                "no region",
                "set AWS_REGION, or the region of the profile".to_owned(),
                Kind::Refused,
            )
        })?;
        let keys = self.keys(operation).await?;
        let url = self.url(service, &region, operation).await?;
        let request =
            request(url, service, operation, input).and_then(|request| signed(request, &keys, service, &region));
        let request = request.map_err(|why| AwsError::new(operation, "no request", why.to_string(), Kind::Refused))?;
        let answer = self.web.send(request).await.map_err(|error| AwsError::unanswered(operation, error))?;
        read(operation, &answer)
    }

    async fn url(&self, service: &Service, region: &str, operation: &str) -> Result<Url, AwsError> {
        let config = self.config().await;
        let key =
            ServiceConfigKey::builder().service_id(service.id).env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
        let own = key.ok().and_then(|key| config.service_config()?.load_config(key));
        let base = own.or_else(|| config.endpoint_url().map(str::to_owned)).unwrap_or_else(|| {
            let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            format!("https://{}.{region}.{suffix}", service.host)
        });
        let path = match service.protocol {
            Protocol::Json { .. } => String::new(),
            Protocol::Rest => format!("v1/{}", operation.to_ascii_lowercase()),
        };
        let url = Url::parse(&format!("{}/{path}", base.trim_end_matches('/')));
        url.map_err(|error| AwsError::new(operation, "no URL", format!("`{base}` is no URL: {error}"), Kind::Refused))
    }

    /// The keys that were used last, unless they expire soon.
    async fn keys(&self, operation: &str) -> Result<Keys, AwsError> {
        let mut kept = self.keys.lock().await;
        let soon = UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_ms()) + EXPIRES_SOON;
        if let Some(keys) = kept.as_ref().filter(|keys| keys.expiry().is_none_or(|expiry| expiry > soon)) {
            return Ok(keys.clone());
        }
        let none = |why: String| AwsError::new(operation, "no credentials", why, Kind::Refused);
        let provider = self.config().await.credentials_provider();
        let provider =
            provider.ok_or_else(|| none("this process has no AWS credentials: none are configured".to_owned()))?;
        let keys = provider.provide_credentials().await;
        let keys =
            keys.map_err(|error| none(format!("this process has no AWS credentials: {}", with_causes(&error))))?;
        *kept = Some(keys.clone());
        Ok(keys)
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn request(url: Url, service: &Service, operation: &str, input: &Value) -> Result<reqwest::Request, AnyError> {
    let mut request = reqwest::Request::new(http::Method::POST, url);
    let headers = request.headers_mut();
    match service.protocol {
        Protocol::Json { content_type, target } => {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            headers.insert("x-amz-target", HeaderValue::try_from(format!("{target}.{operation}"))?);
        }
        Protocol::Rest => {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
    }
    *request.body_mut() = Some(input.to_string().into());
    Ok(request)
}

/// The request with the headers that sign its method, URL, other headers and body.
fn signed(
    mut request: reqwest::Request,
    keys: &Keys,
    service: &Service,
    region: &str,
) -> Result<reqwest::Request, AnyError> {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = keys.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service.host)
        .time(UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_ms()))
        .settings(settings)
        .build()?
        .into();
    let headers: BTreeMap<String, String> = request
        .headers()
        .iter()
        .map(|(name, value)| Ok((name.to_string(), value.to_str()?.to_owned())))
        .collect::<Result<_, AnyError>>()?;
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.url().as_str(),
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        SignableBody::Bytes(body),
    )?;
    let (instructions, _signature) = sign(signable, &params)?.into_parts();
    let (headers, _query) = instructions.into_parts();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value())?;
        value.set_sensitive(true);
        request.headers_mut().insert(header.name().parse::<HeaderName>()?, value);
    }
    Ok(request)
}

/// What AWS answered.
fn read(operation: &str, answer: &Answer) -> Result<Value, AwsError> {
    let body = answer.body.as_ref().map(|body| serde_json::from_slice::<Value>(body));
    match (answer.status, body) {
        (status, Some(Ok(output))) if status.is_success() => Ok(output),
        (status, None) if status.is_success() => {
            let why = format!("the answer has more than {} bytes", limits::ANSWER_BYTES_MAX);
            Err(AwsError::new(operation, "too large", why, Kind::Unanswered))
        }
        (status, _) if status.is_success() => {
            Err(AwsError::new(operation, "no JSON", "the answer is not JSON".to_owned(), Kind::Unanswered))
        }
        (status, body) => {
            let body = body.and_then(Result::ok).unwrap_or_default();
            Err(AwsError::answered(operation, status, &answer.headers, &body))
        }
    }
}
