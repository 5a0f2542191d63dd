//! The API function: HTTP events in, MCP answers out.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use http::HeaderName;
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent, Service, service_fn};
use longhaul_core::{Identity, OwnerId, TaskKey};
use longhaul_engine::{Engine, Ports};
use longhaul_http::WebOrigin;
use longhaul_lambda::{Api, Auth, HttpEvent, IamOwner, OnBehalf, TokenClaims};
use longhaul_mcp::{McpServer, McpSettings, TaskContext, TaskPolicy};
use longhaul_testkit::FaultyStore;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde_json::{Value, json};

use crate::world::{Asked, World, event};

static TOOLS: LazyLock<ToolRouter<Tools>> = LazyLock::new(|| Tools::tool_router() + Tools::slow_tool());

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Countdown {
    seconds: u32,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Quotes {
    number: usize,
}

/// A tool with the name that the sample events call, and one that reports what it can see of its request.
#[derive(Clone, Default)]
struct Tools {
    seen: Arc<Mutex<Vec<String>>>,
}

#[tool_router]
impl Tools {
    #[tool(description = "Counts down")]
    async fn countdown(&self, Parameters(Countdown { seconds }): Parameters<Countdown>, _task: TaskContext) -> String {
        seconds.to_string()
    }

    #[tool(description = "Answers with quotation marks, which take four bytes each in an answer to Lambda")]
    async fn quotes(&self, Parameters(Quotes { number }): Parameters<Quotes>) -> String {
        "\"".repeat(number)
    }

    #[tool(description = "Lists the names of the headers")]
    async fn headers(&self, context: RequestContext<RoleServer>) -> String {
        let parts = context.extensions.get::<http::request::Parts>().unwrap();
        let names: Vec<_> = parts.headers.keys().map(ToString::to_string).collect();
        self.seen.lock().unwrap().clone_from(&names);
        names.join(",")
    }
}

#[tool_router(router = slow_tool)]
impl Tools {
    #[tool(description = "Never returns")]
    async fn hang(&self) -> String {
        std::future::pending().await
    }
}

#[tool_handler(router = TOOLS)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

pub(crate) fn api(world: &World, auth: Auth, origins: &[&str]) -> Api {
    let policies = BTreeMap::from([("countdown".to_owned(), TaskPolicy::optional())]);
    let tools = Tools::default();
    let mcp = McpServer::new(move || tools.clone(), policies, world.engine.clone(), McpSettings::new([7; 32]));
    let origins: Vec<_> = origins.iter().map(|origin| (*origin).to_owned()).collect();
    Api::new(mcp, auth, WebOrigin::listed(&origins).unwrap(), Arc::clone(&world.clock) as _)
}

/// A function that every caller may call.
pub(crate) fn open() -> (World, Api) {
    let world = World::new();
    let api = api(&world, Auth::Anonymous, &[]);
    (world, api)
}

pub(super) fn lambda_event(event: &Value) -> LambdaEvent<LambdaRequest> {
    LambdaEvent::new(request(event), Context::default())
}

/// The event as the function reads it.
pub(crate) fn request(event: &Value) -> LambdaRequest {
    serde_json::from_value::<HttpEvent>(event.clone()).unwrap().into_inner()
}

/// The function's whole answer to Lambda.
pub(crate) async fn answer(api: &Api, event: &Value) -> Value {
    let handler = service_fn(|request| {
        let api = api.clone();
        async move { Ok::<_, std::convert::Infallible>(api.answer_whole(request).await) }
    });
    let answered = Adapter::from(handler).call(lambda_event(event)).await.unwrap();
    serde_json::to_value(answered).unwrap()
}

/// The JSON-RPC message in a buffered answer.
pub(crate) fn message(answer: &Value) -> Value {
    assert_eq!(answer["isBase64Encoded"], false);
    serde_json::from_str(answer["body"].as_str().unwrap()).unwrap()
}

/// `event` with another method and parameters.
pub(super) fn with_body(event: &Value, method: &str, name: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
    let mut event = event.clone();
    let mut body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    body["method"] = method.into();
    change(&mut body["params"]);
    event["body"] = body.to_string().into();
    event["headers"]["mcp-method"] = method.into();
    match name {
        Some(name) => event["headers"]["mcp-name"] = name.into(),
        None => drop(event["headers"].as_object_mut().unwrap().remove("mcp-name")),
    }
    event
}

pub(crate) fn poll(event: &Value, task_id: &str) -> Value {
    with_body(event, "tasks/get", Some(task_id), |params| {
        let meta = params["_meta"].clone();
        *params = json!({"taskId": task_id, "_meta": meta});
    })
}

pub(super) const SIGNED: Auth = Auth::Iam(IamOwner::Principal);

#[tokio::test]
async fn every_kind_of_http_event_is_answered() {
    let world = World::new();
    for name in ["api-function-url", "api-http-api", "api-rest-api"] {
        let answered = answer(&api(&world, Auth::Anonymous, &[]), &event(name)).await;
        assert_eq!(answered["statusCode"], 200, "{name}");
        let tools = message(&answered)["result"]["tools"].clone();
        assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "countdown"), "{name}: {tools}");
    }
}

