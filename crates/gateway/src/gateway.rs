//! A gateway: its servers, and the durable server that it makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use longhaul::ports::Clock;
use longhaul::{Server, SystemClock, TaskPolicy, ToolError};
use rmcp::model::{
    Implementation, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities, ServerConfig,
    ToolsCapability,
};
use tokio::task::JoinSet;

use crate::catalog::{Catalog, Listed, ToolRoute};
use crate::cleaning::with_cleaning;
use crate::config::Config;
use crate::handler::{Handler, Shared};
use crate::limits;
use crate::start_error::{Problem, StartError};
use crate::upstream::Upstream;
use crate::upstream::client::Client;
use crate::upstream::process::Groups;

/// Servers whose tools have become durable.
pub struct Gateway {
    server: Server,
    tools: usize,
    groups: Groups,
}

impl Gateway {
    /// Starts each server, or connects to it, once: to learn in which era it speaks and what it has. All calls begin
    /// with a process or a connection of their own.
    ///
    /// # Errors
    /// [`StartError`], which names every server that cannot be used, and every name that two of them have.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let groups = Groups::default();
        let upstreams: Vec<Arc<Upstream>> =
            config.servers.iter().map(|server| Arc::new(Upstream::new(server, groups.clone()))).collect();
        let listed = list_all(&upstreams).await?;
        let info = info(&listed);
        let catalog = Catalog::of(listed, &config.servers).map_err(StartError)?;
        let tools = catalog.tools.len();
        let shared = Arc::new(Shared { upstreams, catalog, info });
        let server = durable(&shared).await.map_err(|error| StartError(vec![error.into()]))?;
        Ok(Self { server, tools, groups })
    }

    /// The durable server, which `longhaul::local` runs.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// How many tools there are.
    #[must_use]
    pub const fn tools(&self) -> usize {
        self.tools
    }

    /// Waits until the processes of calls that have ended are gone, and kills those that are left. For the end of a
    /// program, after the server has stopped.
    pub async fn stop(&self) {
        // Each of them has its times to end by itself, and is killed by then.
        let mut left_ms = 3 * limits::END_GRACE_MS;
        while !self.groups.is_empty() && left_ms > 0 {
            SystemClock.sleep_ms(limits::LOOK_MS).await;
            left_ms = left_ms.saturating_sub(limits::LOOK_MS);
        }
        self.groups.kill();
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("tools", &self.tools).finish_non_exhaustive()
    }
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

async fn list(upstream: &Upstream) -> Result<Listed, String> {
    let connection = upstream.connect(Client::quiet(upstream.name())).await.map_err(|error| error.to_string())?;
    let name = upstream.name();
    match tokio::time::timeout(limits::ANSWER_MAX, Listed::read(connection.peer())).await {
        Ok(Ok(listed)) => {
            upstream.learn_task_tools().await;
            Ok(listed)
        }
        Ok(Err(error)) => Err(format!("the server `{name}` does not list what it has: {error}")),
        Err(_late) => {
            let seconds = limits::ANSWER_MAX.as_secs();
            Err(format!("the server `{name}` does not list what it has within {seconds} seconds"))
        }
    }
}

/// What the gateway says about itself: the words of its only server, or those of all.
fn info(listed: &[Listed]) -> ServerConfig {
    let has = |has: fn(&ServerCapabilities) -> bool| listed.iter().any(|listed| has(&listed.info.capabilities));
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.prompts = has(|has| has.prompts.is_some()).then(PromptsCapability::default);
    capabilities.resources = has(|has| has.resources.is_some()).then(ResourcesCapability::default);
    capabilities.completions = has(|has| has.completions.is_some()).then(JsonObject::default);
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

/// The server, with a policy for each tool. Each tool is checked by itself, so that the first schema that cannot be used
/// does not hide the others.
async fn durable(shared: &Arc<Shared>) -> Result<Server, ToolError> {
    let handler = Handler(Arc::clone(shared));
    let bare = Server::new(move || handler.clone());
    let (mut server, mut unchecked) = (bare.clone(), BTreeSet::new());
    for (name, route) in &shared.catalog.tools {
        let policy = policy(route);
        let policy = match bare.clone().task(name, policy.clone()).check().await {
            Ok(()) => policy,
            // Most often its dialect is an older one.
            Err(ToolError::Schema { .. }) => {
                unchecked.insert(name);
                policy.unchecked_arguments()
            }
            Err(error) => return Err(error),
        };
        server = server.task(name, policy);
        if let Some(upstream) = shared.upstreams.get(route.route.server) {
            server = with_cleaning(server, name, route, upstream);
        }
    }
    if !unchecked.is_empty() {
        tracing::info!(tools = ?unchecked, "the arguments of these tools are checked by their servers only");
    }
    Ok(server)
}

fn policy(route: &ToolRoute) -> TaskPolicy {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let run_at_most = route.terms.run_at_most.unwrap_or(limits::RUN_MAX);
    let handle_after = route.terms.handle_after.unwrap_or(limits::HANDLE_AFTER);
    let policy = TaskPolicy::optional()
        .run_at_most(run_at_most)
        .handle_after(handle_after)
        .consecutive_failures_max(limits::DEATHS_MAX);
    match route.terms.retention {
        Some(retention) => policy.retention(retention).ttl_at_most(DAY.max(run_at_most.saturating_add(retention))),
        None => policy.ttl_at_most(DAY.max(run_at_most.saturating_mul(2))),
    }
}
