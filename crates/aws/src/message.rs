//! Messages on the wire: the key of the task as a small JSON text, and the trace as an attribute. And messages of
//! others: what an EventBridge rule, or anything else that may send to the work queue, says about a task. They only
//! wake the task, which then reads its own state. Nothing else in them is believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_core::ports::{Message, Purpose};
use longhaul_core::{OwnerId, TaskId, TaskKey, TraceParent, strict_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the message attribute that carries the trace, in the form of a W3C `traceparent`.
pub const TRACE_ATTRIBUTE: &str = "traceparent";

/// The version of the body that this program writes and reads.
const VERSION: u32 = 1;

/// A message that cannot be read: other JSON, no JSON, or a version that is not supported.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableMessage {
    /// It is not a message about a task.
    #[error("the message is not about a task")]
    Malformed(#[source] serde_json::Error),
    /// A newer version wrote it.
    #[error("the message has version {0}, which is not supported")]
    UnknownVersion(u32),
}

#[derive(Serialize, Deserialize)]
struct Body {
    v: u32,
    owner: OwnerId,
    id: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

/// The body of a message; its trace is an attribute.
#[must_use]
pub fn body_of(message: &Message) -> String {
    let Message { task, trace: _, attempt } = message;
    // Texts and numbers can always be written as JSON.
    serde_json::to_string(&Body { v: VERSION, owner: task.owner, id: task.id, attempt: *attempt }).unwrap_or_default()
}

/// The message with this body and trace; a trace that cannot be read is dropped. It is for programs that get messages
/// from Lambda instead of [`SqsQueue`](crate::SqsQueue). They should report a message that cannot be read as failed,
/// and handle the others. The queue eventually makes it a dead letter.
pub fn read_message(body: &str, trace: Option<&str>) -> Result<Message, UnreadableMessage> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let version: Version = strict_json::from_str(body).map_err(UnreadableMessage::Malformed)?;
    if version.v != VERSION {
        return Err(UnreadableMessage::UnknownVersion(version.v));
    }
    let body: Body = strict_json::from_str(body).map_err(UnreadableMessage::Malformed)?;
    let task = TaskKey::new(body.owner, body.id);
    Ok(Message { task, trace: trace.and_then(TraceParent::parse), attempt: body.attempt })
}

/// `{"wake": {"owner": "…", "task": "…"}}`, or `{"wake": "OWNER.TASK"}` for senders that know no more than a name that
/// was made of both. The owner is 64 hexadecimal digits, or the same bytes in 43 characters of base64url without
/// padding.
#[derive(Deserialize)]
struct Wake {
    wake: Value,
}

#[derive(Deserialize)]
struct Woken {
    owner: String,
    task: TaskId,
}

/// The message with this body and trace, and what it is for. Messages of the engine are read as [`read_message`] does.
pub fn read_delivered(body: &str, trace: Option<&str>) -> Result<(Message, Purpose), UnreadableMessage> {
    match woken(body) {
        Some(task) => Ok((Message { task, trace: None, attempt: None }, Purpose::Wake)),
        None => Ok((read_message(body, trace)?, Purpose::Work)),
    }
}

fn woken(body: &str) -> Option<TaskKey> {
    let Wake { wake } = strict_json::from_str(body).ok()?;
    if let Value::String(name) = wake {
        let (owner, task) = name.split_once('.')?;
        return Some(TaskKey::new(owner_of(owner)?, task.parse().ok()?));
    }
    let Woken { owner, task } = strict_json::from_value(wake).ok()?;
    Some(TaskKey::new(owner_of(&owner)?, task))
}

fn owner_of(text: &str) -> Option<OwnerId> {
    let short = || URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(OwnerId::from_bytes);
    text.parse().ok().or_else(short)
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    fn message() -> Message {
        let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key();
        Message { task, trace: None, attempt: Some(7) }
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = read_message(&body_of(&message()), Some(trace)).unwrap();
        assert_eq!(read, Message { trace: TraceParent::parse(trace), ..message() });
        assert_eq!(read_message(&body_of(&message()), Some("00-a-b-01")).unwrap(), message());
    }

    #[test]
    fn a_message_of_an_older_version_has_no_attempt() {
        let older = Message { attempt: None, ..message() };
        assert!(!body_of(&older).contains("attempt"));
        assert_eq!(read_message(&body_of(&older), None).unwrap(), older);
    }

    #[test]
    fn unreadable_messages_are_refused_with_the_reason() {
        let Message { task, .. } = message();
        let by_position = format!(r#"[1,"{}","{}",7]"#, task.owner, task.id);
        for body in ["", "hello", "{}", "[]", "[1]", &by_position, r#"{"v":1}"#, r#"{"v":1,"owner":"x","id":"y"}"#] {
            assert!(matches!(read_message(body, None), Err(UnreadableMessage::Malformed(_))), "{body}");
        }
        let newer = body_of(&message()).replace(r#""v":1"#, r#""v":2,"more":[]"#);
        assert!(matches!(read_message(&newer, None), Err(UnreadableMessage::UnknownVersion(2))));
    }

    #[test]
    fn unknown_fields_of_the_same_version_are_ignored() {
        let more = body_of(&message()).replace('}', r#","hint":"x"}"#);
        assert_eq!(read_message(&more, None).unwrap(), message());
    }

    #[test]
    fn whoever_knows_the_task_can_wake_it() {
        let key = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key();
        let (owner, task) = (key.owner, key.id);
        let short = URL_SAFE_NO_PAD.encode(owner.as_bytes());
        assert_eq!(short.len() + 1 + task.to_string().len(), 80);
        for body in [
            format!(r#"{{"wake":{{"owner":"{owner}","task":"{task}"}}}}"#),
            format!(r#"{{"wake":{{"owner":"{short}","task":"{task}","status":"SUCCEEDED"}},"more":1}}"#),
            format!(r#"{{"wake":"{owner}.{task}"}}"#),
            format!(r#"{{ "wake" : "{short}.{task}" }}"#),
        ] {
            let (message, purpose) = read_delivered(&body, Some("00-a-b-01")).unwrap();
            assert_eq!((message.task, message.trace, purpose), (key, None, Purpose::Wake), "{body}");
        }
    }

    #[test]
    fn a_wake_of_no_task_cannot_be_read() {
        let key = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key();
        for wake in [
            "null".to_owned(),
            "{}".to_owned(),
            r#""""#.to_owned(),
            r#"".""#.to_owned(),
            format!(r#""{}""#, key.owner),
            format!(r#""{}.{}x""#, key.owner, key.id),
            format!(r#"["{}","{}"]"#, key.owner, key.id),
            format!(r#""x{}.{}""#, key.owner, key.id),
            format!(r#"{{"owner":"{}"}}"#, key.owner),
            format!(r#"{{"owner":"","task":"{}"}}"#, key.id),
        ] {
            let read = read_delivered(&format!(r#"{{"wake":{wake}}}"#), None);
            assert!(matches!(read, Err(UnreadableMessage::Malformed(_))), "{wake}: {read:?}");
        }
    }
}
