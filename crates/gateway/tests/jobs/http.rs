//! Jobs over HTTP, at a service that does not always do what it should.

use std::sync::Arc;

use longhaul_core::Status;
use longhaul_gateway::jobs::{Again, HttpJob, HttpJobSpec, HttpRequest, HttpResult, RequestKind};
use reqwest::Method;
use serde_json::{Value, json};

use crate::stand_in::{Asked, Reply, StandIn, ok};
use crate::tool::{HOUR, call, call_within};

fn spec(url: &str, again: Again) -> HttpJobSpec {
    let request = |kind, method, path: &str| HttpRequest::new(kind, method, &format!("{url}{path}")).unwrap();
    let start = request(RequestKind::Start, Method::POST, "/jobs")
        .header(RequestKind::Start, "idempotency-key", "{key}")
        .unwrap()
        .body(RequestKind::Start, json!({"what": "{input}", "size": "{input/size}", "note": "for {key}"}))
        .unwrap();
    HttpJobSpec {
        start,
        again,
        find: None,
        status: request(RequestKind::OfJob, Method::GET, "/jobs/{id}"),
        stop: Some(request(RequestKind::OfJob, Method::DELETE, "/jobs/{id}")),
        result: HttpResult::At("/output".to_owned()),
        id: "/job/id".to_owned(),
        state: "/state".to_owned(),
        done: vec!["done".to_owned()],
        failed: vec!["failed".to_owned()],
        error: Some("/why".to_owned()),
        progress: [Some("/done".to_owned()), Some("/of".to_owned()), Some("/phase".to_owned())],
    }
}

fn job(service: &StandIn, again: Again) -> HttpJob {
    HttpJob::new(spec(&service.url, again))
}

fn arguments() -> Value {
    json!({"size": 7})
}

/// A service whose jobs are done at the third poll.
fn usual(asked: &Asked, before: usize) -> Reply {
    match (asked.method.as_str(), before) {
        ("POST", _) => Reply::Json(201, json!({"job": {"id": 17}})),
        ("GET", 0 | 1) => ok(json!({"state": "busy", "done": before, "of": 2, "phase": "digging"})),
        ("GET", _) => ok(json!({"state": "done", "output": {"tons": 3}})),
        _ => Reply::Json(204, Value::Null),
    }
}

#[tokio::test]
async fn a_job_is_started_once_polled_at_and_has_its_output_as_result() {
    let service = StandIn::new(usual).await;
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!(run.structured(), Some(&json!({"tons": 3})));
    assert_eq!(service.operations(), ["POST /jobs", "GET /jobs/17", "GET /jobs/17", "GET /jobs/17"]);
    let start = &service.asked()[0];
    let key = start.header("idempotency-key").unwrap();
    assert_eq!(start.body, json!({"what": {"size": 7}, "size": 7, "note": format!("for {key}")}));
}

#[tokio::test]
async fn it_does_the_same_after_a_crash_at_every_moment_where_the_service_knows_its_key() {
    let service = StandIn::new(|asked: &Asked, _| match asked.method.as_str() {
        "POST" => ok(json!({"job": {"id": "a"}})),
        _ => ok(json!({"state": "done", "output": "tons"})),
    })
    .await;
    call(job(&service, Again::SameJob), arguments()).crash_everywhere().await.unwrap();
    let keys: std::collections::BTreeSet<String> =
        service.asked().iter().filter_map(|asked| asked.header("idempotency-key").map(str::to_owned)).collect();
    assert!(service.times("POST /jobs") > keys.len(), "a start that was not recorded was made again with its key");
}

#[tokio::test]
async fn a_start_that_may_have_been_made_is_not_made_again() {
    let service = StandIn::new(usual).await;
    let run = call(job(&service, Again::AnotherJob), arguments()).crash_before_record("outside job");
    let run = run.to_end().await.unwrap();
    let error = run.error().unwrap().message;
    assert!(error.starts_with("the job may have been started; it was not started again"), "{error}");
    assert_eq!(service.operations(), ["POST /jobs"]);
}

#[tokio::test]
async fn a_start_whose_answer_was_lost_is_found_where_the_service_can_tell() {
    for lost in ["cut", "crash"] {
        let service = StandIn::new(move |asked: &Asked, before| match asked.path.as_str() {
            "/jobs" if lost == "cut" => Reply::Cut,
            path if path.starts_with("/find/") => ok(json!({"job": {"id": 17}})),
            _ => usual(asked, before),
        })
        .await;
        let find = HttpRequest::new(RequestKind::Find, Method::GET, &format!("{}/find/{{key}}", service.url)).unwrap();
        let spec = HttpJobSpec { find: Some(find), ..spec(&service.url, Again::AnotherJob) };
        let call = call(HttpJob::new(spec), arguments());
        let call = if lost == "crash" { call.crash_before_record("outside job") } else { call };
        let run = call.to_end().await.unwrap();
        assert_eq!(run.structured(), Some(&json!({"tons": 3})), "{lost}");
        assert_eq!(service.times("POST /jobs"), 1, "{lost}");
    }
}

