//! A gateway: its servers, and the durable server that it makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use longhaul::ports::Clock;
use longhaul::{EndedTask, Server, SystemClock};
use rmcp::model::{
    Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    ToolsCapability,
};

use crate::catalog::{Catalog, Listed};
use crate::config::{self, Config, Fold, ResourceUpdates};
use crate::handler::{Handler, Shared};
use crate::lists::{Lists, Renewal, list};
use crate::lock::Lock;
use crate::outside::OutsideTools;
use crate::policy::with_policies;
use crate::start_error::{Problem, StartError};
use crate::upstream::process::Groups;
use crate::upstream::{Lifecycle, Upstream};
use crate::{external, limits};

/// Servers whose tools have become durable.
pub struct Gateway {
    server: Server,
    shared: Arc<Shared>,
    groups: Groups,
}

impl Gateway {
    /// Starts each server, or connects to it, once: to learn in which lifecycle it speaks and what it has. A server
    /// that cannot be used is asked again later, if another one can.
    ///
    /// # Errors
    /// [`StartError`], which names every server if none can be used, and every name that two of them have.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let groups = Groups::default();
        let upstreams = upstreams(&config, &groups);
        let listed = list_those_there(&upstreams).await?;
        let outside = OutsideTools::of(&config.jobs).await?;
        outside.check().await?;
        Self::of(config, upstreams, listed, outside, (Renewal::Asked, groups)).await
    }

    /// Starts no server and connects to none: what they have is in `lock`.
    ///
    /// # Errors
    /// [`StartError`], which names every server that is not in the lock, and every name that two of them have.
    pub async fn locked(config: Config, mut lock: Lock) -> Result<Self, StartError> {
        let groups = Groups::default();
        let upstreams = upstreams(&config, &groups);
        let (mut listed, mut problems) = (Vec::new(), Vec::new());
        for upstream in &upstreams {
            match lock.servers.remove(upstream.name()) {
                Some(list) => listed.push(known_from(list, upstream)),
                None => problems.push(Problem::NotLocked(upstream.name().to_owned())),
            }
        }
        StartError::unless_none(problems)?;
        let outside = OutsideTools::of(&config.jobs).await?;
        Self::of(config, upstreams, listed, outside, (Renewal::Pinned, groups)).await
    }

    async fn of(
        config: Config,
        upstreams: Vec<Arc<Upstream>>,
        listed: Vec<Listed>,
        outside: OutsideTools,
        (renewal, groups): (Renewal, Groups),
    ) -> Result<Self, StartError> {
        let telling = telling(&listed, &config.servers);
        let info = info(&listed, &telling);
        let mut catalog = Catalog::of(&listed, &config.servers, outside.names()).map_err(StartError)?;
        StartError::unless_none(with_policies(&mut catalog).await)?;
        warn_of_long_names(&catalog);
        let lists = Arc::new(Lists::new(config.servers, listed, catalog, renewal));
        let shared = Arc::new(Shared { upstreams, lists, outside, telling, info });
        let (handler, policies) = (Handler(Arc::clone(&shared)), Arc::clone(&shared));
        let server = Server::new(move || handler.clone()).policies(move |tool| policies.policy(tool));
        let server = with_cleanup(server, &shared);
        Ok(Self { server, shared, groups })
    }

    /// The durable server, which `longhaul::serve` runs.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Ends the processes that are kept, waits until those of calls that have ended are gone, and kills those that are
    /// left. For the end of a program, after the server has stopped.
    pub async fn stop(&self) {
        stop(&self.shared.upstreams, &self.groups).await;
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

/// What a lock file says about a server, as far as this process can use it.
fn known_from(list: Listed, upstream: &Upstream) -> Listed {
    upstream.remember(Some(Lifecycle::of(&list.info.protocol_version)));
    upstream.learn(&list.tools);
    upstream.task_tools().recall(list.task_tools.clone());
    if upstream.is_reached_from_here() { list } else { list.only_tools() }
}

fn upstreams(config: &Config, groups: &Groups) -> Vec<Arc<Upstream>> {
    config.servers.iter().map(|server| Arc::new(Upstream::new(server, groups.clone()))).collect()
}

/// The lists of all servers, whose processes have ended when they are there.
pub(crate) async fn list_all_once(config: &Config) -> Result<Vec<Listed>, StartError> {
    let groups = Groups::default();
    let upstreams = upstreams(config, &groups);
    let listed = list_all(&upstreams).await;
    stop(&upstreams, &groups).await;
    let listed = listed?;
    let empty = listed.iter().zip(&upstreams).filter(|(listed, _)| listed.is_empty());
    let empty = empty.map(|(_, upstream)| Problem::Empty(upstream.name().to_owned())).collect();
    StartError::unless_none(empty).map(|()| listed)
}

/// Ends the processes that are kept, waits until the others have ended, and kills those that are left.
async fn stop(upstreams: &[Arc<Upstream>], groups: &Groups) {
    upstreams.iter().for_each(|upstream| upstream.close());
    // Each of them has its times to end by itself, and is killed by then.
    let mut left_ms = 3 * limits::END_GRACE_MS;
    while !groups.is_empty() && left_ms > 0 {
        SystemClock.sleep_ms(limits::POLL_MS).await;
        left_ms = left_ms.saturating_sub(limits::POLL_MS);
    }
    groups.kill();
}

/// The lists of all servers, read at the same time.
async fn list_all(upstreams: &[Arc<Upstream>]) -> Result<Vec<Listed>, StartError> {
    let (mut listed, mut problems) = (Vec::new(), Vec::new());
    for list in join_all(upstreams.iter().map(|upstream| list(upstream))).await {
        match list {
            Ok(list) => listed.push(list),
            Err(why) => problems.push(Problem::Server(why)),
        }
    }
    StartError::unless_none(problems).map(|()| listed)
}

/// The same, with nothing for a server that is not there while another one is.
async fn list_those_there(upstreams: &[Arc<Upstream>]) -> Result<Vec<Listed>, StartError> {
    let read = join_all(upstreams.iter().map(|upstream| list(upstream))).await;
    let is_one_there = read.iter().any(Result::is_ok);
    let (mut listed, mut problems) = (Vec::new(), Vec::new());
    for (read, upstream) in read.into_iter().zip(upstreams) {
        match read {
            Ok(list) => listed.push(list),
            Err(why) if is_one_there => {
                tracing::warn!(server = upstream.name(), why, "a server is left out until it can be used");
                listed.push(Listed::absent());
            }
            Err(why) => problems.push(Problem::Server(why)),
        }
    }
    StartError::unless_none(problems).map(|()| listed)
}

/// Names the tools whose names are too long once a client has put its own prefix before them.
fn warn_of_long_names(catalog: &Catalog) {
    let is_long = |name: &&String| name.len() + limits::CLIENT_PREFIX_BYTES > limits::CLIENT_NAME_BYTES_MAX;
    let long: Vec<&String> = catalog.tool_order.iter().filter(is_long).collect();
    if long.is_empty() {
        return;
    }
    let (count, max) = (long.len(), limits::CLIENT_NAME_BYTES_MAX);
    let names = long.iter().take(limits::NAMES_SHOWN_MAX).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    tracing::warn!(
        count,
        names,
        "these names of tools are too long for usual clients, which add a prefix such as `mcp__longhaul__` and pass on \
         at most {max} bytes: choose a shorter `prefix` for their servers in the section `longhaul`"
    );
}

/// The servers that tell of changes of their resources, by their numbers.
fn telling(listed: &[Listed], servers: &[config::Server]) -> BTreeSet<usize> {
    let tells = |listed: &Listed| {
        listed.info.capabilities.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
    };
    let passed_on = |server: &config::Server| server.resource_updates == ResourceUpdates::PassedOn;
    let servers = listed.iter().zip(servers).enumerate();
    servers.filter(|(_, (listed, server))| tells(listed) && passed_on(server)).map(|(index, _)| index).collect()
}

/// What the gateway says about itself: the words of its only server, or those of all.
fn info(listed: &[Listed], telling: &BTreeSet<usize>) -> ServerConfig {
    let has = |has: fn(&ServerCapabilities) -> bool| listed.iter().any(|listed| has(&listed.info.capabilities));
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.prompts = has(|has| has.prompts.is_some()).then(PromptsCapability::default);
    capabilities.resources = has(|has| has.resources.is_some()).then(|| {
        let mut resources = ResourcesCapability::default();
        resources.subscribe = (!telling.is_empty()).then_some(true);
        resources
    });
    capabilities.completions = has(|has| has.completions.is_some()).then(JsonObject::default);
    capabilities.logging = has(|has| has.logging.is_some()).then(JsonObject::default);
    let mut info = ServerConfig::new(capabilities);
    info.server_info = match listed {
        [only] => only.info.server_info.clone(),
        _ => None,
    }
    .unwrap_or_else(|| Implementation::new("longhaul-gateway", env!("CARGO_PKG_VERSION")));
    let instructions: Vec<&str> = listed.iter().filter_map(|listed| listed.info.instructions.as_deref()).collect();
    info.instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    info
}

/// The server, which cleans up after its tools: also after those that its servers begin to have later.
pub(crate) fn with_cleanup(server: Server, shared: &Arc<Shared>) -> Server {
    let (covering, cleanup) = (Arc::clone(shared), Arc::clone(shared));
    server.clean_up_where(
        move |tool| {
            let leaves = |(upstream, fold): (&Upstream, Option<Arc<Fold>>)| leaves_something(upstream, fold.as_deref());
            covering.outside.find(tool).is_some() || covering.durable(tool).is_some_and(leaves)
        },
        move |ended: EndedTask| {
            let shared = Arc::clone(&cleanup);
            async move {
                if let Some(outside) = shared.outside.find(ended.tool()) {
                    return outside.clean_up(&ended).await;
                }
                let gone = || format!("no server has the tool `{}` any more", ended.tool());
                let (upstream, fold) = shared.durable(ended.tool()).ok_or_else(gone)?;
                external::clean_up(upstream, fold.as_ref(), &ended).await.map_err(|error| error.to_string())
            }
        },
    )
}

/// Nothing is left of a process, unless a fold says so.
fn leaves_something(upstream: &Upstream, fold: Option<&Fold>) -> bool {
    !upstream.is_process() || fold.is_some_and(|fold| fold.stop.is_some())
}
