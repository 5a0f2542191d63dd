"""Deploys template.yaml to the AWS emulator. Called by scripts/local-aws.sh, which documents it."""

import json
import os
import re
import sys
import time
from pathlib import Path

import boto3
from botocore.config import Config

from pack_lambda import zipped
from parameters import checked

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "template.yaml"
BUCKET = "local-aws"
FUNCTIONS = ("api", "worker")
PARAMETERS = {
    "Architecture": "arm64" if os.uname().machine in ("aarch64", "arm64") else "x86_64",
    "AuthMode": "anonymous",
    "Endpoint": "function-url-buffered",
}
DEPLOYED_S_MAX = 120


def client(service):
    retries = {"max_attempts": 3, "mode": "standard"}
    return boto3.client(service, region_name=os.environ["AWS_REGION"], config=Config(retries=retries, s3={"addressing_style": "path"}))


def upload(programs):
    s3 = client("s3")
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET)
    for name, program in zip(FUNCTIONS, programs, strict=True):
        s3.put_object(Bucket=BUCKET, Key=f"{name}.zip", Body=zipped(Path(program).read_bytes(), level=1))


# The resources of template.yaml that make a queue refuse requests without TLS.
QUEUE_POLICY = re.compile(r"^  \w+:\n    Type: AWS::SQS::QueuePolicy\n(?:(?:    .*)?\n)+?(?=  \S)", re.MULTILINE)


# What invokes the dead-letter function with each change: the emulator would read a stream for each of many stacks.
STREAM_MAPPING = re.compile(r"^  UnclaimedTasks:\n(?:(?:    .*)?\n)+?(?=  \S)", re.MULTILINE)


def packaged_template(demands_tls, resends_unclaimed):
    """Does what `sam package` does: replaces the paths of the functions' code by its location in S3."""
    template = TEMPLATE.read_text()
    if not resends_unclaimed:
        template = STREAM_MAPPING.sub("", template)
    if not demands_tls:
        template, removed = QUEUE_POLICY.subn("", template)
        if not removed:
            raise SystemExit(f"local-aws: {TEMPLATE} has no queue policies to leave out")
    packaged, replaced = re.subn(
        r"CodeUri: target/lambda/(\w+)/bootstrap\.zip", rf"CodeUri: s3://{BUCKET}/\1.zip", template
    )
    if not replaced:
        raise SystemExit(f"local-aws: {TEMPLATE} has no CodeUri to replace")
    return packaged


def joined(settings):
    """The same with each parameter once: Settings has what all of that name have, of others the last one holds."""
    carried = [setting.removeprefix("Settings=") for setting in settings if setting.startswith("Settings=")]
    others = {setting.partition("=")[0]: setting for setting in settings if not setting.startswith("Settings=")}
    return [*others.values(), *([f"Settings={' '.join(carried)}"] if carried else [])]


def deploy(stack, settings, demands_tls, resends_unclaimed):
    template = packaged_template(demands_tls, resends_unclaimed)
    parameters = PARAMETERS | checked(joined(settings))
    cloudformation = client("cloudformation")
    # As `sam deploy` does it: a template in the request itself may have 51,200 bytes only.
    client("s3").put_object(Bucket=BUCKET, Key=f"{stack}.yaml", Body=template.encode())
    cloudformation.create_stack(
        StackName=stack,
        TemplateURL=f"{os.environ['AWS_ENDPOINT_URL']}/{BUCKET}/{stack}.yaml",
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    outputs = outputs_of(settled(cloudformation, stack))
    # The emulator does not read this from the template.
    client("dynamodb").update_time_to_live(
        TableName=outputs["Table"], TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True}
    )
    return outputs


def settled(cloudformation, stack):
    deadline = time.monotonic() + DEPLOYED_S_MAX
    while True:
        (description,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        status = description["StackStatus"]
        if status == "CREATE_COMPLETE":
            return description
        if not status.endswith("_IN_PROGRESS") or time.monotonic() > deadline:
            events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
            failed = [event for event in events if "FAILED" in event["ResourceStatus"]]
            reasons = [f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}" for event in failed]
            raise SystemExit(f"local-aws: {stack} is {status}: {'; '.join(reasons)}")
        time.sleep(0.1)


def outputs_of(description):
    """The stack's outputs, with an MCP URL that this machine can reach: names under .localhost may not resolve."""
    outputs = {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}
    outputs["TemplateMcpUrl"] = outputs["McpUrl"]
    url_id = re.match(r"https?://([^.]+)\.lambda-url\.", outputs["McpUrl"])
    if url_id:
        outputs["McpUrl"] = f"{os.environ['AWS_ENDPOINT_URL']}/_aws/lambda-url/{url_id[1]}/mcp"
    api = re.match(r"https?://([^.]+)\.execute-api\.[^/]+(?:/([^/]+))?/mcp", outputs["McpUrl"])
    if api:
        # A REST API has its stage in the path.
        stage = api[2] or "$default"
        outputs["McpUrl"] = f"{os.environ['AWS_ENDPOINT_URL']}/_aws/execute-api/{api[1]}/{stage}/mcp"
    return outputs


def explain(outputs):
    print(f"""
MCP             {outputs["McpUrl"]}
emulator        {os.environ["AWS_ENDPOINT_URL"]}
table           {outputs["Table"]}
queue           {outputs["QueueUrl"]}
dead letters    {outputs["DeadLetterQueueUrl"]}
API function    {outputs["ApiFunction"]}
worker function {outputs["WorkerFunction"]}

To look inside, with any AWS client:

export AWS_ENDPOINT_URL={os.environ["AWS_ENDPOINT_URL"]} AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test

To list the tools by hand:

curl -sS '{outputs["McpUrl"]}' \\
  -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \\
  -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/list' \\
  -d '{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}'

Stop it with Ctrl-C.
""", flush=True)


def main(verb, *arguments):
    if verb == "upload":
        upload(arguments)
    elif verb == "deploy":
        stack, *settings = arguments
        parameters = [setting for setting in settings if not setting.startswith("--")]
        outputs = deploy(stack, parameters, "--demand-tls" in settings, "--resend-unclaimed" in settings)
        if "--explain" in settings:
            explain(outputs)
        else:
            print(json.dumps(outputs))
    elif verb == "outputs":
        (description,) = client("cloudformation").describe_stacks(StackName=arguments[0])["Stacks"]
        print(json.dumps(outputs_of(description), indent=2))
    elif verb == "delete":
        client("cloudformation").delete_stack(StackName=arguments[0])
    else:
        raise SystemExit(f"local-aws: unknown verb {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])
