//! Events for a bus of EventBridge.

use std::sync::Arc;

use aws_config::SdkConfig;
use longhaul_core::{Clock, Timestamp, limits, strict_json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::signed::{Call, Caller, Refused};

/// How many events one call takes.
const EVENTS_MAX: usize = 10;

/// How often an event is put that the bus did not take while it took others, with a pause before each further time.
const TRIES_MAX: u64 = 3;
const PAUSE_MS: u64 = 200;

/// An event, as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusEvent {
    /// Its `source`.
    pub source: &'static str,
    /// Its `detail-type`.
    pub detail_type: &'static str,
    /// Its `detail`, a JSON object.
    pub detail: String,
    /// When it happened.
    pub at: Timestamp,
    /// Its `resources`: the ARNs of its subjects.
    pub resources: Vec<String>,
}

/// An event that the bus did not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event bus did not take an event: {0}")]
pub struct EventBusError(String);

/// An event bus.
#[derive(Debug)]
pub struct EventBus {
    name: String,
    region: String,
    partition: &'static str,
    caller: Caller,
    clock: SharedClock,
}

struct SharedClock(Arc<dyn Clock>);

impl std::fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedClock")
    }
}

/// The outcome of each event of a call.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    event_id: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl EventBus {
    /// The bus of this name in the account and the region of `config`.
    #[must_use]
    pub fn new(config: &SdkConfig, name: &str, clock: Arc<dyn Clock>) -> Self {
        let region = config.region().map(ToString::to_string).unwrap_or_default();
        let partition = if region.starts_with("cn-") {
            "aws-cn"
        } else if region.starts_with("eusc-") {
            "aws-eusc"
        } else {
            "aws"
        };
        Self { name: name.to_owned(), region, partition, caller: Caller::new(config), clock: SharedClock(clock) }
    }

    /// Puts events on the bus, any number of them. Returns what became of each, in their order. An event whose fate is
    /// unknown may be on the bus. Once the bus does not answer, no more are put.
    pub async fn put(&self, events: &[BusEvent]) -> Vec<Result<(), EventBusError>> {
        let mut outcomes = vec![Err(EventBusError("it was not put".to_owned())); events.len()];
        for (events, outcomes) in events.chunks(EVENTS_MAX).zip(outcomes.chunks_mut(EVENTS_MAX)) {
            if let Err(why) = self.put_some(events, outcomes).await {
                outcomes.fill(Err(why));
                break;
            }
        }
        outcomes
    }

    /// The events that the bus did not take are put again, without the others.
    async fn put_some(
        &self,
        events: &[BusEvent],
        outcomes: &mut [Result<(), EventBusError>],
    ) -> Result<(), EventBusError> {
        for number in 1..=TRIES_MAX {
            let left = outcomes.iter_mut().zip(events).filter(|(outcome, _)| outcome.is_err());
            let (places, left): (Vec<_>, Vec<_>) = left.unzip();
            for (place, outcome) in places.into_iter().zip(self.put_once(&left).await?) {
                *place = outcome;
            }
            if number == TRIES_MAX || outcomes.iter().all(Result::is_ok) {
                break;
            }
            self.clock.0.sleep_ms(PAUSE_MS * number).await;
        }
        Ok(())
    }

    async fn put_once(&self, events: &[&BusEvent]) -> Result<Vec<Result<(), EventBusError>>, EventBusError> {
        let entries: Vec<Value> = events.iter().map(|event| self.entry(event)).collect();
        let call = Call {
            service: "events",
            id: "EventBridge",
            partition: self.partition,
            region: &self.region,
            target: "AWSEvents.PutEvents",
            body: json!({"Entries": entries}).to_string(),
            about: &self.name,
        };
        let body = self.caller.call(&call, &*self.clock.0).await.map_err(|Refused { why, .. }| EventBusError(why))?;
        match strict_json::from_slice(&body) {
            Ok(Answer { entries }) if entries.len() == events.len() => Ok(entries.into_iter().map(outcome).collect()),
            Ok(_) | Err(_) => Err(EventBusError("its answer cannot be read, or is about other events".to_owned())),
        }
    }

    fn entry(&self, event: &BusEvent) -> Value {
        json!({
            "EventBusName": self.name,
            "Source": event.source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Time": event.at.as_ms() / 1_000,
            "Resources": event.resources,
        })
    }
}

fn outcome(entry: Entry) -> Result<(), EventBusError> {
    match entry {
        Entry { event_id: Some(_), error_code: None, .. } => Ok(()),
        Entry { error_code, error_message, .. } => {
            let words = [error_code, error_message].into_iter().flatten().collect::<Vec<_>>().join(": ");
            Err(EventBusError(limits::cut(&words, limits::MESSAGE_BYTES_MAX)))
        }
    }
}
