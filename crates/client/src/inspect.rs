//! All that is on record of a task, from servers that show it (`dev.longhaul/tasks/inspect`).

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::connect::Lifecycle;
use crate::error::{Error, Refusal};

const METHOD: &str = "dev.longhaul/tasks/inspect";

/// At most so many pages of a journal are read: of 512 entries each, as many as a task may record.
const PAGES_MAX: usize = 8;

/// The server does not know the method.
const METHOD_NOT_FOUND: i64 = -32601;

impl Client {
    /// All that is on record of a task: what `tasks/get` shows as `task`, its `tool`, `arguments`, `attempts` and the
    /// whole `journal`, each entry with its value if that is small.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the server shows nothing of the kind; otherwise what it answers, or why there is no
    /// answer.
    pub async fn inspect(&self, id: &str) -> Result<Value, Error> {
        let mut shown = self.inspected(id, json!({"taskId": id})).await?;
        for _ in 1..PAGES_MAX {
            let Some(cursor) = shown.get("nextCursor").cloned().filter(|cursor| !cursor.is_null()) else { break };
            let mut next = self.inspected(id, json!({"taskId": id, "cursor": cursor})).await?;
            let more = next["journal"].take();
            if let (Some(journal), Value::Array(more)) = (shown["journal"].as_array_mut(), more) {
                journal.extend(more);
            }
            shown["nextCursor"] = next["nextCursor"].take();
        }
        shown.as_object_mut().map(|shown| shown.remove("nextCursor"));
        Ok(shown)
    }

    /// The tool and the arguments that a task was called with.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect).
    pub async fn called(&self, id: &str) -> Result<(String, Map<String, Value>), Error> {
        let shown = self.inspected(id, json!({"taskId": id})).await?;
        let whole = json!({"taskId": id, "whole": {"kind": "arguments"}});
        let arguments = match &shown["arguments"] {
            cut if cut["cut"] == true => self.inspected(id, whole).await?["value"].take(),
            shown => shown["value"].clone(),
        };
        match (shown["tool"].as_str(), arguments) {
            (Some(tool), Value::Object(arguments)) => Ok((tool.to_owned(), arguments)),
            _ => Err(Error::Unexpected(format!("`{METHOD}` is answered without the tool and its arguments"))),
        }
    }

    async fn inspected(&self, id: &str, params: Value) -> Result<Value, Error> {
        let unsupported = || Error::Unsupported("the server does not show what is on record of its tasks".to_owned());
        match &self.lifecycle {
            Lifecycle::PerRequest => {}
            Lifecycle::Handshake(_) => return Err(unsupported()),
        }
        match self.result(METHOD, params, Some(id)).await {
            Err(Error::Refused(Refusal { code: METHOD_NOT_FOUND, .. })) => Err(unsupported()),
            shown => shown,
        }
    }
}
