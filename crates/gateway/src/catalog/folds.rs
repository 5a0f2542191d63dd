//! The tools of a server as clients see them: the members of a combined tool are one tool.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::json;

use crate::config::{Fold, Server, unknown};
use crate::start_error::Problem;
use crate::verbatim;

/// A tool that clients see.
pub(super) struct Shown {
    /// The name that clients see, without the server's prefix.
    pub(super) name: String,
    /// As the server lists it; for a combined tool, the tool that starts the job.
    pub(super) tool: Tool,
    pub(super) fold: Option<Arc<Fold>>,
}

/// The tools that clients see, and the mistakes in the combined tools.
pub(super) fn shown(tools: &[Tool], server: &Server) -> (Vec<Shown>, Vec<Problem>) {
    let mut problems: Vec<Problem> = server.folds.iter().flat_map(|fold| faults(fold, tools)).collect();
    let folded: BTreeSet<&str> = server.folds.iter().flat_map(|fold| fold.tools().map(|(_, tool)| tool)).collect();
    let folds: Vec<Shown> = server.folds.iter().filter_map(|fold| one(fold, tools)).collect();
    let mut shown = Vec::new();
    for tool in tools {
        if !folded.contains(&*tool.name) {
            shown.push(Shown { name: tool.name.to_string(), tool: tool.clone(), fold: None });
        }
    }
    for fold in &folds {
        if let Some(fold) = fold.fold.as_ref().filter(|fold| shown.iter().any(|other| other.name == fold.name)) {
            let what = format!("`{}` is another tool of `{}`: choose another name", fold.name, server.name);
            problems.push(Problem::Entry { place: format!("{}/name", fold.place), what });
        }
    }
    if problems.is_empty() {
        shown.extend(folds);
    }
    (shown, problems)
}

fn one(fold: &Fold, tools: &[Tool]) -> Option<Shown> {
    let find = |name: &str| tools.iter().find(|tool| tool.name == name);
    let mut tool = find(&fold.start)?.clone();
    // The output is that of another tool.
    tool.output_schema = find(fold.result.as_deref().unwrap_or(&fold.status))?.output_schema.clone();
    match &tool.output_schema {
        Some(schema) => verbatim::set_member(&mut tool.meta, "outputSchema", &json!(schema).to_string()),
        None => verbatim::remove_member(&mut tool.meta, "outputSchema"),
    }
    Some(Shown { name: fold.name.clone(), tool, fold: Some(Arc::new(fold.clone())) })
}

fn faults(fold: &Fold, tools: &[Tool]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (member, name) in fold.tools() {
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            let names = tools.iter().map(|tool| &*tool.name);
            let what = format!("`{name}` {}", unknown(name, names));
            problems.push(Problem::Entry { place: format!("{}/{member}", fold.place), what });
            continue;
        };
        let arguments = tool.input_schema.get("properties").and_then(serde_json::Value::as_object);
        if let Some(arguments) = arguments.filter(|known| member != "start" && !known.contains_key(&fold.id_argument)) {
            let what = unknown(&fold.id_argument, arguments.keys().map(String::as_str));
            let what = format!("the argument `{}` of `{name}` {what}", fold.id_argument);
            problems.push(Problem::Entry { place: format!("{}/idArgument", fold.place), what });
        }
    }
    problems
}
