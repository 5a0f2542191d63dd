//! The processes of a gateway's servers, as Prometheus reads them.

use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::pool::pool_of;
use super::process::{Setup, words};

/// A running gateway with metrics, and where they are.
struct Scraped {
    gateway: super::process::Gateway,
    url: String,
}

impl Scraped {
    fn start(setup: &Setup) -> Self {
        let address = format!("127.0.0.1:{}", harness::free_port());
        let gateway = setup.with(&["--metrics-listen", &address]).start();
        Self { gateway, url: format!("http://{address}/metrics") }
    }

    async fn scrape(&self) -> String {
        reqwest::get(&self.url).await.unwrap().text().await.unwrap()
    }

    /// Waits until a scrape has this line.
    async fn until_it_has(&self, line: &str) {
        let begun = std::time::Instant::now();
        loop {
            let scraped = self.scrape().await;
            if scraped.lines().any(|one| one == line) {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "there is no `{line}` in:\n{scraped}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

fn processes(server: &str, state: &str, count: usize) -> String {
    format!("longhaul_gateway_processes{{server=\"{server}\",state=\"{state}\"}} {count}")
}

fn restarts(server: &str, count: usize) -> String {
    format!("longhaul_gateway_process_restarts_total{{server=\"{server}\"}} {count}")
}

#[tokio::test]
async fn a_killed_process_is_replaced_and_that_is_a_restart() {
    let setup = pool_of(1, &json!({}));
    let scraped = Scraped::start(&setup);
    let who = async || words(&scraped.gateway.ended("who", json!({})).await).split_once(' ').unwrap().0.to_owned();
    let first = who().await;
    scraped.until_it_has(&processes("only", "running", 1)).await;
    scraped.until_it_has(&restarts("only", 0)).await;
    kill_process(Pid::from_raw(first.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    scraped.until_it_has(&processes("only", "running", 0)).await;
    assert_ne!(who().await, first);
    scraped.until_it_has(&processes("only", "running", 1)).await;
    scraped.until_it_has(&restarts("only", 1)).await;
}

#[tokio::test]
async fn a_process_per_call_that_ends_with_its_call_is_not_a_restart() {
    let setup = Setup::fixture(&[]);
    let scraped = Scraped::start(&setup);
    for _ in 0..3 {
        scraped.gateway.ended("count", json!({})).await;
    }
    scraped.until_it_has(&processes("only", "running", 0)).await;
    scraped.until_it_has(&restarts("only", 0)).await;
}

#[tokio::test]
async fn a_process_that_does_not_answer_is_starting_until_its_time_has_elapsed() {
    let setup = Setup::config(|setup| {
        let mut silent = setup.fixture_entry(&[]);
        silent["command"] = json!(setup.path("silent"));
        json!({
            "mcpServers": {"there": setup.fixture_entry(&[]), "silent": silent},
            "longhaul": {"servers": {"silent": {"startAtMost": "2s"}}}
        })
    });
    let scraped = Scraped::start(&setup);
    scraped.until_it_has(&processes("silent", "starting", 0)).await;
    let script = setup.path("silent");
    std::fs::write(setup.path("new"), "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(setup.path("new"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::rename(setup.path("new"), script).unwrap();
    scraped.until_it_has(&processes("silent", "starting", 1)).await;
    scraped.until_it_has(&restarts("silent", 1)).await;
    assert!(scraped.scrape().await.contains(&processes("silent", "running", 0)));
}
