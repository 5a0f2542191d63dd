//! Jobs of any system that has requests over HTTP to start, show and stop one.

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;

use crate::jobs::job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started};
use crate::jobs::output;
use crate::jobs::template::{Known, Place, Template, in_url};
use crate::jobs::web::{Answer, Web};

/// A request as a configuration has it.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    method: Method,
    url: Template,
    headers: Vec<(HeaderName, Template)>,
    /// JSON, with placeholders in its strings.
    body: Option<Value>,
}

/// Which request a placeholder is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// It starts a job: `{key}` and `{input}` are known.
    Start,
    /// It searches for a job of which only `{key}` is known.
    Find,
    /// It is about a job that was started: `{id}` is known.
    OfJob,
}

impl RequestKind {
    fn knows(self, place: &Place) -> bool {
        match (self, place) {
            (Self::Start, Place::Key | Place::Input(_)) | (Self::Find, Place::Key) | (Self::OfJob, Place::Id) => true,
            (Self::Start, Place::Id) | (Self::Find, Place::Id | Place::Input(_)) => false,
            (Self::OfJob, Place::Key | Place::Input(_)) => false,
        }
    }

    fn names(self) -> &'static str {
        match self {
            Self::Start => "{key}, {input} and {input/name}",
            Self::Find => "{key}",
            Self::OfJob => "{id}",
        }
    }
}

impl HttpRequest {
    /// A request with this URL, which may have placeholders after the host.
    pub fn new(kind: RequestKind, method: Method, url: &str) -> Result<Self, String> {
        let template = template(kind, url)?;
        // Placeholders cannot choose the host: what is before the first is a whole origin.
        let beginning = template.beginning();
        let origin_ends = beginning.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        let parsed = match template.places().next() {
            None => Url::parse(url),
            Some(_) if origin_ends => Url::parse(beginning),
            Some(_) => return Err("has a placeholder before the path: write the host itself".to_owned()),
        };
        match parsed {
            Ok(url) if ["http", "https"].contains(&url.scheme()) && url.has_host() => {
                Ok(Self { method, url: template, headers: Vec::new(), body: None })
            }
            Ok(_) => Err("must begin with https:// or http://".to_owned()),
            Err(error) => Err(format!("is not a URL: {error}")),
        }
    }

    /// The same with another header, which may have placeholders.
    pub fn header(mut self, kind: RequestKind, name: &str, value: &str) -> Result<Self, String> {
        let parsed = name.parse::<HeaderName>().map_err(|_wrong| "cannot be the name of a header".to_owned())?;
        if HeaderValue::from_str(value).is_err() {
            return Err("cannot be sent as a header".to_owned());
        }
        self.headers.push((parsed, template(kind, value)?));
        Ok(self)
    }

    /// The same with a JSON body, whose strings may have placeholders.
    pub fn body(self, kind: RequestKind, body: Value) -> Result<Self, String> {
        check_texts(kind, &body)?;
        Ok(Self { body: Some(body), ..self })
    }

    fn build(&self, known: Known<'_>) -> Result<reqwest::Request, JobError> {
        let url = self.url.text(known, in_url)?;
        if leads_elsewhere(&url) {
            return Err(JobError::Refused("the arguments make `.` or `..` of a part of the URL".to_owned()));
        }
        let url = Url::parse(&url).map_err(|error| JobError::Refused(format!("the URL cannot be used: {error}")))?;
        let mut request = reqwest::Request::new(self.method.clone(), url);
        let headers = request.headers_mut();
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
        if self.body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in &self.headers {
            let text = value.text(known, |value| Ok(value.to_owned()))?;
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_wrong| JobError::Refused(format!("an argument cannot be sent in the header `{name}`")))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if let Some(body) = &self.body {
            *request.body_mut() = Some(filled(body, known)?.to_string().into());
        }
        Ok(request)
    }
}

/// Whether a part of the path is `.` or `..`, which a URL resolves.
fn leads_elsewhere(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).any(|part| [".", ".."].contains(&part.to_ascii_lowercase().replace("%2e", ".").as_str()))
}

