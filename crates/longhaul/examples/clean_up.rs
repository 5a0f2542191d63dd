//! The machine that a tool has started is stopped when its task is cancelled, misses its deadline, or is given up.
//!
//!     cargo run --example clean_up

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::{EndedTask, Server, TaskContext, TaskPolicy, serve};

const HOUR: Duration = Duration::from_secs(3_600);

/// Stands for a cloud: the machines that run, by the keys that they were started with.
#[derive(Clone, Default)]
struct Machines(Arc<Mutex<BTreeSet<String>>>);

impl Machines {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts one, which is named after its key. A second request with the same key starts no second one.
    async fn start(&self, key: &str) -> Result<String, ErrorData> {
        self.with(|running| running.insert(key.to_owned()));
        Ok(key.to_owned())
    }

    /// Stops a machine. A machine that has stopped is not an error, because a second try finds it so.
    async fn stop(&self, machine: &str) -> Result<(), ErrorData> {
        self.with(|running| running.remove(machine));
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Trials {
    machines: Machines,
}

#[tool_router]
impl Trials {
    #[tool(description = "Tries the latest version on a machine of its own, for a day")]
    async fn try_out(&self, task: TaskContext) -> Result<String, ErrorData> {
        let key = task.idempotency_key();
        let machine = task.try_step("machine", || self.machines.start(&key)).await?;
        task.sleep("lifetime", 24 * HOUR).await;
        task.try_step("stop", || self.machines.stop(&machine)).await?;
        Ok("no faults in a day".to_owned())
    }
}

#[tool_handler]
impl ServerHandler for Trials {}

/// Stops the machine of a trial that has ended. Whether its start was recorded does not matter: the key is its name.
async fn stop_machine(machines: Machines, ended: EndedTask) -> Result<(), ErrorData> {
    machines.stop(&ended.idempotency_key()).await
}

fn server(machines: &Machines) -> Server {
    let handler = Trials { machines: machines.clone() };
    let machines = machines.clone();
    Server::new(move || handler.clone())
        .task("try_out", TaskPolicy::required().run_at_most(25 * HOUR))
        .clean_up("try_out", move |ended| stop_machine(machines.clone(), ended))
}

fn main() -> ExitCode {
    let machines = Machines::default();
    serve::main(|_env| server(&machines))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::Status;
    use longhaul::testing::{self, Call, TestError};
    use serde_json::json;

    use super::*;

    fn trial(machines: &Machines) -> Call {
        testing::of(&server(machines)).call("try_out", json!({}))
    }

    #[tokio::test]
    async fn the_machine_of_a_cancelled_trial_is_stopped() -> Result<(), TestError> {
        let machines = Machines::default();
        let mut task = trial(&machines).begin().await?;
        task.work().await?;
        assert_eq!(machines.with(|running| running.len()), 1);
        task.cancel().await?;
        let run = task.to_end().await?;
        assert_eq!((run.status(), run.cleanups()), (Status::Cancelled, &[Ok(())][..]));
        assert!(machines.with(|running| running.is_empty()));
        Ok(())
    }

    #[tokio::test]
    async fn a_trial_that_ends_by_itself_stops_its_own_machine() -> Result<(), TestError> {
        let machines = Machines::default();
        let run = trial(&machines).to_end().await?;
        assert_eq!((run.text(), run.cleanups()), ("no faults in a day".to_owned(), &[][..]));
        assert!(machines.with(|running| running.is_empty()));
        Ok(())
    }

    #[tokio::test]
    async fn a_cancelled_trial_leaves_nothing_after_any_crash() -> Result<(), TestError> {
        let machines = Machines::default();
        trial(&machines).cancel_after("machine").crash_everywhere().await?;
        assert!(machines.with(|running| running.is_empty()));
        Ok(())
    }
}
