// Drives a Longhaul server with the TypeScript SDK 1.x and its experimental tasks of MCP 2025-11-25.
//
//   node core_tasks.mjs --url http://127.0.0.1:8080/mcp [--login USER] FLOW
//
// Flows: handshake, task, cancel, fail, ask, plain_ask, list, no_list. Prints one line of JSON about what was seen; with
// --login also what logging in took.
// Exit code: 0 if the flow went as it should, 1 if not.

import { parseArgs } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Login, loggedIn } from '../login.mjs';

const PATIENCE_MS = 60_000;

const expect = (isTrue, otherwise) => {
  if (!isTrue) throw new Error(otherwise);
};

const text = (result) => result.content?.[0]?.text ?? '';

async function connect(transport) {
  const client = new Client({ name: 'driver', version: '1' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, (request) => ({
    action: 'accept',
    content: { answer: `my answer to ${request.params.message}` },
  }));
  await client.connect(transport);
  return client;
}

function connected(url, login) {
  if (url.startsWith('stdio:')) {
    const [command, ...args] = url.slice('stdio:'.length).split(' ');
    return connect(new StdioClientTransport({ command, args, env: process.env }));
  }
  const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: login });
  return loggedIn(login, transport(), connect, () => connect(transport()));
}

// Everything that the SDK's own stream reports about a call that becomes a task.
async function follow(client, name, args) {
  const seen = [];
  const call = { name, arguments: args };
  const options = { task: { ttl: 7_200_000 }, timeout: PATIENCE_MS };
  for await (const message of client.experimental.tasks.callToolStream(call, CallToolResultSchema, options)) {
    seen.push(message);
  }
  return seen;
}

async function created(client, name, args) {
  const call = { name, arguments: args };
  const options = { task: { ttl: 7_200_000 }, timeout: PATIENCE_MS };
  for await (const message of client.experimental.tasks.callToolStream(call, CallToolResultSchema, options)) {
    if (message.type === 'taskCreated') return message.task;
  }
  throw new Error(`${name} did not become a task`);
}

const flows = {
  async handshake(client) {
    const { tasks } = client.getServerCapabilities();
    expect(tasks?.requests?.tools?.call, 'the server declares no tasks');
    const { tools } = await client.listTools();
    const levels = Object.fromEntries(tools.map((tool) => [tool.name, tool.execution?.taskSupport]));
    expect(levels.echo === 'forbidden' && levels.countdown === 'optional', JSON.stringify(levels));
    return { taskSupport: levels };
  },

  async task(client) {
    const seen = await follow(client, 'countdown', { seconds: 0.5 });
    const last = seen.at(-1);
    expect(last.type === 'result' && !last.result.isError, JSON.stringify(last));
    return { seen: seen.map((message) => message.task?.status ?? message.type), text: text(last.result) };
  },

  async cancel(client) {
    const task = await created(client, 'countdown', { seconds: 120 });
    const cancelled = await client.experimental.tasks.cancelTask(task.taskId);
    expect(cancelled.status === 'cancelled', JSON.stringify(cancelled));
    const again = await client.experimental.tasks.cancelTask(task.taskId).catch((error) => error);
    expect(again.code === -32602, String(again));
    return { again: again.message };
  },

  // The SDK's stream never fetches the result of a task that failed: it reports only the status message.
  async fail(client) {
    const seen = await follow(client, 'fail', { how: 'tool_error' });
    const last = seen.at(-1);
    expect(last.type === 'error' || last.result?.isError, JSON.stringify(last));
    return { seen: seen.map((message) => message.task?.status ?? message.type), error: last.error?.message };
  },

  async ask(client) {
    const seen = await follow(client, 'ask', { questions: ['one', 'two'] });
    const last = seen.at(-1);
    expect(last.type === 'result' && text(last.result).includes('my answer to'), JSON.stringify(last));
    return { seen: seen.map((message) => message.task?.status ?? message.type), text: text(last.result) };
  },

  async plain_ask(client) {
    const result = await client.callTool({ name: 'ask', arguments: { questions: ['one'] } });
    expect(text(result).includes('my answer to'), JSON.stringify(result));
    return { text: text(result) };
  },

  async list(client) {
    const task = await created(client, 'countdown', { seconds: 0.5 });
    const { tasks } = await client.experimental.tasks.listTasks();
    expect(tasks.some((other) => other.taskId === task.taskId), JSON.stringify(tasks));
    return { tasks: tasks.length };
  },

  // A server with anonymous callers lists no tasks, and does not declare the list.
  async no_list(client) {
    const { tasks } = client.getServerCapabilities();
    expect(tasks && !tasks.list, JSON.stringify(tasks));
    const refused = await client.experimental.tasks.listTasks().catch((error) => error);
    expect(refused.code === -32601, String(refused));
    return { refused: refused.message };
  },
};

async function main() {
  const options = { url: { type: 'string' }, login: { type: 'string' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [flow] = positionals;
  expect(values.url && flows[flow], `usage: core_tasks.mjs --url URL ${Object.keys(flows).join('|')}`);
  const login = values.login && new Login(values.login);
  const client = await connected(values.url, login);
  const seen = await flows[flow](client);
  console.log(JSON.stringify({ flow, ...seen, login: login && { ...login.counts, scope: login.scope } }));
  await client.close();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
