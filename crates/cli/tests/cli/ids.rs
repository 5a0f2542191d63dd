//! How tasks are named: by whole ids, by their beginnings, and by `@last`.

use crate::command::Setup;
use crate::servers::{Server, without_discovery};

/// Over the newest wire, and over that of `2025-11-25`.
#[test]
fn a_task_is_named_by_the_beginning_of_its_id() {
    let (mut setup, _server) = Setup::local();
    let [id, other] = [(); 2].map(|()| setup.detach(&["countdown", "seconds=600"]));
    for url in [setup.url.clone(), without_discovery(setup.port)] {
        setup.url = url;
        assert_eq!(setup.run(&["show", &id[..30], "--json"]).json()["taskId"], id.as_str());
        let several = setup.run(&["cancel", &id[..4]]);
        let expected = format!("2 tasks have an id that begins with `{}`, from {id} to {other}", &id[..4]);
        assert!(several.code == 2 && several.err.contains(&expected), "{several:?}");
        let none = setup.run(&["show", "ffff"]);
        assert!(none.code == 2 && none.err.contains("begins with `ffff`: `longhaul tasks` lists"), "{none:?}");
        // As of an empty variable in a script.
        let empty = setup.run(&["cancel", ""]);
        assert!(empty.code == 2 && empty.err.contains("write at least 4 characters of an id"), "{empty:?}");
    }
    setup.run(&["cancel", &id[..30], &other[..30]]).out();
    setup.until(&id, "cancelled");
    setup.until(&other, "cancelled");
}

#[test]
fn the_last_task_of_this_machine_has_a_name() {
    let (mut setup, _server) = Setup::local();
    let none = setup.run(&["show", "@last"]);
    assert!(none.code == 2 && none.err.contains("this machine remembers no task of this server"), "{none:?}");
    setup.detach(&["countdown", "seconds=600"]);
    let last = setup.detach(&["ask", "questions:=[\"Why?\"]"]);
    setup.until("@last", "input_required");
    setup.run(&["answer", "@last", "answer=so"]).out();
    let result = setup.run(&["watch", "@last"]).out();
    assert!(result.contains("so") && result == setup.run(&["result", &last]).out(), "{result}");
    assert!(setup.run(&["again", "@last", "--wait", "200ms"]).err.contains("it asks: Why?"));
    setup.url = setup.url.replace("127.0.0.1", "localhost");
    assert_eq!(setup.run(&["show", "@last"]).code, 2, "it is the last one of this server");
}

/// Anonymous callers have no list, so that their own history is searched.
#[test]
fn without_a_list_the_beginning_of_an_id_is_looked_up_on_this_machine() {
    let setup = Setup::new();
    let _server = Server::local_with(setup.folder(), setup.port, &["--auth", "anonymous"]);
    let id = setup.detach(&["countdown", "seconds=600"]);
    assert_eq!(setup.run(&["show", &id[..30], "--json"]).json()["taskId"], id.as_str());
    let unknown = setup.run(&["show", "ffff"]);
    assert!(unknown.code == 2 && unknown.err.contains("is not known"), "{unknown:?}");
}

#[test]
fn without_ids_all_unfinished_tasks_are_watched() {
    let (setup, _server) = Setup::local();
    let none = setup.run(&["watch"]);
    assert!(none.code == 0 && none.out.is_empty() && none.err.contains("all tasks have ended"), "{none:?}");
    let ended = setup.detach(&["countdown", "seconds=0"]);
    setup.until(&ended, "completed");
    let running = setup.detach(&["countdown", "seconds=1"]);
    let asking = setup.detach(&["ask", "questions:=[\"Why?\"]"]);
    setup.until(&asking, "input_required");
    let said = setup.run(&["watch"]);
    assert!(said.code == 6 && said.out.contains(&format!("{running} completed")), "{said:?}");
    assert!(said.err.contains(&asking) && !said.out.contains(&ended), "{said:?}");
    // A single one has its result written, as with its id.
    setup.run(&["answer", &asking, "answer=so"]).out();
    setup.until(&asking, "completed");
    setup.detach(&["countdown", "seconds=0.5"]);
    assert!(setup.run(&["watch"]).out().contains("\"steps\":10"));
    for _ in 0..65 {
        setup.detach(&["countdown", "seconds=600"]);
    }
    let many = setup.run(&["watch", "--wait", "300ms"]);
    assert!(many.code == 7 && many.err.contains("more than 64 tasks have not ended"), "{many:?}");
}
