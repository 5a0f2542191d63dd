// Flows that only look.

import { expect, marked, until } from '../browser.mjs';

const taskUrl = (url, id) => `${url}/task?id=${id}`;

/** The part of a page that tells how far a task is. */
const rowOf = (page, id) => page.locator('tr', { has: page.locator(`a[href*="${id}"]`) });

/** A countdown moves in the list and on its own page, and neither is loaded again. */
export async function moves({ browser, url, task }) {
  const page = await browser.page();
  await page.goto(url);
  let isSame = await marked(page);
  const before = await rowOf(page, task).innerText();
  await until('the row changes', async () => progressIn(await rowOf(page, task).innerText()) !== progressIn(before));
  expect(await isSame(), 'the list was loaded again');

  await rowOf(page, task).getByRole('link').first().click();
  await page.waitForURL(`**/task?id=${task}*`);
  isSame = await marked(page);
  const first = progressIn(await page.locator('main').innerText());
  await until('the page of the task changes', async () => progressIn(await page.locator('main').innerText()) !== first);
  expect(await isSame(), 'the page was loaded again');
}

/** What a countdown says of its steps. */
function progressIn(text) {
  const found = text.match(/\b(\d+)\/(\d+)\b/);
  expect(found, `no progress in: ${text}`);
  return found[0];
}

/** The server is killed under an open page and started again: the page says so, and goes on. */
export async function outlives({ browser, ask, url, task }) {
  const page = await browser.page();
  await page.goto(taskUrl(url, task));
  const isSame = await marked(page);
  await page.locator('main').getByText('working').first().waitFor();
  await ask('kill the server');
  const state = page.locator('#state');
  await until('the page says that the server is gone', async () => (await state.innerText()).trim() !== '');
  const said = await state.innerText();
  await ask('start the server');
  await until('the page is live again', async () => (await state.innerText()).trim() !== said);
  await page.locator('main .status.completed').first().waitFor();
  expect(await isSame(), 'the page was loaded again');
  return { said };
}
