//! An HTTP client that connects to allowed addresses only.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

/// A client whose connections go to addresses that `allows` accepts. It follows no redirect and uses no proxy.
/// Addresses inside of URLs are not resolved: check them with the URL.
pub fn checked(allows: fn(IpAddr) -> bool) -> ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(CheckedResolver(allows)))
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

/// The client in `cell`, which is built when it is first needed: reading the system's roots takes time.
///
/// # Errors
/// If the TLS library cannot be set up.
pub fn once(cell: &OnceLock<Client>, builder: impl FnOnce() -> ClientBuilder) -> Result<&Client, reqwest::Error> {
    if let Some(client) = cell.get() {
        return Ok(client);
    }
    let built = builder().build()?;
    Ok(cell.get_or_init(|| built))
}

/// Whether a request failed because its host has an address that is not allowed.
#[must_use]
pub fn is_refused(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| Error::source(*error)).any(|error| error.is::<NotAllowed>())
}

#[derive(Debug, thiserror::Error)]
#[error("the host has an address that is not allowed")]
struct NotAllowed;

/// Resolves names and refuses those with any address that is not allowed. The connection uses this very answer, so
/// there is no second lookup that could answer otherwise.
struct CheckedResolver(fn(IpAddr) -> bool);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allows = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| allows(address.ip())) {
                return Err(NotAllowed.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}
