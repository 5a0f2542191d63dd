//! One call of a tool: on a connection that has no other, and never carried out twice unless it may be.

use std::sync::Arc;
use std::time::Duration;

use crate::jobs::{JobError, JobRef, Start, Started};
use longhaul::{Every, SystemClock, TaskContext};
use longhaul_core::Clock;
use longhaul_core::spans::Span;
use longhaul_core::strict_json;
use longhaul_core::verbatim::{KEY, text_of};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ClientCapabilities, ErrorCode};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::catalog::{Repeatable, ToolRoute};
use crate::limits;
use crate::meta;
use crate::target::Lifecycle;
use crate::upstream::client::Client;
use crate::upstream::remote_tasks::{Began, Session};
use crate::upstream::task::Started as StartedTask;
use crate::upstream::{ConnectError, Lasting, RequestError, Upstream, failed};

mod conversation;

/// A call, as one attempt of its task sees it.
pub(crate) struct Call<'g> {
    upstream: &'g Upstream,
    route: &'g ToolRoute,
    task: TaskContext,
    peer: Peer<RoleServer>,
    /// The capabilities that the caller has declared.
    declared: ClientCapabilities,
    /// The lifecycle to speak to the server, if it speaks that too.
    lifecycle: Option<Lifecycle>,
    params: CallToolRequestParams,
    /// How many rounds of questions were before this one.
    round: u32,
    pub(crate) span: Span,
}

/// The state that is kept between two rounds of questions.
#[derive(Default, Deserialize, Serialize)]
struct Kept {
    round: u32,
    /// The server's own state.
    state: Option<String>,
}

/// The server's response to a call.
enum Sent {
    Answer(CallToolResponse),
    /// A task of its own, which needs no connection.
    Task(StartedTask),
}

/// Why a try brought no answer.
enum Failure {
    /// The call must not be sent: another attempt has sent it.
    Marked(JobError),
    /// It was answered with an error.
    Answered(ErrorData),
    /// There was no connection, so nothing was sent.
    Unsent(ConnectError),
    /// It was lost after the call was sent.
    Lost(String),
}

impl<'g> Call<'g> {
    /// The call in this request.
    ///
    /// # Errors
    /// If the handler is not served by Longhaul, or the state of earlier rounds is not the gateway's own.
    pub(crate) fn new(
        upstream: &'g Upstream,
        route: &'g ToolRoute,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Self, ErrorData> {
        let task = context.extensions.get::<TaskContext>().cloned();
        let task = task.ok_or_else(|| ErrorData::internal_error("the gateway needs Longhaul around it", None))?;
        let kept: Kept = match &request.request_state {
            None => Kept::default(),
            Some(text) => strict_json::from_str(text)
                .map_err(|_foreign| ErrorData::invalid_params("the request state is not one of this tool", None))?,
        };
        let (span, meta) = meta::within_a_span(&context.meta, task.meta_text());
        span.set("longhaul.server", upstream.name());
        span.set("longhaul.tool", &route.route.name);
        let mut params = CallToolRequestParams::new(route.route.name.clone());
        params.arguments = request.arguments;
        params.input_responses = request.input_responses;
        params.request_state = kept.state;
        params.meta = meta;
        if let Some(text) = task.arguments_text() {
            params.meta.get_or_insert_default().0.0.insert(KEY.to_owned(), text.into());
        }
        // A tool that requires a task is not called in the older lifecycle of its caller, because that lifecycle has
        // other tasks.
        let may_be_older = route.repeatable == Repeatable::Yes && !upstream.requires_task(&route.route.name);
        let declared = context.meta.client_capabilities().or_else(|| context.client_capabilities());
        Ok(Self {
            upstream,
            route,
            task,
            peer: context.peer.clone(),
            declared: declared.unwrap_or_default(),
            lifecycle: may_be_older.then(|| older_lifecycle_of(context)).flatten(),
            params,
            round: kept.round,
            span,
        })
    }

    /// The task that this is the call of.
    pub(crate) const fn task(&self) -> &TaskContext {
        &self.task
    }

