//! A call that is answered by its tool while the caller waits; and the handler's own state of requests with several
//! rounds. It goes out inside a signed one, so that a handler gets back only what it sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::{FailureKind, strict_json};
use longhaul_engine::{Attempt, Cleaned, Driven, Suspended, Unstored};
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequests, InputRequiredResult};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Durable;
use crate::context::{PlainCall, Rounds as CanAsk, Run};
use crate::reply::errors;
use crate::revision::Generation;
use crate::signing::derived;
use crate::signing::signer::{Binding, Rounds};
use crate::tool_calls::caller::{self, Caller};
use crate::tool_calls::{accept, asking};
use crate::tools::handler::guard;
use crate::{TaskContext, VerifiedCaller};

impl<H: ServerHandler> Durable<H> {
    pub(super) async fn call(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(ending) = caller::ending(&context) {
            context.ct = ending.left;
        }
        if accept::later_start(&context.meta)?.is_some() {
            return Err(accept::never_a_task(&request.name));
        }
        let caller = &Caller::of(&context)?;
        let digest = derived::digest_of_call(&request.name, request.arguments.as_ref());
        let binding = Binding::new(&caller.owner, "tools/call", digest);
        let Rounds { mut answers, state, call_key, .. } = match &request.request_state {
            Some(state) => self.shared.signer.verify_rounds(state, &binding)?,
            None => Rounds::default(),
        };
        answers.extend(request.input_responses.clone().unwrap_or_default());
        let _held = self.shared.streams.open(caller.owner, self.shared.settings.listen_ms_max).await?;
        let key = if call_key.is_empty() { self.call_key(&request, &context, caller)? } else { call_key };
        let attempt = self.attempt(&request, &context, caller);
        let call = self.plain_call(&request, &context, caller, key.clone());
        let known = VerifiedCaller::known(&caller.principal);
        let (declared, given) = (caller.capabilities.clone(), answers.clone());
        context.extensions.insert(TaskContext::new(attempt.clone(), Run::Plain(call), declared, given, known));
        request.request_state = state;
        let client_left = context.ct.clone();
        let ended = async {
            let driven = attempt.drive(guard(self.inner.call_tool(request, context))).await;
            let ended = end(driven);
            if has_failed(&ended)
                && let Cleaned::GivenUp { reason } = attempt.undo(Driven::Ended(false)).await
            {
                tracing::error!(reason, "a compensation of a plain call failed, and is given up");
            }
            ended
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended,
            // The tool's future is dropped here: no one waits for it any more.
            () = client_left.cancelled() => {
                return Err(ErrorData::internal_error("the client has left", None));
            }
        };
        match ended {
            Ok(Ok(CallToolResponse::InputRequired(asked))) => {
                check_all(caller, asked.input_requests.as_ref())?;
                self.with_earlier_answers(asked, answers, key, &binding)
            }
            Ok(Ok(CallToolResponse::Task(_))) => Err(errors::made_a_task()),
            Ok(Ok(ended)) => Ok(ended),
            Ok(Err(asks)) => {
                let state = self.sign(Rounds { answers, call_key: key, ..Rounds::default() }, &binding)?;
                Ok(InputRequiredResult::new(Some(asks), Some(state)).into())
            }
            Err(error) => Err(error),
        }
    }

    fn attempt(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
    ) -> Attempt {
        let texts = [("arguments", caller::arguments_text(context)), ("_meta", caller::meta_text(context))];
        let texts = texts.iter().filter_map(|(name, text)| Some(format!("\"{name}\":{}", (*text)?)));
        let ports = self.shared.engine.ports();
        Attempt::unstored(Unstored {
            clock: Arc::clone(&ports.clock),
            ids: Arc::clone(&ports.ids),
            owner: caller.owner,
            tool: request.name.to_string(),
            request: format!("{{{}}}", texts.collect::<Vec<_>>().join(",")),
            wait_ms_max: self.shared.settings.plain_wait_ms_max,
            cancelled: context.ct.clone(),
        })
    }

    fn plain_call(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
        key: String,
    ) -> PlainCall {
        PlainCall {
            is_outside: false,
            retry: self.shared.retry_of(&request.name),
            key,
            peer: context.peer.clone(),
            progress_token: context.meta.get_progress_token(),
            rounds: match caller.generation {
                Generation::PerRequest => CanAsk::Known,
                Generation::Handshake => CanAsk::Unknown,
            },
        }
    }

