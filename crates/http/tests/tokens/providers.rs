//! Access tokens as identity providers write them, from issuers with the names and documents that these have.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use harness::tokens::signing::Private;
use http::Uri;
use longhaul_core::settings::{Setting, Values, table};
use longhaul_core::{Clock, Principal, Scopes};
use longhaul_http::Identify;
use longhaul_http::oauth::{Fetch, FetchError, OauthConfig, ResourceServer};
use longhaul_testkit::ManualClock;
use serde_json::{Map, Value, json};

use crate::world::{AUDIENCE, Refused, config, request, values};

const KEYS: &str = "https://keys.example.com/jwks";
const TENANT: &str = "aaaabbbb-0000-cccc-1111-dddd2222eeee";
const OTHER_TENANT: &str = "bbbbcccc-1111-dddd-2222-eeee3333ffff";
/// The id of the application of the server.
const APPLICATION: &str = "00001111-aaaa-2222-bbbb-3333cccc4444";
const CLIENT: &str = "11112222-bbbb-3333-cccc-4444dddd5555";
const COGNITO: &str = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEfGhI";
const COGNITO_CLIENT: &str = "1h57kf5cpq17m0eml12EXAMPLE";
const KEYCLOAK: &str = "https://sso.example.com/realms/tools";

/// Documents by their URLs.
struct Documents(BTreeMap<String, Value>);

#[async_trait]
impl Fetch for Documents {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        self.0.get(&url.to_string()).map(|document| document.to_string().into()).ok_or(FetchError::Status(404))
    }
}

/// A server that accepts the tokens of one provider.
struct Provider {
    key: Private,
    clock: Arc<ManualClock>,
    server: ResourceServer,
}

impl Provider {
    /// The provider whose metadata, at `metadata`, has `issuer`, which is also what the operator names. Its key has
    /// `more` than others.
    fn new(issuer: &str, metadata: &str, more: &Value, change: impl FnOnce(&mut Values)) -> Self {
        let key = Private::of("RS256");
        let mut jwk = key.jwk("k-1");
        jwk["use"] = "sig".into();
        jwk.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let document = json!({"issuer": issuer, "jwks_uri": KEYS, "response_types_supported": ["code"]});
        let documents = BTreeMap::from([(metadata.to_owned(), document), (KEYS.to_owned(), json!({"keys": [jwk]}))]);
        let mut values = values(&[issuer], &[AUDIENCE]);
        change(&mut values);
        let clock = Arc::new(ManualClock::default());
        let config: OauthConfig = config(&values).unwrap();
        let server = ResourceServer::fetching_with(config, Arc::new(Documents(documents)), Arc::clone(&clock) as _);
        Self { key, clock, server }
    }

    /// Who bears a token with these claims, which holds for an hour.
    async fn bearer(&self, mut header: Value, mut claims: Value) -> Result<Principal, String> {
        let now = self.clock.now().as_ms() / 1_000;
        (header["alg"], header["kid"]) = ("RS256".into(), "k-1".into());
        (claims["iat"], claims["exp"]) = (now.into(), (now + 3_600).into());
        let token = self.key.token(&header, &claims);
        match self.server.identify(&request(&[&format!("Bearer {token}")])).await {
            Ok(identified) => Ok(identified.principal),
            Err(rejection) => Err(Refused::of(&rejection).message),
        }
    }
}

fn set(setting: &'static Setting<longhaul_core::settings::List>, texts: &[&str]) -> impl FnOnce(&mut Values) {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    move |values| values.set(setting, &texts)
}

fn with(mut claims: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (name, value) in changes {
        let fields: &mut Map<String, Value> = claims.as_object_mut().unwrap();
        if value.is_null() { drop(fields.remove(&name)) } else { drop(fields.insert(name, value)) }
    }
    claims
}

fn granted(scopes: &[&str]) -> Scopes {
    Scopes::Granted(scopes.iter().map(|scope| (*scope).to_owned()).collect())
}

fn subject(principal: &Principal) -> (&str, &str) {
    let identity = principal.identity.as_ref().unwrap();
    (&identity.issuer, &identity.subject)
}

