//! Permissions: every role is compared with a list, and the endpoint with its parameters.

use std::collections::BTreeSet;

use longhaul_core::{Identity, OwnerId};
use serde_json::{Value, json};

use super::TEMPLATE;
use super::publisher::WEBHOOKS;
use super::resolve::Stack;

/// The permissions of a role, as (action, resource).
fn allowed(stack: &Stack<'_>, role: &str) -> BTreeSet<(String, String)> {
    let role = stack.resource(role).unwrap();
    assert_eq!(role["ManagedPolicyArns"], Value::Null, "a role's permissions are written out");
    let policies = role["Policies"].as_array().unwrap();
    let statements = policies.iter().flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
    statements.flat_map(pairs).collect()
}

fn pairs(statement: &Value) -> Vec<(String, String)> {
    assert_eq!(statement["Effect"], "Allow");
    assert!(statement.get("NotAction").is_none() && statement.get("NotResource").is_none());
    let resources = each(&statement["Resource"]);
    let resource = |value: &Value| {
        let sub = &value["Fn::Sub"];
        value["Fn::GetAtt"].as_str().or(sub.as_str()).or(sub[0].as_str()).or(value.as_str()).unwrap().to_owned()
    };
    let of = |action: Value| {
        let action = action.as_str().unwrap().to_owned();
        resources.iter().map(move |value| (action.clone(), resource(value))).collect::<Vec<_>>()
    };
    each(&statement["Action"]).into_iter().flat_map(of).collect()
}

