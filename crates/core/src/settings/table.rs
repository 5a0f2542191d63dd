//! Every setting of Longhaul. To add one, declare it here, and read it where it is needed. The tests then require its
//! line in `docs/settings.md` and, if a function reads it, in `template.yaml`.

#![expect(rustdoc::bare_urls, reason = "what a setting is for is also read outside of these pages")]

use crate::ToolClass;
use crate::limits::{self, PollLimit};
use Preset::{Required, Unset, Value};

use crate::settings::{
    Address, List, Number, Pairs, Path, Preset, Queue, ScopeList, Store, Switch, Text, Url, Words, declare,
};

/// How callers are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// By where they are: only programs on the same machine reach the server, and all of them are one user. Only the
    /// local server has this.
    Loopback,
    /// By the token that they send, among those of a list.
    Bearer,
    /// By the signature that AWS checked before it invoked the function.
    Iam,
    /// By the token that the authorizer of an HTTP API checked before it invoked the function.
    Gateway,
    /// By an access token, which this server verifies itself.
    Oauth,
    /// Not at all: all callers are one owner, and anyone who knows a task's id can see the task. Names that callers
    /// choose are valid within their session only.
    Anonymous,
}

/// Which part of a signed caller's identity is the owner of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IamOwner {
    /// The user or the role. All sessions of a role are one owner. A caller that assumes the role chooses the name of
    /// its session, so the name proves nothing. And a client finds its tasks again after its credentials were renewed.
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

/// The work of a process that shares its store with others.
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

const NAMES_OF_TOOLS: &str = "a name has a letter or `_` first, then letters, digits and `_`, 128 at most";

/// Whether tools may read something by this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && name.len() <= 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

