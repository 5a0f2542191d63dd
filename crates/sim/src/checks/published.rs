//! The checker of notifications: each endpoint receives each end and each question.

use longhaul_core::{Cleanup, State, Task};
use longhaul_testkit::models::Promise;

use super::state::{Checks, Trace};

impl Checks {
    /// An endpoint received a notification.
    pub(crate) fn told(&mut self, notification: &str, endpoint: usize) {
        let has_happened = self.traces.iter().flat_map(happened).any(|happened| happened == notification);
        if !has_happened {
            self.fail(Promise::EndsArePublished, format!("{notification} was published, and has not happened"));
        }
        self.told.push((notification.to_owned(), endpoint));
    }

    /// Whether all that happened was published to all of `endpoints`.
    pub(crate) fn untold(&self, endpoints: usize) -> Option<String> {
        let all = self.traces.iter().flat_map(happened);
        let mut due = all.flat_map(|notification| (0..endpoints).map(move |endpoint| (notification.clone(), endpoint)));
        due.find(|due| !self.told.contains(due))
            .map(|(notification, endpoint)| format!("endpoint {endpoint} did not receive {notification}"))
    }

    /// The time is up: all that happened was published.
    pub(crate) fn must_be_published(&mut self, endpoints: usize) {
        if let Some(what) = self.untold(endpoints) {
            self.fail(Promise::EndsArePublished, what);
        }
    }
}

/// The notifications of a task, by all versions of its record.
fn happened(trace: &Trace) -> Vec<String> {
    let is_webhook_delivery = trace.latest().is_some_and(|task| task.tool == "longhaul/notice");
    let pairs = trace.versions.windows(2).filter(|_| !is_webhook_delivery);
    let words = pairs.map(|pair| (word(&pair[0].1), word(&pair[1].1), &pair[1].1));
    let changes = words.filter(|(before, after, _)| before != after);
    let id = trace.key.id;
    let notifications = changes.filter_map(|(_, after, task)| match after? {
        "input_required" => Some(format!("evt_{id}_input_required_{}", task.attempt)),
        end => Some(format!("evt_{id}_{end}")),
    });
    let is_given_up = |task: &Task| task.cleanup == Cleanup::GivenUp;
    let given_up = trace.latest().filter(|task| is_given_up(task) && !is_webhook_delivery);
    notifications.chain(given_up.map(|_| format!("evt_{id}_cleanup_given_up"))).collect()
}

const fn word(task: &Task) -> Option<&'static str> {
    match &task.record().state {
        State::Completed { .. } => Some("completed"),
        State::Failed { .. } => Some("failed"),
        State::Cancelled => Some("cancelled"),
        State::InputRequired { .. } => Some("input_required"),
        State::Queued | State::Running { .. } | State::Sleeping { .. } => None,
    }
}
