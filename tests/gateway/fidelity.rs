//! The messages of servers and callers, compared as bytes: the order of members and the digits of numbers.

use harness::caller::Caller;
use serde_json::{Value, json};

use super::answers::write;
use super::process::{Gateway, Setup, Somewhere, ended, until};

/// The output of the fixture `verbatim`, as a client that is connected to it directly gets it.
const SCHEMA: &str = r#""inputSchema":{"type":"object","properties":{"zeta":{"type":"integer","maximum":18446744073709551617},"alpha":{"type":"number","multipleOf":0.10,"default":0.80},"mid":{"enum":["z","a"],"type":"string"}},"required":["zeta"],"x-order":{"b":1,"a":1e3}}"#;
const VENDOR: &str = r#""x-vendor": {"b":"\u00e9","a":1.0},"annotations":{"x-hint":1.0,"readOnlyHint":true}"#;
const CONTENT: &str = r#""content":[{"x":1E5,"type":"text","text":"caf\u00e9 \/","annotations":{"audience":["robot"]}}, {"type":"hologram","w":1e3}]"#;
const STRUCTURED: &str = r#""structuredContent":{"z":18446744073709551616,"a":{"y":0.1000000000000000055,"b":[1e-07,1e3,1.50,-0,100.0,123456789012345678901234567890]},"s":"\u00e9","id":9007199254740993},"isError":false,"x-odd":{"b":1,"a":1.0}"#;
const META: &str = r#""_meta":{"z/z":0.80,"a/a":{"b":1e3,"a":2}}"#;

/// The arguments of a call.
const ARGUMENTS: &str = r#"{ "zeta":18446744073709551617,"alpha":0.30,"other":{"z":[1.10,-0,1e-07,1e3],"a":null},"b":9007199254740993, "s":"\u00e9"}"#;

/// Keys that only the caller uses.
const CALLERS_META: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"z=1,a=2","baggage":"user=ann","com.example/tenant":{"z":18446744073709551616,"a":1}"#;

/// One more, which a program that reads it would write otherwise.
const RAW_META: &str = r#""com.example/raw":{ "z":1E5,"s":"\u00e9","dev.longhaul/verbatim":"7"}"#;

