//! `tasks/list`.

use longhaul_core::TaskId;
use rmcp::ErrorData;
use serde::Deserialize;

use super::wire;
use crate::shared::Shared;
use crate::shared::errors;
use crate::shared::incoming::Incoming;
use crate::shared::signer::Purpose;

/// Tasks on one page.
const PAGE: usize = 50;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Params {
    cursor: Option<String>,
}

/// One page of the caller's tasks, newest first, from all protocol versions.
pub(super) async fn answer(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let bad_cursor = || ErrorData::invalid_params("the cursor is not valid; start again without one", None);
    let params = match call.params {
        Some(params) => serde_json::from_str::<Params>(params.get()).map_err(|_malformed| bad_cursor())?,
        None => Params::default(),
    };
    let before: Option<TaskId> = match params.cursor {
        Some(cursor) => {
            let opened = shared.signer.verify(Purpose::Cursor, &call.owner, &cursor);
            Some(opened.ok_or_else(bad_cursor)?)
        }
        None => None,
    };
    let page = shared.engine.list(&call.owner, before, PAGE).await.map_err(errors::of_poll)?;
    let next = page.next.map(|next| shared.signer.sign(Purpose::Cursor, &call.owner, &next)).transpose()?;
    Ok(wire::render_list(&page.tasks, shared.engine.ports().clock.now(), next))
}
