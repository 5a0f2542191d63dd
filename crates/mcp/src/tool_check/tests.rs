use std::time::Duration;

use rmcp::model::{JsonObject, ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::*;

/// A handler written by hand: it lists its tools page by page, and does not implement `get_tool`.
struct Listing(&'static [&'static str]);

impl ServerHandler for Listing {
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let at = request.and_then(|request| request.cursor).map_or(0, |cursor| cursor.len());
        let tools = self.0.get(at).map(|name| Tool::new(*name, "", JsonObject::new()));
        let mut page = ListToolsResult::with_all_items(tools.into_iter().collect());
        page.next_cursor = (at + 1 < self.0.len()).then(|| "x".repeat(at + 1));
        Ok(page)
    }
}

/// A handler written by hand: it implements `get_tool`, and cannot list its tools.
struct Naming(&'static [&'static str]);

impl ServerHandler for Naming {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let found = self.0.iter().find(|known| **known == name);
        found.map(|name| Tool::new(*name, "", JsonObject::new()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        panic!("it needs a caller")
    }
}

struct Silent;

impl ServerHandler for Silent {}

fn policies<const N: usize>(names: [&str; N]) -> Policies {
    BTreeMap::from(names.map(|name| (name.to_owned(), TaskPolicy::optional()))).into()
}

fn echo(policy: TaskPolicy) -> Policies {
    BTreeMap::from([("echo".to_owned(), policy)]).into()
}

#[tokio::test]
async fn a_misspelled_name_is_refused_with_the_nearest_one() {
    let handler = || Listing(&["echo", "countdown", "count"]);
    assert_eq!(check_tools(handler, &policies(["countdown", "echo"]), &BTreeMap::new()).await, Ok(()));
    let refused = check_tools(handler, &policies(["cuntdown", "echo"]), &BTreeMap::new()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `cuntdown`; did you mean `countdown`?");
    let refused = check_tools(handler, &policies(["migrate"]), &BTreeMap::new()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `migrate`");
}

#[tokio::test]
async fn the_tools_and_the_scopes_of_plain_tools_are_checked_too() {
    let handler = || Listing(&["echo", "countdown"]);
    let scoped = |tool: &str, scope: &str| [(tool.to_owned(), [scope.to_owned()].into())].into();
    assert_eq!(check_tools(handler, &policies(["countdown"]), &scoped("echo", "echo:call")).await, Ok(()));
    let refused = check_tools(handler, &policies(["countdown"]), &scoped("ecko", "echo:call")).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `ecko`; did you mean `echo`?");
    let refused = check_tools(handler, &policies([]), &scoped("echo", "a b")).await.unwrap_err().to_string();
    assert!(refused.starts_with("`a b` cannot be a scope of the tool `echo`"), "{refused}");
    let policy = TaskPolicy::optional().scope("fine").scope("");
    let refused = check_tools(handler, &echo(policy), &BTreeMap::new()).await.unwrap_err();
    assert!(matches!(refused, ToolError::Scope { scope, .. } if scope.is_empty()));
}

#[tokio::test]
async fn what_cleans_up_names_a_tool_that_becomes_a_task() {
    let handler = || Listing(&["echo", "countdown"]);
    let cleaned = |tool: &str| {
        let mut policies = policies(["countdown"]);
        policies.clean_up(tool.to_owned(), async |_ended| Ok::<(), String>(()));
        policies
    };
    assert_eq!(check_tools(handler, &cleaned("countdown"), &BTreeMap::new()).await, Ok(()));
    let refused = check_tools(handler, &cleaned("cuntdown"), &BTreeMap::new()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no tool `cuntdown`; did you mean `countdown`?");
    let refused = check_tools(handler, &cleaned("echo"), &BTreeMap::new()).await.unwrap_err();
    assert_eq!(refused, ToolError::NeverATask { tool: "echo".to_owned() });
    let mut by_function = cleaned("echo");
    by_function.decide_by(|tool| (tool == "echo").then(TaskPolicy::optional));
    assert_eq!(check_tools(handler, &by_function, &BTreeMap::new()).await, Ok(()));
}

#[tokio::test]
async fn a_class_without_a_proper_name_is_refused() {
    let handler = || Listing(&["echo", "countdown"]);
    let classed = |class: &str| echo(TaskPolicy::optional().class(class));
    assert_eq!(check_tools(handler, &classed("heavy"), &BTreeMap::new()).await, Ok(()));
    let refused = check_tools(handler, &classed("Heavy!"), &BTreeMap::new()).await.unwrap_err().to_string();
    assert!(refused.starts_with("`Heavy!` cannot be the class of the tool `echo`"), "{refused}");
}

fn labelled<const N: usize>(keys: [&str; N]) -> TaskPolicy {
    keys.into_iter().fold(TaskPolicy::optional(), |policy, key| policy.label(key, |_: &Value| 1))
}

#[tokio::test]
async fn a_policy_that_contradicts_itself_is_refused_with_what_to_do() {
    let handler = || Listing(&["echo", "countdown"]);
    let day = Duration::from_secs(86_400);
    let optional = TaskPolicy::optional;
    for (policy, said) in [
        (optional().ttl(8 * day), "`ttl` is 691200000 ms, and `ttl_at_most` allows 604800000 ms"),
        (optional().ttl(day).ttl_at_most(day / 2), "raise it, or shorten `ttl`"),
        (optional().attempt_at_most(Duration::ZERO), "`attempt_at_most` leaves no time"),
        (optional().questions_within(2 * day), "`questions_within` is 172800000 ms, and the task ends after 86400000"),
        (optional().run_at_most(Duration::ZERO), "`run_at_most` leaves no time"),
        (optional().run_at_most(401 * day), "`run_at_most` is longer than 400 days"),
        (optional().retention(Duration::MAX), "`retention` is longer than 400 days"),
        (optional().poll_every(Duration::ZERO), "`poll_every` is 0"),
        (optional().consecutive_failures_max(0), "`consecutive_failures_max` is 0"),
        (optional().concurrency(0), "`concurrency` is 0: name a number from 1 to 1000"),
        (optional().concurrency(1_001), "`concurrency` is 1001"),
        (optional().rate(0, day), "`rate` is 0"),
        (optional().rate(1, Duration::ZERO), "`rate` is for 0 ms"),
        (optional().rate(1, 8 * day), "`rate` is for 691200000 ms: name a time from a millisecond to a week"),
        (optional().concurrency_key(|_: &Value| ""), "`concurrency_key` limits nothing alone"),
        (optional().rate(1, day).priority(|_: &Value| 1), "`priority` orders nothing alone"),
        (optional().label("a=b", |_: &Value| 1), "`a=b` cannot be the key of a label: use at most 64 letters"),
        (labelled(["a", "a"]), "the label `a` is set twice"),
        (labelled(["1", "2", "3", "4", "5", "6", "7", "8", "9"]), "the label `9` is one too many"),
    ] {
        let policies = echo(policy);
        let refused = check_tools(handler, &policies, &BTreeMap::new()).await.unwrap_err().to_string();
        assert!(refused.starts_with("the policy of the tool `echo` contradicts itself: "), "{refused}");
        assert!(refused.contains(said), "{refused}");
    }
    // The time to live always covers the longest run and the retention, so these do not contradict each other.
    let longer = optional().run_at_most(25 * day / 24).ttl(day / 2).ttl_at_most(day);
    assert_eq!(check_tools(handler, &echo(longer), &BTreeMap::new()).await, Ok(()));
}

#[tokio::test]
async fn a_handler_that_cannot_list_its_tools_is_asked_for_each() {
    let handler = || Naming(&["hidden", "other"]);
    assert_eq!(check_tools(handler, &policies(["hidden"]), &BTreeMap::new()).await, Ok(()));
    let refused = check_tools(handler, &policies(["hidden", "hiden"]), &BTreeMap::new()).await.unwrap_err();
    let ToolError::Unknown(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.nearest.as_deref(), Some("hidden"));
}

#[tokio::test]
async fn a_handler_that_names_no_tool_is_not_checked() {
    assert_eq!(check_tools(|| Silent, &policies(["anything"]), &BTreeMap::new()).await, Ok(()));
    let panics = || -> Silent { panic!("no database") };
    assert_eq!(check_tools(panics, &policies(["anything"]), &BTreeMap::new()).await, Ok(()));
}

/// A handler with one tool, which takes what this schema says.
struct Taking(Value);

impl ServerHandler for Taking {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = self.0.as_object().cloned().unwrap_or_default();
        (name == "takes").then(|| Tool::new("takes", "", schema))
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_compiled_is_refused_unless_the_tool_checks_its_arguments_itself() {
    let taking = || Taking(serde_json::json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}));
    let refused = check_schemas(taking, &policies(["takes"])).await.unwrap_err().to_string();
    for part in ["`takes`", "https://example.com/a.json", "`#/properties/a`", "unchecked_arguments"] {
        assert!(refused.contains(part), "{refused}");
    }
    let unchecked = BTreeMap::from([("takes".to_owned(), TaskPolicy::optional().unchecked_arguments())]).into();
    assert_eq!(check_schemas(taking, &unchecked).await, Ok(()));
}
