//! Secrets of tools, in Secrets Manager or the Parameter Store of SSM: read once, when a worker starts.
//!
//! Both services take one signed request with a small JSON body. It is signed and sent with what the SDK has brought
//! along for DynamoDB and SQS: docs/adr/0016 says why.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use futures::future::{Either, select, try_join_all};
use http::Request;
use http_body_util::{BodyExt, Limited};
use longhaul_core::{Clock, limits, with_causes};
use serde::Deserialize;
use serde_json::json;

/// The longest answer: a secret has at most 64 KiB, and JSON may need six bytes for one.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// How long one try may take.
const TRY_MS_MAX: u64 = 3_000;

/// Tries of one read, with a pause before each further one.
const TRIES_MAX: u64 = 4;
const PAUSE_MS: u64 = 200;

/// A secret that cannot be read. Says nothing about what is in it.
#[derive(Debug, thiserror::Error)]
#[error("the secret `{name}` ({arn}) cannot be read: {why}")]
pub struct ToolSecretError {
    /// The name by which tools read it.
    pub name: String,
    /// Where it is.
    pub arn: String,
    /// Why not, and what to do.
    pub why: String,
}

/// Reads the secrets with these ARNs, by the names of `arns`. The region is that of each ARN.
///
/// # Errors
/// [`ToolSecretError`] for the first that cannot be read, after a few tries.
pub async fn read_tool_secrets(
    config: &SdkConfig,
    arns: &BTreeMap<String, String>,
    clock: &dyn Clock,
) -> Result<BTreeMap<String, String>, ToolSecretError> {
    let reader = Reader { config, clock, connector: connector() };
    let read = try_join_all(arns.iter().map(|(name, arn)| reader.named(name, arn))).await?;
    Ok(read.into_iter().collect())
}

fn connector() -> Connector {
    Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build()
}

/// Why a try was not successful.
struct Refused(String);

impl Refused {
    fn because(error: &(dyn Error + 'static)) -> Self {
        Self(limits::cut(&with_causes(error), limits::MESSAGE_BYTES_MAX))
    }
}

/// A try that may be followed by another one, or not.
enum Try {
    Again(Refused),
    Never(Refused),
}

/// Which service has a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    SecretsManager,
    ParameterStore,
}

/// Where a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    service: Service,
    partition: &'a str,
    region: &'a str,
}

impl<'a> Place<'a> {
    fn of(arn: &'a str) -> Option<Self> {
        let mut parts = arn.splitn(6, ':');
        let (Some("arn"), Some(partition), Some(service)) = (parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        let (region, _account, resource) = (parts.next()?, parts.next()?, parts.next()?);
        let service = match service {
            "secretsmanager" if resource.starts_with("secret:") => Service::SecretsManager,
            "ssm" if resource.starts_with("parameter/") => Service::ParameterStore,
            _ => return None,
        };
        Some(Self { service, partition, region }).filter(|place| !place.region.is_empty())
    }

    /// The address of the service in its region.
    fn url(&self) -> String {
        let suffix = match self.partition {
            "aws-cn" => "amazonaws.com.cn",
            "aws-eusc" => "amazonaws.eu",
            _ => "amazonaws.com",
        };
        format!("https://{}.{}.{suffix}/", self.service.name(), self.region)
    }
}

impl Service {
    /// The name in addresses and signatures.
    const fn name(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager",
            Self::ParameterStore => "ssm",
        }
    }

    const fn target(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager.GetSecretValue",
            Self::ParameterStore => "AmazonSSM.GetParameter",
        }
    }

    fn question(self, arn: &str) -> String {
        match self {
            Self::SecretsManager => json!({"SecretId": arn}).to_string(),
            Self::ParameterStore => json!({"Name": arn, "WithDecryption": true}).to_string(),
        }
    }

    /// The text in an answer.
    fn text(self, answer: &[u8]) -> Result<String, Refused> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Secret {
            secret_string: Option<String>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Found {
            parameter: Parameter,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Parameter {
            value: String,
        }
        // What serde says about an answer may show a part of it.
        let unreadable = |_error: serde_json::Error| Refused("the service's answer cannot be read".to_owned());
        match self {
            Self::SecretsManager => {
                let secret: Secret = serde_json::from_slice(answer).map_err(unreadable)?;
                let binary = || Refused("it is not a text: tools read secrets that are text only".to_owned());
                secret.secret_string.ok_or_else(binary)
            }
            Self::ParameterStore => {
                let found: Found = serde_json::from_slice(answer).map_err(unreadable)?;
                Ok(found.parameter.value)
            }
        }
    }
}

struct Reader<'a> {
    config: &'a SdkConfig,
    clock: &'a dyn Clock,
    connector: Connector,
}

