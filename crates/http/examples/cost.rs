//! The cost of verifying a token, and of recognising one that was verified before: processor time of one request.
//!
//!     cargo run --release -p longhaul-http --example cost

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement may panic, and prints its result")]

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Uri};
use longhaul_core::Clock;
use longhaul_core::settings::{Place, Values, table};
use longhaul_http::Identify;
use longhaul_http::oauth::{Fetch, FetchError, OauthConfig, ResourceServer};
use longhaul_testkit::ManualClock;
use serde_json::json;

const ISSUER: &str = "https://id.example.com";
const AUDIENCE: &str = "https://mcp.example.com/mcp";
const TIMES: u32 = 5_000;

/// An issuer with one key, in this process.
struct Issuer(String);

#[async_trait]
impl Fetch for Issuer {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let metadata = json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/jwks")}).to_string();
        Ok(if url.path() == "/jwks" { self.0.clone() } else { metadata }.into())
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn token(key: &RsaKeyPair, number: u32, now_s: u64) -> String {
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now_s + 3_600, "iat": now_s, "jti": number,
        "scope": "call read cancel", "groups": ["engineering", "reports", "everyone"], "email": "ann@example.com",
    });
    let header = json!({"alg": "RS256", "typ": "at+jwt", "kid": "1"});
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature).unwrap();
    format!("{message}.{}", encoded(signature))
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
async fn main() {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let public = key.public_key().as_ref();
    let (n, e) = (public.get(9..265).unwrap(), public.get(267..).unwrap());
    let keys = json!({"keys": [{"kty": "RSA", "kid": "1", "n": encoded(n), "e": encoded(e)}]}).to_string();
    let mut values = Values::defaults(Place::Local, &[&table::ALL]);
    values.set(&table::OAUTH_ISSUER, &vec![ISSUER.to_owned()]);
    values.set(&table::OAUTH_AUDIENCE, &vec![AUDIENCE.to_owned()]);
    let clock = Arc::new(ManualClock::default());
    let config = OauthConfig::of(&values).unwrap();
    let server = ResourceServer::fetching_with(config, Arc::new(Issuer(keys)), Arc::clone(&clock) as _);
    let now_s = clock.now().as_ms() / 1_000;
    let request = |number| {
        let request = Request::post("/mcp").header("host", "mcp.example.com");
        let request = request.header("authorization", format!("Bearer {}", token(&key, number, now_s)));
        request.body(()).unwrap().into_parts().0
    };
    let distinct: Vec<_> = (0..TIMES).map(request).collect();
    let began = Instant::now();
    for request in &distinct {
        server.identify(request).await.unwrap();
    }
    println!("a new token (RS256):  {:.1} µs", began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
    let same = request(TIMES);
    let began = Instant::now();
    for _ in 0..TIMES {
        server.identify(&same).await.unwrap();
    }
    println!("a remembered token:   {:.1} µs", began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES));
}
