// Drives a Longhaul server with the official TypeScript SDK: one flow per run, one line of JSON about what was seen.
//
//   node driver.mjs --url http://127.0.0.1:8080/mcp FLOW [--task-id ID] [--key KEY] [--key-in header|meta]
//                   [--how HOW] [--seconds N] [--bytes N] [--timeout-s N] [--login USER] [--token TOKEN]
//
// With --login the driver logs in where the server says so, and the line has what that took, as "login".
// Flows: list plain task start resume cancel cancel-other ask fail unknown idempotent large.
// The server has to offer the diagnostic tools. Exit code: 0 if the flow went as it should, 1 if not, 2 for bad usage.

import { parseArgs } from 'node:util';
import { taskId as asTaskId } from '@modelcontextprotocol/ext-tasks/core';
import { Login } from '../login.mjs';
import { connect } from './session.mjs';

const { values: settings, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string' },
    'task-id': { type: 'string' },
    key: { type: 'string', default: 'driver-key' },
    'key-in': { type: 'string', default: 'header' },
    how: { type: 'string', default: 'tool_error' },
    seconds: { type: 'string', default: '0.5' },
    bytes: { type: 'string', default: '1000000' },
    'timeout-s': { type: 'string', default: '60' },
    login: { type: 'string' },
    token: { type: 'string' },
  },
});

function expect(isTrue, otherwise) {
  if (!isTrue) throw new Error(otherwise);
}

const textOf = (result) => result?.content?.find((block) => block.type === 'text')?.text;

/** A settled execution as it is in the printed line. */
function seen({ outcome, lastTask }) {
  return {
    status: outcome.status,
    result: outcome.status === 'completed' ? outcome.result : undefined,
    error: outcome.status === 'failed' ? { code: outcome.error.code, message: outcome.error.message } : undefined,
    statusMessage: lastTask?.statusMessage,
    ttlMs: lastTask?.retentionMs,
  };
}

/** Calls a tool that has to become a task. */
async function callTask(session, tool, args, options) {
  const execution = await session.callTool(tool, args, options);
  expect(execution.kind === 'task', `${tool} did not become a task but ${execution.kind}`);
  return execution;
}

const countdown = (seconds, steps) => ({ seconds, steps });

