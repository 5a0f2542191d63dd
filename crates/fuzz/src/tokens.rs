//! Access tokens, verified with a set of keys that never changes.
//!
//! An input has three lines: the header and the claims of a token as JSON, and its signature. `signed` is one with a
//! key of the issuer, `other` one with another key, and other text is the signature itself. An input of one line is the
//! whole token. The rules for accepted tokens are written here once more, and no refusal contains a part of a token.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use async_trait::async_trait;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri};
use longhaul_core::{Clock, Identity, OwnerId};
use longhaul_http::Rejection;
use longhaul_http::oauth::{Fetch, FetchError, OauthConfig, ResourceServer};
use longhaul_core::settings::{Flags, Place, Values, table};
use longhaul_testkit::ManualClock;
use serde_json::{Value, json};

use crate::driver::drive;

const ISSUER: &str = "https://issuer.example";
const RESOURCE: &str = "https://mcp.example/mcp";

/// Seconds that the clocks of the issuer and of this server may differ.
const LEEWAY_S: f64 = 30.0;

/// Bytes of a token's part that is looked for in an answer: more than any word has that answers have anyway.
const PART_BYTES_MIN: usize = 32;

/// Documents that one token may make the server fetch: metadata in up to three places, and keys, twice.
const FETCHES_MAX: usize = 8;

static KEY: LazyLock<Ed25519KeyPair> = LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap());
static OTHER: LazyLock<Ed25519KeyPair> = LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap());

/// The issuer's documents.
#[derive(Default)]
struct Documents(Mutex<usize>);

#[async_trait]
impl Fetch for Documents {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let document = match url.to_string().strip_prefix(ISSUER) {
            Some("/.well-known/oauth-authorization-server" | "/.well-known/openid-configuration") => {
                json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")})
            }
            Some("/keys") => json!({"keys": [{
                "kty": "OKP", "crv": "Ed25519", "kid": "k1", "use": "sig", "alg": "EdDSA",
                "x": BASE64_URL_SAFE_NO_PAD.encode(KEY.public_key().as_ref()),
            }]}),
            _ => panic!("{url} was fetched"),
        };
        Ok(document.to_string().into())
    }
}

/// Sends one token.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    let token = match lines[..] {
        [header, claims, how, ..] => signed(header, claims, how),
        _ => text.to_owned(),
    };
    let Ok(header) = HeaderValue::from_str(&format!("Bearer {token}")) else { return };
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, header)]);
    let clock = Arc::new(ManualClock::default());
    let documents = Arc::new(Documents::default());
    let server = ResourceServer::fetching_with(config(), Arc::clone(&documents) as _, Arc::clone(&clock) as _);
    let (identified, again) = drive(&clock, async {
        let first = server.identify_at(Some("mcp.example"), &headers).await;
        (first, server.identify_at(Some("mcp.example"), &headers).await)
    });
    assert_eq!(identified, again, "the same token is answered in the same way");
    let fetched = *documents.0.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(fetched <= FETCHES_MAX, "{fetched} documents were fetched");
    match identified {
        Ok(identified) => {
            let subject = judge(&lines, &clock);
            let owner = OwnerId::of(Identity::Verified { issuer: ISSUER, subject: &subject, tenant: "" });
            assert_eq!(identified.principal.owner, owner);
        }
        Err(rejection) => refused(&token, &rejection),
    }
}

fn config() -> OauthConfig {
    let env: BTreeMap<&str, &str> =
        [("LONGHAUL_AUTH", "oauth"), ("LONGHAUL_OAUTH_ISSUERS", ISSUER), ("LONGHAUL_OAUTH_AUDIENCES", RESOURCE)].into();
    OauthConfig::of(&Values::read(Place::Local, &[&table::ALL], &Flags::new(), &env).unwrap()).unwrap()
}

fn signed(header: &str, claims: &str, how: &str) -> String {
    let message = format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(header), BASE64_URL_SAFE_NO_PAD.encode(claims));
    let by = |key: &Ed25519KeyPair| BASE64_URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()));
    let signature = match how {
        "signed" => by(&KEY),
        "other" => by(&OTHER),
        text => text.to_owned(),
    };
    format!("{message}.{signature}")
}

/// The subject of a token that was accepted, which had to be right in everything.
fn judge(lines: &[&str], clock: &ManualClock) -> String {
    let [header, claims, how, ..] = lines[..] else { panic!("a token that this program did not sign was accepted") };
    assert_eq!(how, "signed", "a signature of somebody else was accepted");
    let (header, claims): (Value, Value) =
        (serde_json::from_str(header).unwrap(), serde_json::from_str(claims).unwrap());
    assert_eq!(header["alg"], "EdDSA");
    assert!(header["kid"].is_null() || header["kid"] == "k1", "{header}");
    assert!(header["crit"].is_null(), "{header}");
    assert_eq!(claims["iss"], ISSUER);
    // The case of scheme and host does not matter, nor the usual port, nor a slash at the end.
    let names = |one: &Value| {
        let text = one.as_str().unwrap_or_default().trim_end_matches('/');
        let at = text.char_indices().filter(|(_, letter)| *letter == '/').nth(2).map_or(text.len(), |(at, _)| at);
        let origin = text[..at].to_ascii_lowercase();
        format!("{}{}", origin.strip_suffix(":443").unwrap_or(&origin), &text[at..]) == RESOURCE
    };
    let audience = &claims["aud"];
    assert!(names(audience) || audience.as_array().is_some_and(|all| all.iter().any(names)), "{claims}");
    #[expect(clippy::cast_precision_loss, reason = "times of this millennium have fewer bits than an f64 holds")]
    let now_s = clock.now().as_ms() as f64 / 1_000.0;
    assert!(claims["exp"].as_f64().unwrap() + LEEWAY_S > now_s, "{claims}");
    assert!(claims["nbf"].as_f64().is_none_or(|begins_s| begins_s - LEEWAY_S <= now_s), "{claims}");
    claims["sub"].as_str().filter(|subject| !subject.is_empty()).unwrap().to_owned()
}

/// A refusal has a challenge, and nothing of the token.
fn refused(token: &str, rejection: &Rejection) {
    let answer = rejection.into_response();
    assert_eq!(answer.status(), 401, "{rejection}");
    let challenge = answer.headers()["www-authenticate"].to_str().unwrap();
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    let told = format!("{rejection} {rejection:?} {challenge}");
    // What is not encoded may be a URL that every challenge has.
    let is_encoded = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let parts = token.split('.').filter(|part| part.len() >= PART_BYTES_MIN).filter(is_encoded);
    parts.for_each(|part| assert!(!told.contains(part), "{told}"));
}
