//! Which tokens are accepted, and what they say about their bearer.

use harness::tokens::signing::{self, Private};
use longhaul_core::Scopes;
use longhaul_core::settings::table;
use serde_json::{Value, json};

use crate::world::{World, header};

fn granted(scopes: &[&str]) -> Scopes {
    Scopes::Granted(scopes.iter().map(|scope| (*scope).to_owned()).collect())
}

#[tokio::test]
async fn every_allowed_algorithm_is_verified() {
    let world = World::new().await;
    let algorithms =
        ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"];
    let keys: Vec<Private> = algorithms.iter().map(|algorithm| Private::of(algorithm)).collect();
    let jwks: Vec<Value> = keys.iter().zip(algorithms).map(|(key, algorithm)| key.jwk(algorithm)).collect();
    world.issuer.publish(&jwks);
    for (key, algorithm) in keys.iter().zip(algorithms) {
        let token = key.token(&json!({"alg": algorithm, "kid": algorithm}), &world.claims());
        assert!(world.accepts(&token).await, "{algorithm}");
        let (message, signature) = token.rsplit_once('.').unwrap();
        let changed = if signature.starts_with('A') { "B" } else { "A" };
        let forged = format!("{message}.{changed}{}", &signature[1..]);
        assert!(!world.accepts(&forged).await, "{algorithm}");
        assert!(!world.accepts(&format!("{message}.")).await, "{algorithm}");
    }
}

/// RFC 9864 names the curve in the algorithm. Tokens and keys of one issuer may differ in which name they have.
#[tokio::test]
async fn both_names_of_ed25519_are_one_algorithm() {
    let world = World::new().await;
    for stated in [json!("EdDSA"), json!("Ed25519"), Value::Null] {
        let mut jwk = world.key.jwk("1");
        jwk["alg"] = stated.clone();
        world.issuer.publish(&[jwk]);
        world.clock.advance_ms(600_000);
        for header in [
            json!({"alg": "EdDSA", "kid": "1"}),
            json!({"alg": "EdDSA"}),
            json!({"alg": "Ed25519", "kid": "1"}),
            json!({"alg": "Ed25519"}),
        ] {
            assert!(world.accepts(&world.key.token(&header, &world.claims())).await, "{stated} {header}");
        }
    }
    for (stated, curve) in [("Ed448", "Ed25519"), ("Ed25519", "Ed448"), ("ed25519", "Ed25519")] {
        let mut jwk = world.key.jwk("1");
        (jwk["alg"], jwk["crv"]) = (stated.into(), curve.into());
        world.issuer.publish(&[jwk]);
        world.clock.advance_ms(600_000);
        let token = world.key.token(&json!({"alg": "Ed25519", "kid": "1"}), &world.claims());
        assert!(!world.accepts(&token).await, "{stated} {curve}");
    }
}

/// RFC 7518, section 6.2.1: leading zeros belong to a coordinate.
#[tokio::test]
async fn coordinates_of_p521_have_66_bytes() {
    let world = World::new().await;
    let key = Private::of("ES512");
    let whole = key.jwk("1");
    let x = signing::decoded(whole["x"].as_str().unwrap());
    for (x, accepted) in
        [(x.clone(), true), (x[1..].to_vec(), false), ([&[0], &x[..]].concat(), false), (x[..65].to_vec(), false)]
    {
        let mut jwk = whole.clone();
        jwk["x"] = signing::encoded(x).into();
        world.issuer.publish(&[jwk]);
        world.clock.advance_ms(600_000);
        let token = key.token(&json!({"alg": "ES512", "kid": "1"}), &world.claims());
        assert_eq!(world.accepts(&token).await, accepted);
    }
}

