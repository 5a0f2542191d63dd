//! The lists of one server. A server may lack some of them.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ErrorCode, PaginatedRequestParams, Prompt, ProtocolVersion, Resource, ResourceTemplate, ServerCapabilities,
    ServerPeerInfo, Tool,
};
use rmcp::service::{ClientCacheConfig, Peer, RoleClient, ServiceError};
use serde::{Deserialize, Serialize};

use crate::config::Choice;
use crate::limits;
use crate::upstream::task_tools::Known;
use crate::verbatim;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    pub(crate) info: ServerPeerInfo,
    /// Whether nothing is known yet, since the server could not be used.
    #[serde(skip)]
    pub(crate) is_absent: bool,
    /// How long the lists are valid, if the server says so: the shortest time of its lists.
    #[serde(skip)]
    pub(crate) ttl: Option<Duration>,
    /// Its declarations about its own tasks, which `rmcp` leaves out of the list.
    #[serde(default, skip_serializing_if = "Known::is_empty")]
    pub(crate) task_tools: Known,
    /// Which of its tools clients see: in a lock file only.
    #[serde(default, skip_serializing_if = "Choice::is_empty")]
    pub(crate) choice: Choice,
    #[serde(default, with = "verbatim")]
    pub(crate) tools: Vec<Tool>,
    #[serde(default, with = "verbatim", skip_serializing_if = "Vec::is_empty")]
    pub(crate) prompts: Vec<Prompt>,
    #[serde(default, with = "verbatim", skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<Resource>,
    #[serde(default, with = "verbatim", rename = "resourceTemplates", skip_serializing_if = "Vec::is_empty")]
    pub(crate) templates: Vec<ResourceTemplate>,
}

macro_rules! read_pages {
    ($peer:expr, $ttl:expr, $list:ident, $items:ident) => {{
        let (mut all, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = $peer.$list(Some(PaginatedRequestParams::default().with_cursor(cursor.clone()))).await?;
            all.extend(page.$items);
            *$ttl = shorter(*$ttl, page.ttl_ms.map(Duration::from_millis));
            // Some servers name an end that is not one, or the same page again.
            let next = page.next_cursor.filter(|next| !next.is_empty() && cursor.as_ref() != Some(next));
            cursor = next;
            pages += 1;
            if cursor.is_none() {
                break all;
            }
            if pages == limits::PAGES_MAX {
                return Err(ListError::Endless(stringify!($items)));
            }
        }
    }};
}

