//! Answers to requests of plain calls. They may reach another instance than that of the call: the instances exchange
//! the answer and its receipt in two mailboxes.

use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, Timestamp};
use longhaul_engine::{AnswerError, CollectError, LeaveError};

use crate::state::Shared;
use crate::waiting::open_requests::Request;

/// In the mailbox of a receipt: the call has taken its answer.
const TAKEN: &str = "taken";

/// In the mailbox of a receipt: no call took the answer in time, and none will.
const WITHDRAWN: &str = "withdrawn";

/// How long the instance that got an answer waits until the call on another instance has taken it.
const CONFIRM_MS: u64 = 5_000;

/// Leaves the answer to a plain call's request in the mailbox that the instance of the call reads. Another instance
/// confirms that its call has taken the answer. A call that has ended takes none, and the client gets an error.
pub(crate) async fn leave(shared: &Shared, owner: &OwnerId, request: Request, text: &str) -> Result<(), AnswerError> {
    let is_here = shared.open_requests.have(request);
    let expires_at = shared.engine.ports().clock.now().plus_ms(shared.settings.ask_ms_max);
    match shared.engine.leave(owner, &mailbox(request), text, expires_at).await {
        Ok(Left::Earlier(first)) if first != text => Err(AnswerError::NotFound),
        // The same answer again, or a write whose answer was lost.
        Ok(Left::First | Left::Earlier(_)) if is_here => Ok(()),
        Ok(Left::First | Left::Earlier(_)) => confirmed(shared, owner, &receipt(request), expires_at).await,
        Err(LeaveError::TooLarge(bytes)) => Err(AnswerError::TooLarge { key: request.1.to_string(), bytes }),
        Err(LeaveError::Unavailable(error)) => Err(AnswerError::Unavailable(error)),
    }
}

/// Waits until the call has taken its answer. After a while the answer is withdrawn, and no call takes it then: the
/// first text in the mailbox of the receipt decides.
async fn confirmed(
    shared: &Shared,
    owner: &OwnerId,
    receipt: &MailboxId,
    expires_at: Timestamp,
) -> Result<(), AnswerError> {
    let (clock, settings) = (&shared.engine.ports().clock, &shared.settings);
    let deadline = clock.now().plus_ms(CONFIRM_MS);
    let mut listener = shared.engine.listener();
    loop {
        match listener.collect(owner, receipt).await {
            Ok(Some(text)) => return if text == TAKEN { Ok(()) } else { Err(AnswerError::NotFound) },
            Ok(None) if clock.now() < deadline => {}
            Ok(None) => break,
            Err(CollectError(error)) => return Err(AnswerError::Unavailable(error)),
        }
        tokio::select! {
            biased;
            _left = listener.changed() => {}
            () = clock.sleep_ms(settings.listen_poll_ms.clamp(1, CONFIRM_MS)) => {}
        }
    }
    match shared.engine.leave(owner, receipt, WITHDRAWN, expires_at).await {
        Ok(Left::Earlier(text)) if text == TAKEN => Ok(()),
        Ok(_) | Err(LeaveError::TooLarge(_)) => Err(AnswerError::NotFound),
        Err(LeaveError::Unavailable(error)) => Err(AnswerError::Unavailable(error)),
    }
}

/// The mailbox for the answer to a plain call's request.
pub(crate) fn mailbox((call, number): Request) -> MailboxId {
    MailboxId::of(&[b"answer to a call", call.as_bytes(), &number.to_be_bytes()])
}

/// The mailbox that says whether the call has taken that answer.
fn receipt((call, number): Request) -> MailboxId {
    MailboxId::of(&[b"receipt of an answer", call.as_bytes(), &number.to_be_bytes()])
}

/// Confirms that the call takes its answer; `false` if the answer was withdrawn. If the confirmation cannot be stored,
/// the client may receive a refusal although the call continues with its answer.
pub(crate) async fn take(shared: &Shared, owner: &OwnerId, request: Request, expires_at: Timestamp) -> bool {
    let left = shared.engine.leave(owner, &receipt(request), TAKEN, expires_at).await;
    !matches!(left, Ok(Left::Earlier(text)) if text == WITHDRAWN)
}
