//! Every setting of Longhaul. To add one, declare it here and in [`ALL`], and read it where it is needed; the tests
//! then ask for its line in `docs/settings.md` and, if a function reads it, in `template.yaml`.

use Preset::{Required, Unset, Value};
use longhaul_core::ToolClass;
use longhaul_core::limits::{self, PollLimit};

use crate::{
    Address, Declared, List, Number, Pairs, Path, Preset, Queue, ScopeList, Setting, Store, Switch, Text, Url, Words,
};

/// How callers are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// By where they are: only programs on the same machine reach the server, and all of them are one user. Only the
    /// local server has this.
    Loopback,
    /// By the token that they send, among those of a file. Only the local server has this.
    Bearer,
    /// By the signature that AWS checked before it invoked the function.
    Iam,
    /// By the token that the authorizer of an HTTP API checked before it invoked the function.
    Gateway,
    /// By an access token, which this server verifies itself.
    Oauth,
    /// Not at all: all callers are one owner, and anyone who knows a task's id can see the task. What callers choose
    /// themselves is valid within their session only.
    Anonymous,
}

/// Which part of a signed caller's identity is the owner of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IamOwner {
    /// The user or the role. All sessions of a role are one owner: the name of a session is chosen by the one who
    /// assumes the role, so it proves nothing; and a client finds its tasks again after its credentials were renewed.
    Principal,
    /// The session of a role. For roles where the trust policy, or IAM Identity Center, decides the session's name.
    Session,
    /// The account.
    Account,
}

/// How answers leave the API function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responses {
    /// As a stream: behind a function URL with `RESPONSE_STREAM`, or a REST API that transfers answers as `STREAM`.
    Streamed,
    /// As a whole: behind an HTTP API, or a function URL or a REST API with `BUFFERED`.
    Buffered,
}

/// What a process of a server does that shares its store with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers requests and runs tools.
    All,
    /// It answers requests; other processes run the tools of tasks.
    Http,
    /// It runs the tools of tasks. Over HTTP it answers questions about its health only.
    Worker,
}

/// How the local server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// A line of text for each event.
    Text,
    /// A JSON object for each event.
    Json,
}

/// Whether there is an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// A line for each accepted, answered and cancelled task, and for each caller who is refused.
    On,
    /// None.
    Off,
}

/// Whether the local server has a console in the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// It shows tasks, calls tools, answers questions and cancels.
    On,
    /// It only shows.
    ReadOnly,
    /// None.
    Off,
}

/// Where the local server listens.
pub static LISTEN: Setting<Address> = Setting::new(
    "listen",
    "LONGHAUL_LISTEN",
    Address,
    "Address to listen on: one of loopback, unless `auth` says how others are let in.",
)
.local(Value("127.0.0.1:8080"));

/// The local server's file.
pub static DB: Setting<Path> = Setting::new(
    "db",
    "LONGHAUL_DB",
    Path("FILE"),
    "File for tasks and their queue; created if missing. `:memory:` keeps nothing after the process ends.",
)
.local(Value("longhaul.db"));

/// Where the local server keeps its tasks.
pub static STORE: Setting<Store> = Setting::new(
    "store",
    "LONGHAUL_STORE",
    Store,
    "Where tasks are stored. `sqlite:FILE` is the same as `db`. With `dynamodb:TABLE`, several processes share them \
     (`docs/containers.md`), and the defaults of `lease-ms`, `heartbeat-ms`, `progress-ms`, `stored-mb-max` and \
     `new-tasks-per-minute-max` are those of Lambda.",
)
.local(Unset("`sqlite:` and the file of `db`"));

/// Where the local server queues work.
pub static QUEUE: Setting<Queue> = Setting::new(
    "queue",
    "LONGHAUL_QUEUE",
    Queue,
    "Where work is queued with `store` `dynamodb:TABLE`. The queue's own redrive policy says where its dead letters are.",
)
.local(Unset("in the file of the tasks"));

