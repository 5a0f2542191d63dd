//! Issuers that are not on this machine: which of their documents are fetched, in which order, and how many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use harness::tokens::signing::Private;
use http::{StatusCode, Uri};
use longhaul_core::Clock;
use longhaul_http::Identify;
use longhaul_http::oauth::{Fetch, FetchError, ResourceServer};
use longhaul_testkit::ManualClock;
use serde_json::{Value, json};

use crate::world::{AUDIENCE, Refused, config, header, request, values};

/// What is published on the internet, and who asked for what.
#[derive(Default)]
pub(crate) struct Far {
    documents: BTreeMap<String, Value>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Fetch for Far {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let url = url.to_string();
        self.asked.lock().unwrap().push(url.clone());
        let document = self.documents.get(&url).ok_or(FetchError::Status(404))?;
        Ok(document.to_string().into())
    }
}

impl Far {
    pub(crate) fn with(documents: impl IntoIterator<Item = (String, Value)>) -> Arc<Self> {
        Arc::new(Self { documents: documents.into_iter().collect(), ..Self::default() })
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// A server that accepts tokens of this issuer.
    pub(crate) fn server(self: &Arc<Self>, issuer: &str) -> ResourceServer {
        let config = config(&values(&[issuer], &[AUDIENCE])).unwrap();
        ResourceServer::fetching_with(config, Arc::clone(self) as _, Arc::new(ManualClock::default()))
    }
}

/// How a server that accepts tokens of `issuer` answers a token of its key `1`.
async fn status(far: &Arc<Far>, issuer: &str, key: &Private) -> StatusCode {
    let exp = ManualClock::default().now().as_ms() / 1_000 + 60;
    let token = key.token(&header("1"), &json!({"iss": issuer, "aud": AUDIENCE, "sub": "ann", "exp": exp}));
    match far.server(issuer).identify(&request(&[&format!("Bearer {token}")])).await {
        Ok(_) => StatusCode::OK,
        Err(rejection) => Refused::of(&rejection).status,
    }
}

const TENANT: &str = "https://id.example.com/tenant1";
const KEYS: &str = "https://keys.example.net/jwks";

/// In the order in which MCP has clients look for them ("Authorization Server Metadata Discovery").
const PLACES: [&str; 3] = [
    "https://id.example.com/.well-known/oauth-authorization-server/tenant1",
    "https://id.example.com/.well-known/openid-configuration/tenant1",
    "https://id.example.com/tenant1/.well-known/openid-configuration",
];

fn metadata(issuer: &str, keys: &str) -> Value {
    json!({"issuer": issuer, "jwks_uri": keys})
}

#[tokio::test]
async fn metadata_is_found_at_each_of_its_places_and_asked_for_nowhere_else() {
    let key = Private::ed();
    for (index, place) in PLACES.into_iter().enumerate() {
        let keys = json!({"keys": [key.jwk("1")]});
        let far = Far::with([(place.to_owned(), metadata(TENANT, KEYS)), (KEYS.to_owned(), keys)]);
        assert_eq!(status(&far, TENANT, &key).await, StatusCode::OK, "{place}");
        assert_eq!(far.asked(), [&PLACES[..=index], &[KEYS]].concat());
    }
    let nothing = Far::with([]);
    assert_eq!(status(&nothing, TENANT, &key).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(nothing.asked(), PLACES);
    assert_eq!(status(&nothing, "https://id.example.com/", &key).await, StatusCode::SERVICE_UNAVAILABLE);
    let without_path = [
        "https://id.example.com/.well-known/oauth-authorization-server",
        "https://id.example.com/.well-known/openid-configuration",
    ];
    assert_eq!(nothing.asked(), without_path, "no place is asked twice");
}

/// A host of many tenants may answer every path with the metadata of its own.
#[tokio::test]
async fn metadata_of_another_issuer_does_not_hide_the_right_one() {
    let key = Private::ed();
    let others = ["https://id.example.com", "https://id.example.com/tenant1/", "https://id.example.com/tenant2"];
    let documents = [
        (PLACES[0].to_owned(), metadata(others[0], "https://id.example.com/other")),
        (PLACES[1].to_owned(), metadata(others[2], "https://id.example.com/other")),
        (PLACES[2].to_owned(), metadata(TENANT, KEYS)),
        (KEYS.to_owned(), json!({"keys": [key.jwk("1")]})),
    ];
    let far = Far::with(documents);
    assert_eq!(status(&far, TENANT, &key).await, StatusCode::OK);
    assert_eq!(far.asked(), [&PLACES[..], &[KEYS]].concat());
    for other in others {
        let far = Far::with(PLACES.map(|place| (place.to_owned(), metadata(other, KEYS))));
        assert_eq!(status(&far, TENANT, &key).await, StatusCode::SERVICE_UNAVAILABLE, "{other}");
        assert_eq!(far.asked(), PLACES, "{other}");
    }
}

/// Otherwise an issuer elsewhere could have this machine's own services asked, or keys changed on the way.
#[tokio::test]
async fn an_issuer_elsewhere_cannot_name_keys_that_come_without_tls() {
    let key = Private::ed();
    for keys in [
        "http://127.0.0.1/jwks",
        "http://127.0.0.1:9000/jwks",
        "http://localhost/jwks",
        "http://[::1]:9000/jwks",
        "http://169.254.169.254/latest/meta-data",
        "http://id.example.com/jwks",
        "HTTP://id.example.com/jwks",
        "https://user@keys.example.net/jwks",
        "file:///etc/passwd",
        "//keys.example.net/jwks",
        "/jwks",
        "",
    ] {
        let documents = PLACES.map(|place| (place.to_owned(), metadata(TENANT, keys)));
        let published = (keys.to_owned(), json!({"keys": [key.jwk("1")]}));
        let far = Far::with(documents.into_iter().chain([published]));
        assert_eq!(status(&far, TENANT, &key).await, StatusCode::SERVICE_UNAVAILABLE, "{keys}");
        assert_eq!(far.asked(), PLACES, "{keys}");
    }
}
