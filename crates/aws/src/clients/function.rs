//! The configuration of the SDK's clients in a Lambda function.
//!
//! Lambda names the region and the credentials in environment variables, so nothing has to be looked for. The search
//! that the SDK does elsewhere (profiles, web identities, containers, instances) was 6% of the program that a function
//! loads at its start.

use std::sync::Arc;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::default_async_sleep;
use aws_smithy_async::time::SystemTimeSource;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use super::https;

/// What the environment of a function says, by the names of its variables.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The region, the credentials and the endpoints that these environment variables name, with an HTTP client:
/// `AWS_REGION` and the credentials, as Lambda sets them; `AWS_ENDPOINT_URL`, also for one service
/// (`AWS_ENDPOINT_URL_DYNAMODB`, `AWS_ENDPOINT_URL_SQS`); `AWS_USE_FIPS_ENDPOINT` and `AWS_USE_DUALSTACK_ENDPOINT`. The
/// credentials themselves are read from the environment of this process.
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
        .http_client(https())
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

#[cfg(test)]
mod tests {
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
}
