//! Clients that call tools, lose their connection, come back, and remember the answers that they got.

use std::time::{Duration, Instant};

use longhaul_client::{Call, Called, Client, Error, Nobody, Refusal, Status, Target, form};
use serde_json::{Map, Value};

use crate::dice::Dice;
use crate::faults::{Form, Keys};
use crate::kinds::Kind;
use crate::stage::Stage;

/// How long a task may take to end once nothing goes wrong any more, and how long a call may take to be accepted.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long to wait before a request is sent again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a client waits for an answer: longer than anything stands still.
const REQUEST_MAX: Duration = Duration::from_secs(45);

/// The same for the value of a callback.
const CALLBACK_MAX: Duration = Duration::from_secs(10);

/// The answers to a value that is recorded, or that comes too late.
const BROUGHT: [u16; 3] = [202, 409, 410];

/// The longest pause between two polls.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How a task ended, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// The result, or the error's text.
    pub(crate) value: Value,
}

/// A client's view of one task.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The task, unless the call was answered at once.
    pub(crate) id: Option<String>,
    /// When the call was sent first.
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) end: Result<End, String>,
}

/// One client after the other calls something, until `until`.
pub(crate) async fn visit_until(stage: &Stage, form: Form, seed: u64, client: u64, until: Instant) -> Vec<Visit> {
    let mut dice = Dice::new(seed, 1_000 + client);
    let mut visits = Vec::new();
    while Instant::now() < until {
        let kind = Kind::roll(form, &mut dice);
        let name = format!("{client}-{}", visits.len());
        visits.push(Visitor { stage, form, dice: &mut dice, client: None, brought: 0 }.visit(kind, name).await);
    }
    visits
}

/// The present end of a task that had ended before.
pub(crate) async fn look_again(stage: &Stage, form: Form, id: &str) -> Result<Option<End>, String> {
    let mut dice = Dice::new(0, 0);
    let mut visitor = Visitor { stage, form, dice: &mut dice, client: None, brought: 0 };
    let task = visitor.again("is polled again", async |client| client.task(id).await).await?;
    Ok(end_of(&task))
}

/// Waits until a task has ended that no client has followed.
pub(crate) async fn look_until_ended(stage: &Stage, form: Form, id: &str) -> Result<End, String> {
    let begun = Instant::now();
    loop {
        if let Some(end) = look_again(stage, form, id).await? {
            return Ok(end);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("has not ended after {PATIENCE:?}"));
        }
        tokio::time::sleep(LOOK_MAX).await;
    }
}

struct Visitor<'a> {
    stage: &'a Stage,
    form: Form,
    dice: &'a mut Dice,
    client: Option<Client>,
    /// How many of the callback's tokens were used.
    brought: usize,
}

impl Visitor<'_> {
    async fn visit(&mut self, kind: Kind, name: String) -> Visit {
        let begun = Instant::now();
        let key = (self.form.keys() == Keys::Taken).then(|| name.clone());
        let call = Call { key, ..kind.call(&name) };
        let called = self.again("is accepted", async |client| client.call(&call, &mut Nobody).await).await;
        let (id, end) = match called {
            Ok(Called::Result(value)) => (None, Ok(End { status: Status::Completed, value })),
            Ok(Called::Task(task)) => (Some(task.id.clone()), self.follow(kind, &name, &task.id).await),
            Ok(Called::Unanswered(question)) => (None, Err(format!("is asked {question:?} instead of an answer"))),
            // The error of a tool that answered at once.
            Err(error) => match error.strip_prefix(REFUSED) {
                Some(text) => (None, Ok(End { status: Status::Failed, value: text.into() })),
                None => (None, Err(error)),
            },
        };
        let ended = Instant::now();
        if let Some(client) = self.client.take() {
            client.close().await;
        }
        Visit { name, kind, id, begun, ended, end }
    }

    async fn follow(&mut self, kind: Kind, name: &str, id: &str) -> Result<End, String> {
        if let Some(after_ms) = kind.cancelled_after_ms() {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            self.again("is cancelled", async |client| client.cancel(id).await).await?;
        }
        let begun = Instant::now();
        loop {
            let task = self.again("is polled", async |client| client.task(id).await).await?;
            if let Some(end) = end_of(&task) {
                return Ok(end);
            }
            if let Some(question) = task.questions.first() {
                let answer = form::accept(Map::from_iter([("answer".to_owned(), name.into())]));
                self.again("is answered", async |client| client.answer(id, question, answer.clone()).await).await?;
            }
            if kind == Kind::Callback {
                self.bring(name).await;
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("has not ended after {PATIENCE:?}: {:?} {:?}", task.status, task.message));
            }
            tokio::time::sleep(LOOK_MAX.min(Duration::from_millis(task.interval_ms.unwrap_or(1_000)))).await;
        }
    }

    /// Sends a value with the next token that was handed out, if there is one. It stays the next one until that worked.
    async fn bring(&mut self, name: &str) {
        let tokens = self.stage.noted(&format!("{name}.token"));
        let Some(token) = tokens.get(self.brought) else { return };
        let server = self.dice.index(self.form.servers());
        let Ok(url) = self.stage.url(server).and_then(|url| Ok(url.join(&format!("callbacks/{token}"))?)) else {
            return;
        };
        let request = reqwest::Client::new().post(url).header("content-type", "application/json");
        let sent = request.body(Value::from(name).to_string()).timeout(CALLBACK_MAX).send().await;
        if sent.is_ok_and(|answer| BROUGHT.contains(&answer.status().as_u16())) {
            self.brought += 1;
        }
    }

    /// Sends a request until it is answered, to any of the servers.
    async fn again<T>(&mut self, what: &str, request: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, String> {
        let begun = Instant::now();
        loop {
            let tried = tokio::time::timeout(REQUEST_MAX, self.connected_and(&request)).await;
            let error = match tried {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => Error::Lost(format!("there is none after {REQUEST_MAX:?}")),
            };
            self.client = None;
            match error {
                Error::Refused(refusal) if !is_passing(&refusal) => {
                    return Err(format!("{REFUSED}{}", refusal.message));
                }
                error if begun.elapsed() > PATIENCE => return Err(format!("{what} not for {PATIENCE:?}: {error}")),
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn connected_and<T>(&mut self, request: &impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, Error> {
        request(self.connected().await?).await
    }

    async fn connected(&mut self) -> Result<&Client, Error> {
        if self.client.is_none() {
            let server = self.dice.index(self.form.servers());
            let url = self.stage.url(server).map_err(|error| Error::Unexpected(error.to_string()))?;
            self.client = Some(Client::connect(Target::new(url), None).await?);
        }
        self.client.as_ref().ok_or_else(|| Error::Unexpected("there is no client".to_owned()))
    }
}

/// The gateway's message about a call that it does not make again.
pub(crate) const NOT_REPEATED: &str = "was not repeated";

/// A tool's message about a job that it does not start again.
pub(crate) const NOT_STARTED_AGAIN: &str = "it was not started again";

const REFUSED: &str = "is refused: ";

/// Whether the server could not do it now: an internal error, unless it is how a tool has ended.
fn is_passing(refusal: &Refusal) -> bool {
    let says = |words| refusal.message.contains(words);
    refusal.code == -32_603 && !says(NOT_REPEATED) && !says(NOT_STARTED_AGAIN)
}

fn end_of(task: &longhaul_client::Task) -> Option<End> {
    let value = match &task.end {
        Some(Ok(value)) => value.clone(),
        Some(Err(refusal)) => refusal.message.clone().into(),
        None => Value::Null,
    };
    task.status.is_end().then_some(End { status: task.status, value })
}
