//! Questions that are answered in forms, and tools that are called from them.

use longhaul_client::{Question, Status, Task};
use serde_json::{Value, json};

use crate::fake::{Browser, Fake, task};

fn asking(questions: Vec<Question>) -> Fake {
    let task = Task { questions, ..task("asks", Status::InputRequired, "") };
    Fake { tasks: vec![task], ..Fake::default() }
}

fn question(key: &str, params: Value) -> Question {
    Question { key: key.to_owned(), method: "elicitation/create".to_owned(), params }
}

fn how_many(key: &str) -> Question {
    let schema = json!({"type": "object", "properties": {"rows": {"type": "integer"}}, "required": ["rows"]});
    question(key, json!({"message": "How many rows?", "requestedSchema": schema}))
}

/// The hidden field of a page that says which question a form is about.
fn asked(page: &str) -> String {
    let (_, rest) = page.split_once(r#"name="asked" value=""#).unwrap();
    format!("task=asks&asked={}", rest.split('"').next().unwrap())
}

#[tokio::test]
async fn an_answer_goes_to_its_question_and_is_logged() {
    let browser = Browser::of(asking(vec![how_many("q-1")]));
    let form = asked(&browser.get("/console/questions").await.text);
    let answer = browser.post("/console/questions", &format!("{form}&act=answer&field.rows=3")).await;
    assert_eq!((answer.code, &answer.head["location"]), (303, &"/console/questions?did=answered".parse().unwrap()));
    assert_eq!(browser.done(), [r#"answer asks q-1 {"action":"accept","content":{"rows":3}}"#]);
    assert_eq!(browser.acts(), ["answer asks"]);
}

#[tokio::test]
async fn a_question_is_declined_or_dismissed_without_being_filled_in() {
    for (act, action) in [("decline", "decline"), ("dismiss", "cancel")] {
        let browser = Browser::of(asking(vec![how_many("q-1")]));
        let form = asked(&browser.get("/console/questions?id=asks").await.text);
        let answer = browser.post("/console/questions?id=asks", &format!("{form}&act={act}")).await;
        assert!(answer.head["location"].to_str().unwrap().starts_with("/console/task?id=asks&did="), "{answer:?}");
        assert_eq!(browser.done(), [format!(r#"answer asks q-1 {{"action":"{action}"}}"#)]);
        assert_eq!(browser.acts(), [format!("{act} asks")]);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_sent() {
    let browser = Browser::of(asking(vec![how_many("q-1")]));
    let form = asked(&browser.get("/console/questions").await.text);
    let answer = browser.post("/console/questions", &format!("{form}&act=answer&field.rows=many")).await;
    assert_eq!(answer.code, 422);
    assert!(
        answer.text.contains("</a>: it must be a whole number") && answer.text.contains(r#"value="many""#),
        "{answer:?}"
    );
    assert!(browser.done().is_empty() && browser.acts().is_empty());
}

/// Servers of `2025-11-25` ask with another id each time that they are asked for the question.
#[tokio::test]
async fn a_question_is_found_again_under_another_key() {
    let form = asked(&Browser::of(asking(vec![how_many("7")])).get("/console/questions").await.text);
    let later = Browser::of(asking(vec![how_many("8")]));
    later.post("/console/questions", &format!("{form}&act=answer&field.rows=3")).await;
    assert_eq!(later.done(), [r#"answer asks 8 {"action":"accept","content":{"rows":3}}"#]);
}

#[tokio::test]
async fn an_answer_to_what_is_not_asked_any_more_is_not_given_to_the_next_question() {
    let form = asked(&Browser::of(asking(vec![how_many("q-1")])).get("/console/questions").await.text);
    let other = question(
        "q-1",
        json!({"message": "Delete how many rows?", "requestedSchema": how_many("q").params["requestedSchema"]}),
    );
    let later = Browser::of(asking(vec![other]));
    let answer = later.post("/console/questions", &format!("{form}&act=answer&field.rows=3")).await;
    assert_eq!(answer.code, 409);
    assert!(later.done().is_empty(), "{:?}", later.done());
}

#[tokio::test]
async fn what_the_server_refuses_is_said_in_the_form_with_what_was_typed() {
    let fake = Fake { refusal: Some("too many <rows>"), ..asking(vec![how_many("q-1")]) };
    let browser = Browser::of(fake);
    let form = asked(&browser.get("/console/questions").await.text);
    let answer = browser.post("/console/questions", &format!("{form}&act=answer&field.rows=3")).await;
    assert_eq!(answer.code, 422);
    let parts = [
        "the server refuses the answer: too many &lt;rows&gt;",
        r#"name="field.rows" type="text" inputmode="decimal" value="3""#,
    ];
    assert!(parts.iter().all(|part| answer.text.contains(part)), "{}", answer.text);
    assert_eq!(browser.acts(), ["not answer asks"]);
    let called = browser.post("/console/tools", "tool=etl&field.rows=3").await;
    assert!(
        called.code == 422 && called.text.contains("the server refuses the call: too many &lt;rows&gt;"),
        "{called:?}"
    );
}

#[tokio::test]
async fn only_addresses_for_browsers_become_links() {
    for (url, is_link) in
        [("https://example.com/a?b=<c>", true), ("javascript:alert(1)", false), ("file:///etc/passwd", false)]
    {
        let asks = question("q", json!({"mode": "url", "message": "Log in", "elicitationId": "e", "url": url}));
        let browser = Browser::of(asking(vec![asks]));
        let page = browser.get("/console/questions").await.text;
        assert_eq!(page.contains(r#"rel="noopener noreferrer""#), is_link, "{page}");
        assert!(!page.contains("href=\"javascript") && !page.contains("href=\"file"), "{page}");
        browser.post("/console/questions", &format!("{}&act=answer", asked(&page))).await;
        assert_eq!(browser.done(), [r#"answer asks q {"action":"accept"}"#]);
    }
}

#[tokio::test]
async fn sampling_is_shown_and_not_answered() {
    let asks =
        Question { method: "sampling/createMessage".to_owned(), ..question("q", json!({"messages": ["<b>hi</b>"]})) };
    let page = Browser::of(asking(vec![asks])).get("/console/questions").await.text;
    assert!(
        page.contains("sampling/createMessage") && page.contains("&lt;b&gt;hi&lt;/b&gt;") && !page.contains("<form"),
        "{page}"
    );
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_one_call_and_with_other_arguments_another() {
    let browser = Browser::of(Fake::default());
    for rows in ["3", "3", "4"] {
        let answer =
            browser.post("/console/tools", &format!("tool=etl&key=made-with-the-page&field.rows={rows}")).await;
        assert_eq!(&answer.head["location"], "/console/task?id=new&did=called");
    }
    let done = browser.done();
    assert!(
        done[0] == done[1] && done[1] != done[2] && done[0].starts_with("call etl made-with-the-page-"),
        "{done:?}"
    );
    assert_eq!(browser.acts(), ["call new"; 3]);
}

#[tokio::test]
async fn a_tool_that_there_is_not_is_not_found() {
    let browser = Browser::of(Fake::default());
    assert_eq!(browser.get("/console/tools?tool=none").await.code, 404);
    assert_eq!(browser.post("/console/tools", "tool=none").await.code, 404);
}

#[tokio::test]
async fn forms_of_a_console_that_only_shows_cannot_be_filled_in() {
    let browser = Browser::with(asking(vec![how_many("q-1")]), |setup| setup.is_read_only = true);
    for path in ["/console/questions", "/console/tools?tool=etl"] {
        let page = browser.get(path).await.text;
        assert!(page.contains(r#"<fieldset class="plain" disabled>"#) && !page.contains("<button"), "{page}");
    }
}
