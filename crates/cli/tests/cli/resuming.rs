//! `longhaul resume`: a failed task continues as a new one, also if processes die meanwhile.

use serde_json::Value;

use crate::command::Setup;
use crate::servers::Server;

/// The server is killed in the same step so often that the task fails.
fn fails_by_kills(setup: &Setup, mut server: Server, id: &str) -> Server {
    let mut attempts = 0;
    for _ in 0..20 {
        loop {
            let shown = setup.run(&["show", id, "--journal", "--json"]).json();
            if shown["task"]["status"] == "failed" {
                return server;
            }
            let attempt = shown["attempt"].as_u64().unwrap();
            let has_step = shown["journal"].as_array().is_some_and(|journal| !journal.is_empty());
            if attempt > attempts && has_step {
                attempts = attempt;
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        server.kill();
        server = Server::local(setup.folder(), setup.port);
    }
    panic!("the task does not fail");
}

/// The recorded steps: their names, and when they were recorded.
fn steps(setup: &Setup, id: &str) -> Vec<(String, String)> {
    let shown = setup.run(&["show", id, "--journal", "--json"]).json();
    let step = |entry: &Value| (entry["name"].as_str().unwrap().to_owned(), entry["at"].as_str().unwrap().to_owned());
    shown["journal"].as_array().unwrap().iter().map(step).collect()
}

#[test]
fn a_task_that_failed_is_resumed_and_its_server_may_be_killed_again() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=16", "steps=4"]);
    let server = fails_by_kills(&setup, server, &id);
    let done = steps(&setup, &id);
    assert!((1..4).contains(&done.len()), "{done:?}");
    let resumed = setup.run(&["resume", &id, "--detach", "--key", "k"]).out();
    let twice = setup.run(&["resume", &id, "--detach", "--key", "k"]).out();
    assert_eq!((resumed != id, &twice), (true, &resumed), "the same key is the same task");
    server.kill();
    let _server = Server::local(setup.folder(), setup.port);
    let said = setup.run(&["watch", &resumed]);
    assert!(said.code == 0 && said.out.contains("\"steps\":4"), "{said:?}");
    let all = steps(&setup, &resumed);
    assert_eq!((all.len(), &all[..done.len()]), (4, &done[..]), "what was recorded was not run again");
    let shown = setup.run(&["show", &resumed, "--journal"]).out();
    assert!(shown.contains(&format!("resumes   {id}")), "{shown}");
    assert_eq!(setup.run(&["show", &id, "--json"]).json()["status"], "failed");
    let refused = setup.run(&["resume", &resumed]);
    let why = "was not resumed: the task is `completed`; only a task that is `failed` can be resumed";
    assert!(refused.code == 2 && refused.err.contains(why), "{refused:?}");
    let refused = setup.run(&["resume", &id, "--from", "step 9"]);
    let why = "was not resumed: the task has recorded no step `step 9`; its journal has the names of its steps";
    assert!(refused.code == 2 && refused.err.contains(why), "{refused:?}");
    let unknown = setup.run(&["resume", "01995b2e-0000-7000-8000-000000000000"]);
    assert!(unknown.code == 2 && unknown.err.contains("was not resumed: task not found"), "{unknown:?}");
}
