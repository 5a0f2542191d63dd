//! What callers are told: where to log in, and what is wrong with their request. And what the operator is told.

use http::{Request, StatusCode};
use longhaul_core::settings::table;
use longhaul_http::Identify;
use serde_json::{Value, json};

use crate::world::{Refused, World, config, request, values};

const METADATA_URL: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

fn document(world: &World, host: &str, path: &str) -> Option<Value> {
    let request = Request::get(path).header("host", host).body(()).unwrap().into_parts().0;
    Some(serde_json::from_slice(&world.server.document(&request)?).unwrap())
}

#[tokio::test]
async fn metadata_says_where_to_log_in() {
    let world = World::new().await;
    let expected = json!({
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": [world.issuer.name],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["call"],
    });
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        assert_eq!(document(&world, "mcp.example.com", path).unwrap(), expected, "{path}");
    }
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/x", "/"] {
        assert_eq!(document(&world, "mcp.example.com", path), None, "{path}");
    }
}

#[tokio::test]
async fn of_several_audiences_the_one_at_the_host_is_named() {
    let world = World::with(|values| {
        let audiences = ["https://a.example.com/mcp", "https://b.example.com/x/mcp"].map(str::to_owned);
        values.set(&table::OAUTH_AUDIENCE, &audiences.to_vec());
    })
    .await;
    let resource = |host| document(&world, host, "/.well-known/oauth-protected-resource").unwrap()["resource"].clone();
    assert_eq!(resource("B.example.com:443"), "https://b.example.com/x/mcp");
    assert_eq!(resource("a.example.com"), "https://a.example.com/mcp");
    assert_eq!(resource("evil.example.com"), "https://a.example.com/mcp");
    assert!(world.accepts(&world.token_with(&json!({"aud": "https://b.example.com/x/mcp"}))).await);
}

