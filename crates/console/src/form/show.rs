//! Forms as HTML.

use longhaul_client::form::{Choice, Field, Kind, type_of};
use longhaul_client::text::{block, line};
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{Entry, FieldError, Form, Prefill, WHOLE, post_name};
use crate::limits::{CHOICE_MAX, HINT_MAX, NAMED_MAX, TITLE_MAX};
use crate::parts;

/// A field as it is shown: its place, its content, and the fault of the content.
struct Shown<'a> {
    field: &'a Field,
    id: String,
    name: String,
    texts: Vec<String>,
    wrong: Option<&'a str>,
    help: Vec<String>,
}

impl Form<'_> {
    /// The form's fields. `place` is different for each form of a page.
    pub(crate) fn show(&self, place: &str, filled: Prefill<'_>) -> Markup {
        let wrong = match filled {
            Prefill::Defaults | Prefill::Values(_) => &[],
            Prefill::Typed(_, wrong) => wrong,
        };
        html! {
            (self.summary(place, wrong))
            @match &self.fields {
                None => (self.whole(place, filled)),
                Some(fields) => @for (index, field) in fields.iter().enumerate() {
                    (Shown::of(field, format!("{place}-{index}"), filled).html())
                }
            }
        }
    }

    /// The faults, with links to their fields.
    fn summary(&self, place: &str, wrong: &[FieldError]) -> Markup {
        let place_of = |name: &str| self.fields.as_ref()?.iter().position(|field| field.name == name);
        html! {
            @if !wrong.is_empty() {
                div class="error" role="alert" tabindex="-1" autofocus {
                    p { "Not done yet:" }
                    ul {
                        @for one in wrong {
                            li {
                                @if let Some(name) = &one.field {
                                    @if let Some(index) = place_of(name) {
                                        a href={ "#" (place) "-" (index) } { (self.title_of(name)) }
                                    } @else {
                                        (line(name, TITLE_MAX))
                                    }
                                    ": "
                                }
                                (block(&one.why, HINT_MAX))
                            }
                        }
                    }
                }
            }
        }
    }

    /// The title of a field, and its name if the schema has another title.
    fn title_of(&self, name: &str) -> String {
        match self.fields.iter().flatten().find(|field| field.name == name) {
            Some(field) if field.title != name => format!("{} ({})", label(field), line(name, TITLE_MAX)),
            Some(field) => label(field),
            None => line(name, TITLE_MAX),
        }
    }

    fn whole(&self, place: &str, filled: Prefill<'_>) -> Markup {
        let id = format!("{place}-json");
        let typed = match filled {
            Prefill::Defaults => defaults(self.schema),
            Prefill::Values(values) => serde_json::to_string_pretty(values).unwrap_or_default(),
            Prefill::Typed(posted, _) => posted.value(WHOLE).unwrap_or_default().to_owned(),
        };
        html! {
            div class="field" {
                label for=(id) { "A JSON object" }
                // The first line break of a text area is not part of it.
                textarea id=(id) name=(WHOLE) rows="10" spellcheck="false" autocomplete="off" { "\n" (typed) }
                details {
                    summary { "Its schema" }
                    (parts::json(self.schema))
                }
            }
        }
    }
}

/// An object of all defaults, for a user who writes it as a whole.
fn defaults(schema: &Value) -> String {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let all: Map<String, Value> =
        properties.filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone()))).collect();
    serde_json::to_string_pretty(&all).unwrap_or_default()
}

