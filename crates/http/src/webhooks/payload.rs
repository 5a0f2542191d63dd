//! The body for receivers, as `docs/schemas/webhook-1.json` describes it, and an event bus, as
//! `docs/schemas/event-1.json` does: fields may be added, and mean the same for ever.

use jiff::Timestamp;
use longhaul_core::{Notification, NotificationKind};
use serde_json::{Map, Value, json};

/// The body of the webhook for `notification`: the same for each try.
#[must_use]
pub fn payload(notification: &Notification) -> String {
    json!({
        "type": format!("task.{}", notification.what.as_str()),
        "timestamp": moment(notification),
        "data": details(notification),
    })
    .to_string()
}

/// Which task it is about, and what became of it.
#[must_use]
pub fn details(notification: &Notification) -> Value {
    let mut data = Map::from_iter([
        ("taskId".to_owned(), json!(notification.task.id.to_string())),
        ("tool".to_owned(), json!(notification.tool)),
        ("status".to_owned(), json!(notification.what.as_str())),
    ]);
    data.extend(notification.message.as_ref().map(|message| ("message".to_owned(), json!(message))));
    data.extend(notification.trace.map(|trace| ("traceparent".to_owned(), json!(trace.as_str()))));
    Value::Object(data)
}

/// When it happened (RFC 3339, UTC).
fn moment(notification: &Notification) -> String {
    let ms = i64::try_from(notification.at.as_ms()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or_default().to_string()
}

/// The `source` of all events.
pub const EVENT_SOURCE: &str = "dev.longhaul";

/// The `detail-type` of the event.
#[must_use]
pub const fn detail_type(what: NotificationKind) -> &'static str {
    match what {
        NotificationKind::Completed => "Longhaul Task Completed",
        NotificationKind::Failed => "Longhaul Task Failed",
        NotificationKind::Cancelled => "Longhaul Task Cancelled",
        NotificationKind::InputRequired => "Longhaul Task Input Required",
        NotificationKind::CleanupGivenUp => "Longhaul Task Cleanup Given Up",
    }
}

/// The `detail` of the event for `notification`: the same however often it is sent.
#[must_use]
pub fn detail(notification: &Notification) -> Value {
    let mut detail = details(notification);
    if let Value::Object(fields) = &mut detail {
        fields.insert("id".to_owned(), json!(notification.id()));
        fields.insert("timestamp".to_owned(), json!(moment(notification)));
    }
    detail
}

#[cfg(test)]
pub(crate) mod tests {
    use longhaul_core::{TaskKey, TraceParent};
    use longhaul_testkit::given;

    use super::*;

    pub(crate) fn notification(what: NotificationKind) -> Notification {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        Notification {
            task: TaskKey::new(given::owner("alice"), id),
            what,
            attempt: 3,
            at: longhaul_core::Timestamp::from_ms(1_763_750_000_123),
            tool: "report".to_owned(),
            message: None,
            trace: None,
        }
    }

    #[test]
    fn a_payload_says_which_task_and_what_became_of_it() {
        let body: Value = serde_json::from_str(&payload(&notification(NotificationKind::Completed))).unwrap();
        let data = json!({"status": "completed", "taskId": "01890a5d-ac96-774b-bcce-b302099a8057", "tool": "report"});
        assert_eq!(body, json!({"type": "task.completed", "timestamp": "2025-11-21T18:33:20.123Z", "data": data}));
    }

    #[test]
    fn every_payload_is_as_the_schema_says() {
        let text = include_str!("../../../../docs/schemas/webhook-1.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap();
        let trace = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        for what in NotificationKind::ALL {
            let full = Notification { message: Some("too late".to_owned()), trace, ..notification(what) };
            for notification in [notification(what), full] {
                let body: Value = serde_json::from_str(&payload(&notification)).unwrap();
                assert!(schema.is_valid(&body), "{body}");
            }
        }
        assert!(!schema.is_valid(&json!({"type": "task.working", "timestamp": "", "data": {}})));
    }

    #[test]
    fn every_event_is_as_the_schema_says() {
        let text = include_str!("../../../../docs/schemas/event-1.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap();
        let trace = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let whole = |notification: &Notification| {
            json!({
                "source": EVENT_SOURCE,
                "detail-type": detail_type(notification.what),
                "resources": ["arn:aws:dynamodb:eu-west-1:111122223333:table/tasks"],
                "detail": detail(notification),
            })
        };
        for what in NotificationKind::ALL {
            let full = Notification { message: Some("too late".to_owned()), trace, ..notification(what) };
            for notification in [notification(what), full] {
                let event = whole(&notification);
                assert!(schema.is_valid(&event), "{event}");
                assert_eq!(event["detail"]["id"], notification.id());
            }
        }
        let mut wrong = whole(&notification(NotificationKind::Completed));
        wrong["detail"]["status"] = json!("working");
        assert!(!schema.is_valid(&wrong));
    }
}
