//! A server on AWS Lambda, from its packages: deployed, updated, shown and deleted, by signed requests to
//! CloudFormation, S3, Lambda and CloudWatch Logs.

use std::collections::BTreeMap;

use serde_json::json;

use crate::exit::{Exit, Stop};
use crate::out;
use bucket::{Bucket, Previous};
use flags::{Change, Deploy, Named, Update, Verb};
use health::{FUNCTION, Health};
use packages::Packages;
use requests::Account;
use stack::{Stack, Wanted};

mod bucket;
pub(crate) mod flags;
mod hash;
mod health;
mod logs;
mod packages;
mod parameters;
mod requests;
mod stack;
mod template;
mod xml;

/// The parameter for the authentication of callers.
const AUTH_MODE: &str = "AuthMode";

/// The values of it that a new stack should have one of, and what each means.
const CALLERS: [(&str, &str); 3] = [
    ("bearer", "those who have a token that `longhaul token add` makes"),
    ("oauth", "people who sign in at your identity provider; needs OAuthIssuers too"),
    ("iam", "programs that sign their requests with credentials of AWS"),
];

/// Runs a verb. With `json`, results are written as JSON.
pub(crate) async fn run(verb: Verb, json: bool) -> Result<Exit, Stop> {
    if let Verb::Deploy(Deploy { eject: Some(file), .. }) = &verb {
        return eject(file);
    }
    let account = Account::from_environment()?;
    match verb {
        Verb::Deploy(flags) => deploy(&account, &flags, json).await,
        Verb::Update(flags) => update(&account, &flags, json).await,
        Verb::Rollback(flags) => rollback(&account, &flags, json).await,
        Verb::Status(named) => status(&account, &named, json).await,
        Verb::Logs(flags) => logs::show(&account, &flags, json).await,
        Verb::Destroy(flags) => destroy(&account, &flags).await,
    }
}

/// Writes the template.
fn eject(file: &std::path::Path) -> Result<Exit, Stop> {
    let unwritten = |error| Stop::usage(format!("{} cannot be written: {error}", file.display()));
    let mut open = std::fs::File::create_new(file).map_err(unwritten)?;
    std::io::Write::write_all(&mut open, template::TEMPLATE.as_bytes()).map_err(unwritten)?;
    out::say(&format!("change it, and deploy it with: longhaul deploy --template {}", file.display()));
    Ok(Exit::Well)
}

/// `longhaul deploy`.
async fn deploy(account: &Account, flags: &Deploy, json: bool) -> Result<Exit, Stop> {
    let name = &flags.change.named.stack;
    stack::check_name(name)?;
    let tags = parameters::pairs(&flags.tags, "tag")?;
    let template = match &flags.template {
        None => template::TEMPLATE.to_owned(),
        Some(file) => longhaul_core::settings::read_text(file, crate::limits::TEMPLATE_BYTES_MAX)
            .map_err(|error| Stop::usage(format!("the template {}: {error}", file.display())))?,
    };
    let stack = Stack::find(account, name).await?;
    stack.iter().try_for_each(Stack::check_changeable)?;
    let present = stack.as_ref().map_or_else(BTreeMap::new, |stack| stack.parameters.clone());
    let mut parameters = parameters::read(&flags.parameters, &template, &present)?;
    if stack.is_none() && !parameters.contains_key(AUTH_MODE) && template::parameters(&template).contains(&AUTH_MODE) {
        parameters.insert(AUTH_MODE.to_owned(), callers_of(name)?);
    }
    let packages = Packages::find(&flags.files)?;
    check_architecture(&packages, &parameters, &present)?;
    change(account, &flags.change, Wish { template, packages: Some(packages), parameters, tags }, stack, json).await
}

/// Asks how a new stack authenticates its callers.
fn callers_of(stack: &str) -> Result<String, Stop> {
    if !out::can_ask() {
        let named = CALLERS.map(|(mode, who)| format!("--parameter {AUTH_MODE}={mode} ({who})")).join(", or ");
        return Err(Stop::new(Exit::Unanswered, format!("say who may call the new stack {stack}: {named}")));
    }
    let lines = CALLERS.map(|(mode, who)| format!("{mode:<8} {who}"));
    let chosen = inquire::Select::new("Who may call it?", lines.to_vec()).raw_prompt().ok();
    let mode = chosen.and_then(|line| CALLERS.get(line.index)).map(|(mode, _)| (*mode).to_owned());
    mode.ok_or_else(|| Stop::new(Exit::Cancelled, "nothing was deployed"))
}

