//! State behind an `Arc`: a handler is made for each request and for each attempt, so what they share is made once.
//!
//!     cargo run --example shared_state

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lookup {
    /// The city to look up.
    city: String,
}

/// Stands for a pool of connections, a client, or a cache. It is gone when the process ends, and other processes have
/// their own. State that has to last is recorded in steps and variables, or kept in a database.
#[derive(Default)]
struct Cache(Mutex<BTreeMap<String, u64>>);

impl Cache {
    fn inhabitants(&self, city: &str) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(city.to_owned()).or_insert_with(|| city.len() as u64 * 100_000)
    }
}

#[derive(Clone)]
struct Cities {
    cache: Arc<Cache>,
}

#[tool_router]
impl Cities {
    #[tool(description = "How many people live in a city")]
    async fn inhabitants(
        &self,
        Parameters(Lookup { city }): Parameters<Lookup>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let cache = Arc::clone(&self.cache);
        // Recorded: a later attempt gets the same number, although its cache may say something else by then.
        let number = task.step("look up", async || cache.inhabitants(&city)).await;
        Ok(format!("{city} has {number} inhabitants"))
    }
}

#[tool_handler]
impl ServerHandler for Cities {}

fn main() -> ExitCode {
    let cache = Arc::<Cache>::default();
    let server = Server::new(move || Cities { cache: Arc::clone(&cache) });
    serve::main(|_env| server.task("inhabitants", TaskPolicy::optional()))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_later_attempt_has_what_was_recorded() -> Result<(), TestError> {
        let cities = Cities { cache: Arc::default() };
        let call = testing::server(cities).call("inhabitants", json!({"city": "Bern"}));
        let run = call.crash_after("look up").to_end().await?;
        assert_eq!((run.text().as_str(), run.times("look up")), ("Bern has 400000 inhabitants", 1));
        Ok(())
    }
}
