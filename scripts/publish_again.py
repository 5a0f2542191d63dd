#!/usr/bin/env python3
"""Publishes again how tasks ended that the publisher function could not publish, while the table's stream still has them.

  publish_again.py QUEUE_URL FUNCTION

QUEUE_URL and FUNCTION are the outputs NotPublishedQueueUrl and PublisherFunction of the stack. Each message in the queue says
where in the stream some changes are; they are read there, handed to the function, and the message is deleted once the function
has published all of them. It needs boto3, and the permissions sqs:ReceiveMessage, sqs:DeleteMessage,
dynamodb:DescribeStream, dynamodb:GetShardIterator, dynamodb:GetRecords and lambda:InvokeFunction. What is published twice has
the same id both times.

A change that the function cannot read has no shard in its message: it is looked for in all of them. If the function still cannot
read it, it puts a new message into the queue, which is left there: deploy the version that wrote the change, or delete the
message.
"""

import base64
import json
import sys

import boto3
from botocore.exceptions import ClientError

# A function takes 6 MB, and a change has two items of up to 400 KB.
RECORDS_MAX = 5


def as_lambda_has_it(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_lambda_has_it(field) for name, field in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [as_lambda_has_it(item) for item in value]
    return value


def iterator_in(streams, batch, shard):
    """Where in a shard the first change is that a message names."""
    return streams.get_shard_iterator(
        StreamArn=batch["streamArn"],
        ShardId=shard,
        ShardIteratorType="AT_SEQUENCE_NUMBER",
        SequenceNumber=batch["startSequenceNumber"],
    )["ShardIterator"]


def shards_of(streams, stream):
    """The ids of all shards of a stream."""
    start = {}
    while True:
        page = streams.describe_stream(StreamArn=stream, **start)["StreamDescription"]
        yield from (shard["ShardId"] for shard in page["Shards"])
        if "LastEvaluatedShardId" not in page:
            return
        start = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}


def shard_of(streams, batch):
    """The shard of the change that a message names."""
    if "shardId" in batch:
        return batch["shardId"]
    for shard in shards_of(streams, batch["streamArn"]):
        try:
            iterator = iterator_in(streams, batch, shard)
            records = streams.get_records(ShardIterator=iterator, Limit=1)["Records"]
        except ClientError as error:
            # The number is not one of this shard, or the shard is gone.
            if error.response["Error"]["Code"] in ("ValidationException", "TrimmedDataAccessException", "ResourceNotFoundException"):
                continue
            raise
        if records and records[0]["dynamodb"]["SequenceNumber"] == batch["startSequenceNumber"]:
            return shard
    return None


def records_of(streams, batch):
    """The records of the stream from the first to the last that a message names; None if the stream has lost them."""
    shard = shard_of(streams, batch)
    try:
        return None if shard is None else list(records_in(streams, batch, shard))
    except streams.exceptions.TrimmedDataAccessException:
        return None


def records_in(streams, batch, shard):
    last = int(batch["endSequenceNumber"])
    iterator = iterator_in(streams, batch, shard)
    while iterator:
        page = streams.get_records(ShardIterator=iterator)
        for record in page["Records"]:
            change = record["dynamodb"]
            if int(change["SequenceNumber"]) > last:
                return
            images = {name: as_lambda_has_it(change[name]) for name in ("OldImage", "NewImage") if name in change}
            yield {
                "eventName": record["eventName"],
                "eventSourceARN": batch["streamArn"],
                "dynamodb": {"SequenceNumber": change["SequenceNumber"], **images},
            }
            if int(change["SequenceNumber"]) == last:
                return
        iterator = page.get("NextShardIterator")


def publish(functions, function, records):
    """Whether the function has published all of them."""
    for start in range(0, len(records), RECORDS_MAX):
        event = {"Records": records[start : start + RECORDS_MAX]}
        answer = functions.invoke(FunctionName=function, Payload=json.dumps(event).encode())
        said = json.loads(answer["Payload"].read() or b"null")
        if "FunctionError" in answer or said is None or said.get("batchItemFailures"):
            print(f"publish-again: the function did not publish all: {json.dumps(said)}", file=sys.stderr)
            return False
    return True


def main(queue_url, function):
    sqs, streams, functions = (boto3.client(name) for name in ("sqs", "dynamodbstreams", "lambda"))
    told = failed = 0
    seen = set()
    while messages := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            batch = json.loads(message["Body"])["DDBStreamBatchInfo"]
            position = (batch["streamArn"], batch["startSequenceNumber"])
            records = records_of(streams, batch)
            if records is None:
                print("publish-again: the changes are older than a day: the stream has lost them", file=sys.stderr)
                is_told = False
            elif position in seen:
                print(f"publish-again: the function cannot read the change {position[1]}: its log says why", file=sys.stderr)
                is_told = False
            else:
                is_told = publish(functions, function, records)
            seen.add(position)
            if is_told:
                told += len(records)
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
            else:
                failed += 1
    print(f"publish-again: {told} changes were published again, {failed} messages are left")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