#[tokio::test]
async fn an_accepted_call_is_recorded_and_its_message_sent_before_the_answer() {
    let world = World::new();
    let answered = answer(&api(&world, Auth::Anonymous, &[]), &event("api-function-url-call")).await;
    let result = message(&answered)["result"].clone();
    assert_eq!(result["resultType"], "task", "{answered}");
    let id = result["taskId"].as_str().unwrap().parse().unwrap();
    let task = world.task(&TaskKey::new(OwnerId::of(Identity::Anonymous), id)).await;
    let trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    assert_eq!(task.trace.map(|trace| trace.to_string()), trace, "the call's trace is stored");
    assert_eq!(world.queue.asked(), [Asked::Send { task: id, trace }]);
}

#[tokio::test]
async fn a_signed_caller_owns_its_tasks_and_nobody_else_finds_them() {
    let world = World::new();
    for name in ["api-function-url-iam", "api-http-api-iam"] {
        let (api, ann) = (api(&world, SIGNED, &[]), event(name));
        let accepted = message(&answer(&api, &ann).await);
        let id = accepted["result"]["taskId"].as_str().unwrap().to_owned();
        let owner = OwnerId::of(Identity::Verified {
            issuer: "aws-iam",
            subject: "AIDACKCEVSQ6C2EXAMPLE",
            tenant: "111122223333",
        });
        world.task(&TaskKey::new(owner, id.parse().unwrap())).await;

        let mut bob = ann.clone();
        bob["requestContext"]["authorizer"]["iam"]["userId"] = "AIDAOTHER".into();
        assert_eq!(message(&answer(&api, &poll(&ann, &id)).await)["result"]["taskId"], id.as_str(), "{name}");
        let refused = message(&answer(&api, &poll(&bob, &id)).await);
        assert_eq!(refused["error"]["code"], -32602, "{name}: {refused}");
    }
}

#[tokio::test]
async fn a_token_that_the_gateway_verified_names_the_owner() {
    let world = World::new();
    let api = api(&world, Auth::Gateway(TokenClaims::default(), None), &[]);
    let ann = event("api-http-api-jwt");
    let id = message(&answer(&api, &ann).await)["result"]["taskId"].as_str().unwrap().to_owned();
    let mut elsewhere = ann.clone();
    elsewhere["requestContext"]["authorizer"]["jwt"]["claims"]["iss"] = "https://other.example.com".into();
    assert_eq!(message(&answer(&api, &poll(&ann, &id)).await)["result"]["status"], "working");
    assert_eq!(message(&answer(&api, &poll(&elsewhere, &id)).await)["error"]["code"], -32602);
}

/// A function that trusts the role of the AgentCore gateway of the sample event to name its users.
fn behind_agentcore(world: &World, role: &str) -> Api {
    let trusted = OnBehalf { role: role.to_owned(), header: HeaderName::from_static("x-longhaul-user") };
    api(world, Auth::IamOnBehalf(IamOwner::Principal, trusted), &[])
}

