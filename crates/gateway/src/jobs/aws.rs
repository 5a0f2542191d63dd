//! Signed requests to AWS services that speak JSON: the account and region of the environment, as all programs for AWS
//! find them.

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
use longhaul_core::Clock;
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::jobs::job::{JobError, JobRef, Poll, Start, Started};
use crate::jobs::limits;
use crate::jobs::web::{Answer, Web, with_causes};

mod error;
mod parameter;

pub use error::SigningError;
pub(crate) use error::{AwsError, Kind};
pub use parameter::{ParameterError, ParameterValue};

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
    /// The end of the variable for its endpoint, as in `AWS_ENDPOINT_URL_SFN`, in the SDKs' words.
    pub(crate) id: &'static str,
    /// The first label of its host name, which is also what its requests are signed for.
    pub(crate) host: &'static str,
    pub(crate) protocol: Protocol,
}

/// How a request names the operation of a service.
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
    /// The configuration of this process: variables, profiles, single sign-on, web identities, containers, instances.
    /// `AWS_ENDPOINT_URL` and its forms for one service are honoured. It is read when it is first needed.
    #[must_use]
    pub fn from_environment() -> Arc<Self> {
        Arc::new(Self { config: OnceCell::new(), keys: Mutex::default(), web: Web::default() })
    }

    /// The account and the region of `config`.
    #[must_use]
    pub fn new(config: SdkConfig) -> Arc<Self> {
        Arc::new(Self { config: OnceCell::new_with(Some(config)), keys: Mutex::default(), web: Web::default() })
    }

    async fn config(&self) -> &SdkConfig {
        let https = || Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
        self.config.get_or_init(|| aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load()).await
    }

    /// Calls an operation. A call that AWS refuses for now is tried again. A call without an answer is tried again if
    /// `repeat` allows it.
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
            if error.is_about_credentials() {
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
        let region = self.region(region).await.map_err(|error| AwsError::unsigned(operation, &error))?;
        let url = self.url(service, &region, operation).await?;
        let request = request(url, service, operation, input);
        let mut request = request.map_err(|error| AwsError::unsigned(operation, &SigningError::of(&error)))?;
        let signed = self.sign(&mut request, service.host, Some(&region)).await;
        signed.map_err(|error| AwsError::unsigned(operation, &error))?;
        let answer = self.web.send(request).await.map_err(|error| AwsError::unanswered(operation, error))?;
        read(operation, &answer)
    }

    async fn url(&self, service: &Service, region: &str, operation: &str) -> Result<Url, AwsError> {
        let base = self.base(service.id, service.host, region).await;
        let path = match service.protocol {
            Protocol::Json { .. } => String::new(),
            Protocol::Rest => format!("v1/{}", operation.to_ascii_lowercase()),
        };
        let url = Url::parse(&format!("{base}/{path}"));
        url.map_err(|error| AwsError::new(operation, "no URL", format!("`{base}` is no URL: {error}"), Kind::Refused))
    }

    /// Where a service is in the region of the configuration, without a slash at its end. `id` is the SDKs' name of the
    /// service, as in `AWS_ENDPOINT_URL_CLOUDFORMATION`, and `host` the first label of its host name.
    ///
    /// # Errors
    /// If the configuration has no region.
    pub async fn endpoint(&self, id: &str, host: &str) -> Result<String, SigningError> {
        let region = self.region(None).await?;
        Ok(self.base(id, host, &region).await)
    }

    async fn base(&self, id: &str, host: &str, region: &str) -> String {
        let config = self.config().await;
        let key = ServiceConfigKey::builder().service_id(id).env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
        let own = key.ok().and_then(|key| config.service_config()?.load_config(key));
        let base = own.or_else(|| config.endpoint_url().map(str::to_owned)).unwrap_or_else(|| {
            let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            format!("https://{host}.{region}.{suffix}")
        });
        base.trim_end_matches('/').to_owned()
    }

    /// This region, or that of the configuration.
    ///
    /// # Errors
    /// If neither is there.
    pub async fn region(&self, wanted: Option<&str>) -> Result<String, SigningError> {
        let configured = self.config().await.region();
        wanted.or(configured.map(AsRef::as_ref)).map(str::to_owned).ok_or(SigningError::NoRegion)
    }

    /// Adds the headers that sign the request's method, URL, other headers and body for a service in a region. Without
    /// a region it uses the region of the configuration.
    pub async fn sign(
        &self,
        request: &mut reqwest::Request,
        service: &str,
        region: Option<&str>,
    ) -> Result<(), SigningError> {
        let keys = self.keys().await?;
        let region = self.region(region).await?;
        let signed = signed(request, &keys, service, &region).map_err(|error| SigningError::of(&error))?;
        signed.into_iter().for_each(|(name, value)| drop(request.headers_mut().insert(name, value)));
        Ok(())
    }

    /// The keys that were used last, unless they expire soon.
    async fn keys(&self) -> Result<Keys, SigningError> {
        let mut kept = self.keys.lock().await;
        let soon = UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_ms()) + EXPIRES_SOON;
        if let Some(keys) = kept.as_ref().filter(|keys| keys.expiry().is_none_or(|expiry| expiry > soon)) {
            return Ok(keys.clone());
        }
        Ok(kept.insert(self.load().await?).clone())
    }

    async fn load(&self) -> Result<Keys, SigningError> {
        let none = |why: &str| SigningError::NoCredentials(why.to_owned());
        let provider = self.config().await.credentials_provider().ok_or_else(|| none("none are configured"))?;
        let provided = tokio::time::timeout(limits::REQUEST, provider.provide_credentials()).await;
        let provided = provided.map_err(|_late| none("their source does not answer"))?;
        provided.map_err(|error| none(&with_causes(&error)))
    }

    /// Whether there are other keys by now than those that were used last: a user who signs in elsewhere changes them.
    pub async fn renew(&self) -> Result<bool, SigningError> {
        let mut kept = self.keys.lock().await;
        let loaded = self.load().await?;
        let are_new = kept.as_ref().is_none_or(|keys| keys.access_key_id() != loaded.access_key_id());
        *kept = Some(loaded);
        Ok(are_new)
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn request(url: Url, service: &Service, operation: &str, input: &Value) -> Result<reqwest::Request, AnyError> {
    let mut request = reqwest::Request::new(http::Method::POST, url);
    let headers = request.headers_mut();
    let content_type = match service.protocol {
        Protocol::Json { content_type, target } => {
            headers.insert("x-amz-target", HeaderValue::try_from(format!("{target}.{operation}"))?);
            content_type
        }
        Protocol::Rest => "application/json",
    };
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    *request.body_mut() = Some(input.to_string().into());
    Ok(request)
}

/// The additional headers of a signed request.
fn signed(
    request: &reqwest::Request,
    keys: &Keys,
    service: &str,
    region: &str,
) -> Result<Vec<(HeaderName, HeaderValue)>, AnyError> {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = keys.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_ms()))
        .settings(settings)
        .build()?
        .into();
    let headers = request.headers().iter().map(|(name, value)| Ok((name.as_str(), value.to_str()?)));
    let headers: Vec<(&str, &str)> = headers.collect::<Result<_, http::header::ToStrError>>()?;
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    let (method, url) = (request.method().as_str(), request.url().as_str());
    let signable = SignableRequest::new(method, url, headers.into_iter(), SignableBody::Bytes(body))?;
    let (instructions, _signature) = sign(signable, &params)?.into_parts();
    let (headers, _query) = instructions.into_parts();
    let mut all = Vec::new();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value())?;
        value.set_sensitive(true);
        all.push((header.name().parse()?, value));
    }
    Ok(all)
}

