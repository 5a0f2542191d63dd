"""Verifies webhooks: one a line on the standard input, as JSON with a secret, headers and a body."""

import json
import sys

from standardwebhooks.webhooks import Webhook

count = 0
for line in sys.stdin:
    hook = json.loads(line)
    verified = Webhook(hook["secret"]).verify(hook["body"], hook["headers"])
    assert verified["type"].startswith("task."), verified
    count += 1
print(count)