/// One value, or each of several.
fn each(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn list(actions: &[&str], resource: &str) -> BTreeSet<(String, String)> {
    actions.iter().map(|action| ((*action).to_owned(), resource.to_owned())).collect()
}

const ON_TASKS: [&str; 6] = [
    "dynamodb:BatchGetItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:UpdateItem",
];
const TAKE: [&str; 4] =
    ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"];
const STREAM: [&str; 4] = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"];
const LOG: [&str; 2] = ["logs:CreateLogStream", "logs:PutLogEvents"];

#[test]
fn every_role_may_do_what_is_listed_here_and_nothing_else() {
    let stream = STREAM.map(|name| format!("dynamodb:{name}"));
    let stream = list(&stream.each_ref().map(String::as_str), "Tasks.StreamArn");
    let bus = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/${Bus}";
    let send = |queue| list(&["sqs:SendMessage"], queue);
    for (parameters, role, expected) in [
        // It sends work and cannot take it.
        (&[][..], "ApiRole", vec![list(&ON_TASKS, "Tasks.Arn"), send("Work.Arn"), list(&LOG, "ApiLogs.Arn")]),
        (
            &[],
            "WorkerRole",
            vec![list(&ON_TASKS, "Tasks.Arn"), list(&TAKE, "Work.Arn"), send("Work.Arn"), list(&LOG, "WorkerLogs.Arn")],
        ),
        // It ends tasks, notifies their parents and children, and creates none.
        (
            &[],
            "DeadLetterWorkerRole",
            vec![
                stream.clone(),
                send("DeadLetters.Arn"),
                list(&["dynamodb:GetItem", "dynamodb:UpdateItem"], "Tasks.Arn"),
                list(&["dynamodb:PutItem", "dynamodb:Query"], "Tasks.Arn"),
                list(&TAKE, "DeadLetters.Arn"),
                send("Work.Arn"),
                list(&LOG, "DeadLetterWorkerLogs.Arn"),
            ],
        ),
        (&[("Schedules", "on")], "TickRole", vec![send("Work.Arn")]),
        // It reads the stream, creates webhook deliveries and puts events.
        (
            &[("Push", "on")],
            "PublisherRole",
            vec![
                stream,
                list(&["events:PutEvents"], bus),
                list(&["dynamodb:GetItem", "dynamodb:PutItem"], "Tasks.Arn"),
                send("Work.Arn"),
                send("NotPublished.Arn"),
                list(&["sqs:GetQueueAttributes"], "NotPublished.Arn"),
                list(&LOG, "PublisherLogs.Arn"),
            ],
        ),
    ] {
        let stack = Stack::new(&TEMPLATE, parameters);
        assert_eq!(allowed(&stack, role), expected.into_iter().flatten().collect(), "{role}");
    }
}

#[test]
fn the_dead_letter_function_sees_unclaimed_tasks() {
    let stack = Stack::new(&TEMPLATE, &[]);
    let allowed = allowed(&stack, "DeadLetterWorkerRole");
    for action in STREAM {
        assert!(list(&[&format!("dynamodb:{action}")], "Tasks.StreamArn").is_subset(&allowed), "{allowed:?}");
    }
    assert!(list(&["sqs:SendMessage"], "DeadLetters.Arn").is_subset(&allowed), "what it cannot treat");
    assert_eq!(
        stack.resource("Tasks").unwrap()["StreamSpecification"],
        json!({"StreamViewType": "NEW_AND_OLD_IMAGES"})
    );
    let mapping = stack.resource("UnclaimedTasks").unwrap();
    assert_eq!(mapping["EventSourceArn"], json!({"Fn::GetAtt": "Tasks.StreamArn"}));
    assert_eq!(mapping["DestinationConfig"]["OnFailure"]["Destination"], json!({"Fn::GetAtt": "DeadLetters.Arn"}));
    assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    let window_s = mapping["MaximumBatchingWindowInSeconds"].as_u64().unwrap();
    assert!((30..=60).contains(&window_s), "nearly all tasks are taken by then");
    for filter in mapping["FilterCriteria"]["Filters"].as_array().unwrap() {
        let pattern: Value = serde_json::from_str(filter["Pattern"].as_str().unwrap()).unwrap();
        assert!(pattern["dynamodb"]["NewImage"]["state"]["S"].is_array(), "only tasks have a state: {pattern}");
    }
}

/// The partition keys that a role may use, as patterns; `None` if it may use all of them.
fn leading_keys(stack: &Stack<'_>, role: &str) -> Option<Vec<String>> {
    let role = stack.resource(role).unwrap();
    let policies = role["Policies"].as_array().unwrap();
    let statements = policies.iter().flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
    let on_tasks = statements.filter(|statement| statement["Resource"]["Fn::GetAtt"] == "Tasks.Arn");
    let keys = on_tasks.map(|statement| {
        let keys = statement.get("Condition")?["ForAllValues:StringLike"]["dynamodb:LeadingKeys"].as_array().unwrap();
        Some(keys.iter().map(|key| key.as_str().unwrap().to_owned()))
    });
    Some(keys.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// A reader of the server's secret can sign a session of any owner. So code that a tool brings into a worker must not
/// be able to read it, nor to write another one.
#[test]
fn the_workers_reach_tasks_and_neither_keys_nor_what_only_requests_use() {
    let stack = Stack::new(&TEMPLATE, &[]);
    assert_eq!(leading_keys(&stack, "ApiRole"), None);
    // Finished work is noted in the mailboxes of owners that no caller can be.
    let notes = ["schedules", "webhooks"]
        .map(|subject| format!("m#{}#*", OwnerId::of(Identity::Verified { issuer: "longhaul", subject, tenant: "" })));
    for (parameters, role, keys) in [
        (&[][..], "WorkerRole", &["o#*", "t#*", "q#*"][..]),
        (&[], "DeadLetterWorkerRole", &["o#*", "q#*", "t#*"]),
        (&[("Schedules", "on")], "WorkerRole", &["o#*", "t#*", "q#*", &notes[0]]),
        (&[("Schedules", "on")], "DeadLetterWorkerRole", &["o#*", "q#*", "t#*"]),
        (&WEBHOOKS[..1], "PublisherRole", &["o#*"]),
        (&WEBHOOKS[..1], "WorkerRole", &["o#*", "t#*", "q#*"]),
        (&WEBHOOKS, "WorkerRole", &["o#*", "t#*", "q#*", &notes[1]]),
    ] {
        assert_eq!(leading_keys(&Stack::new(&TEMPLATE, parameters), role).unwrap(), keys, "{role}, {parameters:?}");
    }
    for role in ["WorkerRole", "DeadLetterWorkerRole"] {
        for pattern in leading_keys(&stack, role).unwrap() {
            let prefix = pattern.strip_suffix('*').unwrap();
            for forbidden in ["s#request-state", "m#0123#4567", "k#0123#4567"] {
                assert!(!forbidden.starts_with(prefix), "{role}: {pattern}");
            }
        }
    }
}

#[test]
fn only_tracing_is_allowed_on_all_resources() {
    for extras in ["none", "traces"] {
        let stack = Stack::new(&TEMPLATE, &[("Extras", extras), ("Schedules", "on"), ("Push", "on")]);
        for (name, resource) in TEMPLATE["Resources"].as_object().unwrap() {
            if resource["Type"] != "AWS::IAM::Role" {
                continue;
            }
            for (action, resource) in allowed(&stack, name) {
                let is_trace = action.starts_with("xray:Put");
                assert!(!action.contains('*'), "{name}: {action}");
                assert!(!resource.contains('*') || (is_trace && extras == "traces"), "{name}: {action} on {resource}");
            }
        }
    }
}

#[test]
fn a_stack_is_told_to_look_at_schedules_each_minute_if_it_asks_for_that() {
    for off in ["Tick", "Ticks", "TickRole"] {
        assert_eq!(Stack::new(&TEMPLATE, &[]).resource(off), None, "{off} costs nothing by default");
    }
    let stack = Stack::new(&TEMPLATE, &[("Schedules", "on")]);
    let tick = stack.resource("Tick").unwrap();
    assert_eq!(tick["ScheduleExpression"], "rate(1 minute)");
    assert_eq!(tick["Target"]["Arn"], json!({"Fn::GetAtt": "Work.Arn"}));
    let input: Value = serde_json::from_str(tick["Target"]["Input"].as_str().unwrap()).unwrap();
    assert!(input["lookAtSchedules"].is_string(), "the worker knows it by this: {input}");
    let trust = stack.resource("TickRole").unwrap()["AssumeRolePolicyDocument"]["Statement"][0].clone();
    assert_eq!(trust["Principal"], json!({"Service": "scheduler.amazonaws.com"}));
}

#[test]
fn every_function_has_a_role_of_its_own_that_only_lambda_assumes() {
    let stack = Stack::new(&TEMPLATE, &[("Push", "on")]);
    let trust = json!([
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ]);
    for function in super::FUNCTIONS.into_iter().chain([super::PUBLISHER]) {
        let role = format!("{function}Role");
        assert_eq!(stack.resource(function).unwrap()["Role"], json!({"Fn::GetAtt": format!("{role}.Arn")}));
        assert_eq!(stack.resource(&role).unwrap()["AssumeRolePolicyDocument"]["Statement"], trust, "{role}");
    }
}

#[test]
fn there_is_one_endpoint_and_a_policy_for_those_who_sign() {
    for endpoint in ["function-url", "http-api", "rest-api"] {
        let stack = Stack::new(&TEMPLATE, &[("Endpoint", endpoint)]);
        let there = ["ApiUrl", "HttpApi", "RestApi"].map(|name| stack.resource(name).is_some());
        assert_eq!(there, ["function-url", "http-api", "rest-api"].map(|other| other == endpoint), "{endpoint}");
    }
    for mode in ["iam", "oauth", "gateway", "bearer", "anonymous"] {
        let stack = Stack::new(&TEMPLATE, &[HTTP_API, ("AuthMode", mode)]);
        assert_eq!(stack.resource("CallerPolicy").is_some(), mode == "iam", "{mode}");
    }
    assert_eq!(TEMPLATE["Outputs"]["CallerPolicyArn"]["Condition"], TEMPLATE["Resources"]["CallerPolicy"]["Condition"]);
}

/// The route of preflight requests.
const PREFLIGHT: &str = "OPTIONS /{proxy+}";

/// The keys of the HTTP API's routes, with the authorization that each asks for.
fn routes(stack: &Stack<'_>) -> BTreeSet<(String, String)> {
    let all = TEMPLATE["Resources"].as_object().unwrap().iter();
    let names = all.filter(|(_, resource)| resource["Type"] == "AWS::ApiGatewayV2::Route").map(|(name, _)| name);
    // Some exist with tokens only.
    let of = |name: &String| stack.resource(name);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    names.filter_map(of).map(|route| (word(&route["RouteKey"]), word(&route["AuthorizationType"]))).collect()
}

#[test]
fn callers_may_call_every_signed_route_and_nothing_else() {
    let stack = Stack::new(&TEMPLATE, &[("Endpoint", "http-api")]);
    let routes = routes(&stack);
    let signed: BTreeSet<_> = routes
        .iter()
        .filter(|(_, authorization)| authorization == "AWS_IAM")
        .map(|(key, _)| key.replace(' ', ""))
        .collect();
    assert!(routes.contains(&(PREFLIGHT.to_owned(), "NONE".to_owned())), "a browser may ask before it signs");
    assert!(!signed.contains("$default"), "the docs of AWS do not say what a policy has to name for it");
    let policy = stack.resource("CallerPolicy").unwrap();
    let [statement]: [Value; 1] = policy["PolicyDocument"]["Statement"].as_array().unwrap().clone().try_into().unwrap();
    let named = |resource: &Value| {
        resource["Fn::Sub"].as_str().unwrap().split_once("/$default/").unwrap().1.replace('*', "{token}")
    };
    let allowed: BTreeSet<_> = each(&statement["Resource"]).iter().map(named).collect();
    assert_eq!(allowed, signed);
}

/// The resources that let anyone in, if they exist.
fn open_to_all(stack: &Stack<'_>) -> BTreeSet<String> {
    let is_open = |name: &String| {
        let resource = &TEMPLATE["Resources"][name];
        let Some(properties) = stack.resource(name) else { return false };
        match resource["Type"].as_str().unwrap() {
            "AWS::Lambda::Permission" => properties["Principal"] == "*",
            "AWS::Lambda::Url" => properties["AuthType"] != "AWS_IAM",
            // A browser's preflight request has no credentials, and reaches no tool.
            "AWS::ApiGatewayV2::Route" if properties["RouteKey"] == PREFLIGHT => false,
            "AWS::ApiGatewayV2::Route" => {
                let by_token = properties["AuthorizationType"] == "JWT";
                assert_eq!(by_token, properties["AuthorizerId"] == "HttpApiTokens", "{name}");
                !by_token && properties["AuthorizationType"] != "AWS_IAM"
            }
            _ => false,
        }
    };
    TEMPLATE["Resources"].as_object().unwrap().keys().filter(|name| is_open(name)).cloned().collect()
}

const HTTP_API: (&str, &str) = ("Endpoint", "http-api");

#[test]
fn the_endpoint_is_open_only_if_the_function_asks_for_tokens_or_everyone_may_call() {
    let open = |parameters: &[(&str, &str)]| open_to_all(&Stack::new(&TEMPLATE, parameters));
    assert_eq!(open(&[]), BTreeSet::new());
    assert_eq!(open(&[HTTP_API]), BTreeSet::new());
    let url = ["AnyoneMayInvokeThroughTheUrl", "AnyoneMayUseTheUrl", "ApiUrl"].map(str::to_owned);
    assert_eq!(open(&[("AuthMode", "anonymous")]), url.clone().into());
    assert_eq!(open(&[("AuthMode", "bearer")]), url.clone().into());
    assert_eq!(open(&[("AuthMode", "oauth")]), url.into());
    let http_api = ["HttpApiCallbacks", "HttpApiDelete", "HttpApiGet", "HttpApiHealth", "HttpApiPost"];
    let http_api = http_api.map(str::to_owned);
    assert_eq!(open(&[("AuthMode", "anonymous"), HTTP_API]), http_api.clone().into());
    let with_documents = http_api.into_iter().chain(["HttpApiMetadata".to_owned()]).collect();
    assert_eq!(open(&[("AuthMode", "oauth"), HTTP_API]), with_documents);
    // A rule refuses this; without it, no caller would get in.
    assert_eq!(open(&[("AuthMode", "gateway")]), BTreeSet::new());
}

/// Neither the digests of tokens nor anything else of SSM is for functions that need none.
#[test]
fn the_api_function_alone_reads_the_tokens_and_only_where_there_are_some() {
    let parameter = "parameter/longhaul/${AWS::StackName}/tokens";
    let named = |mode: &str, role: &str| {
        let stack = Stack::new(&TEMPLATE, &[("AuthMode", mode)]);
        let policies = stack.resource(role).unwrap()["Policies"].to_string();
        (policies.contains(parameter), policies.matches("ssm:Get").count())
    };
    assert_eq!(named("bearer", "ApiRole"), (true, 1));
    for (mode, role) in [("iam", "ApiRole"), ("oauth", "ApiRole"), ("bearer", "WorkerRole")] {
        assert_eq!(named(mode, role), (false, 0), "{mode} {role}");
    }
    let name = TEMPLATE["Outputs"]["TokenParameter"]["Value"]["Fn::Sub"].as_str().unwrap();
    assert!(parameter.ends_with(name), "{name}");
}

#[test]
fn a_gateway_that_verifies_tokens_lets_nothing_through_without_one_but_the_way_to_get_one() {
    let tokens = [("OAuthIssuers", super::ISSUER), ("OAuthAudiences", "https://mcp.example.com/mcp,api://longhaul")];
    let stack = Stack::new(&TEMPLATE, &[&tokens[..], &[HTTP_API, ("AuthMode", "gateway")]].concat());
    let open = ["HttpApiMetadata", "HttpApiHealth", "HttpApiCallbacks"].map(str::to_owned);
    assert_eq!(open_to_all(&stack), open.into());
    let of = |kind: &str| routes(&stack).into_iter().filter(|(_, by)| by == kind).map(|(key, _)| key).collect();
    let by_token: BTreeSet<String> = of("JWT");
    assert_eq!(by_token, ["DELETE /mcp", "GET /mcp", "POST /mcp"].map(str::to_owned).into());
    let without: BTreeSet<String> = of("NONE");
    assert_eq!(
        without,
        ["GET /.well-known/{proxy+}", "GET /healthz", "POST /callbacks/{token}", PREFLIGHT].map(str::to_owned).into()
    );
    let authorizer = stack.resource("HttpApiTokens").unwrap();
    assert_eq!(authorizer["AuthorizerType"], "JWT");
    assert_eq!(authorizer["IdentitySource"], json!(["$request.header.Authorization"]));
    assert_eq!(authorizer["JwtConfiguration"]["Issuer"], super::ISSUER);
    for (endpoint, mode) in [("http-api", "iam"), ("http-api", "oauth"), ("function-url", "gateway")] {
        let other = Stack::new(&TEMPLATE, &[("Endpoint", endpoint), ("AuthMode", mode)]);
        assert!(other.resource("HttpApiTokens").is_none(), "{endpoint} {mode}");
    }
}