    /// The server that is called.
    pub(crate) const fn upstream(&self) -> &'g Upstream {
        self.upstream
    }

    /// The capabilities that the caller has declared.
    pub(crate) const fn declared(&self) -> &ClientCapabilities {
        &self.declared
    }

    pub(crate) const fn repeatable(&self) -> Repeatable {
        self.route.repeatable
    }

    pub(crate) const fn round(&self) -> u32 {
        self.round
    }

    /// The server's name of the tool.
    fn tool(&self) -> &str {
        &self.route.route.name
    }

    /// Sends the call, which is marked as sent once there is a connection. A call whose connection was lost is tried
    /// again where that is allowed.
    pub(crate) async fn send(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let _permits = self.permits().await;
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.try_once(start).await {
                Ok(Sent::Answer(answer)) => return Ok(Started::Ended(self.answer(answer))),
                Ok(Sent::Task(task)) => return started(&task),
                Err(Failure::Answered(error)) => return Ok(Started::Ended(Err(error))),
                Err(Failure::Marked(error)) => return Err(error),
                Err(Failure::Lost(why)) if self.route.repeatable == Repeatable::No => {
                    return Err(JobError::Unanswered(why));
                }
                Err(Failure::Unsent(error)) if error.lasting == Lasting::Yes => {
                    return Err(JobError::Refused(error.to_string()));
                }
                // An unavailable server may come back. Until then the call holds nothing.
                Err(Failure::Unsent(error)) if tries == limits::TRIES_MAX && !self.upstream.is_process() => {
                    return Err(JobError::NotNow(error.to_string()));
                }
                Err(Failure::Unsent(error)) => error.to_string(),
                Err(Failure::Lost(why)) => format!("`{}` was called {tries} times: {why}", self.upstream.name()),
            };
            if tries == limits::TRIES_MAX {
                return Err(JobError::Refused(error));
            }
            tracing::warn!(server = self.upstream.name(), tool = self.tool(), error, "a call is tried again");
            SystemClock.sleep_ms(limits::TRY_AGAIN_MS * u64::from(tries)).await;
        }
    }

    /// Waits until the tool and its server may have one more call. A task that waits for long holds no worker
    /// meanwhile, and nothing is recorded as sent.
    async fn permits(&self) -> Vec<OwnedSemaphorePermit> {
        /// There is nothing to record: the permits are returned as an error.
        #[derive(Deserialize, Serialize)]
        enum Never {}
        if let Some(permits) = self.free_permits(Duration::ZERO).await {
            return permits;
        }
        let every = Every::growing(limits::PERMIT_PAUSE, limits::PERMIT_PAUSE_LONGEST);
        let step = format!("permit {}", self.round);
        let taken: Result<Never, _> = self.task.poll_until(&step, every, || self.poll_permits()).await;
        match taken {
            Err(permits) => permits,
            Ok(never) => match never {},
        }
    }

    async fn poll_permits<N>(&self) -> Result<Option<N>, Vec<OwnedSemaphorePermit>> {
        match self.free_permits(limits::PERMIT_WAIT).await {
            Some(permits) => Err(permits),
            None => {
                let message = format!("waiting: `{}` has as many calls as it may have", self.upstream.name());
                self.task.progress(0).message(message).await;
                Ok(None)
            }
        }
    }

    /// A permit of the tool, if its calls are counted, and one of the server.
    async fn free_permits(&self, at_most: Duration) -> Option<Vec<OwnedSemaphorePermit>> {
        let mut taken = Vec::new();
        for permits in self.route.permits.iter().chain([self.upstream.call_permits()]) {
            let permit = match Arc::clone(permits).try_acquire_owned() {
                Ok(permit) => permit,
                Err(_none) => tokio::time::timeout(at_most, Arc::clone(permits).acquire_owned()).await.ok()?.ok()?,
            };
            taken.push(permit);
        }
        Some(taken)
    }

    /// # Errors
    /// Why there is no answer.
    async fn try_once(&self, start: &Start<'_>) -> Result<Sent, Failure> {
        match Box::pin(self.upstream.session_for_a_task(self.tool(), &self.declared)).await {
            Ok(Some(session)) => return self.try_task(session, start).await,
            Ok(None) => {}
            Err(error) => return Err(Failure::Unsent(error)),
        }
        let (client, events) = Client::new(self.upstream.name(), Some(self.task.idempotency_key()), &self.declared);
        let mut client = client.in_lifecycle(self.lifecycle);
        // A task would hold its process. So a process is asked for a task only if it requires one.
        let declares_tasks = !self.upstream.is_process() || self.upstream.requires_task(self.tool());
        if declares_tasks {
            client = client.with_tasks();
        }
        // Boxed, as are the next ones, because the futures of `rmcp` are too large for the stack of a thread otherwise.
        let connected = Box::pin(self.upstream.connect(client)).await;
        let connection = match connected {
            Ok(connection) => connection,
            Err(error) => return Err(Failure::Unsent(error)),
        };
        start.mark().await.map_err(Failure::Marked)?;
        let conversation = Box::pin(self.converse(&connection, events));
        let answer = tokio::select! {
            answer = conversation => answer,
            ran = self.end_of_attempt() => return Err(Failure::Answered(too_long(self.upstream.name(), ran))),
        };
        match answer {
            Ok(CallToolResponse::Task(created)) => {
                connection.give_back();
                Ok(Sent::Task(StartedTask::extension(created)))
            }
            Ok(answer) => {
                connection.give_back();
                Ok(Sent::Answer(answer))
            }
            Err(ServiceError::McpError(error)) if !declares_tasks && requires_task(&error) => {
                self.upstream.task_tools().require(self.tool());
                drop(connection);
                Box::pin(self.try_once(start)).await
            }
            Err(ServiceError::McpError(error)) => {
                connection.give_back();
                Err(Failure::Answered(error))
            }
            Err(ServiceError::UnexpectedResponse) => Err(Failure::Answered(failed(&format!(
                "`{}` answered with something that is not the result of a tool",
                self.upstream.name()
            )))),
            // A kept connection had ended before.
            Err(error) if connection.withheld(&error) => {
                let why = connection.last_words(&error).await;
                Err(Failure::Unsent(self.upstream.lost(&why)))
            }
            Err(error) => Err(Failure::Lost(connection.last_words(&error).await)),
        }
    }

    /// Waits until the worker has to end, if it has to. Returns how long that took.
    async fn end_of_attempt(&self) -> Duration {
        match self.task.attempt_left() {
            Some(left) => {
                SystemClock.sleep_ms(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)).await;
                left
            }
            None => std::future::pending().await,
        }
    }

    /// Calls the tool as a task of revision `2025-11-25`.
    async fn try_task(&self, session: Session, start: &Start<'_>) -> Result<Sent, Failure> {
        start.mark().await.map_err(Failure::Marked)?;
        let deadline = self.task.deadline().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let deadline_ms = deadline.and_then(|at| u64::try_from(at.as_millis()).ok());
        let ttl_ms = deadline_ms.map(|at| at.saturating_sub(SystemClock.now().as_ms()) + limits::TTL_MORE_MS);
        match session.start_task(self.upstream.name(), &self.params, ttl_ms).await {
            Ok(Began::Task(started)) => Ok(Sent::Task(started)),
            Ok(Began::Result(result)) => Ok(Sent::Answer((*result).into())),
            Ok(Began::Unsent(why)) => Err(Failure::Unsent(self.upstream.lost(&why))),
            Err(RequestError::Refused(error)) => Err(Failure::Answered(error)),
            Err(RequestError::Lost(why)) => Err(Failure::Lost(why)),
        }
    }

    fn answer(&self, answer: CallToolResponse) -> Result<CallToolResponse, ErrorData> {
        match answer {
            CallToolResponse::Complete(result) => Ok(result.into()),
            CallToolResponse::InputRequired(mut asked) => {
                let kept = Kept { round: self.round.saturating_add(1), state: asked.request_state.take() };
                let kept = serde_json::to_string(&kept).map_err(|error| failed(&error.to_string()))?;
                asked.request_state = Some(kept);
                Ok(asked.into())
            }
            _ => Err(failed(&format!("`{}` made a task of a call that asked for none", self.upstream.name()))),
        }
    }
}

