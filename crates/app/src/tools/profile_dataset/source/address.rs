//! Which URLs and addresses may be fetched from: `https` on port 443, at addresses of the public internet.
//!
//! A server that fetches what a caller names must not become the caller's way into the server's own network. So the
//! name is resolved here, every address is checked, and the connection goes only to a checked address; a redirect is
//! checked like a first URL.

use std::net::IpAddr;

use longhaul_http::public;
use reqwest::Url;

use super::super::error::ProfileError;
use super::super::limits::URL_LENGTH_MAX;

/// Which URLs are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPolicy {
    /// `https`, port 443, public addresses.
    PublicHttps,
    /// Anything, for tests against a server on this machine.
    #[cfg(test)]
    AnyForTests,
}

impl UrlPolicy {
    /// Whether a connection may go to `address`.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::PublicHttps => public::is_public(address),
            #[cfg(test)]
            Self::AnyForTests => true,
        }
    }

    fn check(self, url: &Url) -> Result<(), &'static str> {
        match self {
            Self::PublicHttps => public::check_url(url),
            #[cfg(test)]
            Self::AnyForTests => Ok(()),
        }
    }
}

/// A URL whose form was checked, and its address if it has one; a host name is checked when it is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    url: Url,
    policy: UrlPolicy,
}

impl PublicUrl {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] says why it may not be fetched.
    pub fn new(text: &str, policy: UrlPolicy) -> Result<Self, ProfileError> {
        let refused = |why: &str| ProfileError::Refused(format!("`url` {why}"));
        if text.len() > URL_LENGTH_MAX {
            return Err(refused("is too long"));
        }
        let Ok(url) = Url::parse(text) else {
            return Err(refused("is not a URL"));
        };
        policy.check(&url).map_err(refused)?;
        Ok(Self { url, policy })
    }

    /// Where a redirect to `location` leads.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] as for a first URL.
    pub fn redirected(&self, location: &str) -> Result<Self, ProfileError> {
        let Ok(target) = self.url.join(location) else {
            return Err(ProfileError::Remote("the server redirects to something that is not a URL".to_owned()));
        };
        Self::new(target.as_str(), self.policy)
    }

    /// The URL.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The policy that it was checked by.
    #[must_use]
    pub const fn policy(&self) -> UrlPolicy {
        self.policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_on_port_443_without_credentials_are_accepted() {
        let check = |text: &str| PublicUrl::new(text, UrlPolicy::PublicHttps);
        assert!(check("https://example.com/a.csv?x=1").is_ok());
        assert!(check("https://example.com:443/").is_ok());
        for text in [
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://example.com:8443/",
            "https://example.com:22/",
            "https://u:p@example.com/",
            "https://u@example.com/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://127.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://",
            "example.com",
            "",
        ] {
            assert!(matches!(check(text), Err(ProfileError::Refused(_))), "{text}");
        }
    }

    #[test]
    fn a_redirect_is_checked_like_a_first_url() {
        let first = PublicUrl::new("https://example.com/a/b", UrlPolicy::PublicHttps).unwrap();
        assert_eq!(first.redirected("../c").unwrap().url().as_str(), "https://example.com/c");
        for location in ["http://example.com/", "https://10.0.0.1/", "//127.0.0.1/x"] {
            assert!(first.redirected(location).is_err(), "{location}");
        }
    }
}
