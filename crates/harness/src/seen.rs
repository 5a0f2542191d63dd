//! The views that callers have of other callers' tasks, over real HTTP. The checks are the same for the `local` binary
//! and for the deployed template.

use std::time::Duration;

use reqwest::Method;

use crate::protocol_versions::{Naming, REVISIONS, UNKNOWN, about_sessions, call, in_sessions, initialize, requests};

/// Longer than any answer takes. A stream about a task that its caller must not see would not end before.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's view of an answer, without the names of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The status of HTTP.
    pub status: u16,
    /// Names and values, sorted, without those that each answer has for itself.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub text: String,
}

/// A caller with a token, or without one.
pub struct Client {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    sends: fn(&Naming) -> bool,
}

impl Client {
    /// One that sends those of the requests that `sends` chooses.
    pub fn new(url: &str, token: Option<&str>, sends: fn(&Naming) -> bool) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        Self { http, url: url.to_owned(), token: token.map(str::to_owned), sends }
    }

    /// The requests that name this task.
    fn about(&self, task: &str) -> Vec<Naming> {
        requests(task).into_iter().filter(self.sends).collect()
    }

    /// The requests that name a session.
    fn in_sessions(&self) -> Vec<Naming> {
        in_sessions().into_iter().chain(about_sessions()).filter(self.sends).collect()
    }

    /// Sends the request, in one of these sessions if its revision has them.
    pub async fn see(&self, naming: &Naming, sessions: &[String], named: &str) -> Seen {
        let method = Method::from_bytes(naming.http_method.as_bytes()).unwrap();
        let mut request = self.http.request(method, &self.url);
        request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        for (name, value) in naming.headers(sessions) {
            request = request.header(name, value);
        }
        request = naming.body.iter().fold(request, |request, body| request.body(body.to_string()));
        let answer = request.send().await.unwrap_or_else(|error| panic!("{}: {error}", naming.name()));
        let status = answer.status().as_u16();
        // Each answer has its own.
        let is_own = |name: &str| ["date", "content-length"].contains(&name) || name.starts_with("x-amz");
        let headers = answer.headers().iter().filter(|(name, _)| !is_own(name.as_str()));
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        headers.sort();
        let text = answer.text().await.unwrap_or_else(|error| panic!("{}: {error}", naming.name()));
        Seen { status, headers, text: text.replace(named, "<named>") }
    }

    /// Begins a session of each revision.
    pub async fn sessions(&self) -> Vec<String> {
        let mut sessions = Vec::new();
        for revision in REVISIONS {
            let seen = self.see(&initialize(revision), &[], "<nothing>").await;
            let session = seen.headers.iter().find(|(name, _)| name == "mcp-session-id");
            sessions.push(session.unwrap_or_else(|| panic!("{seen:?}")).1.clone());
        }
        sessions
    }

    /// Begins a task that takes long.
    pub async fn begin(&self) -> String {
        let arguments = serde_json::json!({"seconds": 600, "steps": 600});
        let seen = self.see(&call("countdown", arguments), &[], "<nothing>").await;
        let id = crate::caller::json_of(&seen.text)["result"]["taskId"].as_str().map(str::to_owned);
        id.unwrap_or_else(|| panic!("{seen:?}"))
    }

    async fn differ(&self, sessions: &[String], task: &str) -> Vec<(Naming, bool)> {
        let mut all = Vec::new();
        for (named, unknown) in self.about(task).into_iter().zip(self.about(UNKNOWN)) {
            let of_unknown = self.see(&unknown, sessions, UNKNOWN).await;
            let of_task = self.see(&named, sessions, task).await;
            all.push((named, of_unknown != of_task));
        }
        all
    }
}

/// To this caller, tasks and sessions of other callers look the same as ones that never existed, in any protocol
/// version.
pub async fn assert_sees_nothing(who: &str, client: &Client, task: &str, sessions: &[String]) {
    let own = client.sessions().await;
    let differ = client.differ(&own, task).await;
    let differ: Vec<_> = differ.iter().filter(|(_, differs)| *differs).map(|(naming, _)| naming.name()).collect();
    assert!(differ.is_empty(), "{who}: {differ:?}");
    let unknown: Vec<_> = sessions.iter().map(|session| tampered(session)).collect();
    for naming in client.in_sessions() {
        let foreign = client.see(&naming, sessions, "<nothing>").await;
        assert_eq!(foreign, client.see(&naming, &unknown, "<nothing>").await, "{who}: {}", naming.name());
        let expected = if naming.body.is_some() { 404 } else { foreign.status };
        assert_eq!(foreign.status, expected, "{who}: {}", naming.name());
    }
}

/// To its owner it is different in every request that can tell. It ends by that.
pub async fn assert_sees_its_own(client: &Client, task: &str) {
    let sessions = client.sessions().await;
    for (naming, differs) in client.differ(&sessions, task).await {
        assert_eq!(differs, naming.tells_owner, "{}", naming.name());
    }
}

/// This caller gets the same answer to every request, whether or not it names an existing task.
pub async fn assert_is_denied(who: &str, client: &Client, task: &str, sessions: &[String]) {
    let mut all = client.about(task);
    all.extend(client.about(UNKNOWN));
    all.extend(client.in_sessions());
    all.extend(REVISIONS.map(initialize));
    let mut first = None;
    for naming in &all {
        let seen = client.see(naming, sessions, "<nothing>").await;
        let first = first.get_or_insert_with(|| seen.clone());
        assert_eq!((seen.status, &seen), (401, &*first), "{who}: {}", naming.name());
    }
}

/// The same value with one character changed: as long, and without a valid signature.
fn tampered(signed: &str) -> String {
    let (at, last) = signed.char_indices().rev().nth(4).unwrap();
    let other = if last == 'A' { 'B' } else { 'A' };
    format!("{}{other}{}", &signed[..at], &signed[at + 1..])
}
