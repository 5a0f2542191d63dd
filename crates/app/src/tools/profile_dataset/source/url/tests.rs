//! Parts of files at URLs.

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
    let sources = Sources { data_dir: None, fetcher: Fetcher { check_url, allows: |_| true, client: OnceLock::new() } };
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
    // Once to identify it (the part that the connection took), once to read it.
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
