//! Which addresses webhooks are sent to.

use std::net::IpAddr;

use crate::{Host, public};
use url::Url;

/// Which addresses webhooks are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Addresses of the public internet, by `https` on port 443.
    Public,
    /// The same, and any address of this machine: for development.
    ThisMachineToo,
}

impl Reach {
    /// Checks the form of `url`, and its address if it has one.
    ///
    /// # Errors
    /// Its fault, in words that follow the name of the URL.
    pub fn check(self, url: &Url) -> Result<(), &'static str> {
        match self {
            Self::ThisMachineToo if matches!(url.scheme(), "http" | "https") && is_this_machine(url) => Ok(()),
            Self::Public | Self::ThisMachineToo => public::check_url(url),
        }
    }

    /// Whether a connection may go to an address.
    pub(crate) fn allows(self) -> fn(IpAddr) -> bool {
        match self {
            Self::Public => public::is_public,
            Self::ThisMachineToo => |address| public::is_public(address) || address.is_loopback(),
        }
    }
}

fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(|host| Host::new(host).is_loopback())
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
            assert!(!Reach::ThisMachineToo.allows()(address.parse().unwrap()), "{address}");
        }
        assert!(Reach::Public.allows()("1.1.1.1".parse().unwrap()));
        assert!(!Reach::Public.allows()("127.0.0.1".parse().unwrap()));
    }
}
