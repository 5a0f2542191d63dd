//! The console: from a request to its answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use longhaul_client::Error;
use tokio::sync::{Semaphore, watch};

use crate::answer::{Body, SAFE, asset, of_type, see_other, shown, text, whole, with_cookie};
use crate::ask::{PageRequest, link};
use crate::guard::{Guard, LOG_IN, LOG_OUT};
use crate::limits::{LIVE_MAX, SECRET_MIN};
use crate::log_in::LogIn;
use crate::page::{Done, Page};
use crate::pages;
use crate::pages::log_in::log_in_page;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::source::Source;
use crate::state::{Acts, Servers, State};
use crate::{clock, live};

/// The parts of a console.
pub struct Setup {
    /// The source of its tasks.
    pub source: Arc<dyn Source>,
    /// The log of people's actions in it.
    pub acts: Acts,
    /// Whether it offers no actions.
    pub is_read_only: bool,
    /// Its names in the `Host` header, in addition to those of loopback.
    pub hosts: Vec<String>,
    /// The token for signing in, at least 32 characters; without one no sign-in is needed.
    pub secret: Option<String>,
    /// The other servers that the tools need, such as those behind a gateway.
    pub servers: Servers,
}

/// A console.
#[derive(Clone)]
pub struct Console {
    shared: Arc<State>,
}

impl Console {
    /// A console with keys of its own.
    pub fn new(setup: Setup) -> std::io::Result<Self> {
        let mut guard = Guard::new()?;
        guard.hosts = setup.hosts;
        if let Some(secret) = setup.secret {
            if secret.chars().count() < SECRET_MIN {
                let why = format!("the token has fewer than {SECRET_MIN} characters");
                return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
            }
            guard.log_in = Some(LogIn::new(secret)?);
        }
        let Setup { source, acts, is_read_only, servers, .. } = setup;
        let live = Arc::new(Semaphore::new(LIVE_MAX));
        let (closed, _) = watch::channel(false);
        Ok(Self { shared: Arc::new(State { source, guard, is_read_only, live, closed, acts, servers }) })
    }

    /// The path of its first page. It has a code for one sign-in, if sign-in is required.
    #[must_use]
    pub fn entry(&self) -> String {
        match self.shared.guard.log_in.as_ref().and_then(LogIn::once) {
            Some(once) => link("log-in", &[("once", &once)]),
            None => link("", &[]),
        }
    }

    /// Whether it answers requests for this path.
    #[must_use]
    pub fn has(path: &str) -> bool {
        path.strip_prefix(crate::PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Ends the streams of open pages, so that nothing waits for them.
    pub fn close(&self) {
        self.shared.closed.send_replace(true);
    }

    /// Answers a request for a path at or below [`PATH`](crate::PATH).
    pub async fn respond<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_head = request.method() == Method::HEAD;
        let mut answer = self.answer(request).await;
        for (name, value) in SAFE {
            let name = HeaderName::from_static(name);
            answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        if is_head { answer.map(|_body| whole("")) } else { answer }
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let now_ms = clock::now().as_millisecond();
        let ask = PageRequest::new(&self.shared, head.uri.path(), head.uri.query().unwrap_or_default(), now_ms);
        let guard = &self.shared.guard;
        if let Err(problem) = guard.check_host(&head.headers) {
            return text(StatusCode::FORBIDDEN, problem.sentence());
        }
        if let (Some((kind, text)), &Method::GET | &Method::HEAD) = (asset(ask.name()), &head.method) {
            return of_type(kind, text);
        }
        let is_let_in = guard.lets_in(&head.headers, now_ms);
        match head.method {
            Method::GET | Method::HEAD if !is_let_in => shown(&log_in_page(&ask, None), &ask),
            Method::GET | Method::HEAD if ask.name() == LOG_IN && ask.has_log_in() => see_other(&inside(&ask)),
            Method::GET if ask.name() == "live" => live::follow(&self.shared, &ask),
            Method::GET | Method::HEAD => {
                let page = pages::get(&ask).await.unwrap_or_else(|problem| Page::of(&problem));
                // A page is worth showing without the number.
                let asking = if page.lacks_badge() { self.shared.source.asking().await.ok() } else { None };
                shown(&asking.into_iter().fold(page, Page::badge), &ask)
            }
            Method::POST => match self.post(&ask, &head.headers, is_let_in, body).await {
                Ok(answer) => answer,
                Err(problem) => shown(&Page::of(&problem).once(), &ask),
            },
            _ => {
                let mut answer =
                    text(StatusCode::METHOD_NOT_ALLOWED, "The console is read with GET, and acts by POST.");
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
                answer
            }
        }
    }

    async fn post<B>(
        &self,
        ask: &PageRequest,
        headers: &HeaderMap,
        is_let_in: bool,
        body: B,
    ) -> Result<Response<Body>, Problem>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let guard = &self.shared.guard;
        guard.check_origin(headers)?;
        let is_log_in = ask.name() == LOG_IN;
        if !is_log_in && !is_let_in {
            return Err(Problem::forbidden("Log in first."));
        }
        let is_log_out = ask.name() == LOG_OUT;
        if !is_log_in && !is_log_out && self.shared.is_read_only {
            return Err(Problem::forbidden("Nothing was done: this console only shows. It was started read-only."));
        }
        let posted = Posted::of(body).await?;
        guard.check_token(&posted)?;
        match &guard.log_in {
            Some(_) if is_log_in && is_let_in => return Ok(see_other(&link("", &[]))),
            Some(log_in) if is_log_in => return self.log_in(log_in, ask, headers, &posted),
            Some(log_in) if is_log_out => {
                self.shared.acted("log out", None, Ok(()))?;
                return Ok(with_cookie(see_other(&link("", &[])), &log_in.end(headers)));
            }
            Some(_) | None => {}
        }
        Ok(match pages::post(ask, &posted).await? {
            Done::To(path) => see_other(&path),
            Done::Page(page) => shown(&page, ask),
        })
    }

    /// Begins a session, or shows the form again if the sign-in is refused.
    fn log_in(
        &self,
        log_in: &LogIn,
        ask: &PageRequest,
        headers: &HeaderMap,
        posted: &Posted,
    ) -> Result<Response<Body>, Problem> {
        let begun = log_in.begin(posted, headers, ask.now_ms).map_err(|error| Error::Unexpected(error.to_string()))?;
        if let Some(cookie) = begun {
            self.shared.acted("log in", None, Ok(()))?;
            return Ok(with_cookie(see_other(&link("", &[])), &cookie));
        }
        let why = "This is not the token, or the link was used before: a link works once.";
        drop(self.shared.acted::<()>("log in", None, Err(Problem::forbidden(why))));
        let page = log_in_page(ask, Some(why));
        Ok(shown(&page.status(StatusCode::FORBIDDEN), ask))
    }
}

/// The page for a user who opens the link for signing in, and is signed in already.
fn inside(ask: &PageRequest) -> String {
    let log_in = ask.shared().guard.log_in.as_ref();
    let is_used = ask.value("once").is_some_and(|once| log_in.is_some_and(|log_in| !log_in.is_unused(once)));
    if is_used { link("", &[("did", "used")]) } else { link("", &[]) }
}
