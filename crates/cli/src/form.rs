//! Questions of tools, asked in the terminal.

use inquire::validator::Validation;
use inquire::{Confirm, InquireError, MultiSelect, Select, Text};
use longhaul_client::Question;
use longhaul_client::form::{About, Choice, Field, Kind, accept, decline, fields};
use serde_json::{Map, Value, json};

use crate::out::{self, line};

/// The outcome of a form.
pub(crate) enum Asked {
    /// The result that the question's method has.
    Answer(Value),
    /// The user pressed Ctrl-C, or wants to answer later.
    Later,
    /// This question cannot be asked here.
    CannotAsk,
}

pub(crate) fn message(question: &Question) -> String {
    line(question.params["message"].as_str().unwrap_or("the task asks something"))
}

/// Asks the user, who is at a terminal.
pub(crate) fn ask(question: &Question) -> Asked {
    let asked = match question.about() {
        About::Form(schema) => form(question, schema),
        About::Address(url) => address(question, url),
        About::Other => return Asked::CannotAsk,
    };
    match asked {
        Ok(Some(answer)) => Asked::Answer(answer),
        Ok(None) | Err(InquireError::OperationInterrupted | InquireError::OperationCanceled) => Asked::Later,
        Err(error) => {
            out::say(&format!("the terminal cannot be used: {error}"));
            Asked::CannotAsk
        }
    }
}

const ANSWER: &str = "answer";
const DECLINE: &str = "decline";
const LATER: &str = "later";

/// The choice that leaves an optional field out.
const LEFT_OUT: &str = "(no answer)";

/// Asks for one field after the other. Esc leads to the other ways to treat the question. The same applies to a form
/// without fields.
fn form(question: &Question, schema: &Value) -> Result<Option<Value>, InquireError> {
    let fields = fields(schema);
    out::say(&message(question));
    loop {
        let filled = if fields.is_empty() { Err(InquireError::OperationCanceled) } else { fill_all(&fields) };
        let chosen = match filled {
            Err(InquireError::OperationCanceled) => {
                Select::new("What do you want to do?", vec![ANSWER, DECLINE, LATER]).prompt()?
            }
            filled => return filled.map(|content| Some(accept(content))),
        };
        match chosen {
            DECLINE => return Ok(Some(decline())),
            LATER => return Ok(None),
            _ if fields.is_empty() => return Ok(Some(accept(Map::new()))),
            _ => {}
        }
    }
}

fn fill_all(fields: &[Field]) -> Result<Map<String, Value>, InquireError> {
    let mut content = Map::new();
    for field in fields {
        if let Some(value) = fill(field)? {
            content.insert(field.name.clone(), value);
        }
    }
    Ok(content)
}

fn address(question: &Question, url: &str) -> Result<Option<Value>, InquireError> {
    out::say(&format!("{}\n{}", message(question), line(url)));
    Ok(match Select::new("Open this address in a browser if you trust it:", vec!["done", DECLINE, LATER]).prompt()? {
        DECLINE => Some(decline()),
        LATER => None,
        _ => Some(json!({"action": "accept"})),
    })
}

fn fill(field: &Field) -> Result<Option<Value>, InquireError> {
    let label = if field.is_required { line(&field.title) } else { format!("{} (optional)", line(&field.title)) };
    let described = field.description.as_deref().map(|text| format!("{}, ", line(text))).unwrap_or_default();
    let help = Some(format!("{described}Esc to decline or to answer later"));
    match &field.kind {
        Kind::Text => text(field, &label, help.as_deref()),
        Kind::Switch => {
            let mut prompt = Confirm::new(&label).with_default(field.default == Some(Value::Bool(true)));
            prompt.help_message = help.as_deref();
            prompt.prompt().map(|given| Some(given.into()))
        }
        Kind::One(choices) => {
            let left_out = (!field.is_required).then(|| LEFT_OUT.to_owned());
            let mut prompt = Select::new(&label, titles(choices).into_iter().chain(left_out).collect());
            prompt.help_message = help.as_deref();
            let chosen = prompt.raw_prompt()?;
            Ok(choices.get(chosen.index).map(|choice| choice.value.clone()))
        }
        Kind::Some(choices) => {
            let mut prompt = MultiSelect::new(&label, titles(choices));
            prompt.help_message = help.as_deref();
            let chosen = prompt.raw_prompt()?;
            Ok(Some(chosen.iter().filter_map(|chosen| Some(choices.get(chosen.index)?.value.clone())).collect()))
        }
    }
}

fn titles(choices: &[Choice]) -> Vec<String> {
    choices.iter().map(|choice| line(&choice.title)).collect()
}

fn text(field: &Field, label: &str, help: Option<&str>) -> Result<Option<Value>, InquireError> {
    let checked = field.clone();
    let validator = move |text: &str| {
        let is_left_out = text.is_empty() && !checked.is_required;
        Ok(match checked.read(text) {
            Err(why) if !is_left_out => Validation::Invalid(why.into()),
            _ => Validation::Valid,
        })
    };
    let default = field.default.as_ref().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let mut prompt = Text::new(label).with_validator(validator);
    prompt.help_message = help;
    prompt.initial_value = default.as_deref();
    let given = prompt.prompt()?;
    if given.is_empty() && !field.is_required {
        return Ok(None);
    }
    Ok(field.read(&given).ok())
}
