//! What a leg has to tell its heartbeat.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use longhaul_core::{Advance, Progress};

/// What happened since the last heartbeat that was written.
#[derive(Default)]
pub(crate) struct News(Mutex<Told>);

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

    /// Gives back what [`News::take`] gave, because the write failed.
    pub(crate) fn untold(&self, progress: bool, advance: Advance) {
        let mut told = self.lock();
        told.progress_is_new |= progress;
        told.advance_is_new |= advance == Advance::Recorded;
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