declare! {
    ALL of "LONGHAUL_";

    LISTEN: Address = Address, local Value("127.0.0.1:8080") =>
        "Address to listen on. Without `auth` it has to be loopback.";
    STDIO: Switch = Switch, local Value("false") =>
        "Serves one client on standard input and output instead of HTTP, and ends with it. Without `db`, tasks are in \
         a file of the folder in which the process was started (`docs/stdio.md`).";
    DB: Path = Path("FILE"), local Value("longhaul.db") =>
        "File for tasks and their queue; created if missing. `:memory:` keeps nothing after the process ends.";
    STORE: Store = Store, local Unset("`sqlite:` and the file of `db`") =>
        "Where tasks are stored. `sqlite:FILE` is the same as `db`. With `dynamodb:TABLE`, several processes share \
         them (`docs/containers.md`), and the defaults of `lease-ms`, `heartbeat-ms`, `progress-ms`, `stored-mb-max` \
         and `new-tasks-per-minute-max` are those of Lambda.";
    QUEUE: Queue = Queue, local Unset("in the file of the tasks") =>
        "Where work is queued with `store` `dynamodb:TABLE`. The queue's own redrive policy says where its dead \
         letters are.";
    ROLE: Words<Role> = Words(&[("all", Role::All), ("http", Role::Http), ("worker", Role::Worker)]),
        local Value("all") =>
        "The work of this process: with `http` it answers requests and runs no tasks. With `worker` it runs tasks, \
         and answers only `/healthz` and `/readyz`. Both need a `store` that processes share.";
    SETTINGS: Text = Text("NAME=VALUE…"), lambda Unset("none"), parameter "Settings" =>
        "All settings of this table whose parameter is `Settings`: NAME=VALUE, separated by spaces, such as \
         `lease-ms=30000 poll-limit=slow`. Values have no spaces.";
    AUTHENTICATION: Text = Text("JSON"), api Unset("none"), parameter "Authentication" =>
        "All settings of this table whose parameter is `Authentication`: JSON, such as `{\"scope-call\": \"tools\"}`; \
         several strings are a list.";
    TABLE: Text = Text("NAME"), lambda Required => "DynamoDB table for tasks.";
    QUEUE_URL: Url = Url, lambda Required => "SQS queue for work.";
    DEAD_LETTER_QUEUE_URL: Url = Url, worker Required => "SQS queue for messages that were delivered too often.";
    CLASS_QUEUES: Pairs = Pairs::new("CLASS=URL",
        "a class has a letter first, then letters, digits and hyphens, all lower case, 32 at most",
        |name| ToolClass::parse(name).is_some()), lambda Unset("none") =>
        "SQS queues for the work of tools that `TaskPolicy::class` puts into a class. All others share `queue-url`.";
    AUTH: Words<Callers> = Words(&[("loopback", Callers::Loopback), ("bearer", Callers::Bearer), ("iam", Callers::Iam),
        ("gateway", Callers::Gateway), ("oauth", Callers::Oauth), ("anonymous", Callers::Anonymous)]),
        local Value("loopback"), api Value("iam"), parameter "AuthMode" =>
        "The callers that may call.";
    OAUTH_ISSUER: List = List("URL"), with_variable "LONGHAUL_OAUTH_ISSUERS", local Unset("none"), api Unset("none"),
        parameter "OAuthIssuers" =>
        "Authorization servers whose access tokens `auth` `oauth` accepts, as their tokens name them in `iss`: https, \
         or http on this machine.";
    OAUTH_AUDIENCE: List = List("URI"), with_variable "LONGHAUL_OAUTH_AUDIENCES", local Unset("none"),
        api Unset("`/mcp` at the domain that was called"), parameter "OAuthAudiences" =>
        "The URL of the MCP endpoint as its callers know it, which access tokens have to name in `aud`. Further names \
         are those that an issuer has for it.";
    OAUTH_CLIENT_ID: List = List("ID"), with_variable "LONGHAUL_OAUTH_CLIENT_IDS", local Unset("none"),
        api Unset("none"), parameter "Authentication" =>
        "Clients whose access tokens are accepted without `aud`: Amazon Cognito writes the client into `client_id`, \
         and no audience.";
    OAUTH_OWNER_CLAIM: Text = Text("CLAIM"), local Unset("each subject has its own tasks"),
        api Unset("each subject has its own tasks"), parameter "Authentication" =>
        "The claim of an access token whose value shares its tasks, such as a team or a tenant. Tokens without \
         exactly one value are refused; they need no `sub`.";
    OAUTH_CLAIMS: List = List("CLAIM"), local Unset("none"), api Unset("none"), parameter "Authentication" =>
        "Claims of an access token that tools may see, separated by commas; at most 4 KiB together.";
    TOKEN_FILE: Path = Path("FILE"), local Unset("none") =>
        "File with a line `NAME TOKEN [owner=OWNER] [expires=TIME] [SCOPE…]` for each token, for `auth` `bearer`; \
         `longhaul token` writes it. Only its owner may read it. It is read again every second.";
    TOKEN_PARAMETER: Text = Text("NAME"), api Unset("none") =>
        "Parameter of SSM (SecureString) with the same lines, for `auth` `bearer`. It is read again every 30 seconds.";
    IAM_OWNER: Words<IamOwner> = Words(&[("principal", IamOwner::Principal), ("session", IamOwner::Session),
        ("account", IamOwner::Account)]), api Value("principal"), parameter "Authentication" =>
        "Which signed callers share their tasks.";
    IAM_ON_BEHALF_ROLE: Text = Text("ID"), api Unset("none"), parameter "Authentication" =>
        "The unique id (AROA…) of the one role that names its user in `iam-on-behalf-header`, such as that of an \
         AgentCore gateway. Each of its users has their own tasks.";
    IAM_ON_BEHALF_HEADER: Text = Text("NAME"), api Unset("none"), parameter "Authentication" =>
        "The header in which that role names its user. Other callers that send it are refused.";
    RESPONSES: Words<Responses> = Words(&[("streamed", Responses::Streamed), ("buffered", Responses::Buffered)]),
        api Value("streamed") =>
        "Whether answers are streamed or sent as a whole. The template sets it, by `Endpoint`.";
    ALLOW_HOST: List = List("HOST"), local Unset("none") =>
        "Further names of this server that are accepted in the Host header. Loopback always is.";
    ALLOW_ORIGIN: List = List("ORIGIN"), local Unset("pages on loopback only"), api Unset("none"),
        parameter "AllowOrigins" =>
        "Origins of web pages that may call, such as https://app.example.com or chrome-extension://ID, separated by \
         commas.";
    SCOPE_CALL: ScopeList = ScopeList, local Unset("none"), api Unset("none"), parameter "Authentication" =>
        "Scopes that a token needs to call tools and to answer their questions, separated by commas.";
    SCOPE_READ: ScopeList = ScopeList, local Unset("none"), api Unset("none"), parameter "Authentication" =>
        "Scopes that a token needs to poll tasks and jobs, fetch results, list tasks and subscribe to them, separated \
         by commas.";
    SCOPE_CANCEL: ScopeList = ScopeList, local Unset("none"), api Unset("none"), parameter "Authentication" =>
        "Scopes that a token needs to cancel tasks, jobs and calls, separated by commas.";
    SCOPE_OPERATOR: ScopeList = ScopeList, local Unset("no token sees other owners' tasks") =>
        "Scopes of the tokens of operators, separated by commas. With all of them, a caller sees the tasks of all \
         owners, and may cancel them. Without this setting, no token does.";
    SCOPES_ADVERTISED: ScopeList = ScopeList, local Unset("those of `scope-call`, `scope-read` and `scope-cancel`"),
        api Unset("those of `scope-call`, `scope-read` and `scope-cancel`"), parameter "Authentication" =>
        "Scopes that clients should request when they sign in, separated by commas. They replace those of calling, \
         reading and cancelling. Use it if the authorization server has other names for them than its tokens, such as \
         https://mcp.example.com/mcp/tools for tools. Or use it if clients should request the scopes of tools at \
         once. At most 32.";
    REQUEST_S_MAX: Number = Number::seconds(10, 900), api Value("60"), parameter "ApiTimeoutSeconds" =>
        "Longest request in seconds.";
    LISTEN_MS_MAX: Number = Number::ms(1_000, 3_600_000), local Value("300000"), api Value("50000"),
        parameter "Settings" =>
        "Longest stream, longest wait for a result, and longest wait for the answer to a question in an open call, in \
         milliseconds.";
    INLINE_WAIT_S: Number = Number::seconds(0, 3_600), local Value("20"), api Value("20"),
        parameter "Settings" =>
        "How long a call of a client without tasks waits for its result, in seconds. Then the client gets a job id; \
         with 0 at once. `get_job_status` waits as long.";
    CONNECTIONS_MAX: Number = Number::count("connections", 1, 100_000),
        local Unset("4096, or as many as there are file descriptors for") =>
        "How many connections may be open. The limit of file descriptors is raised for them if the system allows it; \
         they take at most three quarters of those beyond 64. Above it, one that is silent, idle or slow is closed \
         for each new one; if none is, the new one is refused.";
    CONNECTIONS_PER_ADDRESS_MAX: Number = Number::count("connections", 1, 100_000), local Unset("half of all") =>
        "How many of them may come from one IPv4 address, or from one /64 network of IPv6. Behind a proxy all come \
         from one address: set it to `connections-max` there.";
    IDLE_MS_MAX: Number = Number::ms(100, 3_600_000), local Value("120000") =>
        "How long a connection is kept open after an answer until the head of its next request is complete, in \
         milliseconds. Longer than clients keep theirs, so that none of them sends a request while its connection is \
         being closed.";
    CONCURRENCY: Number = Number::count("attempts", 1, 1_024), local Value("32"), worker Value("1"),
        parameter "AttemptsPerWorker" =>
        "How many attempts one worker runs at a time.";
    OWNER_CONCURRENCY: Number = Number::count("attempts", 1, 1_024),
        local Unset("all but an eighth of `concurrency`, and one less at least"), worker Unset("no limit"),
        parameter "Settings" =>
        "How many attempts of one owner run at a time, so that other owners find a free one.";
    ATTEMPT_MS: Number = Number::ms(10, limits::TTL_MS_CEILING), local Unset("no limit but the tool's own"),
        lambda Unset("unknown") =>
        "Longest attempt in milliseconds; a task continues in another attempt at its next step boundary. On AWS it is \
         the worker's timeout, `WorkerTimeoutSeconds`.";
    DRAIN_MS: Number = Number::ms(0, 3_600_000), local Unset("2000 with `sqlite`, 20000 with `dynamodb`") =>
        "How long running attempts have to reach a step boundary after SIGTERM or Ctrl-C, in milliseconds. Then they \
         are given back where they are, and another process, or the next one, continues them.";
    // After a kill the next attempt starts one lease later, and that has to be within a minute. The default on Lambda
    // brings it within 15 seconds: SQS hides a message for whole seconds, rounded up, so it comes back after 14 s, when
    // the lease is over for sure; the rest is for a worker to start.
    LEASE_MS: Number = Number::ms(1_000, 50_000), local Value("10000"), lambda Value("13500"), parameter "Settings" =>
        "How long a worker holds a task without a heartbeat, in milliseconds. After a crash the next attempt starts \
         this much later.";
    // One late heartbeat should not lose a task.
    HEARTBEAT_MS: Number = Number::ms(100, 16_666).at_most_a_third(&LEASE_MS), local Value("1000"),
        lambda Value("4500"), parameter "Settings" =>
        "How often a worker renews its lease and learns of a cancel request, in milliseconds.";
    PROGRESS_MS: Number = Number::ms(100, 60_000), local Value("500"), lambda Value("2000"), parameter "Settings" =>
        "The shortest time between two writes of a task's progress, in milliseconds. The first report after a quiet \
         interval of this length is written at once.";
    CLEANUP_MS: Number = Number::ms(1_000, 600_000), local Value("60000"), lambda Value("60000"),
        parameter "Settings" =>
        "How long one try of a cleanup may take, in milliseconds. If its worker dies, the next try begins this much \
         later.";
    RESEND_MS: Number = Number::ms(1_000, 600_000), local Value("30000"), lambda Value("30000"), parameter "Settings" =>
        "How long a message may go unanswered before a poll sends it again, in milliseconds.";
    OPEN_TASKS_MAX: Number = Number::count("tasks", 1, 1_000_000), local Value("10000"), lambda Value("10000"),
        parameter "Settings" =>
        "How many unfinished tasks one owner may have.";
    STORED_MB_MAX: Number = Number::count("MiB", 1, 1_000_000), local Value("1024"), lambda Value("10240"),
        parameter "Settings" =>
        "How many MiB the arguments and results of one owner's tasks may have. Calls above that are refused until \
         tasks expire.";
    NEW_TASKS_PER_MINUTE_MAX: Number = Number::count("tasks", 1, 1_000_000), local Unset("no limit"),
        lambda Value("10000"), parameter "Settings" =>
        "How many tasks one owner may create in a minute. Calls above that are refused, with the time to retry.";
    POLL_LIMIT: Words<PollLimit> = Words(&[("off", PollLimit::Off), ("slow", PollLimit::Slow),
        ("refuse", PollLimit::Refuse)]), local Value("off"), api Value("off"), parameter "Settings" =>
        "The treatment of polls that are much faster than a task's poll interval: with `slow` they are answered \
         later, with `refuse` they get an error.";
    OWNER_STREAMS_MAX: Number = Number::count("streams", 1, 100_000), local Value("1000"), api Unset("no limit"),
        parameter "Settings" =>
        "How many streams, waits for a result and plain calls one owner may have open at a time.";
    TOOL_ENV: Pairs = Pairs::new("NAME=VALUE", NAMES_OF_TOOLS, is_name), local Unset("none"), lambda Unset("none"),
        parameter "Settings" =>
        "Names and values that tools read from their `ToolEnv`, and in functions also from plain environment \
         variables, as in `BUCKET=reports,REGION=eu-west-1`. Values have no commas. They are not secret: every user \
         who may read the configuration of the functions sees them.";
    SECRET: Pairs = Pairs::new("NAME=SOURCE", NAMES_OF_TOOLS, is_name), with_variable "LONGHAUL_SECRETS",
        local Unset("none") =>
        "Secrets that tools read from their `ToolEnv`: each from a file, as in `DB_PASSWORD=file:PATH`, or from an \
         environment variable, as in `DB_PASSWORD=env:VARIABLE`.";
    SECRET_NAMES: List = List("NAME"), worker Unset("none"), parameter "Settings" =>
        "The names by which tools read the first secrets of `secret-arns` from their `ToolEnv`, in the same order, \
         separated by commas.";
    SECRET_ARNS: List = List("ARN"), worker Unset("none"), parameter "SecretArns" =>
        "Secrets of Secrets Manager, and parameters of SSM, that workers may read: their ARNs, separated by commas. \
         First those of tools, in the order of `secret-names`; then those that sign webhooks.";
    WEBHOOKS: Text = Text("FILE_OR_JSON"), local Unset("none"), worker Unset("none"), parameter "Webhooks" =>
        "The endpoints of webhooks (`docs/push.md`): JSON, or a file that has it.";
    WEBHOOKS_TO_THIS_MACHINE: Switch = Switch, local Value("false"), worker Value("false") =>
        "Whether `webhooks` may name endpoints on this machine, even without `https`: for development.";
    EVENT_BUS: Text = Text("NAME"), worker Unset("none") =>
        "The event bus of EventBridge for notifications (`docs/push.md`). A worker function that has it runs no \
         tools: it publishes the changes in the table's stream.";
    NOT_PUBLISHED_QUEUE_URL: Url = Url, worker Unset("none") =>
        "The URL of the queue for changes that a function with `event-bus` could not publish. The function publishes \
         no change from before the queue was made.";
    METRICS: Text = Text("NAMESPACE"), lambda Value("Longhaul") => "CloudWatch namespace of the metrics.";
    METRICS_LISTEN: Address = Address, local Unset("no metrics") =>
        "Address on which Prometheus reads the metrics of the process, at `/metrics` (`docs/monitoring.md`). It \
         answers everyone who reaches it.";
    OTLP_ENDPOINT: Url = Url, with_variable "OTEL_EXPORTER_OTLP_ENDPOINT", local Unset("no traces"),
        lambda Unset("no traces"), parameter "Settings" =>
        "The OpenTelemetry collector that gets spans and metrics by OTLP over HTTP (`docs/monitoring.md`), if the \
         program was built with the feature `otel`.";
    LOG: Text = Text("FILTER"), local Value("info,rmcp=warn"), lambda Value("info,rmcp=warn"), parameter "Settings" =>
        "The filter of the log, as directives of the Rust crate tracing.";
    LOG_PAYLOADS: Switch = Switch, local Value("false"), lambda Value("false"), parameter "Settings" =>
        "Whether arguments and results may be in the log, where its filter asks for the debug output of libraries.";
    LOG_FORMAT: Words<LogFormat> = Words(&[("auto", LogFormat::Auto), ("text", LogFormat::Text),
        ("json", LogFormat::Json)]), local Value("auto") =>
        "How to log: text for people, JSON for machines; `auto` is text on a terminal.";
    AUDIT: Words<Audit> = Words(&[("on", Audit::On), ("off", Audit::Off)]), local Value("on"), lambda Value("on"),
        parameter "Settings" =>
        "Whether to log the callers that create, answer and cancel tasks, and refused callers. The filter of the log \
         does not change that.";
    CONSOLE: Words<Console> = Words(&[("on", Console::On), ("read-only", Console::ReadOnly), ("off", Console::Off)]),
        local Unset("`on` with `auth` `loopback`, otherwise `off`") =>
        "Whether `/console` shows the tasks in a browser (`docs/console.md`): with `read-only` nothing can be called, \
         answered or cancelled there. Only with `auth` `loopback`; for all others there is `longhaul console`.";
}
