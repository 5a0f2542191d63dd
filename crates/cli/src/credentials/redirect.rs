//! The target of the browser's redirect: one page on loopback, during a sign-in.

use std::net::Ipv4Addr;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::limits::{REDIRECT_CONNECTIONS_MAX, REDIRECT_HEAD_BYTES_MAX, REDIRECT_HEAD_MAX};

const PATH: &str = "/callback";

/// The page.
pub(super) struct Redirect {
    listener: TcpListener,
    url: Url,
}

/// The request that an answer is compared with.
pub(super) struct Asked<'a> {
    pub(super) state: &'a str,
    pub(super) issuer: Option<&'a str>,
    /// Whether the authorization server declares that its answers name it.
    pub(super) names_itself: bool,
}

/// The authorization server's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Code {
        code: String,
        issuer: Option<String>,
    },
    /// It refuses this user, in its own words.
    Refused(String),
    /// It came from another server than the one that was asked.
    OfAnother,
}

impl Redirect {
    /// At this port, or at one that is free if it is 0.
    pub(super) async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let url = Url::parse(&format!("http://{address}{PATH}")).map_err(std::io::Error::other)?;
        Ok(Self { listener, url })
    }

    pub(super) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The first answer to the sign-in request. Any other request is refused, and the wait continues.
    pub(super) async fn answer(&self, asked: &Asked<'_>) -> Answer {
        let mut open = FuturesUnordered::new();
        loop {
            let is_room = open.len() < REDIRECT_CONNECTIONS_MAX;
            tokio::select! {
                accepted = self.listener.accept(), if is_room => {
                    if let Ok((connection, _address)) = accepted {
                        open.push(self.look_at(connection, asked));
                    }
                }
                Some(answer) = open.next() => {
                    if let Some(answer) = answer {
                        return answer;
                    }
                }
            }
        }
    }

    async fn look_at(&self, mut connection: TcpStream, asked: &Asked<'_>) -> Option<Answer> {
        let head = tokio::time::timeout(REDIRECT_HEAD_MAX, head_of(&mut connection)).await.ok()??;
        let answer =
            target_of(&head).and_then(|target| self.url.join(target).ok()).and_then(|url| self.read(&url, asked));
        let (status, text) = match &answer {
            Some(Answer::Code { .. }) => ("200 OK", "Done. Go back to the terminal; this page can be closed."),
            Some(_) => ("400 Bad Request", "The sign-in was refused. The terminal says more."),
            None => ("404 Not Found", "This is not the page of a running sign-in."),
        };
        let page = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
             close\r\n\
             Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'\r\n\r\n{text}",
            text.len()
        );
        // A browser that has gone has sent its request.
        drop(tokio::time::timeout(REDIRECT_HEAD_MAX, connection.write_all(page.as_bytes())).await);
        answer
    }

    /// An answer to the sign-in request; `None` if it is to something else, or by a sender who does not know the
    /// request.
    fn read(&self, url: &Url, asked: &Asked<'_>) -> Option<Answer> {
        let all = |name: &str| -> Vec<String> {
            url.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned()).collect()
        };
        // A name that occurs twice is ignored.
        let one = |name: &str| <[String; 1]>::try_from(all(name)).ok().map(|[value]| value);
        if url.path() != PATH || url.origin() != self.url.origin() || one("state").as_deref() != Some(asked.state) {
            return None;
        }
        let issuer = one("iss");
        let is_of_another = match &issuer {
            Some(issuer) => Some(issuer.as_str()) != asked.issuer,
            None => asked.names_itself || !all("iss").is_empty(),
        };
        if is_of_another {
            return Some(Answer::OfAnother);
        }
        if let Some(code) = one("code") {
            return Some(Answer::Code { code, issuer });
        }
        let error = one("error")?;
        Some(Answer::Refused(one("error_description").map_or(error.clone(), |why| format!("{error}: {why}"))))
    }
}

/// The head of a request; `None` if there is no whole one.
async fn head_of(connection: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 4_096];
        let read = connection.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(chunk.get(..read)?);
        if head.len() > REDIRECT_HEAD_BYTES_MAX {
            return None;
        }
    }
    Some(head)
}

/// The target of a GET request.
fn target_of(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    (words.next() == Some("GET")).then_some(())?;
    words.next().filter(|target| target.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, names_itself: bool) -> Option<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redirect = runtime.block_on(Redirect::open(0)).unwrap();
        let url = redirect.url.join(query).unwrap();
        redirect.read(&url, &Asked { state: "s t", issuer: Some("https://a.example"), names_itself })
    }

    const ISS: &str = "&iss=https%3A%2F%2Fa.example";

    #[test]
    fn an_answer_is_that_to_what_was_asked_of_whom_was_asked() {
        let code = |issuer: Option<&str>| Answer::Code { code: "c".to_owned(), issuer: issuer.map(str::to_owned) };
        assert_eq!(read("/callback?code=c&state=s+t", false), Some(code(None)));
        assert_eq!(read(&format!("/callback?code=c&state=s%20t{ISS}"), true), Some(code(Some("https://a.example"))));
        for of_another in ["&iss=https%3A%2F%2Fb.example", "&iss=https%3A%2F%2Fa.example%2F", &format!("{ISS}{ISS}")] {
            let query = format!("/callback?error=x&state=s+t{of_another}");
            assert_eq!(read(&query, false), Some(Answer::OfAnother), "{query}");
        }
        assert_eq!(read("/callback?code=c&state=s+t", true), Some(Answer::OfAnother));
        let refused = read("/callback?error=access_denied&error_description=no+way&state=s+t", false);
        assert_eq!(refused, Some(Answer::Refused("access_denied: no way".to_owned())));
    }

    #[test]
    fn who_does_not_know_what_was_asked_answers_nothing() {
        for query in [
            "/callback",
            "/callback?code=c",
            "/callback?code=c&state=x",
            "/callback?code=c&state=s+t&state=s+t",
            "/callback?error=x&state=",
            "/other?code=c&state=s+t",
            "//b.example/callback?code=c&state=s+t",
            "/favicon.ico",
        ] {
            assert_eq!(read(query, false), None, "{query}");
        }
        assert_eq!(target_of(b"GET /callback?x HTTP/1.1\r\n\r\n"), Some("/callback?x"));
        for head in
            [&b"POST /callback HTTP/1.1\r\n\r\n"[..], b"GET http://x/ HTTP/1.1\r\n\r\n", b"\xff\r\n\r\n", b"GET"]
        {
            assert_eq!(target_of(head), None);
        }
    }
}
