//! Tokens that must not let anyone in, and authorization servers that rotate keys, fail, or are not there: against the
//! real binary, with a real authorization server.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::{StreamExt as _, stream};
use harness::auth_server::AuthServer;
use harness::caller::{Caller, structured};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use super::login::Ground;

/// The shortest time between two requests for the keys of an issuer whose keys are known.
const AGAIN: Duration = Duration::from_secs(60);

/// How long a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the authorization server has its keys.
const KEYS: &str = "/jwks";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Ground {
    fn good_token(&self) -> String {
        self.auth.issue("ann", self.url(), "mcp:tools")
    }

    fn caller(&self, token: &str) -> Caller {
        self.server.caller().with_token(token)
    }

    /// The answer to a harmless request with this token.
    async fn answer(&self, token: &str) -> Response {
        self.caller(token).request("tools/list", json!({})).send().await.expect("the server answers")
    }

    async fn status(&self, token: &str) -> StatusCode {
        self.answer(token).await.status()
    }

    /// A token that is well made, except for what `header` and `claims` change. Nothing is as if the claim were not
    /// there.
    fn signed(&self, with: &str, header: Value, claims: &Value) -> String {
        let mut all = json!({"aud": self.url(), "scope": "mcp:tools"});
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        self.auth.sign(with, header, all)
    }
}

