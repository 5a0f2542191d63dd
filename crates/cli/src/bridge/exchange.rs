//! One message and its answer: sent again where that is safe, in a new session if the server has forgotten the old one.

use std::time::{Duration, Instant};

use longhaul_client::{Content, Error, Event, Events, Reply};
use longhaul_core::strict_json;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::Bridge;
use super::message::Message;
use super::output::explain;
use crate::clock;

/// How long a server may be silent before a request is given up that waits for it.
const SILENT_MAX: Duration = Duration::from_secs(120);

/// The same for a message that has no answer, while others wait behind it.
const ONE_WAY_MAX: Duration = Duration::from_secs(10);

/// The first pause after a failure; each further one is twice as long.
const BACK_OFF: Duration = Duration::from_millis(500);
const BACK_OFF_MAX: Duration = Duration::from_secs(15);

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A try that took so long failed otherwise than by a server that is away.
const TRY_MAX: Duration = Duration::from_secs(60);

/// Tries until something is answered, or for long enough after the first failure.
struct Tries {
    /// When the first one failed, and the last one.
    failed: Option<(Instant, Instant)>,
    failures: u32,
    at_most: Duration,
}

impl Tries {
    const fn new(at_most: Duration) -> Self {
        Self { failed: None, failures: 0, at_most }
    }

    /// Waits before the next one; gives the error back if there is none.
    async fn pause(&mut self, error: Error) -> Result<(), Error> {
        let now = clock::instant();
        let first = match self.failed {
            Some((first, last)) if now.duration_since(last) < TRY_MAX => first,
            _ => {
                self.failures = 0;
                now
            }
        };
        let pause = BACK_OFF.saturating_mul(1 << self.failures.min(5)).min(BACK_OFF_MAX);
        let pause = error.after().map_or(pause, |after| pause.max(after));
        if now.duration_since(first).saturating_add(pause) > self.at_most {
            return Err(error);
        }
        self.failures += 1;
        clock::pause(pause).await;
        self.failed = Some((first, clock::instant()));
        Ok(())
    }
}

/// How far a stream was read.
#[derive(Default)]
struct Place {
    id: Option<HeaderValue>,
    retry: Option<Duration>,
}

impl Place {
    /// How long to wait before the rest is asked for: as the server says, unless nobody would wait so long.
    fn pause(&self) -> Duration {
        self.retry.unwrap_or(BACK_OFF).min(BACK_OFF_MAX)
    }

    fn note(&mut self, event: &Event) {
        self.retry = event.retry.or(self.retry);
        let id = event.id.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
        self.id = id.or_else(|| self.id.take());
    }
}

impl Bridge {
    /// Passes a request on, and what the server answers. If there is no answer, the client gets an error.
    pub(super) async fn ask(&self, message: &Message) {
        let (mut tries, mut has_begun_again) = (Tries::new(SILENT_MAX), false);
        loop {
            let (headers, number) = self.headers_of(message);
            let mut failed = match self.exchange(message, headers).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if matches!(failed, Error::SessionGone) && !has_begun_again && message.method() != "initialize" {
                has_begun_again = true;
                match self.begin_again(number).await {
                    Ok(()) => continue,
                    Err(error) => failed = error,
                }
            }
            let again = match failed {
                error if self.may_be_sent_again(message, &error) => tries.pause(error).await,
                error => Err(error),
            };
            if let Err(error) = again {
                return self.output.failed(message.id(), error).await;
            }
        }
    }

    /// A call is never made twice, unless its client or its server says that this does no harm.
    fn may_be_sent_again(&self, message: &Message, error: &Error) -> bool {
        match error {
            error if error.has_done_nothing() => true,
            error => error.may_pass() && (message.is_repeatable() || self.tools.may_be_repeated(message)),
        }
    }

    /// The headers of a message, and the number of the session if that is where it belongs.
    fn headers_of(&self, message: &Message) -> (HeaderMap, u64) {
        match message.revision() {
            Some(revision) => {
                let mut headers = message.headers(revision);
                headers.extend(self.tools.headers(message));
                (headers, 0)
            }
            None if message.method() == "initialize" => (HeaderMap::new(), 0),
            None => self.session.headers(),
        }
    }

