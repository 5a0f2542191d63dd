//! What the servers have: their tools, prompts and resources under the names that clients see.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerPeerInfo, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};

use tokio::sync::Semaphore;

use crate::config::{Fold, Pattern, Repeat, Server, Terms};
use crate::limits;
use crate::start_error::Problem;

mod folds;

use folds::Shown;

/// What one server has.
pub(crate) struct Listed {
    pub(crate) info: ServerPeerInfo,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
}

macro_rules! read_pages {
    ($peer:expr, $list:ident, $items:ident) => {{
        let (mut all, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = $peer.$list(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            all.extend(page.$items);
            cursor = page.next_cursor;
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
    /// Reads all lists that the server says it has.
    pub(crate) async fn read(peer: &Peer<RoleClient>) -> Result<Self, ListError> {
        let info = peer.peer_info().ok_or(ServiceError::TransportClosed)?;
        let info = (*info).clone();
        let has = &info.capabilities;
        let (mut prompts, mut resources, mut templates) = (Vec::new(), Vec::new(), Vec::new());
        let tools = if has.tools.is_some() { read_pages!(peer, list_tools, tools) } else { Vec::new() };
        if has.prompts.is_some() {
            prompts = read_pages!(peer, list_prompts, prompts);
        }
        if has.resources.is_some() {
            resources = read_pages!(peer, list_resources, resources);
            // Servers without templates may not know this request.
            templates = read_templates(peer).await.unwrap_or_default();
        }
        Ok(Self { info, tools, prompts, resources, templates })
    }
}

async fn read_templates(peer: &Peer<RoleClient>) -> Result<Vec<ResourceTemplate>, ListError> {
    Ok(read_pages!(peer, list_resource_templates, resource_templates))
}

/// Where a name that clients see leads.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The server, by its number.
    pub(crate) server: usize,
    /// What the server calls it.
    pub(crate) name: String,
}

/// A tool, and how it may be run.
#[derive(Clone, Debug)]
pub(crate) struct ToolRoute {
    pub(crate) route: Route,
    pub(crate) tool: Tool,
    pub(crate) terms: Terms,
    pub(crate) repeatable: Repeatable,
    /// One permit for each of its calls, if their number is limited.
    pub(crate) permits: Option<Arc<Semaphore>>,
    /// For a folded tool, of which `route` is the one that starts the job.
    pub(crate) fold: Option<Arc<Fold>>,
}

/// Whether a call that was interrupted is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeatable {
    Yes,
    No,
}

impl Repeatable {
    /// What the operator says, otherwise what the server says about the tool.
    pub(crate) fn of(tool: &Tool, word: Repeat) -> Self {
        let hints = tool.annotations.as_ref();
        let hinted =
            hints.is_some_and(|hints| hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true));
        match word {
            Repeat::Always => Self::Yes,
            Repeat::Hints if hinted => Self::Yes,
            Repeat::Hints | Repeat::Never => Self::No,
        }
    }
}

/// What all servers have.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tools: BTreeMap<String, ToolRoute>,
    /// The names of the tools in the order of their servers' lists.
    pub(crate) tool_order: Vec<String>,
    pub(crate) prompts: Vec<(Prompt, Route)>,
    pub(crate) resources: Vec<(Resource, usize)>,
    pub(crate) templates: Vec<(ResourceTemplate, usize)>,
}

impl Catalog {
    /// Puts the lists of all servers together.
    ///
    /// # Errors
    /// Every name that is taken twice or is too long, and every pattern that matches no tool.
    pub(crate) fn of(listed: Vec<Listed>, servers: &[Server]) -> Result<Self, Vec<Problem>> {
        let (mut catalog, mut problems) = (Self::default(), Vec::new());
        for (index, (listed, server)) in listed.into_iter().zip(servers).enumerate() {
            let prefix = prefix_of(server, servers.len());
            let (tools, faults) = folds::shown(listed.tools, server);
            problems.extend(faults);
            let unmatched = server.tools.iter().map(|(pattern, _)| pattern);
            let unmatched = unmatched.filter(|pattern| !tools.iter().any(|shown| pattern.matches(&shown.name)));
            problems.extend(unmatched.map(|pattern| no_such_tool(server, pattern, &tools)));
            for shown in tools {
                problems.extend(catalog.add_tool(shown, index, &prefix, servers));
            }
            for prompt in listed.prompts {
                problems.extend(catalog.add_prompt(prompt, index, &prefix, servers));
            }
            catalog.resources.extend(listed.resources.into_iter().map(|resource| (resource, index)));
            catalog.templates.extend(listed.templates.into_iter().map(|template| (template, index)));
        }
        if catalog.tools.len() > limits::TOOLS_MAX {
            problems.push(Problem::TooManyTools { tools: catalog.tools.len() });
        }
        if problems.is_empty() { Ok(catalog) } else { Err(problems) }
    }

