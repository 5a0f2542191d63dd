//! What the webhook deliveries of a notification are made with.

use longhaul_core::{Notification, Policy, RequestedTerms, Terms};
use longhaul_engine::{WebhookDeliveries, WebhookDelivery};
use serde::{Deserialize, Serialize};

use crate::Endpoints;
use crate::schedule::RUN_MS_MAX;

/// How long it is shown how a webhook delivery went.
const RETENTION_MS: u64 = 6 * 60 * 60 * 1_000;

/// How many attempts in a row may die without a try on record.
const FAILURES_MAX: u32 = 20;

/// The request of a webhook delivery. It has the form of a call, so that whatever shows calls shows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) arguments: Arguments,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) endpoint: String,
    #[serde(rename = "announcement")]
    pub(crate) notification: Notification,
}

impl WebhookDeliveries for Endpoints {
    fn of(&self, notification: &Notification) -> Vec<WebhookDelivery> {
        let wanted = self.iter().filter(|endpoint| endpoint.wants(notification));
        wanted.filter_map(|endpoint| webhook_delivery(&endpoint.name, notification)).collect()
    }
}

fn webhook_delivery(endpoint: &str, notification: &Notification) -> Option<WebhookDelivery> {
    let arguments = Arguments { endpoint: endpoint.to_owned(), notification: notification.clone() };
    // Nothing in it can fail to be written.
    let request = serde_json::to_string(&Told { arguments }).ok()?;
    Some(WebhookDelivery { endpoint: endpoint.to_owned(), request, terms: terms() })
}

fn terms() -> Terms {
    let policy = Policy {
        run_ms_max: RUN_MS_MAX,
        retention_ms: RETENTION_MS,
        ttl_ms: 0,
        ttl_ms_max: 0,
        poll_ms: None,
        consecutive_failures_max: FAILURES_MAX,
    };
    Terms::negotiate(&policy, RequestedTerms::default())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed test panics")]

    use super::*;

    /// Tasks of an earlier version have this request.
    #[test]
    fn a_stored_request_keeps_the_names_of_its_members() {
        let task = r#"{"owner":"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d","id":"01a21703-721d-78cc-a93e-83715983777e"}"#;
        let stored = format!(
            r#"{{"arguments":{{"endpoint":"ops","announcement":{{"task":{task},"what":"failed","attempt":3,"at":1795682439116,"tool":"countdown","message":"no retries are left"}}}}}}"#
        );
        let read: Told = serde_json::from_str(&stored).unwrap();
        assert_eq!((read.arguments.endpoint.as_str(), read.arguments.notification.attempt), ("ops", 3));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    }
}
