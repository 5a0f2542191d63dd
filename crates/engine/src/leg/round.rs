//! Rounds: questions that a tool asks by returning them, without knowing that it runs as a task.

use std::collections::BTreeMap;

use longhaul_core::planted::{Fault, planted};
use longhaul_core::{Ask, EntryKind, Suspension};
use serde::{Deserialize, Serialize};

use crate::suspension::{Reason, Wait};
use crate::tool::{LegEnd, Round, Suspended};
use crate::{Leg, LoadError};

/// A round as the journal keeps it.
#[derive(Serialize, Deserialize)]
struct Kept {
    asks: Vec<KeptAsk>,
    carry: String,
}

#[derive(Serialize, Deserialize)]
struct KeptAsk {
    /// The key that the client sees.
    seen: String,
    /// The key that the tool gave.
    own: String,
    request: String,
}

impl Leg {
    /// What the tool wanted back in its last round, and the client's answers by the tool's own keys; nothing in the
    /// first leg. A round that was recorded by a leg that died before it could ask is asked now.
    pub async fn last_round(&self) -> Option<(String, BTreeMap<String, String>)> {
        let kept = self.round(self.rounds().checked_sub(1)?).await.filter(|_| !planted(Fault::RoundForgotten))?;
        let mut answers = BTreeMap::new();
        let mut unasked = Vec::new();
        for KeptAsk { seen, own, request } in kept.asks {
            match self.recorded(EntryKind::Answer, &seen).await {
                Some(answer) => drop(answers.insert(own, answer)),
                None => unasked.push(Ask { key: seen, request }),
            }
        }
        if unasked.is_empty() {
            return Some((kept.carry, answers));
        }
        let _asking: Vec<_> = unasked.into_iter().map(|ask| self.shared().slot.wait(Wait::Ask(ask))).collect();
        std::future::pending().await
    }

    /// Ends the leg because the tool returned questions. A round without questions is called again after a moment.
    /// Keys are unique over a task's life (Tasks extension, "Task Update Requests"): one that an earlier round used
    /// is told to the client under another name.
    pub async fn ask_round(&self, round: Round) -> LegEnd {
        // Whatever ends a leg in here, such as a store that does not answer, ends it as it would inside a tool.
        match self.drive(self.keep_round(round)).await {
            crate::Driven::Ended(end) => end,
            crate::Driven::Suspended(suspended) => LegEnd::Suspended(suspended),
        }
    }

    async fn keep_round(&self, round: Round) -> LegEnd {
        let number = self.rounds();
        let mut used = Vec::new();
        for earlier in 0..number {
            used.extend(self.round(earlier).await.into_iter().flat_map(|kept| kept.asks).map(|ask| ask.seen));
        }
        let mut asks = Vec::with_capacity(round.asks.len());
        for Ask { key: own, request } in round.asks {
            self.check_name(EntryKind::Answer, &own).await;
            let seen = if used.contains(&own) { format!("{own}~{}", number + 1) } else { own.clone() };
            asks.push(KeptAsk { seen, own, request });
        }
        let Ok(kept) = serde_json::to_string(&Kept { asks, carry: round.carry }) else {
            return self.break_off(Reason::corrupt("a round cannot be written".to_owned())).await;
        };
        // Another leg may have recorded its round first: then that one is asked.
        let kept = self.record(EntryKind::Round, &number.to_string(), kept).await;
        let Ok(Kept { asks, .. }) = serde_json::from_str(&kept) else {
            return self.break_off(Reason::corrupt(format!("round {number} cannot be read"))).await;
        };
        let asks: Vec<Ask> = asks.into_iter().map(|ask| Ask { key: ask.seen, request: ask.request }).collect();
        let suspension = if asks.is_empty() {
            let (now, settings) = (self.shared().engine.now(), self.shared().engine.settings());
            Suspension::Timer(now.plus_ms(settings.retry_ms))
        } else {
            Suspension::Input { asks, until: None }
        };
        LegEnd::Suspended(Suspended(Reason::Suspend(suspension)))
    }

    fn rounds(&self) -> usize {
        self.lock_journal().keys().filter(|(kind, _)| *kind == EntryKind::Round).count()
    }

    async fn round(&self, number: usize) -> Option<Kept> {
        let text = self.recorded(EntryKind::Round, &number.to_string()).await?;
        match serde_json::from_str(&text) {
            Ok(kept) => Some(kept),
            Err(_) => self.break_off(Reason::corrupt(LoadError::Missing.to_string())).await,
        }
    }
}
