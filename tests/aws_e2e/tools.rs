//! A deployment's means for its tools: permissions, settings, secrets, and workers for a class.

use std::process::Command;

use harness::caller::structured;
use harness::emulator::fresh_name;
use harness::{output_of, root};
use serde_json::{Value, json};

use super::inside::messages_in;
use super::process::{Setup, endpoint, sandboxes_of};

/// Runs a program in Python, which prints JSON, with the SDK and its clients for the emulator.
pub(crate) fn with_sdk(program: &str, arguments: &[&str]) -> Value {
    let mut python = Command::new(root().join(".cache/tools/aws/bin/python"));
    python.args(["-c", &format!("import boto3, json, sys\n{program}")]).args(arguments);
    serde_json::from_str(&output_of(on_sdk(&mut python))).unwrap()
}

/// The same command, with the variables with which clients of the SDK reach the emulator.
pub(crate) fn on_sdk(command: &mut Command) -> &mut Command {
    command.env("AWS_ENDPOINT_URL", endpoint()).env("AWS_REGION", "us-east-1").env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test")
}

/// A secret, a parameter and a policy, as an operator has them before the deployment: their ARNs. When the emulator
/// checks permissions, it reads the ARN that a request names for a parameter as the parameter's name. So the worker
/// reads the parameter only with the policy.
fn made(name: &str, secret: &str, parameter: &str) -> [String; 3] {
    let program = "name, secret, parameter = sys.argv[1:]\n\
        a = boto3.client('secretsmanager').create_secret(Name=name + '/db', SecretString=secret)['ARN']\n\
        ssm = boto3.client('ssm')\n\
        ssm.put_parameter(Name='/' + name + '/key', Value=parameter, Type='SecureString')\n\
        b = ssm.get_parameter(Name='/' + name + '/key')['Parameter']['ARN']\n\
        document = {'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': 'ssm:GetParameter', \
        'Resource': '*'}]}\n\
        c = boto3.client('iam').create_policy(PolicyName=name, PolicyDocument=json.dumps(document))['Policy']['Arn']\n\
        print(json.dumps([a, b, c]))";
    serde_json::from_value(with_sdk(program, &[name, secret, parameter])).unwrap()
}

/// All that the functions have logged, and their configurations.
pub(crate) fn logs_and_configurations(functions: &[&str]) -> (String, String) {
    let program = "functions = boto3.client('lambda')\nlogs = boto3.client('logs')\n\
        configured = [functions.get_function_configuration(FunctionName=name) for name in sys.argv[1:]]\n\
        groups = {c.get('LoggingConfig', {}).get('LogGroup') or '/aws/lambda/' + c['FunctionName'] for c in \
        configured}\n\
        groups |= {'/aws/lambda/' + c['FunctionName'] for c in configured}\n\
        there = {g['logGroupName'] for page in logs.get_paginator('describe_log_groups').paginate() for g in \
        page['logGroups']}\n\
        lines = [e['message'] for g in groups & there\n\
            for page in logs.get_paginator('filter_log_events').paginate(logGroupName=g) for e in page['events']]\n\
        print(json.dumps(['\\n'.join(lines), json.dumps(configured, default=str)]))";
    let found: [String; 2] = serde_json::from_value(with_sdk(program, functions)).unwrap();
    let [logs, configurations] = found;
    (logs, configurations)
}

const SECRET: &str = "correct horse battery staple, 37 byte";
const PARAMETER: &str = "a key of 17 bytes";

#[tokio::test]
async fn tools_have_their_settings_and_secrets_and_a_heavy_one_has_workers_of_its_own() {
    let name = fresh_name();
    let [secret, parameter, policy] = made(&name, SECRET, PARAMETER);
    let setup = Setup::with(&[
        "Settings=log=debug tool-env=BUCKET=reports,URL=https://a.example/?b=c secret-names=DB_PASSWORD,API_KEY",
        &format!("SecretArns={secret},{parameter}"),
        &format!("WorkerPolicyArns={policy}"),
        "WorkerClass=heavy",
        "MemoryMb=512,1024,2048",
    ]);
    let caller = setup.start().caller();
    let url = "https://a.example/?b=c".len();
    for (name, bytes) in [("BUCKET", 7), ("URL", url), ("DB_PASSWORD", SECRET.len()), ("API_KEY", PARAMETER.len())] {
        let id = caller.call_task("tool_env", json!({"name": name})).await;
        assert_eq!(structured(&caller.until(&id, "completed").await["result"]), json!({"bytes": bytes}), "{name}");
    }
    let id = caller.call_task("tool_env", json!({"name": "OTHER"})).await;
    let failed = caller.until(&id, "failed").await.to_string();
    assert!(failed.contains("lacks a setting"), "{failed}");

    // So far the class had nothing to do, and then the other worker has nothing to do with it.
    let (worker, heavy) = (setup.output("WorkerFunction"), setup.output("ClassWorkerFunction"));
    assert!(sandboxes_of(heavy).is_empty() && !sandboxes_of(worker).is_empty());
    setup.kill_all_of("WorkerFunction");
    let table = json!({"text": "a,b\n1,2\n"});
    let id = caller.call_task("profile_dataset", table).await;
    caller.until(&id, "completed").await;
    assert!(!sandboxes_of(heavy).is_empty() && sandboxes_of(worker).is_empty());
    assert_eq!(messages_in(&Setup::clients(), setup.output("ClassQueueUrl")).await, 0, "its message is deleted");

    let functions = ["ApiFunction", "WorkerFunction", "ClassWorkerFunction", "DeadLetterWorkerFunction"];
    let functions = functions.map(|output| setup.output(output));
    let (logs, configurations) = logs_and_configurations(&functions);
    for said in ["an attempt begins", "profile_dataset", "`OTHER` is not set for tools"] {
        assert!(logs.contains(said), "{said}: {logs}");
    }
    assert!(configurations.contains("DB_PASSWORD") && configurations.contains(&secret), "{configurations}");
    for hidden in [SECRET, PARAMETER, "correct horse"] {
        assert!(!logs.contains(hidden) && !configurations.contains(hidden), "{hidden}");
    }
    let role = setup.output("WorkerRoleArn").rsplit('/').next().unwrap();
    let program = "role = boto3.client('iam').list_attached_role_policies(RoleName=sys.argv[1])\n\
        print(json.dumps([policy['PolicyArn'] for policy in role['AttachedPolicies']]))";
    assert_eq!(with_sdk(program, &[role]), json!([policy]));
}

/// A secret that is not there stops the worker with its name, and the task waits.
#[tokio::test]
async fn a_secret_that_does_not_exist_is_named_in_the_log() {
    let arn = format!("arn:aws:secretsmanager:us-east-1:000000000000:secret:{}/none-AbCdEf", fresh_name());
    let setup = Setup::with(&["Settings=secret-names=NONE", &format!("SecretArns={arn}")]);
    let caller = setup.start().caller();
    let id = caller.call_task("tool_env", json!({"name": "NONE"})).await;
    let said = format!("the secret `NONE` ({arn}) cannot be read");
    // On AWS it is in the function's log. The emulator writes what a function says before its first event into its own.
    let log = super::programs::SHIPPED.emulator_log();
    super::inside::until("the log says what is missing", async || {
        String::from_utf8_lossy(&std::fs::read(&log).unwrap()).contains(&said)
    })
    .await;
    assert_eq!(caller.get(&id).await["status"], "working");
}
