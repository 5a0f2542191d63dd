//! A state machine of Step Functions in the emulator, whose executions are jobs.

use anyhow::Context;
use harness::states::api_at;
use serde_json::{Value, json};
use url::Url;

/// How many executions one request lists.
const PAGE: u32 = 100;

/// A state machine.
pub(crate) struct Machine {
    endpoint: Url,
    arn: String,
}

impl Machine {
    /// Creates one. An execution waits for `ms` milliseconds in whole seconds, and then ends as its input says in
    /// `end`.
    pub(crate) async fn create(endpoint: &Url) -> anyhow::Result<Self> {
        let states = json!({
            "Wait": {"Type": "Wait", "SecondsPath": "$.s", "Next": "How"},
            "How": {
                "Type": "Choice", "Default": "Done",
                "Choices": [{"Variable": "$.end", "StringEquals": "failed", "Next": "Failed"}],
            },
            "Failed": {"Type": "Fail", "Error": "Chaos", "Cause": "it fails, as it should"},
            "Done": {"Type": "Pass", "Parameters": {"name.$": "$.name", "done.$": "$$.Execution.Name"}, "End": true},
        });
        let definition = json!({"StartAt": "Wait", "States": states}).to_string();
        let role = "arn:aws:iam::000000000000:role/states";
        let request = json!({"name": "chaos", "definition": definition, "roleArn": role, "type": "STANDARD"});
        let created = call(endpoint, "CreateStateMachine", &request).await;
        let arn = created["stateMachineArn"].as_str().with_context(|| created.to_string())?.to_owned();
        Ok(Self { endpoint: endpoint.clone(), arn })
    }

    pub(crate) fn arn(&self) -> &str {
        &self.arn
    }

    /// The notes of its executions: the name in the input, and a line as the other job system notes it. The key and the
    /// id are both the name of the execution.
    pub(crate) async fn noted(&self) -> anyhow::Result<Vec<(String, String)>> {
        let (mut noted, mut next) = (Vec::new(), Value::Null);
        loop {
            let mut request = json!({"stateMachineArn": self.arn, "maxResults": PAGE});
            if !next.is_null() {
                request["nextToken"] = next;
            }
            let mut page = call(&self.endpoint, "ListExecutions", &request).await;
            for listed in page["executions"].as_array().into_iter().flatten() {
                noted.extend(self.lines(&listed["executionArn"]).await?);
            }
            next = page["nextToken"].take();
            if next.is_null() {
                return Ok(noted);
            }
        }
    }

    async fn lines(&self, arn: &Value) -> anyhow::Result<Vec<(String, String)>> {
        let execution = call(&self.endpoint, "DescribeExecution", &json!({"executionArn": arn})).await;
        let text = |key: &str| execution[key].as_str().with_context(|| execution.to_string());
        let (id, input) = (text("name")?, serde_json::from_str::<Value>(text("input")?)?);
        let end = match text("status")? {
            "SUCCEEDED" => Some("done"),
            "FAILED" => Some("failed"),
            "ABORTED" => Some("stopped"),
            _ => None,
        };
        let lines = [Some(format!("started {id} {id}")), end.map(|end| format!("{end} {id}"))];
        let name = input["name"].as_str().unwrap_or_default().to_owned();
        Ok(lines.into_iter().flatten().map(|line| (name.clone(), line)).collect())
    }
}

/// An operation of Step Functions in the emulator.
async fn call(endpoint: &Url, operation: &str, input: &Value) -> Value {
    api_at(endpoint.as_str(), "states", &format!("AWSStepFunctions.{operation}"), input).await
}
