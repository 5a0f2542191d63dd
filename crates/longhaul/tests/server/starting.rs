//! What is refused when a server starts.

use std::net::{SocketAddr, TcpListener};

use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, ServeError};
use longhaul::{Server, TaskPolicy, ToolError};
use longhaul_core::settings::table;

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn countdown(&self) -> String {
        String::new()
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

fn options(db: &str) -> Options {
    Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0))).with(&table::DB, db)
}

#[tokio::test]
async fn a_misspelled_tool_is_refused_with_the_nearest_name() {
    let server = Server::new(|| Tools).task("cuntdown", TaskPolicy::optional());
    let refused = serve::start(&server, &options(":memory:")).await.map(|running| running.address()).unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `cuntdown`; did you mean `countdown`?");
    let ServeError::Tool(ToolError::Unknown(unknown)) = refused else { panic!("{refused:?}") };
    assert_eq!((unknown.tool.as_str(), unknown.nearest.as_deref()), ("cuntdown", Some("countdown")));
}

#[tokio::test]
async fn a_server_whose_tools_are_all_there_starts() {
    let server = Server::new(|| Tools).task("countdown", TaskPolicy::required());
    serve::start(&server, &options(":memory:")).await.unwrap().stop().await;
}

#[tokio::test]
async fn an_unusable_database_is_refused_with_its_cause() {
    let server = Server::new(|| Tools);
    let refused =
        serve::start(&server, &options("/nowhere/at/all.db")).await.map(|running| running.address()).unwrap_err();
    assert!(matches!(&refused, ServeError::Open(_)), "{refused:?}");
    assert!(std::error::Error::source(&refused).is_some(), "the cause is kept");
}

#[tokio::test]
async fn an_address_can_be_bound_before_the_server_starts_and_is_free_when_it_has_stopped() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = options(":memory:").with(&table::LISTEN, free);
    options.bind().await.unwrap();
    assert!(TcpListener::bind(free).is_err(), "it is bound");
    let server = Server::new(|| Tools);
    let running = serve::start(&server, &options).await.unwrap();
    assert_eq!(running.address(), free);
    running.stop().await;
    TcpListener::bind(free).unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_is_reported_before_anything_is_started() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = options(":memory:").with(&table::LISTEN, taken.local_addr().unwrap()).bind().await.unwrap_err();
    assert!(matches!(&refused, ServeError::Listen { .. }), "{refused:?}");
}