/// Why a list cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("its list of {0} has more than {max} pages", max = limits::PAGES_MAX)]
    Endless(&'static str),
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Listed {
    /// Reads all lists that the server declares. A server that declares none is asked for all of them.
    pub(crate) async fn read(server: &str, peer: &Peer<RoleClient>) -> Result<Self, ListError> {
        // Reading again has to return the lists as they are now.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let info = peer.peer_info().ok_or(ServiceError::TransportClosed)?;
        let mut info = (*info).clone();
        let has = &mut info.capabilities;
        let says = if has.tools.is_none() && has.prompts.is_none() && has.resources.is_none() {
            Says::Nothing
        } else {
            Says::What(server)
        };
        let (mut ttl, asked) = (None, matches!(says, Says::Nothing));
        let (mut tools, mut prompts, mut resources, mut templates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        if asked || has.tools.is_some() {
            tools = unique(server, says.list("tools", read_tools(peer, &mut ttl).await)?, |tool| &tool.name);
        }
        if asked || has.prompts.is_some() {
            prompts = unique(server, says.list("prompts", read_prompts(peer, &mut ttl).await)?, |prompt| &prompt.name);
        }
        if asked || has.resources.is_some() {
            resources = says.list("resources", read_resources(peer, &mut ttl).await)?;
            // Servers without templates may not know this request.
            templates = read_templates(peer, &mut ttl).await.unwrap_or_default();
        }
        if asked {
            has.prompts = (!prompts.is_empty()).then(Default::default);
            has.resources = (!resources.is_empty() || !templates.is_empty()).then(Default::default);
        }
        let listed = Self { ttl, tools, prompts, resources, templates, ..Self::nothing(info) };
        if listed.is_empty() {
            tracing::warn!(server, "a server lists nothing: no tools, prompts or resources; check how it is started");
        }
        Ok(listed)
    }

    fn nothing(info: ServerPeerInfo) -> Self {
        let (tools, prompts, resources, templates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (task_tools, choice) = (Known::default(), Choice::default());
        Self { info, is_absent: false, ttl: None, task_tools, choice, tools, prompts, resources, templates }
    }

    /// A server that cannot be used yet. It is tried again soon.
    pub(crate) fn absent() -> Self {
        let info = ServerPeerInfo::new(ProtocolVersion::V_2025_11_25, ServerCapabilities::default());
        Self { is_absent: true, ttl: Some(limits::LISTS_PAUSE), ..Self::nothing(info) }
    }

    /// Whether the server has nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.prompts.is_empty() && self.resources.is_empty() && self.templates.is_empty()
    }

    /// The same without prompts and resources, whose requests only the server can answer.
    pub(crate) fn only_tools(mut self) -> Self {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = self.info.capabilities.tools.take();
        self.info.capabilities = capabilities;
        Self { prompts: Vec::new(), resources: Vec::new(), templates: Vec::new(), ..self }
    }
}

/// Whether a server declares its capabilities.
#[derive(Clone, Copy)]
enum Says<'s> {
    What(&'s str),
    Nothing,
}

impl Says<'_> {
    /// A list, which is empty if the server does not have it after all.
    fn list<T>(self, list: &str, read: Result<Vec<T>, ListError>) -> Result<Vec<T>, ListError> {
        match (self, read) {
            (Says::Nothing, Err(ListError::Service(ServiceError::McpError(_)))) => Ok(Vec::new()),
            (Says::What(server), Err(ListError::Service(ServiceError::McpError(error)))) if is_not_found(&error) => {
                let why = &error.message;
                tracing::warn!(server, list, %why, "a server declares a list that it does not have");
                Ok(Vec::new())
            }
            (_, read) => read,
        }
    }
}

/// Whether a server does not know a method.
fn is_not_found(error: &ErrorData) -> bool {
    let words = error.message.to_ascii_lowercase();
    let unknown = ["not found", "not implemented", "not supported", "unsupported", "unknown method"];
    error.code == ErrorCode::METHOD_NOT_FOUND || unknown.iter().any(|unknown| words.contains(unknown))
}

/// The first of each name, without those that have an empty one.
fn unique<T>(server: &str, all: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<T> {
    let mut names = BTreeSet::new();
    let is_first = |item: &T| {
        if name(item).is_empty() {
            tracing::warn!(server, "a server lists an empty name: it is left out");
            return false;
        }
        let is_new = names.insert(name(item).to_owned());
        if !is_new {
            tracing::warn!(server, name = name(item), "a server lists a name twice: the first one is served");
        }
        is_new
    };
    all.into_iter().filter(is_first).collect()
}

type Ttl = Option<Duration>;

async fn read_tools(peer: &Peer<RoleClient>, ttl: &mut Ttl) -> Result<Vec<Tool>, ListError> {
    Ok(read_pages!(peer, ttl, list_tools, tools))
}

async fn read_prompts(peer: &Peer<RoleClient>, ttl: &mut Ttl) -> Result<Vec<Prompt>, ListError> {
    Ok(read_pages!(peer, ttl, list_prompts, prompts))
}

async fn read_resources(peer: &Peer<RoleClient>, ttl: &mut Ttl) -> Result<Vec<Resource>, ListError> {
    Ok(read_pages!(peer, ttl, list_resources, resources))
}

async fn read_templates(peer: &Peer<RoleClient>, ttl: &mut Ttl) -> Result<Vec<ResourceTemplate>, ListError> {
    Ok(read_pages!(peer, ttl, list_resource_templates, resource_templates))
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}
