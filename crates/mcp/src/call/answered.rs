//! The answer of a handler, in the form of the client's revision.

use http::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ErrorCode, RequestId, ResultType, ServerResult};
use serde_json::{Map, Value};

use crate::Body;
use crate::protocol_version::Endpoint;
use crate::reply::{self, errors, json};
use crate::request::incoming::Incoming;
use crate::revision::Generation;
use crate::tool_calls::asking;
use crate::views::{revised, verbatim};

/// The members of a result. Fails if it is not an object.
pub(crate) fn members(result: &ServerResult) -> Result<Map<String, Value>, ErrorData> {
    match serde_json::to_value(result) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(ErrorData::internal_error("the handler's result is not an object", None)),
        Err(error) => Err(errors::internal("the handler's result could not be written", &error)),
    }
}

/// The result as JSON text, as the client's revision has it.
pub(super) fn patched(call: &Incoming<'_>, endpoint: &Endpoint, mut result: ServerResult) -> Result<String, ErrorData> {
    if !endpoint.patches(call) {
        return written(call.client.revision(), result);
    }
    complete(call.client.revision(), &mut result);
    let mut members = members(&result)?;
    verbatim::expand(&mut members);
    endpoint.patch(call, &mut members);
    verbatim::written(members)
}

/// The same of a result that is the same in every protocol version of a revision.
pub(crate) fn written(revision: &str, mut result: ServerResult) -> Result<String, ErrorData> {
    complete(revision, &mut result);
    let text = verbatim::take_of_any(&mut result);
    let is_of_a_tool = matches!(result, ServerResult::CallToolResult(_));
    if let Some(text) = text {
        let text = verbatim::for_client(text, &members(&result)?)?;
        return if is_of_a_tool { revised::result_text(revision, text) } else { Ok(text) };
    }
    let is_as_it_is = match &result {
        ServerResult::CallToolResult(CallToolResult { structured_content, .. }) => {
            revised::is_known(revision, structured_content.as_ref())
        }
        ServerResult::ListToolsResult(_)
        | ServerResult::ListPromptsResult(_)
        | ServerResult::ListResourcesResult(_)
        | ServerResult::ListResourceTemplatesResult(_)
        | ServerResult::InputRequiredResult(_) => false,
        _ => true,
    };
    if is_as_it_is {
        return serde_json::to_string(&result)
            .map_err(|error| errors::internal("the handler's result could not be written", &error));
    }
    let mut members = members(&result)?;
    if is_of_a_tool {
        revised::result(revision, &mut members);
    }
    verbatim::expand(&mut members);
    match members.get_mut("inputRequests").map(Value::take) {
        Some(Value::Object(requests)) => {
            verbatim::with_member(members, "inputRequests", &asking::all_written(requests))
        }
        _ => verbatim::written(members),
    }
}

/// Marks a result as complete, where the revision requires that and the handler has not done it.
fn complete(revision: &str, result: &mut ServerResult) {
    if Generation::of_version(Some(revision)) == Generation::Handshake {
        return;
    }
    let kind = match result {
        ServerResult::CompleteResult(result) => &mut result.result_type,
        ServerResult::GetPromptResult(result) => &mut result.result_type,
        ServerResult::ListPromptsResult(result) => &mut result.result_type,
        ServerResult::ListResourcesResult(result) => &mut result.result_type,
        ServerResult::ListResourceTemplatesResult(result) => &mut result.result_type,
        ServerResult::ReadResourceResult(result) => &mut result.result_type,
        ServerResult::ListToolsResult(result) => &mut result.result_type,
        ServerResult::CallToolResult(result) => &mut result.result_type,
        ServerResult::ListSkillsResult(result) => &mut result.result_type,
        ServerResult::GetSkillResult(result) => &mut result.result_type,
        ServerResult::CustomResult(custom) => {
            if let Some(members) = custom.0.as_object_mut() {
                members.entry("resultType").or_insert_with(|| "complete".into());
            }
            return;
        }
        // All others say it always.
        _ => return,
    };
    kind.get_or_insert(ResultType::COMPLETE);
}

pub(super) fn text(id: &RequestId, outcome: Result<String, ErrorData>) -> String {
    match outcome {
        Ok(result) => reply::result_text(id, &result),
        Err(error) => reply::error_text(Some(id), &error),
    }
}

pub(super) fn answer_with(status: StatusCode, id: &RequestId, outcome: Result<String, ErrorData>) -> Response<Body> {
    match outcome {
        Ok(result) => json(status, reply::result_text(id, &result)),
        Err(error) => reply::error_with(status, Some(id), &error),
    }
}

/// Older revisions know no status for the error of a method.
pub(super) fn status(generation: Generation, outcome: &Result<String, ErrorData>) -> StatusCode {
    match (generation, outcome) {
        (Generation::Handshake, _) | (_, Ok(_)) => StatusCode::OK,
        (Generation::PerRequest, Err(error)) => match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
            | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
            ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        },
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CompleteResult, GetPromptResult, ReadResourceResult};

    use super::*;

    #[test]
    fn results_of_older_handlers_say_that_they_are_complete() {
        let mut read = ReadResourceResult::new(Vec::new());
        let mut prompt = GetPromptResult::new(Vec::new());
        let mut completed = CompleteResult::default();
        (read.result_type, prompt.result_type, completed.result_type) = (None, None, None);
        let results = [ServerResult::ReadResourceResult(read), prompt.into(), ServerResult::CompleteResult(completed)];
        for result in results {
            let text = written("2026-07-28", result.clone()).unwrap();
            assert!(text.contains(r#""resultType":"complete""#), "{text}");
            let text = written("2025-11-25", result).unwrap();
            assert!(!text.contains("resultType"), "{text}");
        }
    }
}
