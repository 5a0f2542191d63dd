//! Hostile tasks, and requests from pages that are not the console's.

use http::Request;
use longhaul_client::{Refusal, Status};
use serde_json::{Map, json};

use crate::fake::{Browser, Fake, read, record, task};

const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}txt\u{1b}[2J\u{0}javascript:";

fn hostile() -> Fake {
    let mut failed = task(HOSTILE, Status::Failed, HOSTILE);
    failed.end = Some(Err(Refusal { code: 1, message: HOSTILE.to_owned(), data: Some(json!({HOSTILE: HOSTILE})) }));
    let mut done = task("done", Status::Completed, HOSTILE);
    let contents = json!([{"type": "text", "text": HOSTILE}, {"type": HOSTILE, "mimeType": HOSTILE, "data": "AA"},
        {"type": "resource_link", "uri": HOSTILE}]);
    done.end = Some(Ok(json!({"content": contents, "isError": true, HOSTILE: HOSTILE})));
    let attempts =
        [json!({"attempt": 1, "from": "2026-11-23T04:05:31Z", "to": "2026-11-23T04:05:34Z", "end": "failed",
        "reason": HOSTILE})];
    let entry = json!({"kind": HOSTILE, "name": HOSTILE, "at": "2026-11-23T04:05:33Z", "attempt": 1, "value": HOSTILE,
        "child": HOSTILE});
    let mut shown = record(&attempts, vec![entry]);
    shown["tool"] = HOSTILE.into();
    shown["lastFailure"] = HOSTILE.into();
    shown["parent"] = HOSTILE.into();
    shown["variables"] = json!({"value": {HOSTILE: HOSTILE}});
    shown["arguments"] = json!({"value": {HOSTILE: HOSTILE}});
    let records = Map::from_iter([(HOSTILE.to_owned(), shown.clone()), ("done".to_owned(), shown)]);
    Fake { tasks: vec![failed, done], records, ..Fake::default() }
}

#[tokio::test]
async fn what_tasks_say_is_text_that_nothing_obeys() {
    let browser = Browser::of(hostile());
    let id = url::form_urlencoded::Serializer::new(String::new()).append_pair("id", HOSTILE).finish();
    let entry = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("entry", &format!("{HOSTILE}:{HOSTILE}"))
        .finish();
    let pages = [
        "/console".to_owned(),
        "/console/health".to_owned(),
        format!("/console/task?{id}&{entry}"),
        format!("/console/task?id=done&{entry}"),
        format!("/console?{}&tool=%22%3E%3Cscript%3E", id.replace("id=", "q=")),
    ];
    for path in pages {
        let page = browser.get(&path).await;
        assert_eq!(page.code, 200, "{path}: {}", page.text);
        for wrong in
            ["<script>alert", "<img", "\u{202e}", "\u{1b}", "\u{0}", "onerror=alert(1)>\"", "href=\"javascript"]
        {
            assert!(!page.text.contains(wrong), "{wrong:?} is in {path}: {}", page.text);
        }
        if !path.contains('?') {
            assert!(page.text.contains("&lt;script&gt;alert(1)") && page.text.contains("\\u{202e}"), "{}", page.text);
        }
    }
}

#[tokio::test]
async fn every_answer_says_what_a_browser_may_do_with_it() {
    let browser = Browser::of(hostile());
    for path in ["/console", "/console/none", "/console/console.js", "/console/console.css", "/console/icon.svg"] {
        let head = browser.get(path).await.head;
        let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let policy = text("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!((text("x-content-type-options"), text("referrer-policy")), ("nosniff", "same-origin"), "{path}");
    }
}

#[tokio::test]
async fn pages_need_neither_inline_script_nor_inline_style() {
    let browser = Browser::of(hostile());
    for path in [
        "/console",
        "/console/health",
        "/console/task?id=done",
        "/console/questions",
        "/console/tools",
        "/console/tools?tool=etl",
    ] {
        let page = browser.get(path).await.text;
        assert!(!page.contains(" style=") && !page.contains("<style"), "{path}");
        assert_eq!(page.matches("<script").count(), page.matches("<script src=\"/console/console.js\" defer>").count());
        assert!(!page.contains(" onclick=") && !page.contains("http-equiv"), "{path}");
    }
}

#[tokio::test]
async fn a_request_by_another_name_is_refused() {
    let browser = Browser::of(hostile());
    for host in ["evil.example", "127.0.0.1.evil.example:8081", ""] {
        for path in ["/console", "/console/console.js", "/console/live?page=/console"] {
            let answer = read(browser.send(Request::get(path).header("host", host), "").await).await;
            assert_eq!(answer.code, 403, "{host} {path}");
            assert!(!answer.text.contains("done"), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn only_forms_of_ours_act() {
    let browser = Browser::of(hostile());
    let page = browser.get("/console").await.text;
    let token = page.split_once(r#"name="token" value=""#).unwrap().1.split('"').next().unwrap().to_owned();
    let body = format!("token={token}&id=done&act=cancel");
    let elsewhere = ["http://evil.example", "http://localhost:8080", "http://127.0.0.1:8081", "null"];
    for origin in elsewhere {
        assert_eq!(browser.post_as(origin, "/console/act", &body).await.code, 403, "{origin}");
    }
    for body in ["id=done&act=cancel", "token=&id=done&act=cancel", "token=0123&id=done&act=cancel"] {
        assert_eq!(browser.post_as("http://localhost:8081", "/console/act", body).await.code, 403, "{body}");
    }
    let without = Request::post("/console/act").header("host", "localhost:8081");
    assert_eq!(browser.send(without, &body).await.status(), 403, "without an origin");
    assert_eq!(browser.done(), Vec::<String>::new());
    assert_eq!(browser.post_as("http://localhost:8081", "/console/act", &body).await.code, 303);
    assert_eq!(browser.done(), ["cancel done"]);
}

#[tokio::test]
async fn nothing_acts_by_get_or_any_other_method() {
    let browser = Browser::of(hostile());
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let request = Request::builder().method(method).uri("/console/act?id=done&act=cancel");
        let request = request.header("host", "localhost:8081").header("origin", "http://localhost:8081");
        let code = browser.send(request, "id=done&act=cancel").await.status();
        assert!(code == 404 || code == 405, "{method}: {code}");
    }
    assert_eq!(browser.done(), Vec::<String>::new());
}

#[tokio::test]
async fn a_console_that_only_shows_has_no_forms_that_act_and_refuses_them() {
    let browser = Browser::with(hostile(), |setup| setup.is_read_only = true);
    for path in ["/console", "/console/task?id=done"] {
        assert!(!browser.get(path).await.text.contains(r#"method="post""#), "{path}");
    }
    let answer = browser.post_as("http://localhost:8081", "/console/act", "id=done&act=cancel").await;
    assert_eq!(answer.code, 403);
    assert!(answer.text.contains("only shows"), "{}", answer.text);
    assert_eq!(browser.done(), Vec::<String>::new());
}

#[tokio::test]
async fn who_has_not_logged_in_sees_nothing_and_does_nothing() {
    let secret = "0123456789abcdef0123456789abcdef";
    let browser = Browser::with(hostile(), |setup| setup.secret = Some(secret.to_owned()));
    for path in ["/console", "/console/task?id=done", "/console/live?page=/console", "/console/health"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.code, 401, "{path}");
        assert!(!answer.text.contains("done"), "{}", answer.text);
    }
    assert_eq!(browser.post("/console/act", "id=done&act=cancel").await.code, 403);
    assert_eq!(browser.post("/console/log-in", "secret=wrong").await.code, 403);
    assert_eq!(browser.done(), Vec::<String>::new());
    let wrong = browser.post("/console/log-in", "secret=wrong").await;
    assert!(wrong.text.contains("This is not the token") && wrong.text.contains(r#"name="secret""#), "{}", wrong.text);
    let answer = browser.post("/console/log-in", &format!("secret={secret}")).await;
    let cookie = answer.head["set-cookie"].to_str().unwrap().to_owned();
    assert!(answer.code == 303 && cookie.contains("; HttpOnly; SameSite=Strict; Path=/console"), "{answer:?}");
    cookie.split(';').next().unwrap().clone_into(&mut browser.cookie.lock().unwrap());
    assert_eq!(browser.get("/console").await.code, 200);
    assert_eq!(browser.get("/console/log-in").await.head["location"], "/console");
    let answer = browser.post("/console/log-out", "").await;
    assert!(answer.code == 303 && answer.head["set-cookie"].to_str().unwrap().ends_with("Max-Age=0"), "{answer:?}");
    assert_eq!(browser.get("/console").await.code, 401, "the cookie is worth nothing any more");
    assert_eq!(browser.acts(), ["not log in ", "not log in ", "log in ", "log out "]);
}

#[tokio::test]
async fn a_link_logs_in_once_and_is_not_used_up_by_being_looked_at() {
    let browser = Browser::with(hostile(), |setup| setup.secret = Some("x".repeat(32)));
    let link = browser.console.entry();
    let once = link.split_once("once=").unwrap().1.to_owned();
    for _ in 0..2 {
        let page = browser.get(&link).await;
        assert!(page.code == 401 && page.text.contains("Open the console"), "{}", page.text);
    }
    let answer = browser.post("/console/log-in", &format!("once={once}")).await;
    assert_eq!(answer.code, 303);
    assert_eq!(browser.post("/console/log-in", &format!("once={once}")).await.code, 403);
    let again = browser.get(&link).await;
    assert!(again.code == 401 && again.text.contains("This link was used before"), "{}", again.text);
    assert!(again.text.contains(r#"name="secret""#), "{}", again.text);
    let cookie = answer.head["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().clone_into(&mut browser.cookie.lock().unwrap());
    let place = browser.get(&link).await.head["location"].to_str().unwrap().to_owned();
    assert!(browser.get(&place).await.text.contains("This link was used before. You are logged in already."));
}

#[test]
fn a_short_token_is_refused() {
    let refused =
        std::panic::catch_unwind(|| Browser::with(hostile(), |setup| setup.secret = Some("short".to_owned())));
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_form_that_is_too_large_is_refused() {
    let browser = Browser::of(hostile());
    assert_eq!(browser.post("/console/act", &"a".repeat(13 << 20)).await.code, 413);
    assert_eq!(browser.post("/console/act", &"a&".repeat(20_000)).await.code, 413);
}
