// The keys that sign: a set of one key for each algorithm, which tests rotate and withdraw.

import { calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose';

const ALGORITHMS = ['RS256', 'ES256', 'EdDSA'];

/** A private key as a JWK. Its id is its thumbprint. */
export async function generateKey(alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, alg, use: 'sig', kid: await calculateJwkThumbprint(jwk) };
}

async function generateSet() {
  return Promise.all(ALGORITHMS.map(generateKey));
}

export class Keys {
  /** The newest set is the first. */
  #sets;

  constructor(sets) {
    this.#sets = sets;
  }

  static async generate() {
    return new Keys([await generateSet()]);
  }

  /** All keys, as the provider publishes them. */
  get jwks() {
    return { keys: this.#sets.flat() };
  }

  /** The key that signs now, or `age` rotations ago. */
  current(alg, age = 0) {
    const found = this.#sets[age]?.find((key) => key.alg === alg);
    if (!found) throw new Error(`there is no key for ${alg} of ${age} rotations ago`);
    return found;
  }

  /** New keys sign from now on. The older ones stay published. */
  async rotate() {
    this.#sets.unshift(await generateSet());
  }

  /** Only the newest keys are published from now on. */
  withdraw() {
    this.#sets.splice(1);
  }
}
