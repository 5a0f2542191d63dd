//! Tools that are jobs of other systems: entries beside the servers, each of which is one tool.

use std::time::Duration;

use longhaul_jobs::{BatchJobSpec, CodeBuildSpec, EcsTaskSpec, GlueJobSpec, HttpJobSpec, Rights, StateMachine};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::read::{is_of_names, terms};
use super::reader::{Members, Node, Reader, unknown};
use super::terms::{Durable, Terms};

mod http;

/// An entry that is an outside job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutsideJob {
    /// Where it is in the configuration, as a JSON pointer.
    pub(crate) place: String,
    /// The word for its kind.
    pub(crate) system: &'static str,
    /// What the tool is called.
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: JsonObject,
    pub(crate) output_schema: Option<JsonObject>,
    pub(crate) terms: Terms,
    /// How long to wait between two polls; `None` for longer and longer pauses.
    pub(crate) poll_every: Option<Duration>,
    /// Which job it is, or why this process cannot know.
    pub(crate) kind: Result<Kind, String>,
}

/// Which job of which system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    StepFunctions(StateMachine),
    Batch(BatchJobSpec),
    CodeBuild(CodeBuildSpec),
    Ecs(EcsTaskSpec),
    Glue(GlueJobSpec),
    Http(Box<HttpJobSpec>),
}

impl Kind {
    /// What the gateway has to be allowed by AWS.
    pub(crate) fn rights(&self) -> Vec<Rights> {
        match self {
            Self::StepFunctions(machine) => machine.rights(),
            Self::Batch(spec) => spec.rights(),
            Self::CodeBuild(spec) => spec.rights(),
            Self::Ecs(spec) => spec.rights(),
            Self::Glue(spec) => spec.rights(),
            Self::Http(_) => Vec::new(),
        }
    }
}

/// How an entry of each kind is read.
type Read = fn(&mut Reader<'_>, &mut Members<'_>) -> Option<Kind>;

const KINDS: [(&str, Read); 6] = [
    ("aws-step-functions", state_machine),
    ("aws-batch", batch_job),
    ("aws-codebuild", build),
    ("aws-ecs-task", ecs_task),
    ("aws-glue", glue_job),
    ("http-job", http::http_job),
];

/// Whether an entry says that it is an outside job.
pub(super) fn is_one(entry: &Node<'_>) -> bool {
    let kind = entry.value.get("type").and_then(Value::as_str);
    // What begins so is no server, but may have a mistake in it.
    kind.is_some_and(|kind| kind.starts_with("aws-") || KINDS.iter().any(|(name, _)| *name == kind))
}

/// The outside job of an entry; `None` if it is switched off or has mistakes.
pub(super) fn read(reader: &mut Reader<'_>, name: &str, node: &Node<'_>) -> Option<OutsideJob> {
    let mut members = reader.members(node)?;
    if members.find("disabled").is_some_and(|disabled| disabled.value == &Value::Bool(true)) {
        return None;
    }
    if name.is_empty() || !name.chars().all(is_of_names) {
        let what =
            "its name is the name of a tool, which has letters, digits, `_`, `-` and `.` only: choose another one";
        reader.fault(&node.pointer, what);
    }
    let kind = members.find("type")?;
    let word = kind.value.as_str().unwrap_or_default();
    let Some((system, read)) = KINDS.iter().find(|(known, _)| *known == word) else {
        reader.fault(&kind.pointer, format!("`{word}` {}", unknown(word, KINDS.iter().map(|(known, _)| *known))));
        return None;
    };
    let description = required(reader, &mut members, "description", Reader::text);
    let title = members.find("title").and_then(|node| reader.text(&node));
    let input_schema = members.find("inputSchema").map(|node| schema(reader, &node));
    let output_schema = members.find("outputSchema").map(|node| schema(reader, &node));
    let terms = terms(reader, &mut members);
    if terms.durable == Some(Durable::Never) {
        let what = "`never` is for tools that are quick: a job needs a task. Leave it out, or write \"always\" or \
                    \"required\"";
        reader.fault(&format!("{}/task", node.pointer), what);
    }
    let poll_every = members.find("pollEvery").and_then(|node| {
        let every = reader.duration(&node)?;
        if every < crate::limits::POLL_EVERY_LEAST {
            let least = crate::limits::POLL_EVERY_LEAST.as_millis();
            reader.fault(&node.pointer, format!("is too often: at least \"{least}ms\""));
        }
        Some(every)
    });
    let kind = read(reader, &mut members);
    reader.refuse_unknown(&members);
    let kind = match reader.take_unset() {
        Some(variable) => Err(format!("`{variable}` is not set here")),
        None => Ok(kind?),
    };
    Some(OutsideJob {
        place: node.pointer.clone(),
        system,
        name: name.to_owned(),
        title,
        description: description?,
        input_schema: input_schema.unwrap_or_else(|| Some(any_object()))?,
        output_schema: output_schema.flatten(),
        terms,
        poll_every,
        kind,
    })
}