    async fn exchange(&self, message: &Message, headers: HeaderMap) -> Result<(), Error> {
        let mut reply = self.raw.post(message.text.clone(), headers).await?;
        if self.wants_headers(message, &reply) && self.learns(message).await {
            reply = self.raw.post(message.text.clone(), self.headers_of(message).0).await?;
        }
        let session = reply.session.as_ref();
        match reply.content {
            Content::Nothing => Err(Error::Unexpected("the answer is empty".to_owned())),
            Content::Message(text) => self.answer(message, session, &text).await,
            Content::Events(events) => self.follow(message, session, events).await,
        }
    }

    /// The one message of an answer. An error of a server that did not read the id gets it.
    async fn answer(&self, message: &Message, session: Option<&HeaderValue>, text: &str) -> Result<(), Error> {
        let mut value: Value = strict_json::from_str(text).map_err(|error| Error::Unexpected(error.to_string()))?;
        if value.get("error").is_some() && value["id"].is_null() {
            value["id"] = message.id().clone();
            self.output.message(&value.to_string()).await;
            return Ok(());
        }
        self.note(message, session, &value);
        self.output.message(text).await;
        Ok(())
    }

    /// All messages up to the answer, also over connections that are lost, if the server says where to go on.
    async fn follow(&self, message: &Message, session: Option<&HeaderValue>, mut events: Events) -> Result<(), Error> {
        let mut place = Place::default();
        loop {
            let lost = match self.pass(message, session, &mut events, &mut place).await {
                Ok(true) => return Ok(()),
                Ok(false) => Error::Lost("the stream ended without it".to_owned()),
                Err(error) => error,
            };
            let Some(id) = place.id.clone() else { return Err(lost) };
            clock::pause(place.pause()).await;
            events = self.resume(message, &id, lost).await?;
        }
    }

    /// The rest of a stream.
    async fn resume(&self, message: &Message, id: &HeaderValue, lost: Error) -> Result<Events, Error> {
        let listen = async || {
            let (mut headers, _number) = self.headers_of(message);
            headers.insert(LAST_EVENT, id.clone());
            self.raw.listen(headers).await
        };
        resumed(Tries::new(SILENT_MAX), lost, listen).await
    }

