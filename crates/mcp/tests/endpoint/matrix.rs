//! A task that was created in one protocol version can be read in every other one, by the same owner.

use std::sync::{Arc, Mutex};

use longhaul_mcp::EndedTask;
use serde_json::{Value, json};

use crate::older_client::Older;
use crate::world::{Sent, World, no_tasks};

const RELATED: &str = "/_meta/io.modelcontextprotocol~1related-task/taskId";

/// The protocol versions that a client may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    TasksExtension,
    CoreTasks,
    Operations,
    AsyncCalls,
    JobTools,
}

const ALL: [Speaks; 5] =
    [Speaks::TasksExtension, Speaks::CoreTasks, Speaks::Operations, Speaks::AsyncCalls, Speaks::JobTools];

impl Speaks {
    async fn client(self, world: &World) -> Older {
        let revision = match self {
            Self::TasksExtension | Self::JobTools | Self::CoreTasks => "2025-11-25",
            Self::Operations => "next",
            Self::AsyncCalls => "2025-06-18",
        };
        Older::connect(&world.mcp, revision).await
    }

    /// Creates a task; returns its id.
    async fn create(self, world: &World) -> String {
        let client = self.client(world).await;
        let arguments = json!({"ms": 60_000});
        let (created, pointer) = match self {
            Self::TasksExtension => (world.result(&Sent::call("sleeps", arguments)).await, "/taskId"),
            Self::CoreTasks => {
                let params = json!({"name": "sleeps", "arguments": arguments, "task": {}});
                (client.result(&world.mcp, "tools/call", params).await, "/task/taskId")
            }
            Self::Operations => {
                let params = json!({"name": "sleeps", "arguments": arguments, "operation": {"token": "of the client"}});
                (client.result(&world.mcp, "tools/call", params).await, RELATED)
            }
            Self::AsyncCalls => {
                let params = json!({"name": "sleeps", "arguments": arguments});
                (client.result(&world.mcp, "tools/async/call", params).await, "/token")
            }
            Self::JobTools => {
                let sent = Sent::call("sleeps", arguments).declaring(no_tasks());
                let job = world.while_time_passes(world.result(&sent)).await;
                (job, "/structuredContent/data/job_id")
            }
        };
        created.pointer(pointer).unwrap_or_else(|| panic!("{self:?}: {created}")).as_str().unwrap().to_owned()
    }

    /// The status of the task, as the protocol version names it.
    async fn status(self, world: &World, id: &str) -> String {
        let client = self.client(world).await;
        let (answer, pointer) = match self {
            Self::TasksExtension => (world.get(id).await, "/status"),
            Self::CoreTasks => (client.result(&world.mcp, "tasks/get", json!({"taskId": id})).await, "/status"),
            Self::Operations => {
                (client.result(&world.mcp, "tools/async/status", json!({"token": id})).await, "/status")
            }
            Self::AsyncCalls => {
                let params = json!({"token": id, "timeout": 0});
                (client.result(&world.mcp, "tools/async/get", params).await, "/isPending")
            }
            Self::JobTools => (self.look(world, id).await, "/structuredContent/data/status"),
        };
        match answer.pointer(pointer) {
            Some(Value::String(word)) => word.clone(),
            Some(Value::Bool(true)) => "pending".to_owned(),
            _ => "ended".to_owned(),
        }
    }

    /// The text of the result.
    async fn text(self, world: &World, id: &str) -> String {
        let client = self.client(world).await;
        let (answer, pointer) = match self {
            Self::TasksExtension => (world.get(id).await, "/result/content/0/text"),
            Self::CoreTasks => {
                (client.result(&world.mcp, "tasks/result", json!({"taskId": id})).await, "/content/0/text")
            }
            Self::Operations => {
                let fetched = client.result(&world.mcp, "tools/async/result", json!({"token": id})).await;
                (fetched, "/result/content/0/text")
            }
            Self::AsyncCalls => {
                let params = json!({"token": id, "timeout": 0});
                (client.result(&world.mcp, "tools/async/get", params).await, "/content/0/text")
            }
            Self::JobTools => (self.look(world, id).await, "/structuredContent/data/result/content/0/text"),
        };
        answer.pointer(pointer).unwrap_or_else(|| panic!("{self:?}: {answer}")).as_str().unwrap().to_owned()
    }

    async fn look(self, world: &World, id: &str) -> Value {
        let arguments = json!({"job_id": id, "wait_s": 0});
        world.result(&Sent::call("get_job_status", arguments).declaring(no_tasks())).await
    }

    const fn queued(self) -> &'static str {
        match self {
            Self::TasksExtension | Self::CoreTasks => "working",
            Self::Operations => "submitted",
            Self::AsyncCalls => "pending",
            Self::JobTools => "queued",
        }
    }

    const fn completed(self) -> &'static str {
        match self {
            Self::TasksExtension | Self::CoreTasks | Self::Operations | Self::JobTools => "completed",
            Self::AsyncCalls => "ended",
        }
    }
}

#[tokio::test]
async fn a_task_of_any_protocol_version_is_read_in_every_protocol_version() {
    for creator in ALL {
        let world = World::new();
        let id = creator.create(&world).await;
        for reader in ALL {
            assert_eq!(reader.status(&world, &id).await, reader.queued(), "{creator:?}, {reader:?}");
        }
        world.work().await;
        world.clock.advance_ms(60_000);
        world.work().await;
        for reader in ALL {
            assert_eq!(reader.status(&world, &id).await, reader.completed(), "{creator:?}, {reader:?}");
            assert_eq!(reader.text(&world, &id).await, "attempt 2", "{creator:?}, {reader:?}");
        }
    }
}

#[tokio::test]
async fn a_cancelled_task_of_any_protocol_version_is_cleaned_up_after() {
    for creator in ALL {
        let cleaned = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&cleaned);
        let clean_up = move |ended: EndedTask| {
            seen.lock().unwrap().push(ended.idempotency_key());
            std::future::ready(Ok::<(), String>(()))
        };
        let world = World::by_function_with(|policies| policies.clean_up("sleeps".to_owned(), clean_up));
        let id = creator.create(&world).await;
        world.cancel(&id).await;
        world.clock.advance_ms(world.engine.settings().lease_ms);
        world.work().await;
        assert_eq!(*cleaned.lock().unwrap(), [id], "{creator:?}");
    }
}