/// The lifecycle of the caller, if it is the older one. Some servers that speak both have tools that ask in only one of
/// them. Such a server is therefore called as its caller would call it. A tool that may not be repeated can ask only in
/// the newer one, so its lifecycle stays open.
fn older_lifecycle_of(context: &RequestContext<RoleServer>) -> Option<Lifecycle> {
    let lifecycle = context.meta.protocol_version().map_or(Lifecycle::Handshake, |version| Lifecycle::of(&version));
    (lifecycle == Lifecycle::Handshake).then_some(lifecycle)
}

/// Whether a server refuses to make the call if it may not make a task of it.
fn requires_task(error: &ErrorData) -> bool {
    let data = error.data.as_ref().and_then(|data| strict_json::from_str::<Value>(&text_of(data)).ok());
    let required = data.as_ref().and_then(|data| data.pointer("/requiredCapabilities/extensions"));
    error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        && required.is_some_and(|required| required.get(rmcp::model::TASKS_EXTENSION_ID).is_some())
}

/// A further attempt would not be longer, so the call is not made again even if it may be.
fn too_long(server: &str, ran: Duration) -> ErrorData {
    let seconds = ran.as_secs();
    failed(&format!(
        "`{server}` did not answer in {seconds} seconds, after which this worker has to end: the call was ended and is \
         not repeated. Give workers more time (at most 15 minutes on Lambda), run the server behind a URL as one that \
         has tasks itself, or fold its tools that start, poll and stop into one"
    ))
}

fn started(task: &StartedTask) -> Result<Started, JobError> {
    let written = serde_json::to_value(task).map_err(|error| JobError::Refused(error.to_string()))?;
    Ok(Started::Job(JobRef::new(written)))
}