    /// Questions that the tool asked by returning them. Its own state goes out inside a signed one, with the answers of
    /// earlier rounds.
    fn with_earlier_answers(
        &self,
        mut asked: InputRequiredResult,
        answers: BTreeMap<String, Value>,
        call_key: String,
        binding: &Binding,
    ) -> Result<CallToolResponse, ErrorData> {
        if !answers.is_empty() || asked.request_state.is_some() {
            let state = asked.request_state.take();
            asked.request_state = Some(self.sign(Rounds { answers, state, call_key, ..Rounds::default() }, binding)?);
        }
        Ok(asked.into())
    }

    pub(super) fn sign(&self, rounds: Rounds, binding: &Binding) -> Result<String, ErrorData> {
        let until = self.shared.engine.ports().clock.now().plus_ms(self.shared.settings.state_ms_max);
        self.shared.signer.sign_rounds(rounds, binding, until)
    }

    /// The caller's own key, bound to the caller; otherwise a random one.
    fn call_key(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        caller: &Caller,
    ) -> Result<String, ErrorData> {
        let mut hash = Sha256::new();
        match caller.scope.bind(caller::idempotency(request, context)?)? {
            Some(idempotency) => {
                hash.update(caller.owner.as_bytes());
                hash.update(idempotency.key);
            }
            None => {
                let mut random = [0; 32];
                self.shared.engine.ports().ids.fill(&mut random);
                hash.update(random);
            }
        }
        Ok(derived::digits(hash.finalize().into()))
    }

    /// The binding of the state of a request for `method`; `digest` is that of its parameters.
    pub(super) fn binding(
        context: &RequestContext<RoleServer>,
        method: &str,
        digest: [u8; 32],
    ) -> Result<Binding, ErrorData> {
        Ok(Binding::new(&caller::principal(context)?.owner, method, digest))
    }

    /// The handler's state inside the one that came back. Fails with `-32602` if it was not signed here, or belongs
    /// elsewhere.
    pub(super) fn unwrapped(&self, state: Option<String>, binding: &Binding) -> Result<Option<String>, ErrorData> {
        match state {
            Some(state) => Ok(self.shared.signer.verify_rounds(&state, binding)?.state),
            None => Ok(None),
        }
    }

    /// The questions, with the handler's state inside a signed one.
    pub(super) fn wrapped(
        &self,
        mut asked: InputRequiredResult,
        binding: &Binding,
    ) -> Result<InputRequiredResult, ErrorData> {
        if let Some(state) = asked.request_state.take() {
            let rounds = Rounds { state: Some(state), ..Rounds::default() };
            asked.request_state = Some(self.sign(rounds, binding)?);
        }
        Ok(asked)
    }
}

/// The answer of the tool of a plain call; `Err` has the questions that end the call.
type Ended = Result<CallToolResponse, InputRequests>;

fn end(driven: Driven<Result<CallToolResponse, ErrorData>>) -> Result<Ended, ErrorData> {
    match driven {
        Driven::Ended(ended) => ended.map(Ok),
        Driven::Suspended(suspended) => asks(suspended).map(Err),
    }
}

/// The questions with which the call ends.
fn asks(suspended: Suspended) -> Result<InputRequests, ErrorData> {
    let asks = suspended.into_asks().map_err(|(kind, message)| {
        let is_for_a_task = kind == FailureKind::TimedOut;
        if is_for_a_task { ErrorData::invalid_request(message, None) } else { ErrorData::internal_error(message, None) }
    })?;
    let read = |request: &str| strict_json::from_str(request);
    let asks = asks.into_iter().map(|ask| Ok((ask.key, read(&ask.request)?))).collect::<Result<_, serde_json::Error>>();
    asks.map_err(|error| errors::internal("a question could not be read", &error))
}

/// Whether the tool of a plain call has ended, and not with success.
fn has_failed(ended: &Result<Ended, ErrorData>) -> bool {
    match ended {
        Ok(Ok(CallToolResponse::Complete(result))) => result.is_error == Some(true),
        Ok(Ok(_) | Err(_)) => false,
        Err(_) => true,
    }
}

fn check_all(caller: &Caller, asked: Option<&InputRequests>) -> Result<(), ErrorData> {
    asked
        .into_iter()
        .flat_map(InputRequests::values)
        .try_for_each(|request| asking::check_declared(&caller.capabilities, request))
}
