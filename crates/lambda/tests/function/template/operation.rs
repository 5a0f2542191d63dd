//! What the template promises to operators: quotas, keys, limits of costs, and names.

use serde_json::json;

use super::resolve::{Stack, text};
use super::{source, template};

/// The smallest quota of concurrent executions that an account may have.
const EXECUTIONS_OF_A_NEW_ACCOUNT: u64 = 10;

#[test]
fn the_defaults_leave_half_of_a_new_account_to_the_api() {
    let template = template();
    let stack = Stack::new(&template, &[]);
    let workers = text(&source(&stack, "Worker")["ScalingConfig"]["MaximumConcurrency"]).parse::<u64>().unwrap();
    assert!(workers * 2 <= EXECUTIONS_OF_A_NEW_ACCOUNT, "{workers}");
    for function in ["Api", "Worker"] {
        let reserved = &stack.resource(function).unwrap()["ReservedConcurrentExecutions"];
        assert!(reserved.is_null(), "AWS refuses to reserve executions of a new account: {function}");
    }
}

#[test]
fn reserved_workers_are_as_many_as_are_asked_to_run() {
    let template = template();
    for workers in ["2", "50"] {
        let parameters = [("ReserveWorkers", "true"), ("WorkerMaximumConcurrency", workers)];
        let stack = Stack::new(&template, &parameters);
        let reserved = text(&stack.resource("Worker").unwrap()["ReservedConcurrentExecutions"]);
        assert_eq!(reserved, workers);
        assert_eq!(text(&source(&stack, "Worker")["ScalingConfig"]["MaximumConcurrency"]), reserved);
    }
}

#[test]
fn a_first_deployment_that_fails_can_delete_its_empty_table() {
    let template = template();
    assert_eq!(template["Resources"]["Tasks"]["DeletionPolicy"], "RetainExceptOnCreate");
    let protected = |parameters: &[_]| {
        text(&Stack::new(&template, parameters).resource("Tasks").unwrap()["DeletionProtectionEnabled"])
    };
    assert_eq!(protected(&[]), "false");
    assert_eq!(protected(&[("TableDeletionProtection", "true")]), "true");
}

#[test]
fn the_queues_refuse_what_comes_without_tls() {
    let template = template();
    let stack = Stack::new(&template, &[("Push", "on")]);
    for (policy, queue) in
        [("WorkNeedsTls", "Work"), ("DeadLettersNeedTls", "DeadLetters"), ("NotPublishedNeedsTls", "NotPublished")]
    {
        let policy = stack.resource(policy).unwrap();
        assert!(policy["Queues"][0].as_str().unwrap().ends_with(&format!("/{queue}")));
        let [statement]: [serde_json::Value; 1] =
            policy["PolicyDocument"]["Statement"].as_array().unwrap().clone().try_into().unwrap();
        assert_eq!(statement["Effect"], "Deny");
        assert_eq!((&statement["Principal"], &statement["Action"]), (&json!("*"), &json!("sqs:*")));
        assert_eq!(statement["Resource"], json!({"Fn::GetAtt": format!("{queue}.Arn")}));
        assert_eq!(statement["Condition"], json!({"Bool": {"aws:SecureTransport": "false"}}));
    }
}

#[test]
fn a_key_of_ones_own_encrypts_table_and_queues_and_the_functions_may_use_it() {
    const KEY: &str = "arn:aws:kms:us-east-1:111122223333:key/11111111-2222-3333-4444-555555555555";
    let template = template();
    let stack = Stack::new(&template, &[("KmsKeyArn", KEY), ("Push", "on")]);
    assert_eq!(stack.resource("Tasks").unwrap()["SSESpecification"]["KMSMasterKeyId"], KEY);
    for queue in ["Work", "DeadLetters", "NotPublished"] {
        let queue = stack.resource(queue).unwrap();
        assert_eq!(queue["KmsMasterKeyId"], KEY);
        assert!(queue["SqsManagedSseEnabled"].is_null(), "SQS takes one of the two");
    }
    let policy = stack.resource("KeyUse").unwrap();
    assert_eq!(policy["Roles"], json!(["ApiRole", "WorkerRole", "DeadLetterWorkerRole", "PublisherRole"]));
    let statement = &policy["PolicyDocument"]["Statement"][0];
    assert_eq!(statement["Resource"], KEY);
    let actions = statement["Action"].as_array().unwrap();
    for action in ["kms:Decrypt", "kms:GenerateDataKey"] {
        assert!(actions.contains(&json!(action)), "SQS and DynamoDB ask for {action}");
    }
    assert!(actions.iter().all(|action| !action.as_str().unwrap().contains('*')));
    let services = statement["Condition"]["StringEquals"]["kms:ViaService"].as_array().unwrap();
    let services: Vec<_> = services.iter().map(|service| service["Fn::Sub"].as_str().unwrap()).collect();
    let through = ["dynamodb", "sqs", "lambda"].map(|name| format!("{name}.${{AWS::Region}}.${{AWS::URLSuffix}}"));
    assert_eq!(services, through);

    let without = Stack::new(&template, &[]);
    assert!(without.resource("KeyUse").is_none());
    assert!(without.resource("Tasks").unwrap()["SSESpecification"].get("KMSMasterKeyId").is_none());
}

#[test]
fn the_costs_of_the_table_can_be_limited() {
    let template = template();
    let limit =
        |parameters: &[_]| Stack::new(&template, parameters).resource("Tasks").unwrap()["OnDemandThroughput"].clone();
    assert_eq!(limit(&[]), json!(null));
    assert_eq!(limit(&[("TableReadUnitsMax", "300")]), json!({"MaxReadRequestUnits": "300"}));
    let both = json!({"MaxReadRequestUnits": "300", "MaxWriteRequestUnits": "100"});
    assert_eq!(limit(&[("TableReadUnitsMax", "300"), ("TableWriteUnitsMax", "100")]), both);
}

#[test]
fn the_http_api_limits_how_often_it_is_called() {
    let template = template();
    let parameters = [("Endpoint", "http-api"), ("HttpApiRequestsPerSecond", "20"), ("HttpApiBurst", "40")];
    let limits = Stack::new(&template, &parameters).resource("HttpApiStage").unwrap()["DefaultRouteSettings"].clone();
    assert_eq!(limits, json!({"ThrottlingRateLimit": "20", "ThrottlingBurstLimit": "40"}));
}

#[test]
fn the_same_stack_in_two_regions_has_two_dashboards() {
    let template = template();
    let name = &template["Resources"]["Dashboard"]["Properties"]["DashboardName"];
    assert_eq!(name, &json!({"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}));
}

#[test]
fn every_function_is_named_in_the_outputs() {
    let template = template();
    for function in super::FUNCTIONS {
        assert_eq!(template["Outputs"][format!("{function}Function")]["Value"], json!({"Ref": function}));
    }
}
