//! From the text of a configuration to its servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use jsonc_parser::{ParseOptions, ParseResult, parse_to_ast};
use longhaul::settings::EnvSource;
use serde_json::Value;
use url::Url;

use super::choice::Choice;
use super::credentials::{self, checked};
use super::error::ConfigError;
use super::fold::folds;
use super::outside::{self, OutsideJob};
use super::reader::{Members, Node, NotSet, Reader, is_of_names, unknown};
use super::server::{Server, environment};
use super::terms::{Pattern, Terms};
use crate::limits;
use crate::target::{Endpoint, Headers, Keeping, Launch, Lifecycle, RESERVED, Target};

/// Members of servers that clients use for themselves.
const OF_CLIENTS: [&str; 10] = [
    "alwaysAllow",
    "autoApprove",
    "description",
    "dev",
    "disabledTools",
    "gallery",
    "icon",
    "timeout",
    "tools",
    "version",
];

pub(super) fn config(
    text: &str,
    env: &dyn EnvSource,
    not_set: NotSet,
) -> Result<(Vec<Server>, Vec<OutsideJob>), ConfigError> {
    let mut reader = Reader::new(env, not_set);
    let Some(value) = json(&mut reader, text) else {
        return reader.end((Vec::new(), Vec::new()));
    };
    let root = Node { value: &value, pointer: String::new() };
    let (mut servers, mut jobs, mut names) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(mut members) = reader.members(&root) {
        for key in ["mcpServers", "servers"] {
            if let Some(entries) = members.find(key).and_then(|node| reader.members(&node)) {
                let (outside, own): (Vec<_>, Vec<_>) = entries.all().partition(|(_, node)| outside::is_one(node));
                names.extend(own.iter().map(|(name, _)| name.as_str()));
                jobs.extend(outside.iter().filter_map(|(name, node)| outside::read(&mut reader, name, node)));
                servers.extend(own.iter().filter_map(|(name, node)| server(&mut reader, env, name, node)));
            }
        }
        check_names(&mut reader, &servers, &jobs);
        if let Some(section) = members.find("longhaul").and_then(|node| reader.members(&node)) {
            apply(&mut reader, &mut servers, &mut jobs, &names, section);
        }
    }
    reader.end((servers, jobs))
}

/// JSON as editors write it: with comments, and with commas after the last element. Its depth is limited to 512.
fn json(reader: &mut Reader<'_>, text: &str) -> Option<Value> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    match parse_to_ast(text, &Default::default(), &options) {
        Ok(ParseResult { value: Some(value), .. }) => return Some(value.into()),
        Ok(_) => {
            let (line, column) =
                (text.lines().count().max(1), text.lines().last().map_or(0, |l| l.chars().count()) + 1);
            reader.fault("", format!("is not JSON: there is no value on line {line} column {column}"));
        }
        Err(error) => reader.fault("", format!("is not JSON: {error}")),
    }
    None
}

/// Where the server of this name is, in a configuration of which nothing else is read.
pub(super) fn endpoint_of(text: &str, name: &str, env: &dyn EnvSource) -> Result<Endpoint, ConfigError> {
    let mut reader = Reader::new(env, NotSet::Mistake);
    let value = json(&mut reader, text).unwrap_or_default();
    let entries =
        ["mcpServers", "servers"].into_iter().filter_map(|key| value.get(key)?.as_object().map(|all| (key, all)));
    let all: Vec<_> = entries.flat_map(|(key, all)| all.iter().map(move |(name, value)| (key, name, value))).collect();
    let found = all.iter().find(|(_, other, _)| *other == name).and_then(|(key, name, value)| {
        let servers = Node { value, pointer: format!("/{key}") };
        server(&mut reader, env, name, &servers.child(name, value))
    });
    match found.map(|server| server.target) {
        Some(Target::Http(endpoint)) => return reader.end(endpoint),
        Some(Target::Child(_) | Target::Elsewhere(_)) => {
            reader.fault("", format!("`{name}` is started by a command: put it behind `longhaul gateway` to reach it"));
        }
        None if reader.has_found_nothing() && all.iter().any(|(_, other, _)| *other == name) => {
            reader.fault("", format!("`{name}` is switched off"));
        }
        None if reader.has_found_nothing() => {
            let known = all.iter().map(|(_, name, _)| name.as_str());
            reader.fault("", format!("`{name}` {}", unknown(name, known)));
        }
        None => {}
    }
    Err(reader.into_error())
}

fn check_names(reader: &mut Reader<'_>, servers: &[Server], jobs: &[OutsideJob]) {
    if servers.is_empty() && jobs.is_empty() && reader.has_found_nothing() {
        reader.fault("", "names no server: it needs `mcpServers` (or `servers`) with at least one that can be used");
    }
    if servers.len() > limits::SERVERS_MAX {
        reader.fault("", format!("names {} servers; {} at most can be used", servers.len(), limits::SERVERS_MAX));
    }
    let servers = servers.iter().map(|server| (&server.name, format!("/servers/{}", server.name)));
    let jobs = jobs.iter().map(|job| (&job.name, job.place.clone()));
    for named in [servers.collect::<Vec<_>>(), jobs.collect()] {
        for (index, (name, place)) in named.iter().enumerate() {
            if named.iter().take(index).any(|(other, _)| other == name) {
                reader.fault(place, "is also in `mcpServers`: choose another name");
            }
        }
    }
}

