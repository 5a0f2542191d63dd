//! `make prove-aws`, rehearsed on the emulator.

use std::fs;
use std::process::{Command, Output};

use harness::{file, program, root};
use serde_json::{Value, json};

use super::built::{Built, script};
use super::deployed::for_the_emulator;
use super::tools::{on_sdk, with_sdk};

const REPORT: &str = "docs/aws-report.md";

fn prove(built: &Built, template: &str, flags: &[&str]) -> Output {
    let path = built.0.join("template-of-the-emulator.yaml");
    fs::write(&path, template).unwrap();
    let mut command = Command::new(root().join(".cache/tools/aws/bin/python"));
    command.arg("-B").arg(script("prove_aws.py")).args(flags).arg("--yes").arg("--template").arg(path);
    command.arg("--packages").arg(built.0.join("target/lambda")).arg("--longhaul").arg(program("longhaul"));
    on_sdk(&mut command).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The resources that a run has made and not removed.
fn left(said: &str) -> Value {
    let name = said.split("everything is named ").nth(1).unwrap().lines().next().unwrap();
    let program = "name = sys.argv[1]\n\
        tables = boto3.client('dynamodb').get_paginator('list_tables').paginate()\n\
        stacks = boto3.client('cloudformation').get_paginator('list_stacks').paginate()\n\
        found = [table for page in tables for table in page['TableNames']]\n\
        found += [s['StackName'] for page in stacks for s in page['StackSummaries'] if s['StackStatus'] != \
        'DELETE_COMPLETE']\n\
        found += [bucket['Name'] for bucket in boto3.client('s3').list_buckets()['Buckets']]\n\
        found += [f['FunctionName'] for f in boto3.client('lambda').list_functions()['Functions']]\n\
        found += [p['Name'] for p in boto3.client('ssm').describe_parameters()['Parameters']]\n\
        print(json.dumps([each for each in found if name in each]))";
    with_sdk(program, &[name])
}

#[test]
#[ignore = "takes minutes: `make nightly` runs it"]
fn all_that_is_proven_on_aws_is_rehearsed_and_leaves_nothing_behind() {
    let before = fs::read(root().join(REPORT)).ok();
    let output = prove(&Built::new(), &for_the_emulator(&file("template.yaml")), &["--rehearsal"]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for step in ["clients: ", "kill: ", "load: ", "empty answers: ", "cold starts: ", "restore: "] {
        assert!(said.contains(step), "{step}{said}");
    }
    for endpoint in ["endpoint function-url", "endpoint http-api", "endpoint rest-api"] {
        assert!(said.contains(endpoint), "{endpoint}: {said}");
    }
    assert_eq!(left(&said), json!([]), "{said}");
    assert_eq!(fs::read(root().join(REPORT)).ok(), before, "an emulator's figures are no report");
}

#[test]
fn a_stack_that_loses_work_is_not_proven_and_is_removed() {
    // Work waits in the queue for ever.
    let template = for_the_emulator(&file("template.yaml"));
    let taking = "Queue: !GetAtt Work.Arn\n";
    let fault = template.replacen(taking, &format!("{taking}            Enabled: false\n"), 1);
    assert_ne!(fault, template);
    let output = prove(&Built::new(), &fault, &["--rehearsal"]);
    let said = said(&output);
    assert!(!output.status.success() && said.contains("prove-aws: not proven: "), "{said}");
    assert_eq!(left(&said), json!([]), "{said}");
}

#[test]
fn an_emulator_gets_no_report_and_nothing_is_made_without_consent() {
    let output = prove(&Built::new(), "", &[]);
    assert!(!output.status.success());
    assert!(said(&output).contains("an emulator's figures are no report: unset it, or add --rehearsal"));
    let mut command = Command::new(root().join(".cache/tools/aws/bin/python"));
    let output = on_sdk(command.arg("-B").arg(script("prove_aws.py")).arg("--rehearsal"))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = said(&output);
    assert!(!output.status.success() && said.contains("add --yes to agree") && said.contains("dollars"), "{said}");
}