/// `longhaul update`.
async fn update(account: &Account, flags: &Update, json: bool) -> Result<Exit, Stop> {
    let stack = Stack::existing(account, &flags.change.named.stack).await?;
    stack.check_changeable()?;
    let template = stack.template(account).await?;
    let packages = Packages::find(&flags.files)?;
    let (parameters, tags) = (BTreeMap::new(), BTreeMap::new());
    change(account, &flags.change, Wish { template, packages: Some(packages), parameters, tags }, Some(stack), json)
        .await
}

/// `longhaul rollback`.
async fn rollback(account: &Account, flags: &Change, json: bool) -> Result<Exit, Stop> {
    let stack = Stack::existing(account, &flags.named.stack).await?;
    stack.check_changeable()?;
    let bucket = Bucket::of(account, flags.bucket.as_deref()).await?;
    let mut previous = bucket.previous(&stack.name).await?;
    let present = template::key(&stack.template(account).await?);
    // An earlier rollback that was killed may have left this one.
    previous.retain(|one| one.template != present);
    let Some(last) = previous.pop() else {
        return Err(Stop::usage(format!(
            "{} has no earlier packages to go back to: `longhaul update` and `longhaul deploy` remember them",
            stack.name
        )));
    };
    let template = bucket.text(&last.template).await?;
    let parameters = last.architecture.map(|built_for| ("Architecture".to_owned(), built_for)).into_iter().collect();
    let tags = BTreeMap::new();
    let name = stack.name.clone();
    let done = change(account, flags, Wish { template, packages: None, parameters, tags }, Some(stack), json).await?;
    if done == Exit::Well {
        bucket.remember(&name, &previous).await?;
    }
    Ok(done)
}

/// The wanted state of a stack.
struct Wish {
    template: String,
    /// `None`: the packages that the template names.
    packages: Option<Packages>,
    parameters: BTreeMap<String, String>,
    tags: BTreeMap<String, String>,
}

/// Uploads, shows what would change, asks, changes it, and checks the server.
async fn change(account: &Account, flags: &Change, wish: Wish, stack: Option<Stack>, json: bool) -> Result<Exit, Stop> {
    let name = &flags.named.stack;
    check_can_ask(flags)?;
    let bucket = Bucket::of(account, flags.bucket.as_deref()).await?;
    let wanted = wanted(&bucket, &wish, stack.as_ref()).await?;
    let done = match stack::plan(account, name, stack.as_ref(), &wanted).await? {
        None => {
            out::say("nothing is to be changed");
            Stack::existing(account, name).await?
        }
        Some(changes) => {
            changes.lines.iter().for_each(|line| out::say(&out::line(line)));
            if !agrees(flags, &format!("Change the stack {name} so?")) {
                changes.discard(account, stack.as_ref()).await?;
                out::say("nothing was changed");
                return Ok(Exit::Cancelled);
            }
            if let Some(stack) = stack.as_ref().filter(|_| wish.packages.is_some()) {
                remember(account, &bucket, stack).await?;
            }
            changes.execute(account).await?
        }
    };
    health::check(account, &done).await?;
    let url = done.outputs.get("McpUrl").map_or("", String::as_str);
    if json {
        out::json(&json!({"stack": name, "status": done.status, "outputs": done.outputs}))?;
    } else {
        out::result(url)?;
    }
    Ok(Exit::Well)
}

/// Uploads the packages and the template of the wanted stack.
async fn wanted<'a>(bucket: &Bucket<'_>, wish: &'a Wish, stack: Option<&Stack>) -> Result<Wanted<'a>, Stop> {
    bucket.create().await?;
    let mut template = wish.template.clone();
    let mut architecture = None;
    if let Some(packages) = &wish.packages {
        let api = bucket.keep(&format!("{}api-", template::PACKAGES), &packages.api, ".zip").await?;
        let worker = bucket.keep(&format!("{}worker-", template::PACKAGES), &packages.worker, ".zip").await?;
        template = template::with_code(&template, &bucket.name, &api, &worker)?;
        architecture.clone_from(&packages.architecture);
    }
    let key = bucket.keep_as(template::key(&template), template.as_bytes()).await?;
    let mut parameters = Vec::new();
    for name in template::parameters(&template) {
        let given = wish.parameters.get(name).cloned();
        let given = given.or_else(|| architecture.clone().filter(|_| name == "Architecture"));
        match (given, stack) {
            (Some(value), _) => parameters.push((name.to_owned(), Some(value))),
            (None, Some(stack)) if stack.parameters.contains_key(name) => parameters.push((name.to_owned(), None)),
            (None, _) => {}
        }
    }
    Ok(Wanted { template_url: bucket.url(&key).await?, parameters, tags: &wish.tags })
}