/// The claims of an access token of a user pool, on any plan.
fn of_cognito() -> Value {
    json!({
        "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "cognito:groups": ["analysts"], "iss": COGNITO, "version": 2,
        "client_id": COGNITO_CLIENT, "origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeef",
        "event_id": "64f513be-32db-42b0-b78e-b02127b4f463", "token_use": "access",
        "scope": "openid https://mcp.example.com/mcp/tools", "auth_time": 1, "username": "ann",
        "jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeef0",
    })
}

#[tokio::test]
async fn tokens_of_cognito_without_an_audience_are_accepted_of_listed_clients() {
    let metadata = format!("{COGNITO}/.well-known/openid-configuration");
    let key = json!({"alg": "RS256"});
    let pool = Provider::new(COGNITO, &metadata, &key, set(&table::OAUTH_CLIENT_ID, &["other", COGNITO_CLIENT]));
    let bearer = async |changes| pool.bearer(json!({}), with(of_cognito(), changes)).await;
    let ann = bearer(json!({})).await.unwrap();
    assert_eq!(subject(&ann), (COGNITO, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"));
    assert_eq!(ann.scopes, granted(&["openid", "https://mcp.example.com/mcp/tools"]));
    let machine = json!({"sub": COGNITO_CLIENT, "username": null, "cognito:groups": null, "event_id": null});
    assert!(bearer(machine).await.is_ok(), "client credentials");
    for (changes, said) in [
        (json!({"client_id": "another"}), "not issued for this server"),
        (json!({"client_id": null}), "lacks the claim `aud`"),
        (json!({"client_id": [COGNITO_CLIENT]}), "lacks the claim `aud`"),
        (json!({"token_use": "id"}), "not an access token"),
        // An audience is checked, whatever the client.
        (json!({"aud": "https://other.example.com/mcp"}), "not issued for this server"),
        (json!({"aud": COGNITO_CLIENT}), "not issued for this server"),
    ] {
        let refused = bearer(changes.clone()).await.unwrap_err();
        assert!(refused.contains(said), "{changes}: {refused}");
    }
    assert!(bearer(json!({"aud": AUDIENCE, "client_id": "another"})).await.is_ok(), "plan Essentials, with a resource");
    let unlisted = Provider::new(COGNITO, &metadata, &key, |_| {});
    let refused = unlisted.bearer(json!({}), of_cognito()).await.unwrap_err();
    assert!(refused.contains("accepts the clients that its operator lists"), "{refused}");
}

/// The claims that version 1 and version 2 of Entra's tokens have in common.
fn of_entra(issuer: &str, tenant: &str) -> Value {
    json!({
        "iss": issuer, "nbf": 1, "aio": "AXQAi/8IAAAA", "idp": issuer, "name": "Ann", "oid": format!("oid-{tenant}"),
        "rh": "0.AAAA", "scp": "tools jobs", "sub": format!("pairwise-{tenant}"), "tid": tenant,
        "uti": "AAAAAAAAAAAAAA", "wids": ["b79fbf4d-3ef9-4689-8143-76b194e85509"],
    })
}

fn version_1(tenant: &str) -> Value {
    let claims = of_entra(&format!("https://sts.windows.net/{tenant}/"), tenant);
    with(
        claims,
        json!({
            "aud": AUDIENCE, "ver": "1.0", "acr": "1", "amr": ["pwd"], "appid": CLIENT, "appidacr": "0",
            "ipaddr": "203.0.113.7", "unique_name": "ann@example.com", "upn": "ann@example.com",
        }),
    )
}

fn version_2(tenant: &str) -> Value {
    let claims = of_entra(&format!("https://login.microsoftonline.com/{tenant}/v2.0"), tenant);
    let more = json!({
        "aud": APPLICATION, "ver": "2.0", "azp": CLIENT, "azpacr": "0", "preferred_username": "ann@example.com",
    });
    with(claims, more)
}

fn header_of_entra() -> Value {
    json!({"typ": "JWT", "x5t": "k-1"})
}

#[tokio::test]
async fn tokens_of_entra_are_accepted_in_version_1_and_in_version_2() {
    let issuer = format!("https://sts.windows.net/{TENANT}/");
    let metadata = format!("https://sts.windows.net/{TENANT}/.well-known/openid-configuration");
    let tenant = Provider::new(&issuer, &metadata, &json!({"x5t": "k-1"}), |_| {});
    let ann = tenant.bearer(header_of_entra(), version_1(TENANT)).await.unwrap();
    assert_eq!(subject(&ann), (issuer.as_str(), format!("pairwise-{TENANT}").as_str()));
    assert_eq!(ann.scopes, granted(&["tools", "jobs"]));
    let refused = tenant.bearer(header_of_entra(), version_2(TENANT)).await.unwrap_err();
    assert!(refused.contains("not from an authorization server"), "{refused}");

    let issuer = format!("https://login.microsoftonline.com/{TENANT}/v2.0");
    let metadata = format!("{issuer}/.well-known/openid-configuration");
    // The issuer that a key names is no reason to refuse it, where there is one tenant.
    let key = json!({"x5t": "k-1", "issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"});
    let names = set(&table::OAUTH_AUDIENCE, &[AUDIENCE, APPLICATION]);
    let tenant = Provider::new(&issuer, &metadata, &key, names);
    let ann = tenant.bearer(header_of_entra(), version_2(TENANT)).await.unwrap();
    assert_eq!(ann.scopes, granted(&["tools", "jobs"]));
    let program =
        json!({"scp": null, "roles": ["Tools.Run"], "idtyp": "app", "name": null, "preferred_username": null});
    let program = tenant.bearer(header_of_entra(), with(version_2(TENANT), program)).await.unwrap();
    assert_eq!(program.scopes, granted(&[]), "roles are no scopes");
    let refused = tenant.bearer(header_of_entra(), version_2(OTHER_TENANT)).await.unwrap_err();
    assert!(refused.contains("not from an authorization server"), "{refused}");
    // An ID token is for the client.
    let refused = tenant.bearer(header_of_entra(), with(version_2(TENANT), json!({"aud": CLIENT}))).await.unwrap_err();
    assert!(refused.contains("not issued for this server"), "{refused}");
}

#[tokio::test]
async fn a_tenant_that_is_left_open_is_that_of_the_token() {
    let issuer = "https://login.microsoftonline.com/{tenantid}/v2.0";
    let metadata = "https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration";
    let names = || set(&table::OAUTH_AUDIENCE, &[AUDIENCE, APPLICATION]);
    let all = Provider::new(issuer, metadata, &json!({"issuer": issuer}), names());
    let ann = all.bearer(header_of_entra(), version_2(TENANT)).await.unwrap();
    let named = format!("https://login.microsoftonline.com/{TENANT}/v2.0");
    assert_eq!(subject(&ann).0, named, "the tenant is part of who calls");
    let same_subject = json!({"sub": format!("pairwise-{TENANT}")});
    let other = all.bearer(header_of_entra(), with(version_2(OTHER_TENANT), same_subject)).await.unwrap();
    assert_ne!(ann.owner, other.owner);
    let one = Provider::new(&named, &format!("{named}/.well-known/openid-configuration"), &json!({}), names());
    let same = one.bearer(header_of_entra(), version_2(TENANT)).await.unwrap();
    assert_eq!(ann.owner, same.owner, "who names tenants later keeps the tasks");
    for changes in [
        json!({"tid": OTHER_TENANT}),
        json!({"tid": null}),
        json!({"iss": issuer, "tid": "{tenantid}"}),
        json!({"iss": "https://login.microsoftonline.com/common/v2.0", "tid": "common"}),
        json!({"iss": format!("https://login.microsoftonline.com/{TENANT}/v2.0/")}),
        json!({"iss": format!("https://login.microsoftonline.com.evil.example/{TENANT}/v2.0")}),
    ] {
        let refused = all.bearer(header_of_entra(), with(version_2(TENANT), changes.clone())).await.unwrap_err();
        assert!(refused.contains("not from an authorization server"), "{changes}: {refused}");
    }
    // A key of one tenant signs for no other.
    let of_one = json!({ "issuer": named });
    let keys_of_one = Provider::new(issuer, metadata, &of_one, names());
    assert!(keys_of_one.bearer(header_of_entra(), version_2(TENANT)).await.is_ok());
    let refused = keys_of_one.bearer(header_of_entra(), version_2(OTHER_TENANT)).await.unwrap_err();
    assert!(refused.contains("signature cannot be verified"), "{refused}");
}

#[tokio::test]
async fn version_1_of_entra_may_leave_its_tenant_open_too() {
    let issuer = "https://sts.windows.net/{tenantid}/";
    let metadata = "https://sts.windows.net/common/.well-known/openid-configuration";
    let all = Provider::new(issuer, metadata, &json!({}), |_| {});
    for tenant in [TENANT, OTHER_TENANT] {
        let ann = all.bearer(header_of_entra(), version_1(tenant)).await.unwrap();
        assert_eq!(subject(&ann).0, format!("https://sts.windows.net/{tenant}/"));
    }
    assert!(all.bearer(header_of_entra(), version_2(TENANT)).await.is_err());
}

#[tokio::test]
async fn clients_are_sent_to_an_issuer_that_exists_if_its_tenant_is_left_open() {
    let issuer = "https://login.microsoftonline.com/{tenantid}/v2.0";
    let all = Provider::new(issuer, "", &json!({}), |_| {});
    let document = all.server.document_at(None, "/.well-known/oauth-protected-resource/mcp").unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["authorization_servers"], json!(["https://login.microsoftonline.com/common/v2.0"]));
}

#[tokio::test]
async fn tokens_of_auth0_are_accepted_of_people_and_of_programs() {
    let issuer = "https://dev-example.eu.auth0.com/";
    let metadata = "https://dev-example.eu.auth0.com/.well-known/openid-configuration";
    let tenant = Provider::new(issuer, metadata, &json!({"alg": "RS256", "x5t": "k-1"}), |_| {});
    let person = json!({
        "iss": issuer, "sub": "google-oauth2|103547991597142817347",
        "aud": [AUDIENCE, "https://dev-example.eu.auth0.com/userinfo"], "azp": "my_client_id",
        "scope": "openid profile read:jobs offline_access", "permissions": ["read:jobs"], "org_id": "org_1",
    });
    for header in [json!({"typ": "JWT"}), json!({"typ": "at+jwt"})] {
        let ann = tenant.bearer(header, person.clone()).await.unwrap();
        assert_eq!(subject(&ann), (issuer, "google-oauth2|103547991597142817347"));
        assert_eq!(ann.scopes, granted(&["openid", "profile", "read:jobs", "offline_access"]));
    }
    let program = json!({
        "iss": issuer, "sub": "my_client_id@clients", "aud": AUDIENCE, "azp": "my_client_id", "scope": "run:jobs",
        "gty": "client-credentials",
    });
    assert!(tenant.bearer(json!({"typ": "JWT"}), program).await.is_ok());
}

#[tokio::test]
async fn tokens_of_okta_are_accepted() {
    let issuer = "https://example.okta.com/oauth2/default";
    let metadata = "https://example.okta.com/.well-known/oauth-authorization-server/oauth2/default";
    let server = Provider::new(issuer, metadata, &json!({"alg": "RS256", "status": "ACTIVE"}), |_| {});
    let claims = json!({
        "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "iss": issuer, "aud": AUDIENCE,
        "cid": "nmdP1fcyvdVO11AL7ECm", "uid": "00ujmkLgagxeRrAg20g3", "scp": ["mcp:tools", "openid"], "auth_time": 1,
        "sub": "ann@example.com",
    });
    let ann = server.bearer(json!({}), claims).await.unwrap();
    assert_eq!(subject(&ann), (issuer, "ann@example.com"));
    assert_eq!(ann.scopes, granted(&["mcp:tools", "openid"]));
}

/// The claims of an access token of Keycloak.
fn of_keycloak() -> Value {
    json!({
        "jti": "onrtac:6e2ee6d5-6b16-4ae5-8d1d-d4ae7f0c4b66", "iss": KEYCLOAK, "aud": [AUDIENCE, "account"],
        "sub": "f5b4b6a1-9c1b-4a56-b4a2-c0e6d0c7cb14", "typ": "Bearer", "azp": "claude", "sid": "1a2b", "acr": "1",
        "allowed-origins": ["http://localhost"], "realm_access": {"roles": ["offline_access", "default-roles-tools"]},
        "resource_access": {"account": {"roles": ["view-profile"]}}, "scope": "mcp:tools email profile",
        "email_verified": true, "preferred_username": "ann", "email": "ann@example.com",
    })
}

#[tokio::test]
async fn tokens_of_keycloak_need_no_subject_where_another_claim_is_the_owner() {
    let metadata = format!("{KEYCLOAK}/.well-known/openid-configuration");
    let key = json!({"alg": "RS256", "x5c": [], "x5t": "k-1", "x5t#S256": "k-1"});
    let header = || json!({"typ": "JWT"});
    let realm = Provider::new(KEYCLOAK, &metadata, &key, |_| {});
    let ann = realm.bearer(header(), of_keycloak()).await.unwrap();
    assert_eq!(subject(&ann).1, "f5b4b6a1-9c1b-4a56-b4a2-c0e6d0c7cb14");
    assert_eq!(ann.scopes, granted(&["mcp:tools", "email", "profile"]));
    let lightweight = |name: &str| {
        let left_out = json!({"sub": null, "email": null, "realm_access": null, "resource_access": null});
        with(with(of_keycloak(), left_out), json!({"preferred_username": name}))
    };
    let refused = realm.bearer(header(), lightweight("ann")).await.unwrap_err();
    assert!(refused.contains("`sub`"), "{refused}");

    let by_name = |values: &mut Values| values.set(&table::OAUTH_OWNER_CLAIM, &"preferred_username".to_owned());
    let realm = Provider::new(KEYCLOAK, &metadata, &key, by_name);
    let ann = realm.bearer(header(), lightweight("ann")).await.unwrap();
    assert_eq!(subject(&ann), (KEYCLOAK, "preferred_username=ann"));
    let whole = realm.bearer(header(), of_keycloak()).await.unwrap();
    assert_eq!(whole.owner, ann.owner, "with a subject or without one");
    assert_ne!(realm.bearer(header(), lightweight("bob")).await.unwrap().owner, ann.owner);
    for wrong in [json!({"sub": ""}), json!({"sub": 7}), json!({"sub": ["ann"]})] {
        let refused = realm.bearer(header(), with(lightweight("ann"), wrong.clone())).await.unwrap_err();
        assert!(refused.contains("claim `sub` cannot be read"), "{wrong}: {refused}");
    }
    for kind in ["ID", "Refresh", "Offline"] {
        let refused = realm.bearer(header(), with(of_keycloak(), json!({"typ": kind}))).await.unwrap_err();
        assert!(refused.contains("not an access token"), "{kind}: {refused}");
    }
}

/// A proxy takes `/tools` away and passes `/mcp` on, and likewise every other path below it.
#[tokio::test]
async fn callers_below_a_path_that_a_proxy_takes_away_find_where_to_log_in() {
    let issuer = "https://example.okta.com/oauth2/default";
    let below = set(&table::OAUTH_AUDIENCE, &["https://example.com/tools/mcp"]);
    let server = Provider::new(issuer, "", &json!({}), below).server;
    let refused = Refused::of(&server.identify_at(Some("example.com"), &http::HeaderMap::new()).await.unwrap_err());
    let found = "https://example.com/tools/.well-known/oauth-protected-resource/mcp";
    assert!(refused.challenge.contains(&format!("resource_metadata=\"{found}\"")), "{}", refused.challenge);
    // What arrives if that is asked for; and if the proxy passes on what RFC 9728 makes of the resource.
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/tools/mcp"] {
        let document: Value = serde_json::from_slice(&server.document_at(Some("example.com"), path).unwrap()).unwrap();
        assert_eq!(document["resource"], "https://example.com/tools/mcp", "{path}");
    }
}
