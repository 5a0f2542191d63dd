// A TLS endpoint in front of a server that speaks HTTP, as a load balancer is: node tls.mjs ORIGIN CERTIFICATE KEY
// It prints its port, and ends with its standard input.

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:https';

const [origin, certificate, key] = process.argv.slice(2);
const { hostname, port } = new URL(origin);

const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (asked, answer) => {
  const headers = { ...asked.headers, host: `${hostname}:${port}` };
  const passed = request({ hostname, port, path: asked.url, method: asked.method, headers }, (answered) => {
    answer.writeHead(answered.statusCode, answered.headers);
    answered.pipe(answer);
  });
  passed.on('error', () => answer.destroy());
  asked.pipe(passed);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.resume().on('end', () => process.exit(0));
