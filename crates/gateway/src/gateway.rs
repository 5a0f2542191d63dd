//! A gateway: its servers, and the durable server that it makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use longhaul::{Degraded, EndedTask, Server};
use rmcp::model::{
    ExtensionCapabilities, Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities,
    ServerConfig, TASKS_EXTENSION_ID, ToolsCapability,
};

use crate::catalog::{Catalog, Listed};
use crate::changes::Changes;
use crate::config::{self, Config, Fold, ResourceUpdates};
use crate::handler::Handler;
use crate::lists::{Found, Lists, Renewal, list};
use crate::live::Live;
use crate::lock::Lock;
use crate::outside::OutsideTools;
use crate::policy::with_policies;
use crate::shared::Shared;
use crate::start_error::{Problem, StartError};
use crate::target::Lifecycle;
use crate::upstream::orphans;
use crate::upstream::process::Groups;
use crate::upstream::{self, Upstream};
use crate::{external, limits};

/// Servers whose tools have become durable.
pub struct Gateway {
    server: Server,
    live: Arc<Live>,
    groups: Groups,
    /// Only one reload runs at a time.
    reloading: tokio::sync::Mutex<()>,
}

impl Gateway {
    /// Starts each server, or connects to it, once, to learn its lifecycle and its lists. A server that cannot be used
    /// is tried again later, if another one can be used.
    ///
    /// # Errors
    /// [`StartError`], which names every server if none can be used, and every name that two of them have.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::begin(config, None).await
    }

    /// Starts no server and connects to none: `lock` has their lists.
    ///
    /// # Errors
    /// [`StartError`], which names every server that is not in the lock, and every name that two of them have.
    pub async fn locked(config: Config, lock: Lock) -> Result<Self, StartError> {
        Self::begin(config, Some(lock)).await
    }

    async fn begin(config: Config, lock: Option<Lock>) -> Result<Self, StartError> {
        let (groups, changes) = (Groups::default(), Changes::default());
        orphans::reap(groups.clone());
        let shared = shared(config, lock, None, (&groups, &changes)).await?;
        let live = Live::new(shared, changes);
        let (handler, policies) = (Handler(Arc::clone(&live)), Arc::clone(&live));
        let server = Server::new(move || handler.clone()).policies(move |tool| policies.now().policy(tool));
        let server = with_cleanup(server, &live);
        let unwell = Arc::clone(&live);
        let server = server.degraded(move || {
            let unwell = unwell.now().lists.unwell();
            unwell.into_iter().map(|(part, why)| Degraded { part, why }).collect()
        });
        let counted = Arc::clone(&live);
        let server = server
            .processes(move || counted.now().upstreams.iter().filter_map(|upstream| upstream.processes()).collect());
        Ok(Self { server, live, groups, reloading: tokio::sync::Mutex::default() })
    }

    /// Serves another configuration from now on, with its lock if it has one. Calls that are under way end with the
    /// configuration that they began with. Servers that are reached as before keep their processes and connections.
    ///
    /// # Errors
    /// [`StartError`], as at a start. Then everything stays as it is.
    pub async fn reload(&self, config: Config, lock: Option<Lock>) -> Result<(), StartError> {
        let _one = self.reloading.lock().await;
        let old = self.live.now();
        let new = shared(config, lock, Some(&old), (&self.groups, self.live.changes())).await?;
        self.live.replace(new);
        Ok(())
    }

    /// The durable server, which `longhaul::serve` runs.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Ends the kept processes, waits until the processes of ended calls are gone, and kills the rest. It is for the
    /// end of a program, after the server has stopped.
    pub async fn stop(&self) {
        upstream::stop(&self.live.now().upstreams, &self.groups).await;
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").finish_non_exhaustive()
    }
}