impl Reader<'_> {
    async fn named(&self, name: &str, arn: &str) -> Result<(String, String), ToolSecretError> {
        match self.read(arn).await {
            Ok(text) => Ok((name.to_owned(), text)),
            Err(Refused(why)) => Err(ToolSecretError { name: name.to_owned(), arn: arn.to_owned(), why }),
        }
    }

    async fn read(&self, arn: &str) -> Result<String, Refused> {
        let place = Place::of(arn).ok_or_else(|| {
            Refused("it is not the whole ARN of a secret of Secrets Manager, or of a parameter of SSM".to_owned())
        })?;
        for number in 1..TRIES_MAX {
            match self.attempt(&place, arn).await {
                Ok(text) => return Ok(text),
                Err(Try::Never(refused)) => return Err(refused),
                Err(Try::Again(refused)) => {
                    tracing::warn!(arn, why = refused.0, "a secret could not be read; retrying")
                }
            }
            self.clock.sleep_ms(PAUSE_MS * number).await;
        }
        self.attempt(&place, arn).await.map_err(|(Try::Again(refused) | Try::Never(refused))| refused)
    }

    async fn attempt(&self, place: &Place<'_>, arn: &str) -> Result<String, Try> {
        let credentials = self.credentials().await.map_err(Try::Again)?;
        let request = self.request(place, arn, &credentials).map_err(Try::Never)?;
        let answer = std::pin::pin!(self.answer(request));
        let (status, body) = match select(answer, self.clock.sleep_ms(TRY_MS_MAX)).await {
            Either::Left((answer, _)) => answer.map_err(Try::Again)?,
            Either::Right(_) => return Err(Try::Again(Refused(format!("there was no answer in {TRY_MS_MAX} ms")))),
        };
        match status {
            200 => place.service.text(&body).map_err(Try::Never),
            500.. | 429 => Err(Try::Again(refusal(status, &body))),
            _ if is_throttled(&body) => Err(Try::Again(refusal(status, &body))),
            _ => Err(Try::Never(refusal(status, &body))),
        }
    }

    async fn credentials(&self) -> Result<Credentials, Refused> {
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or_else(|| Refused("this process has no credentials for AWS".to_owned()))?;
        provider.provide_credentials().await.map_err(|error| Refused::because(&error))
    }

    fn request(&self, place: &Place<'_>, arn: &str, credentials: &Credentials) -> Result<HttpRequest, Refused> {
        let url = self.config.endpoint_url().map_or_else(|| place.url(), str::to_owned);
        let body = place.service.question(arn);
        let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", place.service.target())];
        let identity = credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(place.region)
            .name(place.service.name())
            .time(UNIX_EPOCH + Duration::from_millis(self.clock.now().as_ms()))
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| Refused::because(&error))?
            .into();
        let signable =
            SignableRequest::new("POST", url.as_str(), headers.into_iter(), SignableBody::Bytes(body.as_bytes()));
        let signed = sign(signable.map_err(|error| Refused::because(&error))?, &params);
        let (instructions, _signature) = signed.map_err(|error| Refused::because(&error))?.into_parts();
        let builder = headers.iter().fold(Request::post(url), |builder, (name, value)| builder.header(*name, *value));
        let mut request = builder.body(SdkBody::from(body)).map_err(|error| Refused::because(&error))?;
        instructions.apply_to_request_http1x(&mut request);
        HttpRequest::try_from(request).map_err(|error| Refused::because(&error))
    }

    async fn answer(&self, request: HttpRequest) -> Result<(u16, Vec<u8>), Refused> {
        let answer = self.connector.call(request).await.map_err(|error| Refused::because(&error))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_error| Refused("the answer was cut off, or is too long".to_owned()))?;
        Ok((status, body.to_bytes().to_vec()))
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// What a service says about a refusal.
#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "__type")]
    kind: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
}

fn problem(body: &[u8]) -> Option<Problem> {
    serde_json::from_slice(body).ok()
}

fn is_throttled(body: &[u8]) -> bool {
    problem(body).and_then(|problem| problem.kind).is_some_and(|kind| kind.contains("Throttl"))
}

fn refusal(status: u16, body: &[u8]) -> Refused {
    let Some(Problem { kind, message }) = problem(body) else { return Refused(format!("HTTP status {status}")) };
    let words = [kind, message].into_iter().flatten().collect::<Vec<_>>().join(": ");
    Refused(limits::cut(&format!("HTTP status {status}, {words}"), limits::MESSAGE_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_and_the_region_are_those_of_the_arn() {
        let url = |arn| Place::of(arn).map(|place| place.url());
        let secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:prod/db-AbCdEf";
        assert_eq!(url(secret).unwrap(), "https://secretsmanager.eu-west-1.amazonaws.com/");
        let parameter = "arn:aws-cn:ssm:cn-north-1:111122223333:parameter/prod/db";
        assert_eq!(url(parameter).unwrap(), "https://ssm.cn-north-1.amazonaws.com.cn/");
        for wrong in [
            "",
            "prod/db",
            "arn:aws:s3:::bucket",
            "arn:aws:ssm:eu-west-1:111122223333:document/x",
            "arn:aws:secretsmanager::111122223333:secret:x",
        ] {
            assert_eq!(url(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_shown() {
        for service in [Service::SecretsManager, Service::ParameterStore] {
            let refused = service.text(br#"{"SecretString": 7, "Parameter": {"Value": ["hunter2"]}}"#).err().unwrap();
            assert!(!refused.0.contains("hunter2") && !refused.0.contains('7'), "{}", refused.0);
        }
        let binary = Service::SecretsManager.text(br#"{"SecretBinary": "aHVudGVyMg=="}"#).err().unwrap();
        assert!(binary.0.contains("text only"), "{}", binary.0);
    }
}
