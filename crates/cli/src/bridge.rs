//! `longhaul bridge`: MCP over the standard input and output, for clients that start a process and can neither sign nor
//! log in. It passes their messages to a server over HTTP, and passes the answers back.

mod exchange;
mod message;
mod output;
mod tools;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use longhaul_client::{Line, Lines, Overlong, Raw, Target};
use longhaul_core::settings::BOM;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};

use crate::exit::{Exit, Stop};
use crate::out;
use message::{Kind, Message, Session};
use output::Output;
use tools::Tools;

/// The longest message that a client may write, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

/// So many messages are read ahead while one is delivered.
const AHEAD_MAX: usize = 64;

/// So many requests may wait for their answers at a time.
const REQUESTS_MAX: usize = 1_000;

/// How long the last answers may take after the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The JSON-RPC error of a line that is not a message.
const PARSE_ERROR: i64 = -32700;

/// The bridge between one client and one server.
struct Bridge {
    raw: Raw,
    output: Output,
    session: Session,
    tools: Tools,
    waiting: Mutex<HashMap<String, Waiting>>,
    /// Held while a session begins again.
    beginning: tokio::sync::Mutex<()>,
}

/// A request that is not answered yet.
struct Waiting {
    is_stream: bool,
    /// Its id at the server, if it was sent again.
    sent_as: Option<Value>,
    /// Ends it when it is dropped.
    _until: oneshot::Sender<()>,
}

/// The work of the bridge for the client.
enum Job {
    Request(Message, oneshot::Receiver<()>),
    Batch(Message),
    /// To pass on the messages that the server sends outside of answers.
    Listen,
}

/// Runs until the client closes its end.
pub(crate) async fn run(target: Target) -> Result<Exit, Stop> {
    let (output, written) = Output::new();
    let raw = Raw::new(target)?;
    let (session, tools, waiting) = (Session::default(), Tools::default(), Mutex::default());
    let bridge = Bridge { raw, output, session, tools, waiting, beginning: tokio::sync::Mutex::new(()) };
    // If nothing can be written any more, there is nothing left to do.
    let left = match select(Box::pin(bridge.serve(tokio::io::stdin())), Box::pin(written)).await {
        Either::Left(((), written)) => Either::Left(written),
        Either::Right((written, _served)) => Either::Right(std::future::ready(written)),
    };
    let ended = async move {
        bridge.raw.end_session(bridge.session.headers().0).await;
        // Writing ends with it.
        drop(bridge);
    };
    let ((), written) = futures::future::join(ended, left).await;
    written.map(|()| Exit::Well).map_err(|error| out::unwritten(&error))
}

impl Bridge {
    async fn serve(&self, input: impl AsyncRead + Unpin) {
        let (messages, to_take) = mpsc::channel(AHEAD_MAX);
        let mut worked = Box::pin(self.work_off(to_take));
        // Reading continues while a message is delivered, so that the end is noticed.
        if let Either::Left(_) = select(Box::pin(self.read(input, messages)), &mut worked).await {
            self.waiting().retain(|_id, request| !request.is_stream);
            drop(tokio::time::timeout(LAST_ANSWERS, worked).await);
        }
    }

    /// Does the client's work, until all of it is done after the last message.
    async fn work_off(&self, to_take: mpsc::Receiver<Message>) {
        let (jobs, mut to_do) = mpsc::unbounded_channel();
        let (mut running, mut listening) = (FuturesUnordered::new(), FuturesUnordered::new());
        let mut taking = Box::pin(self.take_all(to_take, jobs));
        let mut is_taking = true;
        while is_taking || !to_do.is_empty() || !running.is_empty() {
            tokio::select! {
                () = &mut taking, if is_taking => is_taking = false,
                Some(job) = to_do.recv() => match job {
                    Job::Request(message, cancelled) => running.push(Either::Left(self.request(message, cancelled))),
                    Job::Batch(message) => running.push(Either::Right(self.batch(message))),
                    Job::Listen => listening.push(self.listen()),
                },
                Some(()) = running.next() => {}
                Some(()) = listening.next() => {}
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, input: impl AsyncRead + Unpin, messages: mpsc::Sender<Message>) {
        // One byte more shows that a line is too long.
        let mut lines = Lines::new(input, LINE_BYTES_MAX + 1, Overlong::Cut);
        let mut is_first = true;
        while let Line::Text(mut line) = lines.next().await {
            if std::mem::take(&mut is_first) && line.starts_with(BOM) {
                line.drain(..BOM.len());
            }
            if line.len() > LINE_BYTES_MAX {
                let why = format!("the message has more than {} MiB", LINE_BYTES_MAX >> 20);
                self.output.error(&Value::Null, PARSE_ERROR, &why).await;
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Message::read(line) {
                Ok(message) => drop(messages.send(message).await),
                Err(why) => self.output.error(&Value::Null, PARSE_ERROR, &why).await,
            }
        }
    }

    async fn take_all(&self, mut to_take: mpsc::Receiver<Message>, jobs: mpsc::UnboundedSender<Job>) {
        while let Some(message) = to_take.recv().await {
            self.take(message, &jobs).await;
        }
    }

    /// A message without an answer is sent before the next message is read, so that it does not arrive after it. The
    /// same applies to `initialize`, whose answer the next one needs.
    async fn take(&self, message: Message, jobs: &mpsc::UnboundedSender<Job>) {
        let job = match message.kind() {
            Kind::Batch => Job::Batch(message),
            Kind::OneWay if message.method() == "notifications/cancelled" => return self.cancel(&message).await,
            Kind::OneWay => {
                let is_ready = message.method() == "notifications/initialized";
                self.deliver(&message).await;
                if !is_ready {
                    return;
                }
                Job::Listen
            }
            Kind::Request => match self.admit(&message) {
                Some(cancelled) if message.method() == "initialize" => return self.request(message, cancelled).await,
                Some(cancelled) => Job::Request(message, cancelled),
                None => {
                    let why = format!("more than {REQUESTS_MAX} requests wait for their answers, or this id does");
                    return self.output.error(message.id(), output::INTERNAL_ERROR, &why).await;
                }
            },
        };
        // Its other end is dropped after this one.
        drop(jobs.send(job));
    }

    /// Notes that a request waits; `None` if there are too many, or one has its id.
    fn admit(&self, message: &Message) -> Option<oneshot::Receiver<()>> {
        let mut waiting = self.waiting();
        let id = message.id().to_string();
        if waiting.len() >= REQUESTS_MAX || waiting.contains_key(&id) {
            return None;
        }
        let (until, cancelled) = oneshot::channel();
        let is_stream = message.method() == "subscriptions/listen";
        waiting.insert(id, Waiting { is_stream, sent_as: None, _until: until });
        Some(cancelled)
    }

    /// Ends a request as HTTP does it: the client no longer waits for the answer. A server with the handshake gets the
    /// notification.
    async fn cancel(&self, message: &Message) {
        let id = message.params()["requestId"].to_string();
        if self.session.began_with().is_some() {
            let sent_as = self.waiting().get(&id).and_then(|waiting| waiting.sent_as.clone());
            let renamed = sent_as.map(|id| message.cancelling(id));
            self.deliver(renamed.as_ref().unwrap_or(message)).await;
        }
        drop(self.waiting().remove(&id));
    }

    async fn request(&self, message: Message, cancelled: oneshot::Receiver<()>) {
        let id = message.id().to_string();
        if let Either::Left(_) = select(Box::pin(self.ask(&message)), cancelled).await {
            self.waiting().remove(&id);
        }
    }
}