#[tokio::test]
async fn the_bearer_is_whom_the_issuer_says() {
    let world = World::with(|values| {
        values.set(&table::OAUTH_CLAIMS, &vec!["email".to_owned(), "groups".to_owned(), "absent".to_owned()]);
    })
    .await;
    let token = world.token_with(&json!({"email": "ann@example.com", "groups": ["a", "b"], "secret": "x"}));
    let principal = world.identify(&token).await.unwrap();
    let identity = principal.identity.unwrap();
    assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), (world.issuer.name.as_str(), "ann"));
    assert_eq!(Value::Object(identity.claims), json!({"email": "ann@example.com", "groups": ["a", "b"]}));
    assert_eq!(principal.scopes, granted(&["call", "read"]));
}

#[tokio::test]
async fn scopes_are_read_in_every_usual_form() {
    let world = World::new().await;
    for (changes, scopes) in [
        (json!({"scope": "a  b"}), &["a", "b"][..]),
        (json!({"scope": "a", "scp": "b"}), &["a"]),
        (json!({"scope": null, "scp": "a b"}), &["a", "b"]),
        (json!({"scope": null, "scp": ["a", "b"]}), &["a", "b"]),
        (json!({"scope": ["a"]}), &["a"]),
        (json!({"scope": null}), &[]),
        (json!({"scope": ""}), &[]),
    ] {
        let principal = world.identify(&world.token_with(&changes)).await.unwrap();
        assert_eq!(principal.scopes, granted(scopes), "{changes}");
    }
}

#[tokio::test]
async fn owners_are_subjects_of_issuers() {
    let world = World::new().await;
    let owner = async |changes: Value| world.identify(&world.token_with(&changes)).await.unwrap().owner;
    assert_eq!(owner(json!({})).await, owner(json!({"scope": "other"})).await);
    assert_ne!(owner(json!({})).await, owner(json!({"sub": "bob"})).await);
    let other = World::new().await;
    assert_ne!(owner(json!({})).await, other.identify(&other.token()).await.unwrap().owner);
}

#[tokio::test]
async fn a_claim_can_make_a_team_one_owner() {
    let world = World::with(|values| values.set(&table::OAUTH_OWNER_CLAIM, &"team".to_owned())).await;
    let owner = async |sub: &str, team: Value| {
        let token = world.token_with(&json!({"sub": sub, "team": team}));
        world.identify(&token).await.map(|principal| principal.owner)
    };
    let red = owner("ann", json!("red")).await.unwrap();
    assert_eq!(owner("bob", json!(["red"])).await.unwrap(), red);
    assert_ne!(owner("ann", json!("blue")).await.unwrap(), red);
    // A subject cannot call itself a team.
    let alone = World::new().await;
    assert_ne!(alone.identify(&alone.token_with(&json!({"sub": "red"}))).await.unwrap().owner, red);
    for wrong in
        [json!(null), json!(""), json!([]), json!(["red", "blue"]), json!([["red"]]), json!(1), json!({"a": 1})]
    {
        let refused = owner("ann", wrong.clone()).await.unwrap_err();
        assert!(refused.message.contains("whose tasks"), "{wrong}: {}", refused.message);
    }
}

#[tokio::test]
async fn times_are_checked_with_a_leeway_of_thirty_seconds() {
    let world = World::new().await;
    let now = world.now_s();
    for (changes, accepted) in [
        (json!({"exp": now - 29}), true),
        (json!({"exp": now - 31}), false),
        (json!({"exp": now as f64 + 10.5}), true),
        (json!({"exp": 1e300}), true),
        (json!({"nbf": now + 29}), true),
        (json!({"nbf": now + 31}), false),
        (json!({"iat": now + 29}), true),
        (json!({"iat": now + 31}), false),
        (json!({"iat": null}), true),
        (json!({"exp": null}), false),
        (json!({"exp": (now + 100).to_string()}), false),
        (json!({"exp": -1}), false),
        (json!({"nbf": "soon"}), false),
    ] {
        assert_eq!(world.accepts(&world.token_with(&changes)).await, accepted, "{changes}");
    }
}

#[tokio::test]
async fn a_token_ends_also_while_it_is_remembered() {
    let world = World::new().await;
    let token = world.token_with(&json!({"exp": world.now_s() + 100}));
    assert!(world.accepts(&token).await);
    world.clock.advance_ms(129_000);
    assert!(world.accepts(&token).await);
    world.clock.advance_ms(1_000);
    assert_eq!(world.fault(&token).await, "the token has expired");
}

