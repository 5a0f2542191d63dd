//! The tasks of a server, read as its client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use longhaul_client::{Call, Called, Client, Error, Nobody, Question, Status, Target, Task, TaskFilter, Tool};
use serde_json::{Map, Value};
use url::Url;

use super::{Filter, Listed, Row, Source};
use crate::clock;

/// So many tasks are read for a list. Every open page polls again and again, and a deployed stack pays for its reads.
const NEWEST: usize = 500;

/// The tools of so many tasks are remembered.
const TOOLS_MAX: usize = 10_000;

/// The tools of so many tasks are asked for when a list is read, if it does not tell them.
const ASKED_MAX: usize = 50;

/// So many of them at a time.
const ASKED_AT_A_TIME: usize = 4;

/// The tasks of a server, read as its client.
#[derive(Clone)]
pub struct Remote {
    target: Target,
    /// Without secrets.
    url: String,
    known: Arc<Known>,
    /// The owner whose tasks an operator wants; `None` for the caller's own.
    owner: Option<String>,
}

#[derive(Default)]
struct Known {
    /// Not held while a request is under way, nor while connecting: others would wait for it one after the other.
    client: Mutex<Option<Arc<Client>>>,
    /// The tools of tasks by id; `None` if the server does not tell.
    tools: Mutex<HashMap<String, Option<String>>>,
}

impl Remote {
    /// The source for a server, which does not have to be available yet.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let url = without_secrets(&target.url);
        Self { target, url, known: Arc::default(), owner: None }
    }

    /// The source for the server that listens at this address of this machine.
    pub fn at(address: SocketAddr) -> std::io::Result<Self> {
        let url = Url::parse(&format!("http://{address}/mcp")).map_err(std::io::Error::other)?;
        Ok(Self::new(Target::new(url)))
    }

    /// Ends the session that this may have begun with the server.
    pub async fn close(&self) {
        let client = self.lock_client().take();
        if let Some(client) = client {
            client.close().await;
        }
    }

    fn lock_client(&self) -> MutexGuard<'_, Option<Arc<Client>>> {
        self.known.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client for the owner whose tasks are wanted.
    async fn client(&self) -> Result<Arc<Client>, Error> {
        let client = self.connected().await?;
        Ok(self.owner.as_ref().map_or_else(|| Arc::clone(&client), |owner| Arc::new(client.of_owner(owner))))
    }

    async fn connected(&self) -> Result<Arc<Client>, Error> {
        if let Some(client) = &*self.lock_client() {
            return Ok(Arc::clone(client));
        }
        let connected = Arc::new(Client::connect(self.target.clone(), None).await?);
        // All other calls use the session of the call that connected first.
        let used = Arc::clone(self.lock_client().get_or_insert_with(|| Arc::clone(&connected)));
        if !Arc::ptr_eq(&used, &connected) {
            connected.close().await;
        }
        Ok(used)
    }

    /// The outcome of a request. If the server could not be reached, the next request begins again: what answers then
    /// may be another server.
    fn seen<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Unreachable(_) | Error::SessionGone) = &done {
            *self.lock_client() = None;
        }
        done
    }

    /// The newest tasks that a filter takes, and where the older ones begin.
    async fn rows(&self, filter: &TaskFilter) -> Result<(Vec<Row>, Option<String>), Error> {
        let listed = self.seen(self.client().await?.list(filter, NEWEST).await)?;
        let (mut tasks, older) = (listed.tasks, listed.next);
        tasks.truncate(NEWEST);
        for task in &tasks {
            if let Some(tool) = task.raw.get("tool").and_then(Value::as_str) {
                self.remember(&task.id, Some(tool.to_owned()));
            }
        }
        self.ask_for_tools(&tasks).await;
        Ok((tasks.into_iter().map(|task| Row { tool: self.tool_of(&task.id).flatten(), task }).collect(), older))
    }

    fn tool_of(&self, id: &str) -> Option<Option<String>> {
        self.known.tools.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn remember(&self, id: &str, tool: Option<String>) {
        let mut tools = self.known.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.len() >= TOOLS_MAX {
            tools.clear();
        }
        tools.insert(id.to_owned(), tool);
    }

    /// Asks for the tools of those tasks among the first ones that are not known yet.
    async fn ask_for_tools(&self, tasks: &[Task]) {
        let mut asked = Vec::new();
        for task in tasks.iter().filter(|task| self.tool_of(&task.id).is_none()).take(ASKED_MAX) {
            asked.push(self.ask_for_tool(task.id.clone()));
        }
        stream::iter(asked).buffer_unordered(ASKED_AT_A_TIME).for_each(|()| async {}).await;
    }

    async fn ask_for_tool(&self, id: String) {
        match self.called(&id).await {
            Ok(_known_now) => {}
            Err(Error::Unsupported(_) | Error::Refused(_)) => self.remember(&id, None),
            // It is asked again with the next list.
            Err(_) => {}
        }
    }
}

