//! Lines of the audit log.

use std::sync::Arc;

use longhaul_core::audit::{CallerSpan, Entry, Event, FIELDS, Outcome, Source};
use longhaul_core::logs::{AuditLog, Audited, LineFormat, audited};
use longhaul_core::{Identity, OwnerId, Principal, VerifiedIdentity};
use longhaul_testkit::{Lines, ManualClock, capture};
use serde_json::Value;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;

fn logged(format: LineFormat, wanted: Audited, act: impl FnOnce(&Lines, &ManualClock)) {
    let (lines, clock) = (Lines::default(), Arc::new(ManualClock::default()));
    let writer = lines.clone();
    let log = AuditLog::to(move || writer.clone(), format, Arc::<ManualClock>::clone(&clock));
    let all = registry().with(log.with_filter(audited(wanted)));
    let _capturing = capture(all);
    act(&lines, &clock);
}

fn caller(user_agent: &str) -> CallerSpan {
    let source = Source {
        address: Some("203.0.113.7"),
        http_method: "POST",
        request_id: Some("r-1"),
        user_agent: Some(user_agent),
    };
    CallerSpan::new(source)
}

fn team() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "https://idp.example.com", subject: "", tenant: "team-7" })
}

fn ann() -> Principal {
    let mut identity = VerifiedIdentity::new("https://idp.example.com", "ann@example.com");
    identity.claims.insert("email".to_owned(), "a claim".into());
    Principal { identity: Some(identity), ..team().into() }
}

#[test]
fn a_line_says_who_did_what_from_where() {
    logged(LineFormat::Json, Audited::Only, |lines, _| {
        let caller = caller("client/1");
        caller.identified(&ann());
        let id = "01890000-0000-7000-8000-000000000001".parse().unwrap();
        let key = longhaul_core::TaskKey::new(team(), id);
        // Spans of others between them make no difference.
        caller.span().in_scope(|| {
            tracing::info_span!("request", owner = "nobody", arguments = "a secret").in_scope(|| {
                Entry::new(Event::Cancel, Outcome::Done).task(&key).tool("countdown").log();
            });
        });
        let text = lines.take_text();
        for secret in ["a secret", "a claim", "ann@example.com", "nobody"] {
            assert!(!text.contains(secret), "{text}");
        }
        let mut line: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<&str> =
            FIELDS.iter().map(|field| field.name).filter(|name| text.contains(&format!("\"{name}\":"))).collect();
        let places: Vec<usize> = names.iter().map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(line.as_object_mut().unwrap().remove("timestamp").unwrap().as_str().unwrap().ends_with('Z'));
        let expected = serde_json::json!({
            "level": "INFO", "target": "audit", "version": 1, "event": "cancel", "outcome": "done", "count": 1,
            "issuer": "https://idp.example.com",
            "subject": "841ac4b084eef9b3f1948812126e29604fa488dc819628b5bf7cf3e3c15db44f",
            "owner": team().to_string(), "task_id": id.to_string(), "tool": "countdown",
            "address": "203.0.113.7", "http_method": "POST", "request_id": "r-1", "user_agent": "client/1",
        });
        assert_eq!(line, expected);
    });
}

#[test]
fn nothing_is_logged_if_the_operator_does_not_want_it_and_nothing_else_if_he_does() {
    for (wanted, expected) in [(Audited::Nothing, 0), (Audited::Only, 1)] {
        logged(LineFormat::Json, wanted, |lines, _| {
            let caller = caller("client/1");
            caller.span().in_scope(|| {
                tracing::error!("something else");
                Entry::new(Event::Accept, Outcome::Done).log();
            });
            assert_eq!(lines.take().len(), expected);
        });
    }
}

#[test]
fn no_value_is_long_or_forges_a_line() {
    for format in [LineFormat::Json, LineFormat::Text] {
        logged(format, Audited::Only, |lines, _| {
            let evil = format!("x\nERROR forged\r\u{1b}[31m\u{85}{}", "y".repeat(100_000));
            let caller = caller(&evil);
            caller.span().in_scope(|| Entry::new(Event::Accept, Outcome::Done).tool(&evil).log());
            let text = lines.take_text();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.len() < 4_000 && !text.trim_end().chars().any(char::is_control), "{text}");
            assert!(text.contains("accept") && text.contains("203.0.113.7"), "{text}");
        });
    }
}

fn deny() {
    let caller = caller("client/1");
    caller.span().in_scope(|| Entry::new(Event::LogIn, Outcome::Denied).because("send a token").log());
}

#[test]
fn what_was_counted_is_written_with_the_next_request_or_at_the_end() {
    logged(LineFormat::Json, Audited::Only, |lines, clock| {
        let counts = || lines.take().iter().map(|line| line["count"].as_u64().unwrap()).collect::<Vec<_>>();
        (0..7).for_each(|_| deny());
        assert_eq!(counts(), [1, 1, 2]);
        clock.advance_ms(60_000);
        // A request of somebody else, which has no line.
        caller("client/2").span().in_scope(|| {});
        assert_eq!(counts(), [3]);
        (0..3).for_each(|_| deny());
        longhaul_core::audit::flush();
        assert_eq!(counts(), [1, 1, 1]);
        longhaul_core::audit::flush();
        assert_eq!(counts(), [0; 0]);
    });
}
