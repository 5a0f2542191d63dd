//! A stack of CloudFormation: its state, the preview of a change, and its progress.

use std::collections::BTreeMap;

use super::requests::{Account, CLOUDFORMATION, Failure, members, pair};
use super::xml::Element;
use crate::clock::{self, pause};
use crate::exit::{Exit, Stop};
use crate::limits::{CHANGE_MAX, PAGES_MAX, STACK_INTERVAL};
use crate::out;

/// A stack as it is now.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) status: String,
    /// When it was last changed.
    pub(super) changed: String,
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) parameters: BTreeMap<String, String>,
}

/// A resource that CloudFormation made.
#[derive(Debug)]
pub(super) struct Resource {
    /// The name in the template.
    pub(super) name: String,
    /// The name on AWS.
    pub(super) physical: String,
    pub(super) kind: String,
}

/// A change that has not been made yet.
#[derive(Debug)]
pub(super) struct ChangeSet {
    id: String,
    stack: String,
    /// A line for each resource.
    pub(super) lines: Vec<String>,
}

/// A wanted change.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) template_url: String,
    /// `None`: as it is.
    pub(super) parameters: Vec<(String, Option<String>)>,
    pub(super) tags: &'a BTreeMap<String, String>,
}

/// Checks the name of a stack.
pub(super) fn check_name(name: &str) -> Result<(), Stop> {
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= 128
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name {
        return Ok(());
    }
    Err(Stop::usage(format!("`{name}` is not the name of a stack: a letter, then letters, digits and hyphens")))
}

impl Stack {
    /// The stack with this name or id. A stack without any resource yet does not count.
    pub(super) async fn find(account: &Account, name: &str) -> Result<Option<Self>, Stop> {
        let found = match account.query(&CLOUDFORMATION, "DescribeStacks", &[pair("StackName", name)]).await {
            Ok(found) => found,
            Err(Failure::Refused(refused)) if refused.message.contains("does not exist") => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        let Some(stack) = found.find("Stacks/member") else { return Ok(None) };
        let map = |path: &str, key: &str, value: &str| {
            let one = |element: &Element| (element.text(key).to_owned(), element.text(value).to_owned());
            stack.below(path).iter().map(one).collect()
        };
        let changed = Some(stack.text("LastUpdatedTime")).filter(|time| !time.is_empty());
        let stack = Self {
            name: stack.text("StackName").to_owned(),
            id: stack.text("StackId").to_owned(),
            status: stack.text("StackStatus").to_owned(),
            changed: changed.unwrap_or(stack.text("CreationTime")).to_owned(),
            outputs: map("Outputs", "OutputKey", "OutputValue"),
            parameters: map("Parameters", "ParameterKey", "ParameterValue"),
        };
        Ok(Some(stack).filter(|stack| stack.status != "REVIEW_IN_PROGRESS" && stack.status != "DELETE_COMPLETE"))
    }

    /// The same, which must be there.
    pub(super) async fn existing(account: &Account, name: &str) -> Result<Self, Stop> {
        let missing = || {
            Stop::usage(format!(
                "there is no stack {name} in this account and region: `longhaul deploy {name}` makes it"
            ))
        };
        Self::find(account, name).await?.ok_or_else(missing)
    }

    /// Whether it can be changed now.
    pub(super) fn check_changeable(&self) -> Result<(), Stop> {
        let Self { name, status, .. } = self;
        if status.ends_with("_IN_PROGRESS") {
            return Err(Stop::new(
                Exit::Failed,
                format!("the stack {name} is being changed ({status}): wait until it is done"),
            ));
        }
        if ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"].contains(&status.as_str()) {
            return Err(Stop::new(
                Exit::Failed,
                format!("{name} was not made, or is half deleted ({status}): `longhaul destroy {name}` removes it"),
            ));
        }
        Ok(())
    }

    /// The template as it was sent.
    pub(super) async fn template(&self, account: &Account) -> Result<String, Stop> {
        let input = [pair("StackName", &self.id), pair("TemplateStage", "Original")];
        Ok(account.query(&CLOUDFORMATION, "GetTemplate", &input).await?.text("TemplateBody").to_owned())
    }

