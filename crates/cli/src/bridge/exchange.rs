//! One message and its answer: sent again where that is safe, in a new session if the server has forgotten the old one.

use std::borrow::Cow;
use std::time::Duration;

use longhaul_client::{Content, Error, Events, Place, SILENT_MAX, Stream, Tries, request_id, unreadable_answer};
use longhaul_core::strict_json;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::Bridge;
use super::message::{Message, is_answer_to, with_id};
use super::output::explain;
use super::tools::wants_headers;

/// How long a message that has no answer may take to be delivered, while others wait behind it.
const ONE_WAY_MAX: Duration = Duration::from_secs(10);

impl Bridge {
    /// Passes a request on, and returns the server's answer. If there is no answer, the client gets an error.
    pub(super) async fn ask(&self, message: &Message) {
        let (mut tries, mut has_begun_again) = (Tries::new(SILENT_MAX), false);
        let mut sent = Cow::Borrowed(message);
        loop {
            let (headers, number) = self.headers_of(message);
            let mut failed = match self.exchange(message, &sent, headers).await {
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
            let may_have_arrived = !failed.has_done_nothing();
            let again = match failed {
                error if self.may_be_sent_again(message, &error) => tries.pause(error).await,
                error => Err(error),
            };
            let again = match again {
                Ok(()) if may_have_arrived => self.rename(message).map(|renamed| sent = Cow::Owned(renamed)),
                again => again,
            };
            if let Err(error) = again {
                return self.output.failed(message.id(), error).await;
            }
        }
    }

    /// The same request under an id that its server has not seen: the first one may still be under way.
    fn rename(&self, message: &Message) -> Result<Message, Error> {
        let id = Value::from(request_id()?);
        let renamed = message.renamed(&id).map_err(unreadable)?;
        if let Some(waiting) = self.waiting().get_mut(&message.id().to_string()) {
            waiting.sent_as = Some(id);
        }
        Ok(renamed)
    }

    /// A call is never made twice, unless its client or its server declares that this does no harm.
    fn may_be_sent_again(&self, message: &Message, error: &Error) -> bool {
        match error {
            error if error.has_done_nothing() => true,
            error => error.may_pass() && (message.is_repeatable() || self.tools.may_be_repeated(message)),
        }
    }

    /// The headers of a message, and the number of the session if the message belongs to one.
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

    /// Sends a request of the client's as it was written, or as it is sent now.
    async fn exchange(&self, message: &Message, sent: &Message, headers: HeaderMap) -> Result<(), Error> {
        let mut reply = self.raw.post(sent.text.clone(), headers).await?;
        if wants_headers(message, &reply) && self.tools.learns(&self.raw, message).await {
            reply = self.raw.post(sent.text.clone(), self.headers_of(message).0).await?;
        }
        let session = reply.session.as_ref();
        match reply.content {
            Content::Nothing => Err(Error::Unexpected("the answer is empty".to_owned())),
            Content::Message(text) => {
                let value = strict_json::from_str(&text).map_err(unreadable)?;
                self.answer(message, session, &text, &value).await
            }
            Content::Stream(stream) => self.follow(message, sent, session, *stream).await,
        }
    }

    /// The answer, with the id that the client waits for. A server may not have read the id, and a request that was
    /// sent again has another one.
    async fn answer(
        &self,
        message: &Message,
        session: Option<&HeaderValue>,
        text: &str,
        value: &Value,
    ) -> Result<(), Error> {
        self.note(message, session, value);
        let is_other = value.is_object() && value.get("method").is_none() && value.get("id") != Some(message.id());
        match is_other {
            true => self.output.message(&with_id(text, message.id()).map_err(unreadable)?).await,
            false => self.output.message(text).await,
        }
        Ok(())
    }

    /// All messages up to the answer.
    async fn follow(
        &self,
        message: &Message,
        sent: &Message,
        session: Option<&HeaderValue>,
        mut stream: Stream,
    ) -> Result<(), Error> {
        while let Some(text) = stream.next().await? {
            match strict_json::from_str::<Value>(&text) {
                Ok(value) if sent.is_answered_by(&value) => return self.answer(message, session, &text, &value).await,
                Ok(_) => self.output.message(&text).await,
                Err(error) if unreadable_answer(text.as_bytes()).as_ref() == Some(sent.id()) => {
                    return Err(unreadable(error));
                }
                Err(_) => {}
            }
        }
        Err(Error::Lost("the stream ended without it".to_owned()))
    }

    /// Notes the parts of an answer that the bridge needs, before the client has it.
    fn note(&self, message: &Message, session: Option<&HeaderValue>, answer: &Value) {
        match message.method() {
            "initialize" => self.session.begin(message, session, &answer["result"]),
            "tools/list" => self.tools.note(&answer["result"]),
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
        let reply = self.raw.post(message.text.clone(), HeaderMap::new()).await?;
        let session = reply.session.clone();
        let result = reply.result().await.map_err(|error| match error {
            Error::Refused(_) => Error::SessionGone,
            error => error,
        })?;
        self.session.begin(&message, session.as_ref(), &result);
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        self.raw.post(ready, self.session.headers().0).await.map(drop)
    }

    /// Sends a message that has no answer. If it cannot be sent, the standard error says so.
    pub(super) async fn deliver(&self, message: &Message) {
        let mut tries = Tries::new(ONE_WAY_MAX);
        loop {
            let sent = self.raw.post(message.text.clone(), self.headers_of(message).0);
            let late = || Error::Lost("nothing came in time".to_owned());
            let sent = tokio::time::timeout(ONE_WAY_MAX, sent).await.unwrap_or_else(|_late| Err(late()));
            let again = match sent {
                Ok(_accepted) => return,
                // Receiving it twice changes nothing.
                Err(error) if error.may_pass() && !matches!(error, Error::SessionGone) => tries.pause(error).await,
                Err(error) => Err(error),
            };
            if let Err(error) = again {
                explain(error);
                return;
            }
        }
    }

    /// Passes a batch on, and all its answers.
    pub(super) async fn batch(&self, message: Message) {
        if let Err(error) = self.pass_batch(&message).await {
            self.output.failed(&Value::Null, error).await;
        }
    }

    async fn pass_batch(&self, message: &Message) -> Result<(), Error> {
        let mut content = self.raw.post(message.text.clone(), self.session.headers().0).await?.content;
        let mut open = message.ids();
        while !open.is_empty()
            && let Some(text) = content.next().await?
        {
            let value: Value = strict_json::from_str(&text).unwrap_or_default();
            let answers = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
            open.retain(|id| !answers.iter().any(|answer| is_answer_to(id, answer)));
            self.output.message(&text).await;
        }
        Ok(())
    }

    /// Passes on the messages that the server sends outside of answers, for as long as it has a stream for them.
    pub(super) async fn listen(&self) {
        let (mut place, mut tries) = (Place::default(), Tries::new(Duration::MAX));
        loop {
            let (headers, number) = self.session.headers();
            let ended = match self.raw.listen(place.headers(headers)).await {
                Ok(mut events) => self.pass_all(&mut events, &mut place, &mut tries).await,
                Err(Error::SessionGone) => {
                    place.forget();
                    // Not at once: a server may forget each session.
                    self.begin_again(number).await.and(Err(Error::SessionGone))
                }
                Err(error) => Err(error),
            };
            let again = match ended {
                Ok(()) => {
                    place.pause().await;
                    Ok(())
                }
                Err(error) if error.may_pass() => tries.pause(error).await,
                Err(error) => Err(error),
            };
            if again.is_err() {
                // Most often the server does not have such a stream.
                return;
            }
        }
    }

    /// Passes on the events of a stream. A stream that ends without any is tried again as late as one that is lost.
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
        tries.succeeded();
        Ok(())
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Unexpected(error.to_string())
}
