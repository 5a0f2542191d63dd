//! Tokens that were made to be accepted and must not be.

use harness::tokens::issuer::Issuer;
use harness::tokens::signing::{Private, encoded, hmac_token};
use serde_json::json;

use crate::world::{World, header};

#[tokio::test]
async fn a_token_without_signature_is_refused_however_none_is_written() {
    let world = World::new().await;
    for algorithm in
        ["none", "None", "NONE", "nOnE", "", "eddsa", "EdDSA ", "HS256", "RS1", "ES256K", "ed25519", "Ed448"]
    {
        let head = encoded(json!({"alg": algorithm, "kid": "1"}).to_string());
        let message = format!("{head}.{}", encoded(world.claims().to_string()));
        let signature = encoded(world.key.sign("EdDSA", message.as_bytes()));
        for token in [format!("{message}."), format!("{message}.{signature}")] {
            assert!(!world.accepts(&token).await, "{algorithm}");
        }
    }
    assert_eq!(world.issuer.asked_at_all(), 0, "nothing was fetched for them");
}

#[tokio::test]
async fn the_public_key_is_not_a_secret() {
    let world = World::new().await;
    let rsa = Private::of("RS256");
    world.issuer.publish(&[rsa.jwk("1"), json!({"kty": "oct", "kid": "2", "k": encoded(b"secret"), "alg": "HS256"})]);
    let jwk = rsa.jwk("1").to_string();
    for (id, secret) in [("1", rsa.public()), ("1", jwk.into_bytes()), ("2", b"secret".to_vec()), ("1", Vec::new())] {
        let token = hmac_token(&json!({"alg": "HS256", "kid": id}), &world.claims(), &secret);
        assert!(!world.accepts(&token).await);
    }
    let signed = rsa.token(&json!({"alg": "RS256", "kid": "1"}), &world.claims());
    assert!(world.accepts(&signed).await, "its signatures are good");
}

#[tokio::test]
async fn a_key_of_another_type_does_not_fit_the_algorithm() {
    let world = World::new().await;
    let [rsa, p256, p384, p521] = ["RS256", "ES256", "ES384", "ES512"].map(Private::of);
    let keys = [rsa.jwk("rsa"), p256.jwk("p256"), p384.jwk("p384"), p521.jwk("p521"), world.key.jwk("ed")];
    world.issuer.publish(&keys);
    for (key, id, algorithm) in [
        (&rsa, "p256", "RS256"),
        (&p256, "p384", "ES256"),
        (&p384, "p256", "ES384"),
        (&p384, "p384", "ES256"),
        (&world.key, "rsa", "EdDSA"),
        (&p256, "ed", "EdDSA"),
        (&p256, "ed", "Ed25519"),
        (&p521, "p521", "ES256"),
        (&p521, "p521", "ES384"),
        (&p256, "p521", "ES512"),
        (&p256, "p256", "ES512"),
    ] {
        let token = key.token(&json!({"alg": algorithm, "kid": id}), &world.claims());
        assert!(!world.accepts(&token).await, "{id} {algorithm}");
    }
}

#[tokio::test]
async fn keys_in_a_header_are_not_looked_at() {
    let world = World::new().await;
    let (evil, attacker) = (Issuer::start().await, Private::ed());
    evil.publish(&[attacker.jwk("1")]);
    let keys = format!("{}/jwks", evil.name);
    for more in
        [json!({"jwk": attacker.jwk("1")}), json!({"jku": keys}), json!({"x5u": keys}), json!({"x5c": ["AAAA"]})]
    {
        let mut head = header("1");
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(!world.accepts(&attacker.token(&head, &world.claims())).await, "{more}");
        // Some issuers write such a header, which changes nothing.
        assert!(world.accepts(&world.key.token(&head, &world.claims())).await, "{more}");
    }
    assert_eq!(evil.asked_at_all(), 0);
}

#[tokio::test]
async fn what_a_header_asks_for_and_nobody_does_is_refused() {
    let world = World::new().await;
    for more in [
        json!({"crit": ["exp"]}),
        json!({"crit": []}),
        json!({"crit": null}),
        json!({"b64": false, "crit": ["b64"]}),
        json!({"b64": true}),
        json!({"enc": "A256GCM"}),
        json!({"zip": "DEF"}),
        json!({"kid": 1}),
        json!({"kid": "x".repeat(513)}),
    ] {
        let mut head = header("1");
        head.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(!world.accepts(&world.key.token(&head, &world.claims())).await, "{more}");
    }
}

