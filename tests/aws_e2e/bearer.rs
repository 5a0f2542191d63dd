//! A deployment whose callers have tokens that `longhaul token` makes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use harness::{output_of, root, tool};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};

use super::inside::until;
use super::process::Setup;
use super::tools::{logs_and_configurations, on_sdk};

/// `longhaul token` for the emulator, in a folder of its own.
fn token(folder: &tempfile::TempDir, arguments: &[&str], parameter: &str) -> String {
    let mut command = Command::new(harness::program("longhaul"));
    command.args([&["token"], arguments, &["--parameter", parameter]].concat()).current_dir(folder.path());
    output_of(on_sdk(&mut command).env("HOME", folder.path()))
}

#[tokio::test]
async fn callers_of_a_deployment_have_tokens_that_are_added_and_revoked_while_it_runs() {
    let setup = Setup::with(&["AuthMode=bearer"]);
    let (caller, parameter) = (setup.start().caller(), setup.output("TokenParameter"));
    let status = async |token: &str| {
        let answered = caller.with_token(token).request("tools/list", json!({})).send().await.unwrap();
        answered.status()
    };
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(status(&"x".repeat(40)).await, StatusCode::UNAUTHORIZED, "a new stack lets in nobody");
    let added = token(&folder, &["add", "ann", "--out", "ann", "--server", setup.start().url()], parameter);
    assert!(added.contains(setup.start().url()), "{added}");
    token(&folder, &["add", "laptop", "--owner", "ann", "--out", "laptop"], parameter);
    token(&folder, &["add", "bob", "--out", "bob"], parameter);
    let written = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().trim().to_owned();
    let (ann, laptop, bob) = (written("ann"), written("laptop"), written("bob"));
    until("a token that was added is accepted", async || status(&ann).await == StatusCode::OK).await;

    let started = caller.with_token(&ann);
    let id = started.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    caller.with_token(&laptop).until(&id, "completed").await;
    let hidden = caller.with_token(&bob).request("tasks/get", json!({"taskId": id})).send().await.unwrap();
    assert!(hidden.text().await.unwrap().contains("-32602"), "it is another owner");

    let listed = token(&folder, &["list"], parameter);
    assert!(["ann", "laptop", "bob"].iter().all(|name| listed.contains(name)), "{listed}");
    token(&folder, &["revoke", "ann"], parameter);
    until("a token that was revoked is refused", async || status(&ann).await == StatusCode::UNAUTHORIZED).await;
    assert_eq!(status(&laptop).await, StatusCode::OK, "its other token still works");
    let functions = ["ApiFunction", "WorkerFunction"].map(|output| setup.output(output));
    let (logs, configurations) = logs_and_configurations(&functions);
    for hidden in [&ann, &laptop, &bob] {
        assert!(!logs.contains(hidden) && !configurations.contains(hidden));
    }
}

/// TLS in front of the emulator, with a certificate that only its clients know.
struct Tls {
    proxy: Child,
    url: String,
    certificate: String,
}

impl Tls {
    fn before(url: &str, folder: &tempfile::TempDir) -> Self {
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (path("certificate"), path("key"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days"]);
        openssl.args(["1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
        output_of(openssl.args(["-out", &certificate, "-keyout", &key]));
        let mut url = Url::parse(url).unwrap();
        let mut proxy = Command::new(tool("node"));
        proxy.arg(root().join("tests/clients/tls.mjs")).args([url.as_str(), &certificate, &key]);
        let mut proxy = proxy.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(proxy.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        let host = format!("https://127.0.0.1:{}{}", port.trim(), url.path());
        url = Url::parse(&host).unwrap();
        Self { proxy, url: url.to_string(), certificate }
    }

    /// A client that knows nothing but the certificate and its arguments.
    fn client(&self, program: &str) -> Command {
        let mut client = Command::new(tool(program));
        client.env("NODE_EXTRA_CA_CERTS", &self.certificate).env("SSL_CERT_FILE", &self.certificate);
        client
    }

    /// Runs one flow of a client of an SDK.
    fn run(&self, program: &str, script: &str, flow: &str, token: &str) -> Value {
        let mut client = self.client(program);
        client.arg(root().join("tests/clients").join(script)).args(["--url", &self.url, flow, "--token", token]);
        serde_json::from_str(output_of(&mut client).lines().last().unwrap()).unwrap()
    }

    /// Calls a tool by the Inspector, with the configuration of a client.
    fn inspect(&self, folder: &tempfile::TempDir, config: &Value) -> Value {
        let file = folder.path().join("mcp.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut inspector = self.client("inspector");
        inspector.args(["--cli", "--config"]).arg(file).args(["--server", "longhaul", "--method", "tools/call"]);
        inspector.args(["--tool-name", "countdown", "--tool-arg", "seconds=0.5", "--tool-arg", "steps=2"]);
        serde_json::from_str(&output_of(inspector.env("HOME", folder.path()))).unwrap()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.proxy.kill());
        drop(self.proxy.wait());
    }
}

/// The lines that `longhaul token add` prints for a client, with the token in its place.
fn config(printed: &str, client: &str, token: &str) -> Value {
    let mut lines = printed.lines().skip_while(|line| !line.starts_with(client)).skip(1);
    serde_json::from_str(&lines.next().unwrap().replace("TOKEN", token)).unwrap()
}

#[test]
fn unchanged_clients_need_nothing_but_the_url_and_a_token() {
    let setup = Setup::with(&["AuthMode=bearer"]);
    let (folder, parameter) = (tempfile::tempdir().unwrap(), setup.output("TokenParameter"));
    let tls = Tls::before(setup.start().url(), &folder);
    let printed = token(&folder, &["add", "ann", "--out", "ann", "--server", &tls.url], parameter);
    let ann = std::fs::read_to_string(folder.path().join("ann")).unwrap().trim().to_owned();
    for (program, script) in [("node", "ts/driver.mjs"), ("python", "python/driver.py")] {
        for flow in ["list", "task"] {
            let seen = tls.run(program, script, flow, &ann);
            assert_eq!(seen["ok"], true, "{script} {flow}: {seen}");
        }
    }
    // The entry of VS Code in the file of the Inspector.
    let by_url = json!({"mcpServers": config(&printed, "VS Code", &ann)["servers"]});
    assert_eq!(tls.inspect(&folder, &by_url)["structuredContent"]["steps"], 2);
    // As Claude Desktop has it: `npx` gets what is installed here.
    let mut bridge = config(&printed, "Claude Desktop", &ann);
    let server = &mut bridge["mcpServers"]["longhaul"];
    assert_eq!((&server["command"], &server["args"][1]), (&json!("npx"), &json!("mcp-remote")));
    server["command"] = json!(tool("mcp-remote"));
    server["args"].as_array_mut().unwrap().drain(..2);
    for certificates in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
        server["env"][certificates] = json!(tls.certificate);
    }
    assert_eq!(tls.inspect(&folder, &bridge)["structuredContent"]["steps"], 2);
}