#[tokio::test]
async fn a_request_without_a_token_is_told_how_to_get_one() {
    let world = World::new().await;
    let token = world.token();
    let basic = format!("Basic {token}");
    for authorization in [&[][..], &["Basic YTpi"], &["Bearer"], &[basic.as_str()], &[""]] {
        let refused = Refused::of(&world.server.identify(&request(authorization)).await.unwrap_err());
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{authorization:?}");
        assert_eq!(refused.challenge, format!(r#"Bearer scope="call", resource_metadata="{METADATA_URL}""#));
    }
    let mut in_query = request(&[]);
    in_query.uri = format!("/mcp?access_token={token}").parse().unwrap();
    assert_eq!(Refused::of(&world.server.identify(&in_query).await.unwrap_err()).status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.issuer.asked_at_all(), 0);
}

#[tokio::test]
async fn a_bad_token_is_told_what_is_wrong() {
    let world = World::new().await;
    let refused = world.identify(&world.token_with(&json!({"exp": 1}))).await.unwrap_err();
    let expected = format!(
        r#"Bearer error="invalid_token", error_description="the token has expired", scope="call", resource_metadata="{METADATA_URL}""#
    );
    assert_eq!((refused.status, refused.challenge), (StatusCode::UNAUTHORIZED, expected));
    let wrong = world.fault(&world.token_with(&json!({"aud": "https://other.example.com"}))).await;
    assert!(wrong.contains("not issued for this server"), "{wrong}");
}

#[tokio::test]
async fn a_claim_that_is_missing_or_wrong_is_named() {
    let world = World::new().await;
    for claim in ["iss", "aud", "exp"] {
        let fault = world.fault(&world.token_with(&json!({claim: null}))).await;
        assert_eq!(fault, format!("the token lacks the claim `{claim}`"));
    }
    for claim in ["aud", "exp", "iat", "nbf", "sub", "scope"] {
        let fault = world.fault(&world.token_with(&json!({claim: {"a": 1}}))).await;
        assert_eq!(fault, format!("the token's claim `{claim}` cannot be read"));
    }
    let by_team = World::with(|values| values.set(&table::OAUTH_OWNER_CLAIM, &"team".to_owned())).await;
    let fault = by_team.fault(&by_team.token()).await;
    assert!(fault.starts_with("the token lacks the claim `team`, which says whose tasks these are"), "{fault}");
}

#[tokio::test]
async fn one_header_has_one_token() {
    let world = World::new().await;
    let good = format!("Bearer {}", world.token());
    let refused = Refused::of(&world.server.identify(&request(&[&good, &good])).await.unwrap_err());
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.challenge.starts_with(r#"Bearer error="invalid_request""#), "{}", refused.challenge);
    for scheme in ["bearer", "BEARER", "Bearer "] {
        assert!(world.server.identify(&request(&[&format!("{scheme} {}", world.token())])).await.is_ok(), "{scheme}");
    }
}

/// Some providers call a scope otherwise than their tokens do: Entra ID wants `URL/tools`, and writes `tools`.
#[tokio::test]
async fn scopes_that_the_operator_advertises_replace_those_of_methods() {
    let advertised = ["https://mcp.example.com/mcp/tools", "etl:run"].map(str::to_owned);
    let world = World::with(|values| values.set(&table::SCOPES_ADVERTISED, &advertised.into())).await;
    let metadata = document(&world, "mcp.example.com", "/.well-known/oauth-protected-resource").unwrap();
    assert_eq!(metadata["scopes_supported"], json!(["etl:run", "https://mcp.example.com/mcp/tools"]));
    let refused = Refused::of(&world.server.identify(&request(&[])).await.unwrap_err());
    let scope = r#"scope="etl:run https://mcp.example.com/mcp/tools""#;
    assert_eq!(refused.challenge, format!(r#"Bearer {scope}, resource_metadata="{METADATA_URL}""#));
    let expired = world.identify(&world.token_with(&json!({"exp": 1}))).await.unwrap_err();
    assert!(expired.challenge.contains(scope), "{}", expired.challenge);
    let scopes = |scopes: &[&str]| {
        let mut values = values(&["https://id.example.com"], &["https://mcp.example.com/mcp"]);
        values.set(&table::SCOPES_ADVERTISED, &scopes.iter().map(|scope| (*scope).to_owned()).collect());
        config(&values)
    };
    assert_eq!(
        scopes(&[]).unwrap(),
        config(&values(&["https://id.example.com"], &["https://mcp.example.com/mcp"])).unwrap()
    );
    let fault = scopes(&["tools", "offline_access"]).unwrap_err().to_string();
    assert!(fault.contains("leave offline_access out") && fault.contains("`scopes-advertised`"), "{fault}");
    let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(scopes(&many[1..]).is_ok());
    assert!(scopes(&many).unwrap_err().to_string().contains("at most 32"));
}

#[test]
fn a_server_needs_issuers_and_its_own_url() {
    let fault = |issuers: &[&str], audiences: &[&str]| config(&values(issuers, audiences)).unwrap_err().to_string();
    let (issuer, audience) = ("https://id.example.com", "https://mcp.example.com/mcp");
    assert!(config(&values(&[issuer], &[audience])).is_ok());
    assert!(config(&values(&["http://127.0.0.1:4000"], &["http://127.0.0.1:8080/mcp"])).is_ok());
    for (issuers, audiences, expected) in [
        (&[][..], &[audience][..], "--oauth-issuer"),
        (&[issuer], &[], "--oauth-audience"),
        (&[issuer], &["api://longhaul"], "--oauth-audience"),
        (&["http://id.example.com"], &[audience], "begins with https://"),
        (&["https://id.example.com/?x"], &[audience], "without query"),
        (&["https://user@id.example.com"], &[audience], "without user name"),
        (&["id.example.com"], &[audience], "begins with https://"),
        (&[issuer], &["https://mcp.example.com/mcp#x"], "fragment"),
        (&[issuer; 17], &[audience], "at most 16"),
    ] {
        let fault = fault(issuers, audiences);
        assert!(fault.contains(expected), "{fault}");
        assert_eq!(fault.lines().count(), 1);
    }
}