fn state_machine(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let machine = required(reader, members, "stateMachine", |reader, node| {
        let arn = reader.text(node)?;
        reader.read(node, StateMachine::of_arn(&arn))
    });
    machine.map(Kind::StepFunctions)
}

fn batch_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let job_queue = required(reader, members, "jobQueue", name);
    let job_definition = required(reader, members, "jobDefinition", name);
    Some(Kind::Batch(BatchJobSpec { job_queue: job_queue?, job_definition: job_definition? }))
}

fn build(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let project = required(reader, members, "project", name)?;
    Some(Kind::CodeBuild(CodeBuildSpec { project }))
}

fn ecs_task(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let cluster = required(reader, members, "cluster", name);
    let task_definition = required(reader, members, "taskDefinition", name);
    let container = required(reader, members, "container", name);
    let mut list = |key| members.find(key).and_then(|node| reader.texts(&node)).unwrap_or_default();
    let (subnets, security_groups, roles) = (list("subnets"), list("securityGroups"), list("roles"));
    if subnets.is_empty() && !security_groups.is_empty() {
        reader.fault(&format!("{}/securityGroups", members.node.pointer), "needs `subnets` too");
    }
    Some(Kind::Ecs(EcsTaskSpec {
        cluster: cluster?,
        task_definition: task_definition?,
        container: container?,
        subnets,
        security_groups,
        roles,
    }))
}

fn glue_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let job_name = required(reader, members, "jobName", name)?;
    Some(Kind::Glue(GlueJobSpec { job_name }))
}

/// A name of something at AWS, which also becomes part of an ARN: there, `*` would be any.
fn name(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    let text = reader.text(node)?;
    let is_name = !text.is_empty() && !text.contains(['*', '?', '$', '{', '}']) && !text.contains(char::is_whitespace);
    let read = if is_name {
        Ok(text)
    } else {
        Err(format!("`{text}` is not a name: it is empty, or has spaces or wildcards"))
    };
    reader.read(node, read)
}

/// The schema of arguments that nobody describes.
fn any_object() -> JsonObject {
    let schema = json!({"type": "object"});
    schema.as_object().cloned().unwrap_or_default()
}

/// Whether it is a schema that can be used is checked when the gateway starts.
fn schema(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<JsonObject> {
    let schema = node.value.as_object().filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
    if schema.is_none() {
        reader.fault(&node.pointer, "must be a JSON schema of type \"object\"");
    }
    schema.cloned()
}

pub(super) fn required<'e, T>(
    reader: &mut Reader<'e>,
    members: &mut Members<'_>,
    key: &'static str,
    read: impl FnOnce(&mut Reader<'e>, &Node<'_>) -> Option<T>,
) -> Option<T> {
    match members.find(key) {
        Some(node) => read(reader, &node),
        None => {
            reader.fault(&members.node.pointer, format!("it has no `{key}`"));
            None
        }
    }
}
