"""Prepares and completes what `cargo lambda deploy` deploys. Called by scripts/cargo-lambda.sh, which documents it."""

import os
import re
import sys
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "infra/cargo-lambda.yaml"
STACK = os.environ.get("STACK", "longhaul")
FOLDER = Path(os.environ.get("LAMBDA_DIR", "target/lambda"))
# Seconds, MiB, and whether clients reach the function.
FUNCTIONS = {"api": (60, 512, True), "worker": (900, 512, False)}
MESSAGES_OF_DEAD_LETTERS = 10


def client(service):
    return boto3.client(service, region_name=os.environ.get("AWS_REGION"))


def fail(sentence):
    sys.exit(f"cargo-lambda: {sentence}")


def settings_of(arguments):
    settings = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            fail(f"`{argument}` is not NAME=VALUE")
        if "\n" in value:
            fail(f"{name} has two lines, which a file of variables cannot have")
        settings[name] = value
    if not settings.get("LONGHAUL_AUTH"):
        fail("say who may call: LONGHAUL_AUTH=anonymous for everyone, or LONGHAUL_AUTH=oauth and LONGHAUL_OAUTH_ISSUERS=…")
    if settings["LONGHAUL_AUTH"] == "iam":
        fail("cargo-lambda makes function URLs without signatures: LONGHAUL_AUTH=iam needs template.yaml")
    return settings


def deployed():
    """Creates or updates the stack, and returns its outputs."""
    cloudformation = client("cloudformation")
    request = {"StackName": STACK, "TemplateBody": TEMPLATE.read_text(), "Capabilities": ["CAPABILITY_IAM"]}
    try:
        cloudformation.create_stack(**request)
        waiter = cloudformation.get_waiter("stack_create_complete")
    except cloudformation.exceptions.AlreadyExistsException:
        try:
            cloudformation.update_stack(**request)
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise
        waiter = cloudformation.get_waiter("stack_update_complete")
        if "UPDATE" not in description(cloudformation)["StackStatus"]:
            waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName=STACK, WaiterConfig={"Delay": 2, "MaxAttempts": 300})
    return outputs()


def description(cloudformation):
    return cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]


def outputs():
    return {output["OutputKey"]: output["OutputValue"] for output in description(client("cloudformation"))["Outputs"]}


def prepare(*arguments):
    settings = settings_of(arguments)
    found = deployed()
    common = {
        "LONGHAUL_TABLE": found["Table"],
        "LONGHAUL_QUEUE_URL": found["QueueUrl"],
        "LONGHAUL_METRICS": f"Longhaul/{STACK}",
    }
    own = {
        # The function URLs that cargo-lambda makes send answers as a whole, and what arrives as a whole should not be long.
        "api": {"LONGHAUL_RESPONSES": "buffered", "LONGHAUL_LISTEN_MS_MAX": "20000"},
        "worker": {"LONGHAUL_DEAD_LETTER_QUEUE_URL": found["DeadLetterQueueUrl"]},
    }
    roles = {"api": found["ApiRoleArn"], "worker": found["WorkerRoleArn"]}
    FOLDER.mkdir(parents=True, exist_ok=True)
    print("The table, the queues and the roles are there. Deploy both functions, and attach the queues:\n")
    for function, (timeout_s, memory_mb, is_reached) in FUNCTIONS.items():
        file = FOLDER / f"{STACK}-{function}.env"
        role = FOLDER / f"{STACK}-{function}.role"
        variables = common | own[function] | settings
        file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        role.write_text(roles[function] + "\n")
        url = "--enable-function-url " if is_reached else ""
        print(
            f"cargo lambda deploy {STACK}-{function} --binary-name {function} {url}--timeout {timeout_s} "
            f"--memory {memory_mb} --env-file {file} --role $(cat {role})"
        )
    print("scripts/cargo-lambda.sh attach")


def attach():
    functions, found, worker = client("lambda"), outputs(), f"{STACK}-worker"
    attached = functions.list_event_source_mappings(FunctionName=worker)["EventSourceMappings"]
    arns = {mapping["EventSourceArn"] for mapping in attached}
    for arn, messages in ((found["QueueArn"], 1), (found["DeadLetterQueueArn"], MESSAGES_OF_DEAD_LETTERS)):
        if arn not in arns:
            functions.create_event_source_mapping(
                FunctionName=worker, EventSourceArn=arn, BatchSize=messages, FunctionResponseTypes=["ReportBatchItemFailures"]
            )
        print(f"{arn} calls {worker}")
    # A task of many attempts sends itself many messages, which Lambda would take for a loop.
    functions.put_function_recursion_config(FunctionName=worker, RecursiveLoop="Allow")


def url():
    found = client("lambda").get_function_url_config(FunctionName=f"{STACK}-api")["FunctionUrl"]
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        # An emulator serves no names.
        found = f"{endpoint}/_aws/lambda-url/{re.match(r'https?://([^.]+)', found)[1]}/"
    print(found.rstrip("/") + "/mcp")


def remove():
    functions, cloudformation = client("lambda"), client("cloudformation")
    for function in FUNCTIONS:
        name = f"{STACK}-{function}"
        try:
            for mapping in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
                functions.delete_event_source_mapping(UUID=mapping["UUID"])
            functions.delete_function(FunctionName=name)
        except functions.exceptions.ResourceNotFoundException:
            pass
    cloudformation.delete_stack(StackName=STACK)


def main(verb, *arguments):
    verbs = {"prepare": prepare, "attach": attach, "url": url, "remove": remove}
    try:
        verbs[verb](*arguments)
    except (BotoCoreError, ClientError, WaiterError) as error:
        fail(error)


main(*sys.argv[1:])
