//! The time that the gateway adds to a call of a server over stdio that answers at once, next to that of two other
//! proxies.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::load::Latencies;
use crate::servers::stdio::ANSWER;
use crate::session::{Direct, Session};
use crate::spawned::Spawned;
use crate::wire;

/// How often each way is measured in a round.
const TURNS: u32 = 200;

/// How often each way is run before anything is measured.
const WARM_UP: u32 = 20;

/// Servers behind the gateway whose memory is measured, and calls of each.
const SERVERS: usize = 8;
const CALLS: usize = 50;

/// The highest cost of a plain call through the gateway above that of one without it, in milliseconds.
const ADDED_MS_MAX: f64 = 1.0;

/// The memory of the gateway with all these servers, in MiB.
const MEMORY_MIB_MAX: f64 = 40.0;

/// The programs that are compared.
struct Programs {
    own: PathBuf,
    longhaul: PathBuf,
    python: PathBuf,
    mcp_proxy: PathBuf,
}

impl Programs {
    fn find(plan: &Plan) -> anyhow::Result<Self> {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/tools/bin");
        let (python, mcp_proxy) = (tools.join("python"), tools.join("mcp-proxy"));
        let longhaul = plan.own.with_file_name("longhaul");
        for program in [&longhaul, &python, &mcp_proxy] {
            ensure!(program.is_file(), "{} is missing; `make bench` installs and builds it", program.display());
        }
        Ok(Self { own: plan.own.clone(), longhaul, python, mcp_proxy })
    }

    /// The gateway in front of `servers` servers. Calls of their tool `plain` become no tasks.
    async fn gateway(&self, plan: &Plan, servers: usize) -> anyhow::Result<Spawned> {
        let entry = json!({"command": self.own, "args": ["serve-stdio"]});
        let named: serde_json::Map<String, Value> =
            (0..servers).map(|number| (format!("s{number}"), entry.clone())).collect();
        let terms = json!({"process": "pool", "tools": {"plain": {"task": "never"}}});
        let terms: serde_json::Map<String, Value> = named.keys().map(|name| (name.clone(), terms.clone())).collect();
        let config = plan.file(&format!("gateway-{servers}.json"));
        std::fs::write(&config, json!({"mcpServers": named, "longhaul": {"servers": terms}}).to_string())?;
        let db = plan.file(&format!("gateway-{servers}.db"));
        Spawned::start(|address| {
            let mut command = Command::new(&self.longhaul);
            command.arg("gateway").arg("--listen").arg(address.to_string());
            command.arg("--db").arg(db).arg("--config").arg(config);
            command
        })
        .await
    }

    async fn fastmcp(&self) -> anyhow::Result<Spawned> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/measure/fastmcp_proxy.py");
        Spawned::listening(|address: SocketAddr| {
            let mut command = Command::new(&self.python);
            command.arg(script).arg(address.port().to_string()).arg(&self.own).arg("serve-stdio");
            command
        })
        .await
    }

    async fn mcp_proxy(&self) -> anyhow::Result<Spawned> {
        Spawned::listening(|address: SocketAddr| {
            let mut command = Command::new(&self.mcp_proxy);
            command.arg("--port").arg(address.port().to_string()).arg("--").arg(&self.own).arg("serve-stdio");
            command
        })
        .await
    }
}

/// Calls the server in each way in turn, repeatedly.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let programs = Programs::find(plan)?;
    let mut figures = calls(plan, &programs).await?;
    figures.push(memory(plan, &programs).await?);
    Ok(figures)
}

async fn calls(plan: &Plan, programs: &Programs) -> anyhow::Result<Vec<Figure>> {
    eprintln!("gateway: {} rounds of {TURNS} turns", plan.rounds);
    let (ours, fastmcp, mcp_proxy) =
        (programs.gateway(plan, 1).await?, programs.fastmcp().await?, programs.mcp_proxy().await?);
    let mut direct = Direct::begin(&programs.own).await?;
    let mut plain = Session::begin(ours.address()).await?;
    let mut durable = Connection::open(ours.address()).await?;
    let mut by_fastmcp = Session::begin(fastmcp.address()).await?;
    let mut by_mcp_proxy = Session::begin(mcp_proxy.address()).await?;
    let mut rounds: [Vec<f64>; 5] = Default::default();
    for turns in std::iter::once(WARM_UP).chain((0..plan.rounds).map(|_| TURNS)) {
        let mut latencies: [Latencies; 5] = Default::default();
        let [direct_ms, plain_ms, durable_ms, fastmcp_ms, mcp_proxy_ms] = &mut latencies;
        for _ in 0..turns {
            direct_ms.time(direct.call("plain")).await?;
            plain_ms.time(plain.call("plain")).await?;
            durable_ms.time(call_durably(&mut durable)).await?;
            fastmcp_ms.time(by_fastmcp.call("plain")).await?;
            mcp_proxy_ms.time(by_mcp_proxy.call("plain")).await?;
        }
        if turns == TURNS {
            for (round, mut latencies) in rounds.iter_mut().zip(latencies) {
                round.push(latencies.percentile_ms(50));
            }
        }
    }
    let peaks = [("the gateway", &ours), ("FastMCP's proxy", &fastmcp), ("mcp-proxy", &mcp_proxy)];
    let mut figures = latency_figures(rounds);
    for (name, server) in peaks {
        let peak = vec![server.memory_peak_mib()?];
        figures.push(Figure::new(format!("peak memory of {name}, 1 server"), "MiB", peak));
    }
    Ok(figures)
}

/// A call that becomes a task, whose answer comes with it.
async fn call_durably(connection: &mut Connection) -> anyhow::Result<()> {
    let answer = connection.send(wire::call("durable", "{}")?).await?;
    let answer = String::from_utf8_lossy(&answer);
    ensure!(answer.contains(ANSWER), "not the tool's answer: {answer}");
    Ok(())
}

fn latency_figures(rounds: [Vec<f64>; 5]) -> Vec<Figure> {
    let [direct, plain, durable, fastmcp, mcp_proxy] = rounds;
    let added: Vec<f64> = plain.iter().zip(&direct).map(|(plain, direct)| plain - direct).collect();
    let p50 = |what: &str, rounds| Figure::new(format!("p50 of a call {what}"), "ms", rounds);
    let plain = p50("through the gateway, plain", plain);
    vec![
        p50("of the server itself", direct),
        Figure::new("what the gateway adds to it", "ms", added).target(Target::AtMost(ADDED_MS_MAX)),
        p50("through the gateway, as a task", durable).compared_with("plain", &plain),
        p50("through FastMCP's proxy", fastmcp).compared_with("the gateway", &plain),
        p50("through mcp-proxy", mcp_proxy).compared_with("the gateway", &plain),
        plain,
    ]
}

/// The gateway's own memory, without its servers, after calls of all of them.
async fn memory(plan: &Plan, programs: &Programs) -> anyhow::Result<Figure> {
    let gateway = programs.gateway(plan, SERVERS).await?;
    let mut session = Session::begin(gateway.address()).await?;
    let mut connection = Connection::open(gateway.address()).await?;
    for number in 0..SERVERS {
        for _ in 0..CALLS {
            session.call(&format!("s{number}_plain")).await?;
            connection.send(wire::call(&format!("s{number}_durable"), "{}")?).await?;
        }
    }
    let peak = gateway.memory_peak_mib()?;
    gateway.stop()?;
    let name = format!("peak memory of the gateway, {SERVERS} servers");
    Ok(Figure::new(name, "MiB", vec![peak]).target(Target::Below(MEMORY_MIB_MAX)))
}
