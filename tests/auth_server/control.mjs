// The commands of tests to the running authorization server: POST / with {"do": …, …}, answered with JSON.
//
//   {"do": "rotate"}                     new keys sign from now on; the older ones stay published
//   {"do": "withdraw"}                   only the newest keys are published from now on
//   {"do": "set", "settings": {…}}       scopes, audience, alg, accessTokenS, clockBehindS
//   {"do": "issue", "user", "audience", "scopes", "expiresInS"}
//                                        the access token that the user's client would get, as {"token"}
//   {"do": "sign", "header": {…}, "claims": {…}, "with": "current" | "previous" | "foreign" | "hmac" | "none"}
//                                        any token, well made or not
//   {"do": "requests"}                   how often each path was requested so far
//   {"do": "fault", "path", …}           lets requests for a path fail until {"do": "repair"}: see fail() in server.mjs
//   {"do": "down"}, {"do": "up"}         refuses connections, and takes them again

import { createHmac, createPublicKey } from 'node:crypto';
import http from 'node:http';
import { CompactSign, importJWK } from 'jose';
import { generateKey } from './keys.mjs';

const REQUEST_BYTES_MAX = 1_048_576;

const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signs with HMAC, where the secret is the public key. A verifier that believes the header's algorithm accepts it. */
function signedByPublicKey(header, claims, key) {
  const secret = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  const input = `${encoded({ ...header, alg: 'HS256' })}.${encoded(claims)}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}

async function sign(state, { header = {}, claims = {}, with: signer = 'current' }) {
  const { alg } = state.settings;
  const current = state.keys.current(alg);
  const nowS = Math.floor(Date.now() / 1000);
  const payload = { iss: state.issuer, sub: 'ann', iat: nowS, exp: nowS + 3600, client_id: 'trial', jti: `${Math.random()}`, ...claims };
  if (signer === 'none') return `${encoded({ alg: 'none', typ: 'at+jwt', ...header })}.${encoded(payload)}.`;
  if (signer === 'hmac') return signedByPublicKey({ typ: 'at+jwt', kid: current.kid, ...header }, payload, current);
  // A foreign key claims to be the current one.
  const key = { current, previous: () => state.keys.current(alg, 1), foreign: () => generateKey(alg) }[signer];
  const jwk = typeof key === 'function' ? await key() : key;
  const kid = signer === 'previous' ? jwk.kid : current.kid;
  const protectedHeader = { alg, typ: 'at+jwt', kid, ...header };
  const text = new TextEncoder().encode(JSON.stringify(payload));
  const signing = new CompactSign(text).setProtectedHeader(protectedHeader);
  // A header may name an algorithm that this signer does not implement; it is signed nevertheless.
  const crit = Object.fromEntries((protectedHeader.crit ?? []).map((name) => [name, true]));
  return signing.sign(await importJWK(jwk, alg), { crit });
}

async function issue({ provider: { provider, resourceServer } }, { user, audience, scopes, expiresInS }) {
  const client = await provider.Client.find('trial');
  const grant = new provider.Grant({ accountId: user, clientId: client.clientId });
  const server = resourceServer(audience);
  const token = new provider.AccessToken({
    accountId: user,
    client,
    grantId: await grant.save(),
    gty: 'authorization_code',
    scope: scopes,
    expiresIn: expiresInS ?? server.accessTokenTTL,
    extra: user.includes('@') ? { team: user.split('@')[1] } : undefined,
  });
  token.resourceServer = { ...server, identifier: () => audience };
  return token.save();
}

const commands = {
  async rotate(state) {
    await state.keys.rotate();
    state.renew();
  },
  withdraw(state) {
    state.keys.withdraw();
    state.renew();
  },
  set(state, { settings }) {
    Object.assign(state.settings, settings);
    state.renew();
  },
  issue: async (state, request) => ({ token: await issue(state, request) }),
  sign: async (state, request) => ({ token: await sign(state, request) }),
  requests: (state) => state.requests,
  fault(state, { path, ...fault }) {
    state.faults[path] = fault;
  },
  repair(state) {
    state.faults = {};
  },
  down: (state) => state.close(),
  up: (state) => state.open(state.port),
};

async function answer(state, request, response) {
  try {
    let text = '';
    for await (const chunk of request) {
      text += chunk;
      if (text.length > REQUEST_BYTES_MAX) throw new Error('the request is too large');
    }
    const command = JSON.parse(text);
    if (!Object.hasOwn(commands, command.do)) throw new Error(`unknown: ${command.do}`);
    const done = await commands[command.do](state, command);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(done ?? {}));
  } catch (error) {
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: String(error) }));
  }
}

/** Opens the control port, and returns its URL. */
export function openControl(state) {
  const server = http.createServer((request, response) => answer(state, request, response));
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}
