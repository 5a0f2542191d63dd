//! Whether schedules can be kept: their lines, names, tools and arguments.

use std::collections::BTreeSet;
use std::sync::Arc;

use longhaul_core::limits;
use rmcp::ServerHandler;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::nearest::nearest;
use crate::policy::ArgumentCheck;
use crate::schedule::{Schedule, ScheduleError, ScheduleFault, Times};
use crate::schedules::arguments_of;
use crate::schema::Schema;
use crate::tools::handler::catch;
use crate::{Policies, tools};

/// Checks that each schedule has times and a name of its own, that its tool becomes a task, and that the tool takes its
/// arguments. The tools of a handler that names none cannot be checked, and pass.
pub async fn check_schedules<H: ServerHandler>(
    make_handler: impl FnOnce() -> H,
    policies: &Policies,
    schedules: &[Schedule],
) -> Result<(), ScheduleError> {
    let mut names = BTreeSet::new();
    for (number, schedule) in schedules.iter().enumerate() {
        let is_first = names.insert(&schedule.name);
        let checked = if number >= limits::SCHEDULES_MAX { Err(ScheduleFault::TooMany) } else { alone(schedule) };
        let checked = checked.and(if is_first { Ok(()) } else { Err(ScheduleFault::NameTaken) });
        checked.map_err(|fault| of(schedule, fault))?;
    }
    if schedules.is_empty() {
        return Ok(());
    }
    let checked = catch(async { with_tools(&make_handler(), policies, schedules).await }).await;
    checked.unwrap_or_else(|panicked| {
        tracing::error!(panic = panicked.0, "the handler panicked, so the tools of schedules are not checked");
        Ok(())
    })
}

fn of(schedule: &Schedule, fault: ScheduleFault) -> ScheduleError {
    ScheduleError { schedule: schedule.name.clone(), fault }
}

/// The checks that need no tool.
fn alone(schedule: &Schedule) -> Result<(), ScheduleFault> {
    if !(1..=limits::NAME_BYTES_MAX).contains(&schedule.name.len()) {
        return Err(ScheduleFault::Name);
    }
    Times::of(schedule)?;
    let arguments = arguments_of(schedule).map_err(|why| ScheduleFault::Arguments { why })?;
    let (bytes, bytes_max) = (arguments.to_string().len(), limits::SCHEDULE_ARGUMENTS_BYTES_MAX);
    if bytes > bytes_max {
        let why = format!("the arguments have {bytes} bytes, and {bytes_max} are allowed: pass a URL or a name");
        return Err(ScheduleFault::Arguments { why });
    }
    Ok(())
}

async fn with_tools<H: ServerHandler>(
    handler: &H,
    policies: &Policies,
    schedules: &[Schedule],
) -> Result<(), ScheduleError> {
    let mut listed = None;
    for schedule in schedules {
        let tool = schedule.tool.as_str();
        let mut schema = handler.get_tool(tool).map(|tool| tool.input_schema);
        if schema.is_none() {
            if listed.is_none() {
                listed = Some(tools::list(handler).await.unwrap_or_default());
            }
            let listed = listed.iter().flatten();
            schema = listed.clone().find(|(name, _)| *name == tool).map(|(_, schema)| Arc::clone(schema));
            if schema.is_none() && listed.clone().next().is_some() {
                let nearest = nearest(tool, listed.map(|(name, _)| name)).cloned();
                return Err(of(schedule, ScheduleFault::UnknownTool { tool: tool.to_owned(), nearest }));
            }
        }
        with_tool(schedule, policies, schema).map_err(|fault| of(schedule, fault))?;
    }
    Ok(())
}

