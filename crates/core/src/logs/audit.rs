//! The audit log as lines: each has all that is known about who sent the request, and where it came from.

use std::error::Error;
use std::fmt::{self, Debug};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Clock;
use crate::audit::{FIELDS, TARGET, VERSION};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::logs::json::Clipping;
use crate::logs::text::write_value;

mod tally;

use tally::{Counted, Fields, Tally};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// A JSON object.
    Json,
    /// Text for people.
    Text,
}

/// The layer that writes the audit log. It needs the filter [`audited`], and nothing else filters it.
pub struct AuditLog<W> {
    writer: W,
    format: LineFormat,
    clock: Arc<dyn Clock>,
    tally: Mutex<Tally>,
}

/// A filter that lets the audit log through and nothing else, or the opposite.
#[must_use]
pub fn audited(audit: Audited) -> FilterFn<impl Fn(&Metadata<'_>) -> bool + Clone> {
    filter_fn(move |event| match audit {
        Audited::Only => event.target() == TARGET,
        Audited::Except => event.target() != TARGET,
        Audited::Nothing => false,
    })
}

/// The lines that [`audited`] lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// The audit log.
    Only,
    /// Everything else.
    Except,
    /// Nothing at all: the operator wants no audit log.
    Nothing,
}

impl<W> AuditLog<W> {
    /// Lines of this form that go to `writer`. `clock` says when identical lines are counted together.
    pub fn to(writer: W, format: LineFormat, clock: Arc<dyn Clock>) -> Self {
        Self { writer, format, clock, tally: Mutex::default() }
    }
}

impl<W: for<'a> MakeWriter<'a>> AuditLog<W> {
    fn write(&self, lines: Vec<Counted>) {
        for Counted { fields, count } in lines {
            if let Err(error) = self.write_one(&fields, count) {
                tracing::error!(error = &*error, "a line of the audit log was not written");
            }
        }
    }

    /// Writes the line in one piece, so that no other line gets in between.
    fn write_one(&self, fields: &Fields, count: u64) -> Result<(), Box<dyn Error>> {
        let mut writer = self.writer.make_writer();
        match self.format {
            LineFormat::Json => Clipping(writer).write_all(json(fields, count)?.as_bytes())?,
            LineFormat::Text => writer.write_all(text(fields, count)?.as_bytes())?,
        }
        Ok(())
    }

    fn tallied(&self, take: impl FnOnce(&mut Tally) -> Vec<Counted>) {
        let lines = take(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        self.write(lines);
    }
}

impl<S, W> Layer<S> for AuditLog<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    /// A request begins: what was counted until a while ago is written.
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
        self.tallied(|tally| tally.over(self.clock.now()));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Fields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Fields>() {
                line.values.extend(around.values.clone());
            }
        }
        event.record(&mut line);
        let now = self.clock.now();
        self.tallied(|tally| if line.is_flush { tally.flush() } else { tally.take(line, now) });
    }
}

impl<W> Debug for AuditLog<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("format", &self.format).finish_non_exhaustive()
    }
}

/// The line as JSON, with its fields in the documented order.
fn json(fields: &Fields, count: u64) -> Result<String, fmt::Error> {
    let member = |(name, value): (&str, Value<'_>)| match value {
        Value::Number(number) => format!("\"{name}\":{number}"),
        Value::Text(text) => format!("\"{name}\":{}", serde_json::Value::from(text)),
    };
    let now = timestamp()?;
    let members: Vec<String> = members(fields, count, &now).into_iter().map(member).collect();
    Ok(format!("{{{}}}\n", members.join(",")))
}

/// The line as text: it begins like the other lines of the log, and has the fields behind that.
fn text(fields: &Fields, count: u64) -> Result<String, fmt::Error> {
    let now = timestamp()?;
    let mut line = format!("{now}  INFO {TARGET}:");
    let shown = members(fields, count, &now).into_iter();
    for (name, value) in shown.filter(|(name, _)| !["timestamp", "level", "target"].contains(name)) {
        let mut line = Writer::new(&mut line);
        write!(line, " {name}=")?;
        match value {
            Value::Number(number) => write_value(&mut line, &number)?,
            Value::Text(text) => write_value(&mut line, &format_args!("{text}"))?,
        }
    }
    line.push('\n');
    Ok(line)
}

enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

/// The fields that a line has, in the documented order.
fn members<'a>(fields: &'a Fields, count: u64, now: &'a str) -> Vec<(&'static str, Value<'a>)> {
    let value = |name| match name {
        "timestamp" => Some(Value::Text(now)),
        "level" => Some(Value::Text("INFO")),
        "target" => Some(Value::Text(TARGET)),
        "version" => Some(Value::Number(VERSION)),
        "count" => Some(Value::Number(count)),
        other => fields.values.get(other).map(|value| Value::Text(value)),
    };
    FIELDS.iter().filter_map(|field| Some((field.name, value(field.name)?))).collect()
}

fn timestamp() -> Result<String, fmt::Error> {
    let mut now = String::new();
    SystemTime.format_time(&mut Writer::new(&mut now))?;
    Ok(now)
}
