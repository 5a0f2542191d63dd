//! The machine of a user, with windows of a client that start the server.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use longhaul::rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ListRootsResult, Root,
};
use longhaul::rmcp::service::{
    ClientLifecycleMode, Peer, RequestContext, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use longhaul::rmcp::{ClientHandler, ErrorData};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::{EXISTING, NOTES, PATIENCE};

/// A user's machine: a home, a project folder, and the notes of the server.
pub(crate) struct Machine(tempfile::TempDir);

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(machine.project()).unwrap();
        machine
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    pub(crate) fn notes(&self) -> PathBuf {
        self.0.path().join("notes")
    }

    pub(crate) fn noted(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.notes()).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn until_noted(&self, what: &str) {
        self.until_count(what, 1).await;
    }

    pub(crate) async fn until_count(&self, what: &str, count: usize) {
        let noted = async {
            while self.noted().iter().filter(|noted| noted.starts_with(what)).count() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, noted).await.unwrap_or_else(|_| panic!("{what}: {:?}", self.noted()));
    }

    pub(crate) fn program(&self, name: &str, args: &[&str]) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg0(name).args(args).current_dir(self.project()).env(NOTES, self.notes());
        command.env("HOME", self.0.path()).env_remove("XDG_STATE_HOME").env("LONGHAUL_LOG", "warn");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
    }

    /// A window of a client, which has started the server.
    pub(crate) async fn window(&self, program: &str, args: &[&str], lifecycle: ClientLifecycleMode) -> Window {
        let mut server = self.program(program, args);
        let pipes = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let client = serve_client_with_lifecycle(Client, pipes, lifecycle).await.unwrap();
        Window { client, server }
    }

    pub(crate) async fn older(&self) -> Window {
        self.window(EXISTING, &[], ClientLifecycleMode::Initialize).await
    }
}

pub(crate) struct Window {
    pub(crate) client: RunningService<RoleClient, Client>,
    pub(crate) server: Child,
}

impl Window {
    pub(crate) fn begin(&self, ms: u64) -> JoinHandle<Result<String, ServiceError>> {
        self.begin_call("work", json!({"ms": ms}))
    }

    pub(crate) fn begin_call(&self, tool: &'static str, arguments: Value) -> JoinHandle<Result<String, ServiceError>> {
        let peer = self.client.peer().clone();
        tokio::spawn(async move { call(&peer, tool, arguments).await })
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> Result<String, ServiceError> {
        call(self.client.peer(), tool, arguments).await
    }

    pub(crate) async fn close(mut self) -> Option<i32> {
        drop(self.client.cancel().await);
        tokio::time::timeout(PATIENCE, self.server.wait()).await.unwrap().unwrap().code()
    }
}

async fn call(peer: &Peer<RoleClient>, tool: &'static str, arguments: Value) -> Result<String, ServiceError> {
    let params = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    Ok(peer.call_tool(params).await?.content[0].as_text().unwrap().text.clone())
}

pub(crate) struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().enable_roots_list_changed().build();
        ClientConfig::new(capabilities, Implementation::new("client", "1"))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///project")]))
    }
}
