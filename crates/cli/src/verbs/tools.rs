//! `longhaul tools`.

use longhaul_client::Tool;
use serde_json::{Value, json};

use crate::args::Global;
use crate::arguments::meant;
use crate::exit::{Exit, Stop};
use crate::out::{self, block, line};
use crate::render::signature;
use crate::server::{connect, target};

/// Lists the tools, or shows one.
pub(super) async fn run(global: &Global, name: Option<&str>) -> Result<Exit, Stop> {
    let client = connect(&target(global)?, None).await?;
    let tools = client.tools().await?;
    client.close().await;
    match name {
        Some(name) => show(global, find(&tools, name)?),
        None if global.json => {
            out::json(&json!({"tools": tools.iter().map(|tool| &tool.raw).collect::<Vec<&Value>>()}))
        }
        None => tools.iter().for_each(list),
    }
    Ok(Exit::Well)
}

/// The tool of this name.
pub(super) fn find<'t>(tools: &'t [Tool], name: &str) -> Result<&'t Tool, Stop> {
    let known = || tools.iter().map(|tool| &tool.name);
    let missing = || Stop::usage(format!("there is no tool `{name}`{}", meant(name, known())));
    tools.iter().find(|tool| tool.name == name).ok_or_else(missing)
}

fn list(tool: &Tool) {
    out::result(&signature(tool));
    if let Some(first) = tool.description().lines().next() {
        out::result(&format!("    {}", line(first)));
    }
}

fn show(global: &Global, tool: &Tool) {
    if global.json {
        return out::json(&tool.raw);
    }
    out::result(&format!("{}\n\n{}\n", signature(tool), block(tool.description())));
    out::result(&format!("{:#}", tool.schema()));
}
