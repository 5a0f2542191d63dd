//! The events of a task, as a picture of one size.

use longhaul_client::text::{count, line};
use maud::{Markup, html};

use super::axis::{Axis, WIDTH};
use super::{Attempt, End, Entry, Timeline, Wait, Why};
use crate::clock::{day_and_minute, exact_ms, in_words_ms, time_of_day};
use crate::limits::{MOMENTS_MAX, PICTURED_ENTRIES_MAX};

/// So many columns.
const COLUMNS: usize = 250;

/// A narrower mark, or one that would be drawn over a mark of the same kind, is left out, in units of the picture.
const SEEN_MIN: f64 = 1.5;

/// Longer than that, and times need their day.
const DAY_MS: i64 = 72_000_000;

pub(crate) fn picture(timeline: &Timeline, axis: &Axis, said: &str) -> Markup {
    let waits = timeline.waits().into_iter().filter(|wait| axis.x(wait.to_ms) - axis.x(wait.from_ms) >= SEEN_MIN);
    let height = if timeline.entries.is_empty() { 60 } else { 92 };
    html! {
        div class="picture" tabindex="0" role="group" aria-label="Timeline" {
            svg viewBox=(format!("0 0 1000 {height}")) role="img" aria-label=(said) {
                defs {
                    pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"
                        {
                        rect class="hatch" width="3" height="6" {}
                    }
                }
                (moments(timeline, axis))
                @for wait in waits { (wait_of(&wait, axis)) }
                @for attempt in seen(timeline, axis) { (attempt_of(attempt, axis)) }
                line class="rule" x1="0" x2="1000" y1="88" y2="88" {}
                @if timeline.entries.len() > PICTURED_ENTRIES_MAX { (columns(timeline, axis)) } @else {
                    @for entry in &timeline.entries { (entry_of(entry, axis)) }
                }
            }
        }
        (legend(timeline))
    }
}

/// The attempts without those that would be drawn over another one that ended in the same way.
fn seen<'a>(timeline: &'a Timeline, axis: &Axis) -> Vec<&'a Attempt> {
    let mut last: Vec<(End, f64)> = Vec::new();
    let is_seen = |attempt: &&Attempt| {
        let to = axis.x(attempt.to_ms);
        if last.iter().any(|(end, x)| *end == attempt.end && to < x + SEEN_MIN) {
            return false;
        }
        last.retain(|(end, _)| *end != attempt.end);
        last.push((attempt.end, to));
        true
    };
    timeline.attempts.iter().filter(is_seen).collect()
}

/// The time of day where attempts begin, where there is room for it.
fn moments(timeline: &Timeline, axis: &Axis) -> Markup {
    let (mut shown, mut free) = (Vec::new(), 0.0);
    let is_long = timeline.until_ms - timeline.created_ms > DAY_MS;
    let begins = std::iter::once(timeline.created_ms).chain(timeline.attempts.iter().map(|attempt| attempt.from_ms));
    for ms in begins {
        let x = axis.x(ms);
        if x >= free && x <= WIDTH - 60.0 && shown.len() < MOMENTS_MAX {
            free = x + WIDTH / 9.0;
            shown.push((x, ms));
        }
    }
    html! {
        @for (x, ms) in shown {
            line class="tick" x1=(unit(x)) x2=(unit(x)) y1="4" y2="18" {}
            @let (form, time) = if is_long { ("day", day_and_minute(ms)) } else { ("second", time_of_day(ms)) };
            text class="moment" x=(unit(x + 3.0)) y="12" data-at=(ms) data-as=(form) { (time) }
        }
    }
}

fn wait_of(wait: &Wait, axis: &Axis) -> Markup {
    let (x, width) = span(axis, wait.from_ms, wait.to_ms, 0.0);
    let lasted = in_words_ms(wait.to_ms - wait.from_ms);
    let is_folded = axis.is_folded(wait);
    html! {
        g class={ "wait " (wait.why.class()) } {
            title { (lasted) " " (wait.why.words()) }
            @if wait.why == Why::Lost { rect x=(unit(x)) y="22" width=(unit(width)) height="22" fill="url(#hatch)" {} }
            @else { rect x=(unit(x)) y="29" width=(unit(width)) height="8" {} }
            @if is_folded && width > 50.0 {
                text class="fold" x=(unit(x + width / 2.0)) y="50" { "⋯ " (lasted) " ⋯" }
            } @else if is_folded && width > 6.0 {
                text class="fold" x=(unit(x + width / 2.0)) y="48" { "⋯" }
            }
        }
    }
}

fn attempt_of(attempt: &Attempt, axis: &Axis) -> Markup {
    let (x, width) = span(axis, attempt.from_ms, attempt.to_ms, 2.0);
    let lasted = exact_ms(attempt.to_ms - attempt.from_ms);
    html! {
        g class={ "attempt " (attempt.end.class()) } {
            title {
                "Attempt " (attempt.number) ": " (lasted) ", " (count(attempt.entries, "entry", "entries")) ", "
                    (attempt.end.words())
                @if let Some(reason) = &attempt.reason { ": " (line(reason, 120)) }
            }
            rect x=(unit(x)) y="22" width=(unit(width)) height="22" rx="2" {}
            @if matches!(attempt.end, End::Died | End::Failed) {
                text class="wrong" x=(unit(x + width / 2.0)) y="56" { "✕" }
            }
            @if width > 14.0 { text class="number" x=(unit(x + width / 2.0)) y="36" { (attempt.number) } }
        }
    }
}

