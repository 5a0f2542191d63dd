//! Batch, CodeBuild, ECS and Glue at stand-ins that speak their APIs, fail and lie. (The emulator fakes them.)

use longhaul_core::Status;
use serde_json::{Value, json};

use crate::kinds::{POLLS, each, key_in};
use crate::stand_in::{Asked, Reply, StandIn, ok, refusal};
use crate::tool::{HOUR, MINUTE, call_within};

fn arguments() -> Value {
    json!({"month": "2026-06", "rows": 7})
}

#[tokio::test]
async fn a_job_runs_to_its_end_and_its_arguments_arrive_as_texts() {
    for kind in each() {
        let service = kind
            .service(|kind, before| match before {
                0 => refusal("ThrottlingException", "slow down"),
                1 => Reply::Text(500, String::new()),
                2 | 3 => ok((kind.going)()),
                _ => ok((kind.done)()),
            })
            .await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        assert_eq!(run.result().unwrap().unwrap().is_error, Some(false), "{}: {}", kind.name, run.text());
        assert_eq!(service.times(kind.start), 1, "{}", kind.name);
        let start = service.asked()[0].clone();
        let body = start.body.to_string();
        assert!(body.contains("2026-06") && body.contains("\"7\""), "{body}");
        assert!(start.header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 Credential=test/"), "{start:?}");
        assert_eq!(key_in(&start).len(), 80);
    }
}

#[tokio::test]
async fn a_job_that_fails_says_why() {
    for kind in each() {
        let service = kind.service(|kind, _| ok((kind.failed)())).await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        assert_eq!((run.text().as_str(), run.status()), (kind.why, Status::Completed), "{}", kind.name);
    }
}

#[tokio::test]
async fn a_worker_that_dies_before_the_record_starts_no_second_job() {
    for kind in each() {
        let started = std::sync::Mutex::new(None::<String>);
        let service = StandIn::new(move |asked: &Asked, _| {
            let mut started = started.lock().unwrap();
            match asked.operation() {
                // ECS recognises a repeated start, and answers with the task that it has started.
                operation if operation == kind.start => ok(kind.starts(&mut started, asked)),
                operation if POLLS.contains(&operation.as_str()) => ok(kind.seen(started.as_ref().unwrap())),
                _ => ok((kind.found)(started.as_ref().unwrap())),
            }
        })
        .await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments())
            .crash_before_record("outside job")
            .to_end()
            .await
            .unwrap();
        assert_eq!(run.status(), Status::Completed, "{}: {:?}", kind.name, run.error());
        assert_eq!(service.times(kind.start), if kind.name == "ecs" { 2 } else { 1 }, "{}", kind.name);
    }
}

#[tokio::test]
async fn a_start_that_left_nothing_to_find_is_not_made_again() {
    for kind in each().filter(|kind| kind.name != "ecs") {
        let service = kind.service(|kind, _| ok((kind.done)())).await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments())
            .crash_before_record("outside job")
            .to_end()
            .await
            .unwrap();
        let error = run.error().unwrap().message;
        assert!(error.starts_with("the job may have been started; it was not started again"), "{}: {error}", kind.name);
        assert_eq!(service.times(kind.start), 1, "{}", kind.name);
    }
}

#[tokio::test]
async fn a_start_is_made_later_if_there_is_no_room_now_and_never_if_it_is_refused() {
    for kind in each() {
        let service = StandIn::new(move |asked: &Asked, before| match (asked.operation(), before) {
            // More often than one attempt tries it.
            (operation, 0..4) if operation == kind.start => refusal(kind.not_now, "not now"),
            (operation, _) if operation == kind.start => ok((kind.started)()),
            _ => ok((kind.done)()),
        })
        .await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        assert_eq!(
            (run.status(), service.times(kind.start)),
            (Status::Completed, 5),
            "{}: {:?}",
            kind.name,
            run.error()
        );
        let service = StandIn::new(move |_: &Asked, _| refusal("AccessDeniedException", "you may not")).await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        let error = run.error().unwrap().message;
        assert!(
            error.contains("you may not (`longhaul gateway iam-policy` prints the permissions"),
            "{}: {error}",
            kind.name
        );
        assert_eq!(service.times(kind.start), 1, "{}", kind.name);
    }
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_stopped() {
    for kind in each() {
        let service = kind.service(|kind, _| ok((kind.going)())).await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments())
            .cancel_after("outside job")
            .to_end()
            .await
            .unwrap();
        assert_eq!((run.status(), service.times(kind.stop)), (Status::Cancelled, 1), "{}", kind.name);
        let late = call_within(HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        assert_eq!((late.status(), service.times(kind.stop)), (Status::Failed, 2), "{}", kind.name);
    }
}

#[tokio::test]
async fn a_job_that_its_system_does_not_know_for_five_minutes_is_an_error_and_stopped() {
    for kind in each() {
        let service = kind
            .service(|kind, _| match kind.name {
                "glue" => refusal("EntityNotFoundException", "no such run"),
                _ => ok(json!({"jobs": [], "builds": [], "tasks": []})),
            })
            .await;
        let run = call_within(24 * HOUR, (kind.job)(&service), arguments()).to_end().await.unwrap();
        let error = run.error().unwrap().message;
        assert!(error.contains("does not know the") && error.contains("any more"), "{}: {error}", kind.name);
        assert!(run.elapsed() >= 5 * MINUTE && run.elapsed() < 10 * MINUTE, "{}: {:?}", kind.name, run.elapsed());
        assert_eq!(service.times(kind.stop), 1, "{}", kind.name);
    }
}
