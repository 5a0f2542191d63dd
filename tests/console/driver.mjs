// Uses a console with Chromium, as a person would: one flow per run, one line of JSON about what was seen.
//
//   node driver.mjs --chromium FILE --url http://127.0.0.1:8080/console FLOW [--task ID] [--other ID]
//
// A flow that needs something done to the server meanwhile prints a line that says what, and continues when it reads one.
// Exit code: 0 if all went as it should, 1 if not, 2 for bad usage.

import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { Browser, expect } from './browser.mjs';
import * as appearance from './flows/appearance.mjs';
import * as steering from './flows/steering.mjs';
import * as anonymous_callers from './flows/anonymous_callers.mjs';
import * as watching from './flows/watching.mjs';

const FLOWS = { ...appearance, ...steering, ...anonymous_callers, ...watching };

const { values: settings, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    chromium: { type: 'string' },
    url: { type: 'string' },
    task: { type: 'string' },
    other: { type: 'string' },
    folder: { type: 'string' },
  },
});

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the test that runs this to do something. */
async function ask(what) {
  console.log(JSON.stringify({ ask: what }));
  expect(!(await lines.next()).done, `nobody answers to "${what}"`);
}

const [flow] = positionals;
if (!settings.chromium || !settings.url || !Object.hasOwn(FLOWS, flow ?? '')) {
  console.error(`a browser, a URL and one of these flows are needed: ${Object.keys(FLOWS).join(' ')}`);
  process.exit(2);
}

const browser = await Browser.launch(settings.chromium);
try {
  const seen = await FLOWS[flow]({ browser, ask, ...settings });
  expect(browser.incidents.length === 0, `what no page should do: ${browser.incidents.join('; ')}`);
  console.log(JSON.stringify({ flow, ok: true, ...seen }));
} catch (error) {
  console.log(JSON.stringify({ flow, ok: false, error: String(error), stack: error.stack, incidents: browser.incidents }));
  process.exitCode = 1;
} finally {
  await browser.close();
  process.stdin.destroy();
}
