//! Requests over HTTP that are quick, limited, and never sent twice on their own.

use std::sync::OnceLock;

use http::{HeaderMap, StatusCode};

use crate::jobs::job::JobError;
use crate::jobs::limits;

/// An HTTP client, made when it is first needed. The next request uses its open connections.
#[derive(Debug, Default)]
pub(crate) struct Web(OnceLock<reqwest::Client>);

/// An answer with any status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// `None` if it is longer than [`limits::ANSWER_BYTES_MAX`].
    pub(crate) body: Option<Vec<u8>>,
}

impl Web {
    /// The client. Redirects are not followed: they could lead to another host, which would get the headers.
    pub(crate) fn client(&self) -> Result<reqwest::Client, JobError> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .connect_timeout(limits::CONNECT)
            .timeout(limits::REQUEST)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| JobError::Refused(format!("no HTTP client can be made: {}", with_causes(&error))))?;
        Ok(self.0.get_or_init(|| client).clone())
    }

    /// Sends it once.
    ///
    /// # Errors
    /// Whether it may have been received, without the URL, which may have secrets in it.
    pub(crate) async fn send(&self, request: reqwest::Request) -> Result<Answer, JobError> {
        let mut response = self.client()?.execute(request).await.map_err(unanswered)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
            if body.len() + chunk.len() > limits::ANSWER_BYTES_MAX {
                return Ok(Answer { status, headers, body: None });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body: Some(body) })
    }
}

fn unanswered(error: reqwest::Error) -> JobError {
    let (is_unsent, why) = (error.is_connect(), with_causes(&error.without_url()));
    if is_unsent { JobError::NotNow(why) } else { JobError::Unanswered(why) }
}

pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    all.collect::<Vec<_>>().join(": ")
}
