//! The actions of people on tasks.

use longhaul_client::Status;

use crate::fake::{Browser, Fake, task};

fn browser() -> Browser {
    let tasks = ["a", "b"].map(|id| task(id, Status::Working, ""));
    Browser::of(Fake { tasks: tasks.to_vec(), ..Fake::default() })
}

#[tokio::test]
async fn one_task_is_cancelled_and_shown() {
    let browser = browser();
    let answer = browser.post("/console/act", "id=a&act=cancel").await;
    let place = answer.head["location"].to_str().unwrap();
    assert_eq!((answer.code, place), (303, "/console/task?id=a&did=cancelled"));
    assert!(browser.get(place).await.text.contains("1 task was asked to stop."));
    assert_eq!((browser.done(), browser.acts()), (vec!["cancel a".to_owned()], vec!["cancel a".to_owned()]));
}

#[tokio::test]
async fn many_tasks_are_cancelled_and_those_that_cannot_be_are_named() {
    let browser = browser();
    let answer = browser.post("/console/act", "id=a&id=b&act=cancel").await;
    assert_eq!(answer.head["location"], "/console?did=cancelled&n=2");
    let answer = browser.post("/console/act", "id=a&id=gone&id=b&act=cancel").await;
    assert_eq!(answer.code, 200);
    assert!(answer.text.contains("2 tasks were done") && answer.text.contains("<code>gone</code>"), "{}", answer.text);
    assert_eq!(browser.acts(), ["cancel a", "cancel b", "cancel a", "not cancel gone", "cancel b"]);
}

#[tokio::test]
async fn a_form_that_is_sent_twice_makes_the_call_with_the_same_key() {
    let browser = browser();
    for _ in 0..2 {
        let answer = browser.post("/console/act", "id=a&act=again&key=k").await;
        assert_eq!(answer.head["location"], "/console/task?id=new&did=again");
    }
    assert_eq!(browser.done(), ["call etl longhaul-console-k-a", "call etl longhaul-console-k-a"]);
}

#[tokio::test]
async fn a_failed_task_is_resumed_from_its_first_failure_or_from_a_step() {
    let browser = browser();
    for from in ["", "pay%20them"] {
        let answer = browser.post("/console/act", &format!("id=a&act=resume&key=k&from={from}")).await;
        assert_eq!(answer.head["location"], "/console/task?id=new&did=resumed");
    }
    assert_eq!(browser.done(), ["resume a - longhaul-console-k-a", "resume a pay them longhaul-console-k-a"]);
}

#[tokio::test]
async fn many_calls_are_made_again_with_one_reading_of_the_tools() {
    let browser = browser();
    let answer = browser.post("/console/act", "id=a&id=b&act=again&key=k").await;
    assert_eq!(answer.head["location"], "/console?did=again&n=2");
    assert_eq!(browser.reads("tools"), 1);
}

#[tokio::test]
async fn a_form_without_ticks_or_with_another_act_does_nothing() {
    let browser = browser();
    assert_eq!(browser.post("/console/act", "act=cancel").await.head["location"], "/console?did=none");
    assert_eq!(browser.post("/console/act", "id=a&act=odd").await.code, 404);
    assert_eq!(browser.post("/console/act", &format!("act=cancel{}", "&id=a&id=b".repeat(101))).await.code, 404);
    assert_eq!(browser.done(), Vec::<String>::new());
}

#[tokio::test]
async fn an_act_that_the_server_does_not_hear_of_says_so_and_is_not_repeated() {
    let browser = browser();
    let gone = Browser::of(Fake { is_gone: true, ..Fake::default() });
    // A page of the first one has no token of the second.
    assert_eq!(gone.post("/console/act", "id=a&act=cancel").await.code, 403);
    assert_eq!(browser.post("/console/act", "id=gone&act=cancel").await.code, 404);
    assert!(!browser.post("/console/act", "id=gone&act=cancel").await.text.contains("http-equiv"));
}

#[tokio::test]
async fn all_tasks_of_a_filter_are_cancelled_once_their_number_was_seen() {
    let tasks =
        vec![task("a", Status::Working, ""), task("b", Status::Completed, ""), task("c", Status::InputRequired, "")];
    let browser = Browser::of(Fake { tasks, ..Fake::default() });
    let asked = browser.post("/console/act?tool=etl&owner=*", "act=cancel-filtered").await.text;
    assert!(asked.contains("2 unfinished tasks match") && asked.contains("tool: etl, owner: all"), "{asked}");
    assert_eq!(browser.done(), [""; 0]);
    let fewer = browser.post("/console/act?tool=etl", "act=cancel-filtered&sure=1").await.text;
    assert!(fewer.contains("2 unfinished tasks match"), "{fewer}");
    browser.post("/console/act?tool=etl", "act=cancel-filtered&sure=2").await;
    assert_eq!(browser.done(), ["cancel a", "cancel c"]);
}
