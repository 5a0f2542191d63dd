//! The counted work: the ways of the requests that every task has, and of its attempt.

use std::sync::Arc;

use longhaul_core::Clock;
use longhaul_core::ports::{Delivery, WorkQueue};
use longhaul_engine::{Disposition, Engine, Ports, Settings, WorkerSignals};
use longhaul_testkit::{FakeQueue, FakeStore, ManualClock, SeededIds};
use serde_json::Value;

use crate::requests::{Function, call, poll_of, task_id};

/// How often the work is done before it is counted: the first runs set up what later ones use.
const WARM_UPS: usize = 3;

/// How often it is counted at most, since the count depends a little on chance: until it is within its limit.
const RUNS: usize = 3;

/// Longer than the work takes.
const HIDDEN_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// `tasks/get` of a completed task, from the event to the last byte of the answer.
    Poll,
    /// `tools/call` that becomes a task, in the same way.
    Accept,
    /// The delivery of a new task whose tool returns at once: claim, run and end.
    Attempt,
}

impl Work {
    pub(crate) const ALL: [Self; 3] = [Self::Poll, Self::Accept, Self::Attempt];

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|work| work.name() == name).unwrap_or_else(|| panic!("there is no work `{name}`"))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Accept => "accept",
            Self::Attempt => "attempt",
        }
    }

    /// The name of its test.
    pub(crate) const fn promise(self) -> &'static str {
        match self {
            Self::Poll => "a_poll_takes_as_many_instructions_as_it_did",
            Self::Accept => "an_accepted_call_takes_as_many_instructions_as_it_did",
            Self::Attempt => "an_attempt_takes_as_many_instructions_as_it_did",
        }
    }

    /// Does the work several times; `counted` is given what is to be counted.
    pub(crate) fn run(self, counted: impl Fn(&dyn Fn())) {
        let server = Server::new();
        for run in 0..WARM_UPS + RUNS {
            let work = self.prepared(&server);
            if run < WARM_UPS { work() } else { counted(&*work) }
        }
    }

    fn prepared(self, server: &Server) -> Box<dyn Fn() + '_> {
        match self {
            Self::Poll => {
                let poll = server.poll_of_a_completed_task();
                Box::new(move || drop(server.function.answer(&poll)))
            }
            Self::Accept => {
                let call = call().to_string();
                Box::new(move || drop(server.function.answer(call.as_bytes())))
            }
            Self::Attempt => {
                server.accept();
                let delivery = server.delivery();
                Box::new(move || server.run(&delivery))
            }
        }
    }
}

/// A server all of which runs on the thread that calls it.
struct Server {
    function: Function,
    engine: Engine,
    queue: Arc<FakeQueue>,
}

impl Server {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), 10));
        let ports = Ports {
            store: Arc::new(FakeStore::default()),
            queue: Arc::<FakeQueue>::clone(&queue),
            clock: Arc::clone(&clock),
            ids: Arc::new(SeededIds::new(1)),
        };
        let engine = Engine::new(ports, Settings::default());
        Self { function: Function::new(engine.clone(), clock), engine, queue }
    }

    fn answer(&self, event: &Value) -> Value {
        serde_json::from_slice(&self.function.answer(event.to_string().as_bytes())).unwrap()
    }

    /// The id of a new task.
    fn accept(&self) -> String {
        task_id(&self.answer(&call())).to_owned()
    }

    fn delivery(&self) -> Delivery {
        let received = self.function.runtime.block_on(self.queue.receive(1, HIDDEN_MS, 0));
        received.unwrap().pop().expect("a call was accepted")
    }

    fn run(&self, delivery: &Delivery) {
        let (runner, signals) = (self.function.mcp.runner(), WorkerSignals::default());
        let disposition = self.function.runtime.block_on(self.engine.run_delivery(delivery, &*runner, &signals));
        assert_eq!(disposition, Disposition::Acknowledge);
    }

    fn poll_of_a_completed_task(&self) -> Vec<u8> {
        let poll = poll_of(&self.accept());
        self.run(&self.delivery());
        let polled = self.answer(&poll);
        assert_eq!(polled["result"]["status"], "completed", "{polled}");
        poll.to_string().into_bytes()
    }
}
