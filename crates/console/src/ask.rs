//! The request for a page.

use std::sync::Arc;

use maud::Markup;
use url::form_urlencoded;

use crate::limits::QUERY_BYTES_MAX;
use crate::source::Source;
use crate::state::State;

#[derive(Clone)]
pub(crate) struct PageRequest {
    shared: Arc<State>,
    name: String,
    query: Vec<(String, String)>,
    pub(crate) now_ms: i64,
}

impl PageRequest {
    /// The request for a path below [`PATH`](crate::PATH), with its query.
    pub(crate) fn new(shared: &Arc<State>, path: &str, query: &str, now_ms: i64) -> Self {
        let name = path.strip_prefix(crate::PATH).unwrap_or(path).trim_matches('/').to_owned();
        let query = if query.len() > QUERY_BYTES_MAX { "" } else { query };
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { shared: Arc::clone(shared), name, query, now_ms }
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
            !value.is_empty() && name != "did" && name != "n" && changes.iter().all(|(changed, _)| changed != name)
        });
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        let changed = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        link(&self.name, &kept.chain(changed).collect::<Vec<_>>())
    }

    /// The source of the tasks.
    pub(crate) fn source(&self) -> &dyn Source {
        &*self.shared.source
    }

    /// The parts of the server that cannot be used now, and why.
    pub(crate) fn degraded(&self) -> Vec<(String, String)> {
        (self.shared.degraded)()
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

/// The URL of the page of a task.
pub(crate) fn link_to_task(id: &str) -> String {
    link("task", &[("id", id)])
}
