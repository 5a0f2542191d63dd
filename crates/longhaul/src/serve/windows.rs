//! The windows of a client on one folder. The process that has the database serves the clients of the others, too. When
//! it ends, one of the others takes the database.

use std::error::Error;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::{pending, ready};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, BodyStream, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul_core::settings::table;
use longhaul_core::{Clock, Identity, OwnerId};
use longhaul_http::{Body, MCP_PATH, audited};
use longhaul_mcp::mark_over_stdio;
use longhaul_sqlite::OpenError;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::http_server::Endpoint;
use super::limits::LINE_BYTES_MAX;
use super::storage::Storage;
use super::{Options, Running, ServeError, health, project, start};
use crate::{Server, SystemClock};

/// How often a message waits for a process that can answer it.
const TRIES: u32 = 300;

/// How often a process waits for one that has just opened the database, or is about to close it.
const OPEN_TRIES: u32 = 25;

const PAUSE_MS: u64 = 200;

/// One window: its process has the database, or passes everything on to the process that has it.
pub(super) struct Window {
    server: Server,
    options: Options,
    /// Where the process that has the database serves the others.
    socket: Option<PathBuf>,
    /// Once this process has the database.
    endpoint: OnceLock<Endpoint>,
    serving: Mutex<Option<Serving>>,
    connections: TaskTracker,
}

/// A server that is used by the client of this process, and by those of other windows until the guard is dropped.
struct Serving {
    running: Running,
    others: Option<DropGuard>,
}

impl Window {
    pub(super) async fn of(server: Server, options: Options) -> Result<Self, ServeError> {
        let options = match options.has_store() {
            true => options,
            false => options.with(&table::DB, project::database(server.outline().await.name.as_deref())?),
        };
        let socket = match options.backend().is_none().then(|| options.storage()).transpose()? {
            Some(Storage::File(file)) if !Storage::is_memory(&file) => project::socket(&file),
            _ => None,
        };
        let options = options.mounted();
        Ok(Self {
            server,
            options,
            socket,
            endpoint: OnceLock::new(),
            serving: Mutex::default(),
            connections: TaskTracker::new(),
        })
    }

    /// Takes the database, or finds the process that has it.
    pub(super) async fn open(&self) -> Result<(), ServeError> {
        for _ in 0..OPEN_TRIES {
            let Err(error) = self.start().await else { return Ok(()) };
            if !is_in_use(&error) || self.socket.is_none() {
                return Err(error);
            }
            if self.connect().await.is_ok() {
                tracing::info!("another window has the tasks of this folder, and its server answers");
                return Ok(());
            }
            // It may just have started, or be about to end.
            SystemClock.sleep_ms(PAUSE_MS).await;
        }
        self.start().await
    }

    async fn start(&self) -> Result<(), ServeError> {
        let running = start(&self.server, &self.options).await?;
        let tasks = self.options.values().get(&table::DB)?;
        tracing::info!(tasks = %tasks.display(), "serving MCP on standard input and output");
        let mut others = None;
        if let Some(endpoint) = running.endpoint() {
            others = self.serve_others(endpoint.clone());
            // It starts once: the database is taken until it stops.
            drop(self.endpoint.set(endpoint.clone()));
        }
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(Serving { running, others });
        Ok(())
    }

    /// Takes the database when the process ends that has it. Never returns.
    pub(super) async fn succeed(&self) {
        while self.endpoint.get().is_none() {
            if let Ok(mut other) = self.connect().await {
                // Nothing is ever sent: this is its end.
                drop(other.read_u8().await);
            }
            let Err(error) = self.start().await else {
                tracing::info!("the other window was closed: this process continues its tasks");
                break;
            };
            if !is_in_use(&error) {
                tracing::warn!(%error, "the other window was closed, and this process cannot continue its tasks");
            }
            SystemClock.sleep_ms(PAUSE_MS).await;
        }
        pending().await
    }

