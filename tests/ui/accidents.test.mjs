// Nothing is answered, lost or overlooked by accident.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, fits, hindrances, LONG, until } from './house.mjs';

describe('accidents', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const command = (title) => ({ id: title, title, do: { tool: 'shell', args: { command: `echo ${title}` } } });
  const item = (thread, fields) => house.ask('POST', `/threads/${thread}/scratchbook/items`, { kind: 'note', ...fields });
  const many = (what, count) => Array.from({ length: count }, (_, at) => `${what} ${at}`).join('\n');
  /** Holds up the requests of `page` at `path` with `method`: `pass()` lets them go on. */
  const hold = async (page, path, method) => {
    const held = [];
    await page.route(path, (route) => (route.request().method() === method ? held.push(route) : route.fallback()));
    return { arrives: () => until(() => held.length > 0, `a request with ${method}`), pass: () => Promise.all(held.map((route) => route.continue())) };
  };

  it('approves one call with a double click, and none with a click on what has just moved', async () => {
    const run = await house.run({ plan: { title: 'Asks for much', steps: [{ id: 'all', parallel: ['one', 'two', 'three'].map(command) }] } });
    const page = await house.page(`/runs/${run}`);
    const forms = page.locator('form.question'), button = forms.first().getByRole('button', { name: 'Approve' });
    await counts(forms, 3);
    const { x, y } = await button.boundingBox(), at = [x + 5, y + 5];
    const sent = [];
    page.on('request', (request) => { if (/approvals/.test(request.url())) sent.push(request.url()); });
    await page.mouse.click(...at);
    await counts(forms, 2);
    // One that did not come as the second click of two, and one that did.
    await page.mouse.click(...at);
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    // What somebody means, a moment later, is done.
    await until(async () => { await page.mouse.click(...at); return sent.length > 1; }, 'the second call can be approved');
    await counts(forms, 1);
    assert.equal(sent.length, 2);
    await stop(run);
    await page.done();
  });

  it('lets nobody write into a plan that is being saved', async () => {
    const run = await house.run({ plan: { title: 'Slowly saved', steps: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Second', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}?tab=plan`);
    await page.getByRole('button', { name: 'Edit plan' }).click();
    const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
    await text.fill((await text.inputValue()).replace('Second', 'Second of mine'));
    const held = await hold(page, '**/plan', 'PUT');
    await page.getByRole('button', { name: 'Save plan' }).click();
    await held.arrives();
    const before = await text.inputValue();
    await text.focus();
    await page.keyboard.type('lost');
    assert.equal(await text.inputValue(), before);
    await held.pass();
    await node(page, 'Second of mine').waitFor();
    await stop(run);
    await page.done();
  });

  it('says that limits were refused, even if their dialog was closed meanwhile', async () => {
    const run = await house.run({ plan: { title: 'Slowly refused', budget: { tool_calls: 10 }, steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    await node(page, 'Begin, running').waitFor();
    await page.getByRole('button', { name: 'Limits', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/Tool calls/).fill('20');
    let isHeld = false, go;
    const going = new Promise((done) => { go = done; });
    await page.route('**/limits', async (route) => {
      if (route.request().method() !== 'PATCH') return route.fallback();
      isHeld = true;
      await going;
      return route.fulfill({ status: 409, contentType: 'application/problem+json', body: JSON.stringify({ code: 'run_ended', detail: 'The run has ended.' }) });
    });
    await dialog.getByRole('button', { name: 'Save' }).click();
    await until(() => isHeld, 'the request');
    assert.ok(await dialog.getByLabel(/Tool calls/).evaluate((one) => one.readOnly));
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    go();
    await page.getByRole('alert').getByText('The run has ended.').waitFor();
    await stop(run);
    await page.done();
  });

  it('shows the source of a plan as it is, with its calls', async () => {
    const run = await house.run({ plan: { title: 'With a call', steps: [{ id: 'a', title: 'Say it', do: echo('it') }] } });
    const page = await house.page(`/runs/${run}?tab=plan`);
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    assert.match(markdown, /```/);
    await page.getByText('Plan source').click();
    const source = page.locator('details', { hasText: 'Plan source' }).locator('pre');
    await until(async () => (await source.textContent()) === markdown, 'the source');
    await page.done();
  });

  it('keeps the mark of a question in the title of a hidden tab up to date', async () => {
    const page = await house.page('/');
    // The clock of the page is that of the test, so that nobody waits for a look of a tab that looks seldom.
    await page.clock.install();
    const run = await house.run({ plan: { title: 'Asks once', steps: [{ id: 'ask', title: 'Ask', executor: 'human' }, { id: 'wait', title: 'Wait', do: LONG }] } });
    await page.goto(`${house.base}/runs/${run}`);
    await until(async () => /^\? Asks once/.test(await page.title()), 'the mark of a question');
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    const { items: [asks] } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${asks.id}/answer`, { answer: 'go' });
    await until(async () => { await page.clock.runFor(20_000); return /^Asks once/.test(await page.title()); }, 'no mark any more');
    await stop(run);
    await page.done();
  });

  it('shows a long item in full on request, and leads from its tags to what has them', async () => {
    const { handle } = await item('long', { title: 'Much to know', body: many('Fact', 40), tags: ['only-here'] });
    const page = await house.page('/threads/long');
    const card = page.locator('.card', { hasText: handle }), last = card.getByText('Fact 39');
    const isSeen = () => last.evaluate((one) => { const { bottom } = one.getBoundingClientRect(); return one.scrollHeight <= one.clientHeight + 1 && bottom > 0; });
    await card.getByRole('button', { name: 'Show all' }).waitFor();
    assert.ok(!await isSeen());
    await card.getByRole('button', { name: 'Show all' }).click();
    assert.ok(await isSeen());
    assert.deepEqual(await hindrances(page), []);
    await card.getByRole('link', { name: '#only-here' }).click();
    await page.getByRole('heading', { level: 1, name: 'Search' }).waitFor();
    await page.locator('.card', { hasText: handle }).waitFor();
    await page.done();
  });

  it('says that there is more of a command than is shown, and shows it on request', async () => {
    const steps = [['short', 'echo 1\necho 2'], ['long', `${many('echo', 60)}\nrm -rf everything`]].map(([id, script]) => ({ id, title: id, do: { tool: 'shell', args: { command: script } } }));
    const run = await house.run({ plan: { title: 'Scripts', steps: [{ id: 'all', parallel: steps }] } });
    for (const size of [{ width: 1280 }, { width: 390, height: 700 }]) {
      const page = await house.page(`/runs/${run}`, size);
      const form = (lines) => page.locator('form.question', { hasText: lines });
      const more = form('rm -rf everything').getByRole('button', { name: 'Show all' });
      await more.waitFor();
      assert.equal(await form('echo 2').first().getByRole('button', { name: 'Show all' }).count(), 0);
      await more.click();
      const asked = form('rm -rf everything').locator('.asked');
      await until(() => asked.evaluate((one) => one.scrollHeight <= one.clientHeight + 1), 'all of it');
      assert.ok(await fits(page));
      assert.deepEqual(await hindrances(page), []);
      await page.done();
    }
    await stop(run);
  });

  it('numbers the arguments of a command that is to be approved', async () => {
    const page = await house.page('/');
    const kinds = await page.evaluate(async () => {
      const { values } = await import('/ui/values.js');
      const block = document.createElement('div');
      block.append(values({ command: ['sh', '-c', 'echo a\nrm x', ''] }, { isWhole: true }));
      document.body.append(block);
      return [...block.querySelectorAll('li')].map((one) => getComputedStyle(one).listStyleType);
    });
    assert.deepEqual(kinds, Array(4).fill('decimal'));
    await page.done();
  });

  it('keeps the state of a run in the first window, however long its goal is', async () => {
    const run = await house.run({ plan: { title: 'At length', goal: many('Sentence of a goal', 200), steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}`, { width: 390, height: 700 });
    const { y } = await page.locator('.state').boundingBox();
    assert.ok(y < 700, `the state is at ${y}`);
    await page.getByRole('button', { name: 'Show all' }).click();
    assert.ok((await page.locator('.state').boundingBox()).y > 700);
    await page.done();
  });

  it('finds a scratchbook among many by its name', async () => {
    const threads = Array.from({ length: 60 }, (_, at) => `conversation-${at}`);
    for (let at = 0; at < threads.length; at += 20) await Promise.all(threads.slice(at, at + 20).map((thread) => item(thread, { title: 'Something' })));
    const page = await house.page('/threads');
    const cards = page.locator('.cards > li');
    await counts(cards, 50);
    await page.getByText(/^Showing 50 of 6\d\.$/).waitFor();
    assert.deepEqual(await hindrances(page), []);
    await page.getByRole('button', { name: 'Show more' }).click();
    await until(async () => (await cards.count()) > 59, 'all of them');
    await page.getByRole('searchbox').fill('CONVERSATION-37');
    await counts(cards, 1);
    assert.equal(new URL(page.url()).searchParams.get('name'), 'CONVERSATION-37');
    await page.getByRole('searchbox').fill('nobody');
    await page.getByText('No scratchbook has this in its name.').waitFor();
    await page.done();
  });

  it('says that a selected part is loading', async () => {
    const run = await house.run({ plan: { title: 'Far away', steps: [{ id: 'a', title: 'Begin', do: echo('near') }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, done').waitFor();
    const held = await hold(page, new RegExp(`/nodes/(?!${run})[^/]+$`), 'GET');
    await node(page, 'Begin, done').click();
    await held.arrives();
    const pane = page.getByRole('article');
    await pane.getByText('Loading…').waitFor();
    await held.pass();
    await pane.getByText('near').first().waitFor();
    assert.equal(await pane.getByText('Loading…').count(), 0);
    assert.equal(await pane.getAttribute('aria-busy'), null);
    await page.done();
  });

  it('pauses with a double click, and does not continue at once', async () => {
    const run = await house.run({ plan: { title: 'Pressed twice', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, running').waitFor();
    const { x, y } = await page.getByRole('button', { name: 'Pause', exact: true }).boundingBox();
    await page.mouse.click(x + 5, y + 5);
    await page.getByRole('button', { name: 'Continue', exact: true }).waitFor();
    const sent = [];
    page.on('request', (request) => { if (request.method() === 'POST') sent.push(request.url()); });
    // The second click of two.
    await page.mouse.down({ clickCount: 2 });
    await page.mouse.up({ clickCount: 2 });
    await page.getByRole('button', { name: 'Limits', exact: true }).click();
    await page.getByRole('dialog').waitFor();
    assert.deepEqual(sent, []);
    await stop(run);
    await page.done();
  });

  it('notices that a connection died without a word', async () => {
    const page = await house.page('/', { quiet: true });
    await page.clock.install();
    let asked = 0;
    // A stream that is open and says nothing.
    await page.addInitScript(() => {
      const real = window.fetch;
      window.fetch = (path, options) => (String(path).endsWith('/events') ? Promise.resolve(new Response(new ReadableStream())) : real(path, options));
    });
    page.on('request', () => {});
    await page.goto(`${house.base}/observations`);
    await page.getByRole('heading', { level: 1, name: 'Scratch page' }).waitFor();
    await page.getByText('No connection').waitFor({ state: 'hidden' });
    await until(async () => { asked++; await page.clock.runFor(20_000); return page.getByText('No connection').isVisible(); }, 'that the server is gone');
    assert.ok(asked > 2, `after ${asked} looks`);
    await page.done();
  });

  it('keeps the end of a list while somebody reads it, and what is marked in a scratchbook', async () => {
    const seen = (content) => house.ask('POST', '/observations', { content, tags: ['reading'] });
    for (let n = 0; n < 60; n += 20) await Promise.all(Array.from({ length: 20 }, (_, at) => seen(`Reading number ${n + at}`)));
    const page = await house.page('/observations?tags=reading');
    const cards = page.locator('.cards > li');
    await counts(cards, 50);
    const last = await cards.last().textContent();
    await Promise.all([seen('Reading that is new'), seen('Reading that is newer')]);
    await page.getByText('Reading that is newer').waitFor();
    await counts(cards, 52);
    assert.equal((await cards.last().textContent()).slice(0, 40), last.slice(0, 40));
    await page.getByRole('button', { name: 'Show more' }).click();
    await counts(cards, 62);
    await item('marked', { title: 'Stays the same' });
    await page.goto(`${house.base}/threads/marked`);
    const view = page.getByRole('region', { name: 'What a model reads' });
    await view.getByText('Stays the same').waitFor();
    await view.evaluate((one) => {
      const text = one.firstChild, at = text.data.indexOf('Stays'), range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + 5);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    });
    await item('marked', { title: 'Comes later' });
    await view.getByText('Comes later').waitFor();
    assert.equal(await page.evaluate(() => String(getSelection())), 'Stays');
    await page.done();
  });

  it('leaves a chosen tab open when the run ends', async () => {
    const run = await house.run({ plan: { title: 'Read to the end', report: 'All of it.', steps: [{ id: 'ask', title: 'Ask', executor: 'human' }] } });
    const read = await house.page(`/runs/${run}`), left = await house.page(`/runs/${run}`);
    await read.getByRole('button', { name: 'Log' }).click();
    await read.getByRole('button', { name: 'Result' }).click();
    const { items: [asks] } = await until(async () => { const asked = await house.ask('GET', `/runs/${run}/questions`); return asked.items.length > 0 && asked; }, 'the question');
    await house.ask('POST', `/questions/${asks.id}/answer`, { answer: 'go' });
    await left.getByRole('article').getByText('All of it.').waitFor();
    await read.getByRole('button', { name: 'Report' }).waitFor();
    assert.equal(await read.getByRole('button', { name: 'Result' }).getAttribute('aria-current'), 'true');
    await left.done();
    await read.done();
  });

  it('ignores values of filters that no field offers', async () => {
    const run = await house.run({ plan: { title: 'Not filtered', steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    const page = await house.page('/?status=bogus');
    await page.locator('.card', { hasText: run }).waitFor();
    await house.ask('POST', '/observations', { content: 'Not filtered either' });
    await page.goto(`${house.base}/observations?status=bogus&order=none`);
    await page.locator('.card', { hasText: 'Not filtered either' }).waitFor();
    await page.done();
  });

  it('keeps the height of the navigation in all views', async () => {
    const page = await house.page('/', { width: 390 });
    const heights = new Set();
    for (const part of ['Scratch page', 'Scratchbooks', 'Turns', 'Search', 'Runs']) {
      await page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();
      await page.getByRole('heading', { level: 1, name: part }).waitFor();
      heights.add((await page.locator('.top').boundingBox()).height);
    }
    assert.equal(heights.size, 1, [...heights].join());
    await page.done();
  });
});
