//! When an issuer is asked for its keys, and what it may answer.

use std::sync::Arc;

use harness::tokens::issuer::{Answer, Issuer, KEYS, METADATA, OPENID};
use harness::tokens::signing::Private;
use http::StatusCode;
use longhaul_core::Clock;
use serde_json::json;

use crate::world::{World, header};

const REFRESH_MS: u64 = 600_000;
const AGAIN_MS: u64 = 60_000;

#[tokio::test]
async fn keys_are_fetched_with_the_first_token_and_once() {
    let world = World::new().await;
    assert_eq!(world.issuer.asked_at_all(), 0);
    for number in 0..20 {
        assert!(world.accepts(&world.token_with(&json!({"jti": number}))).await);
    }
    assert_eq!((world.issuer.asked(METADATA), world.issuer.asked(KEYS), world.issuer.asked_at_all()), (1, 1, 2));
}

#[tokio::test]
async fn tokens_that_come_together_share_one_fetch() {
    let world = World::new().await;
    let token = world.token();
    let all = (0..100).map(|_| world.accepts(&token));
    assert!(futures::future::join_all(all).await.into_iter().all(|accepted| accepted));
    assert_eq!(world.issuer.asked(KEYS), 1);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_end_the_fetch_of_others() {
    let world = Arc::new(World::new().await);
    let token = world.token();
    {
        let mut leaving = Box::pin(world.identify(&token));
        assert!(futures::poll!(&mut leaving).is_pending());
    }
    assert!(world.accepts(&token).await);
    assert_eq!(world.issuer.asked(KEYS), 1);
}

#[tokio::test]
async fn unknown_key_ids_ask_the_issuer_once_a_minute() {
    let world = World::new().await;
    assert!(world.accepts(&world.token()).await);
    let anonymous_caller = Private::ed();
    let storm = async |from: usize| {
        let tokens: Vec<String> = (from..from + 500)
            .map(|number| anonymous_caller.token(&header(&format!("k{number}")), &world.claims()))
            .collect();
        let all = futures::future::join_all(tokens.iter().map(|token| world.accepts(token))).await;
        assert!(all.into_iter().all(|accepted| !accepted));
    };
    storm(0).await;
    assert_eq!(world.issuer.asked(KEYS), 1, "it was asked just now");
    world.clock.advance_ms(AGAIN_MS);
    storm(1_000).await;
    assert_eq!(world.issuer.asked(KEYS), 2);
    world.clock.advance_ms(AGAIN_MS - 1);
    storm(2_000).await;
    assert_eq!(world.issuer.asked(KEYS), 2);
    assert!(world.accepts(&world.token_with(&json!({"jti": 1}))).await, "good tokens are not affected");
}

#[tokio::test]
async fn a_new_key_is_found_and_the_old_one_is_kept_while_it_is_published() {
    let world = World::new().await;
    assert!(world.accepts(&world.token()).await);
    let new = Private::ed();
    world.issuer.publish(&[world.key.jwk("1"), new.jwk("2")]);
    world.clock.advance_ms(AGAIN_MS);
    assert!(world.accepts(&new.token(&header("2"), &world.claims())).await);
    assert!(world.accepts(&world.token_with(&json!({"jti": 1}))).await);
    assert_eq!(world.issuer.asked(KEYS), 2);
}

#[tokio::test]
async fn a_withdrawn_key_is_refused_after_the_next_look_also_for_remembered_tokens() {
    let world = World::new().await;
    let token = world.token();
    assert!(world.accepts(&token).await);
    world.issuer.publish(&[Private::ed().jwk("2")]);
    world.clock.advance_ms(REFRESH_MS - 1_000);
    assert!(world.accepts(&token).await, "nobody has looked yet, and it is remembered from now on");
    world.clock.advance_ms(1_000);
    assert_eq!(world.fault(&token).await, "the token's signature cannot be verified");
}

#[tokio::test]
async fn a_key_that_was_replaced_under_its_id_is_refused() {
    let world = World::new().await;
    let token = world.token();
    assert!(world.accepts(&token).await);
    let new = Private::ed();
    world.issuer.publish(&[new.jwk("1")]);
    world.clock.advance_ms(REFRESH_MS);
    assert!(world.accepts(&new.token(&header("1"), &world.claims())).await);
    assert!(!world.accepts(&token).await);
}

#[tokio::test]
async fn a_fetch_that_fails_forgets_nothing_and_opens_nothing() {
    let elsewhere = Issuer::start().await;
    let attacker = Private::ed();
    elsewhere.publish(&[attacker.jwk("1"), attacker.jwk("2")]);
    let world = World::new().await;
    assert!(world.accepts(&world.token()).await);
    let lie = json!({"issuer": elsewhere.name, "jwks_uri": format!("{}{KEYS}", elsewhere.name)});
    let keys = format!("{}{KEYS}", elsewhere.name);
    for (path, answer) in [
        (METADATA, Answer::Status(500)),
        (METADATA, Answer::Json(lie)),
        (METADATA, Answer::Json(json!([]))),
        (METADATA, Answer::Json(json!({"issuer": world.issuer.name}))),
        (METADATA, Answer::Json(json!({"issuer": world.issuer.name, "jwks_uri": "file:///etc/passwd"}))),
        (METADATA, Answer::Json(json!({"issuer": world.issuer.name, "jwks_uri": "http://example.com/jwks"}))),
        (METADATA, Answer::Redirect(format!("{}{METADATA}", elsewhere.name))),
        (METADATA, Answer::Endless),
        (KEYS, Answer::Redirect(keys)),
        (KEYS, Answer::Status(404)),
        (KEYS, Answer::Json(json!({"keys": {}}))),
        (KEYS, Answer::Json(json!({"keys": vec![attacker.jwk("1"); 101]}))),
        (KEYS, Answer::Endless),
    ] {
        world.issuer.answer(METADATA, Answer::Json(world.issuer.metadata()));
        world.issuer.publish(&[world.key.jwk("1")]);
        world.issuer.answer(path, answer);
        world.clock.advance_ms(REFRESH_MS);
        assert!(world.accepts(&world.token_with(&json!({"jti": path}))).await);
        for id in ["1", "2"] {
            assert!(!world.accepts(&attacker.token(&header(id), &world.claims())).await);
        }
    }
    assert_eq!(elsewhere.asked_at_all(), 0);
}

#[tokio::test]
async fn without_any_keys_a_token_is_neither_good_nor_bad() {
    let world = World::new().await;
    world.issuer.answer(KEYS, Answer::Status(503));
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let refused = world.identify(&world.token()).await.unwrap_err();
        assert_eq!((refused.status, refused.challenge.as_str()), (StatusCode::SERVICE_UNAVAILABLE, ""));
        let asked = world.issuer.asked(KEYS);
        let pause_s: u64 = refused.retry_after.unwrap().parse().unwrap();
        world.clock.advance_ms(pause_s * 1_000 - 1);
        assert!(!world.accepts(&world.token()).await);
        assert_eq!(world.issuer.asked(KEYS), asked, "the issuer is left alone meanwhile");
        world.clock.advance_ms(1);
        pauses.push(pause_s);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    world.issuer.publish(&[world.key.jwk("1")]);
    assert!(world.accepts(&world.token()).await);
}

/// Lets time pass until `answer` is there.
async fn in_time<T>(world: &World, answer: impl Future<Output = T>) -> T {
    let mut answer = Box::pin(answer);
    for _ in 0..10_000 {
        if let std::task::Poll::Ready(answer) = futures::poll!(&mut answer) {
            return answer;
        }
        if let Some(wake) = world.clock.next_wake().filter(|_| world.issuer.asked_at_all() > 0) {
            world.clock.advance_to(wake);
        }
        tokio::task::yield_now().await;
    }
    panic!("it waits for ever")
}

#[tokio::test]
async fn a_silent_issuer_costs_seconds_and_not_more() {
    let world = World::new().await;
    world.issuer.answer(METADATA, Answer::Silence);
    let began_at = world.clock.now();
    let refused = in_time(&world, world.identify(&world.token())).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(world.clock.now().since_ms(began_at) <= 5_000);
}

#[tokio::test]
async fn a_silent_issuer_holds_nobody_up_whose_key_is_known() {
    let world = World::new().await;
    assert!(world.accepts(&world.token()).await);
    world.issuer.answer(METADATA, Answer::Silence);
    world.clock.advance_ms(REFRESH_MS);
    let began_at = world.clock.now();
    assert!(in_time(&world, world.accepts(&world.token_with(&json!({"jti": 1})))).await);
    assert!(world.clock.now().since_ms(began_at) <= 1_000);
    // The next one does not wait at all, while the first question is still open.
    assert!(world.accepts(&world.token_with(&json!({"jti": 2}))).await);
    assert!(world.clock.now().since_ms(began_at) <= 1_000);
}

#[tokio::test]
async fn openid_metadata_is_asked_for_where_there_is_no_oauth_metadata() {
    let world = World::new().await;
    world.issuer.answer(METADATA, Answer::Status(404));
    world.issuer.answer(OPENID, Answer::Json(world.issuer.metadata()));
    assert!(world.accepts(&world.token()).await);
    assert_eq!((world.issuer.asked(METADATA), world.issuer.asked(OPENID)), (1, 1));
}

#[tokio::test]
async fn an_expired_token_or_one_for_somebody_else_fetches_nothing() {
    let world = World::new().await;
    for changes in [json!({"exp": 1}), json!({"aud": "https://other.example.com"}), json!({"cnf": {}})] {
        assert!(!world.accepts(&world.token_with(&changes)).await);
    }
    assert_eq!(world.issuer.asked_at_all(), 0);
}
