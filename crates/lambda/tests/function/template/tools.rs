//! The template's means for the tools of other authors: permissions, settings, secrets, a network, workers for a class.

use longhaul_core::ToolClass;
use serde_json::{Value, json};

use super::resolve::Stack;
use super::{Env, TEMPLATE, WorkerConfig, hold, worker};

const SECRET: &str = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:prod/db-AbCdEf";
const PARAMETER: &str = "arn:aws:ssm:eu-west-1:111122223333:parameter/prod/key";
const POLICY: &str = "arn:aws:iam::111122223333:policy/tools";
const KEY: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234";

/// The functions that run tools.
const RUN_TOOLS: [&str; 2] = ["Worker", "ClassWorker"];

const HEAVY: (&str, &str) = ("WorkerClass", "heavy");

fn several(of: &str) -> Value {
    json!({"Fn::Split": [",", of]})
}

/// The statement of the worker's role with this id.
fn statement(stack: &Stack<'_>, sid: &str) -> Option<Value> {
    let role = stack.resource("WorkerRole").unwrap();
    let statements = role["Policies"][0]["PolicyDocument"]["Statement"].as_array().unwrap().clone();
    statements.into_iter().find(|statement| statement["Sid"] == sid)
}

#[test]
fn by_default_tools_get_nothing_and_share_the_workers() {
    let stack = Stack::new(&TEMPLATE, &[]);
    for resource in ["ClassWork", "ClassWorkNeedsTls", "ClassWorker", "ClassWorkerLogs", "ClassWorkerErrorsAlarm"] {
        assert!(stack.resource(resource).is_none(), "{resource}");
    }
    let plain_role = json!({"PermissionsBoundary": null, "ManagedPolicyArns": null});
    hold(&[
        ("nothing more", &[], "Worker", json!({"Layers": null, "VpcConfig": null, "EphemeralStorage": null})),
        ("no more rights", &[], "ApiRole", plain_role.clone()),
        ("no more rights", &[], "WorkerRole", plain_role.clone()),
        ("no more rights", &[], "DeadLetterWorkerRole", plain_role),
    ]);
    for sid in ["Secrets", "KeyOfSecrets", "NetworkInterfaces"] {
        assert!(statement(&stack, sid).is_none(), "{sid}");
    }
    let config = worker("Worker", &[]);
    assert!(config.secret_arns.is_empty() && config.common.class_queues.is_empty());
}

#[test]
fn a_class_has_a_queue_and_workers_of_its_own() {
    const SIZES: [(&str, &str); 5] = [
        HEAVY,
        ("MemoryMb", "512,1024,4096"),
        ("WorkerTimeoutSeconds", "600"),
        ("WorkerMaximumConcurrency", "5"),
        ("Settings", "tool-env=BUCKET=reports,URL=https://a.example/?b=c"),
    ];
    let function = json!({"MemorySize": 4_096, "Timeout": 600, "RecursiveLoop": "Allow"});
    let events = json!({
        "Queue": {"Fn::GetAtt": "ClassWork.Arn"}, "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BatchSize": 1, "ScalingConfig": {"MaximumConcurrency": 5},
    });
    let dead_letters = json!({"deadLetterTargetArn": {"Fn::GetAtt": "DeadLetters.Arn"}});
    // Lambda refuses less than the timeout.
    let queue = json!({"VisibilityTimeout": 600, "RedrivePolicy": dead_letters});
    hold(&[
        ("its size", &SIZES, "ClassWorker", function),
        ("that of others", &SIZES, "Worker/MemorySize", json!(1_024)),
        ("and of the API function", &SIZES, "Api/MemorySize", json!(512)),
        ("its messages", &SIZES, "ClassWorker/Events/Work/Properties", events),
        ("its queue", &SIZES, "ClassWork", queue),
    ]);
    // Everyone who sends work knows the queue, and the worker of the class too.
    let heavy = ToolClass::parse("heavy").unwrap();
    for name in ["Worker", "ClassWorker", "DeadLetterWorker"] {
        let config = worker(name, &SIZES);
        assert!(config.common.class_queues[&heavy].ends_with("/ClassWork"), "{name}");
        assert!(config.common.queue_url.ends_with("/Work"), "{name}");
    }
    assert!(super::api(&SIZES).common.class_queues[&heavy].ends_with("/ClassWork"));
    assert_eq!(worker("ClassWorker", &SIZES).concurrency, 1);
    let stack = Stack::new(&TEMPLATE, &SIZES);
    for function in ["Api", "Worker", "ClassWorker"] {
        assert_eq!(stack.environment(function)["LONGHAUL_SETTINGS"], SIZES[4].1, "{function}");
    }
}

