//! Rounds: questions that a tool asks by returning them, without knowing that it runs as a task.

use std::collections::BTreeMap;

use longhaul_core::{Ask, EntryKind, Suspension, strict_json};
use serde::{Deserialize, Serialize};

use crate::suspension::{Driven, Reason, Suspended, Wait};
use crate::{Attempt, AttemptEnd, Round};

#[derive(Serialize, Deserialize)]
struct RecordedRound {
    asks: Vec<RecordedAsk>,
    carry: String,
}

#[derive(Serialize, Deserialize)]
struct RecordedAsk {
    #[serde(rename = "seen")]
    client_key: String,
    #[serde(rename = "own")]
    tool_key: String,
    request: String,
}

impl Attempt {
    /// The state that the tool attached to its last round, and the client's answers by the tool's own keys. `None` if
    /// there was no round yet. A round that was recorded by an attempt that died before it could ask is asked now.
    pub async fn last_round(&self) -> Option<(String, BTreeMap<String, String>)> {
        let round = self.round(self.rounds().checked_sub(1)?).await?;
        let mut answers = BTreeMap::new();
        let mut unasked = Vec::new();
        for RecordedAsk { client_key, tool_key, request } in round.asks {
            match self.recorded(EntryKind::Answer, &client_key).await {
                Some(answer) => drop(answers.insert(tool_key, answer)),
                None => unasked.push(Ask { key: client_key, request }),
            }
        }
        if unasked.is_empty() {
            return Some((round.carry, answers));
        }
        let _asking: Vec<_> = unasked.into_iter().map(|ask| self.shared().suspend.wait(Wait::Ask(ask))).collect();
        std::future::pending().await
    }

    /// Ends the attempt because the tool returned questions. After a round without questions, the tool is run again
    /// after a short delay. Keys are unique within a task's life (Tasks extension, "Task Update Requests"): the client
    /// sees a key that an earlier round used under another name.
    pub async fn ask_round(&self, round: Round) -> AttemptEnd {
        // An abort in here, for example because the store does not answer, ends the attempt as it would inside a tool.
        match self.drive(self.record_round(round)).await {
            Driven::Ended(end) => end,
            Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
        }
    }

    async fn record_round(&self, round: Round) -> AttemptEnd {
        let number = self.rounds();
        let mut used = Vec::new();
        for earlier in 0..number {
            used.extend(self.round(earlier).await.into_iter().flat_map(|round| round.asks).map(|ask| ask.client_key));
        }
        let mut asks = Vec::with_capacity(round.asks.len());
        for Ask { key: tool_key, request } in round.asks {
            self.check_name(EntryKind::Answer, &tool_key).await;
            let is_used = used.contains(&tool_key);
            let client_key = if is_used { format!("{tool_key}~{}", number + 1) } else { tool_key.clone() };
            asks.push(RecordedAsk { client_key, tool_key, request });
        }
        let text = match serde_json::to_string(&RecordedRound { asks, carry: round.carry }) {
            Ok(text) => text,
            Err(error) => {
                return self.abort(Reason::corrupt(format!("round {number} cannot be written: {error}"))).await;
            }
        };
        // Another attempt may have recorded its round first: then that one is asked.
        let text = self.record(EntryKind::Round, &number.to_string(), text, None).await;
        let recorded = self.read_round(number, &text).await;
        let asks: Vec<Ask> =
            recorded.asks.into_iter().map(|ask| Ask { key: ask.client_key, request: ask.request }).collect();
        let suspension = if asks.is_empty() {
            let (now, settings) = (self.shared().engine.now(), self.shared().engine.settings());
            Suspension::Timer(now.plus_ms(settings.retry_ms))
        } else {
            Suspension::Input { asks, until: None }
        };
        AttemptEnd::Suspended(Suspended(Reason::Suspend { suspension, signals: Vec::new() }))
    }

    fn rounds(&self) -> usize {
        self.lock_journal().keys().filter(|(kind, _)| *kind == EntryKind::Round).count()
    }

    async fn round(&self, number: usize) -> Option<RecordedRound> {
        let text = self.recorded(EntryKind::Round, &number.to_string()).await?;
        Some(self.read_round(number, &text).await)
    }

    async fn read_round(&self, number: usize, text: &str) -> RecordedRound {
        match strict_json::from_str(text) {
            Ok(round) => round,
            Err(error) => self.abort(Reason::corrupt(format!("round {number} cannot be read: {error}"))).await,
        }
    }
}
