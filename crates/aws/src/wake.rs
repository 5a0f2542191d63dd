//! Messages of others: what an EventBridge rule, or anything else that may send to the work queue, says about a task.
//! They only wake the task, which then looks itself: nothing else that they say is believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_core::ports::{Message, Purpose};
use longhaul_core::{OwnerId, TaskId, TaskKey};
use serde::Deserialize;

use crate::UnreadableMessage;
use crate::message::read_message;

/// `{"wake": {"owner": "…", "task": "…"}}`, or `{"wake": "OWNER.TASK"}` for senders that know no more than a name that
/// was made of both. The owner is 64 hexadecimal digits, or the same bytes in 43 characters of base64url without
/// padding.
#[derive(Deserialize)]
struct Wake {
    wake: Woken,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Woken {
    Both { owner: String, task: TaskId },
    Name(String),
}

/// The message with this body and trace, and what it is for. What the engine sent is read as [`read_message`] does.
///
/// # Errors
/// [`UnreadableMessage`]
pub fn read_delivered(body: &str, trace: Option<&str>) -> Result<(Message, Purpose), UnreadableMessage> {
    match woken(body) {
        Some(task) => Ok((Message { task, trace: None, attempt: None }, Purpose::Wake)),
        None => Ok((read_message(body, trace)?, Purpose::Work)),
    }
}

fn woken(body: &str) -> Option<TaskKey> {
    let Wake { wake } = serde_json::from_str(body).ok()?;
    match wake {
        Woken::Both { owner, task } => Some(TaskKey::new(owner_of(&owner)?, task)),
        Woken::Name(name) => {
            let (owner, task) = name.split_once('.')?;
            Some(TaskKey::new(owner_of(owner)?, task.parse().ok()?))
        }
    }
}

fn owner_of(text: &str) -> Option<OwnerId> {
    let short = || URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(OwnerId::from_bytes);
    text.parse().ok().or_else(short)
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

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
            format!(r#""x{}.{}""#, key.owner, key.id),
            format!(r#"{{"owner":"{}"}}"#, key.owner),
            format!(r#"{{"owner":"","task":"{}"}}"#, key.id),
        ] {
            let read = read_delivered(&format!(r#"{{"wake":{wake}}}"#), None);
            assert!(matches!(read, Err(UnreadableMessage::Malformed(_))), "{wake}: {read:?}");
        }
    }
}
