//! The author's code that runs after tasks that did not end with success.

use std::fmt::Display;

use longhaul_mcp::EndedTask;

use super::Server;

impl Server {
    /// Runs `clean_up` when a task of `tool` has not ended with success. Its tool returned an error or a result that
    /// says so, or it was cancelled, missed its deadline, or failed too often. It runs in a worker, at
    /// least once, after the tool has stopped running everywhere, and after its
    /// [compensations](crate::TaskContext::on_failure). It gets the values of the task's steps, and removes what they
    /// made.
    ///
    /// It is tried again if it fails, panics, takes longer than the setting `cleanup-ms` (a minute), or its worker
    /// dies. There are up to five tries in all, with growing pauses. So it must tolerate repetition. After the last try
    /// the log and the task's status message say that it is given up. The task's status does not change.
    ///
    /// A step that is not recorded may have been done, if the worker died before the record: find its resources by
    /// [`EndedTask::idempotency_key`]. The closure cannot borrow its captures, since it is called often: write `move
    /// |ended| { let pool = pool.clone(); async move { … } }` to pass a clone.
    ///
    /// The server does not start if the handler has no tool of this name, or if the tool does not become a task. Tasks
    /// that were accepted before the tool had this have no cleanup.
    ///
    /// ```
    /// # use longhaul::rmcp::{ErrorData, ServerHandler, tool, tool_handler, tool_router};
    /// use longhaul::{EndedTask, Server, TaskContext, TaskPolicy};
    ///
    /// #[derive(Clone)]
    /// struct Deployments; // with the tool `deploy`
    ///
    /// # async fn start_machine(_key: &str) -> Result<u64, ErrorData> { Ok(17) }
    /// # async fn stop_machine(_machine: u64) -> Result<(), ErrorData> { Ok(()) }
    /// # #[tool_router]
    /// impl Deployments {
    /// #     #[tool]
    ///     async fn deploy(&self, task: TaskContext) -> Result<String, ErrorData> {
    ///         let key = task.idempotency_key();
    ///         let machine = task.try_step("machine", || async { start_machine(&key).await }).await?;
    ///         Ok(format!("machine {machine}"))
    ///     }
    /// }
    /// # #[tool_handler]
    /// # impl ServerHandler for Deployments {}
    ///
    /// let server = Server::new(|| Deployments).task("deploy", TaskPolicy::optional()).clean_up(
    ///     "deploy",
    ///     async |ended: EndedTask| -> Result<(), ErrorData> {
    ///         if let Some(machine) = ended.step::<u64>("machine").await? {
    ///             stop_machine(machine).await?;
    ///         }
    ///         Ok(())
    ///     },
    /// );
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(server.check()).unwrap();
    /// ```
    #[must_use]
    pub fn clean_up<F, Fut, E>(mut self, tool: impl Into<String>, clean_up: F) -> Self
    where
        F: Fn(EndedTask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.tasks.clean_up(tool.into(), clean_up);
        self
    }

    /// Runs `clean_up` as [`clean_up`](Self::clean_up) does, for the tasks of all tools for which `covers` returns
    /// true. It is for servers whose tools are not known when they are built, as with [`policies`](Self::policies).
    /// `covers` is called when a task is accepted.
    ///
    /// ```
    /// # use longhaul::rmcp::{ErrorData, ServerHandler};
    /// # #[derive(Clone)]
    /// # struct Machines;
    /// # impl ServerHandler for Machines {}
    /// use longhaul::{EndedTask, Server, TaskPolicy};
    ///
    /// # async fn stop_machine(_machine: u64) -> Result<(), ErrorData> { Ok(()) }
    /// let server = Server::new(|| Machines).policies(|_tool| Some(TaskPolicy::optional())).clean_up_where(
    ///     |tool| tool.starts_with("start_"),
    ///     async |ended: EndedTask| -> Result<(), ErrorData> {
    ///         if let Some(machine) = ended.step::<u64>("machine").await? {
    ///             stop_machine(machine).await?;
    ///         }
    ///         Ok(())
    ///     },
    /// );
    /// ```
    #[must_use]
    pub fn clean_up_where<F, Fut, E>(
        mut self,
        covers: impl Fn(&str) -> bool + Send + Sync + 'static,
        clean_up: F,
    ) -> Self
    where
        F: Fn(EndedTask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Display,
    {
        self.tasks.clean_up_where(covers, clean_up);
        self
    }
}
