//! Questions to the client, and its answers.

use longhaul_core::FailureKind;
use rmcp::ErrorData;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Run, TaskContext};
use crate::shared::{asking, capabilities, errors};

/// What a client answered: the result of the request that it was sent, as JSON.
pub type InputResponse = Value;

/// What came of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// It was filled in.
    Accepted(T),
    /// The user said no.
    Declined,
    /// The user made no choice.
    Cancelled,
}

impl TaskContext {
    /// Asks the client and waits for its answer, for days if need be. A task becomes `input_required` meanwhile and
    /// costs nothing; questions that are asked side by side (`join!`) are told to the client together. A plain call of
    /// revision `2026-07-28` ends with the questions, and goes on from its start when the client sends its answers. A
    /// plain call of an older revision stays open and waits, as long as its server allows.
    ///
    /// `key` names the question, unique over the task's life.
    ///
    /// # Errors
    /// `-32021` where the client did not declare that it can be asked this, `-32600` in a plain call of an older
    /// revision, which does not know that code; what the client says where it cannot
    /// answer.
    pub async fn request_input(&self, key: &str, request: InputRequest) -> Result<InputResponse, ErrorData> {
        if let Some(answer) = self.0.given.get(key) {
            return Ok(answer.clone());
        }
        match &self.0.run {
            Run::Plain(call) => {
                capabilities::check(&self.0.capabilities, &request).map_err(|error| call.refusal(error))?;
                call.ask(key, request).await
            }
            Run::Task(leg) => {
                capabilities::check(&self.0.capabilities, &request)?;
                let request = serde_json::to_string(&request)
                    .map_err(|error| errors::internal("a question could not be written", &error))?;
                let answer = leg.ask(key, request).await;
                match serde_json::from_str(&answer) {
                    Ok(answer) => asking::unless_refused(answer),
                    Err(error) => {
                        let message = format!("the recorded answer to `{key}` cannot be read: {error}");
                        leg.fail(FailureKind::Corrupt, message).await
                    }
                }
            }
        }
    }

    /// Asks the user to fill in a form.
    ///
    /// # Errors
    /// Those of [`request_input`](Self::request_input), and `-32602` where the answer is no result of a form.
    pub async fn elicit(
        &self,
        key: &str,
        message: impl Into<String>,
        requested_schema: ElicitationSchema,
    ) -> Result<ElicitResult, ErrorData> {
        let params =
            ElicitRequestParams::FormElicitationParams { meta: None, message: message.into(), requested_schema };
        let answer = self.request_input(key, InputRequest::Elicitation(ElicitRequest::new(params))).await?;
        serde_json::from_value(answer).map_err(|error| misanswered(key, &error))
    }

    /// Asks the user to fill in a form that asks for a `T`: a struct of texts, numbers, booleans and choices.
    ///
    /// # Errors
    /// Those of [`elicit`](Self::elicit), and `-32602` where the content is no `T`.
    pub async fn ask<T: JsonSchema + DeserializeOwned>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Answer<T>, ErrorData> {
        let schema = ElicitationSchema::from_type::<T>()
            .map_err(|error| ErrorData::internal_error(format!("no form can ask for this type: {error}"), None))?;
        let answer = self.elicit(key, message, schema).await?;
        match answer.action {
            ElicitationAction::Accept => {
                let content = serde_json::from_value(answer.content.unwrap_or_default());
                content.map(Answer::Accepted).map_err(|error| misanswered(key, &error))
            }
            ElicitationAction::Decline => Ok(Answer::Declined),
            // Cancelled, or a choice that this version of `rmcp` does not know.
            _ => Ok(Answer::Cancelled),
        }
    }
}

fn misanswered(key: &str, error: &serde_json::Error) -> ErrorData {
    ErrorData::invalid_params(format!("the answer to `{key}` is not what was asked for: {error}"), None)
}