/// Notes the present packages and template of a stack, for `longhaul rollback`.
async fn remember(account: &Account, bucket: &Bucket<'_>, stack: &Stack) -> Result<(), Stop> {
    let template = stack.template(account).await?;
    let key = bucket.keep_as(template::key(&template), template.as_bytes()).await?;
    let present = Previous { template: key, architecture: stack.parameters.get("Architecture").cloned() };
    let mut previous = bucket.previous(&stack.name).await?;
    if previous.last() != Some(&present) {
        previous.push(present);
        bucket.remember(&stack.name, &previous).await?;
    }
    Ok(())
}

/// Refuses packages for another processor than the one that was named, and those of an unknown one.
fn check_architecture(
    packages: &Packages,
    given: &BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> Result<(), Stop> {
    match (&packages.architecture, given.get("Architecture")) {
        (Some(built), Some(named)) if built != named => Err(Stop::usage(format!(
            "Architecture={named}, but the packages were built for {built}: run `ARCH={named} make build`"
        ))),
        (None, None) if !present.contains_key("Architecture") => Err(Stop::usage(
            "nothing says for which processor the packages were built: add --parameter Architecture=arm64 or x86_64",
        )),
        _ => Ok(()),
    }
}

/// Refuses a change that needs an answer, where this command cannot ask.
fn check_can_ask(flags: &Change) -> Result<(), Stop> {
    if flags.yes || out::can_ask() {
        return Ok(());
    }
    Err(Stop::new(Exit::Unanswered, "this command cannot ask here: add --yes to continue without a question"))
}

/// Whether the user wants this.
fn agrees(flags: &Change, question: &str) -> bool {
    // A user who leaves the question does not.
    flags.yes || inquire::Confirm::new(question).with_default(false).prompt().unwrap_or_default()
}

/// `longhaul status`.
async fn status(account: &Account, named: &Named, json: bool) -> Result<Exit, Stop> {
    let stack = Stack::existing(account, &named.stack).await?;
    let packages = template::packages(&stack.template(account).await?);
    let resources = stack.resources(account).await?;
    let functions: Vec<_> = resources.iter().filter(|resource| resource.kind == FUNCTION).collect();
    let health = match health::endpoint(&stack) {
        None => Health::Unwell("the stack has no endpoint".to_owned()),
        Some(url) => health::ask(account, &stack, &url).await.or_else(|stop| match stop.exit {
            Exit::Unreachable => Ok(Health::Unwell(stop.why)),
            _ => Err(stop),
        })?,
    };
    let (exit, answers) = match health {
        Health::Well => (Exit::Well, "yes".to_owned()),
        Health::Unwell(why) => (Exit::Failed, format!("no: {why}")),
    };
    if json {
        let functions: BTreeMap<_, _> = functions.iter().map(|one| (&one.name, &one.physical)).collect();
        out::json(&json!({"stack": stack.name, "status": stack.status, "changed": stack.changed, "healthy":
            exit == Exit::Well, "packages": packages, "functions": functions, "outputs": stack.outputs}))?;
        return Ok(exit);
    }
    let mut lines = vec![
        ("stack", stack.name.clone()),
        ("status", format!("{} since {}", stack.status, stack.changed)),
        ("MCP", stack.outputs.get("McpUrl").cloned().unwrap_or_default()),
        ("answers", answers),
        ("packages", packages.join(", ")),
    ];
    lines.extend(functions.iter().map(|function| ("function", format!("{:<18} {}", function.name, function.physical))));
    for (name, value) in lines {
        out::result(&format!("{name:<10} {}", out::line(&value)))?;
    }
    Ok(exit)
}

/// `longhaul destroy`.
async fn destroy(account: &Account, flags: &Change) -> Result<Exit, Stop> {
    let stack = Stack::existing(account, &flags.named.stack).await?;
    if stack.status.ends_with("_IN_PROGRESS") {
        stack.check_changeable()?;
    }
    check_can_ask(flags)?;
    if !agrees(flags, &format!("Delete the stack {}, with its queues and the work in them?", stack.name)) {
        out::say("nothing was deleted");
        return Ok(Exit::Cancelled);
    }
    let kept = stack::destroy(account, &stack).await?;
    let bucket = Bucket::of(account, flags.bucket.as_deref()).await?;
    bucket.forget(&stack.name).await?;
    for name in kept {
        out::say(&out::line(&format!("{name} stays: delete it yourself if you do not need its data")));
    }
    Ok(Exit::Well)
}
