//! From the text of a configuration to its servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use longhaul::settings::EnvSource;
use serde_json::Value;
use url::Url;

use super::comments::without_comments;
use super::fold::folds;
use super::life::{Life, concurrency};
use super::outside::{self, OutsideJob};
use super::reader::{Members, Node, NotSet, Reader, unknown};
use super::terms::{Durable, Repeat, Terms};
use super::{Config, ConfigError, Headers, Pattern, Server, environment};
use crate::limits;
use crate::upstream::http::Endpoint;
use crate::upstream::process::Launch;
use crate::upstream::{Lifecycle, Target};

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

/// Headers that the protocol sets.
const RESERVED: [&str; 5] = ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

pub(super) fn config(text: &str, env: &dyn EnvSource, not_set: NotSet) -> Result<Config, ConfigError> {
    let mut reader = Reader::new(env, not_set);
    let Some(value) = json(&mut reader, text) else {
        return reader.end(Config { servers: Vec::new(), jobs: Vec::new() });
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
    reader.end(Config { servers, jobs })
}

fn json(reader: &mut Reader<'_>, text: &str) -> Option<Value> {
    let parsed = serde_json::from_str(&without_comments(text));
    parsed.map_err(|error| reader.fault("", format!("is not JSON: {error}"))).ok()
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
    for (index, server) in servers.iter().enumerate() {
        if servers.iter().take(index).any(|other| other.name == server.name) {
            reader.fault(&format!("/servers/{}", server.name), "is also in `mcpServers`: choose another name");
        }
    }
    for (index, job) in jobs.iter().enumerate() {
        if jobs.iter().take(index).any(|other| other.name == job.name) {
            reader.fault(&job.place, "is also in `mcpServers`: choose another name");
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
        (Some("sse"), ..) => {
            reader.fault(
                &node.pointer,
                "the transport `sse` is not supported: use the server's Streamable HTTP endpoint",
            );
            None
        }
        (None | Some("stdio"), Some(command), None) => child(reader, env, &mut members, &command),
        (None | Some("http" | "streamable-http" | "streamableHttp" | "streamable_http"), None, Some(url)) => {
            endpoint(reader, &mut members, &url)
        }
        (None | Some("stdio"), Some(_), Some(_)) => {
            reader.fault(&node.pointer, "it has both `command` and `url`: leave out one of them");
            None
        }
        (None, None, None) => {
            reader.fault(
                &node.pointer,
                "it has neither `command` nor `url`: name the command that starts the server, or where it is",
            );
            None
        }
        (Some("stdio"), None, _) => {
            reader.fault(&node.pointer, "it is of type `stdio` and has no `command`");
            None
        }
        (Some("http" | "streamable-http" | "streamableHttp" | "streamable_http"), ..) => {
            reader.fault(&node.pointer, "it is of type `http`, which has a `url` and no `command`");
            None
        }
        (Some(other), ..) => {
            reader.fault(
                &format!("{}/type", node.pointer),
                format!(
                    "`{other}` is not supported: it must be `stdio` or `http`, or the kind of an outside job such \
                         as `aws-step-functions`"
                ),
            );
            None
        }
    };
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
    let args = members.find("args").map(|node| reader.texts(&node).unwrap_or_default()).unwrap_or_default();
    let cwd = members.find("cwd").and_then(|node| reader.text(&node)).map(PathBuf::from);
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

fn endpoint(reader: &mut Reader<'_>, members: &mut Members<'_>, url: &Node<'_>) -> Option<Target> {
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
    Some(Target::Http(Endpoint { url: parsed?, headers }))
}

fn checked(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("must begin with https:// or http://".to_owned()),
    }
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
        let terms = terms(reader, &mut members);
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
    server.terms = terms(reader, &mut members).or(&server.terms);
    Life::read(reader, &mut members).or(defaults).apply(server);
    let protocols =
        [("auto", None), ("2025-11-25", Some(Lifecycle::Handshake)), ("2026-07-28", Some(Lifecycle::PerRequest))];
    server.lifecycle = members.find("protocol").and_then(|node| reader.one_of(&node, &protocols)).flatten();
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
    if let Some(tools) = members.find("tools").and_then(|node| reader.members(&node)) {
        for (pattern, node) in tools.all() {
            if let Some(mut members) = reader.members(&node) {
                let concurrency = concurrency(reader, &mut members);
                let terms = Terms { concurrency, ..terms(reader, &mut members) };
                reader.refuse_unknown(&members);
                server.tools.push((Pattern::new(pattern), terms));
            }
        }
    }
    server.folds = folds(reader, &mut members);
    reader.refuse_unknown(&members);
}

/// Characters that clients accept in names of tools.
pub(crate) fn is_of_names(character: char) -> bool {
    character.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&character)
}

pub(super) fn terms(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Terms {
    let repeats = [("hints", Repeat::Hints), ("always", Repeat::Always), ("never", Repeat::Never)];
    let run_at_most = members.find("runAtMost").and_then(|node| {
        let time = reader.duration(&node)?;
        if time.is_zero() {
            reader.fault(&node.pointer, "leaves no time to run: name a time above 0");
        }
        Some(time)
    });
    let kinds = [("always", Durable::Always), ("required", Durable::Required), ("never", Durable::Never)];
    Terms {
        durable: members.find("task").and_then(|node| reader.one_of(&node, &kinds)),
        handle_after: members.find("handleAfter").and_then(|node| reader.duration(&node)),
        run_at_most,
        retention: members.find("retention").and_then(|node| reader.duration(&node)),
        repeat: members.find("repeat").and_then(|node| reader.one_of(&node, &repeats)),
        concurrency: None,
    }
}
