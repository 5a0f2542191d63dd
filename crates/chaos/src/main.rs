//! `chaos`: runs real servers under load, and kills, freezes and cuts them at random times. At the end it checks that
//! every accepted task has ended, once, with the right result. It also checks that work that must not be repeated was
//! not repeated. The schedule of faults, and the calls of clients, follow from a seed. The exact times do not.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::future_not_send,
    reason = "a testing program: it measures time, runs clients concurrently in one thread, prints, and indexes JSON \
              values"
)]

mod cable;
mod dice;
mod disk;
mod emulator;
mod faults;
mod functions;
mod job_system;
mod job_verdict;
mod jobs;
mod kinds;
mod machine;
mod processes;
mod report;
mod stage;
mod verdict;
mod visits;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use futures::future::join_all;
use longhaul_chaos::TICKS;

use crate::faults::Form;
use crate::job_system::Lie;
use crate::report::Happened;
use crate::stage::Stage;
use crate::verdict::Noted;
use crate::visits::Visit;

/// How late a run of the schedule may begin.
const TICK_MAX: Duration = Duration::from_secs(90);

/// So many faults of each kind are printed before the rest is only counted.
const SHOWN_MAX: usize = 20;

#[derive(Parser)]
#[command(about = "Kills, freezes and cuts real servers under load, and checks what was promised", version)]
struct Cli {
    /// The seed of the faults and the calls [default: a new one, which is printed].
    #[arg(long)]
    seed: Option<u64>,
    /// How long things go wrong, for each form.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many clients call at a time.
    #[arg(long, default_value_t = 16)]
    clients: u64,
    /// Which servers run; all in turn if none is named.
    #[arg(long, value_enum)]
    form: Vec<Form>,
    /// Let the system that runs jobs make a mistake on purpose, and fail if that is not found.
    #[arg(long, value_enum)]
    lie: Option<Lie>,
    /// Say each fault when it happens.
    #[arg(long)]
    verbose: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let seed = match cli.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let all = [Form::Local, Form::Instances, Form::Gateway, Form::Deployed];
    let forms = if cli.form.is_empty() { &all[..] } else { &cli.form };
    let mut broken = 0;
    for form in forms {
        broken += tokio::select! {
            broken = run(&cli, *form, seed) => broken?,
            // Everything that runs is ended, and what is mounted is unmounted.
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted.map(|()| ExitCode::from(130))?),
        };
    }
    if let (Some(lie), true) = (cli.lie, broken == 0) {
        println!("The mistake that was made on purpose ({lie:?}) was not found");
    }
    let expects_none = cli.lie.is_none();
    Ok(if (broken == 0) == expects_none { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one form, prints what was seen, and returns how many promises were broken.
async fn run(cli: &Cli, form: Form, seed: u64) -> anyhow::Result<usize> {
    println!("{}, seed {seed}: {} clients, faults for {} s", form.name(), cli.clients, cli.seconds);
    let (stage, from_s) = (Stage::start(form, cli.lie).await?, now_s()?);
    let time = Duration::from_secs(cli.seconds);
    let until = Instant::now() + time;
    let clients = (0..cli.clients).map(|client| visits::visit_until(&stage, form, seed, client, until));
    let (visits, faults) = futures::join!(join_all(clients), happen(&stage, form, cli, seed, time));
    let (visits, faults) = (visits.concat(), faults?);
    let mut broken = check(&stage, form, &visits).await;
    broken.extend(job_verdict::check(&stage, &visits, form.keys()).await?);
    broken.extend(check_schedule(&stage, form, from_s).await?);
    report::print(&stage, &faults, &visits);
    println!("  {}", report::row(form, seed, cli.seconds, &faults, &visits, broken.len()));
    for line in broken.iter().take(SHOWN_MAX) {
        println!("  BROKEN: {line}");
    }
    if !broken.is_empty() {
        println!(
            "  {} promises were broken, of {} tasks; seed {seed}. The last lines that the servers logged:",
            broken.len(),
            visits.len()
        );
        stage.log().iter().for_each(|line| println!("    {line}"));
    }
    Ok(broken.len())
}

fn now_s() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

async fn happen(stage: &Stage, form: Form, cli: &Cli, seed: u64, time: Duration) -> anyhow::Result<Vec<Happened>> {
    let (mut faults, until) = (Vec::new(), Instant::now() + time);
    for planned in form.plan(seed, time) {
        tokio::time::sleep(planned.after).await;
        // Faults take their time, so that the last ones of a plan may come too late.
        if Instant::now() >= until {
            break;
        }
        if !stage.can_suffer(planned.fault) {
            continue;
        }
        if cli.verbose {
            println!("  {}", planned.fault);
        }
        let at = Instant::now();
        let killed = stage.suffer(planned.fault).await?;
        faults.push(Happened { at, fault: planned.fault, killed });
    }
    Ok(faults)
}

async fn check(stage: &Stage, form: Form, visits: &[Visit]) -> Vec<String> {
    let mut broken = Vec::new();
    for visit in visits {
        let noted = Noted::of(stage, visit);
        let mut wrong = verdict::broken(visit, &noted, form.keys());
        if let (None, Some(id), Ok(end)) = (&wrong, &visit.id, &visit.end) {
            wrong = match visits::look_again(stage, form, id).await {
                Ok(now) => verdict::differs(end, now.as_ref()),
                Err(why) => Some(why),
            };
        }
        for id in noted.children.iter().flat_map(|noted| verdict::tasks(noted)) {
            let ended = visits::look_until_ended(stage, form, id).await;
            wrong = wrong.or_else(|| Some(format!("has the child {id}, which {}", ended.err()?)));
        }
        broken.extend(wrong.map(|wrong| format!("{} {} ({:?}) {wrong}", visit.kind.name(), visit.name, visit.id)));
    }
    broken
}

/// Waits for the last run of the schedule, where there is one, and says what is wrong.
async fn check_schedule(stage: &Stage, form: Form, from_s: u64) -> anyhow::Result<Option<String>> {
    if !form.has_schedule() {
        return Ok(None);
    }
    let (to_s, begun) = (now_s()?, Instant::now());
    loop {
        let noted = stage.noted(TICKS);
        let wrong = verdict::schedule_broken(&verdict::tasks(&noted), from_s, to_s);
        if wrong.is_none() || begun.elapsed() > TICK_MAX {
            return Ok(wrong);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
