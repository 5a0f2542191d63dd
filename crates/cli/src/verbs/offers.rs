//! `longhaul info`, `longhaul resources` and `longhaul prompts`: the server, and what it offers in addition to tools.

use std::sync::Arc;

use longhaul_client::form::check_arguments;
use longhaul_client::{Client, Error};
use serde_json::{Map, Value, json};

use crate::args::{Global, Saved};
use crate::arguments::{self, meant};
use crate::exit::{Exit, Stop};
use crate::out::{self, block, line};
use crate::render;
use crate::save::save;
use crate::server::{connected, target};

/// Shows the server's description of itself.
pub(super) async fn info(global: &Global) -> Result<Exit, Stop> {
    let target = target(global)?;
    let (about, revision, tasks) = connected(&target, None, async |client| {
        Ok((client.about().clone(), client.revision().to_owned(), tasks(client)))
    })
    .await?;
    // Revision `2026-07-28` has it among the metadata.
    let named = about.pointer("/_meta/io.modelcontextprotocol~1serverInfo").unwrap_or(&about["serverInfo"]);
    if global.json {
        let mut shown = json!({"url": target.url.as_str(), "revision": revision, "serverInfo": named});
        for member in ["supportedVersions", "capabilities", "instructions"] {
            if let Some(value) = about.get(member) {
                shown[member] = value.clone();
            }
        }
        return out::json(&shown).map(|()| Exit::Well);
    }
    let text = |value: &Value| line(value.as_str().unwrap_or("-"));
    let names = |value: &Value| value.as_object().map(|all| line(&all.keys().cloned().collect::<Vec<_>>().join(", ")));
    let capabilities = &about["capabilities"];
    let mut rows = vec![format!("server      {} {}", text(&named["name"]), text(&named["version"]))];
    rows.push(format!("url         {}", target.url));
    rows.push(format!("revision    {}", line(&revision)));
    rows.extend(names(capabilities).map(|names| format!("offers      {names}")));
    rows.extend(names(&capabilities["extensions"]).map(|names| format!("extensions  {names}")));
    rows.push(format!("tasks       {tasks}"));
    rows.extend(about["instructions"].as_str().map(|words| format!("\n{}", block(words))));
    out::result(&rows.join("\n")).map(|()| Exit::Well)
}

/// How tasks work on this server, in words.
fn tasks(client: &Client) -> String {
    let mut words = match (client.makes_tasks(), client.session()) {
        (true, None) => "a call may become a task".to_owned(),
        (true, Some(_)) => "a call may become a task, which the server may show to its session only".to_owned(),
        (false, _) => "none: the server answers a call when it is done".to_owned(),
    };
    if client.takes_keys() {
        words.push_str("; a call that is sent again with its idempotency key is the same task");
    }
    if client.starts_later() {
        words.push_str("; a call may start later");
    }
    words
}

/// Does something with a server that declares this capability.
async fn offering<T>(
    global: &Global,
    capability: &str,
    act: impl AsyncFnOnce(&Arc<Client>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    connected(&target(global)?, None, async |client| match client.capabilities().get(capability) {
        Some(_) => act(client).await,
        None => Err(Stop::usage(format!("the server has no {capability}: `longhaul info` shows what it offers"))),
    })
    .await
}

/// Lists the resources, and the templates of further ones.
pub(super) async fn resources(global: &Global) -> Result<Exit, Stop> {
    let (resources, templates) = offering(global, "resources", async |client| {
        let templates = match client.resource_templates().await {
            // Many servers do not know the method.
            Err(Error::Refused(_)) => Vec::new(),
            templates => templates?,
        };
        Ok((client.resources().await?, templates))
    })
    .await?;
    if global.json {
        return out::json(&json!({"resources": resources, "resourceTemplates": templates})).map(|()| Exit::Well);
    }
    for one in resources.iter().chain(&templates) {
        let uri = one["uri"].as_str().or_else(|| one["uriTemplate"].as_str()).unwrap_or("-");
        let words = ["title", "name"].iter().find_map(|name| one[name].as_str()).unwrap_or_default();
        let kind = one["mimeType"].as_str().map(|kind| format!(" ({kind})")).unwrap_or_default();
        out::result(&line(&format!("{uri}  {words}{kind}")))?;
        describe(one)?;
    }
    Ok(Exit::Well)
}

/// Reads a resource, to a file if one is named.
pub(super) async fn resource(global: &Global, uri: &str, saved: &Saved) -> Result<Exit, Stop> {
    let read = offering(global, "resources", async |client| Ok(client.resource(uri).await?)).await?;
    if let Some(path) = &saved.output {
        let text = || if global.json { read.to_string() } else { render::contents(&read) };
        return save(path, saved, &render::embedded(&read), text, global.json).map(|()| Exit::Well);
    }
    let written = if global.json { out::json(&read) } else { out::result(&render::contents(&read)) };
    written.map(|()| Exit::Well)
}

/// Lists the prompts.
pub(super) async fn prompts(global: &Global) -> Result<Exit, Stop> {
    let prompts = offering(global, "prompts", async |client| Ok(client.prompts().await?)).await?;
    if global.json {
        return out::json(&json!({"prompts": prompts})).map(|()| Exit::Well);
    }
    for prompt in &prompts {
        let mark = |argument: &Value| if argument["required"] == true { "" } else { "?" };
        let named = |argument: &Value| Some(format!("{}{}", argument["name"].as_str()?, mark(argument)));
        let arguments: Vec<String> = prompt["arguments"].as_array().into_iter().flatten().filter_map(named).collect();
        out::result(&line(&format!("{}({})", name_of(prompt), arguments.join(", "))))?;
        describe(prompt)?;
    }
    Ok(Exit::Well)
}

/// Gets a prompt for these arguments.
pub(super) async fn prompt(global: &Global, name: &str, given: &[String]) -> Result<Exit, Stop> {
    let got = offering(global, "prompts", async |client| {
        let prompts = client.prompts().await?;
        let names = || prompts.iter().map(name_of);
        let missing = || Stop::usage(format!("there is no prompt `{name}`{}", meant(name, names())));
        let listed = prompts.iter().find(|prompt| name_of(prompt) == name).ok_or_else(missing)?;
        let schema = schema(listed);
        let arguments = arguments::read(given, &schema).map_err(Stop::usage)?;
        check_arguments(&arguments, &schema).map_err(Stop::usage)?;
        Ok(client.prompt(name, &arguments).await?)
    })
    .await?;
    if global.json {
        return out::json(&got).map(|()| Exit::Well);
    }
    for message in got["messages"].as_array().into_iter().flatten() {
        let role = line(message["role"].as_str().unwrap_or("-"));
        out::result(&format!("{role}: {}", render::content(&message["content"])))?;
    }
    Ok(Exit::Well)
}

/// The arguments of a prompt, all of them strings, as the schema of a tool would have them.
fn schema(prompt: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for argument in prompt["arguments"].as_array().into_iter().flatten() {
        let name = name_of(argument).to_owned();
        if argument["required"] == true {
            required.push(Value::from(name.as_str()));
        }
        properties.insert(name, json!({"type": "string"}));
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn name_of(listed: &Value) -> &str {
    listed["name"].as_str().unwrap_or_default()
}

/// The first line of a description.
fn describe(listed: &Value) -> Result<(), Stop> {
    match listed["description"].as_str().and_then(|words| words.lines().next()) {
        Some(first) => out::result(&format!("    {}", line(first))),
        None => Ok(()),
    }
}
