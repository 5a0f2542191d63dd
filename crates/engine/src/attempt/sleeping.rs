//! Sleeps, and their names in the journal.

use std::future::Future;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use longhaul_core::{EntryKind, FailureKind, Timestamp};

use super::place::SINCE;
use crate::Attempt;

impl Attempt {
    /// Sleeps until `ms` milliseconds after this was first called, in whichever attempt that was.
    pub fn sleep_ms(&self, ms: u64) -> impl Future<Output = ()> + Send + '_ {
        self.sleep_until(self.0.engine.now().plus_ms(ms))
    }

    /// Sleeps until the time that was given when this was first called. A long sleep ends the attempt.
    ///
    /// Sleeps are numbered in the order of the calls, not of the first polls. An answer from the journal may win a race
    /// at once, so that the concurrent sleep is never polled. The sleeps after it must not take its number.
    pub fn sleep_until(&self, until: Timestamp) -> impl Future<Output = ()> + Send + '_ {
        self.sleep_numbered(self.0.timers.fetch_add(1, Ordering::Relaxed), until)
    }

    async fn sleep_numbered(&self, number: u32, until: Timestamp) {
        self.sleep_as(&number.to_string(), until).await;
    }

    /// [`sleep_until`](Self::sleep_until) under a name of the tool's own, so that a sleep of another name that is
    /// inserted before it changes nothing. Sleeps of one name are counted.
    pub fn named_sleep_until<'a>(&'a self, name: &'a str, until: Timestamp) -> impl Future<Output = ()> + Send + 'a {
        let number = self.0.timers.fetch_add(1, Ordering::Relaxed);
        let count = {
            let mut sleeps = self.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner);
            let count = sleeps.entry(name.to_owned()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.sleep_named(name, count, number, until)
    }

    async fn sleep_named(&self, name: &str, count: u32, number: u32, until: Timestamp) {
        self.check_name(EntryKind::Timer, name).await;
        if name.starts_with(SINCE) {
            let message = format!("the name of a sleep cannot begin with `{SINCE}`: give `{name}` another one");
            return self.fail(FailureKind::Misuse, message).await;
        }
        let (named, numbered) = (format!("{name}#{count}"), number.to_string());
        let is_recorded = |name: &str| self.lock_journal().contains_key(&(EntryKind::Timer, name.to_owned()));
        // Versions whose sleeps had no names recorded the number.
        let is_older = !is_recorded(&named) && is_recorded(&numbered);
        if !is_recorded(&named) && !is_older {
            self.fits_until(&format!("the sleep `{name}`"), until).await;
        }
        self.sleep_as(if is_older { &numbered } else { &named }, until).await;
    }

    async fn sleep_as(&self, name: &str, until: Timestamp) {
        // A question that is asked concurrently must not end the attempt before the sleep is recorded.
        let recording = self.0.suspend.step_running();
        let until = self.recorded_moment(name, until).await;
        self.wait_until(until, recording).await;
        self.come_to_moment(until);
    }
}
