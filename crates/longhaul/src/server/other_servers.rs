//! The other servers that the tools need: which of them cannot be used now, and how many processes they have.

use std::sync::Arc;

use super::Server;

/// A part of a server that cannot be used now, such as another server that its tools need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degraded {
    /// Its name, for the console. `/readyz` shows to everyone how many parts there are, and no names.
    pub part: String,
    /// Why, for the console.
    pub why: String,
}

/// The processes of another server that the tools of this one start, for [`Server::processes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The name of the other server: a label of the metrics.
    pub server: String,
    /// How many have started and not answered yet.
    pub starting: u64,
    /// How many have answered and not ended.
    pub running: u64,
    /// How many starts replaced a process that failed. Never falls while this process runs.
    pub restarts: u64,
}

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
