// Writing and clicking: nothing is lost without a question, and the focus moves on to the next thing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, hindrances, LONG, until } from './house.mjs';

describe('editing and answering', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const focused = (page) => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);
  /** Waits until the focus is on what `pattern` names, and says what else has it. */
  const focuses = async (page, pattern, what) => {
    let named;
    const isThere = until(async () => pattern.test(named = await focused(page)), what);
    await isThere.catch((error) => { throw new Error(`${error.message}, but: ${named}`); });
  };
  const said = (page) => page.locator('#announce').textContent();
  const people = (...titles) => titles.map((title, at) => ({ id: `p${at}`, title, executor: 'human' }));
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const change = async (run, how) => {
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const put = await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body: how(markdown) });
    assert.equal(put.status, 200);
  };

  it('announces a concurrent plan version, keeps the edits and rebases them on it', async () => {
    const steps = [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Second', do: echo(1) }, { id: 'c', title: 'Third', do: echo(2) }];
    const run = await house.run({ plan: { title: 'Of two minds', steps } });
    const page = await house.page(`/runs/${run}?tab=plan`, { quiet: true });
    await page.getByRole('button', { name: 'Edit plan' }).click();
    const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
    const rewrite = async (from, to) => text.fill((await text.inputValue()).replace(from, to));
    await rewrite('Third', 'Third of mine');
    const dialog = page.getByRole('dialog', { name: /^Discard your changes/ });
    await page.getByRole('button', { name: 'Discard changes' }).click();
    await dialog.getByRole('button', { name: 'Never mind' }).click();
    assert.match(await text.inputValue(), /Third of mine/);
    // Different lines: both changes are merged.
    await change(run, (markdown) => markdown.replace('Second', 'Second of theirs'));
    await page.getByText('The plan is now at version 2').waitFor();
    await page.getByText('Changes since version 1').click();
    await page.locator('.diff ins', { hasText: 'Second of theirs' }).waitFor();
    await text.evaluate((one) => { one.selectionStart = one.selectionEnd = one.value.indexOf('Second'); });
    await page.getByRole('button', { name: 'Base my text on version 2' }).click();
    await until(async () => /Second of theirs[^]*Third of mine/.test(await text.inputValue()), 'both are in it');
    await focuses(page, /^Plan in Markdown/, 'the text has the focus');
    assert.equal(await text.evaluate((one) => one.value.slice(0, one.selectionStart)), await text.evaluate((one) => one.value.slice(0, one.value.indexOf('Second'))), 'the caret is where it was');
    // The same lines, reported by the refusal: the text stays as it is.
    await page.route(/plan\/versions/, (route) => route.abort());
    await change(run, (markdown) => markdown.replace('Third', 'Third of theirs'));
    await page.getByRole('button', { name: 'Save plan' }).click();
    await page.getByRole('alert').getByText('version').first().waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.getByRole('button', { name: 'Save plan' }).click();
    await page.getByRole('button', { name: 'Base my text on version 3' }).click();
    await page.getByText('version 3 changed the same lines').waitFor();
    assert.match(await text.inputValue(), /Third of mine/);
    // A request that was held up may have ended last: then the page is pale until the next one.
    await until(() => page.evaluate(() => !document.body.classList.contains('gone')), 'the page knows that its server is there');
    assert.deepEqual(await hindrances(page), []);
    await page.getByRole('button', { name: 'Save plan' }).click();
    await node(page, 'Third of mine').waitFor();
    await node(page, 'Second of theirs').waitFor();
    await until(async () => (await focused(page)) === 'Edit plan', 'the focus is at the button that was pressed first');
    await stop(run);
    await page.done();
  });

  it('keeps a draft answer on navigation and when somebody else answered first', async () => {
    const run = await house.run({ plan: { title: 'Asks twice', steps: [{ id: 'both', parallel: people('Height', 'Width') }] } });
    const page = await house.page(`/runs/${run}`);
    const height = page.getByRole('textbox', { name: /^Answer to: .*Height/s });
    await height.fill('about a metre');
    await page.getByRole('link', { name: 'Search' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Never mind' }).click();
    await node(page, 'Height').click();
    assert.equal(await height.inputValue(), 'about a metre');
    const { items } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${items.find((one) => one.title === 'Height').id}/answer`, { answer: 'two' });
    await height.waitFor({ state: 'detached' });
    const mine = page.getByRole('textbox', { name: 'Your unsent answer' });
    assert.equal(await mine.inputValue(), 'about a metre');
    await page.getByText('Somebody else answered first').first().waitFor();
    assert.deepEqual(await hindrances(page), []);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await mine.waitFor({ state: 'detached' });
    await focuses(page, /^Answer to: .*Width/s, 'the other question has the focus');
    await stop(run);
    await page.done();
  });

  it('removes a question of a cancelled part without waiting for a quiet moment', async () => {
    const run = await house.run({ plan: { title: 'Asks in vain', steps: [{ id: 'all', parallel: [...people('Height'), { id: 'b', title: 'Goes on', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}`);
    const height = page.getByRole('textbox', { name: /^Answer to: .*Height/s });
    await height.waitFor();
    // What the page looks at while nothing happens does not tell it.
    await page.change(new RegExp(`/v1/.*/runs/${run}$`), (told) => ({ ...told, asks: 1 }));
    const { items: [{ node_id: asking }] } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/runs/${run}/cancel`, { node: asking });
    await height.waitFor({ state: 'detached' });
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('refreshes the questions after an answer was refused and keeps its text', async () => {
    const run = await house.run({ plan: { title: 'Asks something else', steps: people('Height') } });
    const page = await house.page('/', { quiet: true });
    let isOld = true;
    await page.change(/\/questions$/, (told) => ({ ...told, items: told.items.map((one) => (isOld ? { ...one, id: one.id.replace(/.$/, (last) => (last === '0' ? '1' : '0')) } : one)) }));
    await page.route('**/answer', async (route) => { isOld = false; await route.continue(); });
    await page.getByRole('link', { name: 'Asks something else' }).click();
    const height = page.getByRole('textbox', { name: /^Answer to: .*Height/s });
    await height.fill('about a metre');
    await height.press('Control+Enter');
    assert.equal(await page.getByRole('textbox', { name: 'Your unsent answer' }).inputValue(), 'about a metre');
    assert.equal(await height.inputValue(), '');
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('limits the visible questions, sends an answer once and focuses the next question', async () => {
    const run = await house.run({ plan: { title: 'Asks much', steps: [{ id: 'all', parallel: people('One', 'Two', 'Three', 'Four', 'Five') }] } });
    const page = await house.page(`/runs/${run}`);
    const forms = page.locator('form.question');
    await page.getByRole('button', { name: 'Show 2 more' }).waitFor();
    await counts(forms, 3);
    await forms.first().getByRole('link', { name: 'One' }).click();
    await page.getByRole('heading', { name: 'One', level: 2 }).waitFor();
    assert.deepEqual(await hindrances(page), []);
    let sent = 0;
    await page.route('**/answer', async (route) => { sent++; await until(() => sentTwice, 'it was pressed twice'); await route.continue(); });
    let sentTwice = false;
    const first = page.getByRole('textbox', { name: /^Answer to: .*One/s });
    await first.fill('1');
    const button = forms.first().getByRole('button', { name: 'Answer' });
    await button.focus();
    await page.keyboard.press('Enter');
    assert.ok(await button.isDisabled());
    await page.keyboard.press('Enter');
    sentTwice = true;
    await first.waitFor({ state: 'detached' });
    await focuses(page, /^Answer to: .*Two/s, 'the next question has the focus');
    assert.equal(sent, 1);
    await until(async () => /^Answered\. 4 more/.test(await said(page)), 'how many are left is told in words');
    await page.getByRole('button', { name: 'Show 1 more' }).click();
    await counts(forms, 4);
    await focuses(page, /^Answer to: .*Five/s, 'what came has the focus');
    // The form that has the focus stays.
    await page.getByRole('button', { name: 'Show fewer' }).press('Enter');
    await counts(forms, 3);
    await stop(run);
    await until(async () => /has ended: cancelled/.test(await said(page)), 'the end is told in words');
    await page.done();
  });

  it('ignores an earlier list of questions that arrives after a later one', async () => {
    const run = await house.run({ plan: { title: 'Asks twice', steps: [{ id: 'all', parallel: people('One', 'Two') }] } });
    const page = await house.page(`/runs/${run}`);
    const forms = page.locator('form.question');
    await counts(forms, 2);
    // The first request after this is answered with what was asked now, but not before the answer is known.
    const before = await house.ask('GET', `/runs/${run}/questions`);
    let isFirst = true, arrived = false;
    await page.route(/\/questions$/, async (route) => {
      if (!isFirst) return route.continue();
      isFirst = false;
      await until(async () => (await forms.count()) === 1, 'the later list');
      await route.fulfill({ json: before });
      arrived = true;
      return undefined;
    });
    // The page asks again when it hears of something, and when it has sent an answer.
    await house.ask('POST', `/runs/${run}/pause`, {});
    await until(() => !isFirst, 'a list was asked for');
    const first = page.getByRole('textbox', { name: /^Answer to: .*One/s });
    await first.fill('1');
    await first.press('Control+Enter');
    await until(() => arrived, 'the earlier list');
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await forms.count(), 1);
    assert.match(await said(page), /^Answered\. 1 more/);
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('keeps draft and focus when the time to answer changes', async () => {
    const run = await house.run({ plan: { title: 'Asks for a while', steps: people('Height') } });
    const page = await house.page(`/runs/${run}`);
    const height = page.getByRole('textbox', { name: /^Answer to: .*Height/s });
    await height.fill('about a');
    await height.focus();
    // A run that goes on beside the question ends by itself one day, and no longer does while it only waits.
    await page.change(/\/questions$/, (told) => ({ ...told, items: told.items.map((one) => ({ ...one, until: new Date(Date.now() + 600_000).toISOString() })) }));
    await house.ask('POST', `/runs/${run}/pause`, {});
    await page.getByText(/^The time to answer ends in 10 min\./).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.keyboard.type(' metre');
    assert.equal(await height.inputValue(), 'about a metre');
    await house.ask('POST', `/runs/${run}/continue`, {});
    await page.getByText(/^The time to answer ends/).waitFor({ state: 'detached' });
    assert.equal(await height.inputValue(), 'about a metre');
    await stop(run);
    await page.done();
  });

  it('confirms a permanent approval and focuses the tree after the last question', async () => {
    const run = await house.run({ plan: { title: 'One command', steps: [{ id: 'say', title: 'Say hello', do: { tool: 'shell', args: { argv: ['echo', 'hello'] } } }, { id: 'b', title: 'After', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Always allow shell' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Never mind' }).click();
    // The part that waits says what it would run.
    await node(page, 'Say hello, waiting for approval').click();
    await page.getByRole('article').getByText('waiting for approval').waitFor();
    await page.getByRole('article').getByText(/^To be approved: shell/).waitFor();
    await page.getByRole('article').getByText('["echo","hello"]').waitFor();
    await page.getByRole('button', { name: 'Approve' }).press('Enter');
    await node(page, 'After, running').waitFor();
    await page.getByRole('article').getByText('To be approved').waitFor({ state: 'detached' });
    await focuses(page, /^Say hello/, 'the tree has the focus');
    await stop(run);
    await page.done();
  });

  it('offers no permanent approval for repeating a call whose driver died', async () => {
    const run = await house.run({ plan: { title: 'Once more', steps: [{ id: 'say', title: 'Say hello', do: { tool: 'shell', args: { argv: ['echo', 'hello'] } } }] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Always allow shell' }).waitFor();
    await page.change(/\/questions$/, (told) => ({ ...told, items: told.items.map((one) => ({ ...one, id: `${one.id}-again`, call: { ...one.call, again: true } })) }));
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Always allow' }).count(), 0);
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('keeps the selected tab in the URL, goes back to the tree and links a fork to its origin', async () => {
    const run = await house.run({ plan: { title: 'There and back', steps: [{ id: 'a', title: 'Before', do: echo(1) }, { id: 'b', title: 'After', do: echo(2) }] } });
    await until(async () => (await house.ask('GET', `/runs/${run}`)).status === 'ok', 'it has ended');
    const page = await house.page('/', { width: 400 });
    await page.getByRole('link', { name: 'There and back' }).click();
    await node(page, 'After').click();
    await page.getByRole('heading', { name: 'After', level: 2 }).waitFor();
    await page.getByRole('button', { name: 'Log' }).click();
    assert.match(page.url(), /node=.*tab=log/);
    await page.reload();
    await page.locator('nav button[aria-current]').filter({ hasText: 'Log' }).waitFor();
    await page.goBack();
    await node(page, 'After').waitFor();
    await node(page, 'After').click();
    await page.getByRole('button', { name: 'Tree' }).click();
    await node(page, 'Before').waitFor();
    await page.goForward();
    await page.getByRole('button', { name: 'Fork from here' }).click();
    await page.getByRole('button', { name: 'Start fork' }).click();
    await page.waitForURL((url) => url.pathname !== `/runs/${run}`);
    await until(async () => page.evaluate(() => document.activeElement.id === 'view'), 'the fork has the focus');
    await page.getByText('forked from').getByRole('link', { name: run }).click();
    await page.waitForURL((url) => url.pathname === `/runs/${run}`);
    await page.done();
  });

  const command = (title) => ({ id: title, title, optional: true, do: { tool: 'shell', args: { argv: ['echo', title] } } });
  const reason = (page, what) => page.getByRole('textbox', { name: new RegExp(`^Reason for rejecting: .*${what}`, 's') });
  const isAt = (page, what) => focuses(page, new RegExp(what, 's'), `${what} has the focus`);
  /** Returns the decisions on approvals, as they are sent. */
  const answers = (page) => {
    const sent = [];
    page.on('request', (request) => { if (request.url().includes('/approvals/')) sent.push(request.postDataJSON()); });
    return sent;
  };

  it('ignores repeated or held keys for the next approval', async () => {
    const run = await house.run({ plan: { title: 'Asks for much', steps: [{ id: 'all', parallel: ['one', 'two', 'three', 'four'].map(command) }] } });
    const page = await house.page(`/runs/${run}`);
    const sent = answers(page);
    const form = (what) => page.locator('form.question', { has: reason(page, what) });
    await page.getByRole('button', { name: 'Show 1 more' }).press('Enter');
    await isAt(page, '^Reason for rejecting: .*four');
    await reason(page, 'one').fill('not this');
    await page.keyboard.down('Enter');
    await reason(page, 'one').waitFor({ state: 'detached' });
    await isAt(page, '^Reason for rejecting: .*two');
    // The key is held, and pressed again.
    await page.keyboard.down('Enter');
    await page.keyboard.up('Enter');
    await page.keyboard.press('Enter');
    // Somebody else decides what this user is about to reject.
    await form('two').getByRole('button', { name: 'Reject' }).focus();
    const { items } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/approvals/${items.find((one) => one.title === 'two').id}`, { approve: false });
    await isAt(page, '^Reason for rejecting: .*three');
    await page.keyboard.press('Enter');
    // A key that is held when the focus reaches an Approve button does not press it.
    await page.keyboard.down('Enter');
    const yes = form('three').getByRole('button', { name: 'Approve' });
    await yes.focus();
    await page.keyboard.down('Enter');
    await page.keyboard.up('Enter');
    assert.ok(await yes.isEnabled());
    await page.keyboard.press('Enter');
    await reason(page, 'three').waitFor({ state: 'detached' });
    await isAt(page, '^Reason for rejecting: .*four');
    assert.deepEqual(await hindrances(page), []);
    assert.deepEqual(sent, [{ approve: false, reason: 'not this' }, { approve: true }]);
    await stop(run);
    await page.done();
  });

  it('sends no approval when navigation interrupts its confirmation', async () => {
    const run = await house.run({ plan: { title: 'Of one yes', steps: [command('one')] } });
    const page = await house.page('/');
    const sent = answers(page);
    await page.getByRole('link', { name: 'Of one yes' }).click();
    await reason(page, 'one').fill('it would');
    await page.getByRole('button', { name: 'Always allow shell' }).click();
    await page.getByRole('dialog', { name: 'Always allow?' }).waitFor();
    await page.goBack();
    await page.getByRole('dialog', { name: /^Discard your answer/ }).getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor();
    await page.getByRole('link', { name: /Of one yes.*waiting for you/ }).waitFor();
    assert.deepEqual(sent, []);
    await stop(run);
    await page.done();
  });

  it('keeps draft and focus when new questions appear above it', async () => {
    const first = { id: 'line', sequence: [{ id: 'gate', title: 'Gate', executor: 'human' }, { id: 'both', parallel: people('Height', 'Width') }] };
    const run = await house.run({ plan: { title: 'Asks more and more', steps: [{ id: 'all', parallel: [first, ...['one', 'two', 'three'].map(command)] }] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Show 1 more' }).waitFor();
    await reason(page, 'two').pressSequentially('it would ');
    const { items } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${items.find((one) => one.title === 'Gate').id}/answer`, { answer: 'go' });
    await page.getByRole('textbox', { name: /^Answer to: .*Width/s }).waitFor();
    await isAt(page, '^Reason for rejecting: .*two');
    await page.keyboard.type('spoil everything');
    assert.equal(await reason(page, 'two').inputValue(), 'it would spoil everything');
    await page.getByRole('button', { name: 'Show 1 more' }).click();
    await isAt(page, '^Reason for rejecting: .*three');
    assert.equal(await reason(page, 'two').inputValue(), 'it would spoil everything');
    await stop(run);
    await page.done();
  });

  it('shows a saved plan in its place after another part was selected', async () => {
    const run = await house.run({ plan: { title: 'Saved slowly', steps: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Second', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}?tab=plan`);
    const held = [];
    let isHeld = null;
    await page.route(/\/plan$/, (route) => (route.request().method() === isHeld ? held.push(route) : route.fallback()));
    for (const [method, title] of [['GET', 'Second of mine'], ['PUT', 'Second of mine, too']]) {
      await page.getByRole('button', { name: 'Edit plan' }).click();
      const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
      await text.fill((await text.inputValue()).replace(/Second[^{\n]*/, `${title} `));
      isHeld = method;
      await page.getByRole('button', { name: 'Save plan' }).click();
      await until(() => held.length > 0, 'it is under way');
      await node(page, 'Begin').click();
      if (method === 'PUT') await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
      await page.getByRole('heading', { name: 'Begin', level: 2 }).waitFor();
      isHeld = null;
      const over = Promise.all(held.map((route) => page.waitForResponse((response) => response.request() === route.request())));
      for (const route of held.splice(0)) await route.continue();
      for (const response of await over) await response.finished();
      await node(page, title).waitFor();
      await page.getByRole('article').locator('code', { hasText: 'wait' }).waitFor();
      await page.evaluate(() => new Promise((done) => setTimeout(done, 0)));
      await counts(page.getByRole('button', { name: 'Edit plan' }), 0);
      await node(page, 'Saved slowly').click();
      await page.getByRole('button', { name: 'Plan', exact: true }).click();
    }
    await stop(run);
    await page.done();
  });

  it('sends an answer and starts a fork once if the reply is lost', async () => {
    const run = await house.run({ plan: { title: 'Lost replies', steps: [...people('Height'), { id: 'z', title: 'End', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    const lose = async (at, many) => page.route(at, async (route) => { await route.fetch(); return many-- > 0 ? route.abort() : route.fallback(); });
    await lose(/\/answer$/, 1);
    const height = page.getByRole('textbox', { name: /^Answer to: .*Height/s });
    await height.fill('two metres');
    await height.press('Control+Enter');
    await until(async () => /^Answered\./.test(await said(page)), 'it is told');
    assert.equal(await page.locator('.question').count(), 0);
    await node(page, 'End, running').click();
    const runs = async () => (await house.ask('GET', '/runs?limit=100')).items.length, before = await runs();
    // Its reply is lost twice, and somebody presses again.
    await lose(/\/fork$/, 2);
    const fork = async () => {
      await page.getByRole('button', { name: 'Fork from here' }).click();
      await page.getByRole('button', { name: 'Start fork' }).click();
    };
    await fork();
    await page.getByRole('alert').getByText('did not answer').waitFor();
    // What is done meanwhile does not make another fork of it.
    for (const [name, then] of [['Pause', 'Continue'], ['Continue', 'Pause']]) {
      await page.getByRole('button', { name, exact: true }).click();
      await page.getByRole('button', { name: then, exact: true }).waitFor();
    }
    await fork();
    await page.waitForURL((url) => url.pathname !== `/runs/${run}`);
    assert.equal(await runs(), before + 1);
    await page.unrouteAll({ behavior: 'wait' });
    for (const one of [run, new URL(page.url()).pathname.split('/').pop()]) await stop(one);
    await page.done();
  });

  it('pauses again what was continued after a lost reply', async () => {
    const run = await house.run({ plan: { title: 'Lost pause', steps: [{ id: 'z', title: 'End', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    const button = (name) => page.getByRole('button', { name, exact: true });
    let many = 2;
    await page.route(/\/pause$/, async (route) => { await route.fetch(); return many-- > 0 ? route.abort() : route.fallback(); });
    await button('Pause').click();
    for (const name of ['Continue', 'Pause', 'Continue']) await button(name).click();
    await button('Pause').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('asks before text that was kept is lost', async () => {
    const run = await house.run({ plan: { title: 'Kept text', steps: [...people('Height'), { id: 'z', title: 'End', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('textbox', { name: /^Answer to: .*Height/s }).fill('about a metre');
    await stop(run);
    await page.getByRole('textbox', { name: 'Your unsent answer' }).waitFor();
    await page.getByRole('link', { name: 'Search' }).click();
    await page.getByRole('dialog', { name: /^Discard your answer/ }).getByRole('button', { name: 'Never mind' }).click();
    // It has just come where the button to send was: a click that was aimed at that one drops nothing.
    const dismiss = page.getByRole('button', { name: 'Dismiss' });
    await until(async () => { await dismiss.click(); return (await dismiss.count()) === 0; }, 'it can be dismissed');
    await page.getByRole('link', { name: 'Search' }).click();
    await page.getByRole('heading', { name: 'Search', level: 1 }).waitFor();
    await page.done();
  });

  it('gives the focus back to a button that was replaced while its dialog was open', async () => {
    const run = await house.run({ plan: { title: 'Behind a dialog', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Limits', exact: true }).click();
    await page.getByRole('dialog').getByLabel(/^Nodes/).fill('999');
    const before = await page.locator('header .buttons button', { hasText: 'Limits' }).elementHandle();
    await house.ask('POST', `/runs/${run}/pause`, {});
    await until(() => before.evaluate((one) => !one.isConnected), 'it was replaced');
    await page.keyboard.press('Escape');
    await focuses(page, /^Limits$/, 'the button has the focus');
    await stop(run);
    await page.done();
  });

  it('announces a started fork without leaving the current page', async () => {
    const run = await house.run({ plan: { title: 'Forked slowly', steps: [{ id: 'a', title: 'Before', do: echo(1) }, { id: 'b', title: 'After', do: echo(2) }] } });
    await until(async () => (await house.ask('GET', `/runs/${run}`)).status === 'ok', 'it has ended');
    const page = await house.page(`/runs/${run}`);
    const held = [];
    await page.route(/\/fork$/, (route) => held.push(route));
    await node(page, 'After').click();
    await page.getByRole('button', { name: 'Fork from here' }).click();
    await page.getByRole('button', { name: 'Start fork' }).click();
    await until(() => held.length > 0, 'it is under way');
    await page.getByRole('link', { name: 'Search' }).click();
    await page.getByRole('heading', { name: 'Search', level: 1 }).waitFor();
    await held[0].continue();
    await until(async () => /^Fork started: r\d+\.$/.test(await said(page)), 'it is told');
    assert.match(page.url(), /\/search$/);
    await page.done();
  });
});
