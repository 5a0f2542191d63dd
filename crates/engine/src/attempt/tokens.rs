//! Tokens: whoever has one may record a signal of the task.

use longhaul_core::{EntryKind, Timestamp};

use crate::Attempt;
use crate::signals::Token;
use crate::suspension::Reason;

impl Attempt {
    /// Has whoever presents the token with this hash record the signal `name` until a moment
    /// ([`Engine::record_signal_by_token`](crate::Engine::record_signal_by_token)). The token itself stands nowhere:
    /// who may read the task's journal must not be able to answer in place of its holder.
    pub async fn admit_token(&self, hash: &str, name: &str, until: Timestamp) {
        self.check_name(EntryKind::Signal, name).await;
        match serde_json::to_string(&Token { signal: name.to_owned(), until }) {
            Ok(text) => drop(self.record(EntryKind::Token, hash, text, None).await),
            Err(error) => self.abort(Reason::corrupt(format!("a token cannot be written: {error}"))).await,
        }
    }
}
