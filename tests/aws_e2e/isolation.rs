//! Users of the deployed template see nothing of each other, and callers who do not sign in learn nothing: the same
//! requests as in `tests/e2e/isolation.rs`.

use harness::auth_server::AuthServer;
use harness::protocol_versions::{NEWEST, Naming};
use harness::proxy::Proxy;
use harness::seen::{Client, assert_is_denied, assert_sees_its_own, assert_sees_nothing};
use serde_json::json;

use super::process::Setup;

/// Requests that not every invocation answers in the same way: here each costs one.
fn telling(naming: &Naming) -> bool {
    naming.tells_owner || naming.body.is_none()
}

/// The requests that a caller who is denied sends: only a part of them, because their contents are not read.
fn some(naming: &Naming) -> bool {
    telling(naming) && [NEWEST, "2025-11-25"].contains(&naming.revision)
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_the_deployed_template_see_nothing_of_each_other_and_others_learn_nothing() {
    let [auth, second, anonymous_caller] = [(); 3].map(|()| AuthServer::start());
    let proxy = Proxy::hiding(None);
    let issuers = format!("OAuthIssuers={},{}", auth.issuer(), second.issuer());
    let audiences = format!("OAuthAudiences={}", proxy.url());
    let setup = Setup::with(&["AuthMode=oauth", &issuers, &audiences]);
    proxy.lead_to(setup.start().url());
    let (url, scopes) = (proxy.url(), "mcp:tools");
    let client = |token: &str| Client::new(url, Some(token), telling);
    let ann = client(&auth.issue("ann", url, scopes));
    let (task, sessions) = (ann.begin().await, ann.sessions().await);
    assert_sees_nothing("another user", &client(&auth.issue("ben", url, scopes)), &task, &sessions).await;
    let other_ann = client(&second.issue("ann", url, scopes));
    assert_sees_nothing("the user of the same name at another issuer", &other_ann, &task, &sessions).await;
    let expired = json!({"aud": url, "scope": scopes, "exp": 1_700_000_000});
    for (who, token) in [
        ("anonymous", None),
        ("expired", Some(auth.sign("current", json!({}), expired))),
        ("of an issuer that is not listed", Some(anonymous_caller.issue("ann", url, scopes))),
        ("garbage", Some("garbage".to_owned())),
    ] {
        assert_is_denied(who, &Client::new(url, token.as_deref(), some), &task, &sessions).await;
    }
    assert_sees_its_own(&ann, &task).await;
}
