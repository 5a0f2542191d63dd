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
  await moving('the row', rowOf(page, task));
  expect(await isSame(), 'the list was loaded again');

  await rowOf(page, task).getByRole('link').first().click();
  await page.waitForURL(`**/task?id=${task}*`);
  isSame = await marked(page);
  await moving('the page of the task', page.locator('main'));
  expect(await isSame(), 'the page was loaded again');
}

/** Waits until a part of a page shows progress, which a task has only some time after its start, and then other progress. */
async function moving(what, part) {
  const progress = async () => (await part.innerText()).match(/\b\d+\/\d+\b/)?.[0];
  const first = await until(`${what} shows progress`, progress);
  await until(`${what} shows other progress`, async () => ![undefined, first].includes(await progress()));
}

/** The server is killed under an open page and started again: the page says so, and continues. */
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
