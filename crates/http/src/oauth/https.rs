//! Fetching with an HTTP client that trusts the roots of the system.

use std::sync::OnceLock;
use std::time::Duration;

use crate::client;
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::ACCEPT;
use http::{StatusCode, Uri};
use reqwest::Client;

use crate::oauth::fetch::DOCUMENT_BYTES_MAX;
use crate::oauth::{Fetch, FetchError};

/// How long a connection is kept for the next document: metadata and keys are fetched one after the other.
const IDLE: Duration = Duration::from_secs(5);

/// An HTTPS client for small public documents. Its first use sets it up: it takes too long for a function's start to
/// read the system's roots.
#[derive(Debug, Default)]
pub struct HttpsClient {
    client: OnceLock<Client>,
}

impl HttpsClient {
    fn client(&self) -> Result<&Client, reqwest::Error> {
        // The operator names the issuers, which may be in a private network.
        client::once(&self.client, || client::checked(|_| true).pool_idle_timeout(IDLE))
    }
}

#[async_trait]
impl Fetch for HttpsClient {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let request = self.client().map_err(unreachable)?.get(url.to_string()).header(ACCEPT, "application/json");
        let mut answer = request.send().await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let mut document = BytesMut::new();
        while let Some(data) = answer.chunk().await.map_err(unreachable)? {
            if document.len() + data.len() > DOCUMENT_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
            document.extend_from_slice(&data);
        }
        Ok(document.freeze())
    }
}

fn unreachable(error: reqwest::Error) -> FetchError {
    FetchError::Unreachable(error.into())
}
