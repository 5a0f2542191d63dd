//! The SDK's clients: one shared HTTPS client, a limit on retries, and timeouts.

use std::sync::Arc;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents, SharedHttpClient};
use aws_smithy_async::rt::sleep::default_async_sleep;
use aws_smithy_async::time::SystemTimeSource;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{HttpClient, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

pub use aws_config::SdkConfig;

use crate::roots;

/// Tries of one call, including the first. The SDK waits between them, with jitter, and longer each time. Callers retry
/// on top of that if it makes sense.
const TRIES_MAX: u32 = 4;

/// The first wait before another try; the actual wait is a random fraction of it.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// The longest wait before another try.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How long it may take to open a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// How long one try may take. Calls take milliseconds; the largest carries 6 MB.
const ATTEMPT: Duration = Duration::from_secs(6);

/// How long a call may take with all its tries: less than the timeouts of the requests that wait for it.
const OPERATION: Duration = Duration::from_secs(15);

/// The clients for the adapters.
#[derive(Clone, Debug)]
pub struct Clients {
    /// For [`DynamoStore`](crate::DynamoStore).
    pub dynamo: aws_sdk_dynamodb::Client,
    /// For [`SqsQueue`](crate::SqsQueue).
    pub sqs: aws_sdk_sqs::Client,
}

impl Clients {
    /// Clients for the account, region and endpoints that the environment of this process names, as the SDK finds them:
    /// variables, profiles, web identities, containers, instances. Credentials are looked for when they are first
    /// needed.
    pub async fn from_environment() -> Self {
        Self::new(&aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load().await)
    }

    /// Whether the environment names a region. Without one, every call fails.
    #[must_use]
    pub fn have_region(&self) -> bool {
        self.dynamo.config().region().is_some()
    }

    /// Both clients for the account, region and endpoints of `config`, over its HTTP client if it has one, or else over
    /// a new one. Opens no connection.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        let http = config.http_client().unwrap_or_else(https);
        let dynamo = aws_sdk_dynamodb::config::Builder::from(config)
            .retry_config(retries())
            .timeout_config(timeouts())
            .http_client(http.clone());
        let sqs = aws_sdk_sqs::config::Builder::from(config)
            .retry_config(retries())
            .timeout_config(timeouts())
            .http_client(http);
        Self {
            dynamo: aws_sdk_dynamodb::Client::from_conf(dynamo.build()),
            sqs: aws_sdk_sqs::Client::from_conf(sqs.build()),
        }
    }
}

/// An HTTPS client with a pool of connections, to be shared by everything that talks to AWS. Also pass it to
/// `aws_config`'s loader, which is built without an HTTP client here. It reads the system's certificates when it is
/// used for the first time.
#[must_use]
pub fn https() -> SharedHttpClient {
    https_with(TrustStore::default())
}

fn https_with(roots: TrustStore) -> SharedHttpClient {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
    let https = match TlsContext::builder().with_trust_store(roots).build() {
        Ok(context) => https.tls_context(context),
        // It has no reason to fail: the store's certificates are read later.
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the system's certificates are used");
            https
        }
    };
    SharedHttpClient::new(Unchecked(https.build_https()))
}

/// How often a call is tried: it is retried after throttling, an internal error of the service, or a lost connection.
#[must_use]
pub fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(TRIES_MAX)
        .with_initial_backoff(BACKOFF_FIRST)
        .with_max_backoff(BACKOFF_MAX)
}

/// How long a call may take.
#[must_use]
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(OPERATION)
        .build()
}

/// The environment of a function, by the names of its variables.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The region, the credentials and the endpoints that environment variables name, with an HTTP client. Lambda sets
/// `AWS_REGION` and the credentials. `AWS_ENDPOINT_URL` names another endpoint of all services, and
/// `AWS_ENDPOINT_URL_DYNAMODB` and its like that of one service. `AWS_USE_FIPS_ENDPOINT` and
/// `AWS_USE_DUALSTACK_ENDPOINT` choose variants of the endpoints. The credentials themselves are read from the
/// environment of this process. The client trusts the authorities of AWS's endpoints only, unless `SSL_CERT_FILE` or
/// `SSL_CERT_DIR` names others.
#[must_use]
pub fn function_config(variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> SdkConfig {
    let variables: Variables = Arc::new(variables);
    let set = |name: &str| variables(name).filter(|value| !value.is_empty());
    let is_on = |name: &str| set(name).map(|value| value.eq_ignore_ascii_case("true"));
    let credentials = SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new());
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")).map(Region::new))
        .credentials_provider(credentials)
        .http_client(https_with(roots::of_function(set)))
        .time_source(SystemTimeSource::new())
        .service_config(OfServices(Arc::clone(&variables)));
    config.set_sleep_impl(default_async_sleep());
    config.set_endpoint_url(set("AWS_ENDPOINT_URL"));
    config.set_use_fips(is_on("AWS_USE_FIPS_ENDPOINT"));
    config.set_use_dual_stack(is_on("AWS_USE_DUALSTACK_ENDPOINT"));
    config.build()
}

