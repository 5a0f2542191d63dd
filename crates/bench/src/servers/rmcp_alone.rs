//! The lower bound for the cost of the protocol: the same tools on `rmcp`'s own task runtime. It stores tasks in memory
//! and loses them with the process.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, GetTaskParams,
    GetTaskResult, JsonObject, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler};
use tokio::net::TcpListener;

use super::life::{self, Blob, Life};

/// How long a task of `noop` is retained. Short, since every call walks over all retained tasks.
const KEEP_MS: u64 = 1_000;

/// How long a task whose polls are measured is retained.
const KEEP_LONG_MS: u64 = 3_600_000;

type Service = StreamableHttpService<Alone, NeverSessionManager>;

#[derive(Clone, Default)]
struct Alone {
    tasks: TaskManager,
}

/// The tool `noop` ends at once, `life` after its steps, which are recorded nowhere, `blob` with a long text, any other
/// one never.
async fn end_of(tool: Cow<'static, str>, arguments: JsonObject) -> Result<CallToolResult, TaskExit> {
    let text = match &*tool {
        "noop" => "done".to_owned(),
        "life" => {
            let life: Life = serde_json::from_value(arguments.into()).unwrap_or_default();
            let mut sum = 0;
            for number in 0..life.steps {
                sum += life::step(&life, number).await;
            }
            sum.to_string()
        }
        "blob" => serde_json::from_value::<Blob>(arguments.into()).unwrap_or_default().text(),
        _ => std::future::pending().await,
    };
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

impl ServerHandler for Alone {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let keeps = request.name == "blob" || arguments.contains_key("keep");
        let retention_ms = if keeps { KEEP_LONG_MS } else { KEEP_MS };
        let options = TaskOptions::new().with_ttl_ms(retention_ms);
        let task = self.tasks.spawn(options, move |_context| Box::pin(end_of(request.name, arguments)));
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }
}

/// Serves until it is killed.
pub(crate) fn run(listen: SocketAddr) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(accept(listen))
}

async fn accept(listen: SocketAddr) -> anyhow::Result<()> {
    let alone = Alone::default();
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service: Service = Service::new(move || Ok(alone.clone()), Arc::new(NeverSessionManager::default()), config);
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        let answering = service_fn(move |request| answer(service.clone(), request));
        tokio::spawn(async move {
            drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answering).await);
        });
    }
}

async fn answer(
    service: Service,
    request: Request<Incoming>,
) -> Result<Response<http_body_util::combinators::BoxBody<bytes::Bytes, Infallible>>, Infallible> {
    if request.method() == Method::GET {
        return Ok(Response::new(Full::from("ok").boxed()));
    }
    Ok(service.handle(request).await)
}
