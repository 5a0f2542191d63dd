//! How many bytes of bodies a server holds at a time.
//!
//! The first part of each body has an allowance of its own, so that short requests are answered while long ones fill
//! the rest. Bytes are counted as they arrive: a length that is only claimed takes nothing from others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::{BODY_BYTES_MAX, Rejection};

/// Bytes of a body that are counted as those of a short one.
const SHORT_BYTES: usize = 64 * 1024;

/// Bytes of all short bodies, and of the beginnings of long ones.
const SHORT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// All further bytes of long bodies.
const LONG_BYTES_MAX: usize = 32 * 1024 * 1024;

/// All further bytes of the bodies of callbacks: two of the largest values.
const LONG_CALLBACKS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The bytes that bodies may have together. Clones are the same budget.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    short: AtomicUsize,
    long: AtomicUsize,
    long_max: usize,
}

impl Budget {
    /// For requests of callers.
    pub(crate) fn of_callers() -> Self {
        Self::new(LONG_BYTES_MAX)
    }

    /// For callbacks, whose senders are not identified before their bodies are read.
    pub(crate) fn of_callbacks() -> Self {
        Self::new(LONG_CALLBACKS_BYTES_MAX)
    }

    fn new(long_max: usize) -> Self {
        Self(Arc::new(Counters { short: AtomicUsize::new(0), long: AtomicUsize::new(0), long_max }))
    }

    /// A body of which nothing has arrived yet.
    pub(crate) fn intake(&self) -> Intake {
        Intake { bytes: Vec::new(), held: Held { budget: self.clone(), short: 0, long: 0 } }
    }
}

/// The bytes of one body that are counted, until this is dropped.
pub(crate) struct Held {
    budget: Budget,
    short: usize,
    long: usize,
}

impl Held {
    fn take(&mut self, bytes: usize) -> Result<(), Rejection> {
        let short = bytes.min(SHORT_BYTES - self.short);
        let counters = &self.budget.0;
        take(&counters.short, short, SHORT_BYTES_MAX)?;
        self.short += short;
        take(&counters.long, bytes - short, counters.long_max)?;
        self.long += bytes - short;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.short.fetch_sub(self.short, Ordering::Relaxed);
        self.budget.0.long.fetch_sub(self.long, Ordering::Relaxed);
    }
}

/// Nothing is taken if there is not enough.
fn take(counter: &AtomicUsize, bytes: usize, max: usize) -> Result<(), Rejection> {
    let more = |taken: usize| taken.checked_add(bytes).filter(|taken| *taken <= max);
    let taken = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.map(|_before| ()).map_err(|_full| Rejection::Busy)
}

pub(crate) struct Intake {
    bytes: Vec<u8>,
    held: Held,
}

impl Intake {
    /// Takes what has arrived. Fails with [`Rejection::TooLarge`], or [`Rejection::Busy`] if other bodies have taken
    /// what there is.
    pub(crate) fn take(&mut self, frame: &Bytes) -> Result<(), Rejection> {
        if frame.len() > BODY_BYTES_MAX - self.bytes.len() {
            return Err(Rejection::TooLarge { bytes_max: BODY_BYTES_MAX });
        }
        self.held.take(frame.len())?;
        self.bytes.extend_from_slice(frame);
        Ok(())
    }

    /// The whole body, and what holds its bytes until the request is answered.
    pub(crate) fn finish(self) -> (Bytes, Held) {
        (self.bytes.into(), self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(budget: &Budget, mib: usize) -> Result<Intake, Rejection> {
        let frame = Bytes::from(vec![b' '; MIB]);
        let mut intake = budget.intake();
        (0..mib).try_for_each(|_| intake.take(&frame))?;
        Ok(intake)
    }

    #[test]
    fn bodies_over_the_budget_are_refused_until_others_are_gone_and_short_ones_never() {
        let budget = Budget::of_callers();
        let mut held: Vec<_> = (0..8).map(|_| filled(&budget, 4).unwrap()).collect();
        assert!(matches!(filled(&budget, 4), Err(Rejection::Busy)));
        for _ in 0..100 {
            budget.intake().take(&Bytes::from_static(&[b' '; SHORT_BYTES])).unwrap();
        }
        held.pop();
        drop(filled(&budget, 4).unwrap());
        let held: Vec<_> = held.into_iter().map(Intake::finish).collect();
        drop(held);
        let counters = &budget.0;
        assert_eq!((counters.short.load(Ordering::Relaxed), counters.long.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn short_bodies_have_a_limit_too() {
        let budget = Budget::of_callers();
        let mut held = Vec::new();
        let frame = Bytes::from_static(&[b' '; SHORT_BYTES]);
        let refused = (0..1_000).find_map(|_| {
            let mut intake = budget.intake();
            let taken = intake.take(&frame);
            held.push(intake);
            taken.err()
        });
        assert_eq!((refused, held.len()), (Some(Rejection::Busy), 257));
    }

    #[test]
    fn a_body_is_what_arrived() {
        let mut intake = Budget::of_callers().intake();
        for frame in ["ab", "", "c"] {
            intake.take(&Bytes::from_static(frame.as_bytes())).unwrap();
        }
        assert_eq!(intake.finish().0, "abc");
    }
}
