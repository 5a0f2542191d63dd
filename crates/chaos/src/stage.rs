//! The servers that run, and the faults that are injected into them.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;
use url::Url;

use crate::cable::{Cable, Passage};
use crate::disk::Disk;
use crate::emulator::Emulator;
use crate::faults::{Fault, Form, Network};
use crate::functions::Functions;
use crate::job_system::{JobSystem, Lie};
use crate::machine::Machine;
use crate::processes::processes;

/// How long a slow network stays slow.
const SLOW: Duration = Duration::from_secs(3);

/// How long a disk is full before a server is started on it.
const FULL_BEFORE_START: Duration = Duration::from_millis(100);

/// How long a server may take to answer after its start.
const READY_MAX: Duration = Duration::from_secs(60);

const CHILD: &str = include_str!("child.py");

/// Everything that runs.
pub(crate) struct Stage {
    // Fields are dropped in this order: the folder is removed when nothing runs there, and nothing is mounted.
    servers: Vec<Server>,
    disk: Option<Disk>,
    emulator: Option<(Emulator, Cable)>,
    functions: Option<Functions>,
    jobs: JobSystem,
    machine: Option<Machine>,
    folder: tempfile::TempDir,
}

/// A server that may be started again on its address.
struct Server {
    address: SocketAddr,
    /// How clients reach it.
    cable: Cable,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    child: Mutex<Option<Child>>,
}

impl Stage {
    /// Starts the servers of a form.
    pub(crate) async fn start(form: Form, lie: Option<Lie>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("chaos").tempdir()?;
        fs::create_dir(folder.path().join("ledger"))?;
        let within = |name: &str| text(&folder.path().join(name));
        let jobs = JobSystem::start(&within("ledger")?, &within("callbacks")?, lie).await?;
        let mut stage =
            Self { servers: Vec::new(), disk: None, emulator: None, functions: None, jobs, machine: None, folder };
        match form {
            Form::Local => {
                let command = Programs::find()?.server(&stage.tool_env()?);
                let disk = stage.folder.path().join("disk");
                match Disk::mount(&disk) {
                    Ok(mounted) => stage.disk = Some(mounted),
                    Err(error) => println!("  The disk is never full, because none can be mounted here: {error}"),
                }
                fs::create_dir_all(&disk)?;
                let db = text(&disk.join("tasks.db"))?;
                stage.add(move |address| with(&command, address, &["--db", &db])).await?;
            }
            Form::Deployed => {
                let emulator = Emulator::start(&stage.path("emulator.log")?)?;
                let machine = Machine::create(emulator.endpoint()).await?;
                stage.machine = Some(machine);
                let functions = Functions::deploy(stage.folder.path(), emulator.endpoint(), &stage.tool_env()?)?;
                let cable = Cable::to(functions.address()?).await?;
                (stage.emulator, stage.functions) = (Some((emulator, cable)), Some(functions));
            }
            Form::Gateway => stage.add_gateway().await?,
            Form::Instances => stage.add_instances(form.servers()).await?,
        }
        for server in &stage.servers {
            server.begin(&stage.path("log")?)?;
        }
        stage.until_ready().await?;
        let urls = (0..form.servers()).map(|server| Ok(stage.url(server)?.join("callbacks/")?.to_string()));
        let urls = urls.collect::<anyhow::Result<Vec<_>>>()?;
        fs::write(stage.path("callbacks")?, urls.join("\n"))?;
        Ok(stage)
    }

    /// Starts an emulator with a state machine, and returns how it is reached.
    async fn add_emulator(&mut self) -> anyhow::Result<String> {
        let emulator = Emulator::start(&self.path("emulator.log")?)?;
        let cable = Cable::to(emulator.address()?).await?;
        self.machine = Some(Machine::create(emulator.endpoint()).await?);
        let endpoint = format!("http://{}", cable.address());
        self.emulator = Some((emulator, cable));
        Ok(endpoint)
    }

    async fn add_gateway(&mut self) -> anyhow::Result<()> {
        let endpoint = self.add_emulator().await?;
        fs::write(self.path("child.py")?, CHILD)?;
        let child = json!({"command": "python3", "args": [self.path("child.py")?, self.path("ledger")?]});
        let mut config = json!({"mcpServers": {"child": child}, "longhaul": {"servers": {"child": {"prefix": ""}}}});
        for (name, entry) in self.jobs.entries(self.machine.as_ref().map(Machine::arn).unwrap_or_default()) {
            config["mcpServers"][name] = entry;
        }
        fs::write(self.path("config.json")?, config.to_string())?;
        let program = vec![Programs::find()?.longhaul, "gateway".to_owned()];
        let (db, config) = (self.path("tasks.db")?, self.path("config.json")?);
        self.add(move |address| on_emulator(with(&program, address, &["--db", &db, "--config", &config]), &endpoint))
            .await
    }

