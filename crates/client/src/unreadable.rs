//! Answers that cannot be read as JSON, but nearly: with `NaN`, half a surrogate pair, bytes that are not UTF-8, or cut
//! off. That request gets no other answer, so waiting for one would have no end.

use serde_json::Value;

/// The id of the request that a text answers, if it begins as the answer to one. Its members are not checked.
#[must_use]
pub fn unreadable_answer(text: &[u8]) -> Option<Value> {
    let mut rest = text.trim_ascii_start().strip_prefix(b"{")?;
    let (mut depth, mut id, mut is_answer) = (1_usize, None, false);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'"' => {
                let Some((text, after)) = string(rest) else { break };
                rest = after;
                // A text is a name where a colon follows.
                let value = rest.trim_ascii_start().strip_prefix(b":").filter(|_| depth == 1);
                match (text, value) {
                    (b"method", Some(_)) => return None,
                    (b"result" | b"error", Some(_)) => is_answer = true,
                    (b"id", Some(value)) => id = id.or_else(|| scalar(value)),
                    _ => {}
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => break,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    id.filter(|_| is_answer)
}

/// The text before the quotation mark that ends a string, and after it.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// The id at the beginning.
fn scalar(text: &[u8]) -> Option<Value> {
    let text = text.trim_ascii_start();
    let end = match text.strip_prefix(b"\"") {
        Some(rest) => string(rest)?.0.len() + 2,
        None => text.iter().position(|byte| b",}] \t\r\n".contains(byte)).unwrap_or(text.len()),
    };
    let id: Value = serde_json::from_slice(text.get(..end)?).ok()?;
    Some(id).filter(|id| id.is_string() || id.is_number())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_known_by_its_id_though_it_is_not_json() {
        for (text, id) in [
            (r#"{"jsonrpc": "2.0", "id": 7, "result": {"mean": NaN}}"#, json!(7)),
            (r#"{"result": {"text": "\ud800", "id": 3}, "id": "a\"b"}"#, json!("a\"b")),
            (r#" {"error" : {"code": -Infinity, "method": "x"}, "id" : 0 }"#, json!(0)),
            (r#"{"id":7,"result":{"content":[{"type":"text","te"#, json!(7)),
        ] {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
            assert_eq!(unreadable_answer(text.as_bytes()), Some(id), "{text}");
        }
        assert_eq!(unreadable_answer(b"{\"id\":1,\"result\":\"\xff\"}"), Some(json!(1)));
        assert_eq!(unreadable_answer(b"{\"id\":1,\"result\":[1, 2"), Some(json!(1)));
    }

    #[test]
    fn requests_notifications_and_lines_for_people_are_no_answers() {
        for text in [
            "",
            "{",
            "{}",
            "loaded {\"id\": 1, \"result\": 2}",
            r#"{"id": 1, "method": "ping", "result": NaN}"#,
            r#"{"params": {"id": 1, "result": NaN}}"#,
            r#"{"id": 1, "level": NaN}"#,
            r#"{"id": [1], "result": NaN}"#,
            r#"[{"id": 1, "result": NaN}]"#,
            r#"{"id"#,
        ] {
            assert_eq!(unreadable_answer(text.as_bytes()), None, "{text}");
        }
    }
}
