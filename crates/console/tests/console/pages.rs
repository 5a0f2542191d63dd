//! The contents of the pages, in each state of a task and of the server.

use jiff::{SignedDuration, Timestamp};
use longhaul_client::{Question, Refusal, Status};
use longhaul_console::{OtherServer, Processes};
use serde_json::{Map, json};

use crate::fake::{Browser, Fake, record, task};

fn with(tasks: Vec<longhaul_client::Task>) -> Fake {
    Fake { tasks, ..Fake::default() }
}

#[tokio::test]
async fn the_list_has_each_task_and_its_way_to_more() {
    let all = Status::ALL.map(|status| task(&format!("id-{}", status.name()), status, "3/10 rows"));
    let page = Browser::of(with(all.to_vec())).get("/console").await;
    assert_eq!(page.code, 200);
    for status in Status::ALL {
        let name = status.name();
        assert!(page.text.contains(&format!(r#"href="/console/task?id=id-{name}""#)), "{name}");
        assert!(page.text.contains(&format!(r#"class="status {name}""#)), "{name}");
    }
    // Tasks that have ended have no bar.
    assert_eq!(page.text.matches(r#"<progress value="3" max="10""#).count(), 2);
}

#[tokio::test]
async fn an_empty_list_and_one_without_fits_say_so() {
    let browser = Browser::of(with(Vec::new()));
    assert!(browser.get("/console").await.text.contains("There are no tasks yet."));
    let searched = browser.get("/console?q=%22%3E%3Cb%3E").await.text;
    assert!(searched.contains("No task fits.") && searched.contains(r#"value="&quot;&gt;&lt;b&gt;""#), "{searched}");
}

#[tokio::test]
async fn fifty_tasks_are_on_a_page() {
    let all = (0..120).map(|number| task(&format!("id-{number:03}"), Status::Working, "")).collect();
    let browser = Browser::of(with(all));
    let first = browser.get("/console").await.text;
    assert_eq!(first.matches(r#"href="/console/task?id="#).count(), 50);
    assert!(first.contains("page 1 of 3") && first.contains(r#"rel="next" href="/console?page=2""#), "{first}");
    let last = browser.get("/console?page=99&status=odd").await.text;
    assert!(last.contains("id-119") && !last.contains("id-099"), "{last}");
}

#[tokio::test]
async fn a_task_leads_to_its_caller_and_to_those_that_it_called() {
    let journal = vec![json!({"kind": "step", "name": "eu", "at": "2026-11-23T04:05:33Z", "attempt": 1, "value": {},
        "child": "below"})];
    let mut shown = record(&[], journal);
    shown["parent"] = "above".into();
    let fake =
        Fake { records: Map::from_iter([("a".to_owned(), shown)]), ..with(vec![task("a", Status::Working, "")]) };
    let page = Browser::of(fake).get("/console/task?id=a").await.text;
    for id in ["above", "below"] {
        assert!(page.contains(&format!(r#"<a href="/console/task?id={id}">{id}</a>"#)), "{id}: {page}");
    }
}

#[tokio::test]
async fn a_task_that_runs_has_a_bar_a_timeline_and_a_way_to_cancel() {
    // An attempt that runs lasts until now, so all of it is counted from now.
    let now = Timestamp::now();
    let ago = |seconds| (now - SignedDuration::from_secs(seconds)).to_string();
    let attempts = [
        json!({"attempt": 1, "from": ago(7_219), "to": ago(7_216), "end": "died"}),
        json!({"attempt": 2, "from": ago(7_214), "to": ago(7_210), "end": "timer"}),
        json!({"attempt": 3, "from": ago(10), "to": null, "end": null}),
    ];
    let journal = vec![json!({"kind": "step", "name": "fetch", "at": ago(7_217), "tookMs": 412, "attempt": 1,
        "bytes": 2, "value": 17})];
    let records = Map::from_iter([("a".to_owned(), record(&attempts, journal))]);
    let fake = Fake { records, ..with(vec![task("a", Status::Working, "3/10 rows")]) };
    let page = Browser::of(fake).get("/console/task?id=a").await.text;
    for part in [
        "<h1>etl</h1>",
        "30 %",
        "3 attempts, 1 step in",
        "Attempt 1 died; its last entry is 2 s after its start",
        "⋯ 2 h ⋯",
        "412 ms",
        "fetch",
        "Deadline",
        "&quot;rows&quot;: 3",
        r#"value="cancel""#,
        "longhaul show 'a' --journal --server 'http://127.0.0.1:8080/mcp'",
        "curl -s 'http://127.0.0.1:8080/mcp'",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn a_task_that_has_ended_shows_its_end_and_cannot_be_cancelled() {
    let mut well = task("well", Status::Completed, "");
    well.end = Some(Ok(json!({"content": [{"type": "text", "text": "42 rows"}, {"type": "image", "data": "AAAA"}]})));
    let mut wrong = task("wrong", Status::Failed, "");
    wrong.end = Some(Err(Refusal { code: -32603, message: "the disk is full".to_owned(), data: None }));
    let browser = Browser::of(with(vec![well, wrong]));
    let well = browser.get("/console/task?id=well").await.text;
    assert!(well.contains("<pre>42 rows</pre>") && well.contains("4 bytes in base64"), "{well}");
    assert!(!well.contains(r#"value="cancel""#), "{well}");
    let wrong = browser.get("/console/task?id=wrong").await.text;
    assert!(wrong.contains("the disk is full") && wrong.contains("-32603"), "{wrong}");
    assert!(wrong.contains("does not show the stored data"), "{wrong}");
}

#[tokio::test]
async fn the_form_of_a_question_is_on_the_page_of_its_task() {
    let mut asks = task("a", Status::InputRequired, "");
    asks.questions = vec![question("Delete 3 files?")];
    let page = Browser::of(with(vec![asks])).get("/console/task?id=a").await.text;
    assert!(page.contains("Delete 3 files?") && page.contains(r#"action="/console/questions?id=a""#), "{page}");
    let (_, link) = page.split_once(r#"class="button" href="/console/task?id=a&amp;asks="#).unwrap();
    assert!(link.contains(r##"#asked""##), "{link}");
    assert!(page.contains(r#"<span class="badge">1<"#), "{page}");
}

fn question(message: &str) -> Question {
    let params = json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}});
    Question { key: "q".to_owned(), method: "elicitation/create".to_owned(), params }
}

#[tokio::test]
async fn a_row_says_what_was_called_what_it_says_and_how_long_it_took() {
    let told = |id: &str, status: Status, more: serde_json::Value| {
        let mut task = task(id, status, "");
        task.raw.extend(more.as_object().unwrap().clone());
        task
    };
    let failed = json!({"title": "rows=3 url=<x>", "says": "the disk is full", "endedAt": "2026-11-23T04:06:32Z"});
    let near = (Timestamp::now() + SignedDuration::from_secs(300)).to_string();
    let tasks = vec![
        told("child", Status::Working, json!({"parent": "above", "deadlineAt": near})),
        told("other", Status::Failed, failed),
        told("above", Status::InputRequired, json!({"says": "Go on?"})),
    ];
    let page = Browser::of(with(tasks)).get("/console").await.text;
    for part in
        ["rows=3 url=&lt;x&gt;", r#"<span class="message wrong">the disk is full"#, "<span>62 s</span>", "deadline in"]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(page.contains(r#"<span class="message asks">Go on?"#) && page.contains(r#"data-text="other""#), "{page}");
    let at = |id: &str| page.find(&format!(r#"href="/console/task?id={id}""#)).unwrap();
    assert!(at("other") < at("above") && at("above") < at("child"), "a called task is below its caller");
    assert!(page.contains(r#"<tr class="child depth1">"#), "{page}");
}

#[tokio::test]
async fn older_tasks_than_those_of_the_list_are_a_link_away() {
    let browser = Browser::of(Fake { older: Some("c2"), ..with(vec![task("a", Status::Working, "")]) });
    let page = browser.get("/console?tool=etl").await.text;
    assert!(page.contains(r#"rel="next" href="/console?tool=etl&amp;before=c2""#), "{page}");
    browser.reads("");
    let page = browser.get("/console?tool=etl&before=c2").await.text;
    assert_eq!(browser.reads("tasks before c2"), 1);
    assert!(page.contains(r#"href="/console?tool=etl">Newest"#), "{page}");
}

#[tokio::test]
async fn only_an_operator_chooses_the_owner_and_then_each_row_leads_to_its_own() {
    let mut bobs = task("a", Status::Working, "");
    bobs.raw.insert("owner".to_owned(), "b0b".into());
    let fake = with(vec![bobs]);
    let page = Browser::of(fake.clone()).get("/console").await.text;
    assert!(!page.contains("all owners"), "{page}");
    let browser = Browser::of(Fake { is_operator: true, ..fake });
    assert!(browser.get("/console").await.text.contains(r#"<option value="*">all owners"#));
    browser.reads("");
    let page = browser.get("/console?owner=*").await.text;
    assert_eq!(browser.reads("of *"), 1);
    assert!(page.contains(r#"href="/console/task?id=a&amp;owner=b0b""#), "{page}");
    assert!(!page.contains(r#"name="id""#), "rows of other owners are acted on by a filter only: {page}");
    browser.reads("");
    let page = browser.get("/console/task?id=a&owner=b0b").await.text;
    assert_eq!(browser.reads("of b0b"), 1);
    assert!(page.contains(r#"action="/console/act?owner=b0b""#), "{page}");
}

#[tokio::test]
async fn a_call_is_made_again_from_a_form_with_its_arguments() {
    let page = Browser::of(with(vec![task("a", Status::Failed, "")])).get("/console/tools?tool=etl&from=a").await.text;
    assert!(page.contains(r#"name="field.rows""#) && page.contains(r#"value="3""#), "{page}");
}

#[tokio::test]
async fn thousands_of_entries_stay_a_small_page() {
    let attempts: Vec<_> = (1..=16)
        .map(|attempt| {
            json!({"attempt": 24 + attempt, "from": format!("2026-11-23T{:02}:05:31Z", attempt + 5),
            "to": format!("2026-11-23T{:02}:06:31Z", attempt + 5), "end": "timer"})
        })
        .collect();
    let entry = |number: usize| {
        json!({"kind": "step", "name": format!("step {number} {}", "x".repeat(200)), "tookMs": 5,
            "at": format!("2026-11-23T{:02}:{:02}:{:02}Z", 5 + number / 300, number / 60 % 60, number % 60),
            "attempt": number / 100 + 1, "bytes": 4_000, "value": "y".repeat(4_000)})
    };
    let records = Map::from_iter([("a".to_owned(), record(&attempts, (0..4_096).map(entry).collect()))]);
    let browser = Browser::of(Fake { records, ..with(vec![task("a", Status::Working, "")]) });
    let page = browser.get("/console/task?id=a").await.text;
    assert!(page.len() < 1 << 19, "{} bytes", page.len());
    assert!(page.contains(">4001–4096</a>") && page.contains("step 4095 "), "the last group is shown");
    let second = browser.get("/console/task?id=a&group=2").await.text;
    assert!(second.contains("step 200 ") && second.contains("step 399 ") && !second.contains("step 400 "));
    let one = browser.get("/console/task?id=a&entry=step%3Astep%207%20x").await.text;
    assert!(one.contains("The journal does not have this entry."));
}

#[tokio::test]
async fn health_says_what_it_is_computed_from_and_reads_no_journal() {
    let tasks = vec![
        task("a", Status::InputRequired, ""),
        task("b", Status::Failed, "the disk is full"),
        task("c", Status::Working, ""),
    ];
    let runs = json!({"attempt": 1, "from": "2026-11-23T04:05:31Z", "to": null, "end": null});
    let records = Map::from_iter([("c".to_owned(), record(&[runs], Vec::new()))]);
    let browser = Browser::of(Fake { records, ..with(tasks) });
    let page = browser.get("/console/health").await.text;
    assert!(page.contains("Computed from the 3 tasks") && page.contains("the disk is full"), "{page}");
    assert!(page.contains("1 attempt runs now"), "{page}");
    assert_eq!(browser.reads("inspect"), 0);
}

#[tokio::test]
async fn health_has_the_servers_behind_this_one_and_the_next_deadlines() {
    let mut near = task("near", Status::Working, "");
    let deadline = (Timestamp::now() + SignedDuration::from_secs(330)).to_string();
    near.raw.insert("deadlineAt".to_owned(), deadline.into());
    let browser = Browser::with(with(vec![near]), |setup| {
        let well = OtherServer {
            name: "search".to_owned(),
            processes: Some(Processes { starting: 1, running: 2, restarts: 3 }),
            why: None,
        };
        let away =
            OtherServer { name: "db".to_owned(), why: Some("it is <away>".to_owned()), ..OtherServer::default() };
        setup.servers = Box::new(move || vec![well.clone(), away.clone()]);
    });
    let page = browser.get("/console/health").await.text;
    for part in ["2 + 1 starting", "cannot be used now: it is &lt;away&gt;", "Next deadlines", "in 5 min"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(page.find(">db<").unwrap() < page.find(">search<").unwrap(), "the one that cannot be used comes first");
}

#[tokio::test]
async fn a_task_that_sleeps_says_until_when_in_the_list_and_on_its_page() {
    // An hour and 58 minutes from now, and half a minute in which this may run.
    let wakes_at = (Timestamp::now() + SignedDuration::from_secs(7_110)).to_string();
    let mut sleeps = task("a", Status::Working, "");
    sleeps.raw.insert("wakesAt".to_owned(), wakes_at.as_str().into());
    let mut due = task("b", Status::Working, "");
    due.raw.insert("wakesAt".to_owned(), "2026-11-23T04:05:30Z".into());
    let mut shown = record(
        &[json!({"attempt": 1, "from": "2026-11-23T04:05:31Z", "to": "2026-11-23T04:05:32Z",
        "end": "timer"})],
        Vec::new(),
    );
    shown["wakesAt"] = wakes_at.as_str().into();
    let browser = Browser::of(Fake { records: Map::from_iter([("a".to_owned(), shown)]), ..with(vec![sleeps, due]) });
    let list = browser.get("/console").await.text;
    assert!(list.contains(r#"<span class="status working">working</span>"#), "one that is due works: {list}");
    for page in [list, browser.get("/console/task?id=a").await.text] {
        let (_, rest) = page.split_once("asleep until <time ").unwrap_or_else(|| panic!("{page}"));
        let (time, rest) = rest.split_once("</time>").unwrap();
        let minute = time.rsplit_once('>').unwrap().1;
        assert!(minute.len() == 5 && wakes_at.contains(minute), "{time}");
        assert!(rest.contains("(in 1 h 58 min)"), "{rest}");
    }
}

#[tokio::test]
async fn a_timer_is_shown_as_a_moment_and_a_failure_in_words() {
    let entry = |kind: &str, name: &str, value: serde_json::Value| {
        let at = "2026-11-23T04:05:32Z";
        json!({"kind": kind, "name": name, "at": at, "attempt": 1, "bytes": 9, "value": value})
    };
    let attempt = json!({"attempt": 1, "from": "2026-11-23T04:05:31Z", "to": "2026-11-23T04:05:34Z", "end": "died"});
    let journal = vec![
        entry("timer", "0", json!(1_763_870_400_000_i64)),
        entry("step", "fetch", json!({"Failed": "no <route>"})),
    ];
    let records = Map::from_iter([("a".to_owned(), record(&[attempt], journal))]);
    let browser = Browser::of(Fake { records, ..with(vec![task("a", Status::Working, "")]) });
    let page = browser.get("/console/task?id=a&entry=timer:0").await.text;
    assert_eq!(page.matches(">2025-11-23 04:00:00 UTC</time>").count(), 2, "in its row and alone: {page}");
    assert!(page.contains(r#"<span class="wrong">Failed: no &lt;route&gt;</span>"#), "{page}");
    let (_, journal) = page.split_once("h-journal").unwrap();
    assert!(!journal.contains("1763870400000<") && !journal.contains("attempt-died"), "{journal}");
}

#[tokio::test]
async fn long_ids_are_short_and_the_tab_names_tool_and_status() {
    let id = "01995b2e-7c3a-7f00-8000-0123456789ab";
    let records = Map::from_iter([(id.to_owned(), record(&[], Vec::new()))]);
    let browser = Browser::of(Fake { records, ..with(vec![task(id, Status::Working, "")]) });
    let list = browser.get("/console").await.text;
    let short = format!(r#"<span title="{id}">…456789ab</span>"#);
    assert!(list.contains(&short), "{list}");
    let page = browser.get(&format!("/console/task?id={id}")).await.text;
    assert!(page.contains("<title>etl: working · Longhaul</title>"), "{page}");
    assert!(page.contains(r#"data-title="etl: working · Longhaul""#), "{page}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_said_and_tried_again() {
    let browser = Browser::of(Fake { is_gone: true, ..Fake::default() });
    for path in ["/console", "/console/task?id=a", "/console/health"] {
        let page = browser.get(path).await;
        assert_eq!(page.code, 502, "{path}");
        let retry = r#"<meta http-equiv="refresh" content="5">"#;
        assert!(page.text.contains("does not answer: ") && page.text.contains(retry), "{}", page.text);
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_once() {
    let browser = Browser::of(with(Vec::new()));
    for path in ["/console/task?id=none", "/console/task", "/console/none", "/console/task/../../x"] {
        let page = browser.get(path).await;
        assert_eq!(page.code, 404, "{path}");
        assert!(!page.text.contains("http-equiv"), "{path}");
    }
}

#[tokio::test]
async fn labels_are_shown_and_lead_to_the_list_of_their_tasks() {
    let mut labelled = task("a", Status::Working, "");
    labelled.raw.insert("labels".to_owned(), json!({"customer": "<acme>"}));
    let mut fake = with(vec![labelled, task("b", Status::Working, "")]);
    let mut record = record(&[], Vec::new());
    record["labels"] = json!({"customer": "<acme>"});
    fake.records.insert("a".to_owned(), record);
    let browser = Browser::of(fake);
    let link = r#"href="/console?label=customer%3D%3Cacme%3E">customer=&lt;acme&gt;</a>"#;
    let list = browser.get("/console?page=2").await.text;
    assert_eq!(list.matches(link).count(), 1, "{list}");
    assert!(browser.get("/console/task?id=a").await.text.contains(link));
    let filtered = browser.get("/console?label=customer%3D%3Cacme%3E").await.text;
    assert!(filtered.contains(r#"value="customer=&lt;acme&gt;""#), "{filtered}");
    let asked = browser.post("/console/act?label=customer%3Dacme", "act=cancel-filtered").await.text;
    assert!(asked.contains("label: customer=acme"), "{asked}");
}