/// Everything that a configuration makes, with the parts that stay of an earlier one.
async fn shared(
    config: Config,
    lock: Option<Lock>,
    old: Option<&Arc<Shared>>,
    (groups, changes): (&Groups, &Changes),
) -> Result<Shared, StartError> {
    let upstreams: Vec<Arc<Upstream>> = config.servers.iter().map(|server| reached(server, old, groups)).collect();
    let renewal = if lock.is_some() { Renewal::Pinned } else { Renewal::Asked };
    let found = match lock {
        Some(lock) => pinned(lock, &config.servers, &upstreams)?,
        None => found_there(&upstreams, known(&upstreams, old).await).await?,
    };
    let outside = OutsideTools::of(&config.jobs).await?;
    if renewal == Renewal::Asked {
        outside.check().await?;
    }
    let listed: Vec<Listed> = found.iter().map(|found| found.listed.clone()).collect();
    let telling = telling(&listed, &config.servers);
    let info = info(&listed, &telling, tells_of_lists(&config.servers));
    let skills = |(_, listed): &(usize, &Listed)| listed.info.capabilities.supports_skills();
    let skilled = listed.iter().enumerate().filter(skills).map(|(server, _)| server).collect();
    let mut catalog = Catalog::of(&listed, &config.servers, outside.names()).map_err(StartError)?;
    StartError::unless_none(with_policies(&mut catalog).await)?;
    warn_of_long_names(&catalog);
    let lists = Arc::new(Lists::new(config.servers, found, catalog, renewal, changes.clone()));
    Ok(Shared { upstreams, lists, outside, telling, skilled, info })
}

/// A server: the one of an earlier configuration, if it is reached in the same way.
fn reached(server: &config::Server, old: Option<&Arc<Shared>>, groups: &Groups) -> Arc<Upstream> {
    let kept = old.and_then(|old| {
        let place = old.lists.servers().iter().position(|before| before.is_reached_as(server))?;
        old.upstreams.get(place).cloned()
    });
    kept.unwrap_or_else(|| Arc::new(Upstream::new(server, groups.clone())))
}

/// The lists of those servers that an earlier configuration had too.
async fn known(upstreams: &[Arc<Upstream>], old: Option<&Arc<Shared>>) -> Vec<Option<Listed>> {
    let Some(old) = old else { return vec![None; upstreams.len()] };
    let listed = old.lists.listed().await;
    let place = |upstream: &Arc<Upstream>| old.upstreams.iter().position(|before| Arc::ptr_eq(before, upstream));
    let known = |upstream: &Arc<Upstream>| place(upstream).and_then(|place| listed.get(place).cloned());
    upstreams.iter().map(|upstream| known(upstream).filter(|listed| !listed.is_absent)).collect()
}

fn pinned(mut lock: Lock, servers: &[config::Server], upstreams: &[Arc<Upstream>]) -> Result<Vec<Found>, StartError> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (upstream, server) in upstreams.iter().zip(servers) {
        match lock.servers.remove(upstream.name()) {
            Some(list) if list.choice != server.choice => {
                problems.push(Problem::ChosenOtherwise(server.name.clone()));
            }
            Some(list) => found.push(Found { listed: known_from(list, upstream), unwell: None }),
            None => problems.push(Problem::NotLocked(upstream.name().to_owned())),
        }
    }
    StartError::unless_none(problems).map(|()| found)
}

/// The entry of a server in a lock file, without the parts that this process cannot use.
fn known_from(list: Listed, upstream: &Upstream) -> Listed {
    upstream.remember(Some(Lifecycle::of(&list.info.protocol_version)));
    upstream.learn(&list.tools);
    upstream.task_tools().recall(list.task_tools.clone());
    if upstream.is_reached_from_here() { list } else { list.only_tools() }
}

