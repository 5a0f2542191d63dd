//! Limits for the cost of a server behind the gateway, and for the time that it may take.

use std::time::Duration;

/// The longest line that a server may write: as large as an event of Streamable HTTP may be. A result may be smaller
/// still, since tasks keep 4.5 MiB at most.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;

/// How long to wait for the rest of a message that is written in several lines, or whose line does not end.
pub(crate) const REST_OF_MESSAGE: Duration = Duration::from_millis(500);

/// How long to wait for another answer after one with an id that was never sent.
pub(crate) const OTHER_ANSWER_MS: u64 = 500;

/// How long a request waits for a busy server before the call is left to a later try. The pauses grow from the first
/// one. `Retry-After` counts up to the longest one.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(30);
pub(crate) const BUSY_FIRST: Duration = Duration::from_secs(1);
pub(crate) const BUSY_LONGEST: Duration = Duration::from_secs(60 * 60);

/// A line of standard error is shown from so many bytes before its end.
pub(crate) const STDERR_LINE_BYTES_MAX: usize = 4 << 10;

/// The last lines of standard error that an error shows, and so many bytes of them.
pub(crate) const STDERR_LINES_MAX: usize = 20;
pub(crate) const STDERR_BYTES_MAX: usize = 8 << 10;

/// The log takes so many lines of one server in this period, both of its standard error and of its MCP log messages.
pub(crate) const LOG_LINES_MAX: u32 = 200;
pub(crate) const LOG_PERIOD_MS: u64 = 10_000;

/// How long a server may take from its start to its answer to the first request, unless `startAtMost` says otherwise.
/// `npx` and `uvx` may have to download it first.
pub(crate) const START_MAX: Duration = Duration::from_secs(60);

/// How long a list, a prompt, a resource or a completion may take.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long the lists of a server are valid if the server does not say so.
pub(crate) const LISTS_TTL: Duration = Duration::from_secs(300);

/// How long they are valid at most.
pub(crate) const LISTS_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest time until lists are read again, even if the server says otherwise, since reading may start the server.
pub(crate) const LISTS_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause after which they are read again if they could not be read. The first pause is [`LISTS_PAUSE`].
pub(crate) const LISTS_RETRY: Duration = Duration::from_secs(60);

/// How often the gateway checks whether lists are due, while a client waits for their changes or a server is
/// unavailable.
pub(crate) const KEEP_UP_MS: u64 = 1_000;

/// How long a request for a list waits for one that is being read again.
pub(crate) const LISTS_WAIT: Duration = Duration::from_secs(1);

/// How long a server may take to end after its standard input was closed, and again after SIGTERM.
pub(crate) const END_GRACE_MS: u64 = 2_000;

/// How often the gateway checks whether a process has ended after it was asked to.
pub(crate) const POLL_MS: u64 = 20;

/// How often it checks whether a process has ended on its own while it should answer. Most often its closed output
/// shows that first.
pub(crate) const WATCH_MS: u64 = 200;

/// How often processes that servers have left behind are waited for, where the gateway is process 1.
pub(crate) const REAP_MS: u64 = 1_000;

/// How long the output of a process is read after its end: its last output may still be on its way.
pub(crate) const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Servers in one configuration.
pub(crate) const SERVERS_MAX: usize = 32;

/// Tools of all servers together.
pub(crate) const TOOLS_MAX: usize = 1_024;

/// The longest name of a tool, its prefix included: longer ones are refused by clients.
pub(crate) const NAME_BYTES_MAX: usize = 128;

/// The longest name of a tool that usual clients pass on to their models, and the prefix that they add before:
/// `mcp__longhaul__`.
pub(crate) const CLIENT_NAME_BYTES_MAX: usize = 64;
pub(crate) const CLIENT_PREFIX_BYTES: usize = "mcp__longhaul__".len();

/// The description of a tool in a configuration: models read it with every request.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 8 << 10;

/// Names that one line of the log shows.
pub(crate) const NAMES_SHOWN_MAX: usize = 20;

/// Pages of one list of one server.
pub(crate) const PAGES_MAX: usize = 32;