/// Reads an answer of AWS.
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

/// Jobs of one kind in an account of AWS.
#[derive(Debug)]
pub struct AwsJob<S> {
    aws: Arc<Aws>,
    pub(crate) spec: S,
}

/// Which jobs of which service.
pub(crate) trait Spec {
    const SERVICE: Service;

    /// Their region, if they name one.
    fn region(&self) -> Option<&str> {
        None
    }
}

impl<S> AwsJob<S> {
    /// These jobs in this account.
    #[must_use]
    pub fn new(aws: Arc<Aws>, spec: S) -> Self {
        Self { aws, spec }
    }
}

#[expect(private_bounds, reason = "its methods are not public either")]
impl<S: Spec + Sync> AwsJob<S> {
    pub(crate) async fn call(&self, operation: &str, input: &Value, repeat: Repeat) -> Result<Value, AwsError> {
        self.aws.call(&S::SERVICE, self.spec.region(), operation, input, repeat).await
    }

    /// Calls the operation that starts a job, and marks it as sent before.
    pub(crate) async fn call_to_start(
        &self,
        start: &Start<'_>,
        operation: &str,
        input: &Value,
        repeat: Repeat,
    ) -> Result<Result<Value, AwsError>, JobError> {
        start.mark().await?;
        Ok(self.call(operation, input, repeat).await)
    }

    /// All elements at a place of the answers to a list that may have several pages.
    pub(crate) async fn pages(&self, pages: &Pages, input: &Value) -> Result<Vec<Value>, JobError> {
        let (mut all, mut input) = (Vec::new(), input.clone());
        for _ in 0..limits::PAGES_MAX {
            let answer = self.ask(pages.operation, &input).await?;
            all.extend(list(&answer, pages.items).cloned());
            let Some(token) = text(&answer, &format!("/{}", pages.token)) else { break };
            if let Some(input) = input.as_object_mut() {
                input.insert(pages.token.to_owned(), token.into());
            }
        }
        Ok(all)
    }

    /// Calls an idempotent operation about a job that was started.
    pub(crate) async fn ask(&self, operation: &str, input: &Value) -> Result<Value, JobError> {
        self.call(operation, input, Repeat::Yes).await.map_err(AwsError::later)
    }
}

/// An operation that lists something.
pub(crate) struct Pages {
    pub(crate) operation: &'static str,
    /// Where the elements are in an answer.
    pub(crate) items: &'static str,
    /// The member that leads to the next page, in requests and answers.
    pub(crate) token: &'static str,
}

/// The result of a stop that was answered with an error, decided by a poll after it. A job that has ended counts as
/// stopped.
pub(crate) fn not_stopped(polled: Result<Poll, JobError>, error: AwsError) -> Result<(), JobError> {
    match polled {
        Ok(Poll::Done(_)) => Ok(()),
        Err(JobError::NotFound(why)) => Err(JobError::NotFound(why)),
        _ => Err(error.later()),
    }
}

/// The text at this place of an answer, if it is there and not empty.
pub(crate) fn text<'v>(answer: &'v Value, pointer: &str) -> Option<&'v str> {
    answer.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The same, where the answer to a start must have it.
pub(crate) fn started(operation: &str, answer: &Value, pointer: &str) -> Result<Started, JobError> {
    let missing = || JobError::Unanswered(format!("{operation}: the answer has nothing at {pointer}"));
    text(answer, pointer).map(|name| Started::Job(JobRef::new(name))).ok_or_else(missing)
}

/// The elements at this place of an answer.
pub(crate) fn list<'v>(answer: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    answer.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
