//! Runs async code in virtual time: each sleep ends at once, and code that never ends is found.

use std::pin::{Pin, pin};
use std::task::Poll;

use longhaul_core::Clock;
use longhaul_testkit::ManualClock;

/// How often the time may advance before an answer has to be there. The longest wait of the server is five minutes, in
/// which it looks every 250 ms.
const MOMENTS_MAX: usize = 20_000;

/// How often everything that is ready is run before time advances.
const TURNS: usize = 12;

/// The result of `work` if it needs no time to pass.
async fn turns<T>(work: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
    for _ in 0..TURNS {
        if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// The result of `work`. Time passes on `clock` whenever nothing else happens.
pub(crate) fn drive<T>(clock: &ManualClock, work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut work = pin!(work);
        for _ in 0..MOMENTS_MAX {
            if let Some(done) = turns(&mut work).await {
                return done;
            }
            if let Some(next) = clock.next_wake() {
                clock.advance_to(next);
            }
        }
        panic!(
            "it never ends: it is {} after the beginning",
            clock.now().as_ms() - longhaul_testkit::given::NOW.as_ms()
        )
    })
}
