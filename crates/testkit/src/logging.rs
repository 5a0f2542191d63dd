//! Logs of one test, without the logs of other tests in the same process.

use std::sync::OnceLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Makes `subscriber` the one of this thread until the guard is dropped.
///
/// All threads share what `tracing` remembers of each place that logs. While the subscribers of other tests want
/// nothing from such a place, it could be off for all of them. So one that wants everything stays registered.
pub fn capture(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static WANTED: OnceLock<Dispatch> = OnceLock::new();
    WANTED.get_or_init(|| Dispatch::new(Everything));
    set_default(subscriber)
}

/// A subscriber that wants everything, and is that of no thread.
struct Everything;

impl Subscriber for Everything {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
