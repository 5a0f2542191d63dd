//! Calls into the author's code: a panic there becomes an error here.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rmcp::ErrorData;

/// The message of a panic, if it has one.
pub(crate) struct Panicked(pub(crate) String);

/// Runs `call`; a panic inside is caught and returned as an error.
pub(crate) async fn catch<T>(call: impl Future<Output = T>) -> Result<T, Panicked> {
    // Nothing of the call outlives the panic: its future is dropped, and the state that handlers share is their own
    // responsibility.
    AssertUnwindSafe(call).catch_unwind().await.map_err(|panic| Panicked(words(&*panic)))
}

/// Runs a handler's method. Without this, a panic would leave the request without any answer.
pub(crate) async fn guard<T>(call: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    catch(call).await.unwrap_or_else(|Panicked(words)| {
        tracing::error!(panic = words, "the handler panicked");
        Err(ErrorData::internal_error("the server's handler panicked", None))
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
