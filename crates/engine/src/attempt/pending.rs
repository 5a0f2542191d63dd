//! Updates that an attempt has not written yet.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Advance, LabelLimit, Labels, Progress};

/// The changes since the last heartbeat that was written.
#[derive(Default)]
pub(crate) struct PendingUpdates(Mutex<Updates>);

#[derive(Default)]
struct Updates {
    progress: Option<Progress>,
    progress_is_new: bool,
    labels: Labels,
    /// The labels that the record has; `None` after a write of other ones that may have failed.
    recorded_labels: Option<Labels>,
    advanced: bool,
    advance_is_new: bool,
    flush_requested: bool,
    /// How often something became pending that may not wait for the next heartbeat.
    news: u64,
    driver: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    number: u64,
    /// A heartbeat is wanted at once.
    pub(crate) flush_requested: bool,
    pub(crate) has_progress: bool,
}

/// Updates that a write brings.
#[derive(Clone)]
pub(crate) struct NewUpdates {
    pub(crate) progress: Option<Progress>,
    pub(crate) labels: Option<Labels>,
    pub(crate) advance: Advance,
}

/// Updates that are being written. They become pending again unless [`Flush::written`] is called.
pub(crate) struct Flush<'a> {
    updates: &'a PendingUpdates,
    pub(crate) new: NewUpdates,
    written: bool,
}

impl Flush<'_> {
    pub(crate) fn written(mut self) {
        self.written = true;
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if !self.written {
            let mut updates = self.updates.lock();
            updates.progress_is_new |= self.new.progress.is_some();
            updates.advance_is_new |= self.new.advance == Advance::Recorded;
            if self.new.labels.is_some() {
                updates.recorded_labels = None;
            }
        }
    }
}

impl PendingUpdates {
    /// The updates of an attempt whose task has these labels.
    pub(crate) fn of(labels: Labels) -> Self {
        let recorded_labels = Some(labels.clone());
        Self(Mutex::new(Updates { labels, recorded_labels, ..Updates::default() }))
    }

    /// Sets a label, which the next write brings. It asks for no write of its own.
    pub(crate) fn set_label(&self, key: &str, value: &str) -> Result<(), LabelLimit> {
        self.lock().labels.set(key, value)
    }

    pub(crate) fn note_progress(&self, progress: Progress) {
        let mut updates = self.lock();
        let is_first = !updates.progress_is_new && updates.progress.as_ref() != Some(&progress);
        updates.progress_is_new |= is_first;
        updates.progress = Some(progress);
        if is_first {
            updates.tell_driver();
        }
    }

    /// Notes that the attempt recorded something that no attempt had recorded before.
    pub(crate) fn note_advance(&self) {
        let mut updates = self.lock();
        updates.advance_is_new |= !updates.advanced;
        updates.advanced = true;
    }

    /// Does what [`PendingUpdates::note_advance`] does, and asks for a heartbeat at once if it is the first advance.
    pub(crate) fn note_urgent_advance(&self) {
        let is_first = !self.has_advanced();
        self.note_advance();
        if is_first {
            self.request_flush();
        }
    }

    pub(crate) fn has_advanced(&self) -> bool {
        self.lock().advanced
    }

    /// Takes what is new, for a write that is about to be tried.
    pub(crate) fn take(&self) -> NewUpdates {
        let mut updates = self.lock();
        updates.flush_requested = false;
        let progress = if std::mem::take(&mut updates.progress_is_new) { updates.progress.clone() } else { None };
        let advance = if std::mem::take(&mut updates.advance_is_new) { Advance::Recorded } else { Advance::NotYet };
        // A replay that sets the same labels again changes nothing.
        let labels = Some(&updates.labels).filter(|labels| updates.recorded_labels.as_ref() != Some(labels)).cloned();
        if labels.is_some() {
            updates.recorded_labels.clone_from(&labels);
        }
        NewUpdates { progress, labels, advance }
    }

    /// Takes what is new, for a write that may fail or be dropped: until it is written, it becomes pending again.
    pub(crate) fn flush(&self) -> Flush<'_> {
        Flush { updates: self, new: self.take(), written: false }
    }

    pub(crate) fn news(&self) -> News {
        let updates = self.lock();
        News { number: updates.news, flush_requested: updates.flush_requested, has_progress: updates.progress_is_new }
    }

    pub(crate) fn news_after(&self, known: News) -> impl Future<Output = ()> {
        std::future::poll_fn(move |context| {
            let mut updates = self.lock();
            if updates.news != known.number {
                return Poll::Ready(());
            }
            updates.driver = Some(context.waker().clone());
            Poll::Pending
        })
    }

    fn request_flush(&self) {
        let mut updates = self.lock();
        updates.flush_requested = true;
        updates.tell_driver();
    }

    fn lock(&self) -> MutexGuard<'_, Updates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Updates {
    fn tell_driver(&mut self) {
        self.news = self.news.wrapping_add(1);
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}