const flows = {
  async list({ client }) {
    const { tools } = await client.listTools();
    const names = tools.map((tool) => tool.name).sort();
    const tasks = client.getServerCapabilities()?.extensions?.['io.modelcontextprotocol/tasks'];
    expect(names.length > 0, 'no tool is listed');
    expect(tasks !== undefined, 'the tasks extension is not advertised');
    return { tools: names, extension: tasks, server: client.getServerVersion() };
  },

  async plain({ client, session }) {
    const direct = await client.callTool({ name: 'echo', arguments: { text: 'by the client' } });
    const execution = await session.callTool('echo', { text: 'by the session' });
    expect(execution.kind === 'immediate', `echo became ${execution.kind}`);
    const { outcome } = await execution.settle();
    const texts = [textOf(direct), textOf(outcome.result)];
    expect(texts[0]?.includes('by the client'), `echo answered ${texts[0]}`);
    expect(texts[1]?.includes('by the session'), `echo answered ${texts[1]}`);
    return { texts };
  },

  async task({ session }) {
    const execution = await callTask(session, 'countdown', countdown(Number(settings.seconds), 5));
    const states = [];
    const settled = await execution.settle({
      onEvent: (event) => {
        const task = event.type === 'task' ? event.task : event.outcome.task;
        if (task) states.push([task.status, task.statusMessage ?? null]);
      },
    });
    expect(settled.outcome.status === 'completed', `the task ended ${settled.outcome.status}`);
    return { taskId: execution.handle.taskId, states, ...seen(settled) };
  },

  // Leaves at once; another process fetches the result with "resume".
  async start({ session }) {
    const execution = await callTask(session, 'countdown', countdown(Number(settings.seconds), 5));
    const reference = execution.serializeReference();
    await execution.detach();
    return { taskId: execution.handle.taskId, reference };
  },

  async resume({ session }) {
    const execution = await session.resumeTask({
      endpointId: settings.url,
      generation: 'v2',
      taskId: asTaskId(requiredTaskId()),
      originalOperation: 'tools/call',
    });
    const settled = await execution.settle();
    return { taskId: settings['task-id'], ...seen(settled) };
  },

  async cancel({ session }) {
    const execution = await callTask(session, 'countdown', countdown(600, 600));
    await execution.cancel();
    const settled = await execution.settle();
    expect(settled.outcome.status === 'cancelled', `the task ended ${settled.outcome.status}`);
    const controller = session.task(execution.handle.taskId);
    await controller.cancel(); // the second time is acknowledged as well
    const after = await controller.snapshot();
    expect(after.status === 'cancelled', `a second cancel made it ${after.status}`);
    return { taskId: execution.handle.taskId, ...seen(settled) };
  },

  // Cancels a task that another process started.
  async 'cancel-other'({ session }) {
    const controller = session.task(asTaskId(requiredTaskId()));
    await controller.cancel();
    const after = await controller.snapshot();
    return { taskId: settings['task-id'], status: after.status };
  },

  async ask({ session, questions }) {
    const asked = ['What is your name?', 'What is your quest?'];
    const execution = await callTask(session, 'ask', { questions: asked });
    const settled = await execution.settle();
    expect(settled.outcome.status === 'completed', `the task ended ${settled.outcome.status}`);
    expect(questions.length === asked.length, `${questions.length} questions arrived`);
    const result = JSON.stringify(settled.outcome.result);
    for (const at of asked.keys()) {
      expect(questions[at].includes(asked[at]), `question ${at} was ${questions[at]}`);
      expect(result.includes(`answer ${at + 1}`), `the result has no answer ${at + 1}`);
    }
    return { taskId: execution.handle.taskId, questions, ...seen(settled) };
  },

  async fail({ session }) {
    const execution = await callTask(session, 'fail', { how: settings.how, after_s: 0 });
    const settled = await execution.settle();
    const { outcome } = settled;
    if (settings.how === 'tool_error') {
      expect(outcome.status === 'completed', `a tool error ended ${outcome.status}`);
      expect(outcome.result.isError === true, 'the result does not say isError');
    } else {
      expect(outcome.status === 'failed', `${settings.how} ended ${outcome.status}`);
    }
    return { taskId: execution.handle.taskId, ...seen(settled) };
  },

  async unknown({ session }) {
    const controller = session.task(asTaskId(settings['task-id'] ?? '01890000-0000-7000-8000-000000000000'));
    const codes = {};
    for (const [name, request] of Object.entries({
      get: () => controller.snapshot(),
      cancel: () => controller.cancel(),
      update: () => controller.updateJson({ key: { action: 'accept', content: { answer: 'x' } } }),
    })) {
      codes[name] = await request().then(() => null, (error) => error.code ?? error.cause?.code ?? String(error));
      expect(codes[name] === -32602, `tasks/${name} of an unknown task answered ${codes[name]}`);
    }
    return { codes };
  },

  async idempotent({ session }) {
    const keyed = () =>
      settings['key-in'] === 'meta'
        ? { metadata: { 'dev.longhaul/idempotencyKey': settings.key } }
        : { headers: { 'Idempotency-Key': settings.key } };
    const first = await callTask(session, 'countdown', countdown(1, 5), keyed());
    await first.detach();
    const again = await callTask(session, 'countdown', countdown(1, 5), keyed());
    expect(again.handle.taskId === first.handle.taskId, 'the retry became another task');
    const settled = await again.settle();
    expect(settled.outcome.status === 'completed', `the task ended ${settled.outcome.status}`);
    const other = await session
      .callTool('countdown', countdown(2, 5), keyed())
      .then(() => null, (error) => error.code ?? error.cause?.code ?? String(error));
    expect(other !== null, 'another request with the same key was accepted');
    return { taskId: first.handle.taskId, otherRequest: other, ...seen(settled) };
  },

  async large({ session }) {
    const execution = await callTask(session, 'large_result', { bytes: Number(settings.bytes) });
    const settled = await execution.settle();
    const length = settled.outcome.status === 'completed' ? JSON.stringify(settled.outcome.result).length : null;
    return { taskId: execution.handle.taskId, length, ...seen(settled), result: undefined };
  },
};

function requiredTaskId() {
  if (!settings['task-id']) usage('this flow needs --task-id');
  return settings['task-id'];
}

function usage(message) {
  console.error(`${message}\nusage: driver.mjs --url URL ${Object.keys(flows).join('|')}`);
  process.exit(2);
}

function print(line) {
  console.log(JSON.stringify(line));
}

async function main() {
  const [flow] = positionals;
  if (!settings.url || !Object.hasOwn(flows, flow ?? '')) usage('a URL and the name of a flow are needed');
  const questions = [];
  const errors = [];
  const login = settings.login && new Login(settings.login);
  const timer = setTimeout(() => {
    print({ flow, ok: false, error: `no end within ${settings['timeout-s']} s`, errors });
    process.exit(1);
  }, Number(settings['timeout-s']) * 1000);
  try {
    const connection = await connect(settings.url, {
      onQuestion: (params) => ({ answer: `answer ${questions.push(params.message)}` }),
      onError: (error) => errors.push(String(error)),
      login,
      token: settings.token,
    });
    const line = await flows[flow]({ ...connection, questions });
    await connection.close();
    expect(errors.length === 0, `errors outside the flow: ${errors}`);
    print({ flow, ok: true, ...line, login: login && { ...login.counts, scope: login.scope } });
  } catch (error) {
    print({ flow, ok: false, error: String(error), cause: error.cause && String(error.cause), errors });
    process.exitCode = 1;
  } finally {
    clearTimeout(timer);
  }
}

await main();
