//! Messages of a server behind a URL that has tasks. The client below reads values. So what it passes on carries its
//! text: results, the data of errors, and questions.

use longhaul_core::verbatim::{KEY, Object, in_one_line, written_as};
use serde_json::Value;

use super::questions;

/// The message, in which everything that passes carries its text.
pub(super) fn received(message: String) -> String {
    carrying(&message).unwrap_or(message)
}

fn carrying(message: &str) -> Option<String> {
    let whole = Object::read(message).ok()?;
    if whole.get("method").is_some() {
        return questions::is_question(whole.get("method")).then(|| questions::readable(message)).flatten();
    }
    if let Some(error) = whole.get("error") {
        return Some(whole.with("error", &error_carrying(error)?));
    }
    let text = whole.get("result")?;
    let result = Object::read(text).ok()?;
    let has = |name| result.get(name).is_some();
    let carried = if has("taskId") && has("status") {
        task_carrying(text)?
    } else if has("content") || has("structuredContent") {
        result.with(KEY, &string(text))
    } else {
        return None;
    };
    Some(whole.with("result", &carried))
}

fn task_carrying(text: &str) -> Option<String> {
    let mut task = questions::carrying_all(text).unwrap_or_else(|| text.to_owned());
    if let Some(error) = Object::read(text).ok()?.get("error").and_then(error_carrying) {
        task = Object::read(&task).ok()?.with("error", &error);
    }
    if let Some(result) = Object::read(text).ok()?.get("result").filter(|result| result.starts_with('{')) {
        task = Object::read(&task).ok()?.with("result", &format!("{{\"{KEY}\":{}}}", string(result)));
    }
    Some(task)
}

fn error_carrying(error: &str) -> Option<String> {
    let error = Object::read(error).ok()?;
    Some(error.with("data", &written_as(error.get("data")?).ok()?.to_string()))
}

fn string(text: &str) -> String {
    Value::from(in_one_line(text)).to_string()
}

/// The text of a result that was received so.
pub(super) fn of_result(result: &Value) -> String {
    result.get(KEY).and_then(Value::as_str).map_or_else(|| result.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use longhaul_core::verbatim::text_of;

    use super::*;

    fn read(message: &str) -> Value {
        serde_json::from_str(&received(message.to_owned())).unwrap()
    }

    #[test]
    fn ends_of_tasks_and_calls_carry_their_text() {
        let end = r#"{"content":[ ],"x":1E5}"#;
        let called = read(&format!(r#"{{"id":1,"result":{end}}}"#));
        assert_eq!(of_result(&called["result"]), end);
        let task = r#""taskId":"t","status":"completed""#;
        let polled = read(&format!(r#"{{"id":1,"result":{{{task},"result":{end}}}}}"#));
        assert_eq!(of_result(&polled["result"]["result"]), end);
        let failed = read(&format!(r#"{{"result":{{{task},"error":{{"code":1,"data":1E5}}}}}}"#));
        assert_eq!(text_of(&failed["result"]["error"]["data"]), "1E5");
        let refused = read(r#"{"error":{"code":1,"message":"","data":[1.0, 2]}}"#);
        assert_eq!(text_of(&refused["error"]["data"]), "[1.0, 2]");
        assert_eq!(received(r#"{"result":{"tools":[1E5]}}"#.to_owned()), r#"{"result":{"tools":[1E5]}}"#);
    }

    #[test]
    fn questions_of_tasks_carry_their_text() {
        let params = r#"{"message":"?","requestedSchema":{"properties":{"v":{"maximum":1E2}}}}"#;
        let question = format!(r#""method":"elicitation/create","params":{params}"#);
        let task = format!(r#"{{"taskId":"t","status":"input_required","inputRequests":{{"q":{{{question}}}}}}}"#);
        let asked = &read(&format!(r#"{{"result":{task}}}"#))["result"]["inputRequests"]["q"];
        assert_eq!(asked["params"]["_meta"][KEY], params);
        assert_eq!(read(&format!(r#"{{"id":1,{question}}}"#))["params"]["_meta"][KEY], params);
    }
}
