// Connects the official TypeScript SDK to a server: the SDK's client, and a session of its Tasks extension on top.

import { Client, SdkHttpError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { loggedIn } from '../login.mjs';

const REVISION = '2026-07-28';
const TASKS = 'io.modelcontextprotocol/tasks';
const CLIENT_INFO = { name: 'longhaul-driver-ts', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: {} } };

/** A URL that begins with `stdio:` is the command of a process that the client starts, instead. */
function transportTo(url, { login, token }) {
  const requestInit = token && { headers: { Authorization: `Bearer ${token}` } };
  const how = { authProvider: login, requestInit };
  if (!url.startsWith('stdio:')) return new StreamableHTTPClientTransport(new URL(url), how);
  const [command, ...args] = url.slice('stdio:'.length).split(' ');
  return new StdioClientTransport({ command, args, env: process.env });
}

/** A client, which sends the `token` if there is one, and logs in if there is a `login` and the server asks for it. */
async function openClient(url, who) {
  const connected = async (transport) => {
    const client = new Client(CLIENT_INFO, {
      capabilities: { ...CAPABILITIES, extensions: { [TASKS]: {} } },
      versionNegotiation: { mode: { pin: REVISION } },
    });
    await client.connect(transport);
    return client;
  };
  return loggedIn(who.login, transportTo(url, who), connected, () => connected(transportTo(url, who)));
}

/**
 * Opens a client and a task session. `onQuestion` answers elicitations with the content of the form; `login` is who logs
 * in, if anyone does; `token` is one that the operator of the server gave to the client.
 * @returns {Promise<{client: Client, session: object, close: () => Promise<void>}>}
 */
export async function connect(url, { onQuestion, onError, login, token } = {}) {
  const client = await openClient(url, { login, token });
  const raw = await openRawPipe(url, { login, token });
  const session = createTaskSessionFromClient(client, {
    endpointId: url,
    rawDispatch: raw.dispatch,
    v2RequestFraming: { protocolVersion: REVISION, clientInfo: CLIENT_INFO, clientCapabilities: CAPABILITIES },
    onInputRequest: async (request) => {
      if (request.kind !== 'elicitation' || !onQuestion) throw new Error(`unexpected request: ${request.kind}`);
      return { action: 'accept', content: onQuestion(request.params) };
    },
    onError,
  });
  const close = async () => {
    await session.close();
    await raw.close();
    await client.close();
  };
  return { client, session, close };
}

/**
 * The SDK's client refuses results that are tasks, and the extension asks its host for another way to send requests.
 * Here it is the SDK's transport itself; all that is added is the matching of answers to requests by their ids.
 */
async function openRawPipe(url, who) {
  const transport = transportTo(url, who);
  const waiting = new Map();
  let nextId = 1;
  transport.onmessage = (message) => {
    const answered = waiting.get(message.id);
    if (!answered) return;
    waiting.delete(message.id);
    answered(toResponse(message));
  };
  await transport.start();

  const dispatch = (request, options = {}) =>
    new Promise((resolve, reject) => {
      const id = nextId++;
      waiting.set(id, resolve);
      options.signal?.addEventListener('abort', () => reject(options.signal.reason), { once: true });
      const message = { jsonrpc: '2.0', id, ...request };
      const how = { headers: options.context?.headers, requestSignal: options.signal };
      loggedIn(who.login, transport, () => transport.send(message, how))
        .catch((error) => {
          waiting.delete(id);
          const answer = jsonRpcErrorIn(error);
          if (answer) resolve(answer);
          else reject(error);
        });
    });
  return { dispatch, close: () => transport.close() };
}

function toResponse(message) {
  return 'error' in message ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
}

// A JSON-RPC error with another status than 400 reaches us as an HTTP error with a text.
function jsonRpcErrorIn(error) {
  if (!(error instanceof SdkHttpError) || typeof error.data?.text !== 'string') return undefined;
  try {
    const message = JSON.parse(error.data.text);
    return message.error ? toResponse(message) : undefined;
  } catch {
    return undefined;
  }
}
