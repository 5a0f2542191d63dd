// Flows that act: with forms, the keyboard, and without script.

import { expect, until } from '../browser.mjs';

/** The form of the question with this text. */
const questionOf = (page, text) => page.locator('section', { has: page.getByRole('heading', { name: text }) });

const idIn = (page) => new URL(page.url()).searchParams.get('id');

/** A question: a wrong answer names the field and keeps the typed text, and the right one ends the task. */
export async function answers({ browser, url }) {
  const page = await browser.page();
  await page.goto(url);
  await page.getByRole('navigation').getByRole('link', { name: 'Questions' }).click();
  const question = questionOf(page, 'Which month?');
  await question.getByRole('button', { name: 'Answer' }).click();
  const alert = page.getByRole('alert');
  await alert.getByText('answer: it is missing').waitFor();
  await alert.getByRole('link', { name: 'answer' }).click();
  const field = page.getByRole('textbox', { name: 'answer' });
  expect((await field.getAttribute('aria-invalid')) === 'true', 'the field is not marked');
  await field.fill('May <i>');
  await page.getByRole('button', { name: 'Answer' }).click();
  await page.getByText('The answer was given.').waitFor();
  await page.goto(url);
  await until('the task is completed', () => page.locator('.status.completed').first().isVisible());
}

/** A question is declined. */
export async function declines({ browser, url, task }) {
  const page = await browser.page();
  await page.goto(`${url}/questions?id=${task}`);
  await questionOf(page, 'Which month?').getByRole('button', { name: 'Decline' }).click();
  await page.waitForURL(`**/task?id=${task}*`);
  await page.locator('.status.completed').first().waitFor();
}

/** A tool is called from its form: a wrong argument is named and kept, and the right ones make a task. */
export async function calls({ browser, url }) {
  const page = await browser.page();
  await page.goto(`${url}/tools`);
  await page.getByRole('link', { name: 'countdown', exact: true }).click();
  const seconds = page.getByRole('textbox', { name: 'seconds' });
  await seconds.fill('many');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.getByRole('alert').getByText('seconds: it must be a number').waitFor();
  expect((await seconds.inputValue()) === 'many', 'what was typed is gone');
  await seconds.fill('0.5');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.waitForURL('**/task?id=*');
  await page.locator('.status.completed').first().waitFor();

  await page.goto(`${url}/tools?tool=echo&as=json`);
  await page.getByRole('textbox').fill('{"text": "<b>plain</b>"}');
  await page.getByRole('button', { name: 'Call' }).click();
  await page.getByRole('heading', { name: 'The tool answers' }).waitFor();
  await page.locator('pre', { hasText: '<b>plain</b>' }).first().waitFor();
}

/** A task is cancelled on its page, and called again. */
export async function cancels({ browser, url, task }) {
  const page = await browser.page();
  await page.goto(`${url}/task?id=${task}`);
  await page.getByRole('button', { name: 'Cancel' }).first().click();
  await page.locator('.status.cancelled').first().waitFor();
  await page.getByRole('button', { name: 'again', exact: false }).first().click();
  await page.waitForURL((address) => address.searchParams.get('id') !== task);
  expect(idIn(page), `there is no task in ${page.url()}`);
  await page.locator('.status.working').first().waitFor();
  return { again: idIn(page) };
}

/** All with the keyboard alone. */
export async function keys({ browser, url }) {
  const page = await browser.page();
  await page.goto(`${url}/questions`);
  await page.keyboard.press('Tab');
  expect((await focused(page)).text.startsWith('Skip'), 'the first key does not reach the way past the header');
  await page.keyboard.press('Enter');
  await tabTo(page, (at) => at.tag === 'INPUT' || at.tag === 'TEXTAREA');
  await page.keyboard.type('May');
  await tabTo(page, (at) => at.tag === 'BUTTON' && at.text === 'Answer');
  await page.keyboard.press('Enter');
  await page.getByText('The answer was given.').waitFor();
}

/** The element that has the focus, which has to be visible. */
async function focused(page) {
  const at = await page.evaluate(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    const isSeen = style.outlineStyle !== 'none' || style.boxShadow !== 'none';
    return { tag: element.tagName, text: element.textContent.trim(), isSeen };
  });
  expect(at.isSeen, `the focus is not seen on ${at.tag} "${at.text.slice(0, 80)}"`);
  return at;
}

async function tabTo(page, isThere) {
  for (let count = 0; count < 100; count += 1) {
    await page.keyboard.press('Tab');
    if (isThere(await focused(page))) return;
  }
  throw new Error('the keyboard does not get there');
}

/** Everything without script, by loading pages again. */
export async function scriptless({ browser, url, task }) {
  const page = await browser.page({ javaScriptEnabled: false });
  await page.goto(`${url}/questions`);
  const question = questionOf(page, 'Which month?');
  await question.getByRole('textbox').fill('May');
  await question.getByRole('button', { name: 'Answer' }).click();
  await page.getByText('The answer was given.').waitFor();
  await page.goto(`${url}/task?id=${task}`);
  await page.locator('.status.working').first().waitFor();
  await page.getByRole('button', { name: 'Cancel' }).first().click();
  await until('the task is cancelled', async () => {
    await page.goto(`${url}/task?id=${task}`);
    return page.locator('.status.cancelled').first().isVisible();
  });
}
