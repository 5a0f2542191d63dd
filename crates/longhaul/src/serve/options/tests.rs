//! The configuration that options make.

use super::*;

#[test]
fn one_owner_leaves_an_eighth_of_the_attempts_to_others() {
    assert_eq!([1, 2, 3, 8, 16, 1_024].map(share_of_one), [1, 1, 2, 7, 14, 896]);
}

#[test]
fn the_share_of_one_owner_can_be_set() {
    let options = Options::default().with(&table::CONCURRENCY, 16_u64);
    assert_eq!(options.config().unwrap().owner_concurrency, 14);
    assert_eq!(options.with(&table::OWNER_CONCURRENCY, 3_u64).config().unwrap().owner_concurrency, 3);
}

#[test]
fn a_shared_store_has_the_times_and_limits_of_lambda_and_a_file_its_own() {
    let file = Options::default().config().unwrap().server.engine;
    assert_eq!((file.lease_ms, file.heartbeat_ms, file.stop_grace_ms), (10_000, 1_000, 2_000));
    let on_table =
        Options::default().with(&table::STORE, longhaul_core::settings::StoreAt::Dynamodb("tasks".to_owned()));
    let shared = on_table.config().unwrap().server.engine;
    assert_eq!((shared.lease_ms, shared.heartbeat_ms, shared.stop_grace_ms), (13_500, 4_500, 20_000));
    assert_eq!((shared.progress_ms, shared.stored_bytes_max, shared.new_tasks_max), (2_000, 10 << 30, Some(10_000)));
    let set = on_table.with(&table::LEASE_MS, 6_000_u64).with(&table::DRAIN_MS, 5_u64).config().unwrap().server.engine;
    assert_eq!((set.lease_ms, set.heartbeat_ms, set.stop_grace_ms), (6_000, 2_000, 5));
}

#[test]
fn no_step_begins_in_the_last_quarter_of_a_short_attempt_nor_in_the_last_five_seconds_of_a_long_one() {
    let margin_ms = |options: Options| options.config().unwrap().server.engine.attempt_margin_ms;
    assert_eq!(margin_ms(Options::default()), 5_000);
    assert_eq!(margin_ms(Options::default().with(&table::ATTEMPT_MS, 60_u64)), 15);
    assert_eq!(margin_ms(Options::default().with(&table::ATTEMPT_MS, 900_000_u64)), 5_000);
}

#[test]
fn a_worker_needs_nobody_let_in() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 8080));
    let options = Options::default().with(&table::LISTEN, everywhere);
    assert!(options.config().is_err());
    assert!(options.with(&table::ROLE, Role::Worker).config().is_ok());
}