/// Tokens that are wrong in one way each.
fn hostile(ground: &Ground) -> Vec<(&'static str, String)> {
    let here = ground.url();
    let elsewhere = format!("{}/evil", ground.auth.issuer());
    let nothing = json!({});
    let by_claims = |name, claims: Value| (name, ground.signed("current", json!({}), &claims));
    let by_header = |name, with, header: Value| (name, ground.signed(with, header, &nothing));
    let good = ground.good_token();
    let other = ground.signed("current", json!({}), &json!({"sub": "bob"}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (other_message, _) = other.rsplit_once('.').unwrap();
    vec![
        by_header("unsigned", "none", json!({})),
        by_header("signed with the public key as secret", "hmac", json!({})),
        by_header("signed by a stranger who names the right key", "foreign", json!({})),
        by_header("signed by a stranger's key", "foreign", json!({"kid": "stranger"})),
        by_header("signed well, but naming another key", "current", json!({"kid": "stranger"})),
        by_header("naming a place for its keys (jku)", "foreign", json!({"kid": "x", "jku": elsewhere})),
        by_header("naming a place for its certificate (x5u)", "foreign", json!({"kid": "x", "x5u": elsewhere})),
        by_header("needing an extension", "current", json!({"crit": ["evil"], "evil": true})),
        by_header("a logout token", "current", json!({"typ": "logout+jwt"})),
        by_header("proof of a key", "current", json!({"typ": "dpop+jwt"})),
        by_claims("for another server", json!({"aud": "https://other.example.com/mcp"})),
        by_claims("for a server whose URL begins like ours", json!({"aud": format!("{here}.evil.example.com")})),
        by_claims("for nobody", json!({"aud": []})),
        by_claims("for a number", json!({"aud": 1})),
        by_claims("from another issuer", json!({"iss": "https://other.example.com"})),
        by_claims("from an issuer that is spelled like ours", json!({"iss": format!("{}/", ground.auth.issuer())})),
        by_claims("expired", json!({"exp": now_s() - 31})),
        by_claims("expiring at a text", json!({"exp": "tomorrow"})),
        by_claims("not valid yet", json!({"nbf": now_s() + 60})),
        by_claims("issued in the future", json!({"iat": now_s() + 60})),
        by_claims("of nobody", json!({"sub": ""})),
        by_claims("of a number", json!({"sub": 7})),
        by_claims("bound to a key", json!({"cnf": {"jkt": "x"}})),
        by_claims("an ID token for its client", json!({"aud": "trial", "nonce": "n", "at_hash": "h"})),
        by_claims("an ID token for this server", json!({"nonce": "n", "at_hash": "h"})),
        by_claims("an ID token of Cognito", json!({"token_use": "id"})),
        by_claims("an ID token of Keycloak", json!({"typ": "ID"})),
        by_claims("a refresh token of Keycloak", json!({"typ": "Refresh"})),
        by_claims("huge", json!({"groups": vec!["a group of everyone"; 2_000]})),
        ("with the signature of another token", format!("{other_message}.{signature}")),
        ("without its signature", format!("{message}.")),
        ("without the last character", good[..good.len() - 1].to_owned()),
        ("in five parts", format!("{good}.x.x")),
        ("opaque", "1k9DQFFDDY6Fr0LwbK0HlucKFbmrLapLPxuBLiSwyCG".to_owned()),
        ("a dot", ".".to_owned()),
        ("two dots", "..".to_owned()),
    ]
}

#[tokio::test]
async fn no_bad_token_lets_anyone_in_or_is_repeated() {
    let ground = Ground::new(AuthServer::start());
    // The keys are known already: nothing below is refused because they are not.
    assert_eq!(ground.status(&ground.good_token()).await, StatusCode::OK);
    let tokens = hostile(&ground);
    for (name, token) in &tokens {
        let answer = ground.answer(token).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{name}");
        let challenge = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(challenge.starts_with("Bearer error=\"invalid_token\""), "{name}: {challenge}");
        let metadata = ground.url().replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
        assert!(challenge.contains(&format!("resource_metadata=\"{metadata}\"")), "{name}: {challenge}");
        let body = answer.text().await.unwrap();
        // The shortest ones are parts of every text.
        let is_repeated = token.len() > 2 && (body.contains(token) || challenge.contains(token));
        assert!(!is_repeated, "{name}: {body}");
    }
    assert_eq!(ground.auth.requests_of("/evil"), 0, "a token said where its keys are, and was believed");
    assert_eq!(ground.auth.requests_of(KEYS), 1);
    assert_eq!(ground.status(&ground.good_token()).await, StatusCode::OK);
    let log = ground.server.log();
    for (name, token) in &tokens {
        let parts = token.split('.').filter(|part| part.len() > 16);
        assert!(parts.clone().all(|part| !log.contains(part)), "{name}: the log has a part of the token");
    }
}

#[tokio::test]
async fn only_the_header_carries_a_token() {
    let ground = Ground::new(AuthServer::start());
    let token = ground.good_token();
    let request = || ground.server.caller().request("tools/list", json!({}));
    let in_query = Caller::new(&format!("{}?access_token={token}", ground.server.url()));
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status();
    for refused in [
        request(),
        in_query.request("tools/list", json!({})),
        request().header("cookie", format!("access_token={token}")),
        request().header("authorization", format!("Basic {token}")),
        request().header("authorization", &token),
        request().header("authorization", "Bearer"),
        request().header("x-forwarded-authorization", format!("Bearer {token}")),
    ] {
        assert_eq!(status(refused).await, StatusCode::UNAUTHORIZED);
    }
    let twice = request().bearer_auth(&token).header("authorization", format!("Bearer {token}"));
    assert!(status(twice).await.is_client_error());
    assert_eq!(status(request().header("authorization", format!("bEARER {token}"))).await, StatusCode::OK);
}

#[tokio::test]
async fn every_usual_algorithm_and_type_is_accepted() {
    let ground = Ground::new(AuthServer::start());
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        ground.auth.set("alg", json!(algorithm));
        assert_eq!(ground.status(&ground.good_token()).await, StatusCode::OK, "{algorithm}");
        for kind in ["JWT", "application/at+jwt", "AT+JWT"] {
            let token = ground.signed("current", json!({"typ": kind}), &json!({}));
            assert_eq!(ground.status(&token).await, StatusCode::OK, "{algorithm} {kind}");
        }
    }
}

/// A minute in the life of an issuer: the keys change while a task runs, and strangers send made-up tokens.
#[tokio::test]
async fn keys_are_rotated_and_withdrawn_while_a_task_runs() {
    let ground = Ground::new(AuthServer::start());
    let begun = Instant::now();
    let before = ground.good_token();
    let id = ground.caller(&before).call_task("countdown", json!({"seconds": 58, "steps": 58})).await;
    assert_eq!(ground.auth.requests_of(KEYS), 1);
    ground.auth.rotate_keys();
    let after = ground.good_token();
    // Nobody makes the server ask for keys again, and no request waits for it.
    let unknown = ground.signed("foreign", json!({"kid": "KID"}), &json!({}));
    let (head, rest) = unknown.split_once('.').unwrap();
    // Sixteen at a time, so that all are answered before the server may ask again.
    let sent = stream::iter(0..2_000).for_each_concurrent(16, async |number| {
        // Each names another key; what is signed is not right anyway.
        let token = format!("{}.{rest}", with_key(head, number));
        assert_eq!(ground.status(&token).await, StatusCode::UNAUTHORIZED);
    });
    sent.await;
    assert_eq!(ground.auth.requests_of(KEYS), 1);
    ground.caller(&before).get(&id).await;
    ground.auth.withdraw_keys();
    tokio::time::sleep((AGAIN + Duration::from_secs(1)).saturating_sub(begun.elapsed())).await;
    let done = ground.caller(&after).until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1, "{done}");
    assert_eq!(ground.auth.requests_of(KEYS), 2);
    assert_eq!(ground.status(&before).await, StatusCode::UNAUTHORIZED, "its key was withdrawn");
}

