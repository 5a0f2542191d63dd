//! The SDK's clients: one shared HTTPS client, a limit on retries, and timeouts.

use std::time::Duration;

use aws_config::BehaviorVersion;
pub use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

mod function;
mod unchecked;

pub use function::function_config;
use unchecked::Unchecked;

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
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
    SharedHttpClient::new(Unchecked(https))
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
