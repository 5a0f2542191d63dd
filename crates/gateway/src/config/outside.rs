//! Tools that are jobs of other systems: entries next to the servers, each of which is one tool.

use std::time::Duration;

use crate::jobs::{BatchJobSpec, CodeBuildSpec, EcsTaskSpec, GlueJobSpec, HttpJobSpec, Rights, StateMachine};
use rmcp::model::JsonObject;
use serde_json::{Map, Value};

use super::reader::{Members, Node, Reader, is_of_names, unknown};
use super::terms::{Durable, Terms};

mod http;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutsideJob {
    /// Where it is in the configuration, as a JSON pointer.
    pub(crate) place: String,
    /// The word for its kind.
    pub(crate) system: &'static str,
    /// The name of the tool.
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
    /// The AWS permissions that the gateway needs.
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

type Read = fn(&mut Reader<'_>, &mut Members<'_>) -> Option<Kind>;

const KINDS: [(&str, Read); 6] = [
    ("aws-step-functions", state_machine),
    ("aws-batch", batch_job),
    ("aws-codebuild", build),
    ("aws-ecs-task", ecs_task),
    ("aws-glue", glue_job),
    ("http-job", |reader, members| http::http_job(reader, members).map(Kind::Http)),
];

/// Whether an entry is an external job by its type.
pub(super) fn is_one(entry: &Node<'_>) -> bool {
    let kind = entry.value.get("type").and_then(Value::as_str);
    // An entry with this prefix is not a server, but may have a mistake in its type.
    kind.is_some_and(|kind| kind.starts_with("aws-") || KINDS.iter().any(|(name, _)| *name == kind))
}

/// The external job of an entry; `None` if it is switched off or has mistakes.
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
    let description = members.required(reader, "description", Reader::text);
    let title = members.optional(reader, "title", Reader::text);
    // The schema of arguments without a description.
    let any = Map::from_iter([("type".to_owned(), "object".into())]);
    let mut input_schema = members.find("inputSchema").map_or(Some(any), |node| schema(reader, &node));
    let output_schema = members.optional(reader, "outputSchema", schema);
    let terms = Terms::read(reader, &mut members);
    if terms.durable == Some(Durable::Never) {
        let what = "`never` is for tools that are quick: a job needs a task. Leave it out, or write \"always\" or \
                    \"required\"";
        reader.fault(&members.pointer("task"), what);
    }
    let poll_every = members.optional(reader, "pollEvery", |reader, node| {
        let every = reader.duration(node)?;
        if every < crate::limits::POLL_EVERY_LEAST {
            let least = crate::limits::POLL_EVERY_LEAST.as_millis();
            reader.fault(&node.pointer, format!("is too often: at least \"{least}ms\""));
        }
        Some(every)
    });
    let mut kind = read(reader, &mut members);
    if let (Some(kind), Some(schema)) = (&mut kind, &mut input_schema) {
        name_arguments(reader, &members.pointer("inputSchema"), kind, schema);
    }
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
        input_schema: input_schema?,
        output_schema,
        terms,
        poll_every,
        kind,
    })
}

/// If arguments become variables or parameters of the system, only those that the schema names are passed on, and none
/// with a reserved name.
fn name_arguments(reader: &mut Reader<'_>, place: &str, kind: &mut Kind, schema: &mut JsonObject) {
    let (arguments, reserves): (_, fn(&str) -> bool) = match kind {
        Kind::CodeBuild(spec) => (&mut spec.arguments, CodeBuildSpec::reserves),
        Kind::Ecs(spec) => (&mut spec.arguments, EcsTaskSpec::reserves),
        Kind::Glue(spec) => (&mut spec.arguments, GlueJobSpec::reserves),
        Kind::StepFunctions(_) | Kind::Batch(_) | Kind::Http(_) => return,
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    arguments.extend(properties.into_iter().flat_map(Map::keys).cloned());
    for name in arguments.iter().filter(|name| reserves(name)) {
        let what = format!("`{name}` is reserved, because it would change how the job runs: choose another name");
        reader.fault(&format!("{place}/properties/{name}"), what);
    }
    schema.entry("additionalProperties").or_insert(Value::Bool(false));
}

fn state_machine(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let machine = members.required(reader, "stateMachine", |reader, node| {
        let arn = reader.text(node)?;
        reader.read(node, StateMachine::of_arn(&arn))
    });
    machine.map(Kind::StepFunctions)
}

fn batch_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let [job_queue, job_definition] = ["jobQueue", "jobDefinition"].map(|key| members.required(reader, key, name));
    Some(Kind::Batch(BatchJobSpec { job_queue: job_queue?, job_definition: job_definition? }))
}

fn build(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    members
        .required(reader, "project", name)
        .map(|project| Kind::CodeBuild(CodeBuildSpec { project, arguments: Vec::new() }))
}

fn ecs_task(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    let [cluster, task_definition, container] =
        ["cluster", "taskDefinition", "container"].map(|key| members.required(reader, key, name));
    let [subnets, security_groups, capacity_providers, roles] =
        ["subnets", "securityGroups", "capacityProviders", "roles"]
            .map(|key| members.optional(reader, key, Reader::texts).unwrap_or_default());
    let assign_public_ip = members.optional(reader, "assignPublicIp", boolean);
    for (key, is_there) in
        [("securityGroups", !security_groups.is_empty()), ("assignPublicIp", assign_public_ip.is_some())]
    {
        if subnets.is_empty() && is_there {
            reader.fault(&members.pointer(key), "needs `subnets` too");
        }
    }
    Some(Kind::Ecs(EcsTaskSpec {
        cluster: cluster?,
        task_definition: task_definition?,
        container: container?,
        subnets,
        security_groups,
        assign_public_ip: assign_public_ip.unwrap_or_default(),
        capacity_providers,
        roles,
        arguments: Vec::new(),
    }))
}

fn boolean(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<bool> {
    reader.read(node, node.value.as_bool().ok_or_else(|| "must be true or false".to_owned()))
}

fn glue_job(reader: &mut Reader<'_>, members: &mut Members<'_>) -> Option<Kind> {
    members
        .required(reader, "jobName", name)
        .map(|job_name| Kind::Glue(GlueJobSpec { job_name, arguments: Vec::new() }))
}

/// The name of an AWS resource, which also becomes part of an ARN. There `*` would stand for any name.
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

/// The gateway checks at its start whether the schema can be used.
fn schema(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<JsonObject> {
    let schema = node.value.as_object().filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
    if schema.is_none() {
        reader.fault(&node.pointer, "must be a JSON schema of type \"object\"");
    }
    schema.cloned()
}
