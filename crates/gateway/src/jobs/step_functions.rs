//! Executions of a state machine of AWS Step Functions.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::jobs::aws::{Aws, AwsError, Kind, Protocol, Repeat, Service, not_stopped, started};
use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::rights::Rights;

const SERVICE: Service = Service {
    id: "SFN",
    host: "states",
    protocol: Protocol::Json { content_type: "application/x-amz-json-1.0", target: "AWSStepFunctions" },
};

/// The longest input of an execution, in bytes: a limit of AWS.
const INPUT_BYTES_MAX: usize = 256 << 10;

/// How many of the last events a poll reads to learn in which state the execution is.
const EVENTS: u32 = 25;

/// The name of a state machine, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateMachine {
    /// As it was given, perhaps with a version or an alias.
    arn: String,
    /// Partition, region and account, with the service between them.
    place: String,
    region: String,
    name: String,
}

impl StateMachine {
    /// The state machine with this ARN, which may name a version or an alias.
    pub fn of_arn(arn: &str) -> Result<Self, String> {
        let parts: Vec<&str> = arn.split(':').collect();
        let wrong = || {
            format!(
                "`{arn}` is not the ARN of a state machine: it must be as \
                 arn:aws:states:eu-west-1:123456789012:stateMachine:name"
            )
        };
        let [scheme, partition, service, region, account, kind, name, qualifier @ ..] = parts.as_slice() else {
            return Err(wrong());
        };
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|next| next.is_ascii_alphanumeric() || "-_.".contains(next))
        };
        let is_machine = *scheme == "arn" && *service == "states" && *kind == "stateMachine" && qualifier.len() <= 1;
        if !is_machine
            || ![*partition, *region, *account, *name].into_iter().chain(qualifier.iter().copied()).all(is_name)
        {
            return Err(wrong());
        }
        Ok(Self {
            arn: arn.to_owned(),
            place: format!("arn:{partition}:states:{region}:{account}"),
            region: (*region).to_owned(),
            name: (*name).to_owned(),
        })
    }

    /// Without a version or an alias.
    fn unqualified(&self) -> String {
        format!("{}:stateMachine:{}", self.place, self.name)
    }

    fn execution(&self, name: &str) -> String {
        format!("{}:execution:{}:{name}", self.place, self.name)
    }

    /// The IAM permissions that running it needs.
    #[must_use]
    pub fn rights(&self) -> Vec<Rights> {
        let mut machines = vec![self.unqualified()];
        machines.extend((self.arn != self.unqualified()).then(|| self.arn.clone()));
        vec![
            Rights::new(&["states:DescribeStateMachine", "states:StartExecution"], machines),
            Rights::new(
                &["states:DescribeExecution", "states:GetExecutionHistory", "states:StopExecution"],
                vec![self.execution("*")],
            ),
        ]
    }
}

/// Executions of a state machine: a call's arguments are the input, and its result is the output.
///
/// The name of an execution says which task it is for, so that a repeated start is the same execution. The state
/// machine must be of the type standard: express workflows cannot be polled.
#[derive(Debug)]
pub struct StepFunctions {
    aws: Arc<Aws>,
    machine: StateMachine,
    /// Set once the state machine was found to be of the right type.
    checked: OnceCell<()>,
}

impl StepFunctions {
    /// Executions of this state machine.
    #[must_use]
    pub fn new(aws: Arc<Aws>, machine: StateMachine) -> Self {
        Self { aws, machine, checked: OnceCell::new() }
    }

    async fn call(&self, operation: &str, input: &Value) -> Result<Value, AwsError> {
        // Every operation that is used here is idempotent.
        self.aws.call(&SERVICE, Some(&self.machine.region), operation, input, Repeat::Yes).await
    }