#[tokio::test]
async fn what_is_not_a_token_is_refused() {
    let world = World::new().await;
    let good = world.token();
    let [head, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let large = world.token_with(&json!({"groups": "x".repeat(16 * 1024)}));
    for wrong in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "opaque".to_owned(),
        format!("{head}.{claims}"),
        format!("{good}."),
        format!("{good}.x"),
        format!("{good}="),
        format!("{good}, Bearer {good}"),
        format!("{good} {good}"),
        format!("{head}=.{claims}.{signature}"),
        format!("{claims}.{head}.{signature}"),
        format!("{head}.{}.{signature}", encoded("[]")),
        format!("{}.{claims}.{signature}", encoded("1")),
        format!("{head}.{}.{signature}", encoded([0xff; 9])),
        format!("{head}.{}.{signature}", encoded("[".repeat(9_000))),
        large,
        "x".repeat(1 << 20),
    ] {
        assert!(!world.accepts(&wrong).await, "{wrong:.80}");
    }
    assert!(world.accepts(&good).await);
}

#[tokio::test]
async fn claims_that_cannot_be_meant_are_refused() {
    let world = World::new().await;
    let many: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for changes in [
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 1}),
        json!({"sub": "x".repeat(513)}),
        json!({"sub": "a\nb"}),
        json!({"iss": null}),
        json!({"iss": [world.issuer.name]}),
        json!({"iss": format!("{}/", world.issuer.name)}),
        json!({"iss": world.issuer.name.to_uppercase()}),
        json!({"scope": many.join(" ")}),
        json!({"scope": many}),
        json!({"scope": "é"}),
        json!({"scope": "a\"b"}),
        json!({"scope": "x".repeat(257)}),
        json!({"scope": {"a": 1}}),
        json!({"cnf": {"jkt": "x"}}),
        json!({"aud": vec!["https://mcp.example.com/mcp"; 65]}),
    ] {
        assert!(!world.accepts(&world.token_with(&changes)).await, "{changes}");
    }
    let bound = world.fault(&world.token_with(&json!({"cnf": {"jkt": "x"}}))).await;
    assert!(bound.contains("bound to a key"), "{bound}");
}

#[tokio::test]
async fn an_unknown_issuer_is_never_asked() {
    let world = World::new().await;
    let (evil, attacker) = (Issuer::start().await, Private::ed());
    evil.publish(&[attacker.jwk("1")]);
    let token = attacker.token(&header("1"), &world.claims_with(&json!({"iss": evil.name})));
    assert!(world.fault(&token).await.contains("not from an authorization server"));
    assert_eq!((evil.asked_at_all(), world.issuer.asked_at_all()), (0, 0));
}

#[tokio::test]
async fn one_issuer_cannot_speak_for_another() {
    let (one, other) = (Issuer::start().await, Issuer::start().await);
    let world = World::with(|values| {
        values.set(&longhaul_core::settings::table::OAUTH_ISSUER, &vec![one.name.clone(), other.name.clone()]);
    })
    .await;
    let (key, other_key) = (Private::ed(), Private::ed());
    one.publish(&[key.jwk("1")]);
    other.publish(&[other_key.jwk("1")]);
    let token =
        |key: &Private, issuer: &Issuer| key.token(&header("1"), &world.claims_with(&json!({"iss": issuer.name})));
    assert!(world.accepts(&token(&key, &one)).await && world.accepts(&token(&other_key, &other)).await);
    assert!(!world.accepts(&token(&key, &other)).await && !world.accepts(&token(&other_key, &one)).await);
}

#[tokio::test]
async fn a_refusal_says_nothing_of_the_token() {
    let world = World::new().await;
    let secret = json!({"sub": "SECRET-subject", "aud": "https://SECRET.example.com", "scope": "SECRET"});
    let expired = json!({"exp": 1, "sub": "SECRET"});
    let anonymous_caller = Private::ed();
    for token in [
        world.token_with(&secret),
        world.token_with(&expired),
        anonymous_caller.token(&header("1"), &world.claims_with(&json!({"sub": "SECRET"}))),
        anonymous_caller.token(&header("SECRET"), &world.claims()),
        "SECRET".to_owned(),
    ] {
        let refused = world.identify(&token).await.unwrap_err();
        let all = format!("{refused:?} {:?}", world.server);
        let parts: Vec<&str> = token.split('.').filter(|part| !part.is_empty()).collect();
        assert!(!all.contains("SECRET") && parts.iter().all(|part| !all.contains(part)), "{all}");
    }
}

#[tokio::test]
async fn visible_claims_are_small() {
    let world =
        World::with(|values| values.set(&longhaul_core::settings::table::OAUTH_CLAIMS, &vec!["groups".to_owned()]))
            .await;
    let with = |bytes: usize| world.token_with(&json!({"groups": "x".repeat(bytes)}));
    assert!(world.accepts(&with(4_000)).await);
    assert_eq!(world.fault(&with(4_100)).await, "the token's claims are too large");
}
