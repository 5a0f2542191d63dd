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
fn limits_and_protection_are_what_is_asked_for() {
    const RESERVED: [(&str, &str); 2] = [("ReserveWorkers", "true"), ("WorkerMaximumConcurrency", "50")];
    const RATES: [(&str, &str); 3] =
        [("Endpoint", "http-api"), ("HttpApiRequestsPerSecond", "20"), ("HttpApiBurst", "40")];
    let rates = json!({"ThrottlingRateLimit": "20", "ThrottlingBurstLimit": "40"});
    let reads = ("TableReadUnitsMax", "300");
    let none = json!({"ReservedConcurrentExecutions": null});
    hold(&[
        ("AWS refuses to reserve executions of a new account", &[], "Api", none.clone()),
        ("AWS refuses to reserve executions of a new account", &[], "Worker", none),
        ("as many as may run", &RESERVED, "Worker", json!({"ReservedConcurrentExecutions": "50"})),
        ("and as many run", &RESERVED, "Worker/Events/Work/Properties/ScalingConfig/MaximumConcurrency", json!("50")),
        ("a first deployment that fails can be deleted", &[], "Tasks/DeletionProtectionEnabled", json!("false")),
        ("protected", &[("TableDeletionProtection", "true")], "Tasks/DeletionProtectionEnabled", json!("true")),
        ("no limit of costs", &[], "Tasks/OnDemandThroughput", json!(null)),
        ("a limit of reads", &[reads], "Tasks/OnDemandThroughput/MaxReadRequestUnits", json!("300")),
        ("and none of writes", &[reads], "Tasks/OnDemandThroughput/MaxWriteRequestUnits", json!(null)),
        ("both", &[("TableWriteUnitsMax", "100")], "Tasks/OnDemandThroughput/MaxWriteRequestUnits", json!("100")),
        ("requests of the HTTP API", &RATES, "HttpApiStage/DefaultRouteSettings", rates),
    ]);
}

#[test]
fn the_queues_refuse_what_comes_without_tls() {
    let denies = |queue: &str| {
        let condition = json!({"Bool": {"aws:SecureTransport": "false"}});
        let resource = json!({"Fn::GetAtt": format!("{queue}.Arn")});
        let statement = json!({"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": resource});
        let queue = format!("https://sqs.us-east-1.amazonaws.com/111122223333/{queue}");
        let mut statements = json!([statement]);
        statements[0]["Condition"] = condition;
        json!({"Queues": [queue], "PolicyDocument": {"Statement": statements}})
    };
    hold(&[
        ("work", &[], "WorkNeedsTls", denies("Work")),
        ("dead letters", &[], "DeadLettersNeedTls", denies("DeadLetters")),
        ("what was not published", &[PUSH], "NotPublishedNeedsTls", denies("NotPublished")),
        ("work of a class", &[("WorkerClass", "heavy")], "ClassWorkNeedsTls", denies("ClassWork")),
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
