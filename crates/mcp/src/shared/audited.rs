//! What the audit log says of requests that are refused because their owner asks too often, or for too much at a time.

use longhaul_audit::{Entry, Event, Outcome};
use longhaul_core::{OwnerId, TaskKey};

const REFUSED: Entry<'static> = Entry::new(Event::Request, Outcome::Refused);

/// A task was polled too often.
pub(crate) fn poll_refused(key: &TaskKey) {
    REFUSED.because("too_many_polls").task(key).log();
}

/// An owner has too many streams, waits and calls open for another one.
pub(crate) fn stream_refused(owner: OwnerId) {
    REFUSED.because("too_many_streams").by(owner).log();
}
