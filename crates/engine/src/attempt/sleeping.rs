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
        let scope = self.place().scope().map(str::to_owned);
        let name = match scope {
            Some(scope) => self.count_sleep("", Some(&scope)),
            None => self.0.timers.fetch_add(1, Ordering::Relaxed).to_string(),
        };
        async move { self.sleep_as(&name, until).await }
    }

    /// [`sleep_until`](Self::sleep_until) under a name of the tool's own, so that a sleep of another name that is
    /// inserted before it changes nothing. Sleeps of one name are counted.
    pub fn named_sleep_until<'a>(&'a self, name: &'a str, until: Timestamp) -> impl Future<Output = ()> + Send + 'a {
        let scope = self.place().scope().map(str::to_owned);
        let named = self.count_sleep(name, scope.as_deref());
        // Sleeps in branches of races take no numbers, because these branches come to them in any order.
        let numbered = scope.is_none().then(|| self.0.timers.fetch_add(1, Ordering::Relaxed).to_string());
        self.sleep_named(name, named, numbered, until)
    }

    /// The name of the next sleep with this name, in this branch of a race, or outside of races.
    fn count_sleep(&self, name: &str, scope: Option<&str>) -> String {
        let branch = scope.map(|scope| format!("@{scope}")).unwrap_or_default();
        let mut sleeps = self.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner);
        let count = sleeps.entry(format!("{name}{branch}")).or_default();
        *count = count.saturating_add(1);
        format!("{name}#{count}{branch}")
    }

    async fn sleep_named(&self, name: &str, named: String, numbered: Option<String>, until: Timestamp) {
        self.check_name(EntryKind::Timer, name).await;
        if name.starts_with(SINCE) {
            let message = format!("the name of a sleep cannot begin with `{SINCE}`: give `{name}` another one");
            return self.fail(FailureKind::Misuse, message).await;
        }
        self.until_shown(EntryKind::Timer, &named).await;
        let is_recorded = |name: &str| self.lock_journal().contains_key(&(EntryKind::Timer, name.to_owned()));
        // Versions whose sleeps had no names recorded the number.
        let recorded =
            if is_recorded(&named) { Some(&named) } else { numbered.as_ref().filter(|name| is_recorded(name)) };
        if recorded.is_none() {
            self.fits_until(&format!("the sleep `{name}`"), until).await;
        }
        self.sleep_as(recorded.unwrap_or(&named), until).await;
    }

    async fn sleep_as(&self, name: &str, until: Timestamp) {
        self.until_shown(EntryKind::Timer, name).await;
        // A question that is asked concurrently must not end the attempt before the sleep is recorded.
        let recording = self.step_running();
        let until = self.recorded_moment(name, until).await;
        self.wait_until(until, recording).await;
        self.come_to_moment(until);
    }
}