/// What a process does.
pub static ROLE: Setting<Words<Role>> = Setting::new(
    "role",
    "LONGHAUL_ROLE",
    Words(&[("all", Role::All), ("http", Role::Http), ("worker", Role::Worker)]),
    "What this process does: with `http` it answers requests and runs no tasks, with `worker` it runs tasks and answers \
     `/healthz` and `/readyz` only. Both need a `store` that processes share.",
)
.local(Value("all"));

/// How long legs may go on after a stop.
pub static DRAIN_MS: Setting<Number> = Setting::new(
    "drain-ms",
    "LONGHAUL_DRAIN_MS",
    Number::ms(0, 3_600_000),
    "How long running legs have to reach a step boundary after the process was asked to stop (SIGTERM or Ctrl-C), in \
     milliseconds. Then they are given back where they are, and another process, or the next one, continues them.",
)
.local(Unset("2000 with `sqlite`, 20000 with `dynamodb`"));

/// The DynamoDB table.
pub static TABLE: Setting<Text> =
    Setting::new("table", "LONGHAUL_TABLE", Text("NAME"), "DynamoDB table for tasks.").lambda(Required);

/// The work queue.
pub static QUEUE_URL: Setting<Url> =
    Setting::new("queue-url", "LONGHAUL_QUEUE_URL", Url, "SQS queue for work.").lambda(Required);

/// The queue of dead letters.
pub static DEAD_LETTER_QUEUE_URL: Setting<Url> = Setting::new(
    "dead-letter-queue-url",
    "LONGHAUL_DEAD_LETTER_QUEUE_URL",
    Url,
    "SQS queue for messages that were delivered too often.",
)
.worker(Required);

/// The queues of classes.
pub static CLASS_QUEUES: Setting<Pairs> = Setting::new(
    "class-queues",
    "LONGHAUL_CLASS_QUEUES",
    Pairs::new(
        "CLASS=URL",
        "a class has a letter first, then letters, digits and hyphens, all lower case, 32 at most",
        |name| ToolClass::parse(name).is_some(),
    ),
    "SQS queues for the work of tools that `TaskPolicy::class` puts into a class. All others share `queue-url`.",
)
.lambda(Unset("none"));

/// How callers are identified. `loopback` and `bearer` are for the local server, `iam` and `gateway` for the API function.
pub static AUTH: Setting<Words<Callers>> = Setting::new(
    "auth",
    "LONGHAUL_AUTH",
    Words(&[
        ("loopback", Callers::Loopback),
        ("bearer", Callers::Bearer),
        ("iam", Callers::Iam),
        ("gateway", Callers::Gateway),
        ("oauth", Callers::Oauth),
        ("anonymous", Callers::Anonymous),
    ]),
    "Who may call.",
)
.local(Value("loopback"))
.api(Value("iam"))
.parameter("AuthMode");

/// Whose tokens are accepted.
pub static OAUTH_ISSUER: Setting<List> = Setting::new(
    "oauth-issuer",
    "LONGHAUL_OAUTH_ISSUERS",
    List("URL"),
    "Authorization servers whose access tokens `auth` `oauth` accepts, as their tokens name them in `iss`: https, or http on \
     this machine.",
)
.local(Unset("none"))
.api(Unset("none"))
.parameter("OAuthIssuers");

/// Whom tokens have to be issued for.
pub static OAUTH_AUDIENCE: Setting<List> = Setting::new(
    "oauth-audience",
    "LONGHAUL_OAUTH_AUDIENCES",
    List("URI"),
    "The URL of the MCP endpoint as its callers know it, which access tokens have to name in `aud`; also further names that \
     an issuer has for it.",
)
.local(Unset("none"))
.api(Unset("`/mcp` at the domain that was called"))
.parameter("OAuthAudiences");

/// Who the owner is.
pub static OAUTH_OWNER_CLAIM: Setting<Text> = Setting::new(
    "oauth-owner-claim",
    "LONGHAUL_OAUTH_OWNER_CLAIM",
    Text("CLAIM"),
    "The claim of an access token whose value shares its tasks, such as a team or a tenant. Tokens without exactly one value \
     are refused.",
)
.local(Unset("each subject has its own tasks"))
.api(Unset("each subject has its own tasks"))
.parameter("OAuthOwnerClaim");