#[tokio::test]
async fn a_start_that_is_refused_for_the_moment_is_made_later_and_one_for_good_is_an_error() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("POST", 0 | 1) => Reply::Text(429, "busy".to_owned()),
        _ => usual(asked, before),
    })
    .await;
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!((run.structured(), service.times("POST /jobs")), (Some(&json!({"tons": 3})), 3));
    for (status, said) in
        [(422, "the job was not started: HTTP status 422: no"), (500, "may have been started"), (302, "302")]
    {
        let service = StandIn::new(move |_: &Asked, _| Reply::Text(status, "no".to_owned())).await;
        let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
        let error = run.error().unwrap().message;
        assert!(error.contains(said), "{error}");
        assert_eq!(service.operations(), ["POST /jobs"]);
    }
}

#[tokio::test]
async fn polls_go_on_while_the_service_fails_and_lies() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("GET", 0) => Reply::Text(500, String::new()),
        ("GET", 1) => Reply::Cut,
        ("GET", 2) => Reply::Text(200, "<html>".to_owned()),
        ("GET", 3) => Reply::Text(401, "the token has expired".to_owned()),
        ("GET", 4) => ok(json!({"state": "a state of the next version"})),
        _ => usual(asked, before),
    })
    .await;
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!(run.structured(), Some(&json!({"tons": 3})));
    assert_eq!(service.times("GET /jobs/17"), 6);
}

#[tokio::test]
async fn a_poll_that_hangs_is_given_up_and_made_again() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("GET", 0) => Reply::Hang,
        _ => usual(asked, before + 5),
    })
    .await;
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!(run.structured(), Some(&json!({"tons": 3})));
}

#[tokio::test]
async fn an_end_says_what_it_is() {
    for (answer, said) in [
        (ok(json!({"state": "failed", "why": "rock"})), "the job failed (failed): rock"),
        (ok(json!({"state": "done"})), "the job is done, but the answer has no result at /output"),
        (Reply::Text(410, "gone".to_owned()), "the system does not know the job 17 any more: HTTP status 410: gone"),
        (ok(json!({"status": "done"})), "the answer about the job has no state at /state"),
        (ok(json!({"state": "done", "output": "x".repeat((2 << 20) + 1)})), "a result has 2097152 bytes at most"),
        (Reply::Text(200, "x".repeat((4 << 20) + 1)), "too large to be read"),
    ] {
        let answer = std::sync::Mutex::new(Some(answer));
        let service = StandIn::new(move |asked: &Asked, before| match asked.method.as_str() {
            "GET" => answer.lock().unwrap().take().unwrap(),
            _ => usual(asked, before),
        })
        .await;
        let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
        let seen = run.error().map_or_else(|| run.text(), |error| error.message.into_owned());
        assert!(seen.contains(said), "{seen:.200}");
    }
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_stopped_until_the_service_has_done_it() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("GET", _) => ok(json!({"state": "busy"})),
        ("DELETE", 0) => Reply::Text(500, String::new()),
        ("DELETE", _) => Reply::Text(409, String::new()),
        _ => usual(asked, before),
    })
    .await;
    let cancelled =
        call(job(&service, Again::AnotherJob), arguments()).cancel_after("outside job").to_end().await.unwrap();
    assert_eq!((cancelled.status(), service.times("DELETE /jobs/17")), (Status::Cancelled, 2));
    let late = call_within(HOUR, Arc::new(job(&service, Again::AnotherJob)), arguments()).to_end().await.unwrap();
    assert_eq!((late.status(), service.times("DELETE /jobs/17")), (Status::Failed, 3));
}

/// A deployment of the system takes its API away for an hour, at the time of a cancel.
#[tokio::test]
async fn a_stop_is_tried_again_for_hours_while_the_service_is_away() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        ("GET", _) => ok(json!({"state": "busy"})),
        ("DELETE", 0..20) => Reply::Text(503, String::new()),
        _ => usual(asked, before),
    })
    .await;
    let run = call(job(&service, Again::AnotherJob), arguments()).cancel_after("outside job").to_end().await.unwrap();
    assert_eq!((run.status(), service.times("DELETE /jobs/17")), (Status::Cancelled, 21));
    assert_eq!(run.cleanups().last(), Some(&Ok(())));
}

