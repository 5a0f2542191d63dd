//! The updates of open pages.

use http::Request;
use http_body_util::BodyExt;
use longhaul_client::Status;
use longhaul_console::Body;

use crate::fake::{Browser, Fake, task};

async fn follow(browser: &Browser, page: &str) -> http::Response<Body> {
    let path = format!("/console/live?page={page}");
    browser.send(Request::get(path).header("host", "localhost:8081"), "").await
}

async fn next(answer: &mut http::Response<Body>) -> Option<String> {
    let frame = answer.body_mut().frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

fn browser(status: Status) -> Browser {
    Browser::of(Fake { tasks: vec![task("a", status, "3/10")], ..Fake::default() })
}

#[tokio::test]
async fn an_open_page_is_told_its_live_parts_and_the_end() {
    let browser = browser(Status::Cancelled);
    let mut answer = follow(&browser, "%2Fconsole%2Ftask%3Fid%3Da").await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let told = next(&mut answer).await.unwrap();
    assert!(told.contains("event: part\ndata: head\ndata: <div") && told.ends_with("event: end\ndata: \n\n"), "{told}");
    assert_eq!(next(&mut answer).await, None);
}

/// Servers of `2025-11-25` keep a request open for each question that they are asked for.
#[tokio::test]
async fn an_open_page_of_questions_asks_for_none_of_them() {
    let browser = browser(Status::InputRequired);
    for page in ["%2Fconsole%2Fquestions", "%2Fconsole%2Fquestions%3Fid%3Da"] {
        let told = next(&mut follow(&browser, page).await).await.unwrap();
        assert!(told.contains("data: count") && told.contains("1 task asks something."), "{told}");
        assert_eq!(browser.reads("task"), 0);
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_told_of() {
    let browser = Browser::of(Fake { is_gone: true, ..Fake::default() });
    let told = next(&mut follow(&browser, "%2Fconsole").await).await.unwrap();
    assert!(told.starts_with("event: down\ndata: The server does not answer"), "{told}");
}

#[tokio::test]
async fn ten_pages_are_followed_at_a_time() {
    let browser = browser(Status::Working);
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut answer = follow(&browser, "%2Fconsole").await;
        assert!(next(&mut answer).await.is_some());
        open.push(answer);
    }
    assert_eq!(follow(&browser, "%2Fconsole").await.status(), 503);
    open.pop();
    assert_eq!(follow(&browser, "%2Fconsole").await.status(), 200);
}

#[tokio::test]
async fn a_console_that_is_closed_keeps_nobody_waiting() {
    let browser = browser(Status::Working);
    let mut answer = follow(&browser, "%2Fconsole").await;
    assert!(next(&mut answer).await.is_some());
    browser.console.close();
    assert_eq!(next(&mut answer).await, None);
}
