//! A host for Lambda functions, for tests: like Lambda, it serves the Runtime API to a real program in its own process.
//! The test decides which events it delivers and when, and when the process is frozen or killed.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::serving::serve;

pub mod front_door;
#[cfg(feature = "aws")]
pub mod mapping;

/// The treatment of the process while it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It is stopped (SIGSTOP), as on Lambda: work that it left behind does not continue.
    Frozen,
    /// It keeps running.
    Running,
}

/// A process that runs a function, one invocation at a time.
pub struct Sandbox {
    pid: Pid,
    inbox: mpsc::Sender<Invocation>,
    host: Arc<Host>,
    tasks: Vec<JoinHandle<()>>,
}

/// A sandbox that is to be killed.
#[derive(Clone, Copy, Debug)]
pub struct Victim(Pid);

impl Victim {
    /// SIGKILL.
    pub fn kill(self) {
        signal(self.0, Signal::KILL);
    }
}

/// The state of the Runtime API.
struct Host {
    idle: Idle,
    waiting: tokio::sync::Mutex<mpsc::Receiver<Invocation>>,
    in_flight: Mutex<HashMap<String, mpsc::UnboundedSender<Part>>>,
    polls: watch::Sender<Polls>,
    numbers: AtomicU64,
}

/// How far a sandbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polls {
    /// How often it has asked for an event.
    Alive(u64),
    /// It ended.
    Dead,
}

struct Invocation {
    event: Bytes,
    deadline_ms: u128,
    parts: mpsc::UnboundedSender<Part>,
}

enum Part {
    Chunk(Bytes),
    End,
    Error(Bytes),
}

/// Why an invocation has no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The process is gone.
    Died,
    /// The function says that it failed.
    Failed(Value),
}

/// The answer of an invocation, while it arrives.
pub struct Answer {
    parts: mpsc::UnboundedReceiver<Part>,
    timeout: JoinHandle<()>,
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for NoAnswer {}

impl Drop for Answer {
    fn drop(&mut self) {
        self.timeout.abort();
    }
}

impl Answer {
    /// The next piece as it was sent; `None` after the last one.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, NoAnswer> {
        match self.parts.recv().await {
            Some(Part::Chunk(bytes)) => Ok(Some(bytes)),
            Some(Part::End) => Ok(None),
            Some(Part::Error(error)) => Err(NoAnswer::Failed(serde_json::from_slice(&error).unwrap_or_default())),
            None => Err(NoAnswer::Died),
        }
    }

    /// All of it.
    pub async fn whole(mut self) -> Result<Vec<u8>, NoAnswer> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }
}

impl Sandbox {
    /// Starts `program` with no environment but `env` and what Lambda sets, and waits until it asks for an event.
    pub async fn start(program: &Path, env: &[(String, String)], idle: Idle) -> Self {
        let sandbox = Self::launch(program, env, idle).await;
        assert!(sandbox.is_ready().await, "{} ended before it asked for an event", program.display());
        sandbox
    }

