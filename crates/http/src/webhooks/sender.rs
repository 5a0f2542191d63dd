//! One request to an endpoint, and the time of the next try after a failure.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::client;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use longhaul_core::{IdSource, Timestamp};
use reqwest::{Client, StatusCode};

use crate::webhooks::limits::{JITTER_PART, REQUEST_S, RETRY_AFTER_MS_MAX};
use crate::webhooks::{Endpoint, Reach, signatures};

/// Sends webhooks to addresses within its reach.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    reach: Reach,
    // Built at the first use: reading the system's certificates takes a large part of a start.
    client: Arc<OnceLock<Client>>,
}

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
        client::once(&self.client, || {
            // The bodies of answers are not read, so that connections cannot be used again.
            client::checked(self.reach.allows()).timeout(Duration::from_secs(REQUEST_S)).pool_max_idle_per_host(0)
        })
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
    if client::is_refused(error) {
        return "the endpoint's host has an address that is not public";
    }
    if error.is_timeout() { "the endpoint did not answer within 20 seconds" } else { "the endpoint cannot be reached" }
}

/// How long to wait before a try: what the schedule says, or what the endpoint asked for if that is longer.
pub(crate) fn pause_ms(scheduled_ms: u64, retry_after_ms: Option<u64>, ids: &dyn IdSource) -> u64 {
    let asked_ms = retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MS_MAX);
    let pause_ms = scheduled_ms.max(asked_ms);
    pause_ms + ids.up_to(pause_ms / JITTER_PART)
}

/// The pause in `Retry-After`: seconds, or a date.
fn retry_after_ms(header: &str, now: Timestamp) -> Option<u64> {
    if let Ok(seconds) = header.trim().parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(header.trim()).ok()?;
    let ms = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    Some(Timestamp::from_ms(u64::try_from(ms).ok()?).since_ms(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::limits::{HOUR_MS, MINUTE_MS, PAUSES_MS, RUN_MS_MAX};

    struct Most;

    impl IdSource for Most {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xff);
        }

        fn up_to(&self, max: u64) -> u64 {
            max
        }
    }

    #[test]
    fn all_tries_fit_into_the_longest_run() {
        let pauses: u64 = PAUSES_MS.iter().skip(1).map(|ms| pause_ms(*ms, Some(u64::MAX), &Most)).sum();
        let tries = PAUSES_MS.len() as u64 * MINUTE_MS;
        assert!(pauses + tries < RUN_MS_MAX, "{} h", pauses / HOUR_MS);
    }

    #[test]
    fn an_endpoint_may_ask_for_a_longer_pause_but_not_for_any() {
        let pause = |scheduled, asked| pause_ms(scheduled, asked, &longhaul_testkit::SeededIds::new(1));
        assert!((5_000..=5_500).contains(&pause(5_000, None)));
        assert!((5_000..=5_500).contains(&pause(5_000, Some(1_000))));
        assert!((60_000..=66_000).contains(&pause(5_000, Some(60_000))));
        assert!((HOUR_MS..=HOUR_MS + HOUR_MS / 10).contains(&pause(5_000, Some(u64::MAX))));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Timestamp::from_ms(1_445_412_480_000);
        assert_eq!(retry_after_ms("120", now), Some(120_000));
        assert_eq!(retry_after_ms(" 0 ", now), Some(0));
        assert_eq!(retry_after_ms("Wed, 21 Oct 2015 07:28:30 GMT", now), Some(30_000));
        assert_eq!(retry_after_ms("Wed, 21 Oct 2015 07:00:00 GMT", now), Some(0), "that is over");
        assert_eq!(retry_after_ms("soon", now), None);
        assert_eq!(retry_after_ms("99999999999999999999", now), None);
    }
}
