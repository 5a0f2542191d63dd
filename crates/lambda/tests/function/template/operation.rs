//! What the template promises to operators: quotas, keys, limits of costs, and names.

use serde_json::{Value, json};

use super::resolve::{Stack, text};
use super::{TEMPLATE, hold, source};

/// The smallest quota of concurrent executions that an account may have.
const EXECUTIONS_OF_A_NEW_ACCOUNT: u64 = 10;

const KEY: (&str, &str) = ("KmsKeyArn", "arn:aws:kms:us-east-1:111122223333:key/11111111-2222-3333-4444-555555555555");
const PUSH: (&str, &str) = ("Push", "on");

#[test]
fn the_defaults_leave_half_of_a_new_account_to_the_api() {
    let scaling = source(&Stack::new(&TEMPLATE, &[]), "Worker")["ScalingConfig"].clone();
    let workers = text(&scaling["MaximumConcurrency"]).parse::<u64>().unwrap();
    assert!(workers * 2 <= EXECUTIONS_OF_A_NEW_ACCOUNT, "{workers}");
}

#[test]
fn limits_are_what_is_asked_for() {
    let rates = json!({"ThrottlingRateLimit": 500, "ThrottlingBurstLimit": 1_000});
    let none = json!({"ReservedConcurrentExecutions": null});
    let few = [("WorkerMaximumConcurrency", "50")];
    hold(&[
        ("AWS refuses to reserve executions of a new account", &[], "Api", none.clone()),
        ("AWS refuses to reserve executions of a new account", &[], "Worker", none),
        ("reserved", &[("ApiConcurrency", "20")], "Api", json!({"ReservedConcurrentExecutions": "20"})),
        ("as many run", &few, "Worker/Events/Work/Properties/ScalingConfig/MaximumConcurrency", json!("50")),
        ("requests of the HTTP API", &[("Endpoint", "http-api")], "HttpApiStage/DefaultRouteSettings", rates),
    ]);
}

/// A stack without parameters has nothing that costs while nothing is called, but the polling of its queues.
#[test]
fn nothing_that_costs_without_calls_is_there_by_default() {
    let stack = Stack::new(&TEMPLATE, &[]);
    for (name, resource) in TEMPLATE["Resources"].as_object().unwrap() {
        let costs = ["AWS::CloudWatch::", "AWS::Budgets::", "AWS::Scheduler::", "AWS::SNS::", "AWS::ApiGateway"];
        let kind = resource["Type"].as_str().unwrap();
        assert!(stack.resource(name).is_none() || !costs.iter().any(|costly| kind.starts_with(costly)), "{name}");
    }
    let exists = |extras| Stack::new(&TEMPLATE, &[("Extras", extras)]).resource("Dashboard").is_some();
    assert_eq!(["none", "dashboard", "traces", "dashboard-and-traces"].map(exists), [false, true, false, true]);
}

#[test]
fn the_queues_refuse_what_comes_without_tls() {
    let denies = |queue: &str| {
        let condition = json!({"Bool": {"aws:SecureTransport": "false"}});
        let resource = json!({"Fn::GetAtt": format!("{queue}.Arn")});
        let mut statement = json!({"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": resource});
        statement["Condition"] = condition;
        statement
    };
    hold(&[
        ("work", &[], "WorkNeedsTls/PolicyDocument/Statement/0", denies("Work")),
        ("dead letters", &[], "DeadLettersNeedTls/PolicyDocument/Statement/0", denies("DeadLetters")),
        ("unpublished changes", &[PUSH], "NotPublishedNeedsTls/PolicyDocument/Statement/0", denies("NotPublished")),
        (
            "work of a class",
            &[("WorkerClass", "heavy")],
            "ClassWorkNeedsTls/PolicyDocument/Statement/0",
            denies("ClassWork"),
        ),
    ]);
}

#[test]
fn a_key_of_ones_own_encrypts_table_and_queues_and_the_functions_may_use_it() {
    let queue = json!({"KmsMasterKeyId": KEY.1, "SqsManagedSseEnabled": null});
    let roles = json!(["ApiRole", "WorkerRole", "DeadLetterWorkerRole", "PublisherRole"]);
    let through = ["dynamodb", "sqs", "lambda"]
        .map(|name| json!({"Fn::Sub": format!("{name}.${{AWS::Region}}.${{AWS::URLSuffix}}")}));
    let via = json!({"StringEquals": {"kms:ViaService": through}});
    hold(&[
        ("the table", &[KEY], "Tasks/SSESpecification/KMSMasterKeyId", json!(KEY.1)),
        ("SQS takes one of the two", &[KEY], "Work", queue.clone()),
        ("SQS takes one of the two", &[KEY], "DeadLetters", queue.clone()),
        ("SQS takes one of the two", &[KEY, PUSH], "NotPublished", queue),
        ("the roles", &[KEY, PUSH], "KeyUse/Roles", roles),
        ("this key", &[KEY], "KeyUse/PolicyDocument/Statement/0/Resource", json!(KEY.1)),
        ("through services", &[KEY], "KeyUse/PolicyDocument/Statement/0/Condition", via),
        ("no key", &[], "KeyUse", json!(null)),
        ("no key", &[], "Tasks/SSESpecification/KMSMasterKeyId", json!(null)),
    ]);
    let policy = Stack::new(&TEMPLATE, &[KEY]).resource("KeyUse").unwrap();
    let actions = policy["PolicyDocument"]["Statement"][0]["Action"].as_array().unwrap().clone();
    for action in ["kms:Decrypt", "kms:GenerateDataKey"] {
        assert!(actions.contains(&json!(action)), "SQS and DynamoDB ask for {action}");
    }
    assert!(actions.iter().all(|action| !action.as_str().unwrap().contains('*')));
}

#[test]
fn names_do_not_clash_and_outputs_have_them() {
    let name = &TEMPLATE["Resources"]["Dashboard"]["Properties"]["DashboardName"];
    assert_eq!(name, &json!({"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}), "two regions, two dashboards");
    for function in super::FUNCTIONS {
        let output: &Value = &TEMPLATE["Outputs"][format!("{function}Function")]["Value"];
        assert_eq!(output, &json!({"Ref": function}));
    }
}
