//! Answers that are almost correct, over stdio. Each ends its call at once, with the parts that can be understood or
//! with a sentence that names the server. No call is made twice.

use serde_json::{Value, json};

use super::process::{Gateway, Setup, until};

/// The caller's answer.
pub(crate) enum Gets {
    /// A result whose first text is this.
    Text(&'static str),
    /// A result that has this at a JSON pointer.
    Has(&'static str, Value),
    /// An error whose message has these words in it.
    Fails(&'static [&'static str]),
}

use Gets::{Fails, Has, Text};

/// Messages that are the answer to a call, by names.
pub(crate) fn answers() -> Vec<(&'static str, Vec<u8>, Gets)> {
    let unreadable = || Fails(&["the answer of `only` cannot be read"]);
    let cases: Vec<(&str, &[u8], Gets)> = vec![
        ("plain", br#"@^"done"}]}}"#, Text("done")),
        // Strings.
        ("half", br#"@^"cut \ud83d"}]}}"#, Text("cut \u{fffd}")),
        ("low", br#"@^"\ude00 \ud83d\ude00"}]}}"#, Text("\u{fffd} \u{1f600}")),
        ("latin", b"@^\"caf\xe9\"}]}}", Text("caf\u{fffd}")),
        ("tab", b"@^\"a\tb\"}]}}", Text("a\tb")),
        // No message.
        ("nan", br#"@{"content":[],"structuredContent":{"v":NaN}}}"#, unreadable()),
        ("infinity", br#"@{"content":[],"structuredContent":{"v":-Infinity}}}"#, unreadable()),
        ("cut", br#"@{"content":[{"type":"text","te"#, unreadable()),
        ("neither", br#"{"jsonrpc":"2.0","id":%d}"#, unreadable()),
        ("number", br#"@7}"#, Fails(&["the answer of `only`", "a number"])),
        ("words", br#"@"done"}"#, Fails(&["the answer of `only`", "a text"])),
        ("content", br#"@{"content":7}}"#, Fails(&["the answer of `only`", "`content`", "a number"])),
        // Nearly a message.
        ("both", br#"@^"done"}]},"error":null}"#, Text("done")),
        ("failed", br#"@null,"error":{"code":-32000,"message":"boom"}}"#, Fails(&["boom"])),
        ("version", br#"{"id":%d,"result":^"done"}]}}"#, Text("done")),
        ("old", br#"{"jsonrpc":"1.0","id":%d,"result":^"done"}]}}"#, Text("done")),
        ("quoted", br#"{"jsonrpc":"2.0","id":"%d","result":^"done"}]}}"#, Text("done")),
        ("float", br#"{"jsonrpc":"2.0","id":%d.0,"result":^"done"}]}}"#, Text("done")),
        ("twice", br#"{"jsonrpc":"2.0","id":%d,"id":%d,"result":^"done"}]}}"#, Text("done")),
        ("batch", br#"[@^"done"}]}}]"#, Text("done")),
        // Errors.
        ("nobody", br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"boom"}}"#, Fails(&["boom"])),
        ("nameless", br#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"boom"}}"#, Fails(&["boom"])),
        ("codeless", br#"{"jsonrpc":"2.0","id":%d,"error":{"message":"boom"}}"#, Fails(&["boom"])),
        ("coded", br#"{"jsonrpc":"2.0","id":%d,"error":{"code":"E_BOOM","message":"boom"}}"#, Fails(&["boom"])),
        ("bare", br#"{"jsonrpc":"2.0","id":%d,"error":"boom"}"#, Fails(&["boom"])),
        ("silent", br#"{"jsonrpc":"2.0","id":%d,"error":{"code":-32000}}"#, Fails(&["an error without a message"])),
        // Results with little in them.
        ("empty", br#"@{}}"#, Has("/content", json!([]))),
        ("null", br#"@null}"#, Has("/content", json!([]))),
        ("meta", br#"@{"_meta":{"a/b":1}}}"#, Has("/_meta/a~1b", json!(1))),
        ("nothing", br#"@{"content":null}}"#, Has("/content", json!([]))),
        ("unknown", br#"@{"status":"ok"}}"#, Has("/content", json!([]))),
        ("structured", br#"@{"structuredContent":{"a":1}}}"#, Has("/structuredContent/a", json!(1))),
        ("string", br#"@{"content":"done"}}"#, Text("done")),
        ("flag", br#"@{"content":[],"isError":"true"}}"#, Has("/isError", json!(true))),
        // Unknown kinds.
        ("kind", br#"@^"one"},{"type":"video","uri":"v:1"}]}}"#, Text("one")),
        ("value", br#"@^"one","annotations":{"audience":["robot"]}}]}}"#, Text("one")),
    ];
    cases.into_iter().map(|(name, bytes, gets)| (name, written_out(bytes), gets)).collect()
}

/// With the beginnings of an answer (`@`) and of a text (`^`) in full.
fn written_out(short: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for byte in short {
        match byte {
            b'@' => bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":%d,"result":"#),
            b'^' => bytes.extend_from_slice(br#"{"content":[{"type":"text","text":"#),
            byte => bytes.push(*byte),
        }
    }
    bytes
}

/// Answers that only a process can write.
fn lines() -> Vec<(&'static str, Vec<u8>, Gets)> {
    let message = r#"{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let spread = message.replace(',', ",\n  ").replace("}}", "}\n}");
    [
        ("prompt", format!(">>> {message}"), Text("done")),
        ("escape", format!("\u{1b}[?25h\u{1b}[2K{message}\u{1b}[0m"), Text("done")),
        ("mark", format!("\u{feff}{message}"), Text("done")),
        ("logged", format!("INFO {{}} sends {message}"), Text("done")),
        ("joined", format!("{log}{message}"), Text("done")),
        ("spread", spread, Text("done")),
        ("broken", message.replace("done", "one\ntwo"), Text("one\ntwo")),
        ("open", format!("at: end\n{message}"), Text("done")),
        ("noisy", format!("{{\"level\":\"error\",\"error\":\"not this\"}}\n{{\n{message}"), Text("done")),
        ("astray", message.replace("%d", "4321"), Fails(&["the answer of `only` cannot be read", "4321"])),
        ("named", message.replace("%d", "\"call-1\""), Fails(&["the answer of `only` cannot be read", "call-1"])),
        ("stray", r#"{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"x"}}"#.to_owned(), Fails(&["`only`", "77"])),
        ("chatty", format!("Server is ready.\n{message}"), Text("done")),
        ("wnoise", "exit: 3\nServer is not ready.".to_owned(), Fails(&["`only`", "`Server is not ready.`"])),
        ("wended", "stderr: the disk is full\\n\nexit: 3\n".to_owned(), Fails(&["`only`", "the disk is full"])),
        (
            "wbar",
            format!("stderr: {}\\rthe disk is full\nexit: 3\n", "\\rworking: 12 %".repeat(7_000)),
            Fails(&["`only`", "the disk is full"]),
        ),
    ]
    .into_iter()
    .map(|(name, text, gets)| (name, text.into_bytes(), gets))
    .collect()
}

/// Writes what the server answers.
pub(crate) fn write(setup: &Setup, name: &str, bytes: &[u8]) {
    std::fs::create_dir_all(setup.path("answers")).unwrap();
    std::fs::write(setup.path(&format!("answers/{name}")), bytes).unwrap();
}

/// Calls each tool, and lists the answers that are wrong.
pub(crate) async fn check(setup: &Setup, gateway: &Gateway, cases: Vec<(&'static str, Vec<u8>, Gets)>) {
    let mut wrong = Vec::new();
    for (name, _, gets) in cases {
        let task = gateway.ended(name, json!({})).await;
        let (result, error) = (&task["result"], task["error"]["message"].as_str().unwrap_or_default());
        let is_right = match gets {
            Text(text) => result["content"][0]["text"] == text,
            Has(pointer, value) => {
                task["status"] == "completed" && result.pointer(pointer).cloned().unwrap_or_default() == value
            }
            Fails(words) => {
                let one_sentence = error.len() < 12_000 && !error.contains("times");
                task["status"] == "failed" && one_sentence && words.iter().all(|words| error.contains(words))
            }
        };
        let calls = setup.calls().into_iter().filter(|call| call == name).count();
        if !is_right || calls != 1 {
            let shown: String = task.to_string().chars().take(600).collect();
            wrong.push(format!("{name}, {calls} calls: {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn stdio(cases: &[(&'static str, Vec<u8>, Gets)], terms: &Value) -> Setup {
    Setup::config(|setup| {
        for (name, bytes, _) in cases {
            write(setup, &format!("tools.call.{name}"), bytes);
        }
        json!({
            "mcpServers": {"only": setup.server("scripted", &[])},
            "longhaul": {"servers": {"only": terms}}
        })
    })
}

#[tokio::test]
async fn every_answer_of_a_process_ends_its_call() {
    let cases: Vec<_> = answers().into_iter().chain(lines()).collect();
    let setup = stdio(&cases, &json!({"tools": {"*": {"runAtMost": "20s"}}}));
    let gateway = setup.start();
    check(&setup, &gateway, cases).await;
    let log = gateway.log();
    assert!(log.contains("NaN") && log.len() < 1_000_000, "{} bytes", log.len());
}

#[tokio::test]
async fn a_server_that_logs_without_end_fills_no_log() {
    let flood = "stderr: ".to_owned() + &"{\"level\": \"info\"}\\n".repeat(50_000) + "\n";
    let answer = r#"{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"xxxxxxxx"}}"#;
    let messages = format!("{log}\n").repeat(1_000);
    let cases = vec![
        ("flood", format!("{flood}{answer}").into_bytes(), Text("done")),
        ("messages", format!("{messages}{answer}").into_bytes(), Text("done")),
    ];
    let setup = stdio(&cases, &json!({"tools": {"*": {"runAtMost": "60s"}}}));
    let gateway = setup.start();
    check(&setup, &gateway, cases).await;
    until("the log", || gateway.log().len() < 500_000).await;
}
