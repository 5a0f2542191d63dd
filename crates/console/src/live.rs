//! The updates of an open page: its live parts, each time that they have changed, as server-sent events.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::Body;
use crate::ask::PageRequest;
use crate::limits::{LIVE_PAUSE_FACTOR, LIVE_PAUSE_MAX, LIVE_PAUSE_MIN, LIVE_TIME_MAX};
use crate::state::State;
use crate::{clock, pages};

/// An open page.
struct Follower {
    shared: Arc<State>,
    path: String,
    query: String,
    /// The last update of each part.
    told: HashMap<&'static str, String>,
    /// Why the last update could not be sent.
    problem: Option<String>,
    /// Whether nothing will change any more.
    is_settled: bool,
    begun: Instant,
    pause: Option<Duration>,
    _place: OwnedSemaphorePermit,
}

/// Streams its live parts to an open page.
pub(crate) fn follow(shared: &Arc<State>, ask: &PageRequest) -> Response<Body> {
    let Ok(place) = Arc::clone(&shared.live).try_acquire_owned() else {
        let mut full = Response::new(Full::from("too many pages are followed: close some\n").boxed_unsync());
        *full.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        full.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
        return full;
    };
    let (path, query) = ask.value("page").map(|page| page.split_once('?').unwrap_or((page, ""))).unwrap_or_default();
    let follower = Follower {
        shared: Arc::clone(shared),
        path: path.to_owned(),
        query: query.to_owned(),
        told: HashMap::new(),
        problem: None,
        is_settled: false,
        begun: clock::instant(),
        pause: None,
        _place: place,
    };
    let looks = stream::unfold(follower, Follower::next);
    let frames = looks.map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

impl Follower {
    async fn next(mut self) -> Option<(String, Self)> {
        if self.is_settled || self.begun.elapsed() > LIVE_TIME_MAX {
            return None;
        }
        if let Some(pause) = self.pause {
            let mut closed = self.shared.closed.subscribe();
            if tokio::time::timeout(pause, closed.wait_for(|is_closed| *is_closed)).await.is_ok() {
                return None;
            }
        }
        let begun = clock::instant();
        let text = self.look().await;
        self.pause = Some((begun.elapsed() * LIVE_PAUSE_FACTOR).clamp(LIVE_PAUSE_MIN, LIVE_PAUSE_MAX));
        Some((text, self))
    }

    /// The events since the last poll. There is always one, so that a lost connection is noticed.
    async fn look(&mut self) -> String {
        let ask = PageRequest::new(&self.shared, &self.path, &self.query, clock::now().as_millisecond());
        let page = match pages::live(&ask).await {
            Ok(page) => page,
            Err(problem) => {
                let sentence = problem.sentence().to_owned();
                self.problem = Some(sentence.clone());
                return event("down", &sentence);
            }
        };
        self.is_settled = page.is_settled();
        let mut events = if self.problem.take().is_some() { event("up", "") } else { ":\n\n".to_owned() };
        for (id, html) in page.live_parts() {
            if self.told.get(id) != Some(&html) {
                events.push_str(&event("part", &format!("{id}\n{html}")));
                self.told.insert(id, html);
            }
        }
        if self.is_settled {
            events.push_str(&event("end", ""));
        }
        events
    }
}

/// An event in the format of `text/event-stream`.
fn event(name: &str, data: &str) -> String {
    let lines = data.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    format!("event: {name}\n{}\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_end_an_event_or_begin_another_one() {
        let told = event("part", "head\n<p>a\r\n\nevent: up\n\ndata: x</p>");
        assert_eq!(told.matches("\n\n").count(), 1, "{told}");
        assert!(told.lines().skip(1).all(|line| line.is_empty() || line.starts_with("data: ")), "{told}");
    }
}
