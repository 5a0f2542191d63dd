//! Permits of workers that died or were slow, and of tasks that wait for one.

use std::sync::Arc;

use futures::FutureExt;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, Taken};
use longhaul_core::{State, Status, TaskEvent};
use longhaul_engine::{Disposition, Settings, WorkerSignals};
use longhaul_testkit::{Fault, StoreCall};

use super::permits::{ATTEMPT_MS, has_room, killed, limited, other};
use super::world::{hangs, quick};

#[tokio::test]
async fn the_next_attempt_of_a_dead_worker_takes_over_its_permit() {
    let (world, permits) = limited(1, Settings::default());
    let (key, _) = killed(&world).await;
    world.clock.advance_ms(2 * world.engine.settings().lease_ms);
    permits.asked();
    world.work(&quick()).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
    assert_eq!(permits.asked(), ["take", "take over", "give back"]);
    assert!(has_room(&world, &permits, 1).await, "long before the time of the dead attempt was over");
}

#[tokio::test]
async fn an_attempt_that_was_only_slow_does_not_give_back_the_permit_of_its_successor() {
    let (world, permits) = limited(1, Settings::default());
    world.accepted().await;
    let delivery = world.receive().await.unwrap();
    let (slow_tool, next_tool, signals) = (hangs(), hangs(), WorkerSignals::default());
    let mut slow = Box::pin(world.engine.run_delivery(&delivery, &slow_tool, &signals));
    assert!(slow.as_mut().now_or_never().is_none());
    world.clock.advance_ms(2 * world.engine.settings().lease_ms);
    let mut next = Box::pin(world.engine.run_delivery(&delivery, &next_tool, &signals));
    assert!(next.as_mut().now_or_never().is_none());
    assert_eq!(next_tool.runs(), 1);
    // It wakes up, and finds that its task is lost.
    slow.await;
    assert_eq!(permits.asked(), ["take", "take", "take over", "give back"]);
    assert!(!has_room(&world, &permits, 1).await);
    drop(next);
}

#[tokio::test]
async fn a_permit_that_another_task_got_meanwhile_is_not_overrun() {
    let (world, permits) = limited(1, Settings::default());
    let (key, _) = killed(&world).await;
    world.clock.advance_ms(2 * world.engine.settings().lease_ms);
    *permits.taken_meanwhile.lock().unwrap() = Some(other(world.now().plus_ms(10_000)));
    let (tool, delivery) = (quick(), world.receive().await.unwrap());
    assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
    assert_eq!(tool.runs(), 0);
    assert_eq!(world.on_record(&key).await.state, State::Queued, "it is released, and waits");
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 60).await.status(), Status::Completed);
    assert!(world.now() >= other(world.now()).until.minus_ms(60_000));
}

/// Found by the simulation (seed 6837 with limited attempts): the attempt that was about to take over slept between its
/// claim and that, and took the place from an attempt with a later claim.
#[tokio::test]
async fn a_permit_that_a_later_attempt_of_the_task_has_by_now_is_not_taken_over() {
    let (world, permits) = limited(1, Settings::default());
    let (key, _) = killed(&world).await;
    world.clock.advance_ms(2 * world.engine.settings().lease_ms);
    let later = AttemptPermit { task: key, ..other(world.now().plus_ms(600_000)) };
    *permits.taken_meanwhile.lock().unwrap() = Some(later);
    let (tool, delivery) = (quick(), world.receive().await.unwrap());
    assert_eq!(world.deliver(&delivery, &tool).await, Disposition::Acknowledge);
    assert_eq!(tool.runs(), 0);
    assert!(!has_room(&world, &permits, 1).await, "the later attempt has it still");
}

/// Found by the simulation (seed 190276 with limited attempts): by a worker's clock that is ahead the dead attempt's
/// time was over, and another task got its permit; by the clock of the worker that took over the permit it was not.
#[tokio::test]
async fn a_permit_that_another_task_got_is_not_taken_over_by_a_worker_whose_clock_is_behind() {
    let (world, permits) = limited(1, Settings::default());
    let (key, _) = killed(&world).await;
    let until = world.now().plus_ms(ATTEMPT_MS);
    world.clock.advance_to(until.minus_ms(1_000));
    assert!(!has_room(&world, &permits, 1).await, "by this clock");
    let next = other(until.plus_ms(60_000));
    assert_eq!(permits.inner.take(&next, 1, until).await.unwrap(), Taken::Permit);
    permits.asked();
    let (tool, delivery) = (quick(), world.receive().await.unwrap());
    let Disposition::RetryAfter { .. } = world.deliver(&delivery, &tool).await else { panic!("it is lost") };
    assert_eq!((permits.asked(), tool.runs()), (vec!["take"], 0), "the task waits");
    permits.inner.give_back(&next, world.now()).await.unwrap();
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 120).await.status(), Status::Completed);
}

/// A worker that took a permit a moment ago may be about to claim the task.
#[tokio::test]
async fn a_permit_that_was_taken_a_moment_ago_is_not_taken_over() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accepted().await.key();
    let (now, lease_ms) = (world.now(), world.engine.settings().lease_ms);
    let about_to_claim = AttemptPermit { task: key, since: now, ..other(now.plus_ms(600_000)) };
    assert_eq!(permits.inner.take(&about_to_claim, 1, now).await.unwrap(), Taken::Permit);
    let (tool, delivery) = (quick(), world.receive().await.unwrap());
    let disposition = world.deliver(&delivery, &tool).await;
    assert_eq!(disposition, Disposition::RetryAfter { after_ms: 2 * lease_ms });
    assert_eq!((tool.runs(), world.on_record(&key).await.attempt), (0, 0));
    world.clock.advance_ms(2 * lease_ms);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

/// Found by the simulation (seed 6125 with limited attempts): the claim was applied seconds after the permit was taken.
/// Until then another attempt of the task had taken over the permit and given it back, and another task had it.
#[tokio::test]
async fn a_claim_whose_lease_is_over_before_its_answer_runs_nothing() {
    let (world, permits) = limited(1, Settings::default());
    let key = world.accepted().await.key();
    let (clock, lease_ms) = (Arc::clone(&world.clock), world.engine.settings().lease_ms);
    let mut is_first = true;
    world.store.follow(move |call| {
        if is_first && matches!(call, StoreCall::Apply(_, TaskEvent::Claim { .. })) {
            is_first = false;
            clock.advance_ms(lease_ms);
        }
        Fault::None
    });
    let tool = quick();
    let delivery = world.receive().await.unwrap();
    world.deliver(&delivery, &tool).await;
    assert_eq!((tool.runs(), world.on_record(&key).await.status()), (0, Status::Working));
    assert_eq!(permits.asked(), ["take", "give back"]);
    let ended = world.work_until_ended(&key, &tool, 1_000, 10).await;
    assert_eq!((tool.runs(), ended.status(), ended.failures), (1, Status::Completed, 0));
    assert!(has_room(&world, &permits, 1).await);
}
