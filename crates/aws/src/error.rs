//! Why a call to AWS failed, and which error of the ports that is. Only this file knows the SDK's errors.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::CancellationReason;
use aws_sdk_sqs::operation::change_message_visibility::ChangeMessageVisibilityError;
use aws_sdk_sqs::operation::delete_message::DeleteMessageError;
use longhaul_core::ports::{QueueError, StoreError};

use crate::item::Item;

/// A call that failed, after all the client's retries.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed")]
pub(crate) struct CallFailed {
    call: &'static str,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

/// A call whose answer lacks something that the service should always send.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unexpected {
    /// The SDK's type allows for an answer that the service never gives.
    #[error("a part of {0} is missing")]
    Incomplete(&'static str),
    /// Each time, another write changed the item between the read and the write.
    #[error("other writes keep changing the same item")]
    Contended,
    /// More rounds than there can be.
    #[error("{0} did not end")]
    Endless(&'static str),
}

impl From<Unexpected> for StoreError {
    fn from(error: Unexpected) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// The outcome of a conditional write.
#[derive(Debug)]
pub(crate) enum Written<T> {
    /// It was applied.
    Done(T),
    /// The condition did not hold; this is the item as it was then, if there was one.
    Refused(Option<Item>),
}

#[derive(Debug)]
pub(crate) enum NotWritten {
    /// Another write to the same item was in progress. The SDK does not retry this.
    Conflict(StoreError),
    /// Everything else; the client has retried it where that makes sense.
    Failed(StoreError),
}

impl From<NotWritten> for StoreError {
    fn from(error: NotWritten) -> Self {
        match error {
            NotWritten::Conflict(error) | NotWritten::Failed(error) => error,
        }
    }
}

/// The outcome is unknown: throttling, an error of the service, a lost answer, or a call that the service rejects.
pub(crate) fn unavailable<E>(call: &'static str, error: SdkError<E>) -> StoreError
where
    E: Error + Send + Sync + 'static,
{
    StoreError::Unavailable(Box::new(CallFailed { call, source: Box::new(error) }))
}

/// The same for the queue.
pub(crate) fn queue_unavailable<E>(call: &'static str, error: SdkError<E>) -> QueueError
where
    E: Error + Send + Sync + 'static,
{
    QueueError(Box::new(CallFailed { call, source: Box::new(error) }))
}

/// A refusal is an answer; everything else is a failure.
pub(crate) fn refused_put<T>(error: SdkError<PutItemError>) -> Result<Written<T>, NotWritten> {
    match error.as_service_error() {
        Some(PutItemError::ConditionalCheckFailedException(refused)) => Ok(Written::Refused(refused.item.clone())),
        Some(PutItemError::TransactionConflictException(_)) => Err(NotWritten::Conflict(unavailable("PutItem", error))),
        _another => Err(NotWritten::Failed(unavailable("PutItem", error))),
    }
}

/// The same as [`refused_put`] for an update.
pub(crate) fn refused_update<T>(error: SdkError<UpdateItemError>) -> Result<Written<T>, NotWritten> {
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => Ok(Written::Refused(refused.item.clone())),
        Some(UpdateItemError::TransactionConflictException(_)) => {
            Err(NotWritten::Conflict(unavailable("UpdateItem", error)))
        }
        _another => Err(NotWritten::Failed(unavailable("UpdateItem", error))),
    }
}

/// The first member of a transaction whose condition did not hold, with its item. A transaction may be sent again if
/// only other writes at the same time cancelled it, or if a member was throttled. The SDK does not recognize the latter
/// as throttled.
pub(crate) fn refused_transaction(
    error: SdkError<TransactWriteItemsError>,
) -> Result<(usize, Option<Item>), NotWritten> {
    let reasons = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
        _another => &[],
    };
    let is_refused = |reason: &CancellationReason| reason.code() == Some("ConditionalCheckFailed");
    match reasons.iter().enumerate().find(|(_, reason)| is_refused(reason)) {
        Some((number, reason)) => Ok((number, reason.item.clone())),
        None if reasons.iter().any(is_passing) => Err(NotWritten::Conflict(unavailable("TransactWriteItems", error))),
        None => Err(NotWritten::Failed(unavailable("TransactWriteItems", error))),
    }
}

/// Whether the same transaction may succeed a little later.
fn is_passing(reason: &CancellationReason) -> bool {
    matches!(
        reason.code(),
        Some("TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded" | "RequestLimitExceeded")
    )
}

/// Whether the service refused the whole call because of its rate, after all of the client's retries.
pub(crate) fn is_throttled<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    matches!(
        error.as_service_error().and_then(ProvideErrorMetadata::code),
        Some("ThrottlingException" | "ProvisionedThroughputExceededException" | "RequestLimitExceeded")
    )
}

/// Whether an extension failed only because the receipt no longer belongs to a message in flight.
pub(crate) fn is_extension_of_nothing(error: &SdkError<ChangeMessageVisibilityError>) -> bool {
    error.as_service_error().is_some_and(|error| {
        error.is_message_not_inflight() || error.is_receipt_handle_is_invalid() || is_about_parameter(error)
    })
}

/// Whether a delete failed only because the receipt no longer belongs to a message.
pub(crate) fn is_delete_of_nothing(error: &SdkError<DeleteMessageError>) -> bool {
    error.as_service_error().is_some_and(|error| error.is_receipt_handle_is_invalid() || is_about_parameter(error))
}

/// An expired receipt is reported with a code that the SDK has no type for. All other parameters are within their
/// bounds, so the error can only be about the receipt.
fn is_about_parameter(error: &impl ProvideErrorMetadata) -> bool {
    error.code() == Some("InvalidParameterValue")
}