impl std::fmt::Debug for HttpRequest {
    /// Without headers, query and body, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

fn template(kind: RequestKind, text: &str) -> Result<Template, String> {
    let template = Template::parse(text)?;
    if template.places().all(|place| kind.knows(place)) {
        return Ok(template);
    }
    Err(format!("has a placeholder that is not known in this request; there are: {}", kind.names()))
}

fn check_texts(kind: RequestKind, value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => template(kind, text).map(drop),
        Value::Array(all) => all.iter().try_for_each(|value| check_texts(kind, value)),
        Value::Object(all) => all.values().try_for_each(|value| check_texts(kind, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn filled(value: &Value, known: Known<'_>) -> Result<Value, JobError> {
    Ok(match value {
        Value::String(text) => Template::parse(text).map_err(JobError::Refused)?.value(known)?,
        Value::Array(all) => Value::Array(all.iter().map(|value| filled(value, known)).collect::<Result<_, _>>()?),
        Value::Object(all) => {
            let filled = all.iter().map(|(name, value)| Ok((name.clone(), filled(value, known)?)));
            Value::Object(filled.collect::<Result<Map<_, _>, JobError>>()?)
        }
        other => other.clone(),
    })
}

/// Where the result of a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpResult {
    /// At this JSON pointer in the last answer about its state; empty for the whole answer.
    At(String),
    /// In the answer to another request.
    Of(HttpRequest),
}

/// How jobs of one kind are started, polled and stopped. Places in answers are JSON pointers (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpJobSpec {
    /// Starts a job, and is answered with its id.
    pub start: HttpRequest,
    /// Whether a second start with the same `{key}` is the same job.
    pub again: Again,
    /// Is answered with the id of the job of a `{key}`, or with 404.
    pub find: Option<HttpRequest>,
    /// Is answered with its state.
    pub status: HttpRequest,
    /// Stops it.
    pub stop: Option<HttpRequest>,
    /// Where the result is.
    pub result: HttpResult,
    /// Where the id is in the answers of `start` and `find`.
    pub id: String,
    /// Where the state is in the answer of `status`.
    pub state: String,
    /// The states in which it is done.
    pub done: Vec<String>,
    /// The states in which it has failed.
    pub failed: Vec<String>,
    /// Where the answer says why it has failed.
    pub error: Option<String>,
    /// Where the answer says how much is done, how much there is to do, and the same in words.
    pub progress: [Option<String>; 3],
}

/// Jobs over HTTP.
#[derive(Debug)]
pub struct HttpJob {
    spec: HttpJobSpec,
    web: Web,
}

impl HttpJob {
    /// Jobs with these requests.
    #[must_use]
    pub fn new(spec: HttpJobSpec) -> Self {
        Self { spec, web: Web::default() }
    }

    async fn of_job(&self, request: &HttpRequest, job: &JobRef) -> Result<Answer, JobError> {
        let known = Known { id: Some(job.as_str()), ..Known::default() };
        self.web.send(request.build(known)?).await
    }

    fn id_in(&self, answer: &Answer) -> Option<JobRef> {
        let id = json_of(answer)?.pointer(&self.spec.id).map(in_words)?;
        (!id.is_empty()).then(|| JobRef::new(id))
    }

    /// The error for a start whose answer has no id. `find` may find the job.
    fn without_id(&self) -> JobError {
        let why = format!("the job was started, but the answer has no id at {}", self.spec.id);
        if self.can_find() { JobError::Unanswered(why) } else { JobError::Refused(why) }
    }

    async fn result(&self, job: &JobRef, status: &Value) -> Result<Poll, JobError> {
        let result = match &self.spec.result {
            HttpResult::At(pointer) => match status.pointer(pointer) {
                Some(output) => output::succeeded(output),
                None => {
                    let words = format!("the job is done, but the answer has no result at {pointer}");
                    output::failed(&words, json!({"job": job}))
                }
            },
            HttpResult::Of(request) => {
                let answer = self.of_job(request, job).await?;
                match &answer.body {
                    None => output::too_large(job, None),
                    Some(_) if !answer.status.is_success() => return Err(not_seen(job, &answer)),
                    Some(body) => output::succeeded(&json_of(&answer).unwrap_or_else(|| lossy(body))),
                }
            }
        };
        Ok(Poll::Done(Ok(result)))
    }

    fn failure(&self, job: &JobRef, state: &str, status: &Value) -> Poll {
        let why = self.spec.error.as_ref().and_then(|pointer| status.pointer(pointer)).map(in_words);
        let words = match &why {
            Some(why) => format!("the job failed ({state}): {why}"),
            None => format!("the job failed ({state})"),
        };
        let what = json!({"job": job, "state": state, "error": why, "answer": status});
        Poll::Done(Ok(output::failed(&words, what)))
    }

    fn progress(&self, status: &Value) -> Option<JobProgress> {
        let [done, total, message] = &self.spec.progress;
        let find = |pointer: &Option<String>| pointer.as_ref().and_then(|pointer| status.pointer(pointer));
        let message = find(message).map(in_words);
        let done = find(done).and_then(Value::as_f64);
        (done.is_some() || message.is_some()).then(|| JobProgress {
            done: done.unwrap_or_default(),
            total: find(total).and_then(Value::as_f64),
            message: message.unwrap_or_default(),
        })
    }
}

#[async_trait]
impl ExternalJob for HttpJob {
    async fn start(&self, start: &Start<'_>) -> Result<Started, JobError> {
        let known = Known { key: Some(start.key().as_str()), input: Some(start.input()), id: None };
        let request = self.spec.start.build(known)?;
        start.mark().await?;
        let answer = self.web.send(request).await?;
        match answer.status {
            status if status.is_success() => match self.id_in(&answer) {
                Some(job) => Ok(Started::Job(job)),
                None => Err(self.without_id()),
            },
            StatusCode::TOO_MANY_REQUESTS | StatusCode::TOO_EARLY => Err(JobError::NotNow(said(&answer))),
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                Err(JobError::Unanswered(said(&answer)))
            }
            _ => Err(JobError::Refused(format!("the job was not started: {}", said(&answer)))),
        }
    }

    fn again(&self) -> Again {
        self.spec.again
    }

    async fn find(&self, key: &JobKey, _input: &Value) -> Result<Option<JobRef>, JobError> {
        let Some(find) = &self.spec.find else { return Ok(None) };
        let known = Known { key: Some(key.as_str()), ..Known::default() };
        let answer = self.web.send(find.build(known)?).await?;
        match answer.status {
            status if status.is_success() => Ok(self.id_in(&answer)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(JobError::Unanswered(said(&answer))),
        }
    }

    fn can_find(&self) -> bool {
        self.spec.find.is_some()
    }

    async fn poll(&self, job: &JobRef) -> Result<Poll, JobError> {
        let answer = self.of_job(&self.spec.status, job).await?;
        if !answer.status.is_success() {
            return Err(not_seen(job, &answer));
        }
        if answer.body.is_none() {
            return Ok(Poll::Done(Ok(output::too_large(job, None))));
        }
        let Some(status) = json_of(&answer) else {
            return Err(JobError::Unanswered("the answer about the job is not JSON".to_owned()));
        };
        let Some(state) = status.pointer(&self.spec.state).map(in_words) else {
            let pointer = &self.spec.state;
            return Err(JobError::Refused(format!("the answer about the job has no state at {pointer}")));
        };
        if self.spec.failed.contains(&state) {
            return Ok(self.failure(job, &state, &status));
        }
        if self.spec.done.contains(&state) {
            return self.result(job, &status).await;
        }
        Ok(Poll::Going(self.progress(&status)))
    }

    async fn stop(&self, job: &JobRef, _why: &str) -> Result<(), JobError> {
        let Some(stop) = &self.spec.stop else { return Ok(()) };
        let answer = self.of_job(stop, job).await?;
        match answer.status {
            status if status.is_success() => Ok(()),
            // There is nothing to stop any more.
            StatusCode::CONFLICT | StatusCode::GONE => Ok(()),
            StatusCode::NOT_FOUND => Err(JobError::NotFound(said(&answer))),
            _ => Err(JobError::Unanswered(said(&answer))),
        }
    }
}

fn json_of(answer: &Answer) -> Option<Value> {
    serde_json::from_slice(answer.body.as_ref()?).ok()
}

fn lossy(body: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(body).into_owned())
}

/// A state, an id or a message as a text.
fn in_words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The error that a system answered with, for people.
fn said(answer: &Answer) -> String {
    let body = answer.body.as_ref().map(|body| String::from_utf8_lossy(body).trim().to_owned()).unwrap_or_default();
    match body.is_empty() {
        true => format!("HTTP status {}", answer.status.as_u16()),
        false => format!("HTTP status {}: {}", answer.status.as_u16(), output::cut(&body)),
    }
}

/// Why a poll has no result.
fn not_seen(job: &JobRef, answer: &Answer) -> JobError {
    let unknown = || format!("the system does not know the job {job} any more: {}", said(answer));
    match answer.status {
        StatusCode::NOT_FOUND => JobError::NotFound(unknown()),
        StatusCode::GONE => JobError::Refused(unknown()),
        // A refusal now, such as that of a token that has expired, may be lifted later, and the job continues
        // meanwhile.
        _ => JobError::Unanswered(said(answer)),
    }
}
