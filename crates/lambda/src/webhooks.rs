//! Webhooks in functions: the publisher decides who is told, and a worker, which has the secrets, tells them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_aws::clients::SdkConfig;
use longhaul_aws::read_tool_secrets;
use longhaul_core::Clock;
use longhaul_engine::{Engine, ToolRunner};
use longhaul_push::{Endpoints, SecretSource, WebhookDeliveryRunner, read, read_without_secrets};

use crate::{StartError, WorkerConfig};

/// The services that have secrets, as sources name them before the ARN.
const SERVICES: [&str; 2] = ["secretsmanager", "ssm"];

/// Who is told, for a function that signs nothing.
pub(crate) fn without_secrets(config: &WorkerConfig) -> Result<Endpoints, StartError> {
    let Some(text) = &config.webhooks else { return Ok(Endpoints::default()) };
    read_without_secrets(text, config.reach).map(|(endpoints, _)| endpoints).map_err(StartError::Webhooks)
}

/// The runner of a worker: one that sends webhooks if there are any. Their secrets are read now.
pub(crate) async fn runner(
    config: &WorkerConfig,
    aws: &SdkConfig,
    clock: &dyn Clock,
    tools: Arc<dyn ToolRunner>,
    engine: &Engine,
) -> Result<Arc<dyn ToolRunner>, StartError> {
    let Some(text) = &config.webhooks else { return Ok(tools) };
    let (_, sources) = read_without_secrets(text, config.reach).map_err(StartError::Webhooks)?;
    let secrets = Secrets(read_tool_secrets(aws, &arns(&sources), clock).await?);
    let endpoints = read(text, &secrets, config.reach).map_err(StartError::Webhooks)?;
    Ok(Arc::new(WebhookDeliveryRunner::new(tools, engine.clone(), endpoints, config.reach)))
}

/// The ARNs of secrets, by the sources that name them.
fn arns(sources: &BTreeSet<String>) -> BTreeMap<String, String> {
    sources.iter().filter_map(|source| Some((source.clone(), arn(source)?.to_owned()))).collect()
}

/// The ARN in a source such as `secretsmanager:arn:aws:secretsmanager:…`.
fn arn(source: &str) -> Option<&str> {
    source.split_once(':').filter(|(service, _)| SERVICES.contains(service)).map(|(_, arn)| arn)
}

/// Secrets that were read, by their sources.
struct Secrets(BTreeMap<String, String>);

impl SecretSource for Secrets {
    fn secret(&self, source: &str) -> Result<String, String> {
        let text = self.0.get(source).cloned();
        text.ok_or_else(|| "has no source: write `secretsmanager:ARN` or `ssm:ARN`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_named_by_their_service_and_arn() {
        let secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hook-AbCdEf";
        assert_eq!(arn(&format!("secretsmanager:{secret}")), Some(secret));
        assert_eq!(arn("ssm:arn:aws:ssm:eu-west-1:1:parameter/hook"), Some("arn:aws:ssm:eu-west-1:1:parameter/hook"));
        for other in ["env:SECRET", "file:secret", "whsec_abc", secret] {
            assert_eq!(arn(other), None, "{other}");
            assert!(Secrets(BTreeMap::new()).secret(other).is_err());
        }
    }
}
