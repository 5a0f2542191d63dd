//! An HTTP client that is not tried out when a service's client is made.

use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{HttpClient, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;

/// A client over HTTPS. By itself, it parses all of the system's certificates once more for the client of each service,
/// to try out whether it can, and throws the result away: a millisecond of processor time each at a function's start.
/// What it needs for its first call it makes then, and keeps.
#[derive(Debug)]
pub(super) struct Unchecked(pub(super) SharedHttpClient);

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