/// What tools may see of a token.
pub static OAUTH_CLAIMS: Setting<List> = Setting::new(
    "oauth-claims",
    "LONGHAUL_OAUTH_CLAIMS",
    List("CLAIM"),
    "Claims of an access token that tools may see, separated by commas; at most 4 KiB together.",
)
.local(Unset("none"))
.api(Unset("none"))
.parameter("OAuthClaims");

/// Tokens that a local server accepts.
pub static TOKEN_FILE: Setting<Path> = Setting::new(
    "token-file",
    "LONGHAUL_TOKEN_FILE",
    Path("FILE"),
    "File with a line `NAME TOKEN [SCOPE…]` for each caller, for `auth` `bearer`. Only its owner may read it. It is read again \
     every second.",
)
.local(Unset("none"));

/// Which part of a signed caller's identity is the owner.
pub static IAM_OWNER: Setting<Words<IamOwner>> = Setting::new(
    "iam-owner",
    "LONGHAUL_IAM_OWNER",
    Words(&[("principal", IamOwner::Principal), ("session", IamOwner::Session), ("account", IamOwner::Account)]),
    "Which signed callers share their tasks.",
)
.api(Value("principal"))
.parameter("IamOwner");

/// The role whose users are owners.
pub static IAM_ON_BEHALF_ROLE: Setting<Text> = Setting::new(
    "iam-on-behalf-role",
    "LONGHAUL_IAM_ON_BEHALF_ROLE",
    Text("ID"),
    "The unique id (AROA…) of the one role that says in `iam-on-behalf-header` for which user it calls, such as that of an \
     AgentCore gateway. Each of its users has tasks of their own.",
)
.api(Unset("none"))
.parameter("IamOnBehalfRole");

/// The header in which it names them.
pub static IAM_ON_BEHALF_HEADER: Setting<Text> = Setting::new(
    "iam-on-behalf-header",
    "LONGHAUL_IAM_ON_BEHALF_HEADER",
    Text("NAME"),
    "The header in which that role says for which user it calls. Requests of all others that have it are refused.",
)
.api(Unset("none"))
.parameter("IamOnBehalfHeader");

/// Whether answers are streamed.
pub static RESPONSES: Setting<Words<Responses>> = Setting::new(
    "responses",
    "LONGHAUL_RESPONSES",
    Words(&[("streamed", Responses::Streamed), ("buffered", Responses::Buffered)]),
    "Whether answers are streamed or sent as a whole.",
)
.api(Value("streamed"))
.parameter("Responses");

/// Names of the local server.
pub static ALLOW_HOST: Setting<List> = Setting::new(
    "allow-host",
    "LONGHAUL_ALLOW_HOST",
    List("HOST"),
    "Further names of this server that are accepted in the Host header. Loopback always is.",
)
.local(Unset("none"));

/// Web pages that may call.
pub static ALLOW_ORIGIN: Setting<List> = Setting::new(
    "allow-origin",
    "LONGHAUL_ALLOW_ORIGIN",
    List("ORIGIN"),
    "Web pages that may call, such as https://app.example.com, separated by commas.",
)
.local(Unset("pages on loopback only"))
.api(Unset("none"))
.parameter("AllowOrigins");

/// Scopes to call tools.
pub static SCOPE_CALL: Setting<ScopeList> = Setting::new(
    "scope-call",
    "LONGHAUL_SCOPE_CALL",
    ScopeList,
    "Scopes that a token needs to call tools and to answer their questions, separated by commas.",
)
.local(Unset("none"))
.api(Unset("none"))
.parameter("ScopeCall");

/// Scopes to read tasks.
pub static SCOPE_READ: Setting<ScopeList> = Setting::new(
    "scope-read",
    "LONGHAUL_SCOPE_READ",
    ScopeList,
    "Scopes that a token needs to poll tasks and jobs, fetch results, list tasks and subscribe to them, separated by commas.",
)
.local(Unset("none"))
.api(Unset("none"))
.parameter("ScopeRead");

