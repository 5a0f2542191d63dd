//! How often a call on a local server waits for the disk: what the server is put together of is what the engine's own
//! test of this counts.

use std::net::SocketAddr;
use std::path::Path;

use crate::call_of;
use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, Running};
use longhaul::{Server, TaskPolicy};
use longhaul_core::settings::table;

/// Calls, one after the other. The cheapest counts: where the machine is slow, what nobody waits for may be committed
/// alone.
const CALLS: usize = 20;

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn short(&self) -> String {
        String::new()
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

async fn call(running: &Running) {
    assert!(call_of("short", running).send().await.unwrap().status().is_success());
}

/// The transactions in the log beside the database, from which nothing has been moved into the database yet.
fn transactions(db: &Path) -> usize {
    let log = std::fs::read(db.with_extension("db-wal")).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let (page_bytes, salt) = (number(&log[8..12]) as usize, &log[16..24]);
    let pages = log[32..].chunks_exact(24 + page_bytes).filter(|page| page[8..16] == *salt);
    pages.filter(|page| number(&page[4..8]) != 0).count()
}

#[tokio::test]
async fn a_call_waits_for_the_disk_three_times() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("tasks.db");
    let options =
        Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0))).with(&table::DB, db.as_path());
    let server = Server::new(|| Tools).task("short", TaskPolicy::optional());
    let running = serve::start(&server, &options).await.unwrap();
    call(&running).await;
    let mut fewest = usize::MAX;
    for _ in 0..CALLS {
        let before = transactions(&db);
        call(&running).await;
        fewest = fewest.min(transactions(&db) - before);
    }
    running.stop().await;
    assert_eq!(fewest, 3, "the record, which stands for its message, the claim, the end");
}
