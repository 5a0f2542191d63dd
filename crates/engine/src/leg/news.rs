//! What a leg has to tell its heartbeat.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Advance, Progress};

/// What happened since the last heartbeat that was written.
#[derive(Default)]
pub(crate) struct News(Mutex<Told>);

/// News on their way to the record.
pub(crate) struct Telling<'a> {
    news: &'a News,
    pub(crate) progress: Option<Progress>,
    pub(crate) advance: Advance,
    told: bool,
}

impl Telling<'_> {
    /// They are on record.
    pub(crate) fn are_told(mut self) {
        self.told = true;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if !self.told {
            let mut told = self.news.lock();
            told.progress_is_new |= self.progress.is_some();
            told.advance_is_new |= self.advance == Advance::Recorded;
        }
    }
}

#[derive(Default)]
struct Told {
    progress: Option<Progress>,
    progress_is_new: bool,
    advanced: bool,
    advance_is_new: bool,
    urgent: bool,
    driver: Option<Waker>,
}

impl News {
    pub(crate) fn note(&self, progress: Progress) {
        let mut told = self.lock();
        told.progress_is_new |= told.progress.as_ref() != Some(&progress);
        told.progress = Some(progress);
    }

    /// The leg recorded something that no leg had recorded; `urgent` asks for a heartbeat at once.
    pub(crate) fn advanced(&self, urgent: bool) {
        let mut told = self.lock();
        let first = !told.advanced;
        told.advance_is_new |= first;
        told.advanced = true;
        if urgent && first {
            told.urgent = true;
            if let Some(driver) = told.driver.take() {
                driver.wake();
            }
        }
    }

    pub(crate) fn has_advanced(&self) -> bool {
        self.lock().advanced
    }

    /// What is new, once: for a write that is about to be tried.
    pub(crate) fn take(&self) -> (Option<Progress>, Advance) {
        let mut told = self.lock();
        told.urgent = false;
        let progress = if std::mem::take(&mut told.progress_is_new) { told.progress.clone() } else { None };
        let advance = if std::mem::take(&mut told.advance_is_new) { Advance::Recorded } else { Advance::NotYet };
        (progress, advance)
    }

    /// What is new, for a write that may fail, or be dropped on its way: it stays new until it was told.
    pub(crate) fn telling(&self) -> Telling<'_> {
        let (progress, advance) = self.take();
        Telling { news: self, progress, advance, told: false }
    }

    /// Returns when a heartbeat should not wait for its time.
    pub(crate) fn urgent(&self) -> impl Future<Output = ()> {
        std::future::poll_fn(|context| {
            let mut told = self.lock();
            if told.urgent {
                return Poll::Ready(());
            }
            told.driver = Some(context.waker().clone());
            Poll::Pending
        })
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
