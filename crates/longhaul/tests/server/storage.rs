//! Where a server keeps its tasks, and what is said about values that cannot be used.

use std::collections::BTreeMap;

use longhaul::Server;
use longhaul::serve::{CommandLine, OptionsError, ServeError, start};

struct Nothing;

impl rmcp::ServerHandler for Nothing {}

const QUEUE: &str = "sqs:https://sqs.eu-west-1.amazonaws.com/111122223333/work";

/// What is said about `args` and `env`, with which a server cannot be started.
async fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
    let args = [&["local", "--listen", "127.0.0.1:0"], args].concat();
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    match CommandLine::new("local").read(&args, &env) {
        Ok(options) => match start(&Server::new(|| Nothing), &options).await {
            Err(ServeError::Settings(error)) => error.to_string(),
            Err(error) => panic!("{args:?}: {error}"),
            Ok(_) => panic!("{args:?}: it started"),
        },
        Err(OptionsError::Settings(error)) => error.to_string(),
        Err(error) => panic!("{args:?}: {error}"),
    }
}

#[tokio::test]
async fn values_that_name_no_store_and_no_queue_are_refused_with_what_to_do() {
    let cases: [(&[&str], &[&str]); 16] = [
        (&["--store", "foo:"], &["--store is `foo:`", "`sqlite:FILE`", "`dynamodb:TABLE`"]),
        (&["--store", "tasks.db"], &["--store is `tasks.db`", "`sqlite:FILE`"]),
        (&["--store", "sqlite:"], &["--store is `sqlite:`", "`sqlite:FILE`"]),
        (&["--store", "dynamodb:", "--queue", QUEUE], &["--store is `dynamodb:`", "3 to 255"]),
        (&["--store", "dynamodb:my tasks", "--queue", QUEUE], &["--store is `dynamodb:my tasks`", "3 to 255"]),
        (
            &["--store", "dynamodb:tasks", "--queue", QUEUE, "--webhooks", "webhooks.json"],
            &["--webhooks is `webhooks.json`", "only a server with a database file", "leave this out"],
        ),
        (&["--store", "dynamodb:tasks"], &["--store is `dynamodb:tasks`", "--queue sqs:URL"]),
        (&["--store", "dynamodb:tasks", "--queue", "work"], &["--queue is `work`", "`sqs:` and the URL"]),
        (&["--store", "dynamodb:tasks", "--queue", "sqs:work"], &["--queue is `sqs:work`", "`sqs:` and the URL"]),
        (&["--store", "dynamodb:tasks", "--queue", "sqs:"], &["--queue is `sqs:`", "`sqs:` and the URL"]),
        (
            &["--store", "dynamodb:tasks", "--queue", "sqs:https://sqs.example/1/work.fifo"],
            &["--queue is", "standard queue", ".fifo"],
        ),
        (&["--queue", QUEUE], &["--queue is", "--store dynamodb:TABLE"]),
        (&["--store", "sqlite:a.db", "--queue", QUEUE], &["--queue is", "--store dynamodb:TABLE"]),
        (&["--store", "sqlite:a.db", "--db", "b.db"], &["--store is `sqlite:a.db`", "`db`", "leave one of them out"]),
        (&["--role", "http"], &["--role is `http`", "--store dynamodb:TABLE"]),
        (&["--role", "worker", "--store", "sqlite:a.db"], &["--role is `worker`", "--store dynamodb:TABLE"]),
    ];
    for (args, expected) in cases {
        let said = refused(args, &[]).await;
        for part in expected {
            assert!(said.contains(part), "{args:?}: {part} is not in: {said}");
        }
    }
}

#[tokio::test]
async fn all_that_is_wrong_is_said_at_once_and_named_as_it_was_set() {
    let said = refused(&["--store", "foo:"], &[("LONGHAUL_QUEUE", "work"), ("LONGHAUL_ROLE", "both")]).await;
    for part in ["--store is `foo:`", "LONGHAUL_QUEUE is `work`", "LONGHAUL_ROLE is `both`"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    let said = refused(&["--store", "sqlite:a.db"], &[("LONGHAUL_DB", "b.db")]).await;
    assert!(said.contains("leave one of them out"), "{said}");
}

#[tokio::test]
async fn a_file_is_named_either_way() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [["--db", "DIR/a.db"], ["--store", "sqlite:DIR/b.db"]] {
        let flags = flags.map(|flag| flag.replace("DIR", folder.path().to_str().unwrap()));
        let args = ["local", "--listen", "127.0.0.1:0", &flags[0], &flags[1]];
        let options = CommandLine::new("local").read(args, &BTreeMap::new()).unwrap();
        start(&Server::new(|| Nothing), &options).await.unwrap().stop().await;
    }
    assert!(folder.path().join("a.db").exists() && folder.path().join("b.db").exists());
}
