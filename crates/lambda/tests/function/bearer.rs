//! Callers with a token of the stack's list, which the API function reads again and again.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::Clock;
use longhaul_lambda::{Api, Auth, BearerCaller, TokenSource};
use longhaul_testkit::ManualClock;
use serde_json::{Value, json};

use crate::answering::{answer, api};
use crate::world::{World, event};

const ANN: &str = "annannannannannannannannannannannann";
const BOB: &str = "bobbobbobbobbobbobbobbobbobbobbobbob";

/// A list that can be changed, and how often it was read.
#[derive(Default)]
struct Listed {
    text: Option<String>,
    fails: bool,
    read: usize,
}

#[derive(Clone, Default)]
struct Source(Arc<Mutex<Listed>>);

impl Source {
    fn put(&self, text: &str) {
        self.0.lock().unwrap().text = Some(text.to_owned());
    }

    fn fails(&self, fails: bool) {
        self.0.lock().unwrap().fails = fails;
    }

    fn read(&self) -> usize {
        self.0.lock().unwrap().read
    }
}

#[async_trait]
impl TokenSource for Source {
    async fn read(&self) -> Result<Option<String>, String> {
        let mut listed = self.0.lock().unwrap();
        listed.read += 1;
        if listed.fails { Err("SSM does not answer".to_owned()) } else { Ok(listed.text.clone()) }
    }
}

struct Function {
    api: Api,
    clock: Arc<ManualClock>,
    source: Source,
}

impl Function {
    fn new() -> Self {
        let (world, source) = (World::new(), Source::default());
        let clock = Arc::clone(&world.clock);
        let caller = BearerCaller::new(source.clone(), Arc::<ManualClock>::clone(&clock));
        let api = api(&world, Auth::Bearer("/longhaul/etl/tokens".to_owned()), &[]).identified_by(Arc::new(caller));
        Self { api, clock, source }
    }

    async fn answer(&self, authorization: &str) -> Value {
        let mut asked = event("api-function-url");
        asked["headers"]["authorization"] = authorization.into();
        answer(&self.api, &asked).await
    }

    async fn status(&self, token: &str) -> Value {
        self.answer(&format!("Bearer {token}")).await["statusCode"].clone()
    }
}

#[tokio::test]
async fn a_token_of_the_list_lets_its_caller_in() {
    let function = Function::new();
    assert_eq!(function.status(ANN).await, 401, "a stack without tokens lets in nobody");
    function.source.put(&format!("ann {ANN}"));
    function.clock.advance_ms(30_000);
    assert_eq!((function.status(ANN).await, function.status(BOB).await), (json!(200), json!(401)));
    let refused = function.answer(&format!("Bearer {BOB}")).await.to_string();
    assert!(refused.contains("the token is not known") && !refused.contains(BOB), "{refused}");
}

#[tokio::test]
async fn a_revoked_token_works_for_less_than_a_minute() {
    let function = Function::new();
    function.source.put(&format!("ann {ANN}\nbob {BOB}"));
    assert_eq!(function.status(ANN).await, 200);
    function.source.put(&format!("bob {BOB}"));
    function.clock.advance_ms(29_999);
    assert_eq!((function.status(ANN).await, function.source.read()), (json!(200), 1));
    function.clock.advance_ms(1);
    assert_eq!((function.status(ANN).await, function.status(BOB).await), (json!(401), json!(200)));
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_used_for_a_minute_and_no_longer() {
    let function = Function::new();
    function.source.put(&format!("ann {ANN}"));
    assert_eq!(function.status(ANN).await, 200);
    for (spoil, left) in [(true, None), (false, Some("ann short"))] {
        function.source.fails(spoil);
        if let Some(text) = left {
            function.source.put(text);
        }
        function.clock.advance_ms(59_999);
        assert_eq!(function.status(ANN).await, 200);
        function.clock.advance_ms(1);
        let answered = function.answer(&format!("Bearer {ANN}")).await;
        assert_eq!((&answered["statusCode"], &answered["headers"]["retry-after"]), (&json!(503), &json!("5")));
        assert!(answered["body"].as_str().unwrap().contains("cannot be read now"), "{answered}");
        let read = function.source.read();
        assert_eq!((function.status(ANN).await, function.source.read()), (json!(503), read), "it pauses");
        function.source.fails(false);
        function.source.put(&format!("ann {ANN}"));
        function.clock.advance_ms(5_000);
        assert_eq!(function.status(ANN).await, 200);
    }
}

#[tokio::test]
async fn refused_callers_cost_no_reads() {
    let function = Function::new();
    for sent in ["", "Basic YQ==", "Bearer"] {
        assert_eq!(function.answer(sent).await["statusCode"], 401, "{sent}");
    }
    assert_eq!(function.source.read(), 0, "nothing is read for those without a token");
    function.source.put(&format!("ann {ANN}"));
    for number in 0..100 {
        assert_eq!(function.status(&format!("{BOB}{number}")).await, 401);
    }
    assert_eq!(function.source.read(), 1);
}

#[tokio::test]
async fn a_token_expires_without_another_read() {
    let function = Function::new();
    let now_s = i64::try_from(function.clock.now().as_ms() / 1_000).unwrap();
    let at = longhaul_http::time_text(function.clock.now().plus_ms(10_000));
    assert!(now_s > 0);
    function.source.put(&format!("ann {ANN} expires={at}"));
    assert_eq!(function.status(ANN).await, 200);
    function.clock.advance_ms(10_000);
    let refused = function.answer(&format!("Bearer {ANN}")).await;
    assert!(refused["statusCode"] == 401 && refused.to_string().contains("the token has expired"), "{refused}");
    assert_eq!(function.source.read(), 1);
}
