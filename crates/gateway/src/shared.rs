//! The parts of a gateway that all its requests share, as one configuration has made them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul::TaskPolicy;
use rmcp::ErrorData;
use rmcp::model::ServerConfig;
use rmcp::service::{Peer, RoleClient, ServiceError};

use crate::catalog::{Catalog, Route};
use crate::config::Fold;
use crate::lists::Lists;
use crate::outside::OutsideTools;
use crate::upstream::client::Client;
use crate::upstream::{Connection, RequestError, ResourceSubscription, Upstream};

/// The parts that all requests share.
pub(crate) struct Shared {
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) lists: Arc<Lists>,
    pub(crate) outside: OutsideTools,
    /// The servers that report changes of their resources.
    pub(crate) telling: BTreeSet<usize>,
    /// The servers that have skills.
    pub(crate) skilled: Vec<usize>,
    pub(crate) info: ServerConfig,
}

impl Shared {
    /// On which terms calls of a tool become tasks; `None` if there is none of this name, or its calls become no tasks.
    pub(crate) fn policy(&self, tool: &str) -> Option<TaskPolicy> {
        let outside = self.outside.find(tool).map(|outside| outside.policy.clone());
        outside.or_else(|| self.lists.policy(tool))
    }

    /// Whether clients are notified of changed lists.
    pub(crate) fn tells_of_lists(&self) -> bool {
        self.info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// The server of a tool whose calls become tasks, and the members of a combined one.
    pub(crate) fn durable(&self, tool: &str) -> Option<(&Upstream, Option<Arc<Fold>>)> {
        let catalog = self.lists.catalog();
        let route = catalog.tools.get(tool).filter(|route| route.is_durable())?;
        Some((self.upstreams.get(route.route.server)?, route.fold.clone()))
    }

    /// The lists of all servers. Lists that are due are read again meanwhile.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        drop(self.lists.refresh(&self.upstreams));
        self.lists.catalog()
    }

    pub(crate) fn upstream(&self, server: usize) -> Result<&Arc<Upstream>, ErrorData> {
        // Every number in the catalog is that of a server.
        let unknown = || ErrorData::internal_error("the server is not known", None);
        self.upstreams.get(server).ok_or_else(unknown)
    }

    /// The server of a prompt, and the prompt's name there.
    pub(crate) fn prompt(&self, name: &str) -> Result<Route, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("unknown prompt: {name}"), None);
        self.catalog().prompt(name).cloned().ok_or_else(unknown)
    }

    /// The server of a resource: the one that lists it, otherwise the only one that has resources.
    pub(crate) fn owner_of(&self, uri: &str) -> Result<usize, ErrorData> {
        let owner = self.catalog().owner_of(uri).or_else(|| self.only_one_with_resources());
        owner.ok_or_else(|| unknown_resource(uri))
    }

    /// The server of a resource, if it reports the resource's changes.
    pub(crate) fn teller_of(&self, uri: &str) -> Option<usize> {
        self.owner_of(uri).ok().filter(|server| self.telling.contains(server))
    }

    fn only_one_with_resources(&self) -> Option<usize> {
        (self.upstreams.len() == 1 && self.info.capabilities.resources.is_some()).then_some(0)
    }

    /// Subscribes to changes of resources, at the servers that report them.
    pub(crate) fn hear(&self, uris: &[String]) -> Result<Vec<(Arc<Upstream>, ResourceSubscription)>, ErrorData> {
        let mut by_server: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for uri in uris {
            let server = self.teller_of(uri).ok_or_else(|| unknown_resource(uri))?;
            by_server.entry(server).or_default().insert(uri.clone());
        }
        let mut heard = Vec::new();
        for (server, uris) in by_server {
            let upstream = self.upstream(server)?;
            heard.push((Arc::clone(upstream), upstream.hear(uris)?));
        }
        Ok(heard)
    }
}

pub(crate) async fn connect(upstream: &Upstream) -> Result<Connection, ErrorData> {
    let connected = Box::pin(upstream.connect_for_a_request(Client::quiet(upstream.name()))).await;
    connected.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

pub(crate) fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("unknown resource: {uri}"), None)
}

/// The answer of a server to anything but a call, which has to be quick.
pub(crate) async fn answer<T>(
    connection: Connection,
    request: impl AsyncFnOnce(&Peer<RoleClient>) -> Result<T, ServiceError>,
) -> Result<T, ErrorData> {
    connection.request(request).await.map_err(|unseen| match unseen {
        RequestError::Refused(error) => error,
        RequestError::Lost(why) => ErrorData::internal_error(why, None),
    })
}
