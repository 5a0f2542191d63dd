//! The state that the ports of the load share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::kernel::Kernel;

/// A trip to a service and back.
pub(super) async fn travel(kernel: &Arc<Kernel>) {
    let ms = kernel.draw(|dice| dice.between(2, 8));
    kernel.sleep(ms).await;
}

/// Locks what one thread uses.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
