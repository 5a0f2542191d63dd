//! Fetches public URLs: resolves and checks every address itself, follows redirects itself, and limits size and time.

use std::error::Error as _;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Buf, Bytes};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, IF_RANGE, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::error::ProfileError;
use super::super::limits::{CONNECT_S, READ_IDLE_S, REDIRECTS_MAX, REQUEST_S, URL_BYTES_MAX};
use super::address::{PublicUrl, UrlPolicy};
use super::remote::{RemoteIdentity, too_large};

/// How many pieces of a body may wait for the reading thread.
const PIECES_WAITING_MAX: usize = 16;

/// Fetches from addresses that a policy allows.
#[derive(Debug, Clone)]
pub struct Fetcher {
    policy: UrlPolicy,
    // Built at the first use: reading the system's certificates takes a large part of a function's start.
    client: Arc<OnceLock<Client>>,
}

impl Fetcher {
    /// Connections go only to addresses that `policy` allows.
    #[must_use]
    pub fn new(policy: UrlPolicy) -> Self {
        Self { policy, client: Arc::default() }
    }

    fn client(&self) -> Result<&Client, ProfileError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let built = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(CheckedResolver { policy: self.policy }))
            .connect_timeout(Duration::from_secs(CONNECT_S))
            .read_timeout(Duration::from_secs(READ_IDLE_S))
            .timeout(Duration::from_secs(REQUEST_S))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_setup| ProfileError::Internal("no HTTP client"))?;
        Ok(self.client.get_or_init(|| built))
    }

    /// The present version of the resource, without fetching more than its first byte.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Refused`] for an address that is not public or a resource that is too large;
    /// [`ProfileError::Remote`] if the server cannot be reached or answers with an error; [`ProfileError::Internal`] if
    /// the TLS library cannot be set up.
    pub async fn identify(&self, url: &PublicUrl) -> Result<RemoteIdentity, ProfileError> {
        let response = self.get(url, |request| request.header(RANGE, "bytes=0-0")).await?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // An empty resource has no first byte.
            let whole = self.get(url, |request| request).await?;
            return RemoteIdentity::of(whole.status(), whole.headers(), whole.content_length());
        }
        RemoteIdentity::of(response.status(), response.headers(), response.content_length())
    }

    /// The resource from `offset` on, if it is still `known`.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Changed`] if it is not, and those of [`Self::identify`].
    pub async fn open(&self, url: &PublicUrl, known: &RemoteIdentity, offset: u64) -> Result<Body, ProfileError> {
        if known.bytes == Some(offset) {
            return Ok(Body { response: None, left: 0 });
        }
        let ranged = |request: RequestBuilder| match &known.validator {
            Some(validator) if known.is_ranged() => {
                request.header(RANGE, format!("bytes={offset}-")).header(IF_RANGE, validator)
            }
            Some(_) | None => request,
        };
        let response = self.get(url, ranged).await?;
        known.check(response.status(), response.headers(), offset)?;
        Ok(Body { response: Some(response), left: URL_BYTES_MAX.saturating_sub(offset) })
    }

    async fn get(
        &self,
        url: &PublicUrl,
        with: impl Fn(RequestBuilder) -> RequestBuilder + Send,
    ) -> Result<Response, ProfileError> {
        let (client, mut target) = (self.client()?, url.clone());
        for _ in 0..=REDIRECTS_MAX {
            let request = client.get(target.url().clone()).header(ACCEPT_ENCODING, "identity");
            let response = with(request).send().await.map_err(|error| unreachable(&error))?;
            if !response.status().is_redirection() {
                return accepted(response);
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let nowhere = || ProfileError::Remote("the server redirects without a location".to_owned());
            target = target.redirected(location.ok_or_else(nowhere)?)?;
        }
        Err(ProfileError::Remote(format!("the server redirects more than {REDIRECTS_MAX} times")))
    }
}

fn accepted(response: Response) -> Result<Response, ProfileError> {
    let status = response.status();
    if !status.is_success() && status != StatusCode::RANGE_NOT_SATISFIABLE {
        return Err(ProfileError::Remote(format!("the server answers with {status}")));
    }
    let encoding = response.headers().get(CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(ProfileError::Remote("the server sends compressed data although none was accepted".to_owned()));
    }
    Ok(response)
}

/// Says whether an address was refused; the caller learns nothing else about the network.
fn unreachable(error: &reqwest::Error) -> ProfileError {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<NotPublic>() {
            return ProfileError::Refused("the host of `url` has an address that is not public".to_owned());
        }
        cause = error.source();
    }
    let why = if error.is_timeout() { "does not answer in time" } else { "cannot be reached" };
    ProfileError::Remote(format!("the server {why}"))
}

/// Resolves names and refuses those with any address that is not allowed. The connection uses this very answer, so
/// there is no second lookup that could answer otherwise.
#[derive(Debug)]
struct CheckedResolver {
    policy: UrlPolicy,
}