/// Scopes to cancel.
pub static SCOPE_CANCEL: Setting<ScopeList> = Setting::new(
    "scope-cancel",
    "LONGHAUL_SCOPE_CANCEL",
    ScopeList,
    "Scopes that a token needs to cancel tasks, jobs and calls, separated by commas.",
)
.local(Unset("none"))
.api(Unset("none"))
.parameter("ScopeCancel");

/// Scopes that clients ask for.
pub static SCOPES_ADVERTISED: Setting<ScopeList> = Setting::new(
    "scopes-advertised",
    "LONGHAUL_SCOPES_ADVERTISED",
    ScopeList,
    "Scopes that clients are told to ask for when they log in, separated by commas, in place of those that calling, \
     reading and cancelling need: where the authorization server has other names for them than its tokens, such as \
     https://mcp.example.com/mcp/tools for tools; or where clients should ask for those of tools at once. At most 32.",
)
.local(Unset("those of `scope-call`, `scope-read` and `scope-cancel`"))
.api(Unset("those of `ScopeCall`, `ScopeRead` and `ScopeCancel`"))
.parameter("ScopesAdvertised");

/// How long a request may take.
pub static REQUEST_S_MAX: Setting<Number> =
    Setting::new("request-s-max", "LONGHAUL_REQUEST_S_MAX", Number::seconds(10, 900), "Longest request in seconds.")
        .api(Value("60"))
        .parameter("ApiTimeoutSeconds");

/// How long a connection waits.
pub static LISTEN_MS_MAX: Setting<Number> = Setting::new(
    "listen-ms-max",
    "LONGHAUL_LISTEN_MS_MAX",
    Number::ms(1_000, 3_600_000),
    "Longest stream, longest wait for a result, and longest wait for the answer to a question in an open call, in milliseconds.",
)
.local(Value("300000"))
.api(Value("50000"))
.parameter("ListenMsMax");

/// How long a client without tasks waits.
pub static INLINE_WAIT_S: Setting<Number> = Setting::new(
    "inline-wait-s",
    "LONGHAUL_INLINE_WAIT_S",
    Number::seconds(0, 3_600),
    "How long a client that does not support tasks waits for a tool that may become a task, in seconds, before it gets a \
     job id instead; 0 gives the id at once. `get_job_status` waits as long.",
)
.local(Value("20"))
.api(Value("20"))
.parameter("InlineWaitSeconds");

/// All connections.
pub static CONNECTIONS_MAX: Setting<Number> = Setting::new(
    "connections-max",
    "LONGHAUL_CONNECTIONS_MAX",
    Number::count("connections", 1, 100_000),
    "How many connections may be open. The limit of file descriptors is raised for them if the system allows it; they take \
     at most three quarters of those beyond 64. Above it, one that is silent, idle or slow is closed for each new one; if \
     none is, the new one is refused.",
)
.local(Unset("4096, or as many as there are file descriptors for"));

/// Connections of one address.
pub static CONNECTIONS_PER_ADDRESS_MAX: Setting<Number> = Setting::new(
    "connections-per-address-max",
    "LONGHAUL_CONNECTIONS_PER_ADDRESS_MAX",
    Number::count("connections", 1, 100_000),
    "How many of them may come from one IPv4 address, or from one /64 network of IPv6. Behind a proxy all come from one \
     address: set it to `connections-max` there.",
)
.local(Unset("half of all"));

/// The first byte.
pub static FIRST_BYTE_MS_MAX: Setting<Number> = Setting::new(
    "first-byte-ms-max",
    "LONGHAUL_FIRST_BYTE_MS_MAX",
    Number::ms(100, 600_000),
    "How long a new connection may be silent, in milliseconds.",
)
.local(Value("10000"));

/// The first head.
pub static HEAD_MS_MAX: Setting<Number> = Setting::new(
    "head-ms-max",
    "LONGHAUL_HEAD_MS_MAX",
    Number::ms(100, 600_000),
    "How long the head of a connection's first request may take from its first byte, in milliseconds.",
)
.local(Value("10000"));

