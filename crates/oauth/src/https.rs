//! Fetching with the HTTP client that the AWS SDK brings along: TLS by rustls and aws-lc, roots of the system.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::HttpConnector;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::BodyExt;

use crate::fetch::DOCUMENT_BYTES_MAX;
use crate::{Fetch, FetchError};

/// How long a connection is kept for the next document: metadata and keys are fetched one after the other.
const IDLE: Duration = Duration::from_secs(5);

/// An HTTPS client for small public documents. It is set up when it is used for the first time, because reading the
/// system's roots takes time that the start of a function does not have.
#[derive(Debug, Default)]
pub struct HttpsClient {
    connector: OnceLock<Connector>,
}

impl HttpsClient {
    fn connector(&self) -> &Connector {
        let tls = Provider::Rustls(CryptoMode::AwsLc);
        self.connector.get_or_init(|| Connector::builder().tls_provider(tls).pool_idle_timeout(IDLE).build())
    }
}

#[async_trait]
impl Fetch for HttpsClient {
    async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let answer =
            self.connector().call(request(url)?).await.map_err(|error| FetchError::Unreachable(error.into()))?;
        let status = answer.status().as_u16();
        if status != StatusCode::OK.as_u16() {
            return Err(FetchError::Status(status));
        }
        read(answer.into_body()).await
    }
}

fn request(url: &Uri) -> Result<HttpRequest, FetchError> {
    let request = Request::get(url).header(ACCEPT, "application/json").header(USER_AGENT, "longhaul");
    let request = request.body(SdkBody::empty()).map_err(|error| FetchError::Unreachable(error.into()))?;
    HttpRequest::try_from(request).map_err(|error| FetchError::Unreachable(error.into()))
}

async fn read(mut body: SdkBody) -> Result<Bytes, FetchError> {
    let mut document = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchError::Unreachable)?;
        let Some(data) = frame.data_ref() else { continue };
        if document.len() + data.len() > DOCUMENT_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        document.extend_from_slice(data);
    }
    Ok(document.freeze())
}
