//! The template's promises to operators: quotas, keys, limits of costs, and names.

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
    let through = ["dynamodb", "sqs", "lambda"]
        .map(|name| json!({"Fn::Sub": format!("{name}.${{AWS::Region}}.${{AWS::URLSuffix}}")}));
    let via = json!({"StringEquals": {"kms:ViaService": through}});
    hold(&[
        ("the table", &[KEY], "Tasks/SSESpecification/KMSMasterKeyId", json!(KEY.1)),
        ("SQS takes one of the two", &[KEY], "Work", queue.clone()),
        ("SQS takes one of the two", &[KEY], "DeadLetters", queue.clone()),
        ("SQS takes one of the two", &[KEY, PUSH], "NotPublished", queue),
        ("no key", &[], "Tasks/SSESpecification/KMSMasterKeyId", json!(null)),
    ]);
    let uses = |role: &str, parameters: &[_]| {
        let role = Stack::new(&TEMPLATE, parameters).resource(role).unwrap();
        let statements = role["Policies"][0]["PolicyDocument"]["Statement"].as_array().unwrap().clone();
        statements.into_iter().find(|statement| statement["Sid"] == "KeyOfTableQueuesAndEnvironment")
    };
    // In the role itself: what waits for a role, such as the mapping of a queue, finds the key usable.
    for role in ["ApiRole", "WorkerRole", "DeadLetterWorkerRole", "PublisherRole"] {
        assert_eq!(uses(role, &[PUSH]), None, "{role}");
        let statement = uses(role, &[KEY, PUSH]).unwrap_or_else(|| panic!("{role} may not use the key"));
        assert_eq!((&statement["Resource"], &statement["Condition"]), (&json!(KEY.1), &via), "{role}");
        let actions = statement["Action"].as_array().unwrap();
        for action in ["kms:Decrypt", "kms:GenerateDataKey"] {
            assert!(actions.contains(&json!(action)), "SQS and DynamoDB ask for {action}");
        }
        assert!(actions.iter().all(|action| !action.as_str().unwrap().contains('*')), "{role}");
    }
}

const EXISTING: (&str, &str) = ("ExistingTableName", "restored/stream/2026-11-27T10:00:00.000");

#[test]
fn a_stack_on_an_existing_table_makes_none_and_reaches_it_everywhere() {
    let stack = Stack::new(&TEMPLATE, &[EXISTING, PUSH]);
    assert_eq!(stack.resource("Tasks"), None);
    let whole = |name: &str| stack.resource(name).unwrap_or_else(|| panic!("no {name}")).to_string();
    for (name, resource) in TEMPLATE["Resources"].as_object().unwrap() {
        let text = stack.resource(name).map(|_| whole(name)).unwrap_or_default();
        assert!(!text.contains("\"Tasks.") && !text.contains("\"Ref\":\"Tasks\""), "{name} needs the table: {text}");
        assert!(resource["DependsOn"].is_null(), "{name}");
    }
    for function in super::FUNCTIONS.into_iter().chain([super::PUBLISHER]) {
        assert_eq!(stack.environment(function)["LONGHAUL_TABLE"], "restored", "{function}");
    }
    let arn = format!("arn:${{AWS::Partition}}:dynamodb:${{AWS::Region}}:${{AWS::AccountId}}:table/{}", EXISTING.1);
    for mapping in ["UnclaimedTasks", "ChangesToPublish"] {
        let source = stack.resource(mapping).unwrap()["EventSourceArn"]["Fn::Sub"].clone();
        assert_eq!(text(&source).replace("${ExistingTableName}", EXISTING.1), arn, "{mapping}");
    }
    let table_arn = arn.split("/stream/").next().unwrap();
    for role in ["ApiRole", "WorkerRole", "DeadLetterWorkerRole", "PublisherRole"] {
        assert!(whole(role).replace("${ExistingTableName}", "restored").contains(table_arn), "{role}");
    }
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