    async fn add_instances(&mut self, count: usize) -> anyhow::Result<()> {
        let endpoint = self.add_emulator().await?;
        let (emulator, _) = self.emulator.as_ref().context("there is an emulator")?;
        let ground = emulator.ground().await;
        let command = Programs::find()?.server(&self.tool_env()?);
        let (store, queue) = (format!("dynamodb:{}", ground.table), format!("sqs:{}", ground.queue_url));
        for _ in 0..count {
            let (command, store, queue, endpoint) = (command.clone(), store.clone(), queue.clone(), endpoint.clone());
            self.add(move |address| {
                let mut command = with(&command, address, &["--store", &store, "--queue", &queue]);
                command.args(["--lease-ms", "3000", "--heartbeat-ms", "600", "--resend-ms", "4000"]);
                on_emulator(command, &endpoint)
            })
            .await?;
        }
        Ok(())
    }

    async fn add(&mut self, command: impl Fn(SocketAddr) -> Command + Send + Sync + 'static) -> anyhow::Result<()> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (cable, command) = (Cable::to(address).await?, Box::new(move || command(address)));
        self.servers.push(Server { address, cable, command, child: Mutex::new(None) });
        Ok(())
    }

    fn path(&self, name: &str) -> anyhow::Result<String> {
        text(&self.folder.path().join(name))
    }

    /// The environment of the server's tools.
    fn tool_env(&self) -> anyhow::Result<String> {
        let machine = self.machine.iter().map(|machine| format!(",MACHINE={}", machine.arn()));
        let machine = machine.collect::<String>();
        Ok(format!("LEDGER={},JOBS={}{machine}", self.path("ledger")?, self.jobs.url()))
    }

    /// The notes of the state machine's executions: the name of each, and a line as tools note them.
    pub(crate) async fn executions(&self) -> anyhow::Result<Vec<(String, String)>> {
        match &self.machine {
            Some(machine) => machine.noted().await,
            None => Ok(Vec::new()),
        }
    }

    /// The lines that tools noted under this name.
    pub(crate) fn noted(&self, name: &str) -> Vec<String> {
        let noted = fs::read_to_string(self.folder.path().join("ledger").join(name)).unwrap_or_default();
        noted.lines().map(str::to_owned).collect()
    }

