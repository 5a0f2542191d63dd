//! Questions: forms for enums, and those that a tool asks through its peer.
#![expect(deprecated, reason = "tools of older revisions ask for samples, and their clients answer")]

use longhaul::rmcp::model::{
    CreateMessageRequest, CreateMessageRequestParams, ElicitRequest, ElicitRequestParams, ElicitationSchema,
    SamplingMessage, ServerRequest,
};
use longhaul::rmcp::{self, ErrorData, Peer, RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::testing::{self, Call, State};
use longhaul::{Answer, Server, TaskContext, TaskPolicy};
use serde_json::{Value, json};

/// How to pay.
#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// With a card
    Card,
    Invoice,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Payment {
    way: Way,
    /// Which day of the month?
    day: Option<u8>,
    reminders: Option<Way>,
}

async fn pay(task: TaskContext) -> Result<String, ErrorData> {
    match task.ask::<Payment>("payment", "How do you pay?").await? {
        Answer::Accepted(Payment { way, day, reminders }) => Ok(format!("{way:?} {day:?} {reminders:?}")),
        _ => Ok("not at all".to_owned()),
    }
}

#[tokio::test]
async fn a_form_asks_for_the_variants_of_an_enum() {
    let call = || testing::tool(pay).answer("payment", json!({"way": "invoice"}));
    call().to_end().await.unwrap().assert_text("Invoice None None");
    call().crash_everywhere().await.unwrap();
    let mut task = testing::tool(pay).begin().await.unwrap();
    let State::Asks(questions) = task.work().await.unwrap() else { panic!("{task:?}") };
    let form = &questions[0].request["params"]["requestedSchema"];
    assert_eq!(
        form["properties"]["way"]["oneOf"],
        json!([{"const": "invoice", "title": "invoice"}, {"const": "card", "title": "With a card"}]),
        "{form}"
    );
    assert_eq!(form["required"], json!(["way"]));
}

#[tokio::test]
async fn a_wrong_answer_names_its_field() {
    let wrong = testing::tool(pay).answer("payment", json!({"way": "cash", "day": "first"}));
    let run = wrong.expect_failure().to_end().await.unwrap();
    run.assert_error("the answer to `payment` is not what was asked for");
    run.assert_error("`way`");
    run.assert_error("`day`");
}

#[tokio::test]
async fn a_form_that_cannot_be_asked_is_refused_when_the_server_starts() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Order {
        payment: Payment,
    }

    let server = || Server::new(|| Asking).task("elicit", TaskPolicy::optional());
    server().form::<Payment>().check().await.unwrap();
    let refused = server().form::<Payment>().form::<Order>().check().await.unwrap_err();
    assert!(refused.to_string().starts_with("no form can ask for the field `payment` of `Order`"), "{refused}");
}

/// Tools that ask as any `rmcp` tool does, without knowing that they run as tasks.
#[derive(Clone)]
struct Asking;

async fn ask(peer: &Peer<RoleServer>, request: ServerRequest) -> Result<Value, ErrorData> {
    let answer = peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(serde_json::to_value(answer).unwrap())
}

#[tool_router]
impl Asking {
    #[tool]
    async fn elicit(&self, peer: Peer<RoleServer>, task: TaskContext) -> Result<String, ErrorData> {
        let first = task.step("first", async || 1).await;
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Your name?".to_owned(),
            requested_schema: ElicitationSchema::builder().required_string("name").build().unwrap(),
        };
        let answer = ask(&peer, ServerRequest::ElicitRequest(ElicitRequest::new(params))).await?;
        let last = task.step("last", async || 2).await;
        Ok(format!("{first} {} {last}", answer["content"]["name"]))
    }

    #[tool]
    async fn sample(&self, peer: Peer<RoleServer>, task: TaskContext) -> Result<String, ErrorData> {
        task.step("first", async || 1).await;
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("A word?")], 10);
        let answer = ask(&peer, ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params))).await?;
        task.step("last", async || 2).await;
        let content = &answer["content"];
        Ok(content.get(0).unwrap_or(content)["text"].to_string())
    }
}

#[tool_handler]
impl ServerHandler for Asking {}

fn asking(tool: &str) -> Call {
    testing::server(Asking).call(tool, json!({}))
}

#[tokio::test]
async fn what_a_tool_asks_through_its_peer_survives_a_crash_at_every_point() {
    let elicit = || asking("elicit").answer("peer-0", json!({"name": "Ann"}));
    elicit().to_end().await.unwrap().assert_text("1 \"Ann\" 2");
    elicit().crash_everywhere().await.unwrap();
    let said = json!({"role": "assistant", "content": {"type": "text", "text": "ship"}, "model": "m"});
    let sample = || asking("sample").respond("peer-0", said.clone());
    sample().to_end().await.unwrap().assert_text("\"ship\"");
    sample().crash_everywhere().await.unwrap();
}
