//! The tools, prompts and resources of all servers, under the names that clients see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use longhaul::TaskPolicy;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::config::{Durable, Fold, Pattern, Repeat, Server, Terms, nearest};
use crate::limits;
use crate::start_error::Problem;
use crate::upstream::task_tools::Known;
use crate::verbatim;

mod folds;
mod listed;

use folds::Shown;
pub(crate) use listed::Listed;

/// The target of a name that clients see.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The server, by its number.
    pub(crate) server: usize,
    /// The server's own name of it.
    pub(crate) name: String,
}

/// A tool, and how it may be run.
#[derive(Clone, Debug)]
pub(crate) struct ToolRoute {
    pub(crate) route: Route,
    pub(crate) tool: Tool,
    pub(crate) terms: Terms,
    pub(crate) repeatable: Repeatable,
    pub(crate) callers: Callers,
    /// On which terms its calls become tasks; `None` if they do not.
    pub(crate) policy: Option<TaskPolicy>,
    /// One permit for each of its calls, if their number is limited.
    pub(crate) permits: Option<Arc<Semaphore>>,
    /// For a combined tool. `route` is then that of the tool that starts the job.
    pub(crate) fold: Option<Arc<Fold>>,
}

impl ToolRoute {
    /// How long a call may take.
    pub(crate) fn run_at_most(&self) -> Duration {
        self.terms.run_at_most()
    }

    /// Whether its calls become tasks.
    pub(crate) fn is_durable(&self) -> bool {
        self.terms.durable != Some(Durable::Never)
    }
}

/// The callers that may call a tool whose calls become tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    All,
    /// Callers that know tasks.
    KnowTasks,
}

impl Callers {
    /// The operator's choice, otherwise the one that the server declares for its tool.
    pub(crate) fn of(durable: Option<Durable>, tool: &str, says: Option<&Known>) -> Self {
        match durable {
            Some(Durable::Required) => Self::KnowTasks,
            None if says.is_some_and(|says| says.requires_task(tool)) => Self::KnowTasks,
            None | Some(Durable::Always | Durable::Never) => Self::All,
        }
    }
}

/// Whether a call that was interrupted is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeatable {
    Yes,
    No,
}

impl Repeatable {
    /// The operator's choice, otherwise the one that the server declares for the tool.
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

#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tools: BTreeMap<String, ToolRoute>,
    /// The names of the tools in the order of their servers' lists.
    pub(crate) tool_order: Vec<String>,
    pub(crate) prompts: Vec<(Prompt, Route)>,
    pub(crate) resources: Vec<(Resource, usize)>,
    pub(crate) templates: Vec<(ResourceTemplate, usize)>,
    /// The names of tools that no server has, and that no server may have.
    reserved: BTreeSet<String>,
}

impl Catalog {
    /// A catalog without anything in it, in which no tool may have one of these names.
    pub(crate) fn without(reserved: BTreeSet<String>) -> Self {
        Self { reserved, ..Self::default() }
    }

    /// Puts the lists of all servers together.
    ///
    /// # Errors
    /// Every name that is taken twice, and every pattern that matches no tool.
    pub(crate) fn of(listed: &[Listed], servers: &[Server], reserved: BTreeSet<String>) -> Result<Self, Vec<Problem>> {
        let (catalog, mut problems) = Self::collect(listed, servers, &Self::without(reserved));
        problems.retain(|problem| {
            let is_left_out = matches!(problem, Problem::NameTooLong { .. });
            if is_left_out {
                tracing::warn!(%problem, "a tool is left out of the lists");
            }
            !is_left_out
        });
        for (listed, server) in listed.iter().zip(servers).filter(|(listed, _)| !listed.is_absent) {
            problems.extend(unmatched(listed, server));
        }
        problems.extend(catalog.too_many());
        if problems.is_empty() { Ok(catalog) } else { Err(problems) }
    }

    /// Puts the lists together once more, after some of them have changed. Existing tools, prompts and resources keep
    /// their names.
    pub(crate) fn again(&self, listed: &[Listed], servers: &[Server]) -> Result<(Self, Vec<Problem>), Problem> {
        let (catalog, left_out) = Self::collect(listed, servers, self);
        catalog.too_many().map_or(Ok((catalog, left_out)), Err)
    }

    fn too_many(&self) -> Option<Problem> {
        let tools = self.tools.len() + self.reserved.len();
        (tools > limits::TOOLS_MAX).then_some(Problem::TooManyTools { tools })
    }