#[test]
fn who_sends_or_takes_work_may_use_the_queue_of_the_class() {
    for (parameters, expected) in [(&[][..], 0), (&[HEAVY], 1)] {
        let stack = Stack::new(&TEMPLATE, parameters);
        for (role, sid) in [("ApiRole", "SendWork"), ("WorkerRole", "OwnQueue"), ("DeadLetterWorkerRole", "SendWork")] {
            let role = stack.resource(role).unwrap();
            let statements = role["Policies"][0]["PolicyDocument"]["Statement"].as_array().unwrap().clone();
            let statement = statements.into_iter().find(|statement| statement["Sid"] == sid).unwrap();
            let resources = statement["Resource"].as_array().unwrap();
            let of_class = resources.iter().filter(|resource| resource["Fn::GetAtt"] == "ClassWork.Arn").count();
            assert_eq!((of_class, resources.len()), (expected, expected + 1), "{role}");
        }
    }
}

#[test]
fn workers_may_read_exactly_the_secrets_that_are_named() {
    let arns = format!("{SECRET},{PARAMETER}");
    let parameters = [HEAVY, ("Settings", "secret-names=DB_PASSWORD,API_KEY"), ("SecretArns", &arns)];
    let stack = Stack::new(&TEMPLATE, &parameters);
    let allowed = statement(&stack, "Secrets").unwrap();
    assert_eq!(allowed["Action"], json!(["secretsmanager:GetSecretValue", "ssm:GetParameter"]));
    assert_eq!(allowed["Resource"], several(&arns));
    assert!(statement(&stack, "KeyOfSecrets").is_none());
    for function in RUN_TOOLS {
        let secrets = worker(function, &parameters).secret_arns;
        assert_eq!(secrets["DB_PASSWORD"], SECRET, "{function}");
        assert_eq!(secrets["API_KEY"], PARAMETER, "{function}");
    }
    // The others run no tasks, and have no permission.
    assert!(worker("DeadLetterWorker", &parameters).secret_arns.is_empty());
    assert!(!stack.environment("Api").contains_key("LONGHAUL_SECRET_ARNS"));
    // Secrets under a key of one's own need that key, through their services only.
    let keyed = Stack::new(&TEMPLATE, &[&parameters[..], &[("KmsKeyArn", KEY)]].concat());
    let key = statement(&keyed, "KeyOfSecrets").unwrap();
    assert_eq!((&key["Action"], &key["Resource"]), (&json!("kms:Decrypt"), &json!(KEY)));
    let services = key["Condition"]["StringEquals"]["kms:ViaService"].as_array().unwrap();
    assert_eq!(services.len(), 2);
}

#[test]
fn secrets_and_their_names_that_do_not_fit_are_refused_by_name() {
    let refused = |names: &str, arns: &str, env: &str| {
        let settings = format!("secret-names={names}{env}");
        let parameters = [("Settings", settings.as_str()), ("SecretArns", arns)];
        let env = Stack::new(&TEMPLATE, &parameters).environment("Worker");
        WorkerConfig::read(&Env(env)).unwrap_err().to_string()
    };
    let two = format!("{SECRET},{PARAMETER}");
    for (refused, said) in [
        (refused("A,B,C", &two, ""), "no more names than LONGHAUL_SECRET_ARNS has entries: 2"),
        (refused("A,A", &two, ""), "each name must be there once"),
        (refused("A-B", SECRET, ""), "letters, digits and `_`"),
        (refused("A", SECRET, " tool-env=A=b"), "leave one of them out"),
    ] {
        assert!(refused.contains("`secret-names` in LONGHAUL_SETTINGS") && refused.contains(said), "{refused}");
    }
}

#[test]
fn the_patterns_take_what_the_settings_take() {
    let pattern = |name: &str| {
        let pattern = TEMPLATE["Parameters"][name]["AllowedPattern"].as_str().unwrap();
        regex_lite::Regex::new(&format!("^(?:{pattern})$")).unwrap()
    };
    let two = format!("{SECRET},{PARAMETER}");
    for (name, taken, refused) in [
        ("WorkerClass", &["", "heavy", "gpu-2"][..], &["Heavy", "2x", "a,b"][..]),
        ("SecretArns", &["", SECRET, PARAMETER, &two], &["db", "arn:aws:s3:::bucket", "A=b", "*"]),
        ("WorkerPolicyArns", &["", POLICY, "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"], &["tools", "*"]),
        ("PermissionsBoundaryArn", &["", POLICY], &["tools"]),
    ] {
        let pattern = pattern(name);
        for text in taken {
            assert!(pattern.is_match(text), "{name}: {text}");
        }
        for text in refused {
            assert!(!pattern.is_match(text), "{name}: {text}");
        }
    }
    assert!(!pattern("WorkerPolicyArns").is_match(&[POLICY; 11].join(",")), "IAM takes ten by default");
}

