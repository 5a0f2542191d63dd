// An MCP server of revision 2026-07-28 whose strings all contain scripts, markup or terminal codes.
//
//   node hostile.mjs PORT

import { createServer } from 'node:http';

const EVIL = `evil <script>globalThis.hacked = true</script><img src=x onerror="globalThis.hacked = true"> "'><b onclick=1> \u202etxt.exe \u0007\u001b[2J`;
const ID = `evil-1"><script>globalThis.hacked=true</script>`;
const MEBIBYTE = `${EVIL} ${'long'.repeat((1 << 20) / 4)}`;
const BEGUN = new Date(Date.now() - 60_000).toISOString();

const schema = {
  type: 'object',
  required: [EVIL],
  properties: {
    [EVIL]: { type: 'string', title: EVIL, description: MEBIBYTE, default: '"><script>globalThis.hacked = true</script>' },
    choice: { type: 'string', enum: [EVIL, 'b'], enumNames: [MEBIBYTE, '</option></select><script>globalThis.hacked = true</script>'] },
    several: { type: 'array', items: { anyOf: [{ const: EVIL, title: EVIL }] } },
    many: { type: 'string', enum: Array.from({ length: 10_000 }, (_, number) => `${number} ${EVIL}`) },
    nested: { type: 'object', default: { [EVIL]: EVIL } },
  },
};

const question = (params) => ({ method: 'elicitation/create', params });

const questions = {
  [EVIL]: question({ mode: 'form', message: EVIL, requestedSchema: schema }),
  url: question({ mode: 'url', message: EVIL, elicitationId: 'e', url: 'javascript:globalThis.hacked=true' }),
  sampling: { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: EVIL } }] } },
};

const task = (taskId, status, more = {}) => ({
  taskId, status, statusMessage: `1/2 ${EVIL}`, createdAt: BEGUN, lastUpdatedAt: BEGUN, ttlMs: 3_600_000, pollIntervalMs: 100, ...more,
});

const tasks = {
  [ID]: task(ID, 'input_required', { inputRequests: questions }),
  done: task('done', 'completed', { result: { content: [{ type: 'text', text: MEBIBYTE }], structuredContent: { [EVIL]: EVIL } } }),
  failed: task('failed', 'failed', { error: { code: -32603, message: MEBIBYTE } }),
  working: task('working', 'working'),
};

const tool = { name: EVIL, title: EVIL, description: MEBIBYTE, inputSchema: schema };

const cut = { cut: true, bytes: MEBIBYTE.length, value: EVIL };

const methods = {
  'server/discover': () => ({
    supportedVersions: ['2026-07-28'], serverInfo: { name: EVIL, version: EVIL },
    capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  }),
  initialize: () => ({
    protocolVersion: '2025-11-25', serverInfo: { name: EVIL, version: EVIL },
    capabilities: { tools: {}, tasks: { list: {}, cancel: {} } },
  }),
  'tools/list': () => ({ tools: [tool, { ...tool, name: 'other', inputSchema: { $ref: EVIL } }] }),
  'tasks/list': () => ({ tasks: Object.values(tasks).map(({ inputRequests, result, error, ...shown }) => shown) }),
  'tasks/get': ({ taskId }) => tasks[taskId],
  'dev.longhaul/tasks/inspect': ({ taskId }) => tasks[taskId] && {
    task: tasks[taskId], tool: EVIL, arguments: { value: { [EVIL]: MEBIBYTE } }, failures: 1, lastFailure: MEBIBYTE,
    attempts: [{ attempt: 1, from: BEGUN, to: BEGUN, end: EVIL }],
    journal: [
      { kind: 'step', name: EVIL, at: BEGUN, tookMs: 5, attempt: 1, bytes: 9, value: { [EVIL]: EVIL } },
      { kind: EVIL, name: MEBIBYTE, at: EVIL, tookMs: EVIL, attempt: EVIL, ...cut },
    ],
  },
};

function answer(request) {
  const result = methods[request.method]?.(request.params ?? {});
  if (result) return { jsonrpc: '2.0', id: request.id, result: { resultType: 'complete', ...result } };
  return { jsonrpc: '2.0', id: request.id, error: { code: -32602, message: EVIL } };
}

createServer(async (request, response) => {
  const chunks = await request.toArray();
  if (request.method !== 'POST') return response.writeHead(405).end();
  const message = JSON.parse(Buffer.concat(chunks).toString());
  if (message.id === undefined) return response.writeHead(202).end();
  return response.setHeader('content-type', 'application/json').end(JSON.stringify(answer(message)));
}).listen(Number(process.argv[2]), '127.0.0.1');