    /// The last warnings and errors that the servers logged.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<String> =
            log.lines().filter(|line| !line.contains(r#""level":"INFO""#)).map(str::to_owned).collect();
        lines.into_iter().rev().take(20).rev().collect()
    }

    /// Where clients find a server.
    pub(crate) fn url(&self, server: usize) -> anyhow::Result<Url> {
        if let (Some(functions), Some((_, cable))) = (&self.functions, &self.emulator) {
            return functions.url(cable.address());
        }
        let server = self.servers.get(server).context("the server does not exist")?;
        Ok(format!("http://{}/mcp", server.cable.address()).parse()?)
    }

    /// Whether the fault can happen here.
    pub(crate) const fn can_suffer(&self, fault: Fault) -> bool {
        !matches!(fault, Fault::FillDisk(_) | Fault::StartOnFullDisk(_)) || self.disk.is_some()
    }

    /// Makes the fault happen, to its end. Returns how many processes it has killed.
    pub(crate) async fn suffer(&self, fault: Fault) -> anyhow::Result<usize> {
        let mut killed = 0;
        match fault {
            Fault::Kill { server, down } => {
                let server = self.servers.get(server).context("the server does not exist")?;
                killed = server.kill();
                tokio::time::sleep(down).await;
                server.begin(&self.path("log")?)?;
            }
            Fault::Freeze { server, time } => {
                let server = self.servers.get(server).context("the server does not exist")?;
                stopped(time, |signal| server.signal(signal)).await;
            }
            Fault::KillChild { child } => {
                let running = children(&self.path("child.py")?);
                let hit = running.get(child).map(|pid| kill_process(*pid, Signal::KILL));
                killed = hit.into_iter().filter(Result::is_ok).count();
            }
            Fault::PauseStore(time) => {
                let emulators = || self.emulator.iter().map(|(emulator, _)| emulator);
                stopped(time, |signal| emulators().for_each(|emulator| emulator.signal(signal))).await;
            }
            Fault::KillFunction(function) => {
                killed = self.functions.iter().map(|functions| functions.kill(function)).sum();
            }
            Fault::Cut(network, time) => self.pass(network, Passage::Cut, time).await,
            Fault::Slow(network, delay) => self.pass(network, Passage::Open(delay), SLOW).await,
            Fault::LoseAnswers(network, time) => self.pass(network, Passage::OneWay, time).await,
            Fault::FreezeJobs(time) => stopped(time, |signal| self.jobs.signal(signal)).await,
            Fault::FillDisk(time) => self.fill_disk(time).await?,
            Fault::StartOnFullDisk(time) => {
                let server = self.servers.first().context("there is no server")?;
                killed = server.kill();
                let start = async {
                    tokio::time::sleep(FULL_BEFORE_START).await;
                    server.begin(&self.path("log")?)
                };
                futures::future::try_join(self.fill_disk(time), start).await?;
                // It may have ended because it could not write, and is started again, as a supervisor would.
                if server.has_ended() {
                    server.begin(&self.path("log")?)?;
                }
            }
        }
        Ok(killed)
    }

    async fn fill_disk(&self, time: Duration) -> anyhow::Result<()> {
        match &self.disk {
            Some(disk) => disk.fill(time).await,
            None => Ok(()),
        }
    }

    async fn pass(&self, network: Network, passage: Passage, time: Duration) {
        let to_emulator = || self.emulator.iter().map(|(_, cable)| cable);
        let cables: Vec<&Cable> = match network {
            // Clients of the functions reach them through the emulator.
            Network::Clients => self
                .servers
                .iter()
                .map(|server| &server.cable)
                .chain(self.functions.iter().flat_map(|_| to_emulator()))
                .collect(),
            Network::Store => to_emulator().collect(),
            Network::Jobs => vec![self.jobs.cable()],
        };
        cables.iter().for_each(|cable| cable.set(passage));
        tokio::time::sleep(time).await;
        cables.iter().for_each(|cable| cable.set(Passage::Open(Duration::ZERO)));
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        let begun = std::time::Instant::now();
        for server in &self.servers {
            while tokio::net::TcpStream::connect(server.address).await.is_err() && begun.elapsed() < READY_MAX {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        if begun.elapsed() >= READY_MAX {
            bail!("a server does not start: {}", self.log().join("\n"));
        }
        Ok(())
    }
}

impl Server {
    fn begin(&self, log: &str) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = (self.command)();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| format!("{command:?} does not start"))?;
        *self.child() = Some(child);
        Ok(())
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.child().as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Ends the process. Returns how many there were.
    fn kill(&self) -> usize {
        let Some(mut child) = self.child().take() else { return 0 };
        let ended_before = child.try_wait().is_ok_and(|status| status.is_some());
        let _ended_already = (child.kill(), child.wait());
        usize::from(!ended_before)
    }

    fn signal(&self, signal: Signal) {
        let child = self.child();
        if let Some(pid) = child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?)) {
            let _ended_already = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some((emulator, _)) = &self.emulator {
            let _ended_already = kill_process_group(emulator.group(), Signal::KILL);
        }
    }
}

/// The programs of this build.
struct Programs {
    server: String,
    longhaul: String,
}

impl Programs {
    fn find() -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let beside = |name: &str| {
            let path = own.with_file_name(name);
            if path.exists() { text(&path) } else { bail!("{} is missing: run `make chaos`", path.display()) }
        };
        Ok(Self { server: beside("chaos-server")?, longhaul: beside("longhaul")? })
    }

    fn server(&self, tool_env: &str) -> Vec<String> {
        vec![self.server.clone(), "--tool-env".to_owned(), tool_env.to_owned()]
    }
}

/// The same with the variables that a program needs to find the emulator.
fn on_emulator(mut command: Command, endpoint: &str) -> Command {
    command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

fn with(program: &[String], address: SocketAddr, more: &[&str]) -> Command {
    let (name, args) = program.split_first().map_or(("", program), |(name, args)| (name.as_str(), args));
    let mut command = Command::new(name);
    command.args(args).args(["--listen", &address.to_string()]).args(more);
    command
}

fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Stops the receivers of these signals, and lets them continue after a while.
async fn stopped(time: Duration, send: impl Fn(Signal)) {
    send(Signal::STOP);
    tokio::time::sleep(time).await;
    send(Signal::CONT);
}

/// The processes that run this script.
fn children(script: &str) -> Vec<Pid> {
    processes("cmdline", |line| line.split(|byte| *byte == 0).nth(1) == Some(script.as_bytes()))
}
