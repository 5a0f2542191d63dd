//! The request for a page.

use std::sync::Arc;

use longhaul_client::ALL_OWNERS;
use maud::Markup;
use url::form_urlencoded;

use crate::limits::QUERY_BYTES_MAX;
use crate::source::{Row, Source, told};
use crate::state::{OtherServer, State};

#[derive(Clone)]
pub(crate) struct PageRequest {
    shared: Arc<State>,
    source: Arc<dyn Source>,
    name: String,
    query: Vec<(String, String)>,
    pub(crate) now_ms: i64,
}

impl PageRequest {
    /// The request for a path below [`PATH`](crate::PATH), with its query.
    pub(crate) fn new(shared: &Arc<State>, path: &str, query: &str, now_ms: i64) -> Self {
        let name = path.strip_prefix(crate::PATH).unwrap_or(path).trim_matches('/').to_owned();
        let query = if query.len() > QUERY_BYTES_MAX { "" } else { query };
        let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let owner = query.iter().find(|(field, value)| field == OWNER && !value.is_empty());
        let source = owner.map_or_else(|| Arc::clone(&shared.source), |(_, owner)| shared.source.of_owner(owner));
        Self { shared: Arc::clone(shared), source, name, query, now_ms }
    }

    /// The owner whose tasks an operator wants; `None` for the caller's own.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.value(OWNER)
    }

    /// The source of the task in a row, which may be another owner's.
    pub(crate) fn source_of(&self, row: &Row) -> Arc<dyn Source> {
        let owner = told(&row.task, OWNER).filter(|_| self.owner().is_some());
        owner.map_or_else(|| Arc::clone(&self.source), |owner| self.source.of_owner(owner))
    }

    /// The page's name in its path; empty for the first one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A parameter of its query, if that is not empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut fitting = self.query.iter().filter(|(field, value)| field == name && !value.is_empty());
        fitting.next().map(|(_, value)| value.as_str())
    }

    /// The URL of the same page with other parameters: `None` leaves one out.
    pub(crate) fn link_with(&self, changes: &[(&str, Option<&str>)]) -> String {
        let kept = self.query.iter().filter(|(name, value)| {
            !value.is_empty()
                && name != "did"
                && name != "n"
                && name != "sure"
                && changes.iter().all(|(changed, _)| changed != name)
        });
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        let changed = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        link(&self.name, &kept.chain(changed).collect::<Vec<_>>())
    }

    /// The source of the tasks of the wanted owner.
    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// The URL of the page of another task of the same owner.
    pub(crate) fn link_to_task(&self, id: &str) -> String {
        let owner = self.owner().filter(|owner| *owner != ALL_OWNERS).map(|owner| (OWNER, owner));
        link("task", &[("id", id)].into_iter().chain(owner).collect::<Vec<_>>())
    }

    /// The URL of the page of the task in a row.
    pub(crate) fn link_to_row(&self, row: &Row) -> String {
        let owner = told(&row.task, OWNER).filter(|_| self.owner().is_some()).map(|owner| (OWNER, owner));
        link("task", &[("id", row.task.id.as_str())].into_iter().chain(owner).collect::<Vec<_>>())
    }

    /// The other servers that the tools need.
    pub(crate) fn servers(&self) -> Vec<OtherServer> {
        (self.shared.servers)()
    }

    /// The hidden field that every form needs.
    pub(crate) fn token_field(&self) -> Markup {
        self.shared.guard.field()
    }

    /// Whether pages offer no actions.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }

    /// Whether people log in.
    pub(crate) fn has_log_in(&self) -> bool {
        self.shared.guard.log_in.is_some()
    }

    pub(crate) fn shared(&self) -> &State {
        &self.shared
    }
}

/// The URL of a page.
pub(crate) fn link(name: &str, query: &[(&str, &str)]) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    let path = format!("{}{slash}{name}", crate::PATH);
    if query.is_empty() {
        return path;
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{path}?{query}")
}

/// The parameter with the owner, in URLs and in rows.
const OWNER: &str = "owner";

/// The URL of the page of a task of the caller.
pub(crate) fn link_to_task(id: &str) -> String {
    link("task", &[("id", id)])
}