/// A body.
pub static BODY_MS_MAX: Setting<Number> = Setting::new(
    "body-ms-max",
    "LONGHAUL_BODY_MS_MAX",
    Number::ms(100, 600_000),
    "How long a body may take, in milliseconds, beside the time that it earns by its bytes.",
)
.local(Value("20000"));

/// The rate of a body.
pub static BODY_BYTES_PER_S_MIN: Setting<Number> = Setting::new(
    "body-bytes-per-s-min",
    "LONGHAUL_BODY_BYTES_PER_S_MIN",
    Number::count("bytes", 1, 1_000_000_000),
    "How many bytes of a body earn it another second.",
)
.local(Value("16384"));

/// Idle connections.
pub static IDLE_MS_MAX: Setting<Number> = Setting::new(
    "idle-ms-max",
    "LONGHAUL_IDLE_MS_MAX",
    Number::ms(100, 3_600_000),
    "How long a connection is kept open after an answer until the head of its next request is complete, in milliseconds. \
     Longer than clients keep theirs, so that none of them sends a request while its connection is being closed.",
)
.local(Value("120000"));

/// Answers that are not read.
pub static UNREAD_MS_MAX: Setting<Number> = Setting::new(
    "unread-ms-max",
    "LONGHAUL_UNREAD_MS_MAX",
    Number::ms(100, 3_600_000),
    "How long a client may read nothing of an answer that is being sent, in milliseconds.",
)
.local(Value("60000"));

/// Pings of HTTP/2.
pub static HTTP2_PING_MS: Setting<Number> = Setting::new(
    "http2-ping-ms",
    "LONGHAUL_HTTP2_PING_MS",
    Number::ms(100, 600_000),
    "How often a client of HTTP/2 is asked whether it is still there, and how long it has for the answer, in milliseconds.",
)
.local(Value("20000"));

/// Legs of one process.
pub static CONCURRENCY: Setting<Number> = Setting::new(
    "concurrency",
    "LONGHAUL_CONCURRENCY",
    Number::count("legs", 1, 1_024),
    "How many legs one worker runs at a time.",
)
.local(Value("32"))
.worker(Value("1"))
.parameter("LegsPerWorker");

/// Legs of one owner.
pub static OWNER_CONCURRENCY: Setting<Number> = Setting::new(
    "owner-concurrency",
    "LONGHAUL_OWNER_CONCURRENCY",
    Number::count("legs", 1, 1_024),
    "How many legs of one owner run at a time, so that other owners find a free one.",
)
.local(Unset("all but an eighth of `concurrency`, and one less at least"))
.worker(Unset("no limit"))
.parameter("LegsPerOwner");

/// The longest leg.
pub static LEG_MS: Setting<Number> = Setting::new(
    "leg-ms",
    "LONGHAUL_LEG_MS",
    Number::ms(10, limits::TTL_MS_CEILING),
    "Longest leg in milliseconds; a task continues in another leg at its next step boundary. On AWS it is the worker's timeout, \
     `WorkerTimeoutSeconds`.",
)
.local(Unset("no limit but the tool's own"))
.lambda(Unset("unknown"));

/// The end of a leg in which no step begins.
pub static LEG_MARGIN_MS: Setting<Number> = Setting::new(
    "leg-margin-ms",
    "LONGHAUL_LEG_MARGIN_MS",
    // A quarter of the longest leg on Lambda.
    Number::ms(100, 225_000).at_most_a_quarter(&LEG_MS),
    "How long before the end of a leg no further step begins, in milliseconds.",
)
.local(Value("5000"))
.lambda(Value("5000"))
.parameter("LegMarginMs");

/// The lease.
pub static LEASE_MS: Setting<Number> = Setting::new(
    "lease-ms",
    "LONGHAUL_LEASE_MS",
    // After a kill the next attempt starts one lease later, and that has to be within a minute. The default on Lambda brings
    // it within 15 seconds: SQS hides a message for whole seconds, rounded up, so it comes back after 14 s, when the lease is
    // over for sure; the rest is for a worker to start.
    Number::ms(1_000, 50_000),
    "How long a worker holds a task without a heartbeat, in milliseconds. After a crash the next attempt starts this much later.",
)
.local(Value("10000"))
.lambda(Value("13500"))
.parameter("LeaseMs");

