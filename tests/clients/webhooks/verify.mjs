// Verifies webhooks: one a line on the standard input, as JSON with a secret, headers and a body.

import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  const verified = new Webhook(secret).verify(body, headers);
  if (!verified.type.startsWith("task.")) throw new Error(JSON.stringify(verified));
  count += 1;
}
console.log(count);