    /// The resources that were made of it.
    pub(super) async fn resources(&self, account: &Account) -> Result<Vec<Resource>, Stop> {
        let of = |element: &Element| Resource {
            name: element.text("LogicalResourceId").to_owned(),
            physical: element.text("PhysicalResourceId").to_owned(),
            kind: element.text("ResourceType").to_owned(),
        };
        let all =
            pages(account, "ListStackResources", &[pair("StackName", &self.id)], "StackResourceSummaries", |_| false)
                .await?;
        Ok(all.iter().map(of).collect())
    }
}

/// The elements of all pages of a list, up to the first that is not wanted any more.
async fn pages(
    account: &Account,
    operation: &str,
    input: &[(String, String)],
    list: &str,
    is_end: impl Fn(&Element) -> bool + Send,
) -> Result<Vec<Element>, Failure> {
    let (mut all, mut token) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let mut input = input.to_vec();
        if !token.is_empty() {
            input.push(pair("NextToken", &token));
        }
        let mut page = account.query(&CLOUDFORMATION, operation, &input).await?;
        token = page.text("NextToken").to_owned();
        let page = page.take(list).into_children();
        let wanted = page.iter().position(&is_end).unwrap_or(page.len());
        let is_last = token.is_empty() || wanted < page.len();
        all.extend(page.into_iter().take(wanted));
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// Lets CloudFormation compute the changes; `None` if there are none.
pub(super) async fn plan(
    account: &Account,
    name: &str,
    existing: Option<&Stack>,
    wanted: &Wanted<'_>,
) -> Result<Option<ChangeSet>, Stop> {
    let change = format!("longhaul-{}", clock::timestamp().as_millisecond());
    let mut input = vec![
        pair("StackName", name),
        pair("ChangeSetName", &change),
        pair("ChangeSetType", if existing.is_some() { "UPDATE" } else { "CREATE" }),
        pair("TemplateURL", &wanted.template_url),
    ];
    input.extend(members("Capabilities", ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]));
    for (index, (name, value)) in wanted.parameters.iter().enumerate() {
        let member = format!("Parameters.member.{}", index + 1);
        input.push((format!("{member}.ParameterKey"), name.clone()));
        input.push(match value {
            Some(value) => (format!("{member}.ParameterValue"), value.clone()),
            None => (format!("{member}.UsePreviousValue"), "true".to_owned()),
        });
    }
    for (index, (key, value)) in wanted.tags.iter().enumerate() {
        let member = format!("Tags.member.{}", index + 1);
        input.extend([(format!("{member}.Key"), key.clone()), (format!("{member}.Value"), value.clone())]);
    }
    match account.query(&CLOUDFORMATION, "CreateChangeSet", &input).await {
        Ok(_) => {}
        // The answer to a first try was lost.
        Err(Failure::Refused(refused))
            if refused.code == "AlreadyExistsException" && refused.message.contains(&change) => {}
        Err(failure) => return Err(failure.into()),
    }
    described(account, name, &change).await
}

/// The change set, once CloudFormation has computed it.
async fn described(account: &Account, stack: &str, change: &str) -> Result<Option<ChangeSet>, Stop> {
    let input = [pair("StackName", stack), pair("ChangeSetName", change)];
    let until = clock::instant() + CHANGE_MAX;
    loop {
        let found = account.query(&CLOUDFORMATION, "DescribeChangeSet", &input).await?;
        let (status, reason) = (found.text("Status"), found.text("StatusReason"));
        if status == "CREATE_COMPLETE" {
            let changes = pages(account, "DescribeChangeSet", &input, "Changes", |_| false).await?;
            let id = found.text("ChangeSetId").to_owned();
            let lines = changes.iter().filter_map(|change| change.find("ResourceChange")).map(line).collect();
            return Ok(Some(ChangeSet { id, stack: stack.to_owned(), lines }));
        }
        if status == "FAILED" {
            let is_empty = ["didn't contain changes", "No updates are to be performed"];
            let is_empty = is_empty.iter().any(|text| reason.contains(text));
            delete(account, stack, change).await?;
            return if is_empty {
                Ok(None)
            } else {
                Err(Stop::new(Exit::Failed, format!("the change is refused: {reason}")))
            };
        }
        if clock::instant() > until {
            return Err(Stop::new(Exit::WaitOver, format!("the change set {change} of {stack} is still {status}")));
        }
        pause(STACK_INTERVAL).await;
    }
}

fn line(change: &Element) -> String {
    let sign = match change.text("Action") {
        "Add" => "+",
        "Remove" => "-",
        _ if change.text("Replacement") == "True" => "!",
        _ => "~",
    };
    format!("{sign} {:<28} {}", change.text("LogicalResourceId"), change.text("ResourceType"))
}