#[async_trait]
impl Source for Remote {
    fn url(&self) -> &str {
        &self.url
    }

    fn of_owner(&self, owner: &str) -> Arc<dyn Source> {
        Arc::new(Self { owner: Some(owner.to_owned()), ..self.clone() })
    }

    async fn is_operator(&self) -> Result<bool, Error> {
        Ok(self.seen(self.connected().await)?.is_operator())
    }

    async fn asking(&self) -> Result<usize, Error> {
        let asks = TaskFilter { statuses: vec![Status::InputRequired], ..TaskFilter::default() };
        Ok(self.seen(self.connected().await?.list(&asks, 1).await)?.tasks.len())
    }

    async fn tasks(&self, filter: &Filter) -> Result<Listed, Error> {
        let now_ms = clock::now().as_millisecond();
        let wanted = TaskFilter {
            statuses: filter.status.into_iter().collect(),
            tool: filter.tool.clone(),
            labels: filter.label.clone().into_iter().collect(),
            cursor: filter.before.clone(),
        };
        let first = if wanted.cursor.is_some() { &wanted } else { &TaskFilter::default() };
        let (newest, mut older) = self.rows(first).await?;
        let is_cut = newest.len() >= NEWEST;
        let mut listed = Listed::filtered(newest, filter, now_ms);
        if is_cut && *first != wanted {
            let rows;
            (rows, older) = self.rows(&wanted).await?;
            listed.rows = Listed::filtered(rows, filter, now_ms).rows;
        }
        Ok(Listed { newest: is_cut.then_some(NEWEST), older, ..listed })
    }

    async fn task(&self, id: &str) -> Result<Task, Error> {
        self.seen(self.client().await?.task(id).await)
    }

    async fn inspect(&self, id: &str) -> Result<Value, Error> {
        let shown = self.seen(self.client().await?.inspect(id).await)?;
        self.remember(id, shown["tool"].as_str().map(str::to_owned));
        Ok(shown)
    }

    async fn record(&self, id: &str) -> Result<Value, Error> {
        self.seen(self.client().await?.record(id).await)
    }

    async fn called(&self, id: &str) -> Result<(String, Map<String, Value>), Error> {
        let (tool, arguments) = self.seen(self.client().await?.called(id).await)?;
        self.remember(id, Some(tool.clone()));
        Ok((tool, arguments))
    }

    async fn tools(&self) -> Result<Vec<Tool>, Error> {
        self.seen(self.client().await?.tools().await)
    }

    async fn call(&self, call: &Call) -> Result<Called, Error> {
        let client = self.client().await?;
        // A server without idempotency keys would run a repeated call twice.
        let call = Call { key: call.key.clone().filter(|_| client.takes_keys()), ..call.clone() };
        let called = self.seen(client.call(&call, &mut Nobody).await)?;
        if let Called::Task(task) = &called {
            self.remember(&task.id, Some(call.tool.clone()));
        }
        Ok(called)
    }

    async fn answer(&self, id: &str, question: &Question, answer: Value) -> Result<(), Error> {
        self.seen(self.client().await?.answer(id, question, answer).await)
    }

    async fn resume(&self, id: &str, from: Option<&str>, key: Option<&str>) -> Result<Task, Error> {
        let client = self.client().await?;
        self.seen(client.resume_task(id, from, key.filter(|_| client.takes_keys())).await)
    }

    async fn cancel(&self, id: &str) -> Result<(), Error> {
        self.seen(self.client().await?.cancel(id).await)
    }
}

/// The URL of a server, without its user, password and query.
fn without_secrets(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}