/// Variables that are about one service: the common name, and the service's.
struct OfServices(Variables);

impl std::fmt::Debug for OfServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OfServices")
    }
}

impl LoadServiceConfig for OfServices {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        (self.0)(&format!("{}_{service}", key.env())).filter(|value| !value.is_empty())
    }
}

/// A client over HTTPS, without the SDK's check. For each service's client, that check parses all certificates of the
/// system once more, and discards the result. It costs a millisecond of processor time each at a function's start. The
/// first call parses the certificates that it needs, and keeps them.
#[derive(Debug)]
struct Unchecked(SharedHttpClient);

#[deny(clippy::missing_trait_methods)]
impl HttpClient for Unchecked {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        self.0.http_connector(settings, components)
    }

    fn validate_base_client_config(&self, _: &RuntimeComponentsBuilder, _: &ConfigBag) -> Result<(), BoxError> {
        Ok(())
    }

    fn validate_final_config(&self, components: &RuntimeComponents, config: &ConfigBag) -> Result<(), BoxError> {
        HttpClient::validate_final_config(&self.0, components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.0.connector_metadata()
    }
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, SdkConfig};

    use super::*;
    use crate::clients::Clients;

    fn config(variables: &'static [(&str, &str)]) -> SdkConfig {
        function_config(move |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_function_has_the_region_and_the_endpoints_of_its_environment() {
        let config = config(&[("AWS_REGION", "eu-north-1"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]);
        assert_eq!(config.region().map(Region::as_ref), Some("eu-north-1"));
        assert_eq!(config.endpoint_url(), Some("http://127.0.0.1:1"));
        assert!(config.credentials_provider().is_some() && config.http_client().is_some());
        assert!(Clients::new(&config).have_region());
    }

    #[test]
    fn what_is_empty_counts_as_not_set() {
        let config = config(&[("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "us-west-2"), ("AWS_ENDPOINT_URL", "")]);
        assert_eq!(config.region().map(Region::as_ref), Some("us-west-2"));
        assert_eq!((config.endpoint_url(), config.use_fips(), config.use_dual_stack()), (None, None, None));
        assert!(!Clients::new(&self::config(&[])).have_region());
    }

    #[test]
    fn fips_and_dual_stack_endpoints_can_be_asked_for() {
        let config = config(&[("AWS_USE_FIPS_ENDPOINT", "true"), ("AWS_USE_DUALSTACK_ENDPOINT", "True")]);
        assert_eq!((config.use_fips(), config.use_dual_stack()), (Some(true), Some(true)));
    }

    #[test]
    fn one_service_may_have_an_endpoint_of_its_own() {
        let variables =
            OfServices(Arc::new(|name| (name == "AWS_ENDPOINT_URL_STEP_FUNCTIONS").then(|| "http://a".into())));
        let key = |service| {
            ServiceConfigKey::builder()
                .service_id(service)
                .env("AWS_ENDPOINT_URL")
                .profile("endpoint_url")
                .build()
                .unwrap()
        };
        assert_eq!(variables.load_config(key("Step Functions")).as_deref(), Some("http://a"));
        assert_eq!(variables.load_config(key("SQS")), None);
    }

    /// A client that does not want to be tried out.
    #[derive(Debug)]
    struct Tried;

    impl HttpClient for Tried {
        fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
            panic!("nothing is called")
        }

        fn validate_base_client_config(&self, _: &RuntimeComponentsBuilder, _: &ConfigBag) -> Result<(), BoxError> {
            Err("it was tried out".into())
        }
    }

    #[test]
    fn the_clients_of_services_are_made_without_trying_it_out() {
        let http = SharedHttpClient::new(Unchecked(SharedHttpClient::new(Tried)));
        let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).http_client(http).build();
        assert!(!Clients::new(&config).have_region());
    }
}
