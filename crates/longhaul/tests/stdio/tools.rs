//! The server: a tool with steps, one that runs a program, and every hook, all of which note what happens.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{
    CancelledNotificationParam, CustomNotification, InitializeRequestParams, InitializeResult,
    ProgressNotificationParam, SetLevelRequestParams,
};
use longhaul::rmcp::service::{NotificationContext, RequestContext};
use longhaul::rmcp::{self, ErrorData, RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Program, Server, TaskContext, TaskPolicy};

use crate::NOTES;

#[derive(Clone)]
pub(crate) struct Tools {
    notes: PathBuf,
}

impl Tools {
    pub(crate) fn from_env() -> Self {
        Self { notes: std::env::var_os(NOTES).unwrap().into() }
    }

    /// Runs a program in a step. In the first attempt it does not end.
    pub(crate) async fn converted(&self, task: &TaskContext) -> String {
        let seconds = if task.attempt() == 1 { 1_000 } else { 0 };
        let script = format!("echo pid $$ >> {}; sleep {seconds}; echo converted", self.notes.display());
        let converted = task
            .step("convert", async || {
                let output = Program::new("sh").unwrap().args(["-c", &script]).output().await.unwrap();
                String::from_utf8(output.stdout).unwrap()
            })
            .await;
        self.note(converted.trim());
        converted
    }

    fn note(&self, what: &str) {
        let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(&self.notes).unwrap();
        writeln!(notes, "{what}").unwrap();
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    /// How long the second step takes, in milliseconds.
    ms: u64,
}

#[tool_router]
impl Tools {
    #[tool]
    async fn work(&self, Parameters(Work { ms }): Parameters<Work>, task: TaskContext) -> String {
        task.step("first", async || self.note("first")).await;
        task.step("second", async || {
            self.note("second begins");
            // The next process does not wait.
            if task.attempt() == 1 {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
        })
        .await;
        task.progress(2).of(2).await;
        self.note("done");
        "done".to_owned()
    }

    #[tool]
    async fn convert(&self, task: TaskContext) -> String {
        self.converted(&task).await
    }

    #[tool]
    async fn pid(&self) -> String {
        std::process::id().to_string()
    }

    /// Runs a program that starts another one, and notes both.
    #[tool]
    async fn runs(&self) -> String {
        let script = format!("sleep 1000 & echo pid $! >> {0}; echo pid $$ >> {0}; wait", self.notes.display());
        Program::new("sh").unwrap().args(["-c", &script]).output().await.unwrap();
        String::new()
    }
}

#[tool_handler(name = "tools", version = "7.1.0")]
impl ServerHandler for Tools {
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.note("initialize");
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let roots = context.peer.list_roots().await.map(|listed| listed.roots[0].uri.clone());
        self.note(&format!("on_initialized {roots:?}"));
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.note("on_roots_list_changed");
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, _context: NotificationContext<RoleServer>) {
        self.note(&format!("on_cancelled {:?}", cancelled.reason));
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _context: NotificationContext<RoleServer>) {
        self.note(&format!("on_progress {}", progress.progress));
    }

    async fn on_custom_notification(&self, custom: CustomNotification, _context: NotificationContext<RoleServer>) {
        self.note(&format!("on_custom_notification {}", custom.method));
    }

    async fn set_level(
        &self,
        level: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.note(&format!("set_level {:?}", level.level));
        Ok(())
    }

    async fn ping(&self, _context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.note("ping");
        Ok(())
    }
}

pub(crate) fn server() -> Server {
    let tools = Tools::from_env();
    Server::new(move || tools.clone()).task("work", TaskPolicy::optional()).task("convert", TaskPolicy::optional())
}