    pub(super) async fn stop(&self) {
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Serving { running, others }) = serving {
            // Before the database is free: after that the file may be the next process's.
            self.socket.iter().for_each(|socket| drop(std::fs::remove_file(socket)));
            running.stop().await;
            drop(others);
        }
    }

    /// Whether a call of this tool may be sent again: it is a task, and ran in a process that has ended.
    pub(super) fn may_repeat(&self, tool: &str) -> bool {
        self.endpoint.get().is_none() && self.server.tasks().get(tool).is_some()
    }

    pub(super) async fn respond(&self, request: Request<Bytes>) -> Response<Body> {
        for _ in 0..TRIES {
            if let Some(answer) = self.respond_now(&request).await {
                return answer;
            }
            SystemClock.sleep_ms(PAUSE_MS).await;
        }
        health::starting()
    }

    async fn respond_now(&self, request: &Request<Bytes>) -> Option<Response<Body>> {
        let Some(endpoint) = self.endpoint.get() else { return self.pass_on(request.clone()).await.ok() };
        endpoint.mcp.get()?;
        Some(answer(endpoint, request.clone()).await)
    }

    async fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.socket.as_deref().unwrap_or_else(|| "".as_ref())).await
    }

    /// Passes a request on to the process that has the database, if it can be reached. An answer that is cut off, or
    /// does not come, ends: the sender decides whether it sends the request again.
    async fn pass_on(&self, request: Request<Bytes>) -> Result<Response<Body>, Box<dyn Error + Send + Sync>> {
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        self.connections.spawn(connection);
        let (mut parts, body) = request.into_parts();
        parts.uri = Uri::from_static(MCP_PATH);
        let Ok(answer) = sender.send_request(Request::from_parts(parts, Full::new(body))).await else {
            return Ok(Response::new(Full::default().boxed_unsync()));
        };
        Ok(answer.map(|body| {
            let whole = BodyStream::new(body).take_while(|frame| ready(frame.is_ok()));
            StreamBody::new(whole.filter_map(|frame| ready(frame.ok())).map(Ok)).boxed_unsync()
        }))
    }

    /// Serves the clients of other windows until the guard is dropped. Without that, they are refused as those who use
    /// a database of another server.
    fn serve_others(&self, endpoint: Endpoint) -> Option<DropGuard> {
        let listener = match listen(self.socket.as_deref()?) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "other windows of this folder cannot be served");
                return None;
            }
        };
        let (stop, connections) = (CancellationToken::new(), self.connections.clone());
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, endpoint.clone()));
            }
        };
        self.connections.spawn(stop.clone().run_until_cancelled_owned(accept));
        Some(stop.drop_guard())
    }
}

/// Only the user of this process may connect.
fn listen(socket: &Path) -> std::io::Result<UnixListener> {
    // Of a process that was killed: this one has the database.
    drop(std::fs::remove_file(socket));
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn serve(stream: UnixStream, endpoint: Endpoint) {
    let service = service_fn(move |request: Request<Incoming>| {
        let endpoint = endpoint.clone();
        async move {
            let (parts, body) = request.into_parts();
            let longest = usize::try_from(LINE_BYTES_MAX).unwrap_or(usize::MAX);
            let body = Limited::new(body, longest).collect().await.map_err(std::io::Error::other)?;
            let mut request = Request::from_parts(parts, body.to_bytes());
            mark_over_stdio(&mut request);
            Ok::<_, std::io::Error>(answer(&endpoint, request).await)
        }
    });
    let http = hyper::server::conn::http1::Builder::new();
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a message of another window broke off");
    }
}

async fn answer(endpoint: &Endpoint, mut request: Request<Bytes>) -> Response<Body> {
    let Some(mcp) = endpoint.mcp.get() else { return health::starting() };
    let span = audited(&mut request, None::<&str>, None);
    // The caller is the user who started the process, as on a loopback address.
    mcp.respond(request, OwnerId::of(Identity::Anonymous)).instrument(span).await
}

fn is_in_use(error: &ServeError) -> bool {
    matches!(error, ServeError::Open(cause) if matches!(cause.downcast_ref(), Some(OpenError::InUse(_))))
}
