//! Fetches public URLs: `https` on port 443, at addresses of the public internet.
//!
//! A server that fetches what a caller names must not become the caller's way into the server's own network. So the
//! name is resolved here, every address is checked, and the connection goes only to a checked address. Redirects are
//! followed here, each checked like a first URL. Size and time are limited.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use longhaul_http::{client, public};
use reqwest::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, IF_RANGE,
    LAST_MODIFIED, LOCATION, RANGE,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tokio::runtime::Handle;

use super::super::error::{ProfileError, changed, refused};
use super::identity::Identity;

/// The largest resource in bytes, and the longest URL.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
const URL_BYTES_MAX: usize = 2_048;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;

/// The longest time to open a connection, the longest silence of a sending server, and the longest time for the part of
/// one step.
const CONNECT: Duration = Duration::from_secs(10);
const READ_IDLE: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(600);

/// Reads the version from the answer to a request for the first byte.
fn identity(response: &Response) -> Result<Identity, ProfileError> {
    let version = version(response.headers());
    let (bytes, has_parts) = match part(response) {
        // Without a version, parts of two versions could not be distinguished.
        Some((_, total)) => (total, version.is_some()),
        None => (response.content_length(), false),
    };
    if bytes.is_some_and(|bytes| bytes > BYTES_MAX) {
        return Err(refused(too_large()));
    }
    Ok(Identity { bytes, version, has_parts })
}

/// Whether an answer is the `known` resource from `offset` on.
fn is_part_of(known: &Identity, response: &Response, offset: u64) -> bool {
    let is_same = known.version.is_none() || known.version == version(response.headers());
    is_same
        && match part(response) {
            Some((start, total)) => start == offset && total == known.bytes,
            // Asked for a part of a version that no longer exists, a server sends all of the new one.
            None => offset == 0,
        }
}

fn too_large() -> String {
    format!("the source is larger than {BYTES_MAX} bytes")
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn version(headers: &HeaderMap) -> Option<String> {
    let strong = text(headers, ETAG).filter(|tag| tag.starts_with('"'));
    strong.or_else(|| text(headers, LAST_MODIFIED)).map(str::to_owned)
}

/// Where the part begins that was sent, and the length of the whole if that is known: `bytes 0-0/1234`, or `*`.
fn part(response: &Response) -> Option<(u64, Option<u64>)> {
    let headers = response.headers();
    if response.status() != StatusCode::PARTIAL_CONTENT || text(headers, ACCEPT_RANGES) == Some("none") {
        return None;
    }
    let (range, total) = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.trim().parse().ok()?, total.trim().parse().ok()))
}

/// Fetches from the URLs and the addresses that it allows.
#[derive(Debug)]
pub(super) struct Fetcher {
    check_url: fn(&Url) -> Result<(), &'static str>,
    allows: fn(IpAddr) -> bool,
    // Built at the first use: reading the system's certificates takes a large part of a function's start.
    client: OnceLock<Client>,
}

impl Fetcher {
    /// Allows `https`, port 443 and public addresses.
    pub(super) const fn public() -> Self {
        Self { check_url: public::check_url, allows: public::is_public, client: OnceLock::new() }
    }

    fn client(&self) -> Result<&Client, ProfileError> {
        let limited = || client::checked(self.allows).connect_timeout(CONNECT).read_timeout(READ_IDLE).timeout(REQUEST);
        client::once(&self.client, limited).map_err(|_setup| ProfileError::Internal("no HTTP client".into()))
    }

    /// The present version of the resource, without fetching more than its first byte.
    pub(super) async fn identify(&self, url: &str) -> Result<Identity, ProfileError> {
        let response = self.get(url, |request| request.header(RANGE, "bytes=0-0")).await?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // An empty resource has no first byte.
            return identity(&self.get(url, |request| request).await?);
        }
        identity(&response)
    }

    /// The resource from `offset` on, if it is still `known`.
    pub(super) async fn open(&self, url: &str, known: &Identity, offset: u64) -> Result<Body, ProfileError> {
        let left = BYTES_MAX.saturating_sub(offset);
        let body = |response| Body { response, piece: Bytes::new(), left, runtime: Handle::current() };
        if known.bytes == Some(offset) {
            return Ok(body(None));
        }
        let ranged = |request: RequestBuilder| match &known.version {
            Some(version) if known.has_parts => {
                request.header(RANGE, format!("bytes={offset}-")).header(IF_RANGE, version)
            }
            Some(_) | None => request,
        };
        let response = self.get(url, ranged).await?;
        if is_part_of(known, &response, offset) { Ok(body(Some(response))) } else { Err(changed()) }
    }

    async fn get(
        &self,
        url: &str,
        with: impl Fn(RequestBuilder) -> RequestBuilder + Send,
    ) -> Result<Response, ProfileError> {
        let client = self.client()?;
        let mut url = self.checked(Url::parse(url).ok())?;
        for _ in 0..=REDIRECTS_MAX {
            let request = client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            let response = with(request).send().await.map_err(|error| unreachable(&error))?;
            if !response.status().is_redirection() {
                return accepted(response);
            }
            let location = text(response.headers(), LOCATION);
            url = self.checked(location.and_then(|location| url.join(location).ok()))?;
        }
        Err(refused(format!("the server redirects more than {REDIRECTS_MAX} times")))
    }

    /// A first URL, or that of a redirect, if it is allowed. A host name is checked when it is resolved.
    fn checked(&self, url: Option<Url>) -> Result<Url, ProfileError> {
        let url = url.ok_or_else(|| refused("`url`, or what it redirects to, is not a URL"))?;
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(refused("`url` is too long"));
        }
        (self.check_url)(&url).map_err(|why| refused(format!("`url` {why}")))?;
        Ok(url)
    }
}

fn accepted(response: Response) -> Result<Response, ProfileError> {
    let status = response.status();
    if !status.is_success() && status != StatusCode::RANGE_NOT_SATISFIABLE {
        return Err(refused(format!("the server answers with {status}")));
    }
    if text(response.headers(), CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(refused("the server sends compressed data although none was accepted"));
    }
    Ok(response)
}

/// Says whether an address was refused; the caller learns nothing else about the network.
fn unreachable(error: &reqwest::Error) -> ProfileError {
    if client::is_refused(error) {
        return refused("the host of `url` has an address that is not public");
    }
    let why = if error.is_timeout() { "does not answer in time" } else { "cannot be reached" };
    refused(format!("the server {why}"))
}

/// The bytes that a server sends, for a thread that may block.
#[derive(Debug)]
pub(super) struct Body {
    /// `None` if there is nothing left to send.
    response: Option<Response>,
    piece: Bytes,
    left: u64,
    runtime: Handle,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(response) = &mut self.response else { return Ok(0) };
            let piece = self.runtime.block_on(response.chunk()).map_err(io::Error::other)?;
            let Some(piece) = piece else { return Ok(0) };
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or_else(|| io::Error::other(too_large()))?;
            self.piece = piece;
        }
        let length = self.piece.as_ref().read(buffer)?;
        self.piece.advance(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
