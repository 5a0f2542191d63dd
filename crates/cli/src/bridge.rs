//! `longhaul bridge`: MCP over the standard input and output, for clients that start a process and can neither sign nor
//! log in; what they say passes through to a server over HTTP, and back.

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
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};

use crate::exit::{Exit, Stop};
use message::{Kind, Message, Session};
use output::Output;
use tools::Tools;

/// The longest message that a client may write, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

/// So many requests may wait for their answers at a time.
const REQUESTS_MAX: usize = 1_000;

/// How long the last answers may take after the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The JSON-RPC error of a line that is no message.
const PARSE_ERROR: i64 = -32700;

/// Between one client and one server.
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
    /// Ends it when it is dropped.
    _until: oneshot::Sender<()>,
}

/// What the bridge has to do for the client.
enum Job {
    Request(Message, oneshot::Receiver<()>),
    Batch(Message),
    /// To pass on what the server says of itself.
    Listen,
}

/// Runs until the client closes its end.
pub(crate) async fn run(target: Target) -> Result<Exit, Stop> {
    let (output, written) = Output::new();
    let raw = Raw::new(target)?;
    let (session, tools, waiting) = (Session::default(), Tools::default(), Mutex::default());
    let bridge = Bridge { raw, output, session, tools, waiting, beginning: tokio::sync::Mutex::new(()) };
    let served = async move {
        bridge.serve(tokio::io::stdin()).await;
        bridge.raw.end_session(bridge.session.headers().0).await;
    };
    // If nobody reads what is written, there is nothing left to do.
    if let Either::Left(((), written)) = select(Box::pin(served), Box::pin(written)).await {
        written.await;
    }
    Ok(Exit::Well)
}

impl Bridge {
    async fn serve(&self, input: impl AsyncRead + Unpin) {
        let (jobs, mut to_do) = mpsc::unbounded_channel();
        let mut running = FuturesUnordered::new();
        let mut reading = Box::pin(self.read(input, jobs));
        loop {
            tokio::select! {
                () = &mut reading => break,
                Some(job) = to_do.recv() => running.push(self.work(job)),
                Some(()) = running.next() => {}
            }
        }
        while let Ok(job) = to_do.try_recv() {
            running.push(self.work(job));
        }
        self.waiting().retain(|_id, request| !request.is_stream);
        let last = async { while !self.waiting().is_empty() && running.next().await.is_some() {} };
        drop(tokio::time::timeout(LAST_ANSWERS, last).await);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, input: impl AsyncRead + Unpin, jobs: mpsc::UnboundedSender<Job>) {
        // One byte more shows that a line is too long.
        let mut lines = Lines::new(input, LINE_BYTES_MAX + 1, Overlong::Cut);
        while let Line::Text(line) = lines.next().await {
            if line.len() > LINE_BYTES_MAX {
                let why = format!("the message has more than {} MiB", LINE_BYTES_MAX >> 20);
                self.output.error(&Value::Null, PARSE_ERROR, &why).await;
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Message::read(line) {
                Ok(message) => self.take(message, &jobs).await,
                Err(why) => self.output.error(&Value::Null, PARSE_ERROR, &why).await,
            }
        }
    }

    /// What is not answered is sent before the next message is read, so that it does not arrive after it. So is
    /// `initialize`, whose answer the next one needs.
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
        waiting.insert(id, Waiting { is_stream, _until: until });
        Some(cancelled)
    }

    /// Ends a request as HTTP does it: nobody waits for the answer any more. Servers of the handshake want to be told.
    async fn cancel(&self, message: &Message) {
        if self.session.began_with().is_some() {
            self.deliver(message).await;
        }
        let id = message.params()["requestId"].to_string();
        drop(self.waiting().remove(&id));
    }

    async fn work(&self, job: Job) {
        match job {
            Job::Request(message, cancelled) => self.request(message, cancelled).await,
            Job::Batch(message) => self.batch(&message).await,
            Job::Listen => self.listen().await,
        }
    }

    async fn request(&self, message: Message, cancelled: oneshot::Receiver<()>) {
        let id = message.id().to_string();
        if let Either::Left(_) = select(Box::pin(self.ask(&message)), cancelled).await {
            self.waiting().remove(&id);
        }
    }
}