/// The lists of all servers, read at the same time. If one server is available, an unavailable one has its known lists,
/// or none.
async fn found_there(upstreams: &[Arc<Upstream>], known: Vec<Option<Listed>>) -> Result<Vec<Found>, StartError> {
    let read = join_all(upstreams.iter().map(|upstream| list(upstream))).await;
    let is_one_there = read.iter().any(Result::is_ok) || known.iter().any(Option::is_some);
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for ((read, upstream), known) in read.into_iter().zip(upstreams).zip(known) {
        match read {
            Ok(listed) => found.push(Found { listed, unwell: None }),
            Err(why) if is_one_there => {
                tracing::warn!(server = upstream.name(), why, "a server is left out until it can be used");
                found.push(Found { listed: known.unwrap_or_else(Listed::absent), unwell: Some(why) });
            }
            Err(why) => problems.push(Problem::Server(why)),
        }
    }
    StartError::unless_none(problems).map(|()| found)
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

/// The servers that report changes of their resources, by their numbers.
fn telling(listed: &[Listed], servers: &[config::Server]) -> BTreeSet<usize> {
    let tells = |listed: &Listed| {
        listed.info.capabilities.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
    };
    let passed_on = |server: &config::Server| server.resource_updates == ResourceUpdates::PassedOn;
    let servers = listed.iter().zip(servers).enumerate();
    servers.filter(|(_, (listed, server))| tells(listed) && passed_on(server)).map(|(index, _)| index).collect()
}

/// Whether clients are notified of changed lists. A function does not notify them, because it does not run between two
/// requests.
fn tells_of_lists(servers: &[config::Server]) -> bool {
    servers.iter().all(|server| server.resource_updates == ResourceUpdates::PassedOn)
}

/// The extensions that servers declare, such as those for user interfaces and skills, but not those that the gateway
/// has itself. If two servers have different settings for one extension, the first server decides.
fn extensions(listed: &[Listed]) -> Option<ExtensionCapabilities> {
    let mut all = ExtensionCapabilities::default();
    for (name, settings) in listed.iter().flat_map(|listed| listed.info.capabilities.extensions.iter().flatten()) {
        if name != TASKS_EXTENSION_ID && !name.starts_with("dev.longhaul/") {
            all.entry(name.clone()).or_insert_with(|| settings.clone());
        }
    }
    (!all.is_empty()).then_some(all)
}

/// The gateway's description of itself: the words of its only server, or those of all.
fn info(listed: &[Listed], telling: &BTreeSet<usize>, tells_of_lists: bool) -> ServerConfig {
    let list_changed = tells_of_lists.then_some(true);
    let has = |has: fn(&ServerCapabilities) -> bool| listed.iter().any(|listed| has(&listed.info.capabilities));
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = list_changed;
    capabilities.tools = Some(tools);
    capabilities.prompts = has(|has| has.prompts.is_some()).then(|| {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = list_changed;
        prompts
    });
    capabilities.resources = has(|has| has.resources.is_some()).then(|| {
        let mut resources = ResourcesCapability::default();
        resources.subscribe = (!telling.is_empty()).then_some(true);
        resources.list_changed = list_changed;
        resources
    });
    capabilities.completions = has(|has| has.completions.is_some()).then(JsonObject::default);
    capabilities.logging = has(|has| has.logging.is_some()).then(JsonObject::default);
    capabilities.extensions = extensions(listed);
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

/// The server with the cleanup of its tools, including those that its servers begin to have later.
pub(crate) fn with_cleanup(server: Server, live: &Arc<Live>) -> Server {
    let (covering, cleanup) = (Arc::clone(live), Arc::clone(live));
    server.clean_up_where(
        move |tool| {
            let leaves = |(upstream, fold): (&Upstream, Option<Arc<Fold>>)| leaves_something(upstream, fold.as_deref());
            let shared = covering.now();
            shared.outside.find(tool).is_some() || shared.durable(tool).is_some_and(leaves)
        },
        move |ended: EndedTask| {
            let shared = cleanup.now();
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

/// Whether a call may leave something running. A process leaves nothing, unless a combined tool names a tool that stops
/// its job.
fn leaves_something(upstream: &Upstream, fold: Option<&Fold>) -> bool {
    !upstream.is_process() || fold.is_some_and(|fold| fold.stop.is_some())
}