fn params() -> Value {
    let text = format!(
        r#"{{"name":"verbatim","arguments":"@","_meta":{{{CALLERS_META},"com.example/raw":0,"dev.longhaul/x":1}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Calls the tool with arguments that are these bytes.
async fn called(caller: &Caller) -> String {
    let request = caller.request("tools/call", params());
    let built = request.try_clone().unwrap().build().unwrap();
    let body = std::str::from_utf8(built.body().unwrap().as_bytes().unwrap()).unwrap();
    let body = body.replace(r#""arguments":"@""#, &format!(r#""arguments":{ARGUMENTS}"#));
    let body = body.replace(r#""com.example/raw":0"#, RAW_META);
    request.body(body).send().await.unwrap().text().await.unwrap()
}

async fn text(caller: &Caller, method: &str, params: Value) -> String {
    caller.request(method, params).send().await.unwrap().text().await.unwrap()
}

fn assert_contains(text: &str, expected: &str) {
    assert!(text.contains(expected), "{expected}\nis not in\n{text}");
}

/// Members of an object, as a program prints them that has read them.
fn as_read(members: &str) -> String {
    let read: Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
    read.to_string().trim_start_matches('{').strip_suffix('}').unwrap().to_owned()
}

/// Calls the tool, and compares all that passes.
async fn passes(setup: &Setup, gateway: &Gateway) -> String {
    let caller = gateway.caller();
    let listed = text(&caller, "tools/list", json!({})).await;
    assert_contains(&listed, SCHEMA);
    assert_contains(&listed, VENDOR);
    let created: Value = serde_json::from_str(&called(&caller).await).unwrap();
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(ended(&caller, &id).await["status"], "completed");
    result_is_there(&caller, &id).await;
    let received = setup.lines("received").pop().unwrap();
    assert_contains(&received, &format!(r#""arguments":{ARGUMENTS}"#));
    for member in CALLERS_META.split(",\"") {
        assert_contains(&received, member.trim_start_matches('"'));
    }
    assert_contains(&received, RAW_META);
    assert!(!received.contains("dev.longhaul/x"), "{received}");
    id
}

async fn result_is_there(caller: &Caller, id: &str) {
    let task = text(caller, "tasks/get", json!({"taskId": id})).await;
    for part in [CONTENT, STRUCTURED, META] {
        assert_contains(&task, part);
    }
}

#[tokio::test]
async fn members_keep_their_order_and_numbers_their_digits_also_after_a_restart() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let id = passes(&setup, &gateway).await;
    gateway.terminate();
    result_is_there(&setup.start().caller(), &id).await;
}

#[tokio::test]
async fn they_do_behind_a_url_and_in_a_task_of_the_server() {
    let modes: [&[&str]; 3] = [&["http"], &["events"], &["http", "tasks"]];
    for modes in modes {
        let mut server = None;
        let setup = Setup::config(|setup| {
            let (started, url) = Somewhere::fixture("verbatim", &[&[setup.path("").as_str()], modes].concat());
            server = Some(started);
            json!({"mcpServers": {"v": {"type": "http", "url": url}}})
        });
        let gateway = setup.start();
        passes(&setup, &gateway).await;
    }
}

#[tokio::test]
async fn they_do_in_a_task_of_a_process_and_for_callers_without_tasks() {
    let (setup, gateway) =
        Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &["tasks"])}})).running();
    passes(&setup, &gateway).await;
    let config = |setup: &Setup| {
        let longhaul = json!({"servers": {"v": {"task": "never"}}});
        json!({"mcpServers": {"v": setup.server("verbatim", &[])}, "longhaul": longhaul})
    };
    let (setup, gateway) = Setup::config(config).running();
    let answer = called(&gateway.caller()).await;
    for part in [CONTENT, STRUCTURED, META] {
        assert_contains(&answer, part);
    }
    assert_contains(&setup.lines("received").pop().unwrap(), &format!(r#""arguments":{ARGUMENTS}"#));
}

#[test]
fn the_lock_file_has_the_order_and_the_digits_of_the_server() {
    let setup = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}}));
    let mut command = std::process::Command::new(harness::program("longhaul"));
    let done = command.args(["gateway", "lock", "--config", &setup.path("mcp.json")]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let written = std::fs::read_to_string(setup.path("mcp.lock.json")).unwrap();
    let compact: String = written.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":");
    assert_contains(&compact, SCHEMA);
}

/// Arguments are checked by their digits.
#[tokio::test]
async fn a_long_number_is_compared_with_the_bound_of_its_schema_exactly() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let call = |zeta: &str| {
        let arguments = format!(r#"{{"name":"verbatim","arguments":{{"zeta":{zeta}}}}}"#);
        serde_json::from_str::<Value>(&arguments).unwrap()
    };
    let refused = gateway.caller().result("tools/call", call("18446744073709551618")).await;
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("at most 18446744073709551617, not 18446744073709551618"), "{refused}");
    assert!(setup.lines("received").is_empty());
}