/// The title of a field: the schema's title, or its name as words (`in_seconds` is `In seconds`).
fn label(field: &Field) -> String {
    if field.title != field.name {
        return line(&field.title, TITLE_MAX);
    }
    let mut words = String::new();
    let mut before = ' ';
    for one in field.name.chars() {
        let is_next_word = before.is_lowercase() && one.is_uppercase();
        match one {
            '_' | '-' => words.push(' '),
            one if is_next_word => words.extend([' '].into_iter().chain(one.to_lowercase())),
            one => words.push(one),
        }
        before = one;
    }
    let mut letters = words.trim().chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    let label = line(&format!("{first}{}", letters.as_str()), TITLE_MAX);
    if label.is_empty() { line(&field.name, TITLE_MAX) } else { label }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

impl<'a> Shown<'a> {
    fn of(field: &'a Field, id: String, filled: Prefill<'a>) -> Self {
        let name = post_name(&field.name);
        let wrong_of = |all: &'a [FieldError]| all.iter().find(|one| one.field.as_ref() == Some(&field.name));
        let (texts, wrong) = match filled {
            Prefill::Defaults => (default_texts(field), None),
            Prefill::Values(values) => (texts(field, values.get(&field.name)), None),
            Prefill::Typed(posted, wrong) => {
                (posted.values(&name).map(str::to_owned).collect(), wrong_of(wrong).map(|one| one.why.as_str()))
            }
        };
        Self { field, id, name, texts, wrong, help: help(field) }
    }

    fn html(&self) -> Markup {
        match Entry::of(self.field) {
            Entry::Tick => html! {
                div class="field" {
                    span class="tick" {
                        input type="checkbox" id=(self.id) name=(self.name) value="true" checked[self.has("true")]
                            aria-describedby=[self.described_by()] aria-invalid=[self.invalid()];
                        label for=(self.id) { (label(self.field)) }
                    }
                    (self.notes())
                }
            },
            Entry::Boxes(choices) => html! {
                fieldset class="field" id=(self.id) tabindex="-1" aria-describedby=[self.described_by()] {
                    legend { (self.title()) }
                    (self.notes())
                    @for (index, choice) in choices.iter().enumerate() {
                        @let id = format!("{}-{index}", self.id);
                        span class="tick" {
                            input type="checkbox" id=(id) name=(self.name) value=(choice.value)
                                checked[self.has_choice(choice)];
                            label for=(id) { (line(&choice.title, CHOICE_MAX)) }
                        }
                    }
                }
            },
            entry => html! {
                div class="field" {
                    label for=(self.id) { (self.title()) }
                    (self.notes())
                    (self.control(&entry))
                }
            },
        }
    }

    fn control(&self, entry: &Entry<'_>) -> Markup {
        let text = self.texts.first().map_or("", String::as_str);
        let (describedby, invalid) = (self.described_by(), self.invalid());
        let required = self.field.is_required.then_some("true");
        match entry {
            Entry::Lines | Entry::Json | Entry::Any => html! {
                textarea id=(self.id) name=(self.name) rows="3" spellcheck="false" autocomplete="off"
                    aria-describedby=[describedby] aria-invalid=[invalid] aria-required=[required] { "\n" (text) }
            },
            Entry::One(choices) => {
                let titles = choices.iter().map(|choice| (choice.value.to_string(), line(&choice.title, CHOICE_MAX)));
                self.list(titles.collect())
            }
            Entry::YesOrNo => self.list(
                [("true", "yes"), ("false", "no")].map(|(value, title)| (value.to_owned(), title.to_owned())).into(),
            ),
            Entry::Several(choices) => html! {
                select id=(self.id) name=(self.name) multiple size="10" aria-describedby=[describedby]
                    aria-invalid=[invalid] {
                    @for choice in *choices {
                        option value=(choice.value) selected[self.has_choice(choice)] {
                            (line(&choice.title, CHOICE_MAX)) }
                    }
                }
            },
            Entry::Line | Entry::Tick | Entry::Boxes(_) => html! {
                input id=(self.id) name=(self.name) type=(input_type(self.field)) inputmode=[input_mode(self.field)]
                    value=(text)
                    autocomplete="off" aria-describedby=[describedby] aria-invalid=[invalid] aria-required=[required];
            },
        }
    }

    /// A list of which one is chosen. Each choice has the value that is posted and the text that is shown.
    fn list(&self, all: Vec<(String, String)>) -> Markup {
        let is_chosen = |value: &str| self.texts.iter().any(|text| text == value);
        let required = self.field.is_required.then_some("true");
        html! {
            select id=(self.id) name=(self.name) aria-describedby=[self.described_by()] aria-invalid=[self.invalid()]
                aria-required=[required] {
                option value="" { @if self.field.is_required { "Choose…" } @else { "–" } }
                @for (value, title) in &all {
                    option value=(value) selected[is_chosen(value)] { (title) }
                }
            }
        }
    }

    fn title(&self) -> Markup {
        html! {
            (label(self.field))
            @if !self.field.is_required { span class="dim" { " (optional)" } }
        }
    }

    /// Its purpose, the expected value, and the fault.
    fn notes(&self) -> Markup {
        html! {
            @if !self.help.is_empty() {
                div class="hint" id={ (self.id) "-hint" } {
                    @for text in &self.help { p { (text) } }
                }
            }
            @if let Some(why) = self.wrong {
                p class="error" id={ (self.id) "-error" } { (label(self.field)) ": "
                    (block(why, HINT_MAX)) }
            }
        }
    }

    fn described_by(&self) -> Option<String> {
        let hint = (!self.help.is_empty()).then(|| format!("{}-hint", self.id));
        let wrong = self.wrong.map(|_| format!("{}-error", self.id));
        let all: Vec<String> = hint.into_iter().chain(wrong).collect();
        (!all.is_empty()).then(|| all.join(" "))
    }

    fn invalid(&self) -> Option<&'static str> {
        self.wrong.map(|_| "true")
    }

    fn has(&self, text: &str) -> bool {
        self.texts.iter().any(|one| one == text)
    }

    fn has_choice(&self, choice: &Choice) -> bool {
        self.has(&choice.value.to_string())
    }
}

