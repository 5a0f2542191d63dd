//! The handler's own state of requests with several rounds that are not tool calls. It goes out inside a signed one, so
//! that a handler gets back only what it sent.

use rmcp::model::InputRequiredResult;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::Durable;
use crate::shared::caller;
use crate::shared::signer::{Binding, Rounds};

impl<H: ServerHandler> Durable<H> {
    /// What the state of a request for `method` belongs to; `digest` is that of its parameters.
    pub(super) fn binding(
        context: &RequestContext<RoleServer>,
        method: &str,
        digest: [u8; 32],
    ) -> Result<Binding, ErrorData> {
        Ok(Binding::new(&caller::principal(context)?.owner, method, digest))
    }

    /// The handler's state inside the one that came back.
    ///
    /// # Errors
    /// `-32602` if it was not signed here, or belongs elsewhere.
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
