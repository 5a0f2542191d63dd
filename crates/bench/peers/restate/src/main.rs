//! The life of a task on Restate: a handler of steps, which Restate's server calls.
//!
//!     restate-life ADDRESS

use std::io::Write;
use std::time::Duration;

use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// What a life is to do.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    steps: u32,
    pause_ms: u64,
    log: Option<String>,
}

struct Life;

#[service]
impl Life {
    #[handler]
    async fn run(&self, context: Context<'_>, Json(asked): Json<Asked>) -> Result<u32, HandlerError> {
        let id = context.invocation_id().to_owned();
        let mut sum = 0;
        for number in 0..asked.steps {
            let (id, log) = (id.clone(), asked.log.clone());
            sum += context.run(|| step(id, number, asked.pause_ms, log)).name("step").await?;
        }
        Ok(sum)
    }
}

async fn step(id: String, number: u32, pause_ms: u64, log: Option<String>) -> Result<u32, HandlerError> {
    note(log.as_deref(), &format!("{id} begins {number}\n"))?;
    if pause_ms > 0 {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
    note(log.as_deref(), &format!("{id} ends {number}\n"))?;
    Ok(number)
}

fn note(log: Option<&str>, line: &str) -> std::io::Result<()> {
    let Some(log) = log else { return Ok(()) };
    std::fs::OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())
}

#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).expect("an address to listen on").parse().expect("it is not an address");
    HttpServer::new(Endpoint::builder().bind(Life).build()).listen_and_serve(address).await;
}
