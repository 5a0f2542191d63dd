//! A parameter of SSM's Parameter Store, which is read and replaced as a whole.

use serde_json::{Value, json};

use super::{Aws, AwsError, Protocol, Repeat, Service};

const SSM: Service = Service {
    id: "SSM",
    host: "ssm",
    protocol: Protocol::Json { content_type: "application/x-amz-json-1.1", target: "AmazonSSM" },
};

/// The value of a parameter, and which of its versions that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue {
    /// The value.
    pub value: String,
    /// Its version: each write makes the next one.
    pub version: u64,
}

/// Why a parameter cannot be read or written. The message does not contain the parameter's value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ParameterError(String);

impl From<AwsError> for ParameterError {
    fn from(error: AwsError) -> Self {
        let words = [error.code, error.message].into_iter().filter(|word| !word.is_empty());
        Self(words.collect::<Vec<_>>().join(": "))
    }
}

impl Aws {
    /// The parameter with this name, which may end with `:` and a version; `None` if there is none.
    pub async fn parameter(&self, name: &str) -> Result<Option<ParameterValue>, ParameterError> {
        let input = json!({"Name": name, "WithDecryption": true});
        let answer = match self.call(&SSM, None, "GetParameter", &input, Repeat::Yes).await {
            Err(error) if error.is("ParameterNotFound") => return Ok(None),
            other => other?,
        };
        let value = answer.pointer("/Parameter/Value").and_then(Value::as_str).map(str::to_owned);
        let version = answer.pointer("/Parameter/Version").and_then(Value::as_u64);
        let read = value.zip(version).map(|(value, version)| ParameterValue { value, version });
        read.map(Some).ok_or_else(|| ParameterError("the answer has no value, or no version".to_owned()))
    }

    /// Creates an encrypted parameter, which must not exist, and returns its version.
    pub async fn create_parameter(&self, name: &str, value: &str) -> Result<u64, ParameterError> {
        self.put(&json!({"Name": name, "Value": value, "Type": "SecureString", "Tier": TIER})).await
    }

    /// Replaces the value of a parameter, and returns the version that it then has.
    pub async fn replace_parameter(&self, name: &str, value: &str) -> Result<u64, ParameterError> {
        let input = json!({"Name": name, "Value": value, "Type": "SecureString", "Tier": TIER, "Overwrite": true});
        self.put(&input).await
    }

    /// A write without an answer is not repeated: its version would not be known.
    async fn put(&self, input: &Value) -> Result<u64, ParameterError> {
        let answer = self.call(&SSM, None, "PutParameter", input, Repeat::No).await?;
        let version = answer.pointer("/Version").and_then(Value::as_u64);
        version.ok_or_else(|| ParameterError("the answer has no version".to_owned()))
    }
}

/// The standard tier costs nothing and has 4 KiB; above that, SSM takes the advanced one, which has 8 KiB.
const TIER: &str = "Intelligent-Tiering";
