//! How often a request allocates memory, from its event to the last byte of its answer. Unlike a time, that number is
//! the same on every machine. Allocations of the store's threads are not counted.

use std::sync::Arc;

use allocation_counter::measure;
use serde_json::Value;

use crate::requests::{Function, call, poll_of, task_id};
use crate::world::World;

/// The least of so many requests counts: some allocate for those that follow.
const REQUESTS: usize = 20;

/// Less than a tenth above what they are today: 205 of an accepted call, 161 of a poll.
const POLL_MAX: u64 = 177;
const ACCEPT_MAX: u64 = 225;

/// The least number of allocations of a request, and one of its answers.
fn allocations(function: &Function, event: &Value) -> (u64, Value) {
    let (event, mut answer) = (event.to_string(), Vec::new());
    let counts = (0..REQUESTS).map(|_| measure(|| answer = function.answer(event.as_bytes())).count_total);
    (counts.min().unwrap(), serde_json::from_slice(&answer).unwrap())
}

#[test]
fn an_accepted_call_and_a_poll_allocate_as_often_as_they_did() {
    let world = World::new();
    let function = Function::new(world.engine.clone(), Arc::clone(&world.clock) as _);
    let (accept, accepted) = allocations(&function, &call());
    let (poll, polled) = allocations(&function, &poll_of(task_id(&accepted)));
    assert_eq!(polled["result"]["status"], "working", "{polled}");
    println!("allocations: {accept} of an accepted call, {poll} of a poll");
    assert!(accept <= ACCEPT_MAX && poll <= POLL_MAX, "{accept} of an accepted call, {poll} of a poll");
}