/// A server; `None` if it is switched off or has mistakes.
fn server(reader: &mut Reader<'_>, env: &dyn EnvSource, name: &str, node: &Node<'_>) -> Option<Server> {
    let mut members = reader.members(node)?;
    if members.find("disabled").is_some_and(|disabled| disabled.value == &Value::Bool(true)) {
        return None;
    }
    let kind = members.find("type");
    let (command, url) = (members.find("command"), members.find("url"));
    let target = match (kind.as_ref().and_then(|kind| kind.value.as_str()), command, url) {
        (Some("sse"), ..) => Err("the transport `sse` is not supported: use the server's Streamable HTTP endpoint"),
        (None | Some("stdio"), Some(command), None) => Ok(child(reader, env, &mut members, &command)),
        (None | Some("http" | "streamable-http" | "streamableHttp" | "streamable_http"), None, Some(url)) => {
            Ok(endpoint(reader, env, &mut members, &url))
        }
        (None | Some("stdio"), Some(_), Some(_)) => Err("it has both `command` and `url`: leave out one of them"),
        (None, None, None) => {
            Err("it has neither `command` nor `url`: name the command that starts the server, or where it is")
        }
        (Some("stdio"), None, _) => Err("it is of type `stdio` and has no `command`"),
        (Some("http" | "streamable-http" | "streamableHttp" | "streamable_http"), ..) => {
            Err("it is of type `http`, which has a `url` and no `command`")
        }
        (Some(other), ..) => {
            let what = "must be `stdio` or `http`, or the kind of an outside job such as `aws-step-functions`";
            reader.fault(&members.pointer("type"), format!("`{other}` is not supported: it {what}"));
            Ok(None)
        }
    };
    let target = target.unwrap_or_else(|what| {
        reader.fault(&node.pointer, what);
        None
    });
    if let Some(file) = members.find("envFile") {
        reader.fault(&file.pointer, "is not supported: name the variables in `env`, such as \"TOKEN\": \"${TOKEN}\"");
    }
    for key in members.unknown().filter(|key| !OF_CLIENTS.contains(&key.as_str())) {
        tracing::warn!(server = name, key, "a member of a server's configuration is not known, and ignored");
    }
    let elsewhere = reader.take_unset().map(|variable| Target::Elsewhere(format!("`{variable}` is not set here")));
    Some(Server::new(name, elsewhere.or(target)?))
}

fn child(
    reader: &mut Reader<'_>,
    env: &dyn EnvSource,
    members: &mut Members<'_>,
    command: &Node<'_>,
) -> Option<Target> {
    let text = reader.text(command);
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        reader.fault(&command.pointer, "is empty: name the command that starts the server");
    }
    let args = members.optional(reader, "args", Reader::texts).unwrap_or_default();
    let cwd = members.optional(reader, "cwd", Reader::text).map(PathBuf::from);
    let mut named = BTreeMap::new();
    if let Some(variables) = members.find("env").and_then(|node| reader.members(&node)) {
        for (name, node) in variables.all() {
            if name.is_empty() || name.contains(['=', '\0']) {
                reader.fault(&node.pointer, "cannot be the name of an environment variable");
            }
            named.extend(reader.scalar(&node).map(|value| (name.clone(), value)));
        }
    }
    Some(Target::Child(Launch { command: text?, args, env: environment(named, env), cwd }))
}

fn endpoint(reader: &mut Reader<'_>, env: &dyn EnvSource, members: &mut Members<'_>, url: &Node<'_>) -> Option<Target> {
    let text = reader.text(url);
    let parsed = text.map(|text| Url::parse(&text).map_err(|error| format!("is not a URL: {error}")));
    let parsed = parsed.and_then(|parsed| reader.read(url, parsed.and_then(checked)));
    let mut headers = Headers::new();
    if let Some(named) = members.find("headers").and_then(|node| reader.members(&node)) {
        for (name, node) in named.all() {
            let value = reader.scalar(&node);
            headers.extend(value.and_then(|value| reader.read(&node, header(name, &value))));
        }
    }
    let credentials = credentials::read(reader, env, members);
    Some(Target::Http(Endpoint { url: parsed?, headers, credentials }))
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (Ok(name), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
        return Err("cannot be sent as a header".to_owned());
    };
    if RESERVED.contains(&name.as_str()) {
        return Err("is set by the protocol: leave it out".to_owned());
    }
    value.set_sensitive(true);
    Ok((name, value))
}