#[tokio::test]
async fn audiences_may_be_a_list_and_other_names() {
    let world = World::with(|values| {
        values
            .set(&table::OAUTH_AUDIENCE, &vec!["https://mcp.example.com/mcp".to_owned(), "api://longhaul".to_owned()]);
    })
    .await;
    for (audience, accepted) in [
        (json!("https://MCP.example.com/mcp/"), true),
        (json!(["https://other.example.com", "https://mcp.example.com/mcp"]), true),
        (json!("api://longhaul"), true),
        (json!("https://other.example.com/mcp"), false),
        (json!([]), false),
        (json!(["https://mcp.example.com/mcp", 1]), false),
        (json!(null), false),
        (json!({}), false),
    ] {
        assert_eq!(world.accepts(&world.token_with(&json!({"aud": audience}))).await, accepted, "{audience}");
    }
}

#[tokio::test]
async fn types_of_access_tokens_are_accepted_in_any_case() {
    let world = World::new().await;
    for (kind, accepted) in [
        (json!("at+jwt"), true),
        (json!("AT+JWT"), true),
        (json!("application/at+jwt"), true),
        (json!("JWT"), true),
        (json!("jwt"), true),
        (json!("Application/At+Jwt"), true),
        (json!("application/JWT"), true),
        (json!("logout+jwt"), false),
        (json!("dpop+jwt"), false),
        (json!("application/dpop+jwt"), false),
        (json!("id+jwt"), false),
        (json!("kb+jwt"), false),
        (json!("secevent+jwt"), false),
        (json!("JOSE"), false),
        (json!("JWE"), false),
        (json!("JWT "), false),
        (json!(" at+jwt"), false),
        (json!("at+jwt; x=1"), false),
        (json!("text/at+jwt"), false),
        (json!(""), false),
        (json!(1), false),
        (json!(["at+jwt"]), false),
        (json!(null), false),
    ] {
        let header = json!({"alg": "EdDSA", "kid": "1", "typ": kind});
        assert_eq!(world.accepts(&world.key.token(&header, &world.claims())).await, accepted, "{kind}");
    }
}

#[tokio::test]
async fn a_key_id_is_needed_where_several_keys_fit() {
    let world = World::new().await;
    let without = || world.key.token(&json!({"alg": "EdDSA"}), &world.claims());
    assert!(world.accepts(&without()).await);
    world.clock.advance_ms(600_000);
    world.issuer.publish(&[world.key.jwk("1"), Private::of("ES256").jwk("2")]);
    assert!(world.accepts(&without()).await, "the other key is of another type");
    world.clock.advance_ms(600_000);
    world.issuer.publish(&[world.key.jwk("1"), Private::ed().jwk("2")]);
    assert!(!world.accepts(&without()).await);
    assert!(world.accepts(&world.token()).await);
}

#[tokio::test]
async fn a_key_is_used_for_what_it_says_it_is_for() {
    let world = World::new().await;
    for (statement, accepted) in [
        (json!({"use": "sig"}), true),
        (json!({"use": "enc"}), false),
        (json!({"alg": "EdDSA"}), true),
        (json!({"alg": "ES256"}), false),
        (json!({"key_ops": ["verify"]}), true),
        (json!({"key_ops": ["sign", "encrypt"]}), false),
        (json!({"crv": "Ed448"}), false),
        (json!({"kty": "EC"}), false),
    ] {
        let mut jwk = world.key.jwk("1");
        jwk.as_object_mut().unwrap().extend(statement.as_object().unwrap().clone());
        // Keys that cannot be used do not spoil the others.
        world.issuer.publish(&[json!({"kty": "new"}), json!(1), jwk]);
        world.clock.advance_ms(600_000);
        let token = world.key.token(&header("1"), &world.claims());
        assert_eq!(world.accepts(&token).await, accepted, "{statement}");
    }
}
