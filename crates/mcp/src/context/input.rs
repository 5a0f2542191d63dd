//! Questions to the client, and its answers.

use longhaul_core::{FailureKind, strict_json};
use rmcp::ErrorData;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::form::form_of;
use super::{Run, TaskContext};
use crate::schema::Schema;
use crate::tool_calls::asking;

/// The answer of a client to [`TaskContext::request_input`]: the result of the request, as JSON. For an elicitation, an
/// example is `{"action": "accept", "content": {…}}`.
pub type InputResponse = Value;

/// The user's answer to a form that [`TaskContext::ask`] showed.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::{Answer, TaskContext};
/// use rmcp::{ErrorData, schemars};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Table {
///     /// Which table?
///     name: String,
/// }
///
/// async fn drop_table(task: TaskContext) -> Result<String, ErrorData> {
///     Ok(match task.ask::<Table>("table", "Which table is to be dropped?").await? {
///         Answer::Accepted(Table { name }) => format!("dropped {name}"),
///         Answer::Declined => "nothing is dropped".to_owned(),
///         _closed => return Err(ErrorData::invalid_request("ask me again when you know", None)),
///     })
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<T> {
    /// The user filled it in.
    Accepted(T),
    /// The user said no.
    Declined,
    /// The user closed it without a choice.
    Cancelled,
}

impl<T> Answer<T> {
    /// The content of the form; `None` for every other answer.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::Answer;
    /// assert_eq!(Answer::Accepted(7).accepted(), Some(7));
    /// assert_eq!(Answer::<u32>::Declined.accepted(), None);
    /// ```
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(filled_in) => Some(filled_in),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

impl TaskContext {
    /// Sends the client any request that the protocol allows, and waits for its answer, for days if need be. For forms,
    /// [`ask`](Self::ask) is shorter.
    ///
    /// Meanwhile a task is `input_required` and costs nothing. Questions that are asked side by side (`join!`) reach
    /// the client together. A plain call of revision `2026-07-28` ends with the questions, and starts again when the
    /// client sends its answers. A plain call of an older revision stays open and waits for as long as its server
    /// allows.
    ///
    /// `key` identifies the question and is unique within the task.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskContext;
    /// # use rmcp::ErrorData;
    /// # use rmcp::model::{ElicitationSchema, InputRequest};
    /// async fn roots(task: TaskContext, request: InputRequest) -> Result<String, ErrorData> {
    ///     Ok(task.request_input("roots", request).await?.to_string())
    /// }
    ///
    /// async fn name(task: TaskContext, form: ElicitationSchema) -> Result<String, ErrorData> {
    ///     let answer = task.elicit("name", "What is it called?", form).await?;
    ///     Ok(format!("{answer:?}"))
    /// }
    /// ```
    ///
    /// # Errors
    /// `-32021` if the client did not declare this capability. A plain call of an older revision, which does not know
    /// that code, gets `-32600`. If the client answers with an error, that error.
    pub async fn request_input(&self, key: &str, request: InputRequest) -> Result<InputResponse, ErrorData> {
        if let Some(answer) = self.0.given.get(key) {
            return Ok(answer.clone());
        }
        let declared = asking::check_declared(&self.0.capabilities, &request);
        let request = match &self.0.run {
            Run::Plain(call) => {
                declared.map_err(|error| call.refusal(error))?;
                match call.ask(key, request).await {
                    Ok(answer) => return answer,
                    Err(question) => question,
                }
            }
            Run::Task(_) => declared.and_then(|()| asking::written(&request))?,
        };
        let attempt = &self.0.attempt;
        let answer = attempt.ask(key, request).await;
        match strict_json::from_str(&answer) {
            Ok(answer) => asking::unless_refused(answer),
            Err(error) => {
                let message = format!("the recorded answer to `{key}` cannot be read: {error}");
                attempt.fail(FailureKind::Corrupt, message).await
            }
        }
    }

    /// Asks the user to fill in a form that is described by a schema. [`ask`](Self::ask) makes the schema from a type.
    ///
    /// # Errors
    /// The errors of [`request_input`](Self::request_input), and `-32602` if the answer is not the result of a form.
    pub async fn elicit(
        &self,
        key: &str,
        message: impl Into<String>,
        requested_schema: ElicitationSchema,
    ) -> Result<ElicitResult, ErrorData> {
        let params =
            ElicitRequestParams::FormElicitationParams { meta: None, message: message.into(), requested_schema };
        let answer = self.request_input(key, InputRequest::Elicitation(ElicitRequest::new(params))).await?;
        strict_json::from_value(answer).map_err(|error| misanswered(key, &error))
    }

    /// Asks the user to fill in a form for a `T`: a struct of strings, numbers, booleans, choices and lists of choices.
    /// Each field may be optional. A choice is an enum without values in its variants. Doc comments of fields and
    /// variants are shown in the form. `Server::form` checks the type when the server starts.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::{Answer, TaskContext};
    /// # use rmcp::{ErrorData, schemars};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Confirmation {
    ///     /// Delete all of it?
    ///     confirm: bool,
    /// }
    ///
    /// async fn may_delete(task: &TaskContext) -> Result<bool, ErrorData> {
    ///     let answer = task.ask::<Confirmation>("confirm", "This deletes 4,211 files.").await?;
    ///     Ok(answer.accepted().is_some_and(|filled_in| filled_in.confirm))
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of [`elicit`](Self::elicit), and `-32602` if the content is not a `T`, with the names of the fields
    /// that are wrong. `-32603` if no form can ask for a `T`, with the name of the field.
    pub async fn ask<T: JsonSchema + DeserializeOwned>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> Result<Answer<T>, ErrorData> {
        let form = form_of::<T>().map_err(|why| ErrorData::internal_error(why, None))?;
        let answer = self.elicit(key, message, form.clone()).await?;
        match answer.action {
            ElicitationAction::Accept => {
                let content = answer.content.unwrap_or_default();
                let read = strict_json::from_value(content.clone()).map(Answer::Accepted);
                read.map_err(|error| misfilled(key, &form, &content, &error))
            }
            ElicitationAction::Decline => Ok(Answer::Declined),
            // Cancelled, or a choice that this version of `rmcp` does not know.
            _ => Ok(Answer::Cancelled),
        }
    }
}

/// The error for a form that was filled in wrongly. The schema knows the names of the fields.
fn misfilled(key: &str, form: &ElicitationSchema, content: &Value, error: &serde_json::Error) -> ErrorData {
    let schema = serde_json::to_value(form).ok().and_then(|form| Schema::compile(form).ok());
    match schema.map(|schema| schema.check(content)) {
        Some(Err(faults)) => {
            let message = format!("the answer to `{key}` is not what was asked for: {}", faults.join("; "));
            ErrorData::invalid_params(message, None)
        }
        Some(Ok(())) | None => misanswered(key, error),
    }
}

fn misanswered(key: &str, error: &serde_json::Error) -> ErrorData {
    ErrorData::invalid_params(format!("the answer to `{key}` is not what was asked for: {error}"), None)
}
