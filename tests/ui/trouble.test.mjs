// Temporary failures, and processes that are gone: the page reports them, keeps its content, and is up to date
// afterwards without a reload.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, echo, LONG, until } from './house.mjs';

const LOOK = { id: 'first', title: 'Note what is here', do: echo('one') };

describe('temporary failures', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const ended = (handle, status) => until(async () => (await house.ask('GET', `/runs/${handle}`)).status === status, `${handle} ${status}`);
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const refuse = (route, status = 503) => route.fulfill({ status, json: { detail: 'It is too much at a time.' } });
  const asks = (title) => ({ title, steps: [{ id: 'gate', title: 'Gate', executor: 'human' }, { id: 'more', title: 'More', do: echo(2) }] });

  it('reports a failing event stream and reconnects to it', async () => {
    const run = await house.run({ plan: asks('Told of late') });
    const page = await house.page('/', { quiet: true });
    let many = 0, isAway = true;
    await page.route(new RegExp(`/runs/${run}/events$`), (route) => {
      many++;
      if (!isAway) return route.fallback();
      const body = `event: problem\ndata: ${JSON.stringify({ status: 503, detail: 'The store is away.' })}\n\n`;
      return route.fulfill({ status: 200, contentType: 'text/event-stream', body });
    });
    await page.locator(`a[href="/runs/${run}"]`).click();
    const said = page.getByRole('alert').getByText('The store is away.');
    await said.waitFor();
    const before = many;
    await until(() => many > before, 'it asks once more');
    assert.ok(await said.isVisible());
    isAway = false;
    await said.waitFor({ state: 'detached' });
    await page.getByRole('textbox', { name: /^Answer to/ }).fill('go');
    await page.getByRole('button', { name: 'Answer' }).click();
    await node(page, 'More, done').waitFor();
    await node(page, 'Told of late, done').waitFor();
    await page.done();
  });

  it('retries loading the questions of a run until it succeeds', async () => {
    for (const [missed, times] of [[(route) => refuse(route, 429), 2], [(route) => route.abort(), 2], [(route) => route.fulfill({ json: { items: [] } }), 1]]) {
      const run = await house.run({ plan: asks('Asks at a bad time') });
      await until(async () => (await house.ask('GET', `/runs/${run}`)).asks === 1, 'it asks');
      const page = await house.page('/', { quiet: true });
      await page.route(new RegExp(`/runs/${run}/questions$`), missed, { times });
      await page.locator(`a[href="/runs/${run}"]`).click();
      await page.getByRole('textbox', { name: /^Answer to/ }).waitFor();
      await stop(run);
      await page.done();
    }
  });

  it('keeps a list during server overload and updates it afterwards', async () => {
    await house.ask('POST', '/observations', { content: 'Noticed at first' });
    const page = await house.page('/observations', { quiet: true });
    const first = page.locator('.card', { hasText: 'Noticed at first' });
    await first.waitFor();
    await first.evaluate((one) => { one.isSame = true; });
    let isMuch = true;
    await page.route(/\/observations\?/, (route) => (isMuch ? refuse(route, 429) : route.fallback()));
    await house.ask('POST', '/observations', { content: 'Noticed meanwhile' });
    await page.getByText('The server is temporarily unavailable (It is too much at a time.)').waitFor();
    assert.ok(await first.evaluate((one) => one.isSame && one.isConnected), 'what was there is');
    isMuch = false;
    await page.locator('.card', { hasText: 'Noticed meanwhile' }).waitFor();
    await page.getByText('The server is temporarily unavailable').waitFor({ state: 'detached' });
    // A list and a run that are opened during such a failure.
    const run = await house.run({ plan: { title: 'Come to early', steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    await ended(run, 'ok');
    await page.route(/\/v1\/.*\/runs\?/, (route) => refuse(route), { times: 1 });
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.route(new RegExp(`/v1/.*/runs/${run}$`), (route) => refuse(route), { times: 1 });
    await page.getByRole('link', { name: 'Come to early' }).click();
    await node(page, 'Begin, done').waitFor();
    await page.done();
  });

  it('keeps plan edits when refreshing the plan fails', async () => {
    const steps = [...asks('').steps, { id: 'last', title: 'Last', do: LONG }];
    const run = await house.run({ plan: { title: 'Changed at a bad time', steps } });
    const page = await house.page(`/runs/${run}?tab=plan`, { quiet: true });
    await page.getByRole('button', { name: 'Edit plan' }).click();
    const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
    await text.fill((await text.inputValue()).replace('Last', 'Last of mine'));
    let refused = 0;
    const refusal = (route) => refuse(route, refused++ % 2 ? 500 : 503);
    await page.route(/\/plan$/, (route) => (route.request().method() === 'GET' ? refusal(route) : route.fallback()));
    const { items: [question] } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${question.id}/answer`, { answer: 'go' });
    await node(page, 'Last, running').waitFor();
    await until(() => refused > 1, 'looks at the plan are refused');
    await page.unrouteAll({ behavior: 'wait' });
    // The editor is still there, and gets the changes of others.
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const put = await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body: `${markdown.trimEnd()}\n- Of theirs {of-theirs}\n` });
    assert.equal(put.status, 200, await put.text());
    await page.getByText('The plan is now at version 2').waitFor();
    assert.match(await text.inputValue(), /Last of mine/);
    await stop(run);
    await page.done();
  });

  it('reports a lost connection on an ended run and shows the selected part after reconnecting', async () => {
    const run = await house.run({ plan: { title: 'Of some time ago', steps: [{ id: 'a', title: 'Begin', do: echo('what it said') }] } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`, { quiet: true });
    await node(page, 'Begin, done').waitFor();
    await house.stop();
    await node(page, 'Begin, done').click();
    await page.getByText('No connection').waitFor();
    await house.serve();
    await page.getByRole('article').getByText('what it said').first().waitFor();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    await page.done();
  });

  it('announces a lost connection and reconnects', async () => {
    const page = await house.page('/', { quiet: true });
    await page.getByRole('link').first().waitFor();
    await house.stop();
    await page.getByText('No connection').waitFor();
    await house.serve();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    const long = await house.run({ plan: { title: 'A look around', steps: [LOOK, { id: 'left', title: 'Look to the left', do: LONG }] } });
    const one = await house.page(`/runs/${long}`, { quiet: true });
    await node(one, 'Look to the left, running').waitFor();
    await house.stop();
    await one.getByRole('button', { name: 'Pause' }).click();
    await one.getByText('The server did not answer.').waitFor();
    await house.serve();
    await one.getByText('No connection').waitFor({ state: 'hidden' });
    assert.equal(await one.getByText('The server did not answer.').count(), 1, 'what became of the action is not known yet');
    await one.getByRole('button', { name: 'Pause' }).click();
    await one.getByText('The server did not answer.').waitFor({ state: 'detached' });
    await one.done();
    await house.ask('POST', `/runs/${long}/cancel`, {});
    const run = await house.run({ plan: { title: 'After the pause', steps: [LOOK] } });
    await page.getByRole('link', { name: 'After the pause' }).waitFor();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    await ended(run, 'ok');
    await page.done();
  });

  it('shows a run that was opened during a server outage', async () => {
    const run = await house.run({ plan: { title: 'Opened too early', steps: [LOOK] } });
    await ended(run, 'ok');
    const page = await house.page('/', { quiet: true });
    const link = page.getByRole('link', { name: 'Opened too early' });
    await link.waitFor();
    await house.stop();
    await link.click();
    await page.getByText('No connection').waitFor();
    await house.serve();
    await node(page, 'Note what is here, done').waitFor();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    await page.done();
  });

  it('shows a new run without a driver as starting and an older one as not driven', async () => {
    const run = await house.run({ plan: { title: 'Not yet driven', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, running').waitFor();
    let begun = new Date().toISOString();
    await page.change(`**/runs/${run}`, (told) => ({ ...told, driven: false, updated_at: begun }));
    await page.reload();
    await page.locator('.state').getByText('starting').waitFor();
    begun = new Date(Date.now() - 60_000).toISOString();
    await page.reload();
    await page.locator('.state').getByText('no process drives it').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.done();
  });

  it('shows a run as not driven after its process died', async () => {
    house.file('long.json', { title: 'Left alone', steps: [{ id: 'a', title: 'Begin', do: LONG }] });
    await house.stop();
    await house.serve('--no-resume');
    const driver = house.begin('run', '--plan', 'long.json', '--attended');
    const [list, page] = [await house.page('/'), await house.page('/')];
    await page.getByRole('link', { name: /Left alone/ }).click();
    await node(page, 'Begin, running').waitFor();
    await list.getByRole('link', { name: /Left alone.*running/ }).waitFor();
    driver.kill('SIGKILL');
    await page.locator('.state').getByText('no process drives it').waitFor();
    await node(page, 'Begin, interrupted').waitFor();
    await list.getByRole('link', { name: /Left alone.*no process drives it/ }).waitFor();
    await list.done();
    await page.done();
  });
});
