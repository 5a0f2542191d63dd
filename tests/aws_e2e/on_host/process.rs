//! Functions on the Runtime API host, with the interface of the local suite's server, so that the same flows run
//! against both.

use std::sync::mpsc;
use std::thread::JoinHandle;

use harness::runtime_host::front_door::Mode;
use tokio::sync::oneshot;

use crate::aws_e2e::ground::Resources;

/// The table and queues of one test.
pub(crate) struct Setup {
    settings: &'static [(&'static str, &'static str)],
    resources: std::sync::Arc<Resources>,
}

/// Two instances of the API function, and a worker. Killed when dropped.
pub(crate) struct Functions {
    url: String,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Setup {
    /// The additional flows of clients with core tasks: anonymous callers get no list.
    pub(crate) const CORE_TASK_FLOWS: &[&str] = &["ask", "plain_ask", "no_list"];
    /// Where clients of `2026-07-28` may send an idempotency key: nowhere, since the callers are anonymous.
    pub(crate) const KEYS: &[&str] = &[];
    /// The additional flows of clients without tasks.
    pub(crate) const PLAIN_CALL_FLOWS: &[&str] = &["ask"];

    /// Functions with times that suit a test.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Functions that let clients without tasks wait for a second only.
    pub(crate) fn waiting_a_second() -> Self {
        Self::with(&[("LONGHAUL_INLINE_WAIT_S", "1")])
    }

    fn with(settings: &'static [(&'static str, &'static str)]) -> Self {
        let (created, resources) = mpsc::channel();
        in_background(async move { created.send(Resources::new().await).unwrap() }).join().unwrap();
        Self { settings, resources: resources.recv().unwrap().into() }
    }

    /// Starts the functions. They may be killed and started again on the same table.
    pub(crate) fn start(&self) -> Functions {
        let (ready, url) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let (resources, settings) = (std::sync::Arc::clone(&self.resources), self.settings);
        let running = in_background(async move {
            let frontend = resources.frontend_with(Mode::Streamed, settings).await;
            let _worker = resources.worker(None);
            ready.send(frontend.url().to_owned()).unwrap();
            // It ends at least with the test.
            drop(ended.await);
        });
        Functions { url: url.recv().unwrap(), end: Some(end), running: Some(running) }
    }
}

impl Functions {
    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// SIGKILL for all of them.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(running) = self.running.take() {
            drop(running.join());
        }
    }
}

/// Runs something next to the test, which may be synchronous.
fn in_background(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(work);
    })
}
