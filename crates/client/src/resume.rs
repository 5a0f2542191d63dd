//! Tries over a connection that is lost: when the next one is made, and from where a stream is read on.

use std::fmt;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body::{Event, Events};
use crate::error::Error;
use crate::wire::{Raw, instant, pause};

/// How long a server may be silent before a request is given up that waits for it.
pub const SILENT_MAX: Duration = Duration::from_secs(120);

/// The first pause after a failure; each further one is twice as long.
const BACK_OFF: Duration = Duration::from_millis(500);
const BACK_OFF_MAX: Duration = Duration::from_secs(15);

/// A try that took so long failed otherwise than by a server that is away.
const TRY_MAX: Duration = Duration::from_secs(60);

/// The longest pause before a stream is read on.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5 * 60);

/// So many connections in a row may end without a message: a day of them, at the longest pause.
const EMPTY_MAX: u32 = 5_760;

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Tries until something is answered, or for long enough after the first failure.
#[derive(Debug)]
pub struct Tries {
    /// When the first one failed, and the last one.
    failed: Option<(Instant, Instant)>,
    failures: u32,
    at_most: Duration,
}

impl Tries {
    /// Tries that end so long after the first failure.
    #[must_use]
    pub const fn new(at_most: Duration) -> Self {
        Self { failed: None, failures: 0, at_most }
    }

    /// The next failure is the first one.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
        self.failed = None;
    }

    /// Waits before the next one.
    ///
    /// # Errors
    /// The failure, if there is no next one.
    pub async fn pause(&mut self, error: Error) -> Result<(), Error> {
        let now = instant();
        let first = match self.failed {
            Some((first, last)) if now.duration_since(last) < TRY_MAX => first,
            _ => {
                self.failures = 0;
                now
            }
        };
        let next = back_off(self.failures);
        let next = error.after().map_or(next, |after| next.max(after));
        if now.duration_since(first).saturating_add(next) > self.at_most {
            return Err(error);
        }
        self.failures = self.failures.saturating_add(1);
        pause(next).await;
        self.failed = Some((first, instant()));
        Ok(())
    }
}

fn back_off(failures: u32) -> Duration {
    BACK_OFF.saturating_mul(1 << failures.min(5)).min(BACK_OFF_MAX)
}

/// How far a stream was read.
#[derive(Debug, Default)]
pub struct Place {
    id: Option<HeaderValue>,
    retry: Option<Duration>,
    /// Connections in a row that ended without a message.
    empty: u32,
}

impl Place {
    /// Notes what an event says about it.
    pub fn note(&mut self, event: &Event) {
        self.retry = event.retry.or(self.retry);
        if let Some(id) = &event.id {
            // An empty one takes back those before it.
            self.id = HeaderValue::from_bytes(id.as_bytes()).ok().filter(|id| !id.is_empty());
        }
        if event.data.is_some() {
            self.empty = 0;
        }
    }

    /// Whether the server has said from where the stream can be read on.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.id.is_some()
    }

    /// The stream is read from its beginning.
    pub fn forget(&mut self) {
        self.id = None;
    }

    /// The headers of a request, with the one that asks for the rest of the stream if the place is known.
    #[must_use]
    pub fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.extend(self.id.clone().map(|id| (LAST_EVENT, id)));
        headers
    }

    /// Waits before the rest is asked for: as the server says, or longer and longer while nothing comes.
    pub async fn pause(&mut self) {
        let next = self.retry.unwrap_or_else(|| back_off(self.empty)).clamp(RETRY_MIN, RETRY_MAX);
        self.empty = self.empty.saturating_add(1);
        pause(next).await;
    }
}

/// The messages that answer a request, as they come: over as many connections as it takes, if the server says from
/// where to read on. It may have none after the answer, so the client should not read further.
pub struct Stream {
    events: Events,
    place: Place,
    raw: Raw,
    /// The headers of the request.
    headers: HeaderMap,
}

impl Stream {
    pub(crate) fn new(events: Events, raw: Raw, headers: HeaderMap) -> Self {
        Self { events, place: Place::default(), raw, headers }
    }

    /// The next message as text; `None` after the last one, if it ends and cannot be read on.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection was lost, or has ended, and the rest does not come. The request was sent, and
    /// the error must not suggest otherwise.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            let lost = match self.events.next().await {
                Ok(Some(event)) => {
                    self.place.note(&event);
                    match event.data {
                        Some(text) => return Ok(Some(text)),
                        None => continue,
                    }
                }
                Ok(None) if !self.place.is_known() => return Ok(None),
                Ok(None) => Error::Lost("the stream ended without it".to_owned()),
                Err(error) => error,
            };
            if !self.place.is_known() || self.place.empty >= EMPTY_MAX {
                return Err(lost);
            }
            self.place.pause().await;
            let headers = self.place.headers(self.headers.clone());
            self.events = rest(&self.raw, &headers, Tries::new(SILENT_MAX), lost).await?;
        }
    }
}

impl fmt::Debug for Stream {
    /// Without headers, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The rest of the lost stream. Without a rest, the answer is lost.
async fn rest(raw: &Raw, headers: &HeaderMap, mut tries: Tries, lost: Error) -> Result<Events, Error> {
    loop {
        let error = match raw.listen(headers.clone()).await {
            Err(error) if error.may_pass() && !matches!(error, Error::SessionGone) => error,
            rest => return rest.map_err(|_why| lost),
        };
        if tries.pause(error).await.is_err() {
            return Err(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    /// A stream of a call that may not be repeated has broken off, and its server does not come back.
    #[tokio::test]
    async fn what_cannot_be_resumed_is_lost_and_never_looks_as_if_it_was_not_sent() {
        let raw = Raw::new(Target::new("http://127.0.0.1:1/mcp".parse().unwrap())).unwrap();
        assert!(matches!(raw.listen(HeaderMap::new()).await, Err(Error::Unreachable(_))));
        let lost = Error::Lost("the stream ended without it".to_owned());
        let rest = rest(&raw, &HeaderMap::new(), Tries::new(Duration::ZERO), lost).await;
        assert!(matches!(rest, Err(Error::Lost(_))), "{rest:?}");
    }

    #[tokio::test]
    async fn a_server_that_wants_to_be_left_alone_for_longer_than_anybody_waits_is_given_up() {
        let later = || Error::Busy { status: 429, after: Some(Duration::from_secs(86_400)) };
        assert!(Tries::new(SILENT_MAX).pause(later()).await.is_err());
    }

    #[test]
    fn the_place_is_that_of_the_last_id_until_an_empty_one_takes_it_back() {
        let mut place = Place::default();
        let mut asked = |id: Option<&str>| {
            place.note(&Event { id: id.map(str::to_owned), ..Event::default() });
            place.headers(HeaderMap::new()).get(LAST_EVENT).map(|id| id.as_bytes().to_vec())
        };
        assert_eq!(asked(None), None);
        assert_eq!(asked(Some("a1")), Some(b"a1".to_vec()));
        assert_eq!(asked(None), Some(b"a1".to_vec()));
        assert_eq!(asked(Some("größe")), Some("größe".as_bytes().to_vec()));
        for taken_back in ["", "a\u{1}b"] {
            assert!(asked(Some("a1")).is_some());
            assert_eq!(asked(Some(taken_back)), None);
        }
    }
}
