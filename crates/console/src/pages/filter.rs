//! The filter of a list of tasks, as the address of a page has it.

use longhaul_client::text::line;
use longhaul_client::{ALL_OWNERS, Status};

use crate::ask::PageRequest;
use crate::limits::{CELL_MAX, LABEL_MAX};
use crate::parts;
use crate::source::Filter;

/// The parameter with the place where a list of older tasks begins.
pub(super) const BEFORE: &str = "before";

/// Ages that one can choose from: the value, its length in milliseconds, and words.
pub(super) const AGES: [(&str, i64, &str); 4] = [
    ("10m", 600_000, "the last 10 minutes"),
    ("1h", 3_600_000, "the last hour"),
    ("1d", 86_400_000, "the last day"),
    ("7d", 604_800_000, "the last 7 days"),
];

/// The requested filter. This is the one place where the address becomes a filter.
pub(super) fn of(ask: &PageRequest) -> Filter {
    Filter {
        status: ask.value("status").and_then(Status::of),
        tool: ask.value("tool").map(str::to_owned),
        // A string without a value is not a label, so it matches no task.
        label: ask.value("label").map(|text| text.split_once('=').unwrap_or((text, ""))).map(owned),
        age_ms_max: AGES.iter().find(|(value, ..)| ask.value("age") == Some(value)).map(|(_, ms, _)| *ms),
        text: ask.value("q").map(|text| text.trim().chars().take(CELL_MAX).collect::<String>().to_lowercase()),
        before: ask.value(BEFORE).map(str::to_owned),
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// The filter of the address in words, for a person who acts on all tasks that it takes.
pub(super) fn in_words(ask: &PageRequest) -> String {
    let age = AGES.iter().find(|(value, ..)| ask.value("age") == Some(value));
    let words = [
        ask.value("status").and_then(Status::of).map(|status| format!("status: {}", parts::words(status))),
        ask.value("tool").map(|tool| format!("tool: {}", line(tool, 80))),
        ask.value("label").map(|label| format!("label: {}", line(label, LABEL_MAX))),
        age.map(|(_, _, words)| format!("created in {words}")),
        ask.value("q").map(|text| format!("with “{}”", line(text, CELL_MAX))),
        ask.owner().map(|owner| format!("owner: {}", if owner == ALL_OWNERS { "all" } else { owner })),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { "no filter".to_owned() } else { words.join(", ") }
}
