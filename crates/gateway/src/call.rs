//! One call of a tool: on a connection of its own, and never carried out twice unless it may be.

#![expect(deprecated, reason = "servers of all revisions may log")]

use longhaul::ports::Clock;
use longhaul::{SystemClock, TaskContext};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientResult, InputRequest,
    LoggingMessageNotificationParam, ResultType,
};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::catalog::{Repeatable, ToolRoute};
use crate::limits;
use crate::upstream::client::{Client, Event};
use crate::upstream::{ConnectError, Connection, Era, Lasting, Upstream};

/// A call, as one leg of its task sees it.
pub(crate) struct Call<'g> {
    upstream: &'g Upstream,
    route: &'g ToolRoute,
    task: TaskContext,
    /// The caller.
    peer: Peer<RoleServer>,
    /// What the caller can be asked.
    declared: ClientCapabilities,
    /// The era to speak to the server, if it speaks that too.
    era: Option<Era>,
    params: CallToolRequestParams,
    /// How many rounds of questions were before this one.
    round: u32,
    mark: Mark,
}

/// Whether it is on record that this leg sends the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Unwritten,
    Written,
}

/// What is kept between two rounds of questions.
#[derive(Default, Deserialize, Serialize)]
struct Kept {
    round: u32,
    /// The server's own state.
    state: Option<String>,
}

