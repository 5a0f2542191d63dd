//! The images of infra/container, built and started: by the commands of docs/containers.md.
//!
//! The base images are stand-ins, because nothing is pulled. Where no Docker daemon can be started, these tests say so,
//! on standard error, and pass.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use harness::caller::{Caller, structured};
use harness::{file, free_port, program, root};
use serde_json::{Value, json};

use super::built::{Built, commands_below};
use super::inside::until;
use super::sam_local::shell;
use super::shell::Shell;

const PAGE: &str = "docs/containers.md";
const SECTION: &str = "### Two instances";
const COMPOSE: &str = "infra/container/compose.yaml";

/// The image that `scripts/sam-local.sh` has made of the system's packages.
const SYSTEM: &str = "public.ecr.aws/lambda/provided:al2023";

/// The user of the image.
const USER: &str = "65532";

/// How the containers reach the emulator.
const EMULATOR: &str = "http://host.docker.internal:4566";

/// How long tasks take that do not wait for leases, with much to spare; less than a lease of 50 seconds.
const WITHOUT_A_LEASE: Duration = Duration::from_secs(40);

/// Stands for the compiler. The program that it would build is there already.
const CARGO: &str = "#!/bin/sh\nset -e\n\
    wanted='build --release --locked --package longhaul-cli --bin longhaul --features aws,otel'\n\
    [ \"$*\" = \"$wanted\" ] || { echo \"other arguments: $*\" >&2; exit 1; }\n\
    mkdir -p target/release\ncp /program target/release/longhaul\n";

/// A program without its debug information, which would make a large image.
fn stripped(name: &str, to: &std::path::Path) {
    let program = program(name);
    let strip = Command::new("strip").arg("-o").arg(to).arg(&program).status();
    if !strip.is_ok_and(|status| status.success()) {
        fs::copy(program, to).unwrap();
    }
}

/// Has `docker build` use BuildKit, with the first `docker` in the path that can.
fn use_buildkit(shell: &mut Shell) {
    shell.run("export DOCKER_BUILDKIT=1");
    shell.run(
        "mkdir bin; for docker in $(which -a docker); do \
         if $docker build --help 2>&1 | grep -q -- --progress; then ln -s $docker bin/docker; break; fi; done; \
         ls bin/docker",
    );
    shell.run("export PATH=$PWD/bin:$PATH");
}

/// Makes the images that the first Dockerfile begins with.
fn make_base_images(built: &Built, shell: &mut Shell) {
    let dockerfile = file("infra/container/Dockerfile");
    let bases: Vec<_> = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).collect();
    let [compiler, runtime] = bases.as_slice() else { panic!("other stages: {bases:?}") };
    let compiler = compiler.strip_suffix(" AS build").unwrap();
    stripped("longhaul", &built.0.join("program"));
    fs::write(built.0.join("cargo"), CARGO).unwrap();
    fs::set_permissions(built.0.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    shell.run(&format!("docker tag {SYSTEM} {runtime}"));
    shell.run(&format!("made=$(docker create {SYSTEM} true)"));
    shell.run("docker cp program $made:/program && docker cp cargo $made:/usr/local/bin/cargo");
    shell.run(&format!("docker commit --change 'ENTRYPOINT []' $made {compiler} && docker rm $made"));
}

/// Waits until an instance is ready.
async fn until_ready(port: u16) {
    let url = format!("http://127.0.0.1:{port}/readyz");
    until("the instance is ready", async || reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success()))
        .await;
}

/// A line of Linux's status of the first process of a container.
fn status_of(shell: &mut Shell, container: &str, line: &str) -> Vec<String> {
    let pid = shell.run(&format!("docker inspect --format '{{{{.State.Pid}}}}' {container}"));
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap();
    let found = status.lines().find_map(|each| each.strip_prefix(line)).unwrap();
    found.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "builds an image: `make nightly` runs it"]
