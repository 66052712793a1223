// Changing the limits of a run, or of a part of it.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, hindrances, LONG, until } from './house.mjs';

describe('run limits', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const limits = async (page, name = 'Limits') => {
    await page.getByRole('button', { name, exact: true }).click();
    return page.getByRole('dialog');
  };
  /** Returns what is sent when the limits are changed. */
  const change = async (page, dialog) => {
    const sent = page.waitForRequest((request) => request.method() === 'PATCH');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const wanted = (await sent).postDataJSON();
    await dialog.waitFor({ state: 'detached' });
    return wanted;
  };
  const MINUTES = 'Deadline, in minutes from now';

  it('offers only the limits that a part has, and no deadline where it has none', async () => {
    const part = (id, title, budget) => ({ id, title, budget, plan: [{ id: 'a', title: `In ${title}`, do: LONG }] });
    const run = await house.run({ plan: { title: 'Of parts', steps: [{ id: 'all', parallel: [part('timed', 'Short of time', { deadline: '10m' }), part('small', 'Short of nodes', { nodes: 5 }), part('free', 'Free', undefined)] }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'In Short of time, running').waitFor();
    await node(page, /^Short of time/).click();
    let dialog = await limits(page, 'Limits of this part');
    await dialog.getByLabel(MINUTES).fill('30');
    assert.deepEqual(await hindrances(page), []);
    await dialog.getByText(/\(now: in (9|10) min\)/).waitFor();
    assert.deepEqual(Object.keys(await change(page, dialog)), ['deadline']);
    await node(page, /^Short of nodes/).click();
    dialog = await limits(page, 'Limits of this part');
    await dialog.getByLabel(/^Nodes/).fill('7');
    await counts(dialog.getByLabel(MINUTES), 0);
    assert.deepEqual(await change(page, dialog), { nodes: 7 });
    await node(page, /^Free/).click();
    dialog = await limits(page, 'Limits of this part');
    await dialog.getByText('It has no limits of its own').waitFor();
    await counts(dialog.getByRole('button', { name: 'Save' }), 0);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await stop(run);
    await page.done();
  });

  it('changes one limit while another is already exceeded', async () => {
    const run = await house.run({ plan: { title: 'Beyond it', budget: { tokens: 1000, tool_calls: 10 }, steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, running').waitFor();
    const over = (limit) => (limit.what === 'tokens' ? { ...limit, used: 1200, over: 200 } : limit);
    await page.change(/\/limits$/, (told) => ({ ...told, limits: told.limits.map(over) }));
    let dialog = await limits(page);
    await dialog.getByLabel(/Tool calls/).fill('20');
    assert.deepEqual(await change(page, dialog), { tool_calls: 20 });
    dialog = await limits(page);
    assert.equal(await dialog.getByLabel(/^Tokens \(/).inputValue(), '1000');
    await dialog.getByRole('button', { name: 'Never mind' }).click();
    await stop(run);
    await page.done();
  });

  it('says at half and at four fifths how much of a limit is used', async () => {
    const steps = [...Array.from({ length: 7 }, (_, n) => ({ id: `s${n}`, title: `Say ${n}`, do: echo(n) })), { id: 'stay', title: 'Stay', do: LONG }];
    const run = await house.run({ plan: { title: 'Near its end', budget: { tool_calls: 10 }, steps } });
    const page = await house.page(`/runs/${run}`);
    const said = page.locator('.state .badge');
    await node(page, 'Stay, running').waitFor();
    await until(async () => (await said.allInnerTexts()).join() === '80% of tool calls used', 'that it is nearly used up');
    assert.equal(await said.getAttribute('title'), '8 of 10');
    assert.doesNotMatch(await said.getAttribute('class'), /calm/);
    await page.locator('#announce', { hasText: '80% of tool calls used' }).waitFor({ state: 'attached' });
    assert.deepEqual(await hindrances(page), []);
    await house.ask('PATCH', `/runs/${run}/limits`, { tool_calls: 15 });
    await said.filter({ hasText: '53% of tool calls used' }).waitFor();
    assert.match(await said.getAttribute('class'), /calm/);
    await stop(run);
    await counts(said, 0, 'a run that has ended needs no warning');
    await page.done();
  });

  it('offers a fork with higher limits also if only a part met one', async () => {
    const part = { id: 'part', title: 'Short of calls', optional: true, budget: { tool_calls: 1 }, plan: [1, 2].map((n) => ({ id: `s${n}`, title: `Say ${n}`, do: echo(n) })) };
    const run = await house.run({ plan: { title: 'All but a part', steps: [part, { id: 'rest', title: 'The rest', do: echo(3) }] } });
    const { result } = await until(async () => { const is = await house.ask('GET', `/runs/${run}`); return is.status !== 'running' && is; }, 'it ends');
    assert.doesNotMatch(String(result.stop_reason), /budget/);
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Fork with higher limits' }).click();
    await page.getByRole('button', { name: 'Start fork' }).click();
    await page.waitForURL((url) => url.pathname !== `/runs/${run}`);
    await node(page, 'Say 1, done').waitFor();
    await page.goto(`${house.base}/`);
    await page.locator('.card', { hasText: `fork of ${run}` }).waitFor();
    await page.done();
  });

  it('computes deadlines and durations with the clock of the server', async () => {
    for (const minutes of [-20, 20]) {
      const run = await house.run({ plan: { title: 'Elsewhere', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
      const page = await house.page('/');
      await page.evaluate((ms) => { const real = Date.now; Date.now = () => real() + ms; }, minutes * 60_000);
      await page.locator(`a[href="/runs/${run}"]`).click();
      await node(page, 'Begin, running').filter({ has: page.locator('.time', { hasText: /^\d+ ms$|^\d+\.\d s$/ }) }).waitFor();
      const dialog = await limits(page);
      await dialog.getByLabel(MINUTES).fill('30');
      const { deadline } = await change(page, dialog);
      const wrong = Date.parse(deadline) - Date.now() - 30 * 60_000;
      assert.ok(Math.abs(wrong) < 60_000, `it is over ${wrong} ms later`);
      await stop(run);
      await page.done();
    }
  });
});
