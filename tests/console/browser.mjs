// Chromium, and what every page in it is watched for: script of others that runs, and what the content security policy had
// to stop.

import { chromium } from 'playwright-core';

const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 60_000);

export function expect(isTrue, otherwise) {
  if (!isTrue) throw new Error(otherwise);
}

/** Waits until something is true, and returns it. */
export async function until(what, look) {
  const begun = Date.now();
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    expect(Date.now() - begun < PATIENCE_MS, `waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export class Browser {
  /** The events that no page should have caused. */
  incidents = [];

  constructor(chromium) {
    this.chromium = chromium;
  }

  static async launch(executablePath) {
    // Chromium's own sandbox does not work for root, and often not in a container. All pages are the tests' own.
    const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--force-color-profile=srgb', '--hide-scrollbars'];
    return new Browser(await chromium.launch({ executablePath, args }));
  }

  /** A page of a new visitor. Options are those of a context, such as `javaScriptEnabled`. */
  async page(options = {}) {
    const context = await this.chromium.newContext({ viewport: { width: 1200, height: 800 }, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.on('dialog', async (dialog) => {
      this.incidents.push(`a dialog: ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on('pageerror', (error) => this.incidents.push(`an error in a page: ${error}`));
    page.on('console', (message) => {
      if (/content security policy/i.test(message.text())) this.incidents.push(`stopped by the policy: ${message.text()}`);
    });
    page.on('request', (request) => {
      const isOurs = ['127.0.0.1', 'localhost'].includes(new URL(request.url()).hostname);
      if (!isOurs) this.incidents.push(`a request to ${request.url()}`);
    });
    return page;
  }

  async close() {
    await this.chromium.close();
  }
}

/** Says if the page was loaded again since this was asked for. */
export async function marked(page) {
  await page.evaluate(() => { globalThis.isSameDocument = true; });
  return () => page.evaluate(() => globalThis.isSameDocument === true);
}
