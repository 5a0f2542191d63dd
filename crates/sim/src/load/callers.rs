//! The callers of the load: each makes one call, again if it is refused, and polls three times.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use longhaul_core::{Cleanup, Labels, TaskKey};
use longhaul_engine::{AcceptError, Call, Idempotency};
use sha2::{Digest, Sha256};

use super::world::{LoadWorld, owner_of, terms};

/// Bytes of each request, and of each result: with both, a record has two kilobytes at most, and more than one.
const REQUEST_BYTES: usize = 700;

/// Tries of one call, and the longest pause after the first. Each further one may be twice as long.
const TRIES: u32 = 4;
const PAUSE_MS: u64 = 1_000;

/// Polls of one task, and the pause before each.
const POLLS: u32 = 3;
const POLL_MS: u64 = 500;

/// Begins calls at the rate of the plan.
pub(super) async fn call(world: Arc<LoadWorld>) {
    let (rate, calls) = (world.plan.rate as usize, world.plan.calls());
    world.tally().until(u64::from(world.plan.seconds) * 1_000);
    let mut begun = 0;
    while begun < calls {
        // The calls that are due by the end of this millisecond.
        let now_ms = world.kernel.now_ms() as usize;
        let due = ((now_ms + 1) * rate / 1_000).min(calls);
        for number in begun..due {
            let caller = one_call(Arc::clone(&world), number);
            world.kernel.spawn(10_000_000_000 + number as u64, String::new(), caller);
        }
        begun = due;
        world.kernel.sleep(1).await;
    }
}

async fn one_call(world: Arc<LoadWorld>, number: usize) {
    let began_ms = world.kernel.now_ms();
    let accepted = accepted(&world, number).await;
    let now_ms = world.kernel.now_ms();
    match accepted {
        Some(key) => {
            world.tally().accepted(key, number, began_ms, now_ms);
            for _ in 0..POLLS {
                world.kernel.sleep(POLL_MS).await;
                let polled = world.engine.poll(&key).await;
                world.tally().polls_failed += u64::from(polled.is_err());
            }
        }
        None => world.tally().given_up += 1,
    }
    world.busy.fetch_sub(1, Ordering::Relaxed);
}

/// The task, once a try is accepted.
async fn accepted(world: &LoadWorld, number: usize) -> Option<TaskKey> {
    for failed in 0..TRIES {
        match world.engine.accept(call_of(world, number)).await {
            Ok(accepted) => return Some(accepted.into_task().key()),
            Err(AcceptError::Unavailable(_)) => world.tally().unavailable += 1,
            Err(AcceptError::TooManyOpen { .. }) => world.tally().too_many_open += 1,
            Err(error) => panic!("a call is refused: {error}"),
        }
        let longest_ms = PAUSE_MS << failed;
        let pause_ms = world.kernel.draw(|dice| dice.between(longest_ms / 2, longest_ms));
        world.kernel.sleep(pause_ms).await;
    }
    None
}

/// Call `number`: its request begins with that.
fn call_of(world: &LoadWorld, number: usize) -> Call {
    let request = request_of(number);
    let fingerprint = || Sha256::digest(&request).into();
    let idempotency =
        world.plan.keys.then(|| Idempotency { key: format!("call {number}"), fingerprint: fingerprint() });
    Call {
        owner: owner_of(&world.plan, number),
        tool: "tool".to_owned(),
        idempotency,
        request,
        terms: terms(),
        trace: None,
        cleanup: Cleanup::None,
        not_before: None,
        flow: None,
        labels: Labels::default(),
    }
}

/// The request of call `number`, which is also its result.
pub(super) fn request_of(number: usize) -> String {
    format!("{number:>REQUEST_BYTES$}")
}
