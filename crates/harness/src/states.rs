//! State machines of AWS Step Functions in the emulator, and what tells of their executions.

use serde_json::{Value, json};

use crate::emulator::{endpoint, fresh_name};

/// A state machine of one test.
pub struct Machine {
    arn: String,
}

impl Machine {
    /// One with these states, which begins with `First`.
    pub async fn of(states: Value) -> Self {
        Self::of_type("STANDARD", states).await
    }

    /// An express workflow.
    pub async fn express() -> Self {
        Self::of_type("EXPRESS", json!({"First": {"Type": "Pass", "End": true}})).await
    }

    async fn of_type(kind: &str, states: Value) -> Self {
        let definition = json!({"StartAt": "First", "States": states}).to_string();
        let role = role().await;
        let request = json!({"name": fresh_name(), "definition": definition, "roleArn": role, "type": kind});
        let created = states_api("CreateStateMachine", &request).await;
        Self { arn: created["stateMachineArn"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned() }
    }

    /// One that waits, and then passes on its input as `got`.
    pub async fn waiting(seconds: u32) -> Self {
        let wait = json!({"Type": "Wait", "Seconds": seconds, "Next": "Load"});
        let load = json!({"Type": "Pass", "Parameters": {"got.$": "$"}, "End": true});
        Self::of(json!({"First": wait, "Load": load})).await
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Its executions, the newest first.
    pub async fn executions(&self) -> Vec<Value> {
        let listed = states_api("ListExecutions", &json!({"stateMachineArn": self.arn})).await;
        listed["executions"].as_array().unwrap_or_else(|| panic!("{listed}")).clone()
    }

    /// Waits until it has so many executions, of which the newest has this status, and returns that.
    pub async fn until(&self, executions: usize, status: &str) -> Value {
        let begun = std::time::Instant::now();
        loop {
            let all = self.executions().await;
            if all.len() == executions && all[0]["status"] == status {
                let arn = json!({"executionArn": all[0]["executionArn"]});
                return states_api("DescribeExecution", &arn).await;
            }
            assert!(begun.elapsed().as_secs() < 60, "waited for {executions} executions and {status}: {all:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

/// A role for state machines, which an emulator that enforces permissions asks for.
async fn role() -> &'static str {
    let trust = json!({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole",
    }]});
    let trust: String = url::form_urlencoded::byte_serialize(trust.to_string().as_bytes()).collect();
    let request = reqwest::Client::new()
        .post(endpoint())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request")
        .body(format!("Action=CreateRole&Version=2010-05-08&RoleName=states&AssumeRolePolicyDocument={trust}"));
    // It is there already if another test was first.
    request.send().await.unwrap();
    "arn:aws:iam::000000000000:role/states"
}

/// An operation of Step Functions.
pub async fn states_api(operation: &str, input: &Value) -> Value {
    api("states", &format!("AWSStepFunctions.{operation}"), input).await
}

/// An operation of a service of the emulator, which does not look at signatures.
pub async fn api(service: &str, target: &str, input: &Value) -> Value {
    api_at(endpoint(), service, target, input).await
}

/// The same of the emulator at this endpoint.
pub async fn api_at(endpoint: &str, service: &str, target: &str, input: &Value) -> Value {
    let credential = format!("AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request");
    let request = reqwest::Client::new()
        .post(endpoint)
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", target)
        .header("authorization", credential)
        .body(input.to_string());
    serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap()
}