    /// The same, without the wait.
    pub async fn launch(program: &Path, env: &[(String, String)], idle: Idle) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let (inbox, waiting) = mpsc::channel(1);
        let mut child = tokio::process::Command::new(program)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", program.file_name().expect("a program has a name"))
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "runtime-host")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "runtime-host")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let id = i32::try_from(child.id().expect("it was just started")).expect("process ids fit");
        let pid = Pid::from_raw(id).expect("a process has an id");
        let host = Arc::new(Host {
            idle,
            waiting: tokio::sync::Mutex::new(waiting),
            in_flight: Mutex::default(),
            polls: watch::Sender::new(Polls::Alive(0)),
            numbers: AtomicU64::new(1),
        });
        let answer = move |host: Arc<Host>, request| async move { host.answer(request, pid).await };
        let serving = tokio::spawn(serve(listener, Arc::clone(&host), answer));
        let of_child = Arc::clone(&host);
        let watching = tokio::spawn(async move {
            drop(child.wait().await);
            of_child.polls.send_replace(Polls::Dead);
            of_child.in_flight.lock().unwrap().clear();
            let mut waiting = of_child.waiting.lock().await;
            waiting.close();
            while waiting.try_recv().is_ok() {}
        });
        Self { pid, inbox, host, tasks: vec![serving, watching] }
    }

    /// Waits until it is idle for the first time; false if it ends instead.
    pub async fn is_ready(&self) -> bool {
        let mut polls = self.host.polls.subscribe();
        let seen = polls.wait_for(|polls| *polls != Polls::Alive(0)).await;
        seen.is_ok_and(|polls| *polls != Polls::Dead)
    }

    /// Waits until it has asked for an event `times` times.
    pub async fn polled(&self, times: u64) {
        let mut polls = self.host.polls.subscribe();
        let enough = |polls: &Polls| match polls {
            Polls::Alive(number) => *number >= times,
            Polls::Dead => true,
        };
        let seen = polls.wait_for(enough).await.expect("the host outlives its sandbox");
        assert_ne!(*seen, Polls::Dead, "the sandbox ended");
    }

    /// Delivers an event. The sandbox is killed if it has not answered within `timeout`.
    pub async fn invoke(&self, event: &Value, timeout: Duration) -> Answer {
        let (parts, answer) = mpsc::unbounded_channel();
        let deadline = SystemTime::now() + timeout;
        let deadline_ms = deadline.duration_since(SystemTime::UNIX_EPOCH).expect("it is past 1970").as_millis();
        let event = Bytes::from(event.to_string());
        // A sandbox that has ended accepts nothing: the answer then says that it died.
        drop(self.inbox.send(Invocation { event, deadline_ms, parts }).await);
        let (pid, polls) = (self.pid, self.host.polls.subscribe());
        let timeout = tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            if *polls.borrow() != Polls::Dead {
                signal(pid, Signal::KILL);
            }
        });
        Answer { parts: answer, timeout }
    }

    /// Whether it is still running.
    pub fn is_alive(&self) -> bool {
        *self.host.polls.borrow() != Polls::Dead
    }

    /// Sends SIGKILL, and waits for the end.
    pub async fn kill(&self) {
        if self.is_alive() {
            signal(self.pid, Signal::KILL);
        }
        let mut polls = self.host.polls.subscribe();
        drop(polls.wait_for(|polls| *polls == Polls::Dead).await);
    }

    /// The means to kill it, even while it is busy.
    pub const fn victim(&self) -> Victim {
        Victim(self.pid)
    }

    /// SIGSTOP: it does nothing until it is thawed.
    pub fn freeze(&self) {
        signal(self.pid, Signal::STOP);
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        signal(self.pid, Signal::CONT);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.is_alive() {
            signal(self.pid, Signal::KILL);
        }
        // The child is reaped by the task that waits for it, or by the runtime.
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn signal(pid: Pid, signal: Signal) {
    // It may just have ended.
    kill_process(pid, signal).ok();
}

impl Host {
    async fn answer(&self, request: Request<Incoming>, pid: Pid) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let mut words = path.trim_start_matches("/2018-06-01/runtime/").split('/');
        match (words.next(), words.next(), words.next()) {
            (Some("invocation"), Some("next"), None) => self.next(pid).await,
            (Some("invocation"), Some(id), Some("response")) => self.response(id, request.into_body()).await,
            (Some("invocation"), Some(id), Some("error")) => {
                let error = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                self.send_part(id, Part::Error(error.unwrap_or_default()));
                plain(StatusCode::ACCEPTED)
            }
            _ => plain(StatusCode::NOT_FOUND),
        }
    }

    async fn next(&self, pid: Pid) -> Response<Full<Bytes>> {
        let mut waiting = self.waiting.lock().await;
        self.polls.send_modify(|polls| {
            if let Polls::Alive(number) = polls {
                *number += 1;
            }
        });
        if self.idle == Idle::Frozen {
            signal(pid, Signal::STOP);
        }
        let Some(invocation) = waiting.recv().await else { return plain(StatusCode::GONE) };
        if self.idle == Idle::Frozen {
            signal(pid, Signal::CONT);
        }
        let id = format!("00000000-0000-4000-8000-{:012}", self.numbers.fetch_add(1, Ordering::Relaxed));
        self.in_flight.lock().unwrap().insert(id.clone(), invocation.parts);
        Response::builder()
            .header("lambda-runtime-aws-request-id", id)
            .header("lambda-runtime-deadline-ms", invocation.deadline_ms.to_string())
            .header("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:host")
            .header("lambda-runtime-trace-id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0")
            .header("content-type", "application/json")
            .body(Full::new(invocation.event))
            .expect("these are headers")
    }

    /// Passes an answer on piece by piece, as it arrives.
    async fn response(&self, id: &str, mut body: Incoming) -> Response<Full<Bytes>> {
        let Some(parts) = self.in_flight.lock().unwrap().remove(id) else { return plain(StatusCode::BAD_REQUEST) };
        while let Some(frame) = body.frame().await {
            // A connection that ends in the middle is a sandbox that died: the receiver sees no end.
            let Ok(frame) = frame else { return plain(StatusCode::BAD_REQUEST) };
            if let Some(part) = part_of(frame) {
                drop(parts.send(part));
            }
        }
        drop(parts.send(Part::End));
        plain(StatusCode::ACCEPTED)
    }

    fn send_part(&self, id: &str, part: Part) {
        if let Some(parts) = self.in_flight.lock().unwrap().remove(id) {
            drop(parts.send(part));
        }
    }
}

/// The meaning of a frame to the receiver, if any.
fn part_of(frame: Frame<Bytes>) -> Option<Part> {
    match frame.into_data() {
        Ok(chunk) => (!chunk.is_empty()).then_some(Part::Chunk(chunk)),
        Err(trailers) => {
            let failed = trailers.trailers_ref()?.get("lambda-runtime-function-error-type")?;
            Some(Part::Error(Bytes::copy_from_slice(failed.as_bytes())))
        }
    }
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}