async fn two_containers_share_a_store_and_one_that_is_stopped_loses_nothing() {
    let built = Built::new();
    let Some(mut shell) = shell(&built) else { return };
    use_buildkit(&mut shell);
    make_base_images(&built, &mut shell);
    let commands = commands_below(PAGE, SECTION);
    let [build, export, up, stop, down] = commands.as_slice() else { panic!("other commands: {commands:?}") };
    shell.run(build);

    // Leases that are longer than the patience below: only a task that is given back continues.
    let ports = [free_port(), free_port()];
    let compose = file(COMPOSE).replace("8081:", &format!("{}:", ports[0])).replace("8082:", &format!("{}:", ports[1]));
    let compose =
        compose.replace("    - LONGHAUL_DIAGNOSTICS\n", "    - LONGHAUL_DIAGNOSTICS\n    - LONGHAUL_LEASE_MS\n");
    fs::write(built.0.join("compose.yaml"), compose).unwrap();
    let plugin = shell.try_run("docker compose version").is_some_and(|done| done.status == 0);
    let here = |line: &str| {
        let line = line.replace(COMPOSE, "compose.yaml");
        if plugin { line } else { line.replace("docker compose", "docker-compose") }
    };
    let queue = format!("{EMULATOR}/000000000000/longhaul-work");
    shell.run(&export.replace("TABLE", "longhaul-tasks").replace("QUEUE_URL", &queue));
    shell.run(&format!("export AWS_ENDPOINT_URL={EMULATOR} LONGHAUL_DIAGNOSTICS=true LONGHAUL_LEASE_MS=50000"));
    shell.run(&here(up));
    for port in ports {
        until_ready(port).await;
    }

    let one = shell.run(&here("docker compose -f infra/container/compose.yaml ps -q one")).trim().to_owned();
    assert!(status_of(&mut shell, &one, "Uid:").iter().all(|user| user == USER), "a user without permissions");
    assert!(status_of(&mut shell, &one, "CapEff:")[0].chars().all(|digit| digit == '0'), "no capabilities");

    let [first, second] = ports.map(|port| Caller::new(&format!("http://127.0.0.1:{port}/mcp")));
    let mut ids = Vec::new();
    for caller in [&first, &second, &first, &second, &first, &second] {
        ids.push(caller.call_task("countdown", json!({"seconds": 12, "steps": 60})).await);
    }
    for id in &ids {
        second.until_it(id, "progress", |task| task.get("statusMessage").is_some()).await;
    }
    shell.run(&here(stop));
    assert_eq!(shell.run(&format!("docker inspect --format '{{{{.State.ExitCode}}}}' {one}")).trim(), "0");
    let all = async {
        let mut attempts = Vec::new();
        for id in &ids {
            let done = structured(&second.until(id, "completed").await["result"]);
            assert_eq!(done["steps"], 60, "{done}");
            attempts.push(done["attempts"].as_u64().unwrap());
        }
        attempts
    };
    let attempts = tokio::time::timeout(WITHOUT_A_LEASE, all).await.expect("the tasks were not given back");
    assert!(attempts.iter().all(|attempts| (1..=2).contains(attempts)), "{attempts:?}");
    assert!(attempts.contains(&2), "the stopped instance had none of the tasks: {attempts:?}");
    shell.run(&here(down));
    shell.run("docker image rm --force longhaul && docker builder prune --force");
    assert_eq!(shell.leave(), Some(0), "everything is removed");
}

/// A configuration that needs no server and no lock file.
fn gateway_config() -> Value {
    let machine = "arn:aws:states:us-east-1:000000000000:stateMachine:etl";
    json!({"mcpServers": {"etl": {"type": "aws-step-functions", "stateMachine": machine, "description": "Loads"}}})
}

#[test]
#[ignore = "builds an image: `make nightly` runs it"]
fn the_gateways_worker_runs_in_its_image() {
    let built = Built::new();
    let Some(mut shell) = shell(&built) else { return };
    use_buildkit(&mut shell);
    stripped("gateway-worker", &built.0.join("target/lambda/worker/bootstrap"));
    fs::create_dir(built.0.join("bundle")).unwrap();
    fs::write(built.0.join("bundle/mcp.json"), gateway_config().to_string()).unwrap();
    // Lambda's own images say where the code of a function is.
    let of_lambda = format!("FROM {SYSTEM}\nENV LAMBDA_TASK_ROOT=/var/task\n");
    fs::write(built.0.join("of-lambda.Dockerfile"), of_lambda).unwrap();
    shell.run("docker build -f of-lambda.Dockerfile -t of-lambda bundle");
    shell.run(
        "docker build -f infra/container/gateway-worker.Dockerfile --build-arg BUNDLE=bundle \
         --build-arg RUNTIME=of-lambda -t gateway-worker .",
    );
    let port = free_port();
    shell.serve(&format!("cargo lambda watch -A 127.0.0.1 -P {port} --only-lambda-apis &"), port);
    let variables = [
        format!("AWS_LAMBDA_RUNTIME_API=http://127.0.0.1:{port}/.rt/worker"),
        "AWS_LAMBDA_FUNCTION_NAME=worker AWS_LAMBDA_FUNCTION_VERSION=1 AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512".to_owned(),
        "LONGHAUL_DEAD_LETTER_QUEUE_URL=$AWS_ENDPOINT_URL/000000000000/longhaul-dead-letters".to_owned(),
        "LONGHAUL_TABLE=longhaul-tasks LONGHAUL_QUEUE_URL=$AWS_ENDPOINT_URL/000000000000/longhaul-work".to_owned(),
        "AWS_ENDPOINT_URL=$AWS_ENDPOINT_URL AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"
            .to_owned(),
    ];
    let variables: String =
        variables.iter().flat_map(|line| line.split(' ')).map(|each| format!(" -e {each}")).collect();
    // As on Lambda: a user without permissions, and only /tmp can be written.
    shell.run(&format!(
        "worker=$(docker run --detach --network host --user {USER} --read-only --tmpfs /tmp --cap-drop ALL{variables} \
         gateway-worker)"
    ));
    let events = root().join("infra/events/worker-batch.json");
    let answer = shell.run(&format!(
        "timeout 60 cargo lambda invoke -A 127.0.0.1 -P {port} worker --data-file {} || docker logs $worker",
        events.display()
    ));
    let last = answer.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Value>(last).ok(), Some(json!({"batchItemFailures": []})), "{answer}");
    shell.run("docker rm --force $worker && docker image rm --force gateway-worker of-lambda");
    assert_eq!(shell.leave(), Some(0), "everything is removed");
}
