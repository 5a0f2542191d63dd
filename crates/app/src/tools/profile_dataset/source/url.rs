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

use super::super::{ProfileError, changed, refused};
use super::identity::Identity;

/// The largest resource in bytes, and the longest URL.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
const URL_BYTES_MAX: usize = 2_048;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;

/// The longest time to open a connection, the longest silence of a server that is sending, and the longest time for the
/// part that one step reads.
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::super::arguments::{Plan, ProfileArgs};
    use super::super::super::chunk::Progress;
    use super::super::super::report::DatasetProfile;
    use super::super::Sources;
    use super::*;

    /// How a test server behaves.
    #[derive(Clone, Copy, PartialEq)]
    enum Behaviour {
        Ranged,
        WholeOnly,
        ChangesAfterTwoAnswers,
        Endless,
        Inwards,
        Compressed,
    }

    struct Server {
        url: String,
        bytes_sent: Arc<AtomicUsize>,
    }

    async fn serve(content: String, behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/data.csv", listener.local_addr().unwrap());
        let bytes_sent = Arc::new(AtomicUsize::new(0));
        let (sent, content) = (Arc::clone(&bytes_sent), Arc::new(content));
        #[expect(clippy::disallowed_methods, reason = "a test server")]
        tokio::spawn(async move {
            let mut answers = 0;
            while let Ok((stream, _)) = listener.accept().await {
                answers += 1;
                answer(stream, &content, behaviour, answers, &sent).await;
            }
        });
        Server { url, bytes_sent }
    }

    async fn answer(stream: TcpStream, content: &str, behaviour: Behaviour, number: usize, sent: &AtomicUsize) {
        let mut stream = BufReader::new(stream);
        let (mut line, mut range) = (String::new(), None);
        while stream.read_line(&mut line).await.unwrap() > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (from, to) = value.trim().split_once('-').unwrap();
                let to = to.parse().map_or(content.len(), |to: usize| to + 1);
                range = Some((from.parse::<usize>().unwrap(), to));
            }
            line.clear();
        }
        let version = if behaviour == Behaviour::ChangesAfterTwoAnswers && number > 2 { 2 } else { 1 };
        let head = match (behaviour, range) {
            (Behaviour::Endless, _) => format!("302 Found\r\nLocation: /again{number}"),
            (Behaviour::Inwards, _) => "302 Found\r\nLocation: https://10.0.0.1/".to_owned(),
            (Behaviour::Compressed, _) => "200 OK\r\nContent-Encoding: gzip".to_owned(),
            (Behaviour::WholeOnly, _) | (_, None) => "200 OK".to_owned(),
            (_, Some((from, to))) => {
                format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{}", to - 1, content.len())
            }
        };
        let (from, to) = if head.starts_with("206") { range.unwrap() } else { (0, content.len()) };
        let body = &content[from..to];
        let head = format!(
            "HTTP/1.1 {head}\r\nETag: \"v{version}\"\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = stream.into_inner();
        stream.write_all(head.as_bytes()).await.ok();
        for piece in body.as_bytes().chunks(4096) {
            if stream.write_all(piece).await.is_err() {
                return;
            }
            sent.fetch_add(piece.len(), Ordering::Relaxed);
        }
    }

    fn content() -> String {
        "id,text\n".to_owned() + &(0..40_000).map(|i| format!("{i},\"line\n{i}\"\n")).collect::<String>()
    }

    async fn profile(url: &str) -> Result<(DatasetProfile, usize), ProfileError> {
        let mut plan: Plan = serde_json::from_value::<ProfileArgs>(json!({"url": url})).unwrap().plan()?;
        plan.reading.chunk_bytes = 200_000;
        // The server is on this machine, and no other address here is allowed.
        let check_url =
            |url: &Url| if url.as_str().starts_with("http://127.0.0.1:") { Ok(()) } else { public::check_url(url) };
        let sources =
            Sources { data_dir: None, fetcher: Fetcher { check_url, allows: |_| true, client: OnceLock::new() } };
        let identity = sources.identify(&plan).await?;
        let (mut before, mut chunks) = (None, 0);
        loop {
            chunks += 1;
            match sources.chunk(&plan, &identity, before).await? {
                Progress::Done(profile) => return Ok((*profile, chunks)),
                Progress::More(state) => before = Some(state),
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_sends_parts_is_read_in_chunks() {
        let server = serve(content(), Behaviour::Ranged).await;
        let (profile, chunks) = profile(&server.url).await.unwrap();
        assert_eq!((profile.rows, profile.bytes), (40_000, content().len() as u64));
        assert!(chunks > 2, "{chunks}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_send_parts_is_read_in_one_step() {
        let server = serve(content(), Behaviour::WholeOnly).await;
        let (profile, chunks) = profile(&server.url).await.unwrap();
        assert_eq!((profile.rows, chunks), (40_000, 1));
        // Once to identify it (as far as the connection took it), once to read it.
        assert!(server.bytes_sent.load(Ordering::Relaxed) <= 2 * content().len());
    }

    #[tokio::test]
    async fn a_resource_that_changes_between_two_chunks_is_noticed() {
        let server = serve(content(), Behaviour::ChangesAfterTwoAnswers).await;
        let outcome = profile(&server.url).await;
        assert!(matches!(&outcome, Err(ProfileError::Refused(why)) if why.contains("changed")), "{outcome:?}");
    }

    #[tokio::test]
    async fn endless_redirects_compressed_bodies_and_silent_hosts_are_refused() {
        for behaviour in [Behaviour::Endless, Behaviour::Compressed] {
            let server = serve(content(), behaviour).await;
            let outcome = profile(&server.url).await;
            assert!(matches!(outcome, Err(ProfileError::Refused(_))), "{outcome:?}");
        }
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let outcome = profile(&format!("http://{closed}/")).await;
        assert!(matches!(outcome, Err(ProfileError::Refused(_))), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_is_refused_before_any_connection() {
        let outcome = Fetcher::public().identify("https://localhost/data.csv").await;
        assert!(matches!(&outcome, Err(ProfileError::Refused(why)) if why.contains("not public")), "{outcome:?}");
    }

    #[test]
    fn only_https_urls_on_port_443_without_credentials_are_accepted() {
        let check = |text: &str| Fetcher::public().checked(Url::parse(text).ok());
        assert!(check("https://example.com/a.csv?x=1").is_ok());
        assert!(check("https://example.com:443/").is_ok());
        let long = format!("https://example.com/{}", "x".repeat(URL_BYTES_MAX));
        for text in [
            "http://example.com/",
            "file:///etc/passwd",
            "https://example.com:8443/",
            "https://u:p@example.com/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://",
            "example.com",
            "",
            &long,
        ] {
            assert!(matches!(check(text), Err(ProfileError::Refused(_))), "{text}");
        }
    }

    #[tokio::test]
    async fn a_redirect_is_checked_like_a_first_url() {
        let server = serve(content(), Behaviour::Inwards).await;
        let outcome = profile(&server.url).await;
        assert!(matches!(&outcome, Err(ProfileError::Refused(why)) if why.contains("not public")), "{outcome:?}");
    }

    fn response(status: u16, headers: &[(&str, &str)]) -> Response {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body("").unwrap().into()
    }

    #[test]
    fn parts_are_read_only_of_a_server_that_sends_them_with_a_version() {
        let range = ("content-range", "bytes 0-0/500");
        for (status, headers, has_parts) in [
            (206, &[range, ("etag", "\"v1\"")][..], true),
            (206, &[range, ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")], true),
            (206, &[range, ("etag", "W/\"v1\"")], false),
            (206, &[range, ("etag", "\"v1\""), ("accept-ranges", "none")], false),
            (206, &[range], false),
            (200, &[("etag", "\"v1\"")], false),
        ] {
            assert_eq!(identity(&response(status, headers)).unwrap().has_parts, has_parts, "{headers:?}");
        }
        let large = response(206, &[("content-range", "bytes 0-0/4294967297")]);
        assert!(matches!(identity(&large), Err(ProfileError::Refused(_))));
    }

    #[test]
    fn another_version_or_another_part_is_noticed() {
        let known = Identity { bytes: Some(500), version: Some("\"v1\"".to_owned()), has_parts: true };
        let part = ("content-range", "bytes 100-499/500");
        for (status, headers, offset, is_same) in [
            (206, &[part, ("etag", "\"v1\"")][..], 100, true),
            (206, &[part, ("etag", "\"v1\"")], 200, false),
            (206, &[part, ("etag", "\"v2\"")], 100, false),
            (200, &[("etag", "\"v1\"")], 0, true),
            (200, &[("etag", "\"v1\"")], 100, false),
        ] {
            assert_eq!(is_part_of(&known, &response(status, headers), offset), is_same, "{headers:?} at {offset}");
        }
    }
}