/// The heartbeat.
pub static HEARTBEAT_MS: Setting<Number> = Setting::new(
    "heartbeat-ms",
    "LONGHAUL_HEARTBEAT_MS",
    // One late heartbeat should not lose a task.
    Number::ms(100, 16_666).at_most_a_third(&LEASE_MS),
    "How often a worker renews its lease and learns of a cancel request, in milliseconds.",
)
.local(Value("1000"))
.lambda(Value("4500"))
.parameter("HeartbeatMs");

/// How often progress is written.
pub static PROGRESS_MS: Setting<Number> = Setting::new(
    "progress-ms",
    "LONGHAUL_PROGRESS_MS",
    Number::ms(100, 60_000),
    "How often a worker writes a task's progress at most, in milliseconds. The first report after a quiet interval of this \
     length is written at once.",
)
.local(Value("500"))
.lambda(Value("2000"))
.parameter("ProgressMs");

/// How long cleaning up may take.
pub static CLEANING_MS: Setting<Number> = Setting::new(
    "cleaning-ms",
    "LONGHAUL_CLEANING_MS",
    Number::ms(1_000, 600_000),
    "How long one try to clean up after a task may take, in milliseconds. A worker that dies in it is followed by another \
     one this much later.",
)
.local(Value("60000"))
.lambda(Value("60000"))
.parameter("CleaningMs");

/// How soon a message is sent again.
pub static RESEND_MS: Setting<Number> = Setting::new(
    "resend-ms",
    "LONGHAUL_RESEND_MS",
    Number::ms(1_000, 600_000),
    "How long a message may go unanswered before a poll sends it again, in milliseconds.",
)
.local(Value("30000"))
.lambda(Value("30000"))
.parameter("ResendMs");

/// Unfinished tasks of one owner.
pub static OPEN_TASKS_MAX: Setting<Number> = Setting::new(
    "open-tasks-max",
    "LONGHAUL_OPEN_TASKS_MAX",
    Number::count("tasks", 1, 1_000_000),
    "How many unfinished tasks one owner may have.",
)
.local(Value("10000"))
.lambda(Value("10000"))
.parameter("OpenTasksMax");

/// Bytes of one owner's arguments and results.
pub static STORED_MB_MAX: Setting<Number> = Setting::new(
    "stored-mb-max",
    "LONGHAUL_STORED_MB_MAX",
    Number::count("MiB", 1, 1_000_000),
    "How many MiB the arguments and results of one owner's tasks may have. Calls above that are refused until tasks expire.",
)
.local(Value("1024"))
.lambda(Value("10240"))
.parameter("StoredMbMax");

/// New tasks of one owner.
pub static NEW_TASKS_PER_MINUTE_MAX: Setting<Number> = Setting::new(
    "new-tasks-per-minute-max",
    "LONGHAUL_NEW_TASKS_PER_MINUTE_MAX",
    Number::count("tasks", 1, 1_000_000),
    "How many tasks one owner may create in a minute. Calls above that are refused, and told when to come again.",
)
.local(Unset("no limit"))
.lambda(Value("10000"))
.parameter("NewTasksPerMinuteMax");

/// Polls that come too early.
pub static POLL_LIMIT: Setting<Words<PollLimit>> = Setting::new(
    "poll-limit",
    "LONGHAUL_POLL_LIMIT",
    Words(&[("off", PollLimit::Off), ("slow", PollLimit::Slow), ("refuse", PollLimit::Refuse)]),
    "What happens to polls that come much faster than a task's poll interval: with `slow` they are answered later, with \
     `refuse` not at all.",
)
.local(Value("off"))
.api(Value("off"))
.parameter("PollLimit");

/// Open streams of one owner.
pub static OWNER_STREAMS_MAX: Setting<Number> = Setting::new(
    "owner-streams-max",
    "LONGHAUL_OWNER_STREAMS_MAX",
    Number::count("streams", 1, 100_000),
    "How many streams, waits for a result and plain calls one owner may have open at a time.",
)
.local(Value("1000"))
.api(Unset("no limit"))
.parameter("OwnerStreamsMax");

