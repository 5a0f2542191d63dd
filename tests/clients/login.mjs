// The part of a client's OAuth flow that its host program has to supply: the provider that both generations of the
// TypeScript SDK ask for, and a browser. The browser follows the authorization server's redirects as `user`, whom the
// server lets in by name (tests/auth_server).

const CALLBACK = 'http://127.0.0.1:33418/callback';
const REDIRECTS_MAX = 10;

/** Follows redirects from the authorization URL to the client's own address, and returns the parameters that it got there. */
async function browse(url, user) {
  let at = new URL(url);
  at.searchParams.set('login_hint', user);
  const cookies = new Map();
  for (let hops = 0; hops < REDIRECTS_MAX; hops++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: cookie ? { cookie } : {} });
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
      cookies.set(name, value);
    }
    const location = answer.headers.get('location');
    if (!location) throw new Error(`the authorization server answered ${answer.status}: ${await answer.text()}`);
    at = new URL(location, at);
    if (at.href.startsWith(CALLBACK)) return at.searchParams;
  }
  throw new Error('the authorization server redirects without end');
}

/** An OAuth client that forgets everything when its process ends. */
export class Login {
  redirectUrl = CALLBACK;

  clientMetadata = {
    client_name: 'longhaul-driver',
    redirect_uris: [CALLBACK],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  };

  /** How often it registered, how often the user logged in, and how many sets of tokens it got. */
  counts = { registrations: 0, logins: 0, tokens: 0 };

  #client;
  #tokens;
  #verifier;
  #state;
  #callback;
  #discovered;

  constructor(user) {
    this.user = user;
  }

  state() {
    this.#state = crypto.randomUUID();
    return this.#state;
  }

  clientInformation() {
    return this.#client;
  }

  saveClientInformation(client) {
    if (client.client_id !== this.#client?.client_id) this.counts.registrations += 1;
    this.#client = client;
  }

  tokens() {
    return this.#tokens;
  }

  /** The scopes of the present token. */
  get scope() {
    return this.#tokens?.scope;
  }

  saveTokens(tokens) {
    this.counts.tokens += 1;
    this.#tokens = tokens;
  }

  discoveryState() {
    return this.#discovered;
  }

  saveDiscoveryState(discovered) {
    this.#discovered = discovered;
  }

  saveCodeVerifier(verifier) {
    this.#verifier = verifier;
  }

  codeVerifier() {
    return this.#verifier;
  }

  async redirectToAuthorization(url) {
    this.counts.logins += 1;
    this.#callback = await browse(url, this.user);
    if (this.#callback.get('state') !== this.#state) throw new Error('the state is not the one that was sent');
  }

  /** The parameters that the browser brought back, once. */
  takeCallback() {
    const callback = this.#callback;
    this.#callback = undefined;
    return callback;
  }
}

/**
 * Does something with a transport. If the SDK sent the user to the browser meanwhile, which it reports as an error, it
 * gets the parameters that the browser brought back, and the same is done once more: by `again` if that is given.
 */
export async function loggedIn(login, transport, action, again = action) {
  try {
    return await action(transport);
  } catch (error) {
    const callback = login?.takeCallback();
    if (!callback) throw error;
    await finish(transport, callback);
    return again(transport);
  }
}

// The newer generation takes everything that came back and checks the issuer; the older one takes the code.
function finish(transport, callback) {
  return transport.finishAuth.length === 1 ? transport.finishAuth(callback.get('code')) : transport.finishAuth(callback);
}
