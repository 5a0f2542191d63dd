//! What an event bus gets, as `docs/schemas/event-1.json` describes it: fields may be added, and mean the same for
//! ever.

use longhaul_core::{Announced, Announcement};
use serde_json::{Value, json};

use crate::details;
use crate::payload::moment;

/// The `source` of all events.
pub const EVENT_SOURCE: &str = "dev.longhaul";

/// The `detail-type` of the event.
#[must_use]
pub const fn detail_type(what: Announced) -> &'static str {
    match what {
        Announced::Completed => "Longhaul Task Completed",
        Announced::Failed => "Longhaul Task Failed",
        Announced::Cancelled => "Longhaul Task Cancelled",
        Announced::InputRequired => "Longhaul Task Input Required",
    }
}

/// The `detail` of the event for `announcement`: the same however often it is sent.
#[must_use]
pub fn detail(announcement: &Announcement) -> Value {
    let mut detail = details(announcement);
    if let Value::Object(fields) = &mut detail {
        fields.insert("id".to_owned(), json!(announcement.id()));
        fields.insert("timestamp".to_owned(), json!(moment(announcement)));
    }
    detail
}

#[cfg(test)]
mod tests {
    use longhaul_core::TraceParent;

    use super::*;
    use crate::payload::tests::announcement;

    #[test]
    fn every_event_is_as_the_schema_says() {
        let text = include_str!("../../../docs/schemas/event-1.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap();
        let trace = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let whole = |announcement: &Announcement| {
            json!({
                "source": EVENT_SOURCE,
                "detail-type": detail_type(announcement.what),
                "resources": ["arn:aws:dynamodb:eu-west-1:111122223333:table/tasks"],
                "detail": detail(announcement),
            })
        };
        for what in Announced::ALL {
            let full = Announcement { message: Some("too late".to_owned()), trace, ..announcement(what) };
            for announcement in [announcement(what), full] {
                let event = whole(&announcement);
                assert!(schema.is_valid(&event), "{event}");
                assert_eq!(event["detail"]["id"], announcement.id());
            }
        }
        let mut wrong = whole(&announcement(Announced::Completed));
        wrong["detail"]["status"] = json!("working");
        assert!(!schema.is_valid(&wrong));
    }
}
