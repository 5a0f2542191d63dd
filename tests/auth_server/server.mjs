// An authorization server for tests and trials: oidc-provider, with users who log in by their name alone. Never for more.
//
//   node server.mjs [--port N] [--scopes "a b"] [--audience URI] [--alg RS256|ES256|EdDSA] [--access-token-s N]
//                   [--clock-behind-s N] [--control] [--until-stdin-closes]
//
// --scopes          the scopes that users may grant
// --audience        what tokens are for if a client names no resource, as with servers that do not know RFC 8707
// --access-token-s  how long access tokens are valid
// --clock-behind-s  how far its clock is behind, as access tokens show it: those of a server whose clock is as far behind
//                   as a verifier puts up with are refused as soon as they expire
// --control         opens a second port, by which tests rotate keys, issue tokens, and let requests fail (control.mjs)
//
// Listens on loopback only. Its first line on standard output is JSON: {"issuer": "http://127.0.0.1:N", "control": …}.
// Clients register themselves; there are also `trial`, which is public, and `machine` with the secret `machine-secret`,
// for client credentials. Any name that is typed in is a user; `login_hint` in the request saves the typing. The name
// `ann@blue` is a user whose tokens have the claim "team": "blue".

import http from 'node:http';
import { parseArgs } from 'node:util';
import { openControl } from './control.mjs';
import { Keys } from './keys.mjs';
import { providerOf } from './provider.mjs';

const { values: flags } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    scopes: { type: 'string', default: 'mcp:tools' },
    audience: { type: 'string' },
    alg: { type: 'string', default: 'RS256' },
    'access-token-s': { type: 'string', default: '3600' },
    'clock-behind-s': { type: 'string', default: '0' },
    control: { type: 'boolean', default: false },
    'until-stdin-closes': { type: 'boolean', default: false },
  },
});

// It writes a line about each of its defaults that a real server would have to change.
console.info = () => {};
console.warn = () => {};

/** The settings that tests change while the server runs. */
const state = {
  settings: {
    scopes: flags.scopes,
    audience: flags.audience,
    alg: flags.alg,
    accessTokenS: Number(flags['access-token-s']),
    clockBehindS: Number(flags['clock-behind-s']),
  },
  keys: await Keys.generate(),
  requests: {},
  faults: {},
  provider: undefined,
  issuer: undefined,
};

/** A provider reads its keys when it is made, so that other keys need another provider. All providers share their storage. */
state.renew = () => {
  state.provider = providerOf(state);
};

function answer(request, response) {
  const path = new URL(request.url, state.issuer).pathname;
  state.requests[path] = (state.requests[path] ?? 0) + 1;
  const fault = state.faults[path];
  if (fault) {
    fail(response, fault);
  } else {
    state.provider.answer(request, response);
  }
}

function fail(response, { status = 500, headers = {}, body = '', hang = false, endless = false }) {
  if (hang) return;
  response.writeHead(status, headers);
  if (!endless) {
    response.end(body);
    return;
  }
  const more = () => {
    while (!response.destroyed && response.write(' '.repeat(65536)));
  };
  response.on('drain', more);
  more();
}

const server = http.createServer(answer);

state.open = (port) =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve(server.address().port));
  });

state.close = () =>
  new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });

const port = await state.open(Number(flags.port));
state.port = port;
state.issuer = `http://127.0.0.1:${port}`;
state.renew();
const control = flags.control ? await openControl(state) : undefined;
console.log(JSON.stringify({ issuer: state.issuer, control }));

if (flags['until-stdin-closes']) {
  // It ends with the process that started it, however that one ends.
  process.stdin.on('close', () => process.exit(0)).resume();
}