/// The header of a token with another key's id.
fn with_key(head: &str, number: usize) -> String {
    use base64::Engine as _;
    let base64 = base64::prelude::BASE64_URL_SAFE_NO_PAD;
    let header = String::from_utf8(base64.decode(head).unwrap()).unwrap();
    base64.encode(header.replace("KID", &format!("key-{number}")))
}

/// Asks until the answer is no longer that the keys cannot be fetched.
async fn until_keys_are_known(ground: &Ground) -> StatusCode {
    let begun = Instant::now();
    loop {
        let answer = ground.answer(&ground.good_token()).await;
        if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
            return answer.status();
        }
        assert!(begun.elapsed() < PATIENCE, "the keys are never fetched");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_server_starts_without_its_authorization_server_and_lasts_without_it() {
    let auth = AuthServer::start();
    auth.go_down();
    let ground = Ground::new(auth);
    let refused = ground.answer(&ground.good_token()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "nobody knows whether the token is good");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(ground.status("no token at all").await, StatusCode::UNAUTHORIZED);
    ground.auth.come_up();
    assert_eq!(until_keys_are_known(&ground).await, StatusCode::OK);
    ground.auth.go_down();
    let caller = ground.caller(&ground.good_token());
    let id = caller.call_task("countdown", json!({"seconds": 0.5, "steps": 5})).await;
    caller.until(&id, "completed").await;
    let forged = ground.signed("foreign", json!({}), &json!({}));
    assert_eq!(ground.status(&forged).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_authorization_server_that_misbehaves_opens_nothing() {
    let metadata = "/.well-known/oauth-authorization-server";
    let openid = "/.well-known/openid-configuration";
    let other = json!({"issuer": "https://other.example.com", "jwks_uri": "https://other.example.com/jwks"});
    let answers = |body: Value| json!({"status": 200, "body": body.to_string()});
    for (name, faults) in [
        ("metadata of another issuer", vec![(metadata, answers(other.clone())), (openid, answers(other))]),
        ("keys without end", vec![(KEYS, json!({"status": 200, "endless": true}))]),
        ("keys that never come", vec![(KEYS, json!({"hang": true}))]),
        ("keys elsewhere", vec![(KEYS, json!({"status": 302, "headers": {"location": "/evil"}}))]),
        ("no keys", vec![(KEYS, answers(json!({"keys": "none"})))]),
    ] {
        let ground = Ground::new(AuthServer::start());
        for (path, fault) in faults {
            ground.auth.fail(path, fault);
        }
        let forged = ground.signed("foreign", json!({}), &json!({}));
        assert_eq!(ground.status(&ground.good_token()).await, StatusCode::SERVICE_UNAVAILABLE, "{name}");
        assert_eq!(ground.status(&forged).await, StatusCode::SERVICE_UNAVAILABLE, "{name}");
        assert_eq!(ground.auth.requests_of("/evil"), 0, "{name}");
        ground.auth.repair();
        assert_eq!(until_keys_are_known(&ground).await, StatusCode::OK, "{name}");
        assert_eq!(ground.status(&forged).await, StatusCode::UNAUTHORIZED, "{name}");
    }
}