#[tokio::test]
async fn each_user_of_an_agentcore_gateway_has_tasks_of_its_own() {
    let world = World::new();
    let api = behind_agentcore(&world, "AROAEXAMPLE1234567890");
    let ann = event("api-function-url-agentcore");
    let accepted = message(&answer(&api, &ann).await);
    let id = accepted["result"]["taskId"].as_str().unwrap().to_owned();
    let owner = OwnerId::of(Identity::Verified {
        issuer: "aws-iam/AROAEXAMPLE1234567890",
        subject: "ann@example.com",
        tenant: "111122223333",
    });
    world.task(&TaskKey::new(owner, id.parse().unwrap())).await;
    let mut again = ann.clone();
    again["requestContext"]["authorizer"]["iam"]["userId"] = "AROAEXAMPLE1234567890:next".into();
    assert_eq!(message(&answer(&api, &poll(&again, &id)).await)["result"]["taskId"], id.as_str());

    let mut bob = ann.clone();
    bob["headers"]["x-longhaul-user"] = "bob@example.com".into();
    let mut nobody = ann.clone();
    nobody["headers"].as_object_mut().unwrap().remove("x-longhaul-user");
    for other in [bob, nobody, event("api-function-url-iam")] {
        let refused = message(&answer(&api, &poll(&other, &id)).await);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

#[tokio::test]
async fn only_the_trusted_role_may_name_a_user() {
    let world = World::new();
    let mut user = event("api-function-url-iam");
    user["headers"]["x-longhaul-user"] = "ann@example.com".into();
    let gateway = event("api-function-url-agentcore");
    for (role, event) in [("AROAEXAMPLE1234567890", &user), ("AROAANOTHERGATEWAY000", &gateway)] {
        let refused = answer(&behind_agentcore(&world, role), event).await;
        assert_eq!(refused["statusCode"], 403, "{refused}");
        assert!(message(&refused)["error"]["message"].as_str().unwrap().contains("only the role"), "{refused}");
    }
    // As an HTTP API hands on a header that was sent twice: by the client, and by the gateway.
    let mut twice = gateway.clone();
    twice["headers"]["x-longhaul-user"] = "bob@example.com,ann@example.com".into();
    let refused = answer(&behind_agentcore(&world, "AROAEXAMPLE1234567890"), &twice).await;
    assert_eq!(refused["statusCode"], 403, "{refused}");
    assert_eq!(world.queue.asked(), []);
}

#[tokio::test]
async fn the_header_means_nothing_to_a_function_that_trusts_no_role() {
    let world = World::new();
    let api = api(&world, SIGNED, &[]);
    let ann = event("api-function-url-agentcore");
    let id = message(&answer(&api, &ann).await)["result"]["taskId"].as_str().unwrap().to_owned();
    let mut bob = ann.clone();
    bob["headers"]["x-longhaul-user"] = "bob@example.com".into();
    let seen = message(&answer(&api, &poll(&bob, &id)).await);
    assert_eq!(seen["result"]["taskId"], id.as_str(), "both are the gateway's role");
}

#[tokio::test]
async fn an_event_without_a_verified_caller_is_refused_before_anything_is_done() {
    let mut world = World::new();
    let untouched = FaultyStore::new(Arc::clone(&world.store), |_| panic!("the table is asked"));
    let ports = Ports { store: Arc::new(untouched), ..world.engine.ports().clone() };
    world.engine = Engine::new(ports, *world.engine.settings());
    let trusted =
        OnBehalf { role: "AROAEXAMPLE1234567890".to_owned(), header: HeaderName::from_static("x-longhaul-user") };
    let on_behalf = Auth::IamOnBehalf(IamOwner::Principal, trusted);
    for (auth, name, status) in [
        (SIGNED, "api-function-url-call", 403),
        (SIGNED, "api-http-api-jwt", 403),
        (Auth::Gateway(TokenClaims::default(), None), "api-http-api-iam", 401),
        (Auth::Gateway(TokenClaims::default(), None), "api-function-url-call", 401),
        (on_behalf.clone(), "api-function-url-call", 403),
        (on_behalf, "api-http-api-jwt", 403),
    ] {
        let answered = answer(&api(&world, auth, &[]), &event(name)).await;
        assert_eq!(answered["statusCode"], status, "{name}");
        assert!(message(&answered)["error"]["message"].is_string());
    }
    assert_eq!(world.queue.asked(), []);
}

#[tokio::test]
async fn a_caller_cannot_claim_another_identity() {
    let world = World::new();
    let mut forged = event("api-function-url-call");
    let authorizer = event("api-function-url-iam")["requestContext"]["authorizer"].clone();
    for header in ["x-amzn-iam", "x-amz-requestcontext", "authorizer"] {
        forged["headers"][header] = authorizer.to_string().into();
    }
    forged["authorizer"] = authorizer.clone();
    forged["queryStringParameters"] = json!({"authorizer": "iam"});
    let answered = answer(&api(&world, SIGNED, &[]), &forged).await;
    assert_eq!(answered["statusCode"], 403);
}

#[tokio::test]
async fn tools_do_not_see_credentials() {
    let world = World::new();
    let call = with_body(&event("api-function-url-iam"), "tools/call", Some("headers"), |params| {
        params["name"] = "headers".into();
        params["arguments"] = json!({});
    });
    let answered = answer(&api(&world, SIGNED, &[]), &call).await;
    let seen = message(&answered)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(seen.contains("mcp-method"), "{seen}");
    assert!(!seen.contains("authorization") && !seen.contains("x-amz-security-token"), "{seen}");
}

#[tokio::test]
async fn only_listed_origins_are_allowed() {
    let world = World::new();
    let api = api(&world, Auth::Anonymous, &["https://App.example.com:443", "file://", "vscode-webview://0K4L"]);
    for (origin, status) in [
        ("https://app.example.com", 200),
        ("https://app.example.com:443", 200),
        ("file://", 200),
        ("vscode-webview://0k4l", 200),
        ("https://evil.example.com", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
    ] {
        let mut call = event("api-function-url");
        call["headers"]["origin"] = origin.into();
        assert_eq!(answer(&api, &call).await["statusCode"], status, "{origin}");
    }
}

#[tokio::test]
async fn requests_of_any_shape_are_answered() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let (_world, api) = open();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut event = event("api-function-url");
        change(&mut event);
        event
    };
    let asked_for = |method: &'static str, path: &'static str| {
        with(&move |event| {
            event["rawPath"] = path.into();
            event["requestContext"]["http"]["method"] = method.into();
        })
    };
    let encoded = |bytes: &[u8]| {
        let text = STANDARD.encode(bytes);
        with(&move |event| (event["body"], event["isBase64Encoded"]) = (text.clone().into(), true.into()))
    };
    let cases = [
        ("bytes that are not text", encoded(&[0xff, 0xfe, 0x00, 0x80]), 400),
        ("nothing, encoded", encoded(b""), 400),
        ("what is said to be encoded, and is not", with(&|event| event["isBase64Encoded"] = true.into()), 400),
        ("no body at all", with(&|event| drop(event.as_object_mut().unwrap().remove("body"))), 400),
        ("the same body, encoded", encoded(event("api-function-url")["body"].as_str().unwrap().as_bytes()), 200),
        ("too much", encoded(&vec![b' '; 6_000_000]), 413),
        (
            "several values in a header",
            with(&|event| event["headers"]["accept"] = "a/b,application/json, text/event-stream".into()),
            200,
        ),
        ("cookies", with(&|event| event["cookies"] = json!(["a=b", "c=d"])), 200),
        ("a query", with(&|event| event["rawQueryString"] = "x=1&x=2&y=%00".into()), 200),
        ("another name for the same path", with(&|event| event["rawPath"] = "/mcp/".into()), 404),
        ("HEAD", asked_for("HEAD", "/mcp"), 405),
        ("OPTIONS", asked_for("OPTIONS", "/mcp"), 405),
        ("DELETE", asked_for("DELETE", "/mcp"), 405),
        ("health by HEAD", asked_for("HEAD", "/healthz"), 200),
        ("no such path", asked_for("POST", "/"), 404),
        ("a path that leads elsewhere", asked_for("POST", "/mcp/../healthz"), 405),
    ];
    for (what, event, status) in cases {
        assert_eq!(answer(&api, &event).await["statusCode"], status, "{what}");
    }
}
