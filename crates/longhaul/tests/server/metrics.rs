//! What a running server exports for Prometheus, read over HTTP.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ServerCapabilities,
    ServerConfig, Tool,
};
use longhaul::rmcp::service::RequestContext;
use longhaul::rmcp::{self, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, Running, ServeError};
use longhaul::{Processes, Server, TaskPolicy};
use longhaul_core::settings::table;
use tokio::sync::Semaphore;

use crate::call_of;

/// A port that is free.
const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Scrapes until a series has its value: they come at most this often.
const SCRAPES_MAX: usize = 10_000;

#[derive(Clone)]
struct Tools {
    began: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

#[tool_router]
impl Tools {
    #[tool]
    async fn held(&self) -> String {
        self.began.add_permits(1);
        self.may_end.acquire().await.unwrap().forget();
        "done".to_owned()
    }

    #[tool]
    async fn failing(&self) -> Result<String, rmcp::ErrorData> {
        Err(rmcp::ErrorData::internal_error("it fails", None))
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

fn options() -> Options {
    Options::default()
        .with(&table::LISTEN, SocketAddr::from(ANY))
        .with(&table::DB, ":memory:")
        .with(&table::INLINE_WAIT_S, 60_u64)
}

fn server(tools: &Tools) -> Server {
    let tools = tools.clone();
    Server::new(move || tools.clone()).task("held", TaskPolicy::optional()).task("failing", TaskPolicy::optional())
}

fn tools() -> Tools {
    Tools { began: Arc::new(Semaphore::new(0)), may_end: Arc::new(Semaphore::new(0)) }
}

async fn scrape(running: &Running) -> String {
    let url = format!("http://{}/metrics", running.metrics_address().unwrap());
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    answer.text().await.unwrap()
}

/// Returns the first scrape with this line. A caller may have its answer before the task is counted.
async fn scraped_with(running: &Running, line: &str) -> String {
    let mut last = String::new();
    for _ in 0..SCRAPES_MAX {
        last = scrape(running).await;
        if last.lines().any(|one| one == line) {
            return last;
        }
    }
    panic!("there is no `{line}` in:\n{last}")
}

#[tokio::test]
async fn calls_are_counted_while_they_run_and_when_they_have_ended() {
    let tools = tools();
    let running =
        serve::start(&server(&tools), &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    scraped_with(&running, "longhaul_attempts_running 0").await;

    let scraped_during = async {
        tools.began.acquire().await.unwrap().forget();
        scraped_with(&running, "longhaul_attempts_running 1").await;
        let during = scraped_with(&running, "longhaul_tasks_accepted_total{tool=\"held\"} 1").await;
        tools.may_end.add_permits(1);
        during
    };
    let (answer, during) = tokio::join!(call_of("held", &running).send(), scraped_during);
    assert_eq!(answer.unwrap().status(), 200);
    assert!(during.contains("longhaul_queue_wait_seconds_count 1\n"), "{during}");
    assert!(!during.contains("longhaul_tasks_ended_total{"), "{during}");

    call_of("failing", &running).send().await.unwrap();
    scraped_with(&running, "longhaul_tasks_ended_total{tool=\"held\",status=\"completed\"} 1").await;
    scraped_with(&running, "longhaul_tasks_ended_total{tool=\"failing\",status=\"failed\"} 1").await;
    let after = scraped_with(&running, "longhaul_attempts_running 0").await;
    assert!(after.contains("longhaul_store_errors_total 0\n"), "{after}");
    running.stop().await;
}

#[tokio::test]
async fn calls_that_wait_for_a_worker_are_counted_with_the_age_of_the_oldest() {
    let tools = tools();
    let options = options().with(&table::CONCURRENCY, 1_u64).with(&table::METRICS_LISTEN, SocketAddr::from(ANY));
    let running = serve::start(&server(&tools), &options).await.unwrap();
    let idle = scraped_with(&running, "longhaul_queue_messages 0").await;
    assert!(idle.contains("longhaul_queue_oldest_age_seconds 0.0\n"), "{idle}");

    let scraped_during = async {
        tools.began.acquire().await.unwrap().forget();
        let during = scraped_with(&running, "longhaul_queue_messages 2").await;
        tools.may_end.add_permits(3);
        during
    };
    let call = || call_of("held", &running).send();
    let (first, second, third, during) = tokio::join!(call(), call(), call(), scraped_during);
    assert_eq!([first, second, third].map(|answer| answer.unwrap().status().as_u16()), [200; 3]);
    let age = during.lines().find_map(|line| line.strip_prefix("longhaul_queue_oldest_age_seconds "));
    assert!(age.unwrap().parse::<f64>().unwrap() > 0.0, "{during}");
    scraped_with(&running, "longhaul_queue_messages 0").await;
    running.stop().await;
}

#[tokio::test]
async fn the_processes_of_other_servers_are_shown_as_they_are_now() {
    let names = Arc::new(Mutex::new(["search", "with \"quotes\""].map(str::to_owned).to_vec()));
    let named = Arc::clone(&names);
    let counted = move |name: &str| Processes { server: name.to_owned(), starting: 1, running: 2, restarts: 3 };
    let server = server(&tools()).processes(move || named.lock().unwrap().iter().map(|name| counted(name)).collect());
    let running = serve::start(&server, &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    let scraped = scrape(&running).await;
    for line in [
        "# TYPE longhaul_gateway_processes gauge",
        "longhaul_gateway_processes{server=\"search\",state=\"starting\"} 1",
        "longhaul_gateway_processes{server=\"search\",state=\"running\"} 2",
        "longhaul_gateway_process_restarts_total{server=\"search\"} 3",
        "longhaul_gateway_process_restarts_total{server=\"with \\\"quotes\\\"\"} 3",
    ] {
        assert!(scraped.lines().any(|one| one == line), "{line}\n{scraped}");
    }
    *names.lock().unwrap() = (0..1_000_000).map(|number| format!("server-{number}")).collect();
    let series = scrape(&running).await.lines().filter(|line| line.starts_with("longhaul_gateway_")).count();
    assert_eq!(series, 300, "a hundred servers with three series each");
    names.lock().unwrap().clear();
    let scraped = scrape(&running).await;
    assert!(!scraped.contains("longhaul_gateway_"), "a server that is gone leaves no series: {scraped}");
    running.stop().await;
}

#[tokio::test]
async fn a_tool_that_is_not_declared_is_not_a_label() {
    let running =
        serve::start(&server(&tools()), &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    call_of("undeclared", &running).send().await.unwrap();
    let scraped = scrape(&running).await;
    assert!(!scraped.contains("undeclared"), "{scraped}");
    running.stop().await;
}

/// A tool of any name.
#[derive(Clone)]
struct AnyTool;

impl ServerHandler for AnyTool {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(Tool::new(name.to_owned(), "Takes nothing", Arc::new(JsonObject::new())))
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, rmcp::ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }
}

#[tokio::test]
async fn many_tools_share_a_label_once_a_hundred_have_one() {
    let server = Server::new(|| AnyTool).policies(|_tool| Some(TaskPolicy::optional()));
    let running = serve::start(&server, &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    for number in 0..120 {
        assert_eq!(call_of(&format!("tool-{number}"), &running).send().await.unwrap().status(), 200);
    }
    let scraped = scraped_with(&running, "longhaul_tasks_ended_total{tool=\"other\",status=\"completed\"} 20").await;
    for counted in ["accepted", "ended"] {
        let series = format!("longhaul_tasks_{counted}_total{{");
        assert_eq!(scraped.lines().filter(|line| line.starts_with(&series)).count(), 101, "{counted}");
    }
    running.stop().await;
}

/// The first answer about readiness that is not "ready".
async fn until_unready<Fut: Future<Output = (u16, String)>>(get: impl Fn() -> Fut) -> (u16, String) {
    loop {
        let answer = get().await;
        if answer.0 != 200 {
            return answer;
        }
    }
}

/// A server that was asked to stop says so, while it still answers.
#[tokio::test]
async fn a_draining_server_is_not_ready_and_still_alive() {
    let tools = tools();
    let running =
        serve::start(&server(&tools), &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    let (metrics, call) = (running.metrics_address().unwrap(), call_of("held", &running));
    let get = async |path: &str| {
        let answer = reqwest::get(format!("http://{metrics}{path}")).await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let drained = async {
        tools.began.acquire().await.unwrap().forget();
        assert_eq!(get("/readyz").await.0, 200);
        let asked = async {
            let ready = until_unready(|| get("/readyz")).await;
            let alive = get("/healthz").await.0;
            tools.may_end.add_permits(1);
            (ready, alive)
        };
        tokio::join!(running.stop(), asked).1
    };
    let (_answer, ((status, body), alive)) = tokio::join!(call.send(), drained);
    assert_eq!((status, alive), (503, 200));
    assert!(body.contains("draining"), "{body}");
}

#[tokio::test]
async fn metrics_are_on_their_own_port_and_off_by_default() {
    let running = serve::start(&server(&tools()), &options()).await.unwrap();
    assert_eq!(running.metrics_address(), None);
    let get = async |address: SocketAddr, path: &str| {
        reqwest::get(format!("http://{address}{path}")).await.unwrap().status().as_u16()
    };
    assert_eq!(get(running.address(), "/metrics").await, 404);
    running.stop().await;

    let running =
        serve::start(&server(&tools()), &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    let metrics = running.metrics_address().unwrap();
    assert_eq!(get(running.address(), "/metrics").await, 404);
    assert_eq!((get(metrics, "/mcp").await, get(metrics, "/console").await), (404, 404));
    assert_eq!((get(metrics, "/healthz").await, get(metrics, "/readyz").await), (200, 200));
    let posted = reqwest::Client::new().post(format!("http://{metrics}/metrics")).send().await.unwrap();
    assert_eq!((posted.status().as_u16(), posted.headers()["allow"].as_bytes()), (405, &b"GET, HEAD"[..]));
    running.stop().await;
}

/// The status of a scrape with this header.
async fn status_with(running: &Running, path: &str, header: (&str, &str)) -> u16 {
    let url = format!("http://127.0.0.1:{}{path}", running.metrics_address().unwrap().port());
    reqwest::Client::new().get(url).header(header.0, header.1).send().await.unwrap().status().as_u16()
}

/// A page of another site that has its name resolve to this machine names that site as the `Host`.
#[tokio::test]
async fn web_pages_of_other_sites_cannot_read_the_metrics() {
    let (rebound, page) = (("host", "evil.example"), ("origin", "https://evil.example"));
    let listening = |address: SocketAddr| options().with(&table::METRICS_LISTEN, address);
    let running = serve::start(&server(&tools()), &listening(ANY.into())).await.unwrap();
    assert_eq!(status_with(&running, "/metrics", rebound).await, 403);
    assert_eq!(status_with(&running, "/metrics", page).await, 403);
    assert_eq!(status_with(&running, "/metrics", ("host", "localhost:9464")).await, 200);
    assert_eq!(status_with(&running, "/readyz", rebound).await, 200, "probes name any host");
    running.stop().await;

    let running = serve::start(&server(&tools()), &listening(([0, 0, 0, 0], 0).into())).await.unwrap();
    assert_eq!(status_with(&running, "/metrics", ("host", "10.1.2.3:9464")).await, 200, "the address of a container");
    assert_eq!(status_with(&running, "/metrics", page).await, 403);
    running.stop().await;
}

#[tokio::test]
async fn a_second_server_on_the_port_of_the_metrics_is_refused_with_one_sentence() {
    let options = options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY));
    let first = serve::start(&server(&tools()), &options).await.unwrap();
    let taken = first.metrics_address().unwrap();
    let second = serve::start(&server(&tools()), &options.with(&table::METRICS_LISTEN, taken)).await;
    let refused = second.map(|running| running.address()).unwrap_err();
    assert!(matches!(&refused, ServeError::MetricsListen { address, .. } if *address == taken), "{refused:?}");
    let said = refused.to_string();
    assert!(said.starts_with(&format!("cannot listen on {taken} for metrics: ")), "{said}");
    assert!(said.contains("choose another address with --metrics-listen") && said.lines().count() == 1, "{said}");
    first.stop().await;
}

#[tokio::test]
async fn each_query_of_the_dashboard_names_a_metric_and_each_metric_has_a_query() {
    let of_search = || vec![Processes { server: "search".to_owned(), starting: 0, running: 1, restarts: 0 }];
    let server = server(&tools()).processes(of_search);
    let running = serve::start(&server, &options().with(&table::METRICS_LISTEN, SocketAddr::from(ANY))).await.unwrap();
    let scraped = scrape(&running).await;
    let declared = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some(if kind == "histogram" { format!("{name}_bucket") } else { name.to_owned() })
    };
    let mut exported: BTreeSet<String> = scraped.lines().filter_map(declared).collect();
    // A counter with labels is exported once it has counted.
    let labelled = ["tasks_accepted", "tasks_ended", "webhook_deliveries"];
    exported.extend(labelled.map(|name| format!("longhaul_{name}_total")));
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../infra/monitoring/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| panel["targets"].as_array().unwrap()).map(|target| &target["expr"]);
    let named: BTreeSet<String> = queries
        .flat_map(|query| query.as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("longhaul_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, exported);
    running.stop().await;
}
