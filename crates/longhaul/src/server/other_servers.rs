//! How a server learns about the other servers that its tools need.

use std::sync::Arc;

use super::Server;
use crate::other_servers::{Degraded, Processes};

impl Server {
    /// Has `parts` name the parts of the server that cannot be used now. A local server stays ready: `/readyz` counts
    /// these parts, and the console names them with the reason. The function is called for each of these requests, and
    /// has to be quick.
    ///
    /// ```
    /// use longhaul::{Degraded, Server};
    /// # struct Reports;
    /// # impl longhaul::rmcp::ServerHandler for Reports {}
    /// let search = || vec![Degraded { part: "search".to_owned(), why: "it has no index yet".to_owned() }];
    /// let server = Server::new(|| Reports).degraded(search);
    /// ```
    #[must_use]
    pub fn degraded(mut self, parts: impl Fn() -> Vec<Degraded> + Send + Sync + 'static) -> Self {
        self.degraded = Arc::new(parts);
        self
    }

    /// Has `processes` count the processes of other servers that the tools start. The metrics of a local server show
    /// the first hundred servers. The function is called for each scrape, and has to be quick.
    ///
    /// ```
    /// use longhaul::{Processes, Server};
    /// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn report_sales(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    ///
    /// let of_search = || Processes { server: "search".to_owned(), starting: 0, running: 1, restarts: 0 };
    /// let server = Server::new(|| Reports).processes(move || vec![of_search()]);
    /// ```
    #[must_use]
    pub fn processes(mut self, processes: impl Fn() -> Vec<Processes> + Send + Sync + 'static) -> Self {
        self.processes = Arc::new(processes);
        self
    }

    /// Counts the processes that it starts.
    #[cfg(feature = "serve")]
    pub(crate) fn counted_processes(&self) -> Arc<dyn Fn() -> Vec<Processes> + Send + Sync> {
        Arc::clone(&self.processes)
    }

    /// Names its parts that cannot be used now.
    #[cfg(feature = "serve")]
    pub(crate) fn degraded_parts(&self) -> Arc<dyn Fn() -> Vec<Degraded> + Send + Sync> {
        Arc::clone(&self.degraded)
    }
}