#[test]
fn workers_get_the_policies_and_the_network_of_their_tools() {
    let two = format!("{POLICY},arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess");
    let parameters = [HEAVY, ("WorkerPolicyArns", two.as_str()), ("Vpc", "subnet-1,subnet-2/sg-1")];
    let network = json!({"SubnetIds": several("subnet-1,subnet-2"), "SecurityGroupIds": several("sg-1")});
    let with = |room: Value| {
        let role = json!({"Fn::GetAtt": "WorkerRole.Arn"});
        json!({"VpcConfig": network, "EphemeralStorage": room, "Role": role})
    };
    let nothing = json!({"Layers": null, "VpcConfig": null, "EphemeralStorage": null, "ManagedPolicyArns": null});
    hold(&[
        ("policies", &parameters, "WorkerRole/ManagedPolicyArns", several(&two)),
        ("the workers", &parameters, "Worker", with(json!(null))),
        ("those of a class", &parameters, "ClassWorker", with(json!({"Size": 10_240}))),
        ("needs nothing of it", &parameters, "Api", nothing.clone()),
        ("needs nothing of it", &parameters, "DeadLetterWorker", nothing.clone()),
        ("needs nothing of it", &parameters, "ApiRole", nothing.clone()),
        ("needs nothing of it", &parameters, "DeadLetterWorkerRole", nothing),
    ]);
    let stack = Stack::new(&TEMPLATE, &parameters);
    // Lambda makes the interfaces; code inside of a function may not.
    let (allowed, denied) =
        (statement(&stack, "NetworkInterfaces").unwrap(), statement(&stack, "NetworkInterfacesByLambdaOnly").unwrap());
    assert_eq!((&allowed["Effect"], &denied["Effect"]), (&json!("Allow"), &json!("Deny")));
    assert_eq!(allowed["Action"], denied["Action"]);
    assert!(denied["Condition"]["ArnLike"]["lambda:SourceFunctionArn"].is_object());
}

#[test]
fn a_boundary_bounds_every_role_and_a_key_encrypts_every_environment() {
    let stack = Stack::new(
        &TEMPLATE,
        &[("PermissionsBoundaryArn", POLICY), ("KmsKeyArn", KEY), HEAVY, ("Schedules", "on"), ("Push", "on")],
    );
    for (name, resource) in TEMPLATE["Resources"].as_object().unwrap() {
        if resource["Type"] == "AWS::IAM::Role" {
            assert_eq!(stack.resource(name).unwrap()["PermissionsBoundary"], POLICY, "{name}");
        }
        if resource["Type"] == "AWS::SQS::Queue" {
            assert_eq!(stack.resource(name).unwrap()["KmsMasterKeyId"], KEY, "{name}");
        }
    }
    assert_eq!(
        TEMPLATE["Globals"]["Function"]["KmsKeyArn"]["Fn::If"],
        json!(["HasKey", {"Ref": "KmsKeyArn"}, {"Ref": "AWS::NoValue"}])
    );
}

/// The example of a template that has this one as a part.
#[test]
fn the_template_can_be_a_part_of_another_one() {
    let whole = super::yaml::template_at("infra/nested/template.yaml");
    let part = &whole["Resources"]["Longhaul"]["Properties"];
    assert_eq!(part["Location"], "../../template.yaml");
    for (name, value) in part["Parameters"].as_object().unwrap() {
        let declared = &TEMPLATE["Parameters"][name];
        assert!(declared.is_object(), "the template has no parameter {name}");
        assert!(value.is_string() || value.is_object(), "CloudFormation takes texts only: {name}");
        if let (Some(pattern), Some(text)) = (declared["AllowedPattern"].as_str(), value.as_str()) {
            assert!(regex_lite::Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(text), "{name}: {text}");
        }
    }
    for output in whole["Outputs"].as_object().unwrap().values() {
        let named = output["Value"]["Fn::GetAtt"].as_str().unwrap().strip_prefix("Longhaul.Outputs.").unwrap();
        assert!(TEMPLATE["Outputs"][named].is_object(), "the template has no output {named}");
    }
    let required =
        TEMPLATE["Parameters"].as_object().unwrap().iter().filter(|(_, parameter)| parameter.get("Default").is_none());
    assert_eq!(required.count(), 0, "a parent names what it wants to change, and nothing else");
}
