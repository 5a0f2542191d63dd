//! How soon a function asks for work after its process was started, compared with a minimal function.

use std::path::Path;
use std::time::Duration;

use super::setup::Setup;
use crate::figures::{Figure, Target};
use crate::function::Function;
use crate::ground::endpoint;

/// How often each function is started.
const STARTS: usize = 20;

/// The pause before a start. The emulator and the kernel are still busy with the end of the previous function, and the
/// next measurement would include this work.
const PAUSE: Duration = Duration::from_millis(50);

/// How much later than the minimal function the functions may ask for work.
const TIMES_MAX: f64 = 1.3;

/// The settings with which a function verifies access tokens. Nothing is fetched before the first token comes.
const TOKENS: [(&str, &str); 3] = [
    ("LONGHAUL_AUTH", "oauth"),
    ("LONGHAUL_OAUTH_ISSUERS", "https://id.example.com"),
    ("LONGHAUL_OAUTH_AUDIENCES", "https://mcp.example.com/mcp"),
];

/// The measured starts of one function.
struct Starts<'a> {
    name: &'static str,
    program: &'a Path,
    env: Vec<(String, String)>,
    ready_ms: Vec<f64>,
    cpu_ms: Vec<f64>,
}

/// Starts all functions in turn, repeatedly.
pub(super) async fn measure(setup: &Setup<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("start: {STARTS} starts of each function");
    let (programs, ground) = (&setup.programs, &setup.ground);
    let env = || ground.env(endpoint(), &[]);
    let calling = ground.env(endpoint(), &[("BARE_TABLE", &ground.table)]);
    let mut bare = Starts::of("bare", &programs.bare, calling);
    let mut silent = Starts::of("bare, without a call", &programs.bare, env());
    let mut api = Starts::of("api", &programs.api, env());
    let verifying = ground.env(endpoint(), &TOKENS);
    let mut tokens = Starts::of("api that verifies access tokens", &programs.api, verifying);
    let mut worker = Starts::of("worker", &programs.worker, env());
    // The first start finds nothing in the system's cache, and creates what instances share.
    for starts in [&bare, &silent, &api, &tokens, &worker] {
        drop(starts.start().await?);
    }
    for _ in 0..STARTS {
        for starts in [&mut bare, &mut silent, &mut api, &mut tokens, &mut worker] {
            tokio::time::sleep(PAUSE).await;
            let function = starts.start().await?;
            starts.ready_ms.push(function.ready().as_secs_f64() * 1e3);
            starts.cpu_ms.push(function.cpu()?.as_secs_f64() * 1e3);
        }
    }
    let target = Target::AtMostTimes(TIMES_MAX);
    let (ready, cpu) = (bare.ready(), bare.cpu());
    let mut figures: Vec<_> =
        [&api, &worker].map(|ours| ours.ready().target(target).compared_with("bare", &ready)).into();
    figures.push(tokens.ready().compared_with("api", &api.ready()));
    figures.extend([silent.ready().compared_with("bare", &ready), ready]);
    figures.extend([&api, &tokens, &worker, &silent].map(|starts| starts.cpu().compared_with("bare", &cpu)));
    figures.push(cpu);
    Ok(figures)
}

impl<'a> Starts<'a> {
    const fn of(name: &'static str, program: &'a Path, env: Vec<(String, String)>) -> Self {
        Self { name, program, env, ready_ms: Vec::new(), cpu_ms: Vec::new() }
    }

    async fn start(&self) -> anyhow::Result<Function> {
        Function::start(self.program, &self.env).await
    }

    fn ready(&self) -> Figure {
        Figure::new(format!("asks for work after start ({})", self.name), "ms", self.ready_ms.clone())
    }

    fn cpu(&self) -> Figure {
        Figure::new(format!("processor time until then ({})", self.name), "ms", self.cpu_ms.clone())
    }
}
