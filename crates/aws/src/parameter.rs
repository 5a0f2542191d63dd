//! One parameter of SSM's Parameter Store that is read again and again, as docs/adr/0016 says for secrets of tools.

use aws_config::SdkConfig;
use longhaul_core::{Clock, strict_json};
use serde::Deserialize;
use serde_json::json;

use crate::signed::{Call, Caller, Refused};

/// A parameter in the region of a configuration.
#[derive(Debug)]
pub struct Parameter {
    name: String,
    region: Option<String>,
    caller: Caller,
}

/// Why a parameter cannot be read. The error repeats no part of its value.
#[derive(Debug, thiserror::Error)]
#[error("the parameter `{name}` of SSM cannot be read: {why}")]
pub struct ParameterError {
    name: String,
    why: String,
}

impl Parameter {
    /// The parameter with this name. Reads nothing yet.
    #[must_use]
    pub fn new(config: &SdkConfig, name: &str) -> Self {
        let region = config.region().map(|region| region.as_ref().to_owned());
        Self { name: name.to_owned(), region, caller: Caller::new(config) }
    }

    /// Its value, after a few tries; `None` if the parameter does not exist.
    pub async fn read(&self, clock: &dyn Clock) -> Result<Option<String>, ParameterError> {
        let read = self.value(clock).await;
        read.map_err(|Refused { why, .. }| ParameterError { name: self.name.clone(), why })
    }

    async fn value(&self, clock: &dyn Clock) -> Result<Option<String>, Refused> {
        let region =
            self.region.as_deref().ok_or_else(|| Refused::new("this process has no region: set AWS_REGION"))?;
        let call = Call {
            service: "ssm",
            id: "SSM",
            partition: partition_of(region),
            region,
            target: "AmazonSSM.GetParameter",
            body: json!({"Name": self.name, "WithDecryption": true}).to_string(),
            about: &self.name,
        };
        match self.caller.call(&call, clock).await {
            Ok(answer) => value_in(&answer).map(Some),
            Err(refused) if refused.is("ParameterNotFound") => Ok(None),
            Err(refused) => Err(refused),
        }
    }
}

fn partition_of(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("cn") => "aws-cn",
        Some("eusc") => "aws-eusc",
        Some(_) | None => "aws",
    }
}

fn value_in(answer: &[u8]) -> Result<String, Refused> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Found {
        parameter: Stored,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Stored {
        value: String,
    }
    // Without what serde says, which may show a part of it.
    let found: Result<Found, serde_json::Error> = strict_json::from_slice(answer);
    found.map(|found| found.parameter.value).map_err(|_error| Refused::new("the service's answer cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_not_shown() {
        assert_eq!(value_in(br#"{"Parameter": {"Value": "a", "Version": 1}}"#).unwrap(), "a");
        for wrong in [&br#"{"Parameter": {"Value": ["hunter2"]}}"#[..], b"hunter2", b"[[\"hunter2\"]]"] {
            let refused = value_in(wrong).unwrap_err().why;
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn the_partition_is_that_of_the_region() {
        for (region, partition) in [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("eusc-de-east-1", "aws-eusc")] {
            assert_eq!(partition_of(region), partition);
        }
    }
}
