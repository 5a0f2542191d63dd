//! A server next to the other things that its program does.

use futures::FutureExt;
use longhaul_core::settings::Place;

use super::{Options, Running, ServeError};
use crate::{Server, telemetry};

/// Starts `server`, and returns once it listens. The rest of the program runs next to it, and [`Running`] stops it.
///
/// With [`Options::mounted`] nothing listens: the program has the listener, and passes requests on to
/// [`Running::service`].
///
/// A DynamoDB table or an SQS queue that cannot be used yet is tried again and again. Meanwhile the log says why, and
/// `/readyz` that the server is not ready. If the server needs more file descriptors for its connections, it raises
/// the limit of the process, within the limit of the system.
pub async fn start(server: &Server, options: &Options) -> Result<Running, ServeError> {
    telemetry::start(options.values(), Place::Local)?;
    // Its type has more levels than the compiler follows in the program of an author.
    Running::start(server, options).boxed().await
}
