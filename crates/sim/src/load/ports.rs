//! Clock and ids of the load.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::{Clock, IdSource, Timestamp};

use super::super::kernel::{EPOCH_MS, Kernel};

pub(super) struct LoadClock(pub(super) Arc<Kernel>);

#[async_trait]
impl Clock for LoadClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(EPOCH_MS + self.0.now_ms())
    }

    async fn sleep_ms(&self, ms: u64) {
        self.0.sleep(ms).await;
    }
}

pub(super) struct LoadIds(pub(super) Arc<Kernel>);

impl IdSource for LoadIds {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.draw(|dice| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&dice.next().to_le_bytes()[..chunk.len()]);
            }
        });
    }
}

/// A trip to a service and back.
pub(super) async fn travel(kernel: &Arc<Kernel>) {
    let ms = kernel.draw(|dice| dice.between(2, 8));
    kernel.sleep(ms).await;
}

/// Locks what one thread uses.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
