//! Running a promise: with its own runtime, real threads, and a time limit.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

/// A promise that is not kept within this time hangs. Real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs one promise to its end.
///
/// # Panics
/// If it hangs.
pub fn block_on<F: Future>(promise: F) -> F::Output {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, promise).await.expect("the promise hangs") })
}

/// Runs `count` calls at once, each on its own thread, so that an adapter that only works while calls take turns
/// is found. Returns the answers in the order of the calls' numbers.
#[must_use]
pub fn at_once<T, Fut>(count: usize, call: impl Fn(usize) -> Fut + Sync) -> Vec<T>
where
    T: Send,
    Fut: Future<Output = T>,
{
    let runtime = Handle::current();
    let (runtime, call) = (&runtime, &call);
    let barrier = std::sync::Barrier::new(count);
    let barrier = &barrier;
    let one = &|number| {
        barrier.wait();
        runtime.block_on(call(number))
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || one(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    })
}