/// Why a try brought no answer.
enum Unanswered {
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
            Some(text) => serde_json::from_str(text)
                .map_err(|_foreign| ErrorData::invalid_params("the request state is not one of this tool", None))?,
        };
        let mut params = CallToolRequestParams::new(route.route.name.clone());
        params.arguments = request.arguments;
        params.input_responses = request.input_responses;
        params.request_state = kept.state;
        // Servers of `2026-07-28` log for those who ask for it.
        if let Some(level) = context.meta.log_level() {
            params.meta.get_or_insert_default().set_log_level(level);
        }
        let declared = context.meta.client_capabilities().or_else(|| context.client_capabilities());
        Ok(Self {
            upstream,
            route,
            task,
            peer: context.peer.clone(),
            declared: declared.unwrap_or_default(),
            era: (route.repeatable == Repeatable::Yes).then(|| older_era_of(context)).flatten(),
            params,
            round: kept.round,
            mark: Mark::Unwritten,
        })
    }

    /// Makes the call. A lost connection is tried again where that may be done.
    ///
    /// # Errors
    /// What the server answers, or why there is no answer.
    pub(crate) async fn run(mut self) -> Result<CallToolResponse, ErrorData> {
        // In a later leg the call may have been sent before, and that is known without a connection.
        if self.task.attempt() > 1 {
            self.mark().await?;
        }
        let _turn = match &self.route.permits {
            // The semaphore is never closed.
            Some(permits) => Some(permits.acquire().await.map_err(|closed| failed(&closed.to_string()))?),
            None => None,
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let unanswered = match self.try_once().await? {
                Ok(answer) => return Ok(answer),
                Err(unanswered) => unanswered,
            };
            let error = match unanswered {
                Unanswered::Lost(why) if self.route.repeatable == Repeatable::No => return Err(not_repeated(&why)),
                Unanswered::Unsent(error) if error.lasting == Lasting::Yes => return Err(failed(&error.to_string())),
                Unanswered::Unsent(error) => error.to_string(),
                Unanswered::Lost(why) => format!("`{}` was called {tries} times: {why}", self.upstream.name()),
            };
            if tries == limits::TRIES_MAX {
                return Err(failed(&error));
            }
            tracing::warn!(server = self.upstream.name(), tool = self.route.route.name, error, "a call is tried again");
            SystemClock.sleep_ms(limits::TRY_AGAIN_MS * u64::from(tries)).await;
        }
    }

    /// Records that the call is about to be sent, if it must not be sent twice.
    async fn mark(&mut self) -> Result<(), ErrorData> {
        if self.route.repeatable == Repeatable::Yes || self.mark == Mark::Written {
            return Ok(());
        }
        let attempt = self.task.attempt();
        let sent_by = self.task.step(&format!("send {}", self.round), async || attempt).await;
        self.mark = Mark::Written;
        if sent_by == attempt { Ok(()) } else { Err(not_repeated("the gateway stopped while it ran")) }
    }

    /// # Errors
    /// What ends the call: an answer that is an error, or a call that must not be sent twice.
    async fn try_once(&mut self) -> Result<Result<CallToolResponse, Unanswered>, ErrorData> {
        let (client, events) = Client::new(self.upstream.name(), Some(self.task.idempotency_key()), &self.declared);
        let client = client.in_era(self.era);
        // Boxed, as are the next ones, because the futures of `rmcp` are too large for the stack of a thread otherwise.
        let connected = Box::pin(self.upstream.connect(client)).await;
        let connection = match connected {
            Ok(connection) => connection,
            Err(error) => return Ok(Err(Unanswered::Unsent(error))),
        };
        self.mark().await?;
        match Box::pin(self.converse(&connection, events)).await {
            Ok(answer) => self.answer(answer).map(Ok),
            Err(ServiceError::McpError(error)) => Err(error),
            Err(ServiceError::UnexpectedResponse) => Err(failed(&format!(
                "`{}` answered with something that is not the result of a tool",
                self.upstream.name()
            ))),
            Err(error) => Ok(Err(Unanswered::Lost(connection.last_words(&error).await))),
        }
    }

    /// Whether the caller can be asked. In the older era a server waits with the call half done, and is gone when the
    /// answer comes: the tool is called once more then.
    fn may_ask(&self) -> bool {
        self.route.repeatable == Repeatable::Yes || self.upstream.era() == Some(Era::PerRequest)
    }

    /// Sends the call, and passes on what the server sends until it answers.
    async fn converse(
        &self,
        connection: &Connection,
        mut events: mpsc::Receiver<Event>,
    ) -> Result<CallToolResponse, ServiceError> {
        let answer = connection.peer().call_tool_once(self.params.clone());
        tokio::pin!(answer);
        let (mut questions, mut furthest) = (0_u32, f64::NEG_INFINITY);
        loop {
            let event = tokio::select! {
                biased;
                answer = &mut answer => {
                    // What was reported before it is here by now.
                    while let Ok(event) = events.try_recv() {
                        self.take_report(event, &mut furthest).await;
                    }
                    return answer;
                }
                Some(event) = events.recv() => event,
            };
            match event {
                Event::Question { request, reply } => {
                    let answer = self.ask(questions, *request).await;
                    questions += 1;
                    // The server may have ended meanwhile, which `answer` tells.
                    drop(reply.send(answer));
                }
                report => self.take_report(report, &mut furthest).await,
            }
        }
    }

    async fn take_report(&self, report: Event, furthest: &mut f64) {
        match report {
            // It only grows.
            Event::Progress(progress) if progress.progress < *furthest => {}
            Event::Progress(progress) => {
                *furthest = progress.progress;
                self.report(*furthest, progress.total, progress.message).await;
            }
            Event::Log(message) => self.pass_on(message).await,
            // The server has answered without waiting for the answer.
            Event::Question { .. } => {}
        }
    }

    async fn pass_on(&self, message: LoggingMessageNotificationParam) {
        if let Err(error) = self.peer.notify_logging_message(message).await {
            tracing::debug!(%error, "a log message was not passed on");
        }
    }

    async fn report(&self, done: f64, total: Option<f64>, message: Option<String>) {
        let report = self.task.progress(done).message(message.unwrap_or_default());
        match total {
            Some(total) => report.of(total).await,
            None => report.await,
        }
    }

    /// Asks the caller. While there is no answer nothing runs: the connection is closed, and the call is made again with
    /// the answers that are on record.
    async fn ask(&self, number: u32, request: InputRequest) -> Result<ClientResult, ErrorData> {
        if !self.may_ask() {
            return Err(ErrorData::invalid_request(
                "nobody can be asked during this call: it would have to be made again with the answer, and the tool may \
                 not be repeated",
                None,
            ));
        }
        let read = reader_of(&request);
        let answer = self.task.request_input(&format!("upstream-{number}"), request).await?;
        read(answer).map_err(|error| ErrorData::invalid_params(format!("the answer cannot be read: {error}"), None))
    }

    fn answer(&self, answer: CallToolResponse) -> Result<CallToolResponse, ErrorData> {
        match answer {
            CallToolResponse::Complete(mut result) => {
                // Results of older revisions lack it.
                result.result_type.get_or_insert(ResultType::COMPLETE);
                Ok(result.into())
            }
            CallToolResponse::InputRequired(mut asked) => {
                let kept = Kept { round: self.round + 1, state: asked.request_state.take() };
                let kept = serde_json::to_string(&kept).map_err(|error| failed(&error.to_string()))?;
                asked.request_state = Some(kept);
                Ok(asked.into())
            }
            _ => Err(failed(&format!("`{}` made a task of a call that asked for none", self.upstream.name()))),
        }
    }
}

/// The era of the caller, if it is the older one. A server that speaks both answers as it would answer the caller itself: some have tools that ask
/// in one of them only. Where a tool may not be repeated, it is asked only in the newer one, so that the era stays open.
fn older_era_of(context: &RequestContext<RoleServer>) -> Option<Era> {
    let era = context.meta.protocol_version().map_or(Era::Handshake, |version| Era::of(&version));
    (era == Era::Handshake).then_some(era)
}

type ReadAnswer = fn(Value) -> Result<ClientResult, serde_json::Error>;

fn reader_of(request: &InputRequest) -> ReadAnswer {
    match request {
        InputRequest::CreateMessage(_) => {
            |answer| Ok(ClientResult::CreateMessageResult(Box::new(serde_json::from_value(answer)?)))
        }
        InputRequest::Elicitation(_) => |answer| Ok(ClientResult::ElicitResult(serde_json::from_value(answer)?)),
        InputRequest::ListRoots(_) => |answer| Ok(ClientResult::ListRootsResult(serde_json::from_value(answer)?)),
        // Anything that a later version of `rmcp` may add.
        _ => serde_json::from_value,
    }
}

fn failed(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}

fn not_repeated(why: &str) -> ErrorData {
    failed(&format!("the call may have been carried out; it was not repeated: {why}"))
}
