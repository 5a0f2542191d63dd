//! A gateway: its servers, and the durable server that it makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul::ports::Clock;
use longhaul::{Server, SystemClock};
use rmcp::model::{
    Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    ToolsCapability,
};
use tokio::task::JoinSet;

use crate::catalog::{Catalog, Listed};
use crate::cleanup::with_cleanup;
use crate::config::{self, Config, ResourceUpdates};
use crate::handler::{Handler, Shared};
use crate::limits;
use crate::lists::{Lists, Renewal, list};
use crate::lock::Lock;
use crate::outside::OutsideTools;
use crate::policy::with_policies;
use crate::start_error::{Problem, StartError};
use crate::upstream::process::Groups;
use crate::upstream::{Lifecycle, Upstream};

/// Servers whose tools have become durable.
pub struct Gateway {
    server: Server,
    shared: Arc<Shared>,
    groups: Groups,
}

impl Gateway {
    /// Starts each server, or connects to it, once: to learn in which lifecycle it speaks and what it has.
    ///
    /// # Errors
    /// [`StartError`], which names every server that cannot be used, and every name that two of them have.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let groups = Groups::default();
        let upstreams = upstreams(&config, &groups);
        let listed = list_all(&upstreams).await?;
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
        if !problems.is_empty() {
            return Err(StartError(problems));
        }
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
        let problems = with_policies(&mut catalog).await;
        if !problems.is_empty() {
            return Err(StartError(problems));
        }
        let lists = Arc::new(Lists::new(config.servers, listed, catalog, renewal));
        let shared = Arc::new(Shared { upstreams, lists, outside, telling, info });
        let (handler, policies) = (Handler(Arc::clone(&shared)), Arc::clone(&shared));
        let server = Server::new(move || handler.clone()).policies(move |tool| policies.policy(tool));
        let server = with_cleanup(server, &shared);
        Ok(Self { server, shared, groups })
    }

    /// The durable server, which `longhaul::local` runs.
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
    listed
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
    let mut reading = JoinSet::new();
    for (index, upstream) in upstreams.iter().enumerate() {
        let upstream = Arc::clone(upstream);
        reading.spawn(async move { (index, list(&upstream).await) });
    }
    let mut read = reading.join_all().await;
    read.sort_by_key(|(index, _)| *index);
    let (mut listed, mut problems) = (Vec::new(), Vec::new());
    for (_, list) in read {
        match list {
            Ok(list) => listed.push(list),
            Err(why) => problems.push(Problem::Server(why)),
        }
    }
    if problems.is_empty() { Ok(listed) } else { Err(StartError(problems)) }
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
