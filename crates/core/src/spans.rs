//! Spans for OpenTelemetry: what they are named, and how they are connected over processes.
//!
//! A task keeps a [`TraceParent`], so the spans of all its attempts belong to one trace. Spans have ids and names as
//! attributes, and never arguments or results. They are nothing without the feature `otel`, and until the program calls
//! `start`.

use std::fmt::Display;

use crate::{Timestamp, TraceParent};

/// The kinds of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanName {
    /// A call is accepted as a task.
    Accept,
    /// A new task waits for its first attempt.
    Queue,
    /// One attempt of a task.
    Attempt,
    /// The work of one step.
    Step,
    /// A task waits for a time or an answer, between two attempts.
    Wait,
    /// A gateway calls a tool of another server.
    GatewayCall,
    /// One attempt of a webhook delivery.
    Webhook,
}

/// A span that lasts until it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Span(#[cfg(feature = "otel")] Option<opentelemetry::Context>);

impl Span {
    /// Begins a span. Its parent is the span in whose [`around`](Self::around) this is called, otherwise `parent`.
    #[must_use]
    pub fn begin(name: SpanName, parent: Option<&TraceParent>) -> Self {
        imp::begin(name, parent, None)
    }

    /// Notes a span that lasted from `from` until `to`.
    pub fn note(name: SpanName, parent: Option<&TraceParent>, (from, to): (Timestamp, Timestamp), task: &dyn Display) {
        let span = imp::begin(name, parent, Some(from));
        span.set("longhaul.task_id", task);
        imp::end(&span, to);
    }

    /// Sets an attribute.
    pub fn set(&self, key: &'static str, value: impl Display) {
        imp::set(self, key, &value);
    }

    /// Says that the work of the span failed.
    pub fn fail(&self) {
        imp::fail(self);
    }

    /// The trace for work that this span causes; `None` if it is nothing.
    #[must_use]
    pub fn trace(&self) -> Option<TraceParent> {
        imp::trace(self)
    }

    /// Runs `future` with this span as the parent of the spans that begin inside.
    pub async fn around<F: Future>(&self, future: F) -> F::Output {
        imp::around(self, future).await
    }
}

/// Exports what has ended, before a process is frozen or ends. It blocks, for as long as the function given to `start`
/// does.
pub fn flush() {
    imp::flush();
}

#[cfg(feature = "otel")]
pub use imp::start;

#[cfg(feature = "otel")]
mod imp {
    use std::fmt::Display;
    use std::sync::OnceLock;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use opentelemetry::global::{self, BoxedTracer};
    use opentelemetry::trace::{
        FutureExt, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
        TraceState, Tracer,
    };
    use opentelemetry::{Context, KeyValue};

    use super::{Span, SpanName};
    use crate::{Timestamp, TraceParent};

    struct Export {
        tracer: BoxedTracer,
        flush: Box<dyn Fn() + Send + Sync>,
    }

    static EXPORT: OnceLock<Export> = OnceLock::new();

    /// Gives all spans from now on to the global tracer provider of `opentelemetry`. `flush` exports what the provider
    /// has buffered. Only the first call counts.
    pub fn start(flush: impl Fn() + Send + Sync + 'static) {
        EXPORT.get_or_init(|| Export { tracer: global::tracer("longhaul"), flush: Box::new(flush) });
    }

    pub(super) fn flush() {
        if let Some(export) = EXPORT.get() {
            (export.flush)();
        }
    }

    pub(super) fn begin(name: SpanName, parent: Option<&TraceParent>, from: Option<Timestamp>) -> Span {
        let Some(Export { tracer, .. }) = EXPORT.get() else { return Span(None) };
        let around = Context::current();
        let parent = match parent.and_then(remote) {
            Some(parent) if !around.has_active_span() => around.with_remote_span_context(parent),
            Some(_) | None => around,
        };
        let (name, kind) = named(name);
        let mut builder = SpanBuilder::from_name(name).with_kind(kind);
        builder.start_time = from.map(system_time);
        Span(Some(parent.with_span(tracer.build_with_context(builder, &parent))))
    }

    const fn named(name: SpanName) -> (&'static str, SpanKind) {
        match name {
            SpanName::Accept => ("accept", SpanKind::Producer),
            SpanName::Queue => ("queue", SpanKind::Internal),
            SpanName::Attempt => ("attempt", SpanKind::Consumer),
            SpanName::Step => ("step", SpanKind::Internal),
            SpanName::Wait => ("wait", SpanKind::Internal),
            SpanName::GatewayCall => ("gateway call", SpanKind::Client),
            SpanName::Webhook => ("webhook", SpanKind::Consumer),
        }
    }

    fn remote(parent: &TraceParent) -> Option<SpanContext> {
        let mut fields = parent.as_str().split('-').skip(1);
        let (trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?);
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
        Some(SpanContext::new(trace, span, flags, true, TraceState::NONE))
    }

    fn system_time(at: Timestamp) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(at.as_ms())
    }

    pub(super) fn end(Span(context): &Span, at: Timestamp) {
        if let Some(context) = context {
            context.span().end_with_timestamp(system_time(at));
        }
    }

    pub(super) fn set(Span(context): &Span, key: &'static str, value: &dyn Display) {
        if let Some(context) = context {
            context.span().set_attribute(KeyValue::new(key, value.to_string()));
        }
    }

    pub(super) fn fail(Span(context): &Span) {
        if let Some(context) = context {
            context.span().set_status(Status::error(""));
        }
    }

    pub(super) fn trace(Span(context): &Span) -> Option<TraceParent> {
        let own = context.as_ref()?.span().span_context().clone();
        TraceParent::parse(&format!("00-{}-{}-{:02x}", own.trace_id(), own.span_id(), own.trace_flags()))
    }

    pub(super) async fn around<F: Future>(Span(context): &Span, future: F) -> F::Output {
        match context {
            Some(context) => future.with_context(context.clone()).await,
            None => future.await,
        }
    }
}

#[cfg(not(feature = "otel"))]
mod imp {
    use std::fmt::Display;

    use super::{Span, SpanName};
    use crate::{Timestamp, TraceParent};

    pub(super) const fn begin(_name: SpanName, _parent: Option<&TraceParent>, _from: Option<Timestamp>) -> Span {
        Span()
    }

    pub(super) const fn end(_span: &Span, _at: Timestamp) {}

    pub(super) const fn set(_span: &Span, _key: &'static str, _value: &dyn Display) {}

    pub(super) const fn fail(_span: &Span) {}

    pub(super) const fn trace(_span: &Span) -> Option<TraceParent> {
        None
    }

    pub(super) async fn around<F: Future>(_span: &Span, future: F) -> F::Output {
        future.await
    }

    pub(super) const fn flush() {}
}