#[derive(Debug, thiserror::Error)]
#[error("an address is not public")]
struct NotPublic;

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !found.iter().all(|address| policy.allows(address.ip())) {
                return Err(NotPublic.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// What a server sends.
#[derive(Debug)]
pub struct Body {
    /// `None` if there is nothing left to send.
    response: Option<Response>,
    left: u64,
}

impl Body {
    /// Runs `work` on a thread that may block, with a reader of the body. The body is no longer read once `work` ends.
    ///
    /// # Errors
    ///
    /// Those of `work`, which sees a failing server as [`ProfileError::Read`].
    pub async fn read_with<T: Send + 'static>(
        self,
        work: impl FnOnce(BodyReader) -> Result<T, ProfileError> + Send + 'static,
    ) -> Result<T, ProfileError> {
        let (pieces, waiting) = channel(PIECES_WAITING_MAX);
        let mut outcome = std::pin::pin!(super::blocking(move || work(BodyReader::new(waiting))));
        tokio::select! {
            outcome = &mut outcome => outcome,
            () = self.send_to(pieces) => outcome.await,
        }
    }

    /// Passes the pieces on until the body ends, fails, or is no longer read.
    async fn send_to(self, pieces: Sender<io::Result<Bytes>>) {
        let (Some(mut response), mut left) = (self.response, self.left) else {
            return;
        };
        loop {
            let piece = match response.chunk().await {
                Ok(None) => return,
                Ok(Some(piece)) => match left.checked_sub(piece.len() as u64) {
                    Some(rest) => {
                        left = rest;
                        Ok(piece)
                    }
                    None => Err(io::Error::other(too_large())),
                },
                Err(error) => Err(io::Error::other(error)),
            };
            let is_last = piece.is_err();
            if pieces.send(piece).await.is_err() || is_last {
                return;
            }
        }
    }
}

/// Reads the pieces of a body on a thread that may block.
#[derive(Debug)]
pub struct BodyReader {
    waiting: Receiver<io::Result<Bytes>>,
    piece: Bytes,
}

impl BodyReader {
    const fn new(waiting: Receiver<io::Result<Bytes>>) -> Self {
        Self { waiting, piece: Bytes::new() }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.waiting.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.piece = piece?,
            }
        }
        let length = buffer.len().min(self.piece.len());
        if let Some(part) = buffer.get_mut(..length) {
            self.piece.copy_to_slice(part);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::super::arguments::{Plan, ProfileArgs};
    use super::super::super::chunk::{Pace, Progress};
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
        let pace = Pace { chunk_bytes: 200_000, block_bytes: 10_000 };
        let plan: Plan =
            ProfileArgs { url: Some(url.to_owned()), ..Default::default() }.plan(pace, UrlPolicy::AnyForTests)?;
        let sources = Sources::new(None, Fetcher::new(UrlPolicy::AnyForTests));
        let identity = sources.identify(&plan).await?;
        let (mut before, mut chunks) = (None, 0);
        loop {
            chunks += 1;
            match sources.chunk(&plan, &identity, before).await? {
                Progress::Done(profile) => return Ok((*profile, chunks)),
                Progress::More(checkpoint) => before = Some(checkpoint),
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
        assert!(matches!(outcome, Err(ProfileError::Changed)), "{outcome:?}");
    }

    #[tokio::test]
    async fn endless_redirects_compressed_bodies_and_silent_hosts_are_refused() {
        for behaviour in [Behaviour::Endless, Behaviour::Compressed] {
            let server = serve(content(), behaviour).await;
            let outcome = profile(&server.url).await;
            assert!(matches!(outcome, Err(ProfileError::Remote(_))), "{outcome:?}");
        }
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let outcome = profile(&format!("http://{closed}/")).await;
        assert!(matches!(outcome, Err(ProfileError::Remote(_))), "{outcome:?}");
    }

    #[tokio::test]
    async fn the_client_is_built_at_the_first_fetch_and_shared_by_clones() {
        let fetcher = Fetcher::new(UrlPolicy::PublicHttps);
        let clone = fetcher.clone();
        assert!(fetcher.client.get().is_none());
        let url = PublicUrl::new("https://localhost/data.csv", UrlPolicy::PublicHttps).unwrap();
        clone.identify(&url).await.unwrap_err();
        assert!(fetcher.client.get().is_some());
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_is_refused_before_any_connection() {
        let url = PublicUrl::new("https://localhost/data.csv", UrlPolicy::PublicHttps).unwrap();
        let outcome = Fetcher::new(UrlPolicy::PublicHttps).identify(&url).await;
        assert!(matches!(&outcome, Err(ProfileError::Refused(why)) if why.contains("not public")), "{outcome:?}");
    }
}
