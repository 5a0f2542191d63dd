//! Jobs of other systems as tools, by configuration alone.

use serde_json::{Value, json};

use super::process::{Setup, Somewhere};

/// A gateway whose tool `etl` is this state machine, with these additional members of its entry.
pub(crate) fn etl(machine: &str, more: Value) -> Setup {
    let mut etl = json!({
        "type": "aws-step-functions", "stateMachine": machine, "description": "Loads the sales of a month",
        "inputSchema": {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]},
    });
    etl.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Setup::config(|_setup| json!({"mcpServers": {"etl": etl}}))
}

#[test]
fn rights_are_printed_for_the_named_resources_only() {
    let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:etl";
    let policy = etl(machine, json!({})).rights();
    let resources: Vec<&str> = policy["Statement"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|statement| statement["Resource"].as_array().unwrap())
        .map(|resource| resource.as_str().unwrap())
        .collect();
    assert_eq!(resources, [machine, "arn:aws:states:eu-west-1:123456789012:execution:etl:*"]);
}

#[tokio::test]
async fn a_job_over_http_is_a_tool_by_configuration_alone() {
    let (_server, url) = Somewhere::fixture("http-jobs", &[]);
    let base = url.trim_end_matches("/mcp").to_owned();
    let setup = Setup::config(|_setup| {
        let start = json!({"url": format!("{base}/jobs"), "body": {"what": "{input/what}", "by": "{key}"}});
        json!({"mcpServers": {"render": {
            "type": "http-job", "description": "Renders a scene", "headers": {"Authorization": "Bearer ${HOME}"},
            "start": start, "status": format!("{base}/jobs/{{id}}"), "stop": format!("{base}/jobs/{{id}}"),
            "id": "/id", "state": "/state", "done": ["done"], "failed": ["failed"], "result": "/output",
            "progress": "/frames", "pollEvery": "200ms",
        }}})
    });
    let gateway = setup.start();
    let task = gateway.ended("render", json!({"what": "a dragon"})).await;
    let output = &task["result"]["structuredContent"];
    assert_eq!((&output["what"], &output["authorized"]), (&json!("a dragon"), &json!(true)), "{task}");
    assert!(output["by"].as_str().unwrap().ends_with(task["taskId"].as_str().unwrap()), "{task}");
}

#[test]
fn every_mistake_in_an_entry_is_named_with_its_place() {
    let said = Setup::config(|_setup| {
        json!({"mcpServers": {
            "a b": {"type": "aws-step-functions", "stateMachine": "etl", "description": "x", "inputSchema": [],
                "runAtMost": "soon"},
            "etl": {"type": "aws-step-function", "description": "x"},
            "crawl": {
                "type": "aws-ecs-task", "description": "x", "cluster": "c", "taskDefinition": "t", "container": "main",
                "assignPublicIp": "yes",
                "inputSchema": {"type": "object", "properties": {"LD_PRELOAD": {}, "depth": {}}},
            },
            "half": {"type": "aws-batch", "jobQueue": "q*", "task": "never", "wait": true},
            "web": {
                "type": "http-job", "description": "x", "id": "/id", "state": "state", "done": [],
                "start": "https://{key}.example.com/jobs", "status": {"url": "https://example.com/{key}"},
            },
        }, "longhaul": {"servers": {"half": {"prefix": ""}}}})
    })
    .refusal();
    for fault in [
        "/mcpServers/a b: its name is the name of a tool",
        "/mcpServers/a b/stateMachine: `etl` is not the ARN of a state machine",
        "/mcpServers/a b/inputSchema: must be a JSON schema of type \"object\"",
        "/mcpServers/a b/runAtMost: `soon` is not a time",
        "/mcpServers/etl/type: `aws-step-function` is not known; did you mean `aws-step-functions`?",
        "/mcpServers/crawl/assignPublicIp: must be true or false",
        "/mcpServers/crawl/inputSchema/properties/LD_PRELOAD: `LD_PRELOAD` is reserved",
        "/mcpServers/half: it has no `description`",
        "/mcpServers/half/jobQueue: `q*` is not a name",
        "/mcpServers/half: it has no `jobDefinition`",
        "/mcpServers/half/task: `never` is for tools that are quick",
        "/mcpServers/half/wait: is not known",
        "/mcpServers/web/start: has a placeholder before the path",
        "/mcpServers/web/status/url: has a placeholder that is not known in this request; there are: {id}",
        "/mcpServers/web/state: `state` is not a JSON pointer",
        "/mcpServers/web/done: names no state",
    ] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
}
