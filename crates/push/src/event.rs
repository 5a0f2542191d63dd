//! What an event bus gets, as `docs/schemas/event-1.json` describes it: fields may be added, and mean the same for
//! ever.

use longhaul_core::{Notification, NotificationKind};
use serde_json::{Value, json};

use crate::details;
use crate::payload::moment;

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
mod tests {
    use longhaul_core::TraceParent;

    use super::*;
    use crate::payload::tests::notification;

    #[test]
    fn every_event_is_as_the_schema_says() {
        let text = include_str!("../../../docs/schemas/event-1.json");
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
