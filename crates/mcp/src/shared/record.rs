//! The call as the task's record stores it for the worker.

use std::collections::BTreeMap;
use std::error::Error;

use longhaul_core::Task;
use longhaul_engine::Engine;
use rmcp::model::{CallToolRequestParams, InputResponses, JsonObject, ProgressToken, RequestMetaObject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::verified_caller::VerifiedCaller;

/// A tool call, with everything that the tool may want to know about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredCall {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<JsonObject>,
    /// What the request said about its client: version, name, capabilities.
    #[serde(default, rename = "_meta")]
    pub(crate) meta: RequestMetaObject,
    /// The answers and the state that came with the call that became the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_responses: Option<InputResponses>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_state: Option<String>,
    /// The token for progress notifications, if it is valid for as long as the task lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress_token: Option<ProgressToken>,
    /// All answers that the client gave before the call became a task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) given: BTreeMap<String, Value>,
    /// Who called. Records of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<VerifiedCaller>,
}

impl StoredCall {
    /// The call to be stored. Its progress token is valid only for the request that brought it, unless it is stored
    /// [too](Self::with_progress_token).
    pub(crate) fn new(
        request: CallToolRequestParams,
        mut meta: RequestMetaObject,
        given: BTreeMap<String, Value>,
    ) -> Self {
        meta.0.0.remove("progressToken");
        let CallToolRequestParams { arguments, input_responses, request_state, .. } = request;
        Self { arguments, meta, input_responses, request_state, progress_token: None, given, caller: None }
    }

    /// The token for progress notifications to the client of `task`. If the call cannot be read, no progress is
    /// reported; the rest of an answer does not depend on it.
    pub(crate) async fn progress_token_of(engine: &Engine, task: &Task) -> Option<ProgressToken> {
        let call = match engine.load(&task.key(), &task.request).await {
            Ok(call) => serde_json::from_str::<Self>(&call).map_err(|error| Box::new(error) as Box<dyn Error>),
            Err(error) => Err(error.into()),
        };
        match call {
            Ok(call) => call.progress_token,
            Err(error) => {
                tracing::warn!(task_id = %task.id, error = &*error, "the call of a task cannot be read");
                None
            }
        }
    }

    /// The same call with a progress token that outlives the request.
    pub(crate) fn with_progress_token(mut self, progress_token: Option<ProgressToken>) -> Self {
        self.progress_token = progress_token;
        self
    }

    /// What the tool is called with in an attempt: what came with the call, or with the latest round of answers.
    pub(crate) fn into_params(
        self,
        tool: &str,
        round: Option<(Option<String>, InputResponses)>,
    ) -> CallToolRequestParams {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = self.arguments;
        (params.request_state, params.input_responses) = match round {
            Some((state, answers)) => (state, Some(answers)),
            None => (self.request_state, self.input_responses),
        };
        params
    }

    /// What the tool finds in the context of its request. A tool reports progress only if there is a token.
    pub(crate) fn meta_for(&self, token: ProgressToken) -> RequestMetaObject {
        let mut meta = self.meta.clone();
        meta.set_progress_token(token);
        meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_version_without_callers_is_read() {
        let call: StoredCall = serde_json::from_str(r#"{"arguments":{"a":1},"_meta":{}}"#).unwrap();
        assert!(call.caller.is_none());
        assert!(!serde_json::to_string(&call).unwrap().contains("caller"), "nothing is stored of nobody");
    }
}