/// Processes or connections that one server has at a time, unless `concurrency` says otherwise.
pub(crate) const CONCURRENCY: usize = 4;

/// Polls, answers and cancels of a server behind a URL at a time: an answer does not wait for a poll that hangs. A
/// process is started for each of those of a command, so that it is one.
pub(crate) const QUICK_REQUESTS: usize = 8;

/// How long a process or connection may be idle before it is ended, unless `idleAtMost` says otherwise.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(5 * 60);

/// How many calls a process or connection has before it is ended, unless `callsAtMost` says otherwise: a server that
/// leaks memory is replaced in time.
pub(crate) const CALLS_MAX: usize = 1_000;

/// How often idle processes and connections are checked.
pub(crate) const SWEEP_MS: u64 = 1_000;

/// How often a call is tried in one attempt if the server cannot be started, or dies in a call that may be repeated.
pub(crate) const TRIES_MAX: u32 = 3;

/// How long a call waits in place for a permit of its server. After that its task sleeps, so that it holds no worker
/// that calls of other servers need, and tries again after growing pauses.
pub(crate) const PERMIT_WAIT: Duration = Duration::from_millis(200);
pub(crate) const PERMIT_PAUSE: Duration = Duration::from_secs(1);
pub(crate) const PERMIT_PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// How often in a row the gateway may die in a call that may be repeated, before its task fails. Servers are processes
/// of their own, so it is seldom the call that kills the gateway.
pub(crate) const DEATHS_MAX: u32 = 16;

/// How long to wait before the second try; the third waits twice as long.
pub(crate) const TRY_AGAIN_MS: u64 = 500;

/// How long a caller waits for the answer itself before it gets a task id, unless `handleAfter` says otherwise.
pub(crate) const HANDLE_AFTER: Duration = Duration::from_secs(2);

/// How long a task may take, unless `runAtMost` says otherwise.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(2 * 60 * 60);

/// The shortest and the longest pause between two polls of a server's own task, even if the server says otherwise.
pub(crate) const POLL_EVERY_LEAST: Duration = Duration::from_millis(200);
pub(crate) const POLL_EVERY_MOST: Duration = Duration::from_secs(5 * 60);

/// The first and the longest pause between two polls where no interval is given.
pub(crate) const POLL_FIRST: Duration = Duration::from_secs(1);
pub(crate) const POLL_LONGEST: Duration = Duration::from_secs(30);

/// How long the task of a job is kept unless `retention` says otherwise: as long as the gateway tries to stop the job.
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(6 * 60 * 60);

/// How much longer than the gateway's own task a server is asked to keep its task.
pub(crate) const TTL_MORE_MS: u64 = 60 * 60 * 1_000;

/// Resources of one server that are subscribed to at a time, and those that one client may name in a subscription.
pub(crate) const SUBSCRIBED_MAX: usize = 1_024;
pub(crate) const SUBSCRIPTION_MAX: usize = 256;

/// Changes of resources that wait for a slow subscriber. A subscriber that misses some gets a notification that all of
/// its resources may have changed.
pub(crate) const UPDATES_WAITING_MAX: usize = 256;

/// The first and the longest pause before the gateway reconnects to a server for changes of its resources.
pub(crate) const HEAR_AGAIN_MS: u64 = 1_000;
pub(crate) const HEAR_AGAIN_MS_MAX: u64 = 60_000;

/// How often the gateway pings a server that reports changes.
pub(crate) const PING_EVERY_MS: u64 = 60_000;

/// The size limit of credentials from a file, a command or an authorization server, and the time limit of each source.
pub(crate) const CREDENTIALS_BYTES_MAX: u64 = 64 << 10;
pub(crate) const CREDENTIALS_MAX: Duration = Duration::from_secs(30);

/// How long before they expire credentials are renewed.
pub(crate) const RENEWED_BEFORE: Duration = Duration::from_secs(30);

/// How long a start waits for a system to say whether a job can be started there.
pub(crate) const CHECK_MAX: Duration = Duration::from_secs(10);
