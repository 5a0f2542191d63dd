//! Questions that a server has its caller asked. They pass as they were written. If `rmcp` cannot read one, it reads
//! only which kind it is.

use longhaul_core::strict_json;
use longhaul_core::verbatim::{Object, carrying, carrying_alone, request_text};
use rmcp::model::InputRequest;
use serde_json::Value;

/// Whether a method, as JSON, is one of a question to the caller.
pub(super) fn is_question(method: Option<&str>) -> bool {
    matches!(method, Some(r#""elicitation/create""# | r#""sampling/createMessage""# | r#""roots/list""#))
}

/// The text of a question, which carries its own text and can be read. `None` if it has no parameters.
pub(super) fn readable(request: &str) -> Option<String> {
    let carried = carrying(request).filter(|carried| strict_json::from_str::<InputRequest>(carried).is_ok());
    let has_params = || Object::read(request).ok().is_some_and(|request| request.get("params").is_some());
    carried.or_else(|| has_params().then(|| carrying_alone(request)).flatten())
}

/// The text of a result, each of whose questions carries its own text.
pub(super) fn carrying_all(result: &str) -> Option<String> {
    let whole = Object::read(result).ok()?;
    let requests = Object::read(whole.get("inputRequests")?).ok()?;
    let carried = requests.members().map(|(key, request)| {
        let is_known = Object::read(request).is_ok_and(|request| is_question(request.get("method")));
        let carried = is_known.then(|| readable(request)).flatten();
        format!("{}:{}", Value::from(key), carried.as_deref().unwrap_or(request))
    });
    Some(whole.with("inputRequests", &format!("{{{}}}", carried.collect::<Vec<_>>().join(","))))
}

/// A question of a server's task; `None` if the question is of an unknown kind.
pub(crate) fn of_task(request: &str) -> Option<InputRequest> {
    let method = Object::read(request).ok()?;
    let is_known = is_question(method.get("method"));
    is_known.then(|| strict_json::from_str(readable(request).as_deref().unwrap_or(request)).ok()).flatten()
}

/// An id of fewer bytes may be a part of other words too.
const ID_BYTES_MIN: usize = 16;

/// The content of a question that was [read](readable): all of it but what is new each time it is asked.
pub(crate) fn content_of(request: &str) -> String {
    let text = strict_json::from_str(request).map_or_else(|_| request.to_owned(), request_text);
    let content = || {
        let whole = Object::read(&text).ok()?;
        let params = Object::read(whole.get("params")?).ok()?.without("_meta");
        let params = Object::read(&params).ok()?;
        let id = params.get("elicitationId").map(strict_json::from_str::<String>);
        let content = whole.with("params", &params.without("elicitationId"));
        Some(match id {
            Some(Ok(id)) if id.len() >= ID_BYTES_MIN => content.replace(&id, ""),
            _ => content,
        })
    };
    content().unwrap_or_else(|| text.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_is_asked_as_it_was_written() {
        for schema in [
            r#"{"type":"string","maxLength":3,"default":"\u00e9","x-order":1.0}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            r#"{"type":"integer","enum":[1,2],"maximum":1E2}"#,
            r#"{"type":"object","properties":{}}"#,
            r##"{"$ref":"#/$defs/a"}"##,
        ] {
            let params = format!(r#"{{"message":"?","requestedSchema":{{"properties":{{"v":{schema}}}}}}}"#);
            let text = format!(r#"{{"method":"elicitation/create","params":{params}}}"#);
            let question = of_task(&text).unwrap();
            assert!(matches!(question, InputRequest::Elicitation(_)), "{schema}");
            assert_eq!(request_text(serde_json::to_value(question).unwrap()), text);
        }
        let sampling = json!({"method": "sampling/createMessage", "params": {"messages": 7}}).to_string();
        assert!(matches!(of_task(&sampling), Some(InputRequest::CreateMessage(_))));
    }

    #[test]
    fn a_question_that_nobody_knows_is_none() {
        assert!(of_task(r#"{"method":"odd/odd","params":{}}"#).is_none());
    }
}
