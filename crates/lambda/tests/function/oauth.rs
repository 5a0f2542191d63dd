//! Callers with access tokens, which the API function verifies itself.

use harness::tokens::issuer::Issuer;
use harness::tokens::signing::Private;
use longhaul_core::Clock;
use longhaul_core::settings::{Place, Values, table};
use longhaul_lambda::{Api, Auth};
use longhaul_testkit::ManualClock;
use serde_json::{Value, json};

use crate::answering::{answer, api, message};
use crate::world::{World, event};

const EVENTS: [&str; 3] = ["api-function-url", "api-http-api", "api-rest-api"];

/// An authorization server, and the key that it signs with.
pub(crate) struct Issuing {
    issuer: Issuer,
    key: Private,
}

impl Issuing {
    pub(crate) async fn new() -> Self {
        let (issuer, key) = (Issuer::start().await, Private::ed());
        issuer.publish(&[key.jwk("1")]);
        Self { issuer, key }
    }

    /// A function that knows this one alone.
    fn api(&self, world: &World) -> Api {
        api(world, auth_of(&[self]), &[])
    }

    /// The token of a user at the time of a new world, which is valid for so many seconds.
    pub(crate) fn token(&self, subject: &str, audience: &str, seconds: i64) -> String {
        let now_s = i64::try_from(ManualClock::default().now().as_ms() / 1_000).unwrap();
        let claims = json!({"iss": self.issuer.name, "aud": audience, "sub": subject, "exp": now_s + seconds});
        self.key.token(&json!({"alg": "EdDSA", "kid": "1", "typ": "at+jwt"}), &claims)
    }
}

/// Access tokens of these issuers, without a configured audience.
pub(crate) fn auth_of(issuers: &[&Issuing]) -> Auth {
    let mut values = Values::defaults(Place::Api, &[&table::ALL]);
    values.set(&table::OAUTH_ISSUER, &issuers.iter().map(|issuing| issuing.issuer.name.clone()).collect());
    Auth::Oauth(Box::new(longhaul_http::oauth::OauthConfig::of(&values).unwrap()))
}

fn with_header(mut event: Value, name: &str, value: &str) -> Value {
    event["headers"][name] = value.into();
    if event["multiValueHeaders"].is_object() {
        event["multiValueHeaders"][name] = json!([value]);
    }
    event
}

fn domain(event: &Value) -> String {
    event["requestContext"]["domainName"].as_str().unwrap().to_owned()
}

/// The value of a header of an answer, in whichever of its two places.
fn header(answered: &Value, name: &str) -> String {
    let one = &answered["headers"][name];
    let value = if one.is_string() { one } else { &answered["multiValueHeaders"][name][0] };
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_domain_that_was_called_is_the_audience() {
    let (world, caller) = (World::new(), Issuing::new().await);
    let api = caller.api(&world);
    for name in EVENTS {
        let domain = domain(&event(name));
        let bearer = |audience: &str| format!("Bearer {}", caller.token("ann", audience, 3_600));
        let call = |audience: &str| with_header(event(name), "authorization", &bearer(audience));
        let answered = answer(&api, &call(&format!("https://{domain}/mcp"))).await;
        assert_eq!(answered["statusCode"], 200, "{name}: {answered}");
        assert!(message(&answered)["result"]["tools"].is_array(), "{name}");
        let other = "https://other.example.com/mcp";
        assert_eq!(answer(&api, &call(other)).await["statusCode"], 401, "{name}");
        let claimed = with_header(call(other), "host", "other.example.com");
        // The event of a REST API names the server a second time, and they have to agree.
        let status = if name == "api-rest-api" { 400 } else { 401 };
        assert_eq!(answer(&api, &claimed).await["statusCode"], status, "{name}: a caller does not choose the audience");
    }
    assert_eq!(caller.issuer.asked_at_all(), 2, "the keys were fetched once");
}

#[tokio::test]
async fn a_caller_without_a_token_learns_where_to_log_in() {
    let (world, caller) = (World::new(), Issuing::new().await);
    let api = caller.api(&world);
    for name in EVENTS {
        let domain = domain(&event(name));
        let answered = answer(&api, &event(name)).await;
        assert_eq!(answered["statusCode"], 401, "{name}");
        let metadata = format!("https://{domain}/.well-known/oauth-protected-resource/mcp");
        assert_eq!(header(&answered, "www-authenticate"), format!("Bearer resource_metadata=\"{metadata}\""), "{name}");
    }
    for name in ["api-function-url", "api-http-api"] {
        let mut asked = event(name);
        let domain = domain(&asked);
        let path = "/.well-known/oauth-protected-resource/mcp";
        asked["rawPath"] = path.into();
        asked["requestContext"]["http"]["path"] = path.into();
        asked["requestContext"]["http"]["method"] = "GET".into();
        asked.as_object_mut().unwrap().remove("body");
        let answered = answer(&api, &asked).await;
        assert_eq!(answered["statusCode"], 200, "{name}: {answered}");
        assert_eq!(header(&answered, "access-control-allow-origin"), "*", "{name}");
        let document = message(&answered);
        assert_eq!(document["resource"], format!("https://{domain}/mcp"), "{name}");
        assert_eq!(document["authorization_servers"], json!([caller.issuer.name]), "{name}");
    }
    assert_eq!(caller.issuer.asked_at_all(), 0, "nothing was fetched for them");
}
