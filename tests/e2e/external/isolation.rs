//! The same as in `tests/e2e/isolation.rs`, of callers with access tokens of real authorization servers.

use harness::auth_server::AuthServer;
use harness::seen::{Client, assert_is_denied, assert_sees_its_own, assert_sees_nothing};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::login::Ground;
use crate::e2e::isolation::all;

/// Three real authorization servers, of which the server knows two.
#[tokio::test]
async fn callers_with_access_tokens_see_nothing_of_each_other_and_others_learn_nothing() {
    let [auth, second, anonymous_caller] = [(); 3].map(|()| AuthServer::start());
    let second_issuer = second.issuer().to_owned();
    let ground = Ground::with(auth, None, &["--oauth-issuer", &second_issuer]);
    let (url, scopes) = (ground.url(), "mcp:tools");
    let client = |token: &str| Client::new(ground.server.url(), Some(token), all);
    let anns = ground.auth.issue("ann", url, scopes);
    let ann = client(&anns);
    let (task, sessions) = (ann.begin().await, ann.sessions().await);
    let ben = client(&ground.auth.issue("ben", url, scopes));
    assert_sees_nothing("another user", &ben, &task, &sessions).await;
    let other_ann = client(&second.issue("ann", url, scopes));
    assert_sees_nothing("the user of the same name at another issuer", &other_ann, &task, &sessions).await;
    // Other keys sign, and the same user has a new token: it is the same owner.
    let caller = ground.server.caller().with_token(&ground.auth.issue("ann", url, scopes));
    assert_eq!(caller.get(&task).await["status"], "working", "nobody changed anything");

    let claims = |more: Value| {
        let mut claims = json!({"aud": url, "scope": scopes});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ground.auth.sign("current", json!({}), claims)
    };
    for (who, token) in [
        ("anonymous", None),
        ("expired", Some(claims(json!({"exp": 1_700_000_000})))),
        ("of an issuer that is not listed", Some(anonymous_caller.issue("ann", url, scopes))),
        ("for another server", Some(claims(json!({"aud": "https://other.example.com/mcp"})))),
        ("garbage", Some("garbage".to_owned())),
    ] {
        assert_is_denied(who, &Client::new(ground.server.url(), token.as_deref(), all), &task, &sessions).await;
    }
    assert_sees_its_own(&ann, &task).await;
}

#[tokio::test]
async fn a_user_of_another_team_is_another_owner_and_a_colleague_is_not() {
    let ground = Ground::with(AuthServer::start(), None, &["--oauth-owner-claim", "team"]);
    let token = |subject: &str, team: &str| {
        let claims = json!({"aud": ground.url(), "scope": "mcp:tools", "sub": subject, "team": team});
        ground.auth.sign("current", json!({}), claims)
    };
    let client = |token: &str| Client::new(ground.server.url(), Some(token), all);
    let ann = client(&token("ann", "blue"));
    let (task, sessions) = (ann.begin().await, ann.sessions().await);
    assert_sees_nothing("the same user in another team", &client(&token("ann", "red")), &task, &sessions).await;
    let without = ground.auth.sign("current", json!({}), json!({"aud": ground.url(), "scope": "mcp:tools"}));
    let caller = ground.server.caller().with_token(&without);
    let refused = caller.request("tasks/get", json!({"taskId": task})).send().await.unwrap().status();
    assert_eq!(refused, StatusCode::UNAUTHORIZED, "the same user, of no team");
    assert_sees_its_own(&client(&token("ben", "blue")), &task).await;
}
