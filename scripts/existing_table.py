#!/usr/bin/env python3
"""Makes a table of an earlier stack, or a restored copy of one, the table of a new stack: docs/restore.md.

  scripts/existing_table.py check NAME
      reads all of the table, and refuses one that these functions could not use; changes nothing
  scripts/existing_table.py prepare NAME
      does the same; then turns on what a restored table lacks: its stream, the deletion of what has expired,
      point-in-time recovery and deletion protection. Prints NAME/stream/LABEL, the parameter ExistingTableName
  scripts/existing_table.py resend NAME QUEUE_URL
      sends a message for each unfinished task, since those of the earlier stack are gone with its queue. QUEUE_URL is
      the output QueueUrl of the new stack. A task that gets two messages runs once: sending again does no harm

It needs boto3, credentials, and the permissions dynamodb:DescribeTable, Scan, UpdateTable, DescribeTimeToLive,
UpdateTimeToLive, DescribeContinuousBackups and UpdateContinuousBackups, and sqs:SendMessage.
"""

import json
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

KEYS = {("pk", "HASH", "S"), ("sk", "RANGE", "S")}
VIEW = "NEW_AND_OLD_IMAGES"
# Records of a newer version name their format; those of this version name none.
FORMAT = "format"
UNFINISHED = ("queued", "running", "sleeping", "input_required")
# These two may have a cleanup that is not done.
CLEANED_UP = ("failed", "cancelled")
READY_S_MAX = 900
# A megabyte each: a terabyte.
PAGES_MAX = 1_000_000


def refuse(sentence):
    sys.exit(f"existing-table: {sentence}")


def described(dynamo, name):
    """The description of a table that can be changed now. Waits for one that is being restored."""
    deadline = time.monotonic() + READY_S_MAX
    while True:
        try:
            table = dynamo.describe_table(TableName=name)["Table"]
        except dynamo.exceptions.ResourceNotFoundException:
            refuse(f"there is no table {name} in this region: name one of this account and region")
        if table["TableStatus"] == "ACTIVE":
            return table
        if time.monotonic() > deadline:
            refuse(f"the table {name} is still {table['TableStatus']}: run this again when it is ACTIVE")
        time.sleep(1)


def refuse_others(table):
    """Ends the program unless the table has the keys of a table of tasks, and is in one region."""
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    keys = {(key["AttributeName"], key["KeyType"], types[key["AttributeName"]]) for key in table["KeySchema"]}
    if keys != KEYS:
        refuse(f"{table['TableName']} is not a table of tasks: its keys are not the strings pk and sk")
    if table.get("Replicas"):
        refuse(f"{table['TableName']} is a global table: remove its replicas, since a stack works in one region")


def items(dynamo, name, names, condition):
    """These attributes of the items that meet the condition, each with its keys."""
    attributes = ("pk", "sk", *names)
    scan = {
        "TableName": name,
        "ProjectionExpression": ", ".join(f"#{each}" for each in attributes),
        "FilterExpression": condition,
        "ExpressionAttributeNames": {f"#{each}": each for each in attributes},
    }
    for _ in range(PAGES_MAX):
        page = dynamo.scan(**scan)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        scan["ExclusiveStartKey"] = page["LastEvaluatedKey"]
    refuse(f"{name} is larger than a terabyte: not all of it was read")


def check(dynamo, name):
    """The description of a table that the functions can use."""
    table = described(dynamo, name)
    refuse_others(table)
    newer = next(items(dynamo, name, [FORMAT], f"attribute_exists(#{FORMAT})"), None)
    if newer:
        number = newer[FORMAT].get("N", "unknown")
        refuse(
            f"a newer version of Longhaul wrote the table {name}, in format {number}: deploy that version or a later "
            "one on it. Nothing was changed"
        )
    return table


def prepare(dynamo, name):
    table = check(dynamo, name)
    stream = table.get("StreamSpecification", {})
    if stream.get("StreamEnabled") and stream["StreamViewType"] != VIEW:
        refuse(f"the stream of {name} has {stream['StreamViewType']}: turn it off, and run this again")
    if not stream.get("StreamEnabled"):
        dynamo.update_table(TableName=name, StreamSpecification={"StreamEnabled": True, "StreamViewType": VIEW})
        table = described(dynamo, name)
    # DynamoDB refuses to turn on what is on.
    expiry = dynamo.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if expiry["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
        dynamo.update_time_to_live(TableName=name, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True})
    elif expiry["AttributeName"] != "ttl":
        refuse(f"{name} deletes items by `{expiry['AttributeName']}` and not by `ttl`: turn that off, and run this again")
    dynamo.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    if not table.get("DeletionProtectionEnabled"):
        dynamo.update_table(TableName=name, DeletionProtectionEnabled=True)
        table = described(dynamo, name)
    print(f"{name}/stream/{table['LatestStreamLabel']}")


def is_unfinished(item):
    state = item["state"]["S"]
    cleanup = item.get("cleaning", {}).get("S", "")
    return state in UNFINISHED or (state in CLEANED_UP and cleanup.startswith("{"))


def resend(dynamo, name, queue_url):
    refuse_others(described(dynamo, name))
    sqs = boto3.client("sqs")
    sent = 0
    for item in items(dynamo, name, ["state", "cleaning"], "attribute_exists(#state)"):
        if item["pk"]["S"].startswith("o#") and is_unfinished(item):
            body = {"v": 1, "owner": item["pk"]["S"].split("#")[1], "id": item["sk"]["S"]}
            sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps(body, separators=(",", ":")))
            sent += 1
    print(f"existing-table: {sent} messages were sent, one for each unfinished task")


VERBS = {("check", 1): check, ("prepare", 1): prepare, ("resend", 2): resend}


def main(arguments):
    verb = VERBS.get((arguments[0], len(arguments) - 1)) if arguments else None
    if not verb:
        sys.exit(__doc__)
    try:
        verb(boto3.client("dynamodb"), *arguments[1:])
    except (BotoCoreError, ClientError) as error:
        refuse(f"AWS refused this: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
