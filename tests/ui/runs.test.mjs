// Runs in the browser: the list, one of them as it happens, and what people do with it.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, LONG, echo, fits, hindrances, until } from './house.mjs';

const PLAN = {
  title: 'A look around',
  steps: [
    { id: 'first', title: 'Note what is here', do: echo('one') },
    { id: 'looks', parallel: [{ id: 'left', title: 'Look to the left', do: LONG }, { id: 'right', title: 'Look to the right', do: LONG }] },
    { id: 'last', title: 'Put it together', do: echo('end') },
  ],
};
const ASKS = { version: 1, cues: [
  { role: 'planner', contains: ['You decide how', 'Paint the door'], json: { decision: 'execute', reason: 'one thing', action: { tool: 'ask_person', args: { question: 'Which colour?' } } }, times: 'always' },
  { role: 'executor', contains: 'Paint the door', calls: [{ tool: 'finish', args: { notes: 'The door is painted.' } }], times: 'always' },
] };
const COMMAND = { title: 'One command', steps: [{ id: 'say', title: 'Say hello', do: { tool: 'shell', args: { argv: ['echo', 'hello'] } } }] };

describe('runs', () => {
  let house;
  before(async () => {
    house = await House.open(['--model', 'scripted:script.json']);
    house.file('script.json', ASKS);
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const ended = (handle, status) => until(async () => (await house.ask('GET', `/runs/${handle}`)).status === status, `${handle} ${status}`);

  it('shows what is begun while the list is looked at', async () => {
    const page = await house.page('/');
    await page.getByText('No runs yet').waitFor();
    const run = await house.run({ plan: { ...PLAN, title: 'Seen at once', steps: [PLAN.steps[0]] } });
    await page.getByRole('link', { name: 'Seen at once' }).waitFor();
    await ended(run, 'ok');
    await page.getByRole('link', { name: /Seen at once.*done/ }).click();
    await page.getByRole('heading', { name: 'Seen at once', level: 1 }).waitFor();
    await node(page, 'Note what is here, done').waitFor();
    await page.done();
  });

  it('shows a run as it happens, a branch that is clicked, and its end when it is cancelled', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Note what is here, done').waitFor();
    await node(page, 'Look to the left, at work').waitFor();
    await node(page, 'Note what is here').click();
    await page.getByRole('article').getByText('one').first().waitFor();
    page.on('dialog', (dialog) => dialog.accept());
    await node(page, 'Look to the left').click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await node(page, 'Look to the left, cancelled').waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await node(page, 'A look around, cancelled').waitFor();
    await ended(run, 'cancelled');
    await page.done();
  });

  it('pauses a part and has it go on', async () => {
    const run = await house.run({ plan: { title: 'Slowly', steps: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Go on', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, at work').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    const paused = async () => JSON.stringify(await house.ask('GET', `/trace?run=${run}&limit=1000`)).includes('paused');
    await until(paused, 'the run is paused');
    await page.getByRole('button', { name: 'Go on' }).click();
    await until(async () => JSON.stringify(await house.ask('GET', `/trace?run=${run}&limit=1000`)).includes('continued'), 'the run goes on');
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('takes the answer to a question', async () => {
    const run = await house.run({ goal: 'Paint the door' });
    const page = await house.page(`/runs/${run}`);
    const field = page.getByRole('textbox', { name: 'Answer to: Which colour?' });
    await field.fill('blue');
    await field.press('Enter');
    await field.waitFor({ state: 'detached' });
    await ended(run, 'ok');
    await page.done();
  });

  it('asks for a yes, takes a no with its reason, and takes a yes', async () => {
    for (const [says, status] of [['Reject', 'failed'], ['Approve', 'ok']]) {
      const run = await house.run({ plan: COMMAND });
      const page = await house.page(`/runs/${run}`);
      const form = page.locator('form', { hasText: 'waits for a yes' });
      await form.waitFor();
      if (says === 'Reject') await form.getByRole('textbox').fill('not today');
      await form.getByRole('button', { name: says }).click();
      await form.waitFor({ state: 'detached' });
      await ended(run, status);
      await page.done();
    }
  });

  it('is used with the keyboard alone', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Look to the right, at work').waitFor();
    const has = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);
    await until(async () => { await page.keyboard.press('Tab'); return /^A look around/.test(await has()); }, 'Tab reaches the tree');
    await page.keyboard.press('ArrowDown');
    assert.match(await has(), /^Note what is here/);
    await page.keyboard.press('End');
    assert.match(await has(), /^Put it together/);
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowLeft');
    await node(page, 'Note what is here').waitFor({ state: 'detached' });
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    assert.match(await has(), /^Note what is here/);
    await page.keyboard.press('Enter');
    await page.locator('[role=treeitem][aria-selected=true]').filter({ hasText: 'Note what is here' }).waitFor();
    await page.getByRole('article').getByText('one').first().waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('is readable at 400 pixels, light and dark, by the rules for those who see little', async () => {
    const run = await house.run({ plan: { ...PLAN, title: `A title without an end ${'and on '.repeat(20)}${'x'.repeat(80)}`, steps: [PLAN.steps[0]] } });
    await ended(run, 'ok');
    for (const look of [{ width: 400 }, { width: 400, dark: true }, { width: 1280 }, { width: 1280, dark: true }]) {
      for (const path of ['/', `/runs/${run}`]) {
        const page = await house.page(path, look);
        await page.getByText('A title without an end').first().waitFor();
        assert.ok(await fits(page), `${path} is wider than ${look.width}`);
        const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((sum, part) => sum + Number(part), 0));
        assert.equal(ground < 200, look.dark ?? false, `${path}: the ground is ${ground}`);
        assert.deepEqual(await hindrances(page), [], `${path} ${JSON.stringify(look)}`);
        await page.done();
      }
    }
    const page = await house.page(`/runs/${run}`, { width: 400 });
    await node(page, 'Note what is here').click();
    await page.getByRole('article').getByText('one').first().waitFor();
    await page.getByRole('button', { name: 'Tree' }).click();
    await node(page, 'Note what is here').waitFor();
    await page.done();
  });

  it('says that the server is gone, and goes on when it is back', async () => {
    const page = await house.page('/', { quiet: true });
    await page.getByRole('link').first().waitFor();
    await house.stop();
    await page.getByText('No connection').waitFor();
    await house.serve();
    const run = await house.run({ plan: { title: 'After the pause', steps: [PLAN.steps[0]] } });
    await page.getByRole('link', { name: 'After the pause' }).waitFor();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    await ended(run, 'ok');
    await page.done();
  });
});
