// Flows about how pages look, and how those find their way who do not see them.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect } from '../browser.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** All pages of the header, and those below them. */
async function pagesOf(page, url, ids) {
  await page.goto(url);
  const links = await page.getByRole('navigation').getByRole('link').evaluateAll((all) => all.map((a) => a.href));
  const below = ['tools?tool=countdown', 'tools?tool=ask&as=json', 'task?id=no-such-task', 'no-such-page'];
  const tasks = ids.flatMap((id) => [`task?id=${id}`, `questions?id=${id}`]);
  return [...links, ...[...below, ...tasks].map((path) => `${url}/${path}`)];
}

const idsOf = ({ task, other }) => [task, other].filter(Boolean);

/** axe finds nothing serious on any page, in light and in dark. */
export async function accessible({ browser, url, ...ids }) {
  const found = [];
  let count = 0;
  for (const colorScheme of ['light', 'dark']) {
    const page = await browser.page({ colorScheme });
    for (const address of await pagesOf(page, url, idsOf(ids))) {
      await page.goto(address);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      count += 1;
      for (const { id, impact, nodes } of violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))) {
        found.push(`${impact} ${id} on ${address} (${colorScheme}): ${nodes.slice(0, 3).map((node) => node.html).join(' ')}`);
      }
    }
  }
  expect(found.length === 0, found.join('\n'));
  return { pages: count };
}

/** No page is wider than a narrow screen. */
export async function narrow({ browser, url, ...ids }) {
  const page = await browser.page({ viewport: { width: 360, height: 640 } });
  const wide = [];
  for (const address of await pagesOf(page, url, idsOf(ids))) {
    await page.goto(address);
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    if (width > 360) wide.push(`${address} is ${width} pixels wide`);
  }
  expect(wide.length === 0, wide.join('\n'));
}

/** Pictures of the most important pages, for the docs. */
export async function pictures({ browser, url, task, other, folder }) {
  const page = await browser.page();
  const pages = [['tasks', '', 460], ['task', `/task?id=${task}`, 720], ['questions', `/questions?id=${other}`, 400]];
  for (const [name, path, height] of pages) {
    await page.setViewportSize({ width: 1080, height });
    await page.goto(`${url}${path}`);
    await page.locator('main h1').waitFor();
    await page.screenshot({ path: `${folder}/${name}.png`, animations: 'disabled' });
  }
}
