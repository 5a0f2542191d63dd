//! Every limit of the console: what it asks a server for, what a page shows, and what a browser may send.

use std::time::Duration;

/// Connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take to arrive.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Open pages that receive updates, at a time.
pub(crate) const LIVE_MAX: usize = 10;

/// A secret that people log in with has so many characters at least.
pub(crate) const SECRET_MIN: usize = 32;

/// How long they stay so, in seconds.
pub(crate) const SESSION_S: u32 = 12 * 3_600;

/// So many browsers are logged in at a time. The next one ends the oldest session.
pub(crate) const SESSIONS_MAX: usize = 100;

/// Characters of an origin that an error repeats.
pub(crate) const ORIGIN_MAX: usize = 128;

/// A longer query is not read, in bytes.
pub(crate) const QUERY_BYTES_MAX: usize = 8 << 10;

/// Bytes of a form: the largest arguments of a tool, written in the way of forms.
pub(crate) const POSTED_BYTES_MAX: usize = 12 << 20;

/// Fields of a form.
pub(crate) const POSTED_FIELDS_MAX: usize = 10_000;

/// How long a form may take to arrive.
pub(crate) const POSTED_TIME_MAX: Duration = Duration::from_secs(30);

/// A reason is cut after so many characters.
pub(crate) const PROBLEM_CHARS_MAX: usize = 2_000;

/// When a page is loaded again that could not be shown, in seconds.
pub(crate) const AGAIN_S: u32 = 5;

/// The shortest pause between two polls of an open page.
pub(crate) const LIVE_PAUSE_MIN: Duration = Duration::from_secs(2);

/// The pause is so many times as long as a poll took, so that polls are a small part of a server's work.
pub(crate) const LIVE_PAUSE_FACTOR: u32 = 5;

/// The longest pause.
pub(crate) const LIVE_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a stream lasts. The browser asks for another one then.
pub(crate) const LIVE_TIME_MAX: Duration = Duration::from_secs(900);

/// A schema with more fields than this is written as JSON.
pub(crate) const FORM_FIELDS_MAX: usize = 100;

/// Checkboxes, at most.
pub(crate) const BOXES_MAX: usize = 12;

/// Values to choose from in a list. If there are more, they are typed.
pub(crate) const LISTED_MAX: usize = 500;

/// A longer text gets several lines, in characters.
pub(crate) const LINE_CHARS_MAX: u64 = 255;

/// Characters that are shown of a field's name or title.
pub(crate) const TITLE_MAX: usize = 200;

/// Characters that are shown of a field's purpose.
pub(crate) const HINT_MAX: usize = 2_000;

/// Characters that are shown of a value to choose.
pub(crate) const CHOICE_MAX: usize = 200;

/// So many of the values that are not listed are named.
pub(crate) const NAMED_MAX: usize = 5;

/// At most so many waits are shortened in the picture: the longest ones.
pub(crate) const FOLDS_MAX: usize = 48;

/// So many attempts are named that went wrong: the last ones.
pub(crate) const PROBLEMS_MAX: usize = 5;

/// Characters of a reason.
pub(crate) const REASON_MAX: usize = 300;

/// Up to so many entries are drawn each for itself, and more of them as columns.
pub(crate) const PICTURED_ENTRIES_MAX: usize = 400;

/// So many times are written above the axis.
pub(crate) const MOMENTS_MAX: usize = 8;

/// A longer id is shortened to so many of its last characters.
pub(crate) const ID_MAX: usize = 16;

pub(crate) const ID_END: usize = 8;

/// Characters of JSON or text that a page shows of one value.
pub(crate) const VALUE_CHARS_MAX: usize = 32 << 10;

/// The records of so many unfinished tasks are read: the newest ones.
pub(crate) const RECORDS_MAX: usize = 20;

/// So many of the tasks that wait longest are named.
pub(crate) const OLDEST_MAX: usize = 5;

/// So many tools are listed.
pub(crate) const LISTED_TOOLS_MAX: usize = 1_000;

/// Characters that are shown of a name.
pub(crate) const TOOL_NAME_MAX: usize = 128;

/// Characters that are shown of a description in the list, and on the tool's own page.
pub(crate) const SHORT_DESCRIPTION_MAX: usize = 300;

pub(crate) const DESCRIPTION_MAX: usize = 16 << 10;

/// Characters that are shown of a text in a result.
pub(crate) const TOOL_TEXT_MAX: usize = 64 << 10;

/// Tasks on a page.
pub(crate) const TASKS_ON_A_PAGE: usize = 50;

/// Characters of a text that is searched for.
pub(crate) const CELL_MAX: usize = 200;

/// Characters of a label: more than the longest one has.
pub(crate) const LABEL_MAX: usize = 400;

/// Tools that one can choose from.
pub(crate) const FILTER_TOOLS_MAX: usize = 200;

/// Tasks that one form may name.
pub(crate) const ACTED_TASKS_MAX: usize = 200;

/// Characters of a result's text that the page shows.
pub(crate) const RESULT_TEXT_MAX: usize = 64 << 10;

/// So many parts of a result are shown.
pub(crate) const CONTENTS_MAX: usize = 50;

/// A longer name of an entry stands in no address.
pub(crate) const ENTRY_NAME_BYTES_MAX: usize = 2_048;

/// Entries of a group.
pub(crate) const ENTRIES_IN_A_GROUP: usize = 200;

/// So many attempts are in the table: the last ones.
pub(crate) const ATTEMPTS_MAX: usize = 100;

/// Characters of a value in a row.
pub(crate) const ENTRY_VALUE_MAX: usize = 120;

/// Characters that are shown of a called task's answer.
pub(crate) const CHILD_ANSWER_MAX: usize = 80;

/// The questions of so many tasks are shown.
pub(crate) const ASKING_TASKS_MAX: usize = 50;

/// So many of them are asked for at a time.
pub(crate) const ASKED_AT_A_TIME: usize = 4;

/// Characters of a question that stand in a heading.
pub(crate) const HEADING_MAX: usize = 160;

/// Characters that are shown of a question.
pub(crate) const MESSAGE_MAX: usize = 16 << 10;

// Relations between the limits.
const _: () = {
    // The streams of open pages leave connections for pages that are opened.
    assert!(LIVE_MAX < CONNECTIONS_MAX);
    // A page gets another update before its stream ends.
    assert!(LIVE_PAUSE_MIN.as_millis() < LIVE_PAUSE_MAX.as_millis());
    assert!(LIVE_PAUSE_MAX.as_millis() < LIVE_TIME_MAX.as_millis());
    // Every field of a form that is shown is accepted when it comes back. The same applies to every selected task.
    assert!(FORM_FIELDS_MAX < POSTED_FIELDS_MAX);
    assert!(ACTED_TASKS_MAX < POSTED_FIELDS_MAX && TASKS_ON_A_PAGE <= ACTED_TASKS_MAX);
    // A value that may be chosen by boxes may be chosen from a list.
    assert!(BOXES_MAX <= LISTED_MAX);
    assert!(ID_END < ID_MAX);
    assert!(SHORT_DESCRIPTION_MAX <= DESCRIPTION_MAX);
    assert!(ASKED_AT_A_TIME <= ASKING_TASKS_MAX);
    // The secret is typed once for each sign-in and must not be guessable: 32 characters have 128 bits even in
    // hexadecimal.
    assert!(SECRET_MIN >= 32);
};
