//! Servers that die, and answers that are lost.

use std::io::{BufRead, BufReader};

use crate::command::Setup;
use crate::servers::{Lossy, Server};

#[test]
fn a_server_that_is_killed_under_a_watch_loses_no_task() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=2", "steps=20"]);
    let watch = setup.watching(&[&id]);
    server.kill();
    let _server = Server::local(setup.folder(), setup.port);
    let said = Setup::end(watch);
    assert!(said.code == 0 && said.out.contains("\"steps\":20"), "{said:?}");
}

#[test]
fn a_server_that_does_not_come_back_is_waited_for_as_long_as_the_user_says() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let watch = setup.watching(&[&id, "--wait", "4s"]);
    server.kill();
    let said = Setup::end(watch);
    assert!(said.code == 7 && said.err.contains("trying again, the task is not lost"), "{said:?}");
    assert!(said.err.contains(&format!("longhaul watch {id}")), "{said:?}");
}

/// Nothing listens when the command begins.
#[test]
fn a_watch_that_begins_during_a_restart_waits_for_the_server() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=1", "steps=20"]);
    server.kill();
    let mut watch = setup.command(&["watch", &id]).spawn().unwrap();
    let mut errors = BufReader::new(watch.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("trying again"), "{line}");
    let _server = Server::local(setup.folder(), setup.port);
    let said = Setup::end(watch);
    assert!(said.code == 0 && said.out.contains("\"steps\":20"), "{said:?}");
    let said = setup.run(&["watch", &id, "--wait", "1s", "--server", "http://127.0.0.1:1/mcp"]);
    assert!(said.code == 7 && said.err.contains("To come back: longhaul watch"), "{said:?}");
}

#[test]
fn a_call_whose_answer_is_lost_is_one_task() {
    let (setup, _server) = Setup::local();
    let lossy = Lossy::before(setup.port);
    let said = setup.run(&["call", "countdown", "seconds=0.2", "--server", &lossy.url]);
    assert!(said.code == 0 && lossy.has_lost(), "{said:?}");
    let listed = setup.run(&["tasks", "--json"]).json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
}
