//! Secrets of tools, in Secrets Manager or the Parameter Store of SSM: read once, when a worker starts.
//!
//! Both services take one signed request with a small JSON body: docs/adr/0016 says why.

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use futures::future::try_join_all;
use longhaul_core::{Clock, strict_json};
use serde::Deserialize;
use serde_json::json;

use crate::signed::{Call, Caller, Refused};

/// A secret that cannot be read. The error repeats no part of it.
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
    let reader = Reader { clock, caller: Caller::new(config) };
    let read = try_join_all(arns.iter().map(|(name, arn)| reader.named(name, arn))).await?;
    Ok(read.into_iter().collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    SecretsManager,
    ParameterStore,
}

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

    fn question(&self, arn: &'a str) -> Call<'a> {
        let Self { service, partition, region } = *self;
        let (id, target, body) = (service.id(), service.target(), service.question(arn));
        Call { service: service.name(), id, partition, region, target, body, about: arn }
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

    /// Its name in variables for endpoints.
    const fn id(self) -> &'static str {
        match self {
            Self::SecretsManager => "Secrets Manager",
            Self::ParameterStore => "SSM",
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
        let unreadable = |_error: serde_json::Error| Refused::new("the service's answer cannot be read");
        match self {
            Self::SecretsManager => {
                let secret: Secret = strict_json::from_slice(answer).map_err(unreadable)?;
                let binary = || Refused::new("it is not a text: tools read secrets that are text only");
                secret.secret_string.ok_or_else(binary)
            }
            Self::ParameterStore => {
                let found: Found = strict_json::from_slice(answer).map_err(unreadable)?;
                Ok(found.parameter.value)
            }
        }
    }
}

struct Reader<'a> {
    clock: &'a dyn Clock,
    caller: Caller,
}

impl Reader<'_> {
    async fn named(&self, name: &str, arn: &str) -> Result<(String, String), ToolSecretError> {
        match self.read(arn).await {
            Ok(text) => Ok((name.to_owned(), text)),
            Err(Refused { why, .. }) => Err(ToolSecretError { name: name.to_owned(), arn: arn.to_owned(), why }),
        }
    }

    async fn read(&self, arn: &str) -> Result<String, Refused> {
        let place = Place::of(arn).ok_or_else(|| {
            Refused::new("it is not the whole ARN of a secret of Secrets Manager, or of a parameter of SSM")
        })?;
        let body = self.caller.call(&place.question(arn), self.clock).await?;
        place.service.text(&body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_and_the_region_are_those_of_the_arn() {
        let url = |arn| Place::of(arn).map(|place| place.question(arn).url());
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
            assert!(!refused.why.contains("hunter2") && !refused.why.contains('7'), "{}", refused.why);
        }
        let binary = Service::SecretsManager.text(br#"{"SecretBinary": "aHVudGVyMg=="}"#).err().unwrap();
        assert!(binary.why.contains("text only"), "{}", binary.why);
    }
}
