//! Which addresses webhooks are sent to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use longhaul_http::public;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use url::Url;

/// Which addresses webhooks are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the public internet, by `https` on port 443.
    Public,
    /// Those, and this machine itself in any way: for development.
    ThisMachineToo,
}

impl Reach {
    /// Checks the form of `url`, and its address if it has one.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow the name of the URL.
    pub fn check(self, url: &Url) -> Result<(), &'static str> {
        match self {
            Self::ThisMachineToo if matches!(url.scheme(), "http" | "https") && is_this_machine(url) => Ok(()),
            Self::Public | Self::ThisMachineToo => public::check_url(url),
        }
    }

    /// Whether a connection may go to an address.
    pub(crate) fn allowed(self) -> fn(IpAddr) -> bool {
        match self {
            Self::Public => public::is_public,
            Self::ThisMachineToo => |address| public::is_public(address) || address.is_loopback(),
        }
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// A host has an address that is out of reach.
#[derive(Debug, thiserror::Error)]
#[error("the host has an address that is not public")]
struct OutOfReach;

/// Whether a request failed because its host has an address that is out of reach.
#[must_use]
pub fn is_out_of_reach(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<OutOfReach>())
}

/// Resolves names and refuses those with any address that is not allowed. The connection uses this very answer, so
/// there is no second lookup that could answer otherwise.
struct CheckedResolver(fn(IpAddr) -> bool);

/// A client that connects to allowed addresses only, whatever the names in its URLs have, and follows no redirects.
pub fn client_within(allows: fn(IpAddr) -> bool) -> ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(CheckedResolver(allows)))
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allows = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| allows(address.ip())) {
                return Err(OutOfReach.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_reached_only_if_that_is_allowed() {
        for text in ["http://127.0.0.1:8080/hook", "http://localhost/hook", "https://[::1]:1/"] {
            let url = Url::parse(text).unwrap();
            assert!(Reach::Public.check(&url).is_err(), "{text}");
            assert!(Reach::ThisMachineToo.check(&url).is_ok(), "{text}");
        }
    }

    #[test]
    fn private_networks_are_never_reached() {
        for text in ["http://10.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "https://[fd00::1]/"] {
            let url = Url::parse(text).unwrap();
            assert!(Reach::Public.check(&url).is_err() && Reach::ThisMachineToo.check(&url).is_err(), "{text}");
        }
        for address in ["10.0.0.1", "192.168.1.1", "169.254.169.254", "fd00:ec2::254"] {
            assert!(!(Reach::ThisMachineToo.allowed())(address.parse().unwrap()), "{address}");
        }
        assert!((Reach::Public.allowed())("1.1.1.1".parse().unwrap()));
        assert!(!(Reach::Public.allowed())("127.0.0.1".parse().unwrap()));
    }
}
