//! Changes of the resources of servers, as they reach clients.

use std::io::Write;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::older::Older;
use super::process::{Gateway, Setup, is_alive, until};

/// How a server speaks.
const PROTOCOLS: [&[&str]; 2] = [&[], &["--per-request"]];

/// A gateway in front of the fixture in this mode.
fn in_front_of(modes: &[&str]) -> Setup {
    Setup::config(|setup| json!({"mcpServers": {"only": setup.server("subscriptions", modes)}}))
}

/// Changes a resource.
fn change(setup: &Setup, uri: &str) {
    let file = std::fs::OpenOptions::new().append(true).create(true).open(setup.path("changes"));
    writeln!(file.unwrap(), "{uri}").unwrap();
}

/// The resources that the server is subscribed to.
fn subscribed(setup: &Setup) -> String {
    setup.lines("subscribed").pop().unwrap_or_default()
}

/// A stream on which a client hears.
pub(crate) struct Hearing {
    answer: reqwest::Response,
    text: String,
}

impl Hearing {
    pub(crate) const fn new(answer: reqwest::Response) -> Self {
        Self { answer, text: String::new() }
    }

    /// A client of `2026-07-28` that listens to these resources.
    pub(crate) async fn listen(gateway: &Gateway, uris: &[&str]) -> Self {
        let params = json!({"notifications": {"resourceSubscriptions": uris}});
        let answer = gateway.caller().request("subscriptions/listen", params).send().await.unwrap();
        let mut hearing = Self::new(answer);
        let first = hearing.next().await.unwrap();
        assert_eq!(first["params"]["notifications"]["resourceSubscriptions"], json!(uris), "{first}");
        hearing
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data:")).map(str::to_owned);
                self.text = rest.to_owned();
                match data.filter(|data| !data.trim().is_empty()) {
                    Some(data) => return Some(serde_json::from_str(&data).unwrap()),
                    None => continue,
                }
            }
            let chunk = tokio::time::timeout(Duration::from_secs(60), self.answer.chunk()).await.unwrap().unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Waits until it hears that this resource has changed, and not that one of `others` has.
    pub(crate) async fn until_changed(&mut self, uri: &str, others: &[&str]) {
        loop {
            let message = self.next().await.unwrap();
            assert_eq!(message["method"], "notifications/resources/updated", "{message}");
            let changed = message["params"]["uri"].as_str().unwrap();
            assert!(!others.contains(&changed), "{message}");
            if changed == uri {
                return;
            }
        }
    }
}

#[tokio::test]
async fn changes_reach_those_who_listen_by_one_process_that_ends_with_the_last_of_them() {
    for protocol in PROTOCOLS {
        let (setup, gateway) = in_front_of(protocol).running();
        let before = setup.processes().len();
        let mut first = Hearing::listen(&gateway, &["fixture://one", "fixture://two"]).await;
        // The server is subscribed to now.
        first.until_changed("fixture://one", &[]).await;
        let mut second = Hearing::listen(&gateway, &["fixture://three", "fixture://two"]).await;
        second.until_changed("fixture://three", &["fixture://one"]).await;
        change(&setup, "fixture://three");
        second.until_changed("fixture://three", &["fixture://one"]).await;
        change(&setup, "fixture://one");
        first.until_changed("fixture://one", &["fixture://three"]).await;
        assert_eq!(setup.processes().len(), before + 1, "{protocol:?}");
        drop(first);
        until("one resource less", || subscribed(&setup) == "fixture://three fixture://two").await;
        drop(second);
        setup.until_all_have_ended().await;
    }
}

#[tokio::test]
async fn a_server_that_died_is_subscribed_to_again_and_its_listeners_are_told() {
    for protocol in PROTOCOLS {
        let (setup, gateway) = in_front_of(protocol).running();
        let mut hearing = Hearing::listen(&gateway, &["fixture://one"]).await;
        hearing.until_changed("fixture://one", &[]).await;
        let process = setup.processes().pop().unwrap();
        let id = Pid::from_raw(process.parse().unwrap()).unwrap();
        kill_process(id, Signal::KILL).unwrap();
        // It may have changed meanwhile.
        hearing.until_changed("fixture://one", &[]).await;
        assert!(!is_alive(&process));
        change(&setup, "fixture://one");
        hearing.until_changed("fixture://one", &[]).await;
    }
}

#[tokio::test]
async fn what_a_server_does_not_tell_is_not_accepted() {
    let (setup, gateway) = in_front_of(&["--refuses"]).running();
    let mut hearing = Hearing::listen(&gateway, &["fixture://one"]).await;
    let end = hearing.next().await.unwrap();
    assert_eq!(end["error"]["message"], "nobody may know", "{end}");
    let client = Older::begin(&gateway).await;
    let _stream = client.stream().await;
    let refused = client.subscribe("fixture://one").await;
    assert_eq!(refused["error"]["message"], "nobody may know", "{refused}");
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn a_client_of_an_older_revision_hears_on_the_stream_of_its_session() {
    for protocol in PROTOCOLS {
        let (setup, gateway) = in_front_of(protocol).running();
        let client = Older::begin(&gateway).await;
        let mut hearing = client.stream().await;
        assert_eq!(client.subscribe("fixture://one").await["result"], json!({}));
        until("the subscription", || subscribed(&setup) == "fixture://one").await;
        change(&setup, "fixture://one");
        hearing.until_changed("fixture://one", &[]).await;
        assert_eq!(client.subscribe("fixture://two").await["result"], json!({}));
        hearing.until_changed("fixture://two", &[]).await;
        client.messages("resources/unsubscribe", &json!({"uri": "fixture://one"})).await;
        until("one resource less", || subscribed(&setup) == "fixture://two").await;
        // Its next stream continues with the resources that it has subscribed to.
        drop(hearing);
        setup.until_all_have_ended().await;
        let mut again = client.stream().await;
        again.until_changed("fixture://two", &["fixture://one"]).await;
        until("the subscription", || setup.processes().iter().any(|process| is_alive(process))).await;
    }
}

#[tokio::test]
async fn a_session_without_a_stream_cannot_subscribe() {
    let (_setup, gateway) = in_front_of(&[]).running();
    let refused = Older::begin(&gateway).await.subscribe("fixture://one").await;
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("has no stream"), "{why}");
}

/// A gateway speaks all revisions, as a server and as a client.
#[tokio::test]
async fn changes_pass_through_two_gateways_in_both_eras() {
    for protocol in ["2026-07-28", "2025-11-25"] {
        let behind = in_front_of(&[]);
        let inner = behind.start();
        let outer = Setup::config(|_| {
            let longhaul = json!({"servers": {"inner": {"protocol": protocol}}});
            json!({"mcpServers": {"inner": {"url": inner.url()}}, "longhaul": longhaul})
        });
        let gateway = outer.start();
        let mut hearing = Hearing::listen(&gateway, &["fixture://one"]).await;
        hearing.until_changed("fixture://one", &[]).await;
        until("the subscription", || subscribed(&behind) == "fixture://one").await;
        change(&behind, "fixture://one");
        hearing.until_changed("fixture://one", &[]).await;
    }
}