/// The namespace of the metrics.
pub static METRICS: Setting<Text> =
    Setting::new("metrics", "LONGHAUL_METRICS", Text("NAMESPACE"), "CloudWatch namespace of the metrics.")
        .lambda(Value("Longhaul"));

/// What tools read of their environment.
pub static TOOL_ENV: Setting<Pairs> = Setting::new(
    "tool-env",
    "LONGHAUL_TOOL_ENV",
    Pairs::new("NAME=VALUE", NAMES_OF_TOOLS, is_name),
    "What tools read from their `ToolEnv`: names and values, as in `BUCKET=reports,REGION=eu-west-1`. Values have no \
     commas, and are no secrets: whoever may look at the functions sees them.",
)
.local(Unset("none"))
.lambda(Unset("none"))
.parameter("ToolEnvironment");

/// Secrets of tools, on a local server.
pub static SECRETS: Setting<Pairs> = Setting::new(
    "secret",
    "LONGHAUL_SECRETS",
    Pairs::new("NAME=SOURCE", NAMES_OF_TOOLS, is_name),
    "Secrets that tools read from their `ToolEnv`: each from a file, as in `DB_PASSWORD=file:PATH`, or from an environment \
     variable, as in `DB_PASSWORD=env:VARIABLE`.",
)
.local(Unset("none"));

/// The names of the secrets of tools, on AWS.
pub static SECRET_NAMES: Setting<List> = Setting::new(
    "secret-names",
    "LONGHAUL_SECRET_NAMES",
    List("NAME"),
    "The names by which tools read the secrets of `secret-arns` from their `ToolEnv`, in the same order, separated by commas.",
)
.worker(Unset("none"))
.parameter("ToolSecretNames");

/// Where the secrets of tools are, on AWS.
pub static SECRET_ARNS: Setting<List> = Setting::new(
    "secret-arns",
    "LONGHAUL_SECRET_ARNS",
    List("ARN"),
    "Secrets of Secrets Manager, and parameters of SSM, that tools read: their ARNs, separated by commas. A worker reads \
     them once, when it starts.",
)
.worker(Unset("none"))
.parameter("ToolSecretArns");

const NAMES_OF_TOOLS: &str = "a name has a letter or `_` first, then letters, digits and `_`, 128 at most";

/// Whether tools may read something by this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && name.len() <= 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Who is told how tasks end.
pub static WEBHOOKS: Setting<Text> = Setting::new(
    "webhooks",
    "LONGHAUL_WEBHOOKS",
    Text("FILE_OR_JSON"),
    "Who is told by webhook that tasks have ended or wait for their clients (`docs/push.md`): JSON, or a file that has it.",
)
.local(Unset("nobody"))
.worker(Unset("nobody"))
.parameter("Webhooks");

/// Whether webhooks may go to this machine.
pub static WEBHOOKS_TO_THIS_MACHINE: Setting<Switch> = Setting::new(
    "webhooks-to-this-machine",
    "LONGHAUL_WEBHOOKS_TO_THIS_MACHINE",
    Switch,
    "Whether `webhooks` may name endpoints on this machine, also without `https`: for development.",
)
.local(Value("false"))
.worker(Value("false"));

/// Which event bus is told how tasks end.
pub static EVENT_BUS: Setting<Text> = Setting::new(
    "event-bus",
    "LONGHAUL_EVENT_BUS",
    Text("NAME"),
    "The event bus of EventBridge that is told that tasks have ended or wait for their clients (`docs/push.md`). A worker \
     function that has it runs no tools: it is invoked with what the table's stream has, and announces that.",
)
.worker(Unset("none"));

/// What to log.
pub static LOG: Setting<Text> =
    Setting::new("log", "LONGHAUL_LOG", Text("FILTER"), "What to log, as filter directives of the Rust crate tracing.")
        .local(Value("info,rmcp=warn"))
        .lambda(Value("info,rmcp=warn"))
        .parameter("LogFilter");