    /// Collects everything without conflicting names, and the reasons why the rest is left out.
    fn collect(listed: &[Listed], servers: &[Server], before: &Self) -> (Self, Vec<Problem>) {
        let (mut catalog, mut problems) = (Self::without(before.reserved.clone()), Vec::new());
        let prefixes: Vec<String> = servers.iter().map(|server| prefix_of(server, servers.len())).collect();
        let still_has = |route: &Route| {
            listed.get(route.server).is_some_and(|listed| listed.tools.iter().any(|tool| tool.name == route.name))
        };
        let kept: BTreeMap<&String, &ToolRoute> =
            before.tools.iter().filter(|(_, before)| still_has(&before.route)).collect();
        let still_lists = |route: &Route| {
            listed.get(route.server).is_some_and(|listed| listed.prompts.iter().any(|prompt| prompt.name == route.name))
        };
        let shown_of = |index: usize, listed: &Listed| {
            let server = servers.get(index).filter(|_| !listed.is_absent);
            server.map(|server| folds::shown(&listed.tools, server)).unwrap_or_default()
        };
        for (index, (listed, prefix)) in listed.iter().zip(&prefixes).enumerate() {
            let (mut tools, faults) = shown_of(index, listed);
            problems.extend(faults);
            if let Some(server) = servers.get(index) {
                tools.retain(|shown| server.choice.shows(&shown.name));
            }
            for shown in tools {
                // A job is started by a quick call, and is a task of the gateway's own.
                let says = shown.fold.is_none().then_some(&listed.task_tools);
                problems.extend(catalog.add_tool(shown, says, (index, prefix), servers, &kept));
            }
            for prompt in &listed.prompts {
                let kept = before.prompt(&format!("{prefix}{}", prompt.name)).filter(|route| still_lists(route));
                problems.extend(catalog.add_prompt(prompt.clone(), (index, prefix), servers, kept));
            }
            catalog.resources.extend(listed.resources.iter().map(|resource| (resource.clone(), index)));
            catalog.templates.extend(listed.templates.iter().map(|template| (template.clone(), index)));
        }
        (catalog, problems)
    }

    fn add_tool(
        &mut self,
        shown: Shown,
        says: Option<&Known>,
        (server, prefix): (usize, &str),
        servers: &[Server],
        kept: &BTreeMap<&String, &ToolRoute>,
    ) -> Option<Problem> {
        let Shown { name, mut tool, fold } = shown;
        let of = servers.get(server)?;
        let (terms, description) = (of.terms_of(&name), of.choice.description(&name).map(str::to_owned));
        let route = Route { server, name: tool.name.to_string() };
        let callers = Callers::of(terms.durable, &route.name, says);
        let name = format!("{prefix}{name}");
        if name.len() > limits::NAME_BYTES_MAX {
            return Some(Problem::NameTooLong { name, server: of.name.clone() });
        }
        if self.reserved.contains(&name) {
            let (first, second) = (name.clone(), of.name.clone());
            return Some(Problem::Clash { kind: "tool", name, first, second });
        }
        let before = kept.get(&name).copied();
        let other = before.filter(|before| before.route.server != server).or_else(|| self.tools.get(&name));
        if let Some(other) = other.and_then(|other| servers.get(other.route.server)) {
            return Some(clash("tool", name, other, of));
        }
        let repeatable = Repeatable::of(&tool, terms.repeat.unwrap_or(Repeat::Hints));
        tool.name = name.clone().into();
        verbatim::set_member(&mut tool.meta, "name", &json!(name).to_string());
        if let Some(description) = description {
            verbatim::set_member(&mut tool.meta, "description", &json!(description).to_string());
            tool.description = Some(description.into());
        }
        self.tool_order.push(name.clone());
        let permits = match before {
            Some(before) => before.permits.clone(),
            None => terms.concurrency.map(|calls| Arc::new(Semaphore::new(calls))),
        };
        let is_same =
            |before: &&ToolRoute| (&before.tool.input_schema, before.callers) == (&tool.input_schema, callers);
        let policy = before.filter(is_same).and_then(|before| before.policy.clone());
        self.tools.insert(name, ToolRoute { route, tool, terms, repeatable, callers, policy, permits, fold });
        None
    }

    fn add_prompt(
        &mut self,
        mut prompt: Prompt,
        (server, prefix): (usize, &str),
        servers: &[Server],
        kept: Option<&Route>,
    ) -> Option<Problem> {
        let of = servers.get(server)?;
        let route = Route { server, name: prompt.name };
        let name = format!("{prefix}{}", route.name);
        let other = kept.filter(|kept| kept.server != server).or_else(|| self.prompt(&name));
        if let Some(other) = other.and_then(|other| servers.get(other.server)) {
            return Some(clash("prompt", name, other, of));
        }
        verbatim::set_member(&mut prompt.meta, "name", &json!(name).to_string());
        prompt.name = name;
        self.prompts.push((prompt, route));
        None
    }

    /// The tools in the order of their servers' lists.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Tool> {
        self.tool_order.iter().filter_map(|name| self.tools.get(name)).map(|route| &route.tool)
    }

    /// The server that a resource belongs to: by the lists, then by the prefixes of the templates.
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

/// The names in the section of a server that none of its tools has.
pub(crate) fn unmatched(listed: &Listed, server: &Server) -> Vec<Problem> {
    let (tools, _reported) = folds::shown(&listed.tools, server);
    let names = || tools.iter().map(|shown| &*shown.name);
    let has_none = |pattern: &Pattern| !names().any(|name| pattern.matches(name));
    let unmatched = server.names().filter(|(_, pattern)| has_none(pattern));
    let problem = |(member, pattern): (&'static str, &Pattern)| Problem::NoSuchTool {
        server: server.name.clone(),
        member,
        pattern: pattern.as_str().to_owned(),
        instead: nearest(pattern.as_str(), names()),
    };
    unmatched.map(problem).collect()
}

/// The prefix of the names of a server's tools and prompts.
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

fn clash(kind: &'static str, name: String, first: &Server, second: &Server) -> Problem {
    Problem::Clash { kind, name, first: first.name.clone(), second: second.name.clone() }
}