async fn delete(account: &Account, stack: &str, change: &str) -> Result<(), Stop> {
    let input = [pair("StackName", stack), pair("ChangeSetName", change)];
    account.query(&CLOUDFORMATION, "DeleteChangeSet", &input).await?;
    Ok(())
}

impl ChangeSet {
    /// Leaves everything as it is.
    pub(super) async fn discard(&self, account: &Account, existing: Option<&Stack>) -> Result<(), Stop> {
        delete(account, &self.stack, &self.id).await?;
        if existing.is_none() {
            // The stack has no resources.
            account.query(&CLOUDFORMATION, "DeleteStack", &[pair("StackName", &self.stack)]).await?;
        }
        Ok(())
    }

    /// Makes the change, and waits until it is done.
    pub(super) async fn execute(&self, account: &Account) -> Result<Stack, Stop> {
        let since = latest(account, &self.stack).await?;
        let input = [pair("StackName", &self.stack), pair("ChangeSetName", &self.id)];
        account.query(&CLOUDFORMATION, "ExecuteChangeSet", &input).await?;
        ended(account, &self.stack, &since).await?;
        Stack::existing(account, &self.stack).await
    }
}

/// Deletes a stack, and waits until it is gone. Returns the names of the resources that stay.
pub(super) async fn destroy(account: &Account, stack: &Stack) -> Result<Vec<String>, Stop> {
    let since = latest(account, &stack.id).await?;
    account.query(&CLOUDFORMATION, "DeleteStack", &[pair("StackName", &stack.name)]).await?;
    let events = ended(account, &stack.id, &since).await?;
    let kept = events.iter().filter(|event| event.text("ResourceStatus") == "DELETE_SKIPPED");
    Ok(kept.map(|event| event.text("PhysicalResourceId").to_owned()).collect())
}

/// The id of the latest event.
async fn latest(account: &Account, stack: &str) -> Result<String, Stop> {
    let page = account.query(&CLOUDFORMATION, "DescribeStackEvents", &[pair("StackName", stack)]).await?;
    Ok(page.text("StackEvents/member/EventId").to_owned())
}

/// The events after one, the earliest first.
async fn events(account: &Account, stack: &str, since: &str) -> Result<Vec<Element>, Failure> {
    let is_known = |event: &Element| event.text("EventId") == since;
    let mut new = pages(account, "DescribeStackEvents", &[pair("StackName", stack)], "StackEvents", is_known).await?;
    new.reverse();
    Ok(new)
}

/// Shows the events until the stack has ended, and returns all of them.
async fn ended(account: &Account, stack: &str, since: &str) -> Result<Vec<Element>, Stop> {
    let (mut all, mut latest) = (Vec::new(), since.to_owned());
    let until = clock::instant() + CHANGE_MAX;
    loop {
        for event in events(account, stack, &latest).await? {
            event.text("EventId").clone_into(&mut latest);
            let [status, name, reason] =
                ["ResourceStatus", "LogicalResourceId", "ResourceStatusReason"].map(|member| event.text(member));
            out::say(out::line(&format!("{status:<20} {name:<28} {reason}")).trim_end());
            all.push(event);
        }
        if let Some(status) = all.last().filter(|event| is_end(event)).map(|event| event.text("ResourceStatus")) {
            let is_well = ["CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"].contains(&status);
            return if is_well { Ok(all) } else { Err(failed(status, &all)) };
        }
        if clock::instant() > until {
            let why = "the stack is still being changed: `longhaul status` shows how it ends";
            return Err(Stop::new(Exit::WaitOver, why));
        }
        pause(STACK_INTERVAL).await;
    }
}

/// Whether the stack itself has reached its end.
fn is_end(event: &Element) -> bool {
    event.text("PhysicalResourceId") == event.text("StackId") && !event.text("ResourceStatus").ends_with("_IN_PROGRESS")
}

fn failed(status: &str, events: &[Element]) -> Stop {
    let is_cause = |event: &&Element| {
        event.text("ResourceStatus").ends_with("_FAILED") && !event.text("ResourceStatusReason").contains("cancelled")
    };
    let cause = events.iter().find(is_cause).map_or_else(String::new, |event| {
        format!(": {} {}", event.text("LogicalResourceId"), event.text("ResourceStatusReason"))
    });
    Stop::new(Exit::Failed, format!("the stack could not be changed, and is {status}{cause}"))
}
