//! The lists of tools that pass through the bridge. They say which arguments go into headers, and which calls may be
//! made again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul_client::{Content, Error, Raw, Reply, Tool, ToolHeaders, request_id};
use longhaul_core::strict_json;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::message::Message;
use crate::clock;

/// So many tools are remembered.
const TOOLS_MAX: usize = 10_000;

/// At most so many pages of a list are read.
const PAGES_MAX: usize = 100;

/// A list that was read so lately is not read again.
const LISTED_LATELY: Duration = Duration::from_secs(1);

/// The error of a request whose headers differ from its body.
const HEADER_MISMATCH: i64 = -32020;

#[derive(Default)]
pub(super) struct Tools {
    known: Mutex<HashMap<String, Known>>,
    /// When the bridge has read the list itself.
    listed: Mutex<Option<Instant>>,
}

struct Known {
    headers: ToolHeaders,
    may_be_repeated: bool,
}

impl Tools {
    /// Notes the result of `tools/list`.
    pub(super) fn note(&self, result: &Value) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = result["tools"].as_array().into_iter().flatten();
        for tool in listed.filter_map(Tool::read) {
            if known.len() < TOOLS_MAX || known.contains_key(&tool.name) {
                let headers = ToolHeaders::of(tool.schema().as_object().unwrap_or(&serde_json::Map::new()));
                let may_be_repeated = tool.may_be_repeated();
                known.insert(tool.name, Known { headers, may_be_repeated });
            }
        }
    }

    /// Whether the list is due to be read; then it is about to be.
    fn is_due(&self) -> bool {
        let now = clock::instant();
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = listed.is_none_or(|at| now.duration_since(at) > LISTED_LATELY);
        *listed = if is_due { Some(now) } else { *listed };
        is_due
    }

    /// Whether the server declares that this call may be made again.
    pub(super) fn may_be_repeated(&self, call: &Message) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        name_of(call).and_then(|name| known.get(name)).is_some_and(|known| known.may_be_repeated)
    }

    pub(super) fn headers(&self, call: &Message) -> HeaderMap {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut headers = HeaderMap::new();
        if let Some(tool) = name_of(call).and_then(|name| known.get(name))
            && let Some(arguments) = call.params()["arguments"].as_object()
        {
            headers.extend(tool.headers.of_call(arguments));
        }
        headers
    }

    /// Reads the list. Returns whether it declares other headers for this call; otherwise the refusal is the answer.
    pub(super) async fn learns(&self, raw: &Raw, call: &Message) -> bool {
        let Some(revision) = call.revision().filter(|_| self.is_due()) else { return false };
        let before = self.headers(call);
        self.list(raw, call, revision).await.is_ok() && self.headers(call) != before
    }

    async fn list(&self, raw: &Raw, call: &Message, revision: &str) -> Result<(), Error> {
        let mut params = json!({"_meta": call.params()["_meta"]});
        for _ in 0..PAGES_MAX {
            let list = json!({"jsonrpc": "2.0", "id": request_id()?, "method": "tools/list", "params": params});
            let list = Message::read(list.to_string().into_bytes()).map_err(Error::Unexpected)?;
            let page = raw.post(list.text.clone(), list.headers(revision)).await?.result().await?;
            self.note(&page);
            match page["nextCursor"].as_str() {
                Some(cursor) => params["cursor"] = cursor.into(),
                None => break,
            }
        }
        Ok(())
    }
}

/// Whether a server refuses a call because it wants other headers for arguments. The client ignores headers and may not
/// have asked for the list, or the tool has changed since.
pub(super) fn wants_headers(call: &Message, reply: &Reply) -> bool {
    let (Some(_name), Content::Message(text)) = (name_of(call), &reply.content) else { return false };
    let answer: Value = strict_json::from_str(text).unwrap_or_default();
    answer["error"]["code"] == HEADER_MISMATCH
}

fn name_of(call: &Message) -> Option<&str> {
    call.params()["name"].as_str().filter(|_| call.method() == "tools/call")
}