/// Whether to log arguments and results.
pub static LOG_PAYLOADS: Setting<Switch> = Setting::new(
    "log-payloads",
    "LONGHAUL_LOG_PAYLOADS",
    Switch,
    "Whether arguments and results may be in the log, where its filter asks for the debug output of libraries.",
)
.local(Value("false"))
.lambda(Value("false"))
.parameter("LogPayloads");

/// How to log.
pub static LOG_FORMAT: Setting<Words<LogFormat>> = Setting::new(
    "log-format",
    "LONGHAUL_LOG_FORMAT",
    Words(&[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)]),
    "How to log: text for people, JSON for machines; `auto` is text on a terminal.",
)
.local(Value("auto"));

/// Whether there is an audit log.
pub static AUDIT: Setting<Words<Audit>> = Setting::new(
    "audit",
    "LONGHAUL_AUDIT",
    Words(&[("on", Audit::On), ("off", Audit::Off)]),
    "Whether to log who created, answered and cancelled which task, and who was refused. The filter of the log does not \
     change that.",
)
.local(Value("on"))
.lambda(Value("on"))
.parameter("AuditLog");

/// Whether the local server has a console.
pub static CONSOLE: Setting<Words<Console>> = Setting::new(
    "console",
    "LONGHAUL_CONSOLE",
    Words(&[("on", Console::On), ("read-only", Console::ReadOnly), ("off", Console::Off)]),
    "Whether `/console` shows the tasks in a browser (`docs/console.md`): with `read-only` nothing can be called, answered or \
     cancelled there. Only with `auth` `loopback`; for all others there is `longhaul console`.",
)
.local(Unset("`on` with `auth` `loopback`, otherwise `off`"));

/// All of them, in the order of the documentation.
pub static ALL: [&dyn Declared; 65] = [
    &LISTEN,
    &DB,
    &STORE,
    &QUEUE,
    &ROLE,
    &TABLE,
    &QUEUE_URL,
    &DEAD_LETTER_QUEUE_URL,
    &CLASS_QUEUES,
    &AUTH,
    &OAUTH_ISSUER,
    &OAUTH_AUDIENCE,
    &OAUTH_OWNER_CLAIM,
    &OAUTH_CLAIMS,
    &TOKEN_FILE,
    &IAM_OWNER,
    &IAM_ON_BEHALF_ROLE,
    &IAM_ON_BEHALF_HEADER,
    &RESPONSES,
    &ALLOW_HOST,
    &ALLOW_ORIGIN,
    &SCOPE_CALL,
    &SCOPE_READ,
    &SCOPE_CANCEL,
    &SCOPES_ADVERTISED,
    &REQUEST_S_MAX,
    &LISTEN_MS_MAX,
    &INLINE_WAIT_S,
    &CONNECTIONS_MAX,
    &CONNECTIONS_PER_ADDRESS_MAX,
    &FIRST_BYTE_MS_MAX,
    &HEAD_MS_MAX,
    &BODY_MS_MAX,
    &BODY_BYTES_PER_S_MIN,
    &IDLE_MS_MAX,
    &UNREAD_MS_MAX,
    &HTTP2_PING_MS,
    &CONCURRENCY,
    &OWNER_CONCURRENCY,
    &LEG_MS,
    &LEG_MARGIN_MS,
    &DRAIN_MS,
    &LEASE_MS,
    &HEARTBEAT_MS,
    &PROGRESS_MS,
    &CLEANING_MS,
    &RESEND_MS,
    &OPEN_TASKS_MAX,
    &STORED_MB_MAX,
    &NEW_TASKS_PER_MINUTE_MAX,
    &POLL_LIMIT,
    &OWNER_STREAMS_MAX,
    &TOOL_ENV,
    &SECRETS,
    &SECRET_NAMES,
    &SECRET_ARNS,
    &WEBHOOKS,
    &WEBHOOKS_TO_THIS_MACHINE,
    &EVENT_BUS,
    &METRICS,
    &LOG,
    &LOG_PAYLOADS,
    &LOG_FORMAT,
    &AUDIT,
    &CONSOLE,
];
