//! One good token, one bad one, and a change of keys, against the real program with a real authorization server.
//! `crates/http/tests/tokens` covers other tokens.

use std::time::{Duration, Instant};

use harness::auth_server::AuthServer;
use reqwest::{Response, StatusCode};
use serde_json::json;

use super::login::Ground;

/// The shortest time between two requests for the keys of an issuer whose keys are known.
const AGAIN: Duration = Duration::from_secs(60);

/// Where the authorization server has its keys.
const KEYS: &str = "/jwks";

impl Ground {
    fn good_token(&self) -> String {
        self.auth.issue("ann", self.url(), "mcp:tools")
    }

    /// The answer to a harmless request with this token.
    async fn answer(&self, token: &str) -> Response {
        let caller = self.server.caller().with_token(token);
        caller.request("tools/list", json!({})).send().await.expect("the server answers")
    }

    async fn status(&self, token: &str) -> StatusCode {
        self.answer(token).await.status()
    }
}

#[tokio::test]
async fn a_good_token_lets_its_caller_in_and_a_bad_one_lets_nobody_in_and_is_not_repeated() {
    let ground = Ground::new(AuthServer::start());
    assert_eq!(ground.status(&ground.good_token()).await, StatusCode::OK);
    let claims = json!({"aud": ground.url(), "scope": "mcp:tools"});
    let elsewhere = format!("{}/evil", ground.auth.issuer());
    let bad = ground.auth.sign("foreign", json!({"jku": elsewhere}), claims);
    let answer = ground.answer(&bad).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let challenge = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = ground.url().replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
    assert!(challenge.starts_with("Bearer error=\"invalid_token\""), "{challenge}");
    assert!(challenge.contains(&format!("resource_metadata=\"{metadata}\"")), "{challenge}");
    let said = format!("{challenge} {} {}", answer.text().await.unwrap(), ground.server.log());
    assert!(bad.split('.').all(|part| !said.contains(part)), "{said}");
    assert_eq!((ground.auth.requests_of("/evil"), ground.auth.requests_of(KEYS)), (0, 1));
}

#[tokio::test]
async fn a_new_key_is_found_and_a_withdrawn_one_lets_nobody_in() {
    let ground = Ground::new(AuthServer::start());
    let begun = Instant::now();
    let before = ground.good_token();
    assert_eq!(ground.status(&before).await, StatusCode::OK);
    ground.auth.rotate_keys();
    let after = ground.good_token();
    ground.auth.withdraw_keys();
    tokio::time::sleep((AGAIN + Duration::from_secs(1)).saturating_sub(begun.elapsed())).await;
    assert_eq!(ground.status(&after).await, StatusCode::OK);
    assert_eq!(ground.status(&before).await, StatusCode::UNAUTHORIZED, "its key was withdrawn");
    assert_eq!(ground.auth.requests_of(KEYS), 2);
}