    fn add_tool(&mut self, shown: Shown, server: usize, prefix: &str, servers: &[Server]) -> Option<Problem> {
        let Shown { name, mut tool, fold } = shown;
        let of = servers.get(server)?;
        let terms = of.terms_of(&name);
        let route = Route { server, name: tool.name.to_string() };
        let name = format!("{prefix}{name}");
        if let Some(problem) = too_long(&name, &of.name) {
            return Some(problem);
        }
        if let Some(other) = self.tools.get(&name) {
            let first = servers.get(other.route.server).map(|server| server.name.clone()).unwrap_or_default();
            return Some(Problem::Clash { kind: "tool", name, first, second: of.name.clone() });
        }
        let repeatable = Repeatable::of(&tool, terms.repeat.unwrap_or(Repeat::Hints));
        tool.name = name.clone().into();
        self.tool_order.push(name.clone());
        let permits = terms.concurrency.map(|calls| Arc::new(Semaphore::new(calls)));
        self.tools.insert(name, ToolRoute { route, tool, terms, repeatable, permits, fold });
        None
    }

    fn add_prompt(&mut self, mut prompt: Prompt, server: usize, prefix: &str, servers: &[Server]) -> Option<Problem> {
        let of = servers.get(server)?;
        let route = Route { server, name: prompt.name };
        let name = format!("{prefix}{}", route.name);
        if let Some((_, other)) = self.prompts.iter().find(|(prompt, _)| prompt.name == name) {
            let first = servers.get(other.server).map(|server| server.name.clone()).unwrap_or_default();
            return Some(Problem::Clash { kind: "prompt", name, first, second: of.name.clone() });
        }
        prompt.name = name;
        self.prompts.push((prompt, route));
        None
    }

    /// The server that a resource belongs to: by the lists, then by the beginnings of the templates.
    pub(crate) fn owner_of(&self, uri: &str) -> Option<usize> {
        let listed = self.resources.iter().find(|(resource, _)| resource.uri == uri).map(|(_, server)| *server);
        listed.or_else(|| {
            let beginning = |template: &ResourceTemplate| template.uri_template.split('{').next().map(str::len);
            let matching = self.templates.iter().filter(|(template, _)| {
                uri == template.uri_template
                    || template.uri_template.split('{').next().is_some_and(|fixed| uri.starts_with(fixed))
            });
            matching.max_by_key(|(template, _)| beginning(template)).map(|(_, server)| *server)
        })
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Route> {
        self.prompts.iter().find(|(prompt, _)| prompt.name == name).map(|(_, route)| route)
    }
}

/// What the names of a server's tools and prompts begin with.
fn prefix_of(server: &Server, servers: usize) -> String {
    match &server.prefix {
        Some(prefix) => prefix.clone(),
        None if servers == 1 => String::new(),
        None => {
            let name = server.name.chars();
            let name: String = name.map(|next| if crate::config::is_of_names(next) { next } else { '_' }).collect();
            format!("{name}_")
        }
    }
}

fn too_long(name: &str, server: &str) -> Option<Problem> {
    (name.len() > limits::NAME_BYTES_MAX)
        .then(|| Problem::NameTooLong { name: name.to_owned(), server: server.to_owned() })
}

fn no_such_tool(server: &Server, pattern: &Pattern, tools: &[Shown]) -> Problem {
    Problem::NoSuchTool {
        server: server.name.clone(),
        pattern: pattern.as_str().to_owned(),
        tools: tools.iter().map(|shown| shown.name.clone()).collect(),
    }
}
