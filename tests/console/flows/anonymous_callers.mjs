// Flows with servers and pages that mean ill.

import { createServer } from 'node:http';
import { expect, until } from '../browser.mjs';

/** Every page that a console has of a task, a question and a tool. */
async function pagesOf(page, url) {
  const links = () => page.locator('main a[href^="/console/"]').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
  const pages = new Set(['/console', '/console/questions', '/console/tools']);
  for (const start of [...pages]) {
    await page.goto(new URL(start, url).href);
    for (const link of (await links()).slice(0, 20)) pages.add(link);
  }
  return [...pages].map((path) => new URL(path, url).href);
}

/** Names, messages, arguments and results that would like to be obeyed. */
export async function inert({ browser, url }) {
  const page = await browser.page();
  const pages = await pagesOf(page, url);
  const sizes = {};
  for (const address of pages) {
    const answer = await page.goto(address);
    expect(answer.status() === 200, `${address} is answered with ${answer.status()}`);
    expect(answer.headers()['content-security-policy']?.includes("default-src 'none'"), `${address} has no policy`);
    const size = (await answer.body()).length;
    expect(size <= 1 << 20, `${address} has ${size} bytes`);
    sizes[address.slice(url.length)] = size;
    const found = await page.evaluate(() => ({
      hacked: globalThis.hacked === true,
      foreign: [...document.querySelectorAll('img, iframe, object, embed, [onerror], [onclick], script:not([src]), a[href^="javascript"]')]
        .map((element) => element.outerHTML.slice(0, 200)),
      title: document.title,
      text: document.body.innerText,
    }));
    expect(!found.hacked, `script of the server runs on ${address}`);
    expect(found.foreign.length === 0, `elements of the server on ${address}: ${found.foreign}`);
    expect(!/[\u202a-\u202e\u2066-\u2069]/.test(found.text), `text changes its direction on ${address}`);
    // The tab names the tool: as plain text, cut, and next to a word of the console.
    expect(found.title.length <= 200 && found.title.endsWith('Longhaul'), `the title of ${address}: ${found.title}`);
    expect(!/[\u0000-\u001f\u202a-\u202e\u2066-\u2069]/.test(found.title), `the title of ${address} is no plain text`);
  }
  expect(pages.length > 6, `there are few pages: ${pages}`);
  return { pages: pages.length, sizes };
}

/** A page of another origin posts what a button of the console would: by a form, and by script. */
export async function foreign({ browser, url, task }) {
  const action = `${url}/act`;
  const evil = `<!doctype html><form method="post" action="${action}">
    <input name="act" value="cancel"><input name="id" value="${task}"><button>Win a prize</button></form>`;
  const server = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(evil));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const page = await browser.page();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const sent = await page.evaluate(({ action, task }) => {
      const body = new URLSearchParams({ act: 'cancel', id: task });
      // It may not see the answer either.
      return fetch(action, { method: 'POST', mode: 'no-cors', body }).then((answer) => answer.type, String);
    }, { action, task });
    const [answer] = await Promise.all([page.waitForNavigation(), page.getByRole('button').click()]);
    expect(answer.status() === 403, `the form of a anonymous_caller is answered with ${answer.status()}`);
    const ours = await browser.page();
    await ours.goto(`${url}/task?id=${task}`);
    await until('the task still works', () => ours.locator('.status.working').first().isVisible());
    return { sent, status: answer.status() };
  } finally {
    server.close();
  }
}