/// The section `longhaul`.
fn apply(
    reader: &mut Reader<'_>,
    servers: &mut [Server],
    jobs: &mut [OutsideJob],
    names: &[&str],
    mut section: Members<'_>,
) {
    let (defaults, mut life) = (section.find("defaults"), Life::default());
    if let Some(mut members) = defaults.and_then(|node| reader.members(&node)) {
        let terms = Terms::read(reader, &mut members);
        life = Life::read(reader, &mut members);
        reader.refuse_unknown(&members);
        for server in servers.iter_mut() {
            server.terms = terms;
            life.apply(server);
        }
        for job in jobs.iter_mut() {
            job.terms = job.terms.or(&terms);
        }
    }
    if let Some(named) = section.find("servers").and_then(|node| reader.members(&node)) {
        for (name, node) in named.all() {
            match servers.iter_mut().find(|server| server.name == *name) {
                Some(server) => apply_to(reader, server, &life, &node),
                // It is switched off, or has mistakes of its own.
                None if names.contains(&name.as_str()) => {}
                None if jobs.iter().any(|job| job.name == *name) => {
                    reader.fault(&node.pointer, "is an outside job: write its terms into its entry");
                }
                None => reader.fault(&node.pointer, unknown(name, names.iter().copied())),
            }
        }
    }
    reader.refuse_unknown(&section);
    if let Some(variable) = reader.take_unset() {
        reader.fault("/longhaul", format!("names the variable `{variable}`, which is not set here: write its value"));
    }
}

fn apply_to(reader: &mut Reader<'_>, server: &mut Server, defaults: &Life, node: &Node<'_>) {
    let Some(mut members) = reader.members(node) else { return };
    server.terms = Terms::read(reader, &mut members).or(&server.terms);
    Life::read(reader, &mut members).or(defaults).apply(server);
    let protocols =
        [("auto", None), ("2025-11-25", Some(Lifecycle::Handshake)), ("2026-07-28", Some(Lifecycle::PerRequest))];
    server.lifecycle = members.optional(reader, "protocol", |reader, node| reader.one_of(node, &protocols)).flatten();
    if let Some(prefix) = members.find("prefix") {
        let text = reader.text(&prefix);
        if text.as_ref().is_some_and(|text| !text.chars().all(is_of_names)) {
            reader.fault(
                &prefix.pointer,
                "has a character that names of tools do not have: use letters, digits, `_`, `-` and `.`",
            );
        }
        server.prefix = text;
    }
    server.choice = Choice::read(reader, &mut members);
    if let Some(tools) = members.find("tools").and_then(|node| reader.members(&node)) {
        for (pattern, node) in tools.all() {
            if let Some(mut members) = reader.members(&node) {
                let concurrency = concurrency(reader, &mut members);
                server.choice.describe(reader, pattern, &mut members);
                let terms = Terms { concurrency, ..Terms::read(reader, &mut members) };
                reader.refuse_unknown(&members);
                server.tools.push((Pattern::new(pattern), terms));
            }
        }
    }
    server.folds = folds(reader, &mut members);
    reader.refuse_unknown(&members);
}

/// How many processes or connections a server has, and how long each lives.
/// `None` where a configuration says nothing about it.
#[derive(Clone, Copy, Default)]
struct Life {
    concurrency: Option<usize>,
    start_max: Option<Duration>,
    process: Option<Use>,
    idle_max: Option<Duration>,
    calls_max: Option<usize>,
}

/// How many calls a process or connection has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    PerCall,
    Pool,
}

impl Life {
    fn read(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Self {
        let uses = [("per-call", Use::PerCall), ("pool", Use::Pool)];
        Self {
            concurrency: concurrency(reader, members),
            start_max: members.optional(reader, "startAtMost", Reader::duration),
            process: members.optional(reader, "process", |reader, node| reader.one_of(node, &uses)),
            idle_max: members.optional(reader, "idleAtMost", Reader::duration),
            calls_max: members.optional(reader, "callsAtMost", |reader, node| reader.count(node, 1..=1_000_000)),
        }
    }

    /// These, and `other` where they say nothing.
    fn or(self, other: &Self) -> Self {
        Self {
            concurrency: self.concurrency.or(other.concurrency),
            start_max: self.start_max.or(other.start_max),
            process: self.process.or(other.process),
            idle_max: self.idle_max.or(other.idle_max),
            calls_max: self.calls_max.or(other.calls_max),
        }
    }

    fn apply(&self, server: &mut Server) {
        server.concurrency = self.concurrency.unwrap_or(server.concurrency);
        server.start_max = self.start_max.unwrap_or(server.start_max);
        let usual = Keeping::default();
        server.keeping = (self.process == Some(Use::Pool)).then(|| Keeping {
            idle_max: self.idle_max.unwrap_or(usual.idle_max),
            calls_max: self.calls_max.unwrap_or(usual.calls_max),
        });
    }
}

fn concurrency(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<usize> {
    members.optional(reader, "concurrency", |reader, node| reader.count(node, 1..=256))
}
