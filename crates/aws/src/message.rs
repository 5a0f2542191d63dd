//! Messages on the wire: the key of the task as a small JSON text, and the trace as an attribute.

use longhaul_core::ports::Message;
use longhaul_core::{OwnerId, TaskId, TaskKey, TraceParent};
use serde::{Deserialize, Serialize};

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

/// The message with this body and trace; a trace that cannot be read is dropped. For programs that get messages from
/// Lambda instead of [`SqsQueue`](crate::SqsQueue): they should report a message that cannot be read as failed, so that
/// the queue eventually makes it a dead letter, and handle the others.
///
/// # Errors
/// [`UnreadableMessage`]
pub fn read_message(body: &str, trace: Option<&str>) -> Result<Message, UnreadableMessage> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let version: Version = serde_json::from_str(body).map_err(UnreadableMessage::Malformed)?;
    if version.v != VERSION {
        return Err(UnreadableMessage::UnknownVersion(version.v));
    }
    let body: Body = serde_json::from_str(body).map_err(UnreadableMessage::Malformed)?;
    let task = TaskKey::new(body.owner, body.id);
    Ok(Message { task, trace: trace.and_then(TraceParent::parse), attempt: body.attempt })
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
        for body in ["", "hello", "{}", "[]", r#"{"v":1}"#, r#"{"v":1,"owner":"x","id":"y"}"#] {
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
}
