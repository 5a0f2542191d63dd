//! Limits of the arguments of the diagnostics.

use super::*;

#[test]
fn the_time_of_a_countdown_is_divided_into_equal_steps_and_limited() {
    let step_time = |seconds, steps| CountdownArgs { seconds, steps }.step_time().ok();
    assert_eq!(step_time(0.0, 10), Some(Duration::ZERO));
    assert_eq!(step_time(2.5, 10), Some(Duration::from_millis(250)));
    for (seconds, steps) in [(-0.1, 1), (86_400.5, 1), (f64::INFINITY, 1), (f64::NAN, 1), (1.0, 0), (1.0, 4_001)] {
        assert_eq!(step_time(seconds, steps), None, "{seconds} {steps}");
    }
    let args: CountdownArgs = serde_json::from_str("{\"seconds\": 3}").unwrap();
    assert_eq!(args.steps, 10);
    let refused = CountdownArgs { steps: 0, ..args }.step_time().unwrap_err();
    assert_eq!(refused.message, "`steps` is 0: it must be between 1 and 4000");
}

#[test]
fn the_wait_before_failing_is_optional_and_limited() {
    let times = |text: &str| serde_json::from_str::<FailArgs>(text).unwrap().times().ok();
    assert_eq!(times(r#"{"how": "too_large"}"#), Some([Duration::ZERO; 2]));
    for wrong in [r#""after_s": -1"#, r#""after_s": 30.5"#, r#""cleanup_s": -1"#, r#""cleanup_s": 30.5"#] {
        assert_eq!(times(&format!(r#"{{"how": "hang", {wrong}}}"#)), None, "{wrong}");
    }
}

#[test]
fn questions_within_the_limits_are_accepted_and_others_refused() {
    let check = |questions: &[&str]| {
        AskArgs { questions: questions.iter().map(|question| (*question).to_owned()).collect() }.check().is_ok()
    };
    assert!(check(&["Why?"]));
    assert!(!check(&[]) && !check(&["Why?"; 21]) && !check(&["Why?", " "]) && !check(&[&"x".repeat(2_001)]));
}

#[test]
fn countdowns_are_called_at_the_last_level_and_calls_and_levels_are_limited() {
    let calls = |calls, levels| GatherArgs { calls, seconds: 0.5, levels }.calls();
    let (tool, countdowns) = calls(4, 0).unwrap();
    assert_eq!((tool, countdowns.len()), ("countdown", 4));
    assert_eq!(countdowns[2], json!({"seconds": 0.5, "steps": 3}));
    assert_eq!(countdowns[3], json!({"seconds": 0.5, "steps": 1}));
    let next = json!({"calls": 4, "seconds": 0.5, "levels": 1});
    assert_eq!(calls(4, 2).unwrap(), ("gather", vec![next]));
    assert!(calls(0, 0).is_err() && calls(1_001, 0).is_err() && calls(1, 9).is_err());
}

#[test]
fn answers_stay_in_order_and_the_first_error_is_kept() {
    let mut answer = GatherAnswer::default();
    answer.add(Ok(json!({"seconds": 0.0, "steps": 2, "attempts": 1})));
    answer.add(Err("first".to_owned()));
    answer.add(Ok(json!({"steps": [3, 1], "error": "second"})));
    assert_eq!(answer, GatherAnswer { steps: vec![2, 0, 3, 1], error: Some("first".to_owned()) });
}

#[test]
fn a_large_text_has_exactly_the_requested_length() {
    for bytes in [0, 1, 64, 65, 100_000] {
        assert_eq!(large_text(bytes).unwrap().len(), bytes);
    }
    assert!(large_text(64 * 1024 * 1024 + 1).is_err());
}
