//! `longhaul deploy` and the verbs that come after it, as their users type them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use harness::caller::Caller;
use harness::emulator::fresh_name;
use harness::{file, output_of, program};
use serde_json::{Value, json};

use super::built::{Built, script};
use super::process::endpoint;
use super::programs::GATEWAY;
use super::tools::with_sdk;

/// Parameters for the emulator and a test.
const PARAMETERS: [&str; 4] = [
    "AuthMode=anonymous",
    "Endpoint=function-url-buffered",
    "WorkerTimeoutSeconds=30",
    "Settings=lease-ms=2000 heartbeat-ms=500 resend-ms=2000 diagnostics=true",
];

/// The functions that every stack has.
const FUNCTIONS: [&str; 3] = ["Api", "Worker", "DeadLetterWorker"];

/// A stack that the command deploys, with the packages and the template for it. Deleted when dropped.
struct Stack {
    built: Built,
    name: String,
}

impl Stack {
    fn new() -> Self {
        let built = Built::new();
        fs::write(built.0.join("emulator.yaml"), for_the_emulator(&file("template.yaml"))).unwrap();
        Self { built, name: fresh_name() }
    }

    fn package(&self, program: &str) -> PathBuf {
        self.built.0.join("target/lambda").join(program).join("bootstrap.zip")
    }

    /// Adds a file to a package, which is another one then.
    fn change(&self, program: &str, text: &str) {
        let add = "import sys,zipfile; zipfile.ZipFile(sys.argv[1], 'a').writestr('release', sys.argv[2])";
        output_of(Command::new("python3").args(["-c", add]).arg(self.package(program)).arg(text));
    }

    /// Replaces a package by one with this script as its program.
    fn replace(&self, program: &str, script: &str) {
        let write = "import sys,zipfile\n\
            i=zipfile.ZipInfo('bootstrap'); i.external_attr=0o100755<<16; i.create_system=3\n\
            zipfile.ZipFile(sys.argv[1], 'w').writestr(i, sys.argv[2])";
        output_of(Command::new("python3").args(["-c", write]).arg(self.package(program)).arg(script));
    }

    /// Replaces both packages by those of the gateway, whose bundle has one job with this name.
    fn bundle(&self, job: &str) {
        let machine = "arn:aws:states:us-east-1:000000000000:stateMachine:etl";
        let entry = json!({"type": "aws-step-functions", "stateMachine": machine, "description": "Loads"});
        let config = json!({"mcpServers": {job: entry}}).to_string();
        let write = "import pathlib,sys\nsys.path.insert(0, sys.argv[1])\nfrom pack_lambda import zipped\n\
            program=pathlib.Path(sys.argv[3]).read_bytes()\n\
            pathlib.Path(sys.argv[2]).write_bytes(zipped(program, 1, files={'mcp.json': (sys.argv[4], 0o100644)}))";
        for (name, program) in [("api", GATEWAY.api()), ("worker", GATEWAY.worker())] {
            let mut python = Command::new("python3");
            python.args(["-B", "-c", write]).arg(script("")).arg(self.package(name)).arg(program).arg(&config);
            output_of(&mut python);
        }
    }

    /// Runs the command with a verb about this stack.
    fn run(&self, verb: &str, flags: &[&str]) -> Output {
        let mut command = Command::new(program("longhaul"));
        command.arg(verb).arg(&self.name).args(flags).current_dir(self.built.0.join("target"));
        command.env("AWS_ENDPOINT_URL", endpoint()).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.output().unwrap()
    }

