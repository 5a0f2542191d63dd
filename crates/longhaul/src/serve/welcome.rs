//! The text that a server prints when it is ready: URLs, how a client is configured, tools, and where tasks are kept.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use longhaul_core::settings::table::{self, Role};
use serde_json::json;

use super::options::{Config, LocalCallers};
use super::storage::Storage;
use crate::Server;

#[derive(Debug)]
pub(super) struct Welcome {
    name: String,
    role: Role,
    /// The beginning of the URLs.
    base: String,
    has_console: bool,
    needs_token: bool,
    tools: usize,
    durable: usize,
    tasks: String,
}

impl Welcome {
    /// The text of this server. `storage` is `None` if the program has a store of its own.
    pub(super) async fn of(server: &Server, address: SocketAddr, storage: Option<&Storage>, config: &Config) -> Self {
        let (outline, tasks) = (server.outline().await, server.tasks());
        Self {
            name: outline.name.unwrap_or_default(),
            role: config.role,
            base: format!("http://{}", reachable(address)),
            has_console: config.console != table::Console::Off,
            needs_token: matches!(config.callers, LocalCallers::WithToken(_)),
            tools: outline.tools.len(),
            durable: outline.tools.iter().filter(|tool| tasks.get(tool).is_some()).count(),
            tasks: place(storage),
        }
    }

    /// Prints it on standard output. A program whose output is closed serves all the same.
    pub(super) fn print(&self) {
        let mut out = std::io::stdout().lock();
        if let Err(error) = write!(out, "{self}").and_then(|()| out.flush()) {
            tracing::debug!(%error, "standard output cannot be written");
        }
    }

    fn client(&self) -> String {
        let mut entry = json!({"type": "http", "url": format!("{}/mcp", self.base)});
        if let (true, Some(entry)) = (self.needs_token, entry.as_object_mut()) {
            entry.insert("headers".to_owned(), json!({"Authorization": "Bearer TOKEN"}));
        }
        json!({"mcpServers": {self.name.as_str(): entry}}).to_string()
    }
}

impl fmt::Display for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, base, tasks, .. } = self;
        if self.role == Role::Worker {
            writeln!(f, "{name} runs tasks; its health is on {base}/healthz and {base}/readyz\n")?;
        } else {
            writeln!(f, "{name} serves MCP on {base}/mcp\n")?;
        }
        if self.tools > 0 {
            writeln!(f, "  tools    {} ({} durable)", self.tools, self.durable)?;
        }
        writeln!(f, "  tasks    {tasks}")?;
        if self.has_console {
            writeln!(f, "  console  {base}{}", longhaul_console::PATH)?;
        }
        if self.role == Role::Worker {
            return Ok(());
        }
        let with_token = if self.needs_token { ", with its token instead of TOKEN" } else { "" };
        writeln!(f, "\nConfiguration for a client{with_token}:\n\n{}\n", self.client())
    }
}

/// The address for a client on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn place(storage: Option<&Storage>) -> String {
    match storage {
        Some(Storage::File(file)) if Storage::is_memory(file) => {
            "in memory only: they are lost when the server stops".to_owned()
        }
        Some(Storage::File(file)) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            format!("in the file {}", file.display())
        }
        #[cfg(feature = "aws")]
        Some(Storage::Aws { table, queue_url }) => format!("in the table {table}, with the queue {queue_url}"),
        None => "in the program's own store".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            name: "reports".to_owned(),
            role: Role::All,
            base: "http://127.0.0.1:8080".to_owned(),
            has_console: true,
            needs_token: false,
            tools: 3,
            durable: 2,
            tasks: place(Some(&Storage::File("/srv/longhaul.db".into()))),
        }
    }

    #[test]
    fn a_user_is_told_what_to_do_next() {
        let expected = r#"reports serves MCP on http://127.0.0.1:8080/mcp

  tools    3 (2 durable)
  tasks    in the file /srv/longhaul.db
  console  http://127.0.0.1:8080/console

Configuration for a client:

{"mcpServers":{"reports":{"type":"http","url":"http://127.0.0.1:8080/mcp"}}}

"#;
        assert_eq!(welcome().to_string(), expected);
    }

    #[test]
    fn a_client_of_a_server_with_tokens_sends_one() {
        let said = Welcome { needs_token: true, has_console: false, ..welcome() }.to_string();
        assert!(said.contains("with its token instead of TOKEN:"), "{said}");
        assert!(said.contains(r#""headers":{"Authorization":"Bearer TOKEN"}"#), "{said}");
        assert!(!said.contains("console"), "{said}");
    }

    #[test]
    fn a_worker_says_where_its_health_is_and_nothing_of_clients() {
        let said = Welcome { role: Role::Worker, has_console: false, ..welcome() }.to_string();
        assert!(said.starts_with("reports runs tasks; its health is on http://127.0.0.1:8080/healthz and "), "{said}");
        assert!(!said.contains("/mcp") && !said.contains("client"), "{said}");
    }

    #[test]
    fn tasks_that_are_lost_with_the_process_are_no_surprise() {
        assert!(place(Some(&Storage::File(":memory:".into()))).starts_with("in memory only"));
    }

    #[test]
    fn a_server_that_listens_everywhere_is_reached_on_this_machine() {
        let reached = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "[::1]:80");
        assert_eq!(reached("192.0.2.7:80"), "192.0.2.7:80");
    }
}