fn entry_of(entry: &Entry, axis: &Axis) -> Markup {
    let Some((from_ms, to_ms)) = entry.span() else { return html! {} };
    let (x, width) = span(axis, from_ms, to_ms, 1.5);
    html! {
        rect class={ "entry " (kind(&entry.kind)) } x=(unit(x)) y="64" width=(unit(width)) height="22" {
            title { (line(&entry.name, 80)) }
        }
    }
}

/// How many entries there are, in columns of equal width.
fn columns(timeline: &Timeline, axis: &Axis) -> Markup {
    let mut columns = [0_usize; COLUMNS];
    for (_, to_ms) in timeline.entries.iter().filter_map(Entry::span) {
        if let Some(column) = columns.get_mut(column_of(axis.x(to_ms))) {
            *column += 1;
        }
    }
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let width = 1_000 / COLUMNS;
    html! {
        @for (index, number) in columns.iter().enumerate().filter(|(_, number)| **number > 0) {
            // At least a tenth, so that a single entry is seen.
            @let height = (number * 22 / most).max(2);
            rect class="entry step" x=(index * width) y=(86 - height) width=(width) height=(height) {
                title { (count(*number, "entry", "entries")) }
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the number of columns")]
fn column_of(x: f64) -> usize {
    ((x / 4.0).max(0.0) as usize).min(COLUMNS - 1)
}

/// How an entry of this kind looks.
fn kind(kind: &str) -> &'static str {
    match kind {
        "step" => "step",
        "timer" => "timer",
        "answer" | "round" => "answer",
        _ => "other",
    }
}

/// The colours that are in the picture.
fn legend(timeline: &Timeline) -> Markup {
    let has = |end: End| timeline.attempts.iter().any(|attempt| attempt.end == end);
    let ends = [
        (End::Task, "ended the task"),
        (End::Runs, "runs"),
        (End::Timer, "attempt, then sleep"),
        (End::Input, "attempt, then a question"),
        (End::Yield, "gave back"),
        (End::Failed, "failed"),
        (End::Died, "died (✕); what it recorded is kept"),
        (End::Unknown, "older attempt, known by its steps"),
    ];
    html! {
        ul class="legend" aria-label="Legend" {
            @for (end, words) in ends.into_iter().filter(|(end, _)| has(*end)) {
                li { span class={ "key " (end.class()) } {} (words) }
            }
            @if timeline.waits().iter().any(|wait| wait.why == Why::Lost) {
                li { span class="key lost" {} "lost work, or no server" }
            }
            @if !timeline.entries.is_empty() { li { span class="key step" {} "steps, below the attempts" } }
        }
    }
}

/// The position and the width of a span of time, with a minimum width.
fn span(axis: &Axis, from_ms: i64, to_ms: i64, least: f64) -> (f64, f64) {
    let (x, to) = (axis.x(from_ms), axis.x(to_ms));
    let width = (to - x).max(least);
    (x.min(WIDTH - width).max(0.0), width)
}

/// A coordinate, no more exact than a screen is.
fn unit(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// A bar on the same axis, in a row of its own.
pub(crate) fn bar(entry: &Entry, axis: &Axis) -> Markup {
    let Some((from_ms, to_ms)) = entry.span() else { return html! {} };
    let (x, width) = span(axis, from_ms, to_ms, 3.0);
    html! {
        svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            rect class={ "entry " (kind(&entry.kind)) } x=(unit(x)) y="1" width=(unit(width)) height="8" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{long, now_ms};
    use super::super::{problems, summary};
    use super::*;

    fn drawn(attempts: i64, steps: i64) -> String {
        let line = Timeline::of(&long(attempts, steps), now_ms(0)).unwrap();
        assert!(problems(&line).len() <= 5);
        picture(&line, &Axis::of(&line), &summary(&line)).into_string()
    }

    #[test]
    fn folded_waits_and_dead_attempts_are_seen() {
        let picture = drawn(4, 2);
        assert!(picture.contains("⋯ 59 min ⋯"), "{picture}");
        assert!(picture.contains(r#"class="attempt died""#) && picture.contains("✕"), "{picture}");
        assert_eq!(picture.matches("url(#hatch)").count(), 1, "only what is lost is hatched: {picture}");
        assert_eq!(picture.matches(r#"class="entry step""#).count(), 8);
    }

    #[test]
    fn a_picture_has_one_size_however_much_happened() {
        for (attempts, steps) in [(1, 0), (40, 25), (16, 256), (4_096, 1)] {
            let length = drawn(attempts, steps).len();
            assert!(length < 250_000, "{attempts} attempts with {steps} steps: {length}");
        }
    }
}
