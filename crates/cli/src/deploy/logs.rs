//! The logs of the functions of a stack.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::flags::Logs;
use super::requests::Account;
use super::stack::Stack;
use crate::arguments::meant;
use crate::clock::{self, pause};
use crate::exit::{Exit, Stop};
use crate::limits::{LOG_PAGES_MAX, LOGS_INTERVAL};
use crate::out;

/// The kind of a log group in a stack, and how its name ends in the template.
const GROUP: (&str, &str) = ("AWS::Logs::LogGroup", "Logs");

/// A log group: the function that writes it, and its name on AWS.
struct Group {
    function: String,
    name: String,
}

/// One log line.
struct Line {
    at_ms: i64,
    id: String,
    function: String,
    text: String,
}

/// `longhaul logs`.
pub(super) async fn show(account: &Account, flags: &Logs, json: bool) -> Result<Exit, Stop> {
    let stack = Stack::existing(account, &flags.named.stack).await?;
    let groups = groups(account, &stack, &flags.function).await?;
    let since = i64::try_from(flags.since.as_millis()).unwrap_or(i64::MAX);
    let mut from_ms = clock::timestamp().as_millisecond().saturating_sub(since);
    // The lines that were shown of the time that is read again.
    let mut shown: BTreeMap<String, i64> = BTreeMap::new();
    loop {
        let mut lines = Vec::new();
        for group in &groups {
            lines.extend(read(account, group, from_ms, flags.filter.as_deref()).await?);
        }
        lines.retain(|line| !shown.contains_key(&line.id));
        lines.sort_by(|one, other| (one.at_ms, &one.id).cmp(&(other.at_ms, &other.id)));
        for line in &lines {
            write(line, json)?;
        }
        if !flags.follow {
            return Ok(Exit::Well);
        }
        // CloudWatch may show a line late.
        from_ms = lines.last().map_or(from_ms, |line| line.at_ms.saturating_sub(LATE_MS).max(from_ms));
        shown.extend(lines.into_iter().map(|line| (line.id, line.at_ms)));
        shown.retain(|_, at_ms| *at_ms >= from_ms);
        pause(LOGS_INTERVAL).await;
    }
}

/// So late a line may become visible after another one.
const LATE_MS: i64 = 10_000;

/// The log groups of the functions with these names, or of all.
async fn groups(account: &Account, stack: &Stack, wanted: &[String]) -> Result<Vec<Group>, Stop> {
    let of_stack = stack.resources(account).await?;
    let all = of_stack.into_iter().filter(|resource| resource.kind == GROUP.0).filter_map(|resource| {
        let function = resource.name.strip_suffix(GROUP.1)?.to_owned();
        Some(Group { function, name: resource.physical })
    });
    let all: Vec<Group> = all.collect();
    let names: Vec<String> = all.iter().map(|group| group.function.clone()).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(name)) {
        return Err(Stop::usage(format!("there is no function `{unknown}`{}", meant(unknown, names.iter()))));
    }
    Ok(all.into_iter().filter(|group| wanted.is_empty() || wanted.contains(&group.function)).collect())
}

/// The lines of a group from this time on.
async fn read(account: &Account, group: &Group, from_ms: i64, filter: Option<&str>) -> Result<Vec<Line>, Stop> {
    let mut input = json!({"logGroupName": group.name, "startTime": from_ms});
    if let Some(filter) = filter {
        input["filterPattern"] = filter.into();
    }
    let mut lines = Vec::new();
    for _ in 0..LOG_PAGES_MAX {
        let page = account.logs("FilterLogEvents", &input).await?;
        let events = page["events"].as_array().into_iter().flatten();
        lines.extend(events.map(|event| Line {
            at_ms: event["timestamp"].as_i64().unwrap_or_default(),
            id: event["eventId"].as_str().unwrap_or_default().to_owned(),
            function: group.function.clone(),
            text: event["message"].as_str().unwrap_or_default().trim_end().to_owned(),
        }));
        match page["nextToken"].as_str() {
            Some(token) => input["nextToken"] = Value::from(token),
            None => return Ok(lines),
        }
    }
    out::say(&format!("{} has more lines than are shown: use a shorter --since, or --filter", group.function));
    Ok(lines)
}

fn write(line: &Line, json: bool) -> Result<(), Stop> {
    let at = jiff::Timestamp::from_millisecond(line.at_ms).map_or_else(|_wrong| String::new(), |at| format!("{at:.3}"));
    if json {
        return out::json(&json!({"at": at, "function": line.function, "message": line.text}));
    }
    out::result(&format!("{at} {} {}", line.function, line.text))
}
