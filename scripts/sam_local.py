"""What scripts/sam-local.sh needs in addition to Docker; that script documents it."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

TABLE = "longhaul-tasks"
WORK = "longhaul-work"
DEAD_LETTERS = "longhaul-dead-letters"

BYTES_AT_A_TIME = 1 << 16
# As in template.yaml.
RECEIVES_MAX = 5
VISIBLE_AFTER_S = 60
WAIT_S_MAX = 20
INVOKED_S_MAX = 900
ENDED_S_MAX = 10


def client(service, endpoint=None):
    import boto3
    from botocore.config import Config

    config = Config(retries={"max_attempts": 3, "mode": "standard"}, read_timeout=INVOKED_S_MAX)
    return boto3.client(service, endpoint_url=endpoint, config=config)


def is_here(address):
    """Whether this machine has the address."""
    try:
        with socket.create_server((address, 0)):
            return True
    except OSError:
        return False


async def pass_on(reader, writer):
    try:
        while received := await reader.read(BYTES_AT_A_TIME):
            writer.write(received)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(listener, host, port):
    async def connected(reader, writer):
        try:
            from_target, to_target = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pass_on(reader, to_target), pass_on(from_target, writer))

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


def forward(address, port, target):
    """Passes connections on to the emulator, which listens on the loopback interface only. Prints the id of the process
    that does so, once it listens."""
    try:
        listener = socket.create_server((address, int(port)))
    except OSError as error:
        raise SystemExit(f"sam-local: {address}:{port} is not free: {error}") from error
    process = os.fork()
    if process:
        print(process)
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    url = urlsplit(target)
    asyncio.run(serve(listener, url.hostname, url.port))


def create_resources():
    dynamo, sqs = client("dynamodb"), client("sqs")
    keys = (("pk", "HASH"), ("sk", "RANGE"))
    dynamo.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    )
    dynamo.update_time_to_live(TableName=TABLE, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True})
    dead = sqs.create_queue(QueueName=DEAD_LETTERS)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVES_MAX})
    sqs.create_queue(
        QueueName=WORK, Attributes={"VisibilityTimeout": str(VISIBLE_AFTER_S), "RedrivePolicy": redrive}
    )


def record(message, queue_arn):
    """A message as Lambda gives it to a function."""
    attributes = {
        name: {
            "stringValue": value.get("StringValue"),
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": value["DataType"],
        }
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": attributes,
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": os.environ["AWS_REGION"],
    }


def work(endpoint):
    """Takes one message at a time, and deletes it unless the function reports that it failed."""
    sqs, functions = client("sqs"), client("lambda", endpoint)
    queue = sqs.get_queue_url(QueueName=WORK)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    print(f"giving the messages of {WORK} to Worker at {endpoint}", flush=True)
    while True:
        received = sqs.receive_message(
            QueueUrl=queue, WaitTimeSeconds=WAIT_S_MAX, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        for message in received.get("Messages", []):
            event = json.dumps({"Records": [record(message, arn)]})
            answer = functions.invoke(FunctionName="Worker", Payload=event.encode())
            said = json.loads(answer["Payload"].read() or b"null")
            print(json.dumps({"messageId": message["MessageId"], "answer": said}), flush=True)
            if isinstance(said, dict) and said.get("batchItemFailures") == []:
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def processes_of(run):
    """The processes that have the run's variable, but for this one."""
    marked = f"SAM_LOCAL_RUN={run}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marked in variables and int(folder.name) != os.getpid():
            yield int(folder.name)


def end_all(run):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes_of(run):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + ENDED_S_MAX
        while time.monotonic() < deadline:
            if not list(processes_of(run)):
                return
            time.sleep(0.05)


def main(verb, *arguments):
    if verb == "is-here":
        raise SystemExit(0 if is_here(*arguments) else 1)
    if verb == "forward":
        forward(*arguments)
    elif verb == "end-all":
        end_all(*arguments)
    elif verb == "create-resources":
        create_resources()
    elif verb == "work":
        try:
            work(*arguments)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
    else:
        raise SystemExit(f"sam-local: unknown verb {verb}")


main(*sys.argv[1:])
