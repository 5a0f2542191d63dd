//! Running a promise: with its own runtime, real threads, and a time limit.

use std::future::Future;
use std::thread::Builder;
use std::time::Duration;

use tokio::runtime::{self, Handle};

/// A promise that is not kept within this time hangs. Real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs one promise to its end.
///
/// # Panics
/// If it hangs.
pub fn block_on<F: Future>(promise: F) -> F::Output {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, promise).await.expect("the promise hangs") })
}

/// The name of the threads of [`at_once`].
const CALLER: &str = "one of many callers";

/// Whether the thread that asks is one of those of [`at_once`], and others make the same call next to it.
#[must_use]
pub fn is_one_of_many() -> bool {
    std::thread::current().name() == Some(CALLER)
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
            let caller =
                |number| Builder::new().name(CALLER.to_owned()).spawn_scoped(scope, move || one(number)).unwrap();
            let threads: Vec<_> = (0..count).map(caller).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    })
}
