#!/usr/bin/env python3
"""Checks parameters of template.yaml before anything is created, and says what became of parameters of earlier versions.

  scripts/parameters.py [NAME=VALUE…]     prints them as `sam deploy --parameter-overrides` takes them, one a line

What goes into `Settings` and `Authentication` is checked with the table in docs/settings.md. With a parameter of an
earlier version, or anything that is not allowed, it prints a sentence for each, and ends with an error.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Beside it in the package of the crate, elsewhere in a checkout.
PAGE = next(path for path in (HERE / "settings.txt", HERE.parent / "docs/settings.md") if path.exists())
TEMPLATE = next(path for path in (HERE / "template.yaml", HERE.parent / "template.yaml") if path.exists())
VALUE_BYTES_MAX = 4096
# Lambda takes 4 KiB for all variables of a function; the names and what the stack sets itself take the rest.
VARIABLES_BYTES_MAX = 2000
IN_VARIABLES = ("Settings", "Authentication", "OAuthIssuers", "OAuthAudiences", "AllowOrigins", "SecretArns", "Webhooks")

# What became of parameters of earlier versions.
SETTINGS = {
    "ListenMsMax": "listen-ms-max",
    "InlineWaitSeconds": "inline-wait-s",
    "AttemptsPerOwner": "owner-concurrency",
    "LeaseMs": "lease-ms",
    "HeartbeatMs": "heartbeat-ms",
    "ProgressMs": "progress-ms",
    "CleanupMs": "cleanup-ms",
    "ResendMs": "resend-ms",
    "OpenTasksMax": "open-tasks-max",
    "StoredMbMax": "stored-mb-max",
    "NewTasksPerMinuteMax": "new-tasks-per-minute-max",
    "PollLimit": "poll-limit",
    "OwnerStreamsMax": "owner-streams-max",
    "ToolEnvironment": "tool-env",
    "ToolSecretNames": "secret-names",
    "LogFilter": "log",
    "LogPayloads": "log-payloads",
    "AuditLog": "audit",
    "Diagnostics": "diagnostics",
    "GatewayConfig": "config-json",
}
AUTHENTICATION = {
    "IamOwner": "iam-owner",
    "IamOnBehalfRole": "iam-on-behalf-role",
    "IamOnBehalfHeader": "iam-on-behalf-header",
    "OAuthOwnerClaim": "oauth-owner-claim",
    "OAuthClaims": "oauth-claims",
    "ScopeCall": "scope-call",
    "ScopeRead": "scope-read",
    "ScopeCancel": "scope-cancel",
    "ScopesAdvertised": "scopes-advertised",
}
OTHERS = {
    "Responses": "use Endpoint=function-url-buffered or rest-api-buffered for answers that are sent as a whole",
    "ApiMemoryMb": "use MemoryMb=API,WORKER,CLASS",
    "WorkerMemoryMb": "use MemoryMb=API,WORKER,CLASS",
    "ClassMemoryMb": "use MemoryMb=API,WORKER,CLASS",
    "ClassTimeoutSeconds": "use WorkerTimeoutSeconds, which holds for both",
    "ClassMaximumConcurrency": "use WorkerMaximumConcurrency, which holds for each of the two",
    "WorkerEphemeralStorageMb": "leave it out: a worker has 512 MB below /tmp, one of WorkerClass 10240",
    "ClassEphemeralStorageMb": "leave it out: a worker of WorkerClass has 10240 MB below /tmp",
    "ReserveWorkers": "leave it out: `aws lambda put-function-concurrency` reserves executions for a function",
    "DomainName": "use DomainAndCertificate=NAME,CERTIFICATE_ARN",
    "CertificateArn": "use DomainAndCertificate=NAME,CERTIFICATE_ARN",
    "HostedZoneId": "leave it out: make the record of the domain name yourself, it points to the output DomainTarget",
    "HttpApiRequestsPerSecond": "leave it out: an HTTP API passes on 500 a second, and 1000 at once",
    "HttpApiBurst": "leave it out: an HTTP API passes on 500 a second, and 1000 at once",
    "RestApiRequestsPerSecond": "leave it out: a REST API passes on 500 a second, and 1000 at once",
    "RestApiBurst": "leave it out: a REST API passes on 500 a second, and 1000 at once",
    "RestApiLogs": "leave it out: the log of the API function has a line for each request",
    "ToolSecretArns": "use SecretArns",
    "WebhookSecretArns": "use SecretArns, after those that tools read",
    "WorkerLayers": "use `LAYERS=\"ARN\" make deploy`",
    "WakingStateMachines": "leave it out: the ends of all executions that tasks have started wake them",
    "VpcSubnetIds": "use Vpc=SUBNET,SUBNET/GROUP",
    "VpcSecurityGroupIds": "use Vpc=SUBNET,SUBNET/GROUP",
    "ResendUnclaimed": "leave it out: it is always on",
    "EventBus": "use Push=NAME of the bus",
    "Tracing": "use Extras=traces",
    "BudgetDollars": "leave it out: infra/budget.yaml is a stack of its own with a budget",
    "AlarmTopicArn": "use AlarmEmail=ADDRESS, and subscribe others to the topic in the output AlarmTopic",
    "SlowAnswersMs": "leave it out: the alarm rings above 25 seconds",
    "DeniedLogInsInFiveMinutes": "leave it out: the alarm rings above 100",
    "TableReadUnitsMax": "leave it out: `aws dynamodb update-table --on-demand-throughput` limits the table",
    "TableWriteUnitsMax": "leave it out: `aws dynamodb update-table --on-demand-throughput` limits the table",
    "TableDeletionProtection": "leave it out: `aws dynamodb update-table --deletion-protection-enabled` protects the table",
}


def declared():
    """The settings in the page that have a parameter: what is allowed, and the parameter, by their names."""
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| `") or len(cells) != 6 or not (parameter := cells[4].strip("` ")):
            continue
        flag = re.match(r"`--([a-z0-9-]+)`", cells[0])
        variable = re.search(r"`[A-Z]+_([A-Z0-9_]+)`", cells[0])
        name = flag[1] if flag else variable[1].lower().replace("_", "-")
        rows[name] = (cells[1], parameter)
    return rows


def refusal(value, allowed):
    """What is wrong with a value, or nothing."""
    span = re.match(r"(\d+) to (\d+) ", allowed)
    if span and not (re.fullmatch(r"\d{1,18}", value) and int(span[1]) <= int(value) <= int(span[2])):
        return f"is `{value}`: it must be {allowed}"
    words = re.findall(r"`([a-z-]+)`", allowed)
    if re.fullmatch(r"`[a-z-]+`(, `[a-z-]+`)* or `[a-z-]+`", allowed) and value not in words:
        return f"is `{value}`: it must be {allowed}"
    if allowed.startswith("`NAME=VALUE`") and not all("=" in pair for pair in value.split(",")):
        return f"is `{value}`: it must be {allowed}"
    return None


def reserved_names(setting, value):
    """The names in `tool-env` that a function cannot have as variables."""
    names = [pair.partition("=")[0] for pair in value.split(",")] if setting == "tool-env" else []
    return [name for name in names if re.match(r"AWS_|LAMBDA_|LONGHAUL_|_|(LD_LIBRARY_PATH|LD_PRELOAD|PATH|TZ)$", name)]


def entries(bundle, text):
    """What a bundle carries: names and values, and what is wrong with it as a whole."""
    if bundle == "Settings":
        return [entry.partition("=")[::2] for entry in text.split()], None
    try:
        pairs = json.loads(text, object_pairs_hook=list) if text.strip() else []
    except ValueError as error:
        return [], f"{bundle} is not readable as JSON: {error}"
    is_object = text.strip().startswith("{") or not text.strip()
    return (pairs, None) if is_object else ([], f"{bundle} is not a JSON object, such as {{\"scope-call\": \"tools\"}}")


def faults_of(bundle, text):
    """A sentence for each entry of a bundle that cannot be used."""
    table = declared()
    carried, wrong = entries(bundle, text)
    if wrong:
        yield wrong
    seen = {}
    for name, value in carried:
        allowed, parameter = table.get(name, ("", None))
        texts = value if isinstance(value, list) else [value]
        if parameter is None:
            yield f"`{name}` in {bundle} cannot be set there: docs/settings.md lists the names"
        elif parameter != bundle or name == bundle.lower():
            yield f"`{name}` in {bundle} belongs to the parameter {parameter}"
        elif name in seen:
            yield f"`{name}` in {bundle} is there twice: leave one of them out"
        elif not texts or not all(isinstance(text, str) and text for text in texts):
            yield f"`{name}` in {bundle} has no value: it must be {allowed}"
        elif reserved := reserved_names(name, ",".join(texts)):
            yield f"`{name}` in {bundle} sets `{reserved[0]}`, which Lambda or Longhaul reserves: take another name"
        elif problem := refusal(",".join(texts), allowed):
            yield f"`{name}` in {bundle} {problem}"
        seen[name] = ",".join(text for text in texts if isinstance(text, str))
    lease, heartbeat = int(seen.get("lease-ms") or 13500), seen.get("heartbeat-ms", "0")
    if heartbeat.isdigit() and int(heartbeat) * 3 > lease:
        yield f"`heartbeat-ms` in Settings is `{heartbeat}`: it must be at most a third of `lease-ms`, which is {lease}"


def faults(parameters):
    """A sentence for each parameter that cannot be used."""
    known = re.findall(r"^        Parameters: \[(.*)\]$", TEMPLATE.read_text(encoding="utf-8"), re.MULTILINE)
    known = {name for names in known for name in names.split(", ")}
    for name, value in parameters.items():
        if name in SETTINGS:
            yield f"{name} is not a parameter any more: use Settings=\"{SETTINGS[name]}={value}\", with all others in it"
        elif name in AUTHENTICATION:
            member = json.dumps({AUTHENTICATION[name]: value}, ensure_ascii=False)
            yield f"{name} is not a parameter any more: use Authentication='{member}', with all others in it"
        elif name in OTHERS:
            yield f"{name} is not a parameter any more: {OTHERS[name]}"
        elif name not in known:
            yield f"{name} is not a parameter of template.yaml"
        elif name in ("Settings", "Authentication"):
            yield from faults_of(name, value)
        if name == "ExistingTableName" and value and not re.fullmatch(r"[A-Za-z0-9_.-]+/stream/[0-9TZ:.-]+", value):
            yield f"{name} is `{value}`: take what `scripts/existing_table.py prepare {value.split('/')[0]}` prints"
        if len(value.encode()) > VALUE_BYTES_MAX:
            yield f"{name} has {len(value.encode())} bytes: CloudFormation takes {VALUE_BYTES_MAX} at most"
    names = re.search(r"(?:^| )secret-names=(\S+)", parameters.get("Settings", ""))
    arns = [arn for arn in parameters.get("SecretArns", "").split(",") if arn]
    if names and "SecretArns" in parameters and len(names[1].split(",")) > len(arns):
        yield f"`secret-names` in Settings has more names than SecretArns has ARNs, which are {len(arns)}"
    variables = sum(len(parameters.get(name, "").encode()) for name in IN_VARIABLES)
    if variables > VARIABLES_BYTES_MAX:
        yield (
            f"{', '.join(IN_VARIABLES)} have {variables} bytes together: {VARIABLES_BYTES_MAX} at most, since Lambda "
            "takes 4 KiB for all variables of a function"
        )


def checked(arguments):
    """The parameters by their names. Ends the program if one of them cannot be used."""
    parameters = {}
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if not separator or not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
            sys.exit(f"parameters: {argument} is not NAME=VALUE")
        if name in parameters:
            sys.exit(f"parameters: {name} is there twice: leave one of them out")
        parameters[name] = value
    wrong = list(faults(parameters))
    if wrong:
        sys.exit("\n".join(f"parameters: {fault}" for fault in wrong))
    return parameters


def as_sam_takes(value):
    """A value as the SAM CLI takes it: with spaces, in quotation marks, of which it knows no escaped backslash."""
    if re.fullmatch('[^ "]+', value):
        return value
    value = value.replace("\\\\", "\\u005c").replace('\\"', "\\u0022") if "{" in value else value
    return '"' + value.replace('"', '\\"') + '"'


if __name__ == "__main__":
    for parameter, text in checked(sys.argv[1:]).items():
        print(f"{parameter}={as_sam_takes(text)}")
