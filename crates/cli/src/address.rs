//! Where a server is: on this machine, or behind a network that others may read.

use longhaul_http::Host;
use url::Url;

use crate::exit::Stop;

/// Refuses to send credentials over a network that others may read.
pub(crate) fn check_secure(url: &Url) -> Result<(), Stop> {
    if url.scheme() == "https" || is_loopback(url) {
        return Ok(());
    }
    let host = url.host_str().unwrap_or_default();
    Err(Stop::usage(format!(
        "{host} is asked over plain http, which others may read: what shows who calls is not sent"
    )))
}

/// Whether the server is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| Host::new(host).is_loopback())
}
