// The provider: PKCE, dynamic registration, resource indicators, refresh tokens, client credentials, and users who need
// no password.

import Provider, { errors } from 'oidc-provider';

const BODY_BYTES_MAX = 65_536;
const DAY_S = 86_400;

/** A claim for teams: the part after the @ of a user's name. */
function teamOf(user) {
  const [, team] = (user ?? '').split('@');
  return team ? { team } : {};
}

function configurationOf({ settings, keys }) {
  const signedBy = () => ({ sign: { alg: settings.alg, kid: keys.current(settings.alg).kid } });
  const resourceServer = (resource) => ({
    audience: resource,
    scope: settings.scopes,
    accessTokenFormat: 'jwt',
    accessTokenTTL: settings.accessTokenS,
    jwt: signedBy(),
  });
  return {
    clients: [
      {
        client_id: 'trial',
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        // Every port of a native client on loopback is accepted.
        redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback', 'http://127.0.0.1/', 'http://localhost/'],
      },
      {
        client_id: 'machine',
        client_secret: 'machine-secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    jwks: keys.jwks,
    scopes: ['openid', 'offline_access', ...settings.scopes.split(' ')],
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (ctx, client, oneOf) => oneOf ?? settings.audience,
        useGrantedResource: () => true,
        getResourceServerInfo(ctx, resource) {
          if (!URL.canParse(resource)) throw new errors.InvalidTarget();
          return resourceServer(resource);
        },
      },
    },
    formats: {
      customizers: {
        jwt(ctx, token, { payload }) {
          payload.iat -= settings.clockBehindS;
          payload.exp -= settings.clockBehindS;
        },
      },
    },
    extraTokenClaims: (ctx, token) => teamOf(token.accountId),
    findAccount: (ctx, sub) => ({ accountId: sub, claims: () => ({ sub, ...teamOf(sub) }) }),
    issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: () => false,
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    clientBasedCORS: () => true,
    cookies: { keys: ['for tests and trials'] },
    ttl: {
      AccessToken: settings.accessTokenS,
      ClientCredentials: settings.accessTokenS,
      IdToken: settings.accessTokenS,
      Interaction: DAY_S,
      Session: DAY_S,
      Grant: DAY_S,
      RefreshToken: DAY_S,
    },
    resourceServer,
  };
}

async function bodyOf(request) {
  let text = '';
  for await (const chunk of request) {
    text += chunk;
    if (text.length > BODY_BYTES_MAX) throw new Error('the body is too large');
  }
  return text;
}

/** The Inspector registers with an empty scope if it knows none, which other servers take as no scope. */
async function register(handle, request, response) {
  request.body = JSON.parse(await bodyOf(request));
  if (request.body.scope === '') delete request.body.scope;
  await handle(request, response);
}

const LOGIN_PAGE = `<!doctype html><meta charset="utf-8"><title>Log in</title>
<h1>Log in</h1>
<p>This authorization server is for tests and trials. Any name will do; everything that is asked for is granted.</p>
<form method="post"><input name="user" required maxlength="100" placeholder="ann" autofocus> <button>Log in</button></form>
`;

/** Logs the user in, and grants all that the client asks for. Shows a form if the user is not known yet. */
async function interact(provider, request, response) {
  const { params } = await provider.interactionDetails(request, response);
  const user = request.method === 'POST' ? new URLSearchParams(await bodyOf(request)).get('user') : params.login_hint;
  if (!user) {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(LOGIN_PAGE);
    return;
  }
  const grant = new provider.Grant({ accountId: user, clientId: params.client_id });
  const scope = params.scope ?? '';
  grant.addOIDCScope(`openid offline_access ${scope}`);
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, scope);
  const result = { login: { accountId: user }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

/** A client that is given no scopes asks for none, and gets those that are usual (RFC 6749, section 3.3). */
function withScope(url, { issuer, settings }) {
  const asked = new URL(url, issuer);
  if (asked.pathname !== '/auth' || asked.searchParams.has('scope')) return url;
  asked.searchParams.set('scope', settings.scopes.split(' ')[0]);
  return `${asked.pathname}${asked.search}`;
}

/** A provider for the server's present settings and keys. */
export function providerOf(state) {
  const { resourceServer, ...configuration } = configurationOf(state);
  const provider = new Provider(state.issuer, configuration);
  const handle = provider.callback();
  const answer = (request, response) => {
    request.url = withScope(request.url, state);
    let answered;
    if (request.url.startsWith('/interaction/')) answered = interact(provider, request, response);
    else if (request.method === 'POST' && request.url === '/reg') answered = register(handle, request, response);
    else answered = handle(request, response);
    return answered.catch((error) => {
      response.writeHead(400, { 'content-type': 'text/plain' }).end(`${error}\n`);
    });
  };
  return { answer, provider, resourceServer };
}