fn with_tool(schedule: &Schedule, policies: &Policies, schema: Option<Arc<JsonObject>>) -> Result<(), ScheduleFault> {
    let tool = &schedule.tool;
    let policy = policies.get(tool).ok_or_else(|| ScheduleFault::NeverATask { tool: tool.clone() })?;
    let Some(schema) = schema.filter(|_| policy.arguments == ArgumentCheck::BySchema) else { return Ok(()) };
    let refused = |why| ScheduleFault::Arguments { why };
    let schema = Schema::compile(Value::Object((*schema).clone()));
    let schema = schema.map_err(|cause| refused(format!("the input schema of `{tool}` cannot be used: {cause}")))?;
    let arguments = arguments_of(schedule).map_err(refused)?;
    let faults = schema.check(&arguments);
    faults.map_err(|faults| refused(format!("the arguments of `{tool}` are not valid: {}", faults.join("; "))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rmcp::model::Tool;
    use serde_json::json;

    use super::*;
    use crate::TaskPolicy;

    /// A handler with the tools `report`, which takes a region, `plain`, which never becomes a task, and `unusable`,
    /// whose schema cannot be compiled.
    struct Reports;

    impl ServerHandler for Reports {
        fn get_tool(&self, name: &str) -> Option<Tool> {
            let schema =
                json!({"type": "object", "properties": {"region": {"type": "string"}}, "required": ["region"]});
            let schema = if name == "unusable" { json!({"$ref": "https://example.com/a.json"}) } else { schema };
            let schema = schema.as_object().cloned().unwrap();
            ["report", "plain", "unusable"].contains(&name).then(|| Tool::new(name.to_owned(), "", schema))
        }

        async fn list_tools(
            &self,
            _request: Option<rmcp::model::PaginatedRequestParams>,
            _context: rmcp::service::RequestContext<rmcp::RoleServer>,
        ) -> Result<rmcp::model::ListToolsResult, rmcp::ErrorData> {
            let tools = ["report", "plain"].into_iter().filter_map(|name| self.get_tool(name)).collect();
            Ok(rmcp::model::ListToolsResult::with_all_items(tools))
        }
    }

    fn north(name: &str, cron: &str, tool: &str) -> Schedule {
        Schedule::new(name, cron, tool, json!({"region": "north"}))
    }

    async fn refused(schedules: &[Schedule]) -> String {
        let policies = ["report", "unusable"].map(|tool| (tool.to_owned(), TaskPolicy::optional()));
        check_schedules(|| Reports, &BTreeMap::from(policies).into(), schedules).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_refused_with_what_to_do() {
        let fine = north("nightly", "0 3 * * *", "report");
        let policies = BTreeMap::from([("report".to_owned(), TaskPolicy::optional())]).into();
        assert_eq!(check_schedules(|| Reports, &policies, std::slice::from_ref(&fine)).await, Ok(()));
        for (schedule, said) in [
            (north("a", "0 3 * *", "report"), "the schedule `a` cannot be kept: `0 3 * *` is not a cron line of five"),
            (north("a", "0 0 30 2 *", "report"), "`0 0 30 2 *` never comes"),
            (north("", "@daily", "report"), "a name has 1 to 256 bytes"),
            (north("nightly", "@daily", "report"), "another schedule has this name"),
            (north("a", "@daily", "report").time_zone("Mars/Olympus"), "there is no time zone `Mars/Olympus`"),
            (north("a", "@daily", "repord"), "there is no tool `repord`; did you mean `report`?"),
            (north("a", "@daily", "plain"), "name it with `Server::task`, too"),
            (Schedule::new("a", "@daily", "report", json!({"region": 7})), "the arguments of `report` are not valid"),
            (Schedule::new("a", "@daily", "report", Value::Null), "the arguments of `report` are not valid"),
            (north("a", "@daily", "unusable"), "the input schema of `unusable` cannot be used"),
            (Schedule::new("a", "@daily", "report", json!(["north"])), "have to be a JSON object"),
            (Schedule::new("a", "@daily", "report", json!({"region": "n".repeat(70_000)})), "65536 are allowed"),
        ] {
            let refused = refused(&[fine.clone(), schedule]).await;
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[tokio::test]
    async fn there_are_at_most_256() {
        let many: Vec<_> = (0..257).map(|number| north(&number.to_string(), "@daily", "report")).collect();
        assert_eq!(refused(&many).await, "the schedule `256` cannot be kept: a server has at most 256 schedules");
    }
}
