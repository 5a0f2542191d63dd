//! The proof of the contract: each mistake that an adapter may make breaks a promise, and a store without mistakes
//! breaks none.

mod damage;
mod distortions;
mod one_database;
mod store;
mod store_port;

use std::panic::catch_unwind;
use std::sync::Arc;

use longhaul_core::TaskEvent;
use longhaul_testkit::{SeededIds, block_on, check_store_model, given, store_equals_the_model, store_promises};
use store::{Fault, PlantedStore};

/// The names of the promises, each with the function that checks it on a store with a fault.
macro_rules! broken_promises {
    ($fault:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|fault| block_on(async {
                longhaul_testkit::store_contract::$promise(&PlantedStore::new(fault)).await;
            })) as fn(Fault),
        )),*]
    };
}

#[test]
fn a_store_without_mistakes_keeps_every_promise() {
    for (_, keep) in store_promises!([broken_promises], Fault::None) {
        keep(Fault::None);
    }
    check_store_model(64, async || Arc::new(PlantedStore::new(Fault::None)));
}

#[test]
fn every_promise_is_in_the_list() {
    let sources = [
        include_str!("../../src/store_contract/changing.rs"),
        include_str!("../../src/store_contract/cleanup.rs"),
        include_str!("../../src/store_contract/creating.rs"),
        include_str!("../../src/store_contract/expiring.rs"),
        include_str!("../../src/store_contract/filtering.rs"),
        include_str!("../../src/store_contract/keeping.rs"),
        include_str!("../../src/store_contract/later.rs"),
        include_str!("../../src/store_contract/limiting.rs"),
        include_str!("../../src/store_contract/listing.rs"),
        include_str!("../../src/store_contract/mailboxes.rs"),
        include_str!("../../src/store_contract/rushing.rs"),
        include_str!("../../src/store_contract/starting.rs"),
    ];
    let written = sources.iter().map(|source| source.matches("\npub async fn ").count()).sum::<usize>();
    assert_eq!(written, store_promises!([broken_promises], Fault::None).len());
}

#[test]
fn each_mistake_is_found_by_its_promise() {
    let promises = store_promises!([broken_promises], Fault::None);
    let is_found = |fault: Fault, promise: &str| {
        let (_, keep) = promises.iter().find(|(name, _)| *name == promise).expect("the contract has the promise");
        catch_unwind(|| keep(fault)).is_err()
    };
    let missed: Vec<_> = Fault::ALL.iter().filter(|(fault, promise)| !is_found(*fault, promise)).collect();
    assert!(missed.is_empty(), "a promise does not find its mistake: {missed:?}");
}

#[test]
fn the_model_takes_a_task_that_is_forgotten_in_the_moment_of_its_creation() {
    let task = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW);
    let events = [(TaskEvent::Cancel, given::NOW), (TaskEvent::Forget, given::NOW)];
    block_on(store_equals_the_model(&PlantedStore::new(Fault::None), task, &events));
}

#[test]
fn the_model_finds_a_fault_that_it_does_not_know() {
    for fault in [Fault::FenceOff, Fault::EndOverwritten, Fault::LateEndMovesNoExpiry, Fault::RefusalWrites] {
        let outcome = catch_unwind(|| check_store_model(256, async move || Arc::new(PlantedStore::new(fault))));
        assert!(outcome.is_err(), "{fault:?} was not found");
    }
}

/// The names of the promises of a store that is one database with a queue, each with the function that checks it.
macro_rules! broken_promises_of_one_database {
    ($fault:path; $($promise:ident,)*) => {
        [$((
            stringify!($promise),
            (|fault| block_on(async {
                longhaul_testkit::one_database_contract::$promise(&one_database::PlantedDatabase::new(fault)).await;
            })) as fn(one_database::Fault),
        )),*]
    };
}

#[test]
fn each_promise_of_one_database_finds_its_mistake() {
    use one_database::Fault;

    let promises = longhaul_testkit::one_database_promises!([broken_promises_of_one_database], Fault::None);
    let broken_by = |fault: Fault| -> Vec<&str> {
        promises.iter().filter(|(_, keep)| catch_unwind(|| keep(fault)).is_err()).map(|(name, _)| *name).collect()
    };
    assert_eq!(broken_by(Fault::None), [""; 0]);
    for (promise, fault) in [
        ("a_new_task_comes_with_its_message", Fault::SaysThatItSent),
        ("a_new_task_comes_with_its_message", Fault::ForgetsTheTrace),
        ("a_new_task_comes_with_its_message", Fault::SendsTwice),
        ("the_message_of_a_new_task_is_a_message_like_others", Fault::SendsTwice),
        ("the_message_of_a_later_start_comes_when_it_is_wanted", Fault::ForgetsTheDelay),
        ("an_existing_task_gets_no_second_message", Fault::SendsForARetry),
        ("a_refused_creation_sends_nothing", Fault::SendsBeforeItDecides),
        ("a_creation_that_asks_for_no_message_sends_none", Fault::SendsUnasked),
    ] {
        let broken = broken_by(fault);
        assert!(broken.contains(&promise), "{promise} does not find {fault:?}, which breaks {broken:?}");
    }
}
