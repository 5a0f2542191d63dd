//! Functions on the Runtime API host. They speak as the local suite's server does, so that the same flows run against both.

use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::ground::Ground;
pub(crate) use crate::process::output_of;
use crate::runtime_host::front_door::Mode;

/// A table and queues of a test's own.
pub(crate) struct Setup {
    settings: &'static [(&'static str, &'static str)],
    ground: std::sync::Arc<Ground>,
}

/// Two instances of the API function, and a worker. Killed when dropped.
pub(crate) struct Functions {
    url: String,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Setup {
    /// What clients with core tasks do with these functions besides: those who cannot be told apart see nobody's list.
    pub(crate) const CORE_TASK_FLOWS: &[&str] = &["ask", "plain_ask", "no_list"];
    /// What clients without tasks do besides.
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
        let (made, ground) = mpsc::channel();
        beside(async move { made.send(Ground::new().await).unwrap() }).join().unwrap();
        Self { settings, ground: ground.recv().unwrap().into() }
    }

    /// Starts the functions. Others on the same table may follow them.
    pub(crate) fn start(&self) -> Functions {
        let (ready, url) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let (ground, settings) = (std::sync::Arc::clone(&self.ground), self.settings);
        let running = beside(async move {
            let door = ground.front_door_with(Mode::Streamed, settings).await;
            let _worker = ground.worker(None);
            ready.send(door.url().to_owned()).unwrap();
            // It ends with the test at the latest.
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

/// Runs something beside the test, which may be one that waits without async.
fn beside(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(work);
    })
}