    /// Its output, if it ends well.
    fn well(&self, verb: &str, flags: &[&str]) -> String {
        let output = self.run(verb, flags);
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Its sentence, if it does not.
    fn refused(&self, verb: &str, flags: &[&str]) -> String {
        let output = self.run(verb, flags);
        assert!(!output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    /// The flags that name the packages.
    fn packages(&self) -> [String; 4] {
        let path = |program| self.package(program).to_str().unwrap().to_owned();
        ["--api".to_owned(), path("api"), "--worker".to_owned(), path("worker")]
    }

    /// The flags of a deployment with additional parameters.
    fn deployment(&self, parameters: &[&str]) -> Vec<String> {
        let template = self.built.0.join("emulator.yaml").to_str().unwrap().to_owned();
        let mut flags = Vec::from(self.packages());
        flags.extend(["--yes".to_owned(), "--template".to_owned(), template]);
        let name = |parameter: &str| parameter.split('=').next().map(str::to_owned);
        let is_default = |default: &&&str| !parameters.iter().any(|given| name(given) == name(default));
        let all = PARAMETERS.iter().filter(is_default).chain(parameters);
        flags.extend(all.flat_map(|parameter| ["--parameter".to_owned(), (*parameter).to_owned()]));
        flags
    }

    fn deploy(&self, parameters: &[&str]) -> String {
        let flags = self.deployment(parameters);
        self.well("deploy", &flags.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn update(&self) -> String {
        let packages = self.packages();
        self.well("update", &[packages.each_ref().map(String::as_str).as_slice(), &["--yes"]].concat())
    }

    /// The hash of each function's code, as Lambda has it, by the function's name in the template.
    fn code(&self) -> BTreeMap<String, String> {
        let program = "client = boto3.client('lambda')\n\
            stacks = boto3.client('cloudformation')\n\
            page = stacks.list_stack_resources(StackName=sys.argv[1])['StackResourceSummaries']\n\
            print(json.dumps({r['LogicalResourceId']: client.get_function_configuration(\
            FunctionName=r['PhysicalResourceId'])['CodeSha256'] for r in page if r['ResourceType'] == \
            'AWS::Lambda::Function'}))";
        serde_json::from_value(with_sdk(program, &[&self.name])).unwrap()
    }

    /// The same hashes, of the present packages: every function but `Api` has the worker's.
    fn packed(&self, functions: &[&str]) -> BTreeMap<String, String> {
        let hash = "import base64,hashlib,sys\n\
            print(base64.b64encode(hashlib.sha256(open(sys.argv[1],'rb').read()).digest()).decode(), end='')";
        let of = |program: &str| output_of(Command::new("python3").args(["-c", hash]).arg(self.package(program)));
        let (api, worker) = (of("api"), of("worker"));
        let code = |name: &str| if name == "Api" { api.clone() } else { worker.clone() };
        functions.iter().map(|name| ((*name).to_owned(), code(name))).collect()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.well("status", &["--json"])).unwrap()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        drop(self.run("destroy", &["--yes"]));
    }
}

/// The template without what the emulator cannot do: queues that demand TLS, and streams of many tables at a time.
pub(super) fn for_the_emulator(template: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = template.lines().peekable();
    let mut leaves_out = false;
    while let Some(line) = lines.next() {
        if !line.starts_with("   ") && !line.is_empty() {
            let kind = lines.peek().map_or("", |next| next.trim());
            leaves_out = kind == "Type: AWS::SQS::QueuePolicy" || line == "  UnclaimedTasks:";
        }
        if !leaves_out {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// The same endpoint by a name that every machine can resolve.
fn reachable(url: &str) -> String {
    let host = url.split('/').nth(2).unwrap().split('.').next().unwrap();
    format!("{}/_aws/lambda-url/{host}/mcp", endpoint())
}

/// Whether the server at this endpoint runs a task to its end.
async fn works(url: &str) {
    let caller = Caller::new(&reachable(url));
    let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    caller.until(&id, "completed").await;
}

#[tokio::test]
async fn a_stack_is_deployed_updated_rolled_back_and_deleted() {
    let stack = Stack::new();
    let url = stack.deploy(&[]);
    assert!(url.ends_with("/mcp"), "{url}");
    works(&url).await;
    let (first, status) = (stack.packed(&FUNCTIONS), stack.status());
    assert_eq!(stack.code(), first);
    assert_eq!(status["status"], "CREATE_COMPLETE");
    assert_eq!(status["healthy"], true);
    assert_eq!(status["packages"].as_array().unwrap().len(), 2, "{status}");
    assert_eq!(status["outputs"]["McpUrl"], url);

    let why = stack.refused("rollback", &["--yes"]);
    assert!(why.contains("has no earlier packages to go back to"), "{why}");

    stack.change("worker", "2");
    assert_eq!(stack.update(), url);
    assert_eq!(stack.code(), stack.packed(&FUNCTIONS));
    assert_ne!(stack.status()["packages"], status["packages"]);
    works(&url).await;
    // The same packages once more change nothing, and are not remembered.
    assert_eq!(stack.update(), url);

    assert_eq!(stack.well("rollback", &["--yes"]), url);
    assert_eq!(stack.code(), first);
    assert_eq!(stack.status()["packages"], status["packages"]);
    works(&url).await;
    assert!(stack.refused("rollback", &["--yes"]).contains("no earlier packages"));

    let logs = stack.well("logs", &["--since", "1h"]);
    assert!(logs.lines().any(|line| line.contains(" Worker ")), "{logs}");
    let logs = stack.well("logs", &["--since", "1h", "--function", "Api", "--json"]);
    assert!(logs.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["function"] == "Api"), "{logs}");
    assert!(stack.refused("logs", &["--function", "Wroker"]).contains("did you mean `Worker`?"));

    assert!(stack.refused("destroy", &[]).contains("add --yes"));
    stack.well("destroy", &["--yes"]);
    assert!(stack.refused("status", &[]).contains("there is no stack"));
}

#[tokio::test]
async fn an_update_replaces_the_code_of_the_publisher_and_of_workers_of_a_class() {
    let stack = Stack::new();
    let url = stack.deploy(&["Push=on", "WorkerClass=heavy"]);
    let functions = [FUNCTIONS.as_slice(), &["ClassWorker", "Publisher"]].concat();
    let first = stack.packed(&functions);
    assert_eq!(stack.code(), first);
    // Files next to the program, such as the servers behind a gateway, are part of the package.
    stack.change("worker", "2");
    stack.change("api", "2");
    stack.update();
    assert_eq!(stack.code(), stack.packed(&functions));
    works(&url).await;
    stack.well("rollback", &["--yes"]);
    assert_eq!(stack.code(), first);
}

/// The names of the tools at this endpoint.
async fn tools(url: &str) -> Vec<String> {
    let listed = Caller::new(&reachable(url)).result("tools/list", json!({})).await;
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    listed["tools"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn an_update_replaces_the_bundle_of_a_gateway_and_a_rollback_brings_it_back() {
    let stack = Stack::new();
    stack.bundle("load");
    let url = stack.deploy(&["Settings=lease-ms=2000 heartbeat-ms=500"]);
    let first = tools(&url).await;
    assert!(first.iter().any(|tool| tool.contains("load")), "{first:?}");
    stack.bundle("clean");
    stack.update();
    let second = tools(&url).await;
    assert!(second.iter().any(|tool| tool.contains("clean")) && second != first, "{second:?}");
    assert_eq!(stack.code(), stack.packed(&FUNCTIONS));
    stack.well("rollback", &["--yes"]);
    assert_eq!(tools(&url).await, first);
}

#[test]
fn what_cannot_be_deployed_has_one_sentence_and_makes_nothing() {
    let stack = Stack::new();
    let flags = stack.deployment(&[]);
    let with = |more: &[&str]| {
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        stack.refused("deploy", &flags)
    };
    for (more, said) in [
        (&["--parameter", "AuthMod=iam"][..], "did you mean `AuthMode`?"),
        (&["--parameter", "Authentication={\"scope-cal\": \"a\"}"], "`scope-cal` in Authentication is not a setting"),
        (&["--parameter", "Architecture=riscv"], "but the packages were built for"),
        (&["--tag", "team"], "the tag `team` is not NAME=VALUE"),
        (&["--bucket", "No_Bucket"], "is not the name of a bucket"),
    ] {
        let why = with(more);
        assert!(why.contains(said) && why.lines().count() == 1, "{more:?}: {why}");
    }
    let why = stack.refused("deploy", &["--yes", "--parameter", "AuthMode=iam"]);
    assert!(why.contains("there are no packages: name them with --api FILE"), "{why}");
    for verb in ["update", "rollback", "status", "logs", "destroy"] {
        let why = stack.refused(verb, &[]);
        assert!(why.contains("there is no stack") && why.lines().count() == 1, "{verb}: {why}");
    }
}

#[test]
fn a_first_deployment_with_sam_has_to_be_told_who_may_call() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("architecture"), "x86_64\n").unwrap();
    let mut deploy = Command::new(script("deploy.sh"));
    // It finds no stack, and would deploy none.
    deploy.args(["--stack-name", "new"]).env("SAM", "/bin/false").env("LAMBDA_DIR", folder.path());
    let output = deploy.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(["bearer ", "oauth ", "iam "].iter().all(|mode| said.contains(mode)), "{said}");
}

#[test]
fn functions_that_refuse_their_settings_fail_the_deployment_with_their_own_sentence() {
    let stack = Stack::new();
    let script = "#!/bin/sh\necho 'error: the configuration cannot be used: `x` is not a setting' >&2\nexit 1\n";
    stack.replace("worker", script);
    let flags = stack.deployment(&[]);
    let why = stack.refused("deploy", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let said = "orker does not start: the configuration cannot be used: `x` is not a setting";
    assert!(why.lines().last().unwrap().contains(said), "{why}");
}

#[test]
fn a_stack_that_fails_is_told_with_its_first_cause() {
    let stack = Stack::new();
    let template = stack.built.0.join("emulator.yaml");
    let never = [
        "Resources:",
        "  Handle:",
        "    Type: AWS::CloudFormation::WaitConditionHandle",
        "  Never:",
        "    Type: AWS::CloudFormation::WaitCondition",
        "    Properties: { Handle: !Ref Handle, Timeout: \"1\" }\n",
    ]
    .join("\n");
    fs::write(&template, fs::read_to_string(&template).unwrap().replacen("Resources:\n", &never, 1)).unwrap();
    let flags = stack.deployment(&[]);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let why = stack.refused("deploy", &flags);
    let last = why.lines().last().unwrap();
    assert!(last.contains("the stack could not be changed, and is ROLLBACK_COMPLETE: Never"), "{why}");
    let why = stack.refused("deploy", &flags);
    assert!(why.contains(&format!("`longhaul destroy {}` removes it", stack.name)), "{why}");
}
