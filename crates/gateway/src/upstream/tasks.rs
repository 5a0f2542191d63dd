//! Tasks that a server offers itself: polling, answering and cancelling one of them, on a connection for each request.

use std::sync::atomic::Ordering;

use longhaul_client::Raw;
use rmcp::model::{CancelTaskParams, ClientCapabilities, ErrorCode, GetTaskParams, InputResponses, UpdateTaskParams};
use rmcp::service::{Peer, RoleClient};
use serde_json::json;

use super::client::Client;
use super::remote_tasks::{RemoteTask, Session};
use super::task::{Delivery, Seen, Started, seen};
use super::task_tools::{TaskSupport, TaskTools};
use super::{ConnectError, RequestError, Upstream, failed};
use crate::target::{Lifecycle, Target};

impl Upstream {
    /// The server behind a URL; `None` for a process.
    fn reached(&self) -> Result<Option<&Raw>, RequestError> {
        match &self.target {
            Target::Http(endpoint) => self.http.reach(endpoint).map(Some).map_err(RequestError::Lost),
            Target::Child(_) | Target::Elsewhere(_) => Ok(None),
        }
    }

    /// Whether the process behind a connection would have to be held for its tasks.
    pub(crate) const fn is_process(&self) -> bool {
        matches!(self.target, Target::Child(_))
    }

    /// The task support that the server declares for its tools.
    pub(crate) const fn task_tools(&self) -> &TaskTools {
        &self.task_tools
    }

    /// Whether the server does not call a tool without a task.
    pub(crate) fn requires_task(&self, tool: &str) -> bool {
        self.task_tools.support(tool) == Some(TaskSupport::Required)
    }

    /// Reads the declarations of a server behind a URL in revision `2025-11-25` about its tools and tasks. A server
    /// that speaks both lifecycles is asked too: the newer revision has no place for it.
    pub(crate) async fn learn_task_tools(&self) {
        let speaks_older = self.lifecycle() == Some(Lifecycle::Handshake);
        if !speaks_older && !self.may_speak_the_older() {
            return;
        }
        let learned = async {
            let Some(server) = self.reached()? else { return Ok(()) };
            let session = Session::begin(server, &ClientCapabilities::default()).await?;
            self.task_tools.note(&json!({"capabilities": session.capabilities()}));
            let tools = if session.makes_tasks() { session.tools().await } else { Ok(Vec::new()) };
            session.end().await;
            self.task_tools.note(&json!({"tools": tools?}));
            Ok::<_, RequestError>(())
        };
        match learned.await {
            Ok(()) => {}
            Err(RequestError::Refused(_)) if !speaks_older => self.newer_only.store(true, Ordering::Relaxed),
            Err(error) => tracing::warn!(server = self.name, ?error, "what its tools say about tasks cannot be read"),
        }
    }

    /// The session to call a tool in as a task of revision `2025-11-25`; `None` if the tool is to be called in another
    /// way.
    pub(crate) async fn session_for_a_task(
        &self,
        tool: &str,
        declared: &ClientCapabilities,
    ) -> Result<Option<Session>, ConnectError> {
        if self.task_tools.support(tool).is_none() || self.lifecycle() != Some(Lifecycle::Handshake) {
            return Ok(None);
        }
        let _permit = self.permit(&self.permits).await?;
        let begun = match self.reached() {
            Ok(Some(server)) => Session::begin(server, declared).await,
            Ok(None) => return Ok(None),
            Err(unseen) => Err(unseen),
        };
        match begun {
            Ok(session) => Ok(Some(session)),
            Err(RequestError::Lost(why)) => Err(self.lost(&why)),
            Err(RequestError::Refused(error)) => Err(self.lost(&error.message)),
        }
    }

    /// The state of a task of the server.
    pub(crate) async fn see_task(
        &self,
        started: &Started,
        task: String,
        declared: &ClientCapabilities,
    ) -> Result<Seen, RequestError> {
        if let Some(server) = self.reached()? {
            let _permit = self.permit(&self.quick).await.map_err(|error| RequestError::Lost(error.to_string()))?;
            self.ended_sessions.end_next(server).await;
            let seen = RemoteTask::new(server, started, declared).see(&self.name).await;
            if let Ok(Seen::Ended(_)) = &seen {
                self.ended_sessions.note(started);
            }
            return seen.map_err(|unseen| self.lasting(unseen));
        }
        let client = Client::unheard(&self.name, Some(task), declared);
        let connection = self.connect_once(client.with_tasks()).await?;
        let asked = async |peer: &Peer<RoleClient>| peer.get_task(GetTaskParams::new(&started.task_id)).await;
        let answer = connection.request(asked).await.map_err(|unseen| self.lasting(unseen))?;
        let message = answer.task.task.status_message;
        Ok(seen(&self.name, answer.task.payload, message))
    }

    /// Answers questions of a task of the server.
    pub(crate) async fn answer_task(
        &self,
        started: &Started,
        declared: &ClientCapabilities,
        answers: &InputResponses,
    ) -> Result<Delivery, RequestError> {
        if let Some(server) = self.reached()? {
            let _permit = self.permit(&self.quick).await.map_err(|error| RequestError::Lost(error.to_string()))?;
            let answered = RemoteTask::new(server, started, declared).answer(answers).await;
            return answered.map_err(|unseen| self.lasting(unseen));
        }
        let connection = self.connect_once(Client::unheard(&self.name, None, declared).with_tasks()).await?;
        let params = UpdateTaskParams::new(&started.task_id, answers.clone());
        let sent = connection.request(async |peer| peer.update_task(params).await).await;
        sent.map(|()| Delivery::Done).map_err(|unseen| self.lasting(unseen))
    }

    /// Asks the server to cancel a task.
    pub(crate) async fn cancel_task(&self, started: &Started) -> Result<(), RequestError> {
        match self.reached()? {
            Some(server) => RemoteTask::new(server, started, &ClientCapabilities::default()).cancel().await,
            None => self.cancel_of_the_extension(&started.task_id).await,
        }
    }

    async fn cancel_of_the_extension(&self, task_id: &str) -> Result<(), RequestError> {
        let client = Client::unheard(&self.name, None, &ClientCapabilities::default());
        let connection = self.connect_once(client.with_tasks()).await?;
        let params = CancelTaskParams::new(task_id);
        connection.request(async |peer| peer.cancel_task(params).await).await
    }

    /// An error about the request itself stays; any other may pass.
    fn lasting(&self, unseen: RequestError) -> RequestError {
        match unseen {
            RequestError::Refused(error) if is_about_the_request(error.code) => {
                let (name, why) = (&self.name, &error.message);
                RequestError::Refused(failed(&format!("`{name}` does not answer for its task any more: {why}")))
            }
            RequestError::Refused(error) => RequestError::Lost(error.message.into_owned()),
            lost => lost,
        }
    }
}

/// Whether the same request will be refused again.
fn is_about_the_request(code: ErrorCode) -> bool {
    const LASTING: [ErrorCode; 5] = [
        ErrorCode::INVALID_PARAMS,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::RESOURCE_NOT_FOUND,
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ];
    LASTING.contains(&code)
}