    /// Whether the answer was among what came.
    async fn pass(
        &self,
        message: &Message,
        session: Option<&HeaderValue>,
        events: &mut Events,
        place: &mut Place,
    ) -> Result<bool, Error> {
        while let Some(event) = events.next().await? {
            place.note(&event);
            let Some(text) = event.data else { continue };
            let Ok(value) = strict_json::from_str::<Value>(&text) else { continue };
            let is_answer = message.is_answered_by(&value);
            if is_answer {
                self.note(message, session, &value);
            }
            self.output.message(&text).await;
            if is_answer {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes what the bridge has to know of an answer, before the client has it.
    fn note(&self, message: &Message, session: Option<&HeaderValue>, answer: &Value) {
        match message.method() {
            "initialize" => self.session.begin(message, session, answer),
            "tools/list" => self.tools.note(answer),
            _ => {}
        }
    }

    /// Begins a new session like the one of this number, unless that is done already.
    async fn begin_again(&self, number: u64) -> Result<(), Error> {
        let _held = self.beginning.lock().await;
        if self.session.headers().1 != number {
            return Ok(());
        }
        let message = self.session.began_with().ok_or(Error::SessionGone)?;
        let Reply { session, content, .. } = self.raw.post(message.text.clone(), HeaderMap::new()).await?;
        let answer = answer_in(&message, content).await?;
        if answer.get("result").is_none() {
            return Err(Error::SessionGone);
        }
        self.session.begin(&message, session.as_ref(), &answer);
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        self.raw.post(ready, self.session.headers().0).await.map(drop)
    }

    /// Sends what is not answered. What cannot be sent is said on the standard error.
    pub(super) async fn deliver(&self, message: &Message) {
        let mut tries = Tries::new(ONE_WAY_MAX);
        loop {
            let sent = self.raw.post(message.text.clone(), self.headers_of(message).0);
            let late = || Error::Lost("nothing came in time".to_owned());
            let sent = tokio::time::timeout(ONE_WAY_MAX, sent).await.unwrap_or_else(|_late| Err(late()));
            let again = match sent {
                Ok(_accepted) => return,
                // It is as true the second time.
                Err(error) if error.may_pass() && !matches!(error, Error::SessionGone) => tries.pause(error).await,
                Err(error) => Err(error),
            };
            if let Err(error) = again {
                explain(error);
                return;
            }
        }
    }

    /// Passes several messages in one on, and all that is answered.
    pub(super) async fn batch(&self, message: Message) {
        if let Err(error) = self.pass_batch(&message).await {
            self.output.failed(&Value::Null, error).await;
        }
    }

    async fn pass_batch(&self, message: &Message) -> Result<(), Error> {
        let mut content = self.raw.post(message.text.clone(), self.session.headers().0).await?.content;
        while let Some(text) = content.next().await? {
            self.output.message(&text).await;
        }
        Ok(())
    }

    /// Passes on what the server says of itself, for as long as it has a stream for that.
    pub(super) async fn listen(&self) {
        let (mut place, mut tries) = (Place::default(), Tries::new(Duration::MAX));
        loop {
            let (mut headers, number) = self.session.headers();
            headers.extend(place.id.clone().map(|id| (LAST_EVENT, id)));
            let ended = match self.raw.listen(headers).await {
                Ok(mut events) => self.pass_all(&mut events, &mut place, &mut tries).await,
                Err(Error::SessionGone) => {
                    place.id = None;
                    // Not at once: a server may forget each session.
                    self.begin_again(number).await.and(Err(Error::SessionGone))
                }
                Err(error) => Err(error),
            };
            let again = match ended {
                Ok(()) => {
                    clock::pause(place.pause()).await;
                    Ok(())
                }
                Err(error) if error.may_pass() => tries.pause(error).await,
                Err(error) => Err(error),
            };
            if again.is_err() {
                // There is no such stream, most often.
                return;
            }
        }
    }

    /// Passes on what a stream has. One that ends without anything is tried again as late as one that is lost.
    async fn pass_all(&self, events: &mut Events, place: &mut Place, tries: &mut Tries) -> Result<(), Error> {
        let mut count = 0_u64;
        while let Ok(Some(event)) = events.next().await {
            count += 1;
            place.note(&event);
            if let Some(text) = event.data {
                self.output.message(&text).await;
            }
        }
        if count == 0 {
            return Err(Error::Lost("the stream is empty".to_owned()));
        }
        tries.failures = 0;
        Ok(())
    }
}

/// The rest of what was lost. If there is none, it is lost, for whatever reason: the request was sent, and must not
/// look as if it was not.
async fn resumed<T>(
    mut tries: Tries,
    lost: Error,
    mut listen: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match listen().await {
            Ok(rest) => return Ok(rest),
            Err(error) if error.may_pass() && !matches!(error, Error::SessionGone) => {
                if tries.pause(error).await.is_err() {
                    return Err(lost);
                }
            }
            Err(_) => return Err(lost),
        }
    }
}

/// The answer to a request of the bridge's own; null if there is none.
pub(super) async fn answer_in(message: &Message, mut content: Content) -> Result<Value, Error> {
    while let Some(text) = content.next().await? {
        let value: Value = strict_json::from_str(&text).unwrap_or_default();
        if message.is_answered_by(&value) {
            return Ok(value);
        }
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of a call that may not be repeated has broken off, and its server does not come back.
    #[tokio::test]
    async fn what_cannot_be_resumed_is_lost_and_never_looks_as_if_it_was_not_sent() {
        for failure in [
            || Error::Unreachable("refused".to_owned()),
            || Error::Busy { status: 429, after: None },
            || Error::SessionGone,
            || Error::NotSignedIn("status 401".to_owned()),
        ] {
            let lost = Error::Lost("the stream ended without it".to_owned());
            let rest: Result<(), Error> = resumed(Tries::new(Duration::ZERO), lost, async || Err(failure())).await;
            assert!(matches!(rest, Err(Error::Lost(_))), "{rest:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_wants_to_be_left_alone_for_longer_than_anybody_waits_is_given_up() {
        let later = || Error::Busy { status: 429, after: Some(Duration::from_secs(86_400)) };
        assert!(Tries::new(SILENT_MAX).pause(later()).await.is_err());
    }
}