/// The first value of a field: choices as JSON, all else as text.
pub(super) fn default_texts(field: &Field) -> Vec<String> {
    texts(field, field.default.as_ref())
}

fn texts(field: &Field, value: Option<&Value>) -> Vec<String> {
    match (&field.kind, value.filter(|value| !value.is_null()), Entry::of(field)) {
        (_, None, _) => Vec::new(),
        (Kind::One(_), Some(value), Entry::One(_)) => vec![value.to_string()],
        (_, Some(value), Entry::Boxes(_) | Entry::Several(_)) => {
            value.as_array().into_iter().flatten().map(Value::to_string).collect()
        }
        (_, Some(value), _) => vec![text_of(value)],
    }
}

fn input_type(field: &Field) -> &'static str {
    match (type_of(&field.schema), field.schema["format"].as_str()) {
        (Some("string"), Some("email")) => "email",
        (Some("string"), Some("uri")) => "url",
        (Some("string"), Some("date")) => "date",
        _ => "text",
    }
}

/// Numbers are typed as text, since browsers keep nothing of a value that they do not read as a number.
fn input_mode(field: &Field) -> Option<&'static str> {
    match (&field.kind, type_of(&field.schema)) {
        (Kind::Text, Some("integer" | "number")) => Some("decimal"),
        _ => None,
    }
}

/// Its purpose, in the server's words, and the expected value, in the console's.
fn help(field: &Field) -> Vec<String> {
    let described = field.description.as_deref().map(|text| block(text, HINT_MAX));
    described.into_iter().chain(expected(field)).collect()
}

fn expected(field: &Field) -> Option<String> {
    let limit = |name: &str| field.schema[name].as_f64();
    let between = |least: Option<f64>, most: Option<f64>| match (least, most) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        (Some(least), None) => format!(" of at least {least}"),
        (None, Some(most)) => format!(" of at most {most}"),
        (None, None) => String::new(),
    };
    let numbers = between(limit("minimum"), limit("maximum"));
    match (Entry::of(field), type_of(&field.schema), field.schema["format"].as_str()) {
        (Entry::Line, _, _) if matches!(field.kind, Kind::One(_)) => some_of(field),
        (Entry::Any, ..) => Some("JSON of any type. Anything else is a string.".to_owned()),
        (Entry::Json, Some("array"), _) => Some("A JSON array, such as [\"a\", \"b\"].".to_owned()),
        (Entry::Json, ..) => Some("A JSON object, such as {\"a\": 1}.".to_owned()),
        (Entry::Line, Some("integer"), _) => Some(format!("A whole number{numbers}.")),
        (Entry::Line, Some("number"), _) => Some(format!("A number{numbers}.")),
        (Entry::Line, Some("string"), Some("date-time")) => Some("A time, such as 2026-11-23T08:00:00Z.".to_owned()),
        (Entry::Line | Entry::Lines, Some("string"), _) => {
            let size = between(limit("minLength"), limit("maxLength"));
            (!size.is_empty()).then(|| format!("Its length:{size} characters."))
        }
        (Entry::Boxes(_) | Entry::Several(_), ..) => {
            let number = between(limit("minItems"), limit("maxItems"));
            (!number.is_empty()).then(|| format!("Choose{number}."))
        }
        _ => None,
    }
}

fn some_of(field: &Field) -> Option<String> {
    let Kind::One(choices) = &field.kind else { return None };
    let named: Vec<String> = choices.iter().take(NAMED_MAX).map(|choice| line(&text_of(&choice.value), 40)).collect();
    Some(format!("One of {} values, such as {}.", choices.len(), named.join(", ")))
}