#[tokio::test]
async fn a_start_whose_answer_has_no_id_is_looked_for_where_that_is_possible() {
    let service = StandIn::new(|asked: &Asked, before| match asked.path.as_str() {
        "/jobs" => Reply::Json(202, json!({"queued": true})),
        path if path.starts_with("/find/") => ok(json!({"job": {"id": 17}})),
        _ => usual(asked, before),
    })
    .await;
    let find = HttpRequest::new(RequestKind::Find, Method::GET, &format!("{}/find/{{key}}", service.url)).unwrap();
    let found = HttpJobSpec { find: Some(find), ..spec(&service.url, Again::AnotherJob) };
    let run = call(HttpJob::new(found), arguments()).to_end().await.unwrap();
    assert_eq!((run.structured(), service.times("POST /jobs")), (Some(&json!({"tons": 3})), 1), "{:?}", run.error());
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!(run.error().unwrap().message, "the job was started, but the answer has no id at /job/id");
}

#[tokio::test]
async fn arguments_cannot_make_a_way_up_of_two_of_them() {
    let service = StandIn::new(usual).await;
    let start = format!("{}/jobs/{{input/a}}{{input/b}}/new", service.url);
    let start = HttpRequest::new(RequestKind::Start, Method::POST, &start).unwrap();
    let job = HttpJob::new(HttpJobSpec { start, ..spec(&service.url, Again::AnotherJob) });
    let run = call(job, json!({"a": ".", "b": "."})).to_end().await.unwrap();
    assert_eq!(run.status(), Status::Failed);
    assert!(service.asked().is_empty());
}

/// The start is cut off by the cancellation, and arrives after the first questions for its job.
#[tokio::test]
async fn a_job_that_is_seen_late_is_stopped_if_its_task_was_cancelled_meanwhile() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.path.as_str(), before) {
        ("/jobs", _) => Reply::Hang,
        (path, 0 | 1) if path.starts_with("/find/") => Reply::Text(404, String::new()),
        (path, _) if path.starts_with("/find/") => ok(json!({"job": {"id": 17}})),
        _ => ok(json!({})),
    })
    .await;
    let find = HttpRequest::new(RequestKind::Find, Method::GET, &format!("{}/find/{{key}}", service.url)).unwrap();
    let spec = HttpJobSpec { find: Some(find), ..spec(&service.url, Again::AnotherJob) };
    let run = call(HttpJob::new(spec), arguments()).cancel_after("start 0").to_end().await.unwrap();
    assert_eq!((run.status(), service.times("DELETE /jobs/17")), (Status::Cancelled, 1), "{:?}", service.operations());
}

#[tokio::test]
async fn a_job_that_is_seen_late_is_the_one_that_was_started() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.path.as_str(), before) {
        ("/jobs", _) => Reply::Cut,
        (path, 0 | 1) if path.starts_with("/find/") => Reply::Text(404, String::new()),
        (path, _) if path.starts_with("/find/") => ok(json!({"job": {"id": 17}})),
        _ => usual(asked, before),
    })
    .await;
    let find = HttpRequest::new(RequestKind::Find, Method::GET, &format!("{}/find/{{key}}", service.url)).unwrap();
    let spec = HttpJobSpec { find: Some(find), ..spec(&service.url, Again::AnotherJob) };
    let run = call(HttpJob::new(spec), arguments()).to_end().await.unwrap();
    assert_eq!((run.structured(), service.times("POST /jobs")), (Some(&json!({"tons": 3})), 1), "{:?}", run.error());
}

#[tokio::test]
async fn a_wait_of_ten_hours_is_fewer_than_sixty_polls() {
    let service = StandIn::new(|asked: &Asked, before| match (asked.method.as_str(), before) {
        // The polls of ten hours: see docs/costs.md.
        ("GET", 0..57) => ok(json!({"state": "busy"})),
        ("GET", _) => ok(json!({"state": "done", "output": null})),
        _ => usual(asked, before),
    })
    .await;
    let run = call(job(&service, Again::AnotherJob), arguments()).to_end().await.unwrap();
    assert_eq!(service.times("GET /jobs/17"), 58);
    assert!(run.elapsed() >= 10 * HOUR && run.elapsed() < 11 * HOUR, "{:?}", run.elapsed());
    // Each poll is an attempt and records nothing: the records are the start and its mark, and when the polls began.
    assert_eq!(run.steps(), ["start 0", "outside job"]);
}