/// The command prints results as the server wrote them.
#[tokio::test]
async fn the_command_passes_arguments_and_results_as_they_are() {
    let (setup, gateway) = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}})).running();
    let url = gateway.url().to_owned();
    let run = move || {
        let mut command = std::process::Command::new(harness::program("longhaul"));
        command.args(["--server", &url, "--json", "call", "verbatim", "-"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), ARGUMENTS.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let done = tokio::task::spawn_blocking(run).await.unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    let compact: String = printed.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":");
    assert_contains(&compact, &as_read(STRUCTURED));
    let arguments = as_read(&format!(r#""arguments":{ARGUMENTS}"#));
    assert_contains(&setup.lines("received").pop().unwrap(), &arguments);
}

/// What a server has besides tools, in lists and on request.
#[tokio::test]
async fn prompts_resources_and_completions_are_as_they_were_written() {
    const PARTS: [(&str, &str, &str); 6] = [
        (
            "prompts/list",
            "prompts",
            r#"[{"name":"p", "x":1e3,"description":"\u00e9","arguments":[{"x":1.0,"name":"a"}]}]"#,
        ),
        (
            "resources/list",
            "resources",
            r#"[{"uri":"x://r", "x":1e3,"name":"r","annotations":{"priority":0.80,"y":1.0}}]"#,
        ),
        ("resources/templates/list", "resourceTemplates", r#"[{"uriTemplate":"y://{a}", "x":1e3,"name":"\u00e9"}]"#),
        ("prompts/get", "messages", r#"[{"x":1e3,"role":"user", "content":{"type":"hologram","w":1.0}}]"#),
        ("resources/read", "contents", r#"[{"x":1e3,"uri":"x://r", "text":"\u00e9","_meta":{"v":0.80}}]"#),
        ("completion/complete", "completion", r#"{"x":1e3,"values":["\u00e9"], "total":1.0}"#),
    ];
    let (setup, gateway) = Setup::config(|setup| {
        let capabilities = r#"{"prompts":{},"resources":{},"completions":{}}"#;
        let info = r#""serverInfo":{"name":"s","version":"1"}"#;
        let info = format!(r#""protocolVersion":"2025-11-25","capabilities":{capabilities},{info}"#);
        let parts = PARTS.map(|(method, member, value)| (method, format!(r#""{member}":{value},"x-odd":1.0"#)));
        for (method, result) in parts.into_iter().chain([("initialize", info)]) {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":%d,"result":{{{result}}}}}"#);
            write(setup, &method.replace('/', "."), answer.as_bytes());
        }
        json!({"mcpServers": {"s": setup.server("scripted", &[])}})
    })
    .running();
    for (method, member, value) in PARTS {
        let mut params = match method {
            "prompts/get" => json!({"name": "p"}),
            "resources/read" => json!({"uri": "x://r"}),
            "completion/complete" => {
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}})
            }
            _ => json!({}),
        };
        let meta = format!(r#"{{{CALLERS_META},"dev.longhaul/x":1}}"#);
        params["_meta"] = serde_json::from_str(&meta).unwrap();
        let answer = text(&gateway.caller(), method, params).await;
        let whole = format!(r#""{member}":{value}"#);
        let value = if method.ends_with("list") { value.trim_matches(['[', ']']) } else { &whole };
        assert_contains(&answer, value);
        if !method.ends_with("list") {
            let received = setup.lines("received").into_iter().rfind(|line| line.contains(method)).unwrap();
            CALLERS_META.split(",\"").for_each(|member| assert_contains(&received, member.trim_start_matches('"')));
            assert!(!received.contains("dev.longhaul/x"), "{received}");
        }
    }
}

/// The answer to a question reaches its server in the order and with the digits of the client.
#[tokio::test]
async fn an_answer_reaches_the_server_as_its_client_wrote_it() {
    const CONTENT: &str = r#""content":{"zeta":1e3,"alpha":["z","a"],"n":18446744073709551617,"d":0.80,"x":{"b":-0}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#;
    let (setup, gateway) = Setup::config(|setup| {
        write(setup, "tools.call.ask", ask.as_bytes());
        json!({"mcpServers": {"s": setup.server("scripted", &[])}})
    })
    .running();
    let caller = gateway.caller();
    let id = caller.call_task("ask", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answer: Value = serde_json::from_str(&format!("{{{CONTENT}}}")).unwrap();
    caller.accept(&id, key, answer["content"].clone()).await;
    let content = as_read(CONTENT);
    until("the answer", || setup.lines("received").iter().any(|line| line.contains(&content))).await;
}

/// A form reaches the client as the server wrote it, also if no revision has such a form.
#[tokio::test]
async fn a_question_is_asked_in_the_words_of_its_server() {
    const FORMS: [&str; 6] = [
        r#"{ "x-p":{"b":1,"a":1.0},"message":"caf\u00e9","requestedSchema":{"x-s":1e3,"type":"object","properties":{"zeta":{"maximum":1e3,"type":"number"},"alpha":{"enum":["z","a"],"type":"string"}}}}"#,
        r#"{"message":"?","requestedSchema":{"properties":{"v":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}"#,
        r#"{"message":"?","requestedSchema":{"type":"object","properties":{"v":{"type":"integer","enum":[1,2]}}}}"#,
        r#"{"message":"?","requestedSchema":{"type":"object","properties":{"v":{"type":["string","null"]}}}}"#,
        r#"{"message":"?","requestedSchema":{}}"#,
        r#"{"message":"?"}"#,
    ];
    let ask = |form: &str| format!(r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{form}}}"#);
    let (_setup, gateway) = Setup::config(|setup| {
        for (number, form) in FORMS.iter().enumerate() {
            write(setup, &format!("tools.call.ask{number}"), ask(form).as_bytes());
        }
        json!({"mcpServers": {"s": setup.server("scripted", &[])}})
    })
    .running();
    let caller = gateway.caller().declaring(json!({"elicitation": {}}));
    for (number, form) in FORMS.iter().enumerate() {
        let params = json!({"name": format!("ask{number}"), "arguments": {}});
        let answer = text(&caller, "tools/call", params).await;
        assert_contains(&answer, &format!(r#""params":{form}"#));
    }
}

/// So do the data of an error, at once and in a task.
#[tokio::test]
async fn the_data_of_an_error_are_as_they_were_written() {
    const DATA: &str = r#""data":{ "z":1E5,"a":[1.0, "\u00e9"],"n":null}"#;
    for task in ["always", "never"] {
        let (_setup, gateway) = Setup::config(|setup| {
            let error = format!(r#"{{"jsonrpc":"2.0","id":%d,"error":{{"code":-32000.0,"message":"boom",{DATA}}}}}"#);
            write(setup, "tools.call.odd", error.as_bytes());
            write(setup, "tools.call.usual", error.replace(".0,\"mess", ",\"mess").as_bytes());
            let longhaul = json!({"defaults": {"handleAfter": "20s"}, "servers": {"s": {"task": task}}});
            json!({"mcpServers": {"s": setup.server("scripted", &[])}, "longhaul": longhaul})
        })
        .running();
        for tool in ["odd", "usual"] {
            let caller = gateway.caller();
            let answer = text(&caller, "tools/call", json!({"name": tool, "arguments": {}})).await;
            let answer = match serde_json::from_str::<Value>(&answer).unwrap()["result"]["taskId"].as_str() {
                Some(id) => text(&caller, "tasks/get", json!({"taskId": id})).await,
                None => answer,
            };
            assert_contains(&answer, &format!(r#""code":-32000,"message":"boom",{DATA}"#));
        }
    }
}

/// That the user is done with a URL reaches the client before the result.
#[tokio::test]
async fn the_end_of_an_elicitation_reaches_the_client() {
    const COMPLETE: &str =
        r#""method":"notifications/elicitation/complete","params":{"elicitationId":"E-1","x":{"b":1,"a":2}}"#;
    let (_setup, gateway) = Setup::config(|setup| {
        let result = r#"{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}"#;
        let messages = format!("{{\"jsonrpc\":\"2.0\",{COMPLETE}}}\n{result}");
        write(setup, "tools.call.open", messages.as_bytes());
        let longhaul = json!({"servers": {"s": {"task": "never"}}});
        json!({"mcpServers": {"s": setup.server("scripted", &[])}, "longhaul": longhaul})
    })
    .running();
    let answer = text(&gateway.caller(), "tools/call", json!({"name": "open", "arguments": {}})).await;
    let (notification, result) = (answer.find(COMPLETE), answer.find(r#""result""#));
    assert!(notification.is_some() && notification < result, "{answer}");
}
