//! One request to an endpoint.

use std::error::Error as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use longhaul_core::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};

use crate::reach::{CheckedResolver, OutOfReach};
use crate::schedule::retry_after_ms;
use crate::{Endpoint, Reach, signatures};

/// How long one request may take, with the connection and the head of the answer.
const REQUEST_S: u64 = 20;

/// Sends webhooks to addresses within its reach.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    reach: Reach,
    // Built at the first use: reading the system's certificates takes a large part of a start.
    client: Arc<OnceLock<Client>>,
}

/// What is sent.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) id: &'a str,
    pub(crate) body: &'a str,
    pub(crate) at: Timestamp,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With a status, and the time after which to come back. The rest of the answer is not read.
    Status { status: u16, retry_after_ms: Option<u64> },
    /// Without an answer, for this reason.
    None { why: &'static str },
}

impl Answer {
    /// Whether the endpoint wants no webhooks any more.
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self, Self::Status { status, .. } if *status == StatusCode::GONE.as_u16())
    }

    /// Whether the endpoint has taken the webhook. A redirect is none of these.
    pub(crate) const fn is_success(&self) -> bool {
        matches!(self, Self::Status { status: 200..=299, .. })
    }
}

impl Sender {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, client: Arc::default() }
    }

    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let built = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(CheckedResolver(self.reach)))
            .timeout(Duration::from_secs(REQUEST_S))
            // The bodies of answers are not read, so that connections cannot be used again.
            .pool_max_idle_per_host(0)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(self.client.get_or_init(|| built))
    }

    /// Sends it once, signed with all secrets of the endpoint.
    pub(crate) async fn send(&self, endpoint: &Endpoint, sent: Sent<'_>) -> Answer {
        let Sent { id, body, at } = sent;
        let at_s = at.as_ms() / 1_000;
        let Ok(client) = self.client() else { return Answer::None { why: "the TLS library cannot be set up" } };
        let request = client
            .post(endpoint.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at_s)
            .header("webhook-signature", signatures(&endpoint.secrets, id, at_s, body))
            .body(body.to_owned());
        match request.send().await {
            Ok(response) => {
                let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after_ms = asked.and_then(|text| retry_after_ms(text, at));
                Answer::Status { status: response.status().as_u16(), retry_after_ms }
            }
            Err(error) => Answer::None { why: why(&error) },
        }
    }
}

/// Why there is no answer, in words that say nothing about the network that the server is in.
fn why(error: &reqwest::Error) -> &'static str {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<OutOfReach>() {
            return "the endpoint's host has an address that is not public";
        }
        cause = error.source();
    }
    if error.is_timeout() { "the endpoint did not answer within 20 seconds" } else { "the endpoint cannot be reached" }
}
