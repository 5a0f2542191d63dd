//! Every limit of the command, but for those of the bridge: the sizes of its inputs, and how long it waits.

use std::time::Duration;

pub(crate) const SERVERS_BYTES_MAX: u64 = 16 << 20;

/// More is not read from a configuration or a lock file.
pub(crate) const CONFIG_BYTES_MAX: u64 = 64 << 20;

/// More is not read from a file or from the standard input.
pub(crate) const GIVEN_BYTES_MAX: u64 = 16 << 20;

/// More is not read from a file with a token.
pub(crate) const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// How much a result may have that is written to a terminal, in bytes.
pub(crate) const TERMINAL_BYTES_MAX: usize = 1 << 20;

/// Between two polls, if the server does not say how long.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// No server is polled more often, or less often.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(100);

pub(crate) const INTERVAL_MAX: Duration = Duration::from_secs(10 * 60);

/// The first pause after a poll that failed; each further one is twice as long.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// A server that has not answered for so long is given up.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(10 * 60);

/// A task that needs an answer, and shows no unanswered question, is given up after so long.
pub(crate) const UNASKED_MAX: Duration = Duration::from_secs(30);

/// How long after a first Ctrl-C a second one cancels.
pub(crate) const SECOND_CTRL_C: Duration = Duration::from_secs(2);

/// How often a line is written where there is no terminal.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(10);

/// So many tasks are requested one by one from a server without a list.
pub(crate) const ASKED_MAX: usize = 50;

/// An id of so many characters is whole: it is a UUID, or longer.
pub(crate) const WHOLE_ID_CHARS: usize = 36;

/// Fewer characters of an id name no task, so that an empty variable of a script names none.
pub(crate) const ID_PREFIX_CHARS_MIN: usize = 4;

/// So many tasks are waited for at once.
pub(crate) const WATCHED_AT_ONCE_MAX: usize = 64;

/// No page of a list is read more often.
pub(crate) const REFRESH_MIN: Duration = Duration::from_secs(2);

/// So many tasks are listed, if the user does not say how many.
pub(crate) const LISTED: u16 = 100;

/// More tasks are not listed.
pub(crate) const LISTED_MAX: i64 = 10_000;

/// A value is cut after so many characters.
pub(crate) const VALUE_CHARS_MAX: usize = 80;

/// So many tasks are remembered. Twice as many are in the file at most.
pub(crate) const ENTRIES_MAX: usize = 1_000;

/// How long another command may hold a file of this user's.
pub(crate) const LOCK_MAX: Duration = Duration::from_secs(60);

/// Between two tries to hold it.
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Larger arguments are not remembered, in bytes.
pub(crate) const ARGUMENTS_BYTES_MAX: usize = 64 << 10;

/// A request that is longer is not a redirect.
pub(crate) const REDIRECT_HEAD_BYTES_MAX: usize = 32 << 10;

/// How long a browser may take to send its request.
pub(crate) const REDIRECT_HEAD_MAX: Duration = Duration::from_secs(10);

/// So many connections are read at a time: browsers open some to be fast.
pub(crate) const REDIRECT_CONNECTIONS_MAX: usize = 32;

/// More is not read from a file.
pub(crate) const LOGINS_BYTES_MAX: u64 = 1 << 20;

/// How long a user may take to log in.
pub(crate) const USER_MAX: Duration = Duration::from_secs(10 * 60);

/// A token that has ended so soon is renewed before it is sent.
pub(crate) const OVER_SOON: Duration = Duration::from_secs(30);

/// Lambda does not take a larger package.
pub(crate) const PACKAGE_BYTES_MAX: u64 = 250 << 20;

/// CloudFormation does not take a larger template.
pub(crate) const TEMPLATE_BYTES_MAX: u64 = 1_000_000;

/// An answer of AWS has at most so many bytes: an answer of a function with a log, or a template.
pub(crate) const AWS_ANSWER_BYTES_MAX: usize = 16 << 20;

/// How long a connection to AWS, or to a deployed server, may take.
pub(crate) const AWS_CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a request to AWS may take: the longest uploads a package.
pub(crate) const AWS_REQUEST_MAX: Duration = Duration::from_secs(10 * 60);

/// So often a request to AWS is tried.
pub(crate) const AWS_TRIES_MAX: u32 = 5;

/// The first pause between two tries; each further one is longer by as much.
pub(crate) const AWS_PAUSE: Duration = Duration::from_secs(1);

/// Between two looks at a stack that is being changed.
pub(crate) const STACK_INTERVAL: Duration = Duration::from_secs(2);

/// A stack that is being changed is watched no longer.
pub(crate) const CHANGE_MAX: Duration = Duration::from_secs(2 * 60 * 60);

/// So many pages of a list of CloudFormation are read.
pub(crate) const PAGES_MAX: usize = 100;

/// So many pages of a log group are read at once.
pub(crate) const LOG_PAGES_MAX: usize = 100;

/// Between two looks for new lines of logs.
pub(crate) const LOGS_INTERVAL: Duration = Duration::from_secs(2);

/// How long a server that was just deployed may take to answer its first request.
pub(crate) const HEALTHY_MAX: Duration = Duration::from_secs(90);

/// How long one answer of a deployed server may take.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// So many earlier templates of a stack are remembered.
pub(crate) const PREVIOUS_MAX: usize = 20;

// Relations between the limits.
const _: () = {
    assert!(INTERVAL_MIN.as_millis() <= INTERVAL.as_millis() && INTERVAL.as_millis() <= INTERVAL_MAX.as_millis());
    assert!(BACK_OFF.as_millis() <= BACK_OFF_MAX.as_millis());
    // A server is asked several times before it is given up.
    assert!(BACK_OFF_MAX.as_millis() * 10 <= SILENT_MAX.as_millis());
    assert!(LOCK_PAUSE.as_millis() * 10 <= LOCK_MAX.as_millis());
    // The arguments that are remembered of a call are smaller than the arguments that may be given.
    assert!(ARGUMENTS_BYTES_MAX as u64 <= GIVEN_BYTES_MAX);
    // A browser has time to send its request before the user is no longer waited for.
    assert!(REDIRECT_HEAD_MAX.as_millis() < USER_MAX.as_millis());
};

/// `-v` shows so much of a message.
pub(crate) const SHOWN_CHARS_MAX: usize = 4096;