    /// The execution; `None` if there is none.
    async fn describe(&self, arn: &str) -> Result<Option<Value>, AwsError> {
        match self.call("DescribeExecution", &json!({"executionArn": arn})).await {
            Ok(execution) => Ok(Some(execution)),
            Err(error) if error.is("ExecutionDoesNotExist") => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn machine_is_right(&self) -> Result<(), AwsError> {
        let machine = self.machine.unqualified();
        let described = self.call("DescribeStateMachine", &json!({"stateMachineArn": machine})).await?;
        if described.get("type").and_then(Value::as_str) == Some("EXPRESS") {
            let why = format!(
                "{machine} is an express workflow, which cannot be polled while it runs: name one of the type \
                 standard"
            );
            return Err(AwsError::new("DescribeStateMachine", "EXPRESS", why, Kind::Refused));
        }
        Ok(())
    }

    fn explained(&self, error: AwsError) -> JobError {
        let what = match error.code.as_str() {
            "StateMachineDoesNotExist" => "the state machine does not exist: create it, or correct `stateMachine`",
            "StateMachineDeleting" => "it is being deleted: name another one in `stateMachine`",
            "ExecutionLimitExceeded" => return error.into_not_now().of_start(),
            _ => return error.of_start(),
        };
        JobError::Refused(format!("{}: {what}", self.machine.arn))
    }

    /// In which state it is, and how many events there were.
    async fn progress(&self, arn: &str) -> Option<JobProgress> {
        let input = json!({
            "executionArn": arn, "reverseOrder": true, "maxResults": EVENTS, "includeExecutionData": false,
        });
        let history = self.call("GetExecutionHistory", &input).await.ok()?;
        let events = history.get("events")?.as_array()?;
        let entered = events.iter().find_map(|event| event.pointer("/stateEnteredEventDetails/name")?.as_str());
        let done = events.first()?.get("id")?.as_f64()?;
        Some(JobProgress { done, total: None, message: entered.map(|state| format!("in state {state}"))? })
    }
}

#[async_trait]
impl ExternalJob for StepFunctions {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let (key, input) = (start.key(), start.input());
        let text = input.to_string();
        if text.len() > INPUT_BYTES_MAX {
            let bytes = text.len();
            return Err(JobError::Refused(format!(
                "the arguments have {bytes} bytes, and the input of an execution {INPUT_BYTES_MAX} at most: put what \
                 is large into a store, such as S3, and pass its name"
            )));
        }
        self.check().await.or_else(|error| match error {
            JobError::Refused(_) => Err(error),
            JobError::NotNow(_) | JobError::Unanswered(_) | JobError::NotFound(_) => Ok(()),
        })?;
        let request = json!({"stateMachineArn": self.machine.arn, "name": key.as_str(), "input": text});
        match self.call("StartExecution", &request).await {
            Ok(answer) => started("StartExecution", &answer, "/executionArn"),
            Err(error) if error.is("ExecutionAlreadyExists") => match self.find(key, input).await? {
                Some(execution) => Ok(Started::Job(execution)),
                // AWS shows an execution only some time after its start.
                None => Err(JobError::Unanswered(format!("{error}, but it is not shown yet"))),
            },
            Err(error) => Err(self.explained(error)),
        }
    }

    fn again(&self) -> Again {
        Again::SameJob
    }

    /// Derives its ARN. An execution with another input was not started by this job.
    async fn find(&self, key: &JobKey, input: &Value) -> Result<Option<JobRef>, JobError> {
        let arn = self.machine.execution(key.as_str());
        let Some(execution) = self.describe(&arn).await.map_err(AwsError::later)? else { return Ok(None) };
        let is_ours = match execution.get("input").and_then(Value::as_str) {
            Some(text) => serde_json::from_str::<Value>(text).is_ok_and(|started| started == *input),
            // Left out by AWS, so that only the name tells.
            None => true,
        };
        if is_ours {
            return Ok(Some(JobRef::new(arn)));
        }
        Err(JobError::Refused(format!(
            "the execution {arn} was started by another program under this name: its input is not that of this call. \
             Call again, which makes a new name"
        )))
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let Some(execution) = self.describe(job.as_str()).await.map_err(AwsError::later)? else {
            return Err(JobError::NotFound(format!(
                "there is no execution {job} any more: AWS forgets them after 90 days"
            )));
        };
        match execution.get("status").and_then(Value::as_str) {
            Some("SUCCEEDED") => Ok(Poll::Done(Ok(succeeded(&execution)))),
            Some(status @ ("FAILED" | "TIMED_OUT" | "ABORTED")) => Ok(Poll::Done(Ok(failed(job, status, &execution)))),
            _ => Ok(Poll::Going(self.progress(job.as_str()).await)),
        }
    }

    async fn stop(&self, job: &JobRef, why: &str) -> Result<(), JobError> {
        let request = json!({"executionArn": job, "error": "Longhaul.Stopped", "cause": output::cut(why)});
        match self.call("StopExecution", &request).await {
            Ok(_) => Ok(()),
            Err(error) if error.is("ExecutionDoesNotExist") => Err(JobError::NotFound(error.to_string())),
            // It may have ended, which some answer with an error.
            Err(error) => not_stopped(self.poll(job).await, error),
        }
    }

    async fn check(&self) -> Result<(), JobError> {
        let checked = self.checked.get_or_try_init(|| self.machine_is_right()).await;
        match checked {
            Ok(()) => Ok(()),
            Err(error) if error.is("EXPRESS") || error.is("StateMachineDoesNotExist") => match error.is("EXPRESS") {
                true => Err(JobError::Refused(error.message)),
                false => Err(self.explained(error)),
            },
            // An identity that may not describe the state machine may still be allowed to start it.
            Err(error) => Err(error.later()),
        }
    }
}

fn succeeded(execution: &Value) -> rmcp::model::CallToolResult {
    let text = execution.get("output").and_then(Value::as_str).unwrap_or("null");
    output::succeeded(&serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
}

fn failed(job: &JobRef, status: &str, execution: &Value) -> rmcp::model::CallToolResult {
    let text = |key| execution.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (error, cause) = (text("error"), text("cause"));
    let how = match status {
        "TIMED_OUT" => "the execution timed out",
        "ABORTED" => "the execution was stopped from outside",
        _ => "the execution failed",
    };
    let words: Vec<&str> = [Some(how), error, cause].into_iter().flatten().collect();
    let structured = json!({"execution": job, "status": status, "error": error, "cause": cause.map(output::cut)});
    output::failed(&words.join(": "), structured)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:etl";

    #[test]
    fn an_arn_names_a_state_machine_and_perhaps_its_version_or_alias() {
        let machine = StateMachine::of_arn(ARN).unwrap();
        assert_eq!(machine.execution("x"), "arn:aws:states:eu-west-1:123456789012:execution:etl:x");
        let alias = StateMachine::of_arn(&format!("{ARN}:prod")).unwrap();
        assert_eq!((alias.unqualified().as_str(), alias.execution("x")), (ARN, machine.execution("x")));
        for wrong in [
            "",
            "etl",
            "arn:aws:states:eu-west-1:123456789012:activity:etl",
            "arn:aws:states:eu-west-1:123456789012:execution:etl:x",
            "arn:aws:lambda:eu-west-1:123456789012:stateMachine:etl",
            "arn:aws:states::123456789012:stateMachine:etl",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:e*",
            "arn:aws:states:eu-west-1:123456789012:stateMachine:etl:prod:7",
        ] {
            assert!(StateMachine::of_arn(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_rights_are_for_this_state_machine_and_its_executions() {
        let rights = StateMachine::of_arn(&format!("{ARN}:prod")).unwrap().rights();
        let resources: Vec<&str> = rights.iter().flat_map(|rights| rights.resources()).collect();
        let executions = "arn:aws:states:eu-west-1:123456789012:execution:etl:*";
        assert_eq!(resources, [ARN, &format!("{ARN}:prod"), executions]);
    }
}
