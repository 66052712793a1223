// Runs in the browser: the list, a live run, and what people do with it.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, fits, hindrances, LONG, until } from './house.mjs';

const PLAN = {
  title: 'A look around',
  steps: [
    { id: 'first', title: 'Note what is here', do: echo('one') },
    { id: 'looks', parallel: [{ id: 'left', title: 'Look to the left', do: LONG }, { id: 'right', title: 'Look to the right', do: LONG }] },
    { id: 'last', title: 'Put it together', do: echo('end') },
  ],
};
const ASKS = { version: 1, cues: [
  { role: 'planner', contains: ['Decide how', '# Task\nTidy the shed'], json: { decision: 'plan', reason: 'two things', steps: ['Look around', 'Burn it all'].map((title, at) => ({ id: `s${at}`, title, criteria: ['It is done.'] })) }, times: 'always' },
  { role: 'planner', contains: ['Decide how', 'Paint the door'], json: { decision: 'execute', reason: 'one thing', action: { tool: 'ask_person', args: { question: 'Which colour?' } } }, times: 'always' },
  { role: 'planner', contains: ['Decide how', 'Fetch the milk'], json: { decision: 'execute', reason: 'one thing', action: { tool: 'shell', args: { argv: ['echo', 'milk'] } } }, times: 'always' },
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

  it('adds a new run to the open list', async () => {
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

  it('shows a live run, its branches and results, and the cancellation of a part', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Note what is here, done').waitFor();
    await node(page, 'Look to the left, running').waitFor();
    await node(page, 'Note what is here').click();
    await page.getByRole('article').getByText('one').first().waitFor();
    await node(page, 'A look around').first().click();
    await page.getByRole('button', { name: 'Branches' }).click();
    const article = page.getByRole('article');
    await article.getByRole('link', { name: /^Look to the right/ }).waitFor();
    const branch = article.getByRole('listitem').filter({ has: page.getByRole('link', { name: /^Note what is here/ }) });
    assert.match(await branch.innerText(), /^Note what is here · done · first\s.*done: 3 characters/s);
    assert.doesNotMatch(await article.innerText(), /last change/);
    await branch.getByRole('link').click();
    await page.getByRole('heading', { name: 'Note what is here', level: 1 }).waitFor();
    await page.goBack();
    await node(page, 'Look to the left').click();
    await page.getByRole('button', { name: 'Cancel this part' }).click();
    await page.getByRole('button', { name: 'Yes, cancel' }).click();
    await node(page, 'Look to the left, cancelled').waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await node(page, 'A look around, cancelled').waitFor();
    await ended(run, 'cancelled');
    await page.done();
  });

  it('pauses and continues a run', async () => {
    const run = await house.run({ plan: { title: 'Slowly', steps: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Go on', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Begin, running').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    const paused = async () => JSON.stringify(await house.ask('GET', `/trace?run=${run}&limit=1000`)).includes('paused');
    await until(paused, 'the run is paused');
    await page.getByRole('banner').or(page.getByRole('main')).getByText('paused').first().waitFor();
    await page.getByRole('button', { name: 'Continue' }).click();
    await until(async () => JSON.stringify(await house.ask('GET', `/trace?run=${run}&limit=1000`)).includes('continued'), 'the run goes on');
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('sends a multi-line answer to a question with Control and Enter', async () => {
    const run = await house.run({ goal: 'Paint the door' });
    const page = await house.page(`/runs/${run}`);
    const field = page.getByRole('textbox', { name: 'Answer to: Which colour?' });
    await field.fill('blue');
    await field.press('Enter');
    await field.pressSequentially('or nearly so');
    assert.equal(await field.inputValue(), 'blue\nor nearly so');
    await field.press('Control+Enter');
    await field.waitFor({ state: 'detached' });
    await ended(run, 'ok');
    await page.done();
  });

  it('shows a multi-line question unchanged and accepts a multi-line answer', async () => {
    const steps = [{ id: 'look', title: 'Measure', executor: 'human', description: 'First the length\n- then the width' }];
    const run = await house.run({ plan: { title: 'By hand', steps } });
    const page = await house.page(`/runs/${run}`, { width: 400 });
    const form = page.locator('form.question');
    await form.waitFor();
    assert.match(await form.locator('p').innerText(), /First the length\n- then the width/);
    assert.ok(await fits(page), 'the question is wider than the window');
    assert.deepEqual(await hindrances(page), []);
    await form.getByRole('textbox').fill('three\nfour');
    await form.getByRole('button', { name: 'Answer' }).click();
    await form.waitFor({ state: 'detached' });
    await ended(run, 'ok');
    const { result } = await house.ask('GET', `/runs/${run}/nodes/look`);
    assert.match(JSON.stringify(result), /three\\nfour/);
    await page.done();
  });

  it('asks for approval of a call and accepts rejection with a reason or approval', async () => {
    for (const [says, status] of [['Reject', 'failed'], ['Approve', 'ok']]) {
      const run = await house.run({ plan: COMMAND });
      const page = await house.page(`/runs/${run}`);
      const form = page.locator('form', { hasText: 'waiting for approval' });
      await form.waitFor();
      if (says === 'Reject') await form.getByRole('textbox').fill('not today');
      await form.getByRole('button', { name: says }).click();
      await form.waitFor({ state: 'detached' });
      await ended(run, status);
      await page.done();
    }
  });

  it('rejects a call or a plan on Enter in the reason field only if a reason is given', async () => {
    for (const body of [{ plan: COMMAND }, { goal: 'Tidy the shed', plan_gate: 'root' }]) {
      const run = await house.run(body);
      const page = await house.page(`/runs/${run}`);
      const form = page.locator('form', { hasText: 'waiting for approval' });
      const asked = await form.locator('p').textContent();
      const said = [];
      page.on('request', (request) => { if (request.url().includes('/approvals/')) said.push(request.postDataJSON()); });
      const reason = form.getByRole('textbox');
      await reason.press('Enter');
      await reason.fill('it would spoil everything');
      await reason.press('Enter');
      await form.filter({ hasText: asked }).waitFor({ state: 'detached' });
      assert.deepEqual(said, [{ approve: false, reason: 'it would spoil everything' }]);
      await house.ask('POST', `/runs/${run}/cancel`, {}).catch(() => {});
      await page.done();
    }
  });

  it('escapes invisible and direction-changing characters of a command', async () => {
    const argv = ['echo', 'a\u202etxt.exe', 'b\u200bc\u{e0041}', '\u3164', 'c\u00a0d\u2800'];
    const run = await house.run({ plan: { title: 'Not what it seems', steps: [{ id: 'say', title: 'Say\u202e it', do: { tool: 'shell', args: { argv } } }] } });
    const page = await house.page(`/runs/${run}`);
    const form = page.locator('form.question');
    await form.waitFor();
    const asked = await form.innerText();
    for (const seen of ['a\\u202etxt.exe', 'b\\u200bc\\u{e0041}', '\\u3164', 'c\\u00a0d\\u2800', 'Say\\u202e it']) assert.ok(asked.includes(seen), `${seen}: ${asked}`);
    assert.doesNotMatch(asked, /[\p{Cf}\u3164]/u);
    await form.getByRole('button', { name: 'Approve' }).click();
    await ended(run, 'ok');
    await until(async () => (await page.locator('[role=treeitem] .call').allInnerTexts()).some((call) => call.includes('a\\u202etxt.exe')), 'the call in the tree');
    await node(page, 'Say').last().click();
    await page.getByRole('article').locator('code', { hasText: 'a\\u202etxt.exe' }).waitFor();
    await page.done();
  });

  it('lists the usage of a run and links it to the trace of its turn', async () => {
    const run = await house.run({ goal: 'Paint the door' });
    const page = await house.page('/');
    await page.getByRole('link', { name: /Paint the door.*waiting for you/ }).waitFor();
    const { items: [asks] } = await until(async () => {
      const answer = await house.ask('GET', `/runs/${run}/questions`);
      return answer.items.length > 0 && answer;
    }, 'it asks');
    await house.ask('POST', `/questions/${asks.id}/answer`, { answer: 'Red.' });
    await ended(run, 'ok');
    const { spent } = await house.ask('GET', `/runs/${run}`);
    assert.ok(spent.tokens_in > 0, JSON.stringify(spent));
    await page.locator('a.card', { hasText: /Paint the door.*done.* tok · cost unknown/ }).first().click();
    await page.getByRole('link', { name: 'Turn trace' }).click();
    await page.getByRole('heading', { name: 'Paint the door', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'a run', exact: true }).click();
    await node(page, 'Paint the door, done').waitFor();
    await page.done();
  });

  it('shows a not-found page with a link to all runs', async () => {
    for (const look of [{}, { width: 400, dark: true }]) {
      const page = await house.page('/nothing/here', { quiet: true, ...look });
      await page.getByRole('heading', { name: 'Page not found' }).waitFor();
      assert.ok(await fits(page));
      assert.deepEqual(await hindrances(page), []);
      await page.getByRole('link', { name: 'all runs' }).click();
      await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor();
      await page.done();
    }
  });

  it('filters the list of runs by status and title and marks runs that wait for approval', async () => {
    const slow = await house.run({ plan: { title: 'Still at it', steps: [{ id: 'a', do: LONG }] } });
    const asks = await house.run({ plan: { ...COMMAND, title: 'Wants a yes' } });
    const page = await house.page('/');
    await page.getByRole('link', { name: /Wants a yes.*waiting for you/ }).waitFor();
    await page.getByRole('button', { name: 'cancelled' }).click();
    await page.getByRole('link', { name: 'Still at it' }).waitFor({ state: 'detached' });
    assert.match(page.url(), /status=cancelled/);
    for (const run of [slow, asks]) await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.getByRole('link', { name: 'Still at it' }).waitFor();
    await page.getByRole('searchbox').fill('wants');
    await page.getByRole('link', { name: 'Still at it' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Wants a yes' }).waitFor();
    await page.done();
  });

  it('shows result, criteria, usage and linked evidence of a part', async () => {
    const steps = [
      { id: 'look', title: 'Look around', plan: { steps: [{ id: 'deep', title: 'Look inside', criteria: [{ text: 'Something is said.', check: 'result_nonempty' }], do: echo('what is inside') }] } },
    ];
    const run = await house.run({ plan: { title: 'Evidence', budget: { tool_calls: 10 }, steps } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`);
    const about = page.getByRole('article');
    await page.getByRole('button', { name: 'Result' }).click();
    await about.getByText('1 of 10 tool calls').waitFor();
    await node(page, 'Look around').click();
    await about.getByRole('link', { name: 'Look inside' }).click();
    await page.getByRole('heading', { name: 'Look inside' }).waitFor();
    await about.getByText('Something is said.').waitFor();
    await about.getByText('what is inside').first().waitFor();
    await about.getByText('1 tool call').waitFor();
    assert.match(page.url(), /node=/);
    await page.reload();
    await page.getByRole('heading', { name: 'Look inside' }).waitFor();
    await page.done();
  });

  it('changes limits of a running run but never below what is used', async () => {
    const run = await house.run({ plan: { title: 'Short of calls', budget: { tool_calls: 10 }, steps: PLAN.steps } });
    const page = await house.page(`/runs/${run}`);
    const about = page.getByRole('article');
    const limits = async () => {
      await page.getByRole('button', { name: 'Limits' }).click();
      return page.getByRole('dialog', { name: 'Limits of the run' });
    };
    let dialog = await limits();
    await dialog.getByLabel(/Tool calls/).fill('25');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await about.getByText(/of 25 tool calls/).waitFor();
    dialog = await limits();
    assert.equal(await dialog.getByLabel(/Tool calls/).inputValue(), '25');
    // Enter saves the change.
    await dialog.getByLabel(/Tool calls/).fill('30');
    await dialog.getByLabel(/Tool calls/).press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await about.getByText(/of 30 tool calls/).waitFor();
    dialog = await limits();
    // A value that is not an exact number is not sent either.
    await dialog.getByLabel(/Tool calls/).fill('1e30');
    await dialog.getByRole('button', { name: 'Save' }).click();
    assert.ok(await dialog.getByLabel(/Tool calls/).evaluate((one) => one.validity.rangeOverflow));
    // A limit below what is used is not sent.
    await dialog.getByLabel(/Tool calls/).fill('0');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('button', { name: 'Never mind' }).click();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.getByRole('button', { name: 'Limits' }).waitFor({ state: 'detached' });
    await page.done();
  });

  it('edits the plan of a running run, shows the difference between versions and refuses a stale edit', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Look to the left, running').waitFor();
    await page.getByRole('button', { name: 'Plan', exact: true }).click();
    const edit = async (change) => {
      await page.getByRole('button', { name: 'Edit plan' }).click();
      const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
      await text.fill(change(await text.inputValue()));
      return page.getByRole('button', { name: 'Save plan' });
    };
    await (await edit((text) => text.replace('Put it together', 'Put all of it together'))).click();
    await page.getByText('Version 2').first().waitFor();
    await page.locator('.diff ins', { hasText: 'Put all of it together' }).waitFor();
    await page.locator('.diff del', { hasText: 'Put it together' }).waitFor();
    await node(page, 'Put all of it together').waitFor();
    const save = await edit((text) => text.replace('Put all of it together', 'Nothing any more'));
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const other = await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body: markdown.replace('all of it', 'everything') });
    assert.equal(other.status, 200);
    await save.click();
    await page.getByRole('alert').getByText('version').first().waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done().catch((error) => assert.match(error.message, /409/));
  });

  it('orders the tree like the edited plan', async () => {
    const steps = ['one', 'two', 'three'].map((title, at) => ({ id: title, title, do: at === 0 ? LONG : echo(at) }));
    const run = await house.run({ plan: { title: 'Another order', steps } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'one, running').waitFor();
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const [one, two, three] = markdown.split(/^(?=- )/m);
    const added = two.replaceAll('two', 'new');
    const put = await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body: [one, added, three, two].join('') });
    assert.equal(put.status, 200);
    const order = async (shown) => (await shown.getByRole('treeitem').evaluateAll((rows) => rows.map((row) => `${row.ariaPosInSet} ${row.querySelector('.title').textContent}`))).join();
    const wanted = '1 Another order,1 one,2 new,3 three,4 two';
    await until(async () => (await order(page)) === wanted, 'the new order where the run is looked at');
    await page.reload();
    await node(page, 'two').waitFor();
    assert.equal(await order(page), wanted);
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('asks for confirmation before discarding plan edits', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page('/');
    await page.locator(`a[href="/runs/${run}"]`).click();
    await node(page, 'Look to the left, running').waitFor();
    await page.getByRole('button', { name: 'Plan', exact: true }).click();
    await page.getByRole('button', { name: 'Edit plan' }).click();
    const text = page.getByRole('textbox', { name: 'Plan in Markdown' });
    await text.fill('half of it');
    const dialog = page.getByRole('dialog', { name: /^Discard your changes/ });
    const leave = [
      () => node(page, 'Note what is here').click(), () => page.getByRole('button', { name: 'Result' }).click(),
      () => page.getByRole('link', { name: 'Search' }).click(), () => page.goBack(),
    ];
    for (const go of leave) {
      await go();
      await dialog.getByRole('button', { name: 'Never mind' }).click();
      assert.equal(await text.inputValue(), 'half of it');
    }
    await page.getByRole('link', { name: 'Skip to content' }).press('Enter');
    await until(() => page.evaluate(() => document.activeElement.id === 'view'), 'the content has the focus');
    await node(page, 'A look around').click();
    assert.equal(await text.inputValue(), 'half of it');
    await node(page, 'Note what is here').click();
    await dialog.getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('heading', { name: 'Note what is here' }).waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('shows a paused run everywhere and updates the budget meter of a part live', async () => {
    const part = { id: 'part', title: 'A part', budget: { tool_calls: 4 }, plan: [{ id: 'a', title: 'a', do: echo(1) }, { id: 'b', title: 'b', do: echo(2) }, { id: 'c', title: 'c', do: LONG }] };
    const run = await house.run({ plan: { title: 'With a budget', steps: [{ id: 'gate', title: 'Gate', executor: 'human' }, part] } });
    const page = await house.page(`/runs/${run}`);
    const form = page.locator('form.question');
    await form.waitFor();
    const meter = node(page, 'A part').getByRole('img');
    assert.equal(await meter.getAttribute('aria-label'), '0% of its budget');
    await form.getByRole('textbox').fill('go');
    await form.getByRole('button', { name: 'Answer' }).click();
    await node(page, 'c, running').waitFor();
    await until(async () => /^[5-9]\d% of its budget$/.test(await meter.getAttribute('aria-label')), 'the meter moves');
    await house.ask('PATCH', `/runs/${run}/limits?node=part`, { tool_calls: 40 });
    await until(async () => /^[5-8]% of its budget$/.test(await meter.getAttribute('aria-label')), 'the meter knows the new limit');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('article').getByText('paused').waitFor();
    await node(page, 'With a budget, paused').waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await ended(run, 'cancelled');
    await page.done();
  });

  it('forks a run from one of its parts', async () => {
    const run = await house.run({ plan: { title: 'Once more', steps: [{ id: 'a', title: 'Before', do: echo(1) }, { id: 'b', title: 'After', do: echo(2) }] } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`);
    await node(page, 'After').click();
    await page.getByRole('button', { name: 'Fork from here' }).click();
    await page.getByRole('button', { name: 'Start fork' }).click();
    await page.waitForURL((url) => url.pathname !== `/runs/${run}`);
    await node(page, 'After, done').waitFor();
    await page.done();
  });

  it('forks a run that a limit stopped, with higher limits', async () => {
    const steps = [1, 2].map((n) => ({ id: `s${n}`, title: `Say ${n}`, do: echo(n) }));
    const run = await house.run({ plan: { title: 'Too much', budget: { tool_calls: 1 }, steps } });
    await ended(run, 'partial');
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('button', { name: 'Fork with higher limits' }).click();
    await page.getByRole('button', { name: 'Start fork' }).click();
    await page.waitForURL((url) => url.pathname !== `/runs/${run}`);
    await node(page, 'Say 1, done').waitFor();
    await page.getByRole('button', { name: 'Limits' }).click();
    await page.getByLabel(/Tool calls/).fill('5');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
    await node(page, 'Say 2, done').waitFor();
    await page.done();
  });

  it('supports navigating the tree by keyboard alone', async () => {
    const run = await house.run({ plan: PLAN });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Look to the right, running').waitFor();
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

  it('fits its window and passes accessibility checks on run pages, light and dark', async () => {
    const run = await house.run({ plan: { ...PLAN, title: `A title without an end ${'and on '.repeat(20)}${'x'.repeat(80)}`, steps: [PLAN.steps[0]] } });
    await ended(run, 'ok');
    for (const look of [{ width: 400 }, { width: 1280, dark: true }]) {
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
    const twist = await page.locator('.twist').first().boundingBox();
    assert.ok(twist.width >= 24 && twist.height >= 24, JSON.stringify(twist));
    assert.ok((await page.locator('h1').boundingBox()).height < 120, 'a long title is cut');
    await page.getByRole('button', { name: 'Show all' }).first().click();
    assert.ok((await page.locator('h1').boundingBox()).height > 120, 'and shown on request');
    // The selection is visible with forced colours.
    await page.emulateMedia({ forcedColors: 'active' });
    const ground = (of) => page.locator(of).evaluate((one) => getComputedStyle(one).backgroundColor);
    assert.notEqual(await ground('[role=treeitem][aria-selected=true]'), await ground('[role=treeitem][aria-selected=false]'));
    await page.done();
  });

  it('renders only the visible rows of a tree of ten thousand nodes', async () => {
    const items = Array.from({ length: 9_998 }, (_, at) => at + 1);
    const plan = { title: 'Many', budget: { nodes: 10_000, children: 10_000 }, steps: [{ id: 'each', title: 'Each of them', for_each: items, as: 'n', max_items: 10_000, step: { id: 'one', title: 'Number {{ n }}', do: echo('{{ n }}') } }] };
    house.file('many.json', plan);
    house.folio('run', '--plan', 'many.json', '--quiet');
    const page = await house.page('/');
    await page.getByRole('link', { name: 'Many' }).click();
    await page.getByText('of 9\u202f999 nodes').waitFor();
    const rows = () => page.getByRole('treeitem').count();
    await node(page, 'Each of them').click();
    await page.keyboard.press('ArrowRight');
    await node(page, 'Number 1,').waitFor();
    assert.ok(await rows() < 120, `${await rows()} rows are there`);
    await page.keyboard.press('End');
    await node(page, 'Number 9998').waitFor();
    assert.ok(await rows() < 120, `${await rows()} rows are there`);
    assert.equal(await node(page, 'Number 9998').getAttribute('aria-posinset'), '9998');
    await page.getByRole('searchbox', { name: 'Filter tree' }).fill('no part has this');
    await page.getByText('No matching parts.').waitFor();
    await page.getByRole('searchbox', { name: 'Filter tree' }).fill('Number 5000');
    await node(page, 'Number 5000').click();
    await page.getByRole('heading', { name: 'Number 5000' }).waitFor();
    assert.ok(await rows() < 10, 'what does not fit is out of sight');
    await page.done();
  });

  it('finds an old run by its title', async () => {
    // After those that the list shows at first.
    const end = Date.now() + 60_000;
    for (let known = 0; known <= 50 && Date.now() < end;) {
      const run = await house.run({ plan: { title: 'One of many', steps: [PLAN.steps[0]] } });
      await ended(run, 'ok');
      known = (await house.ask('GET', '/runs?limit=100')).items.length;
    }
    const page = await house.page('/');
    await page.getByRole('button', { name: 'Show older' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Seen at once' }).count(), 0);
    await page.getByRole('searchbox').fill('seen at');
    await page.getByRole('link', { name: 'Seen at once' }).waitFor();
    await page.done();
  });

  it('marks every run that waits for an answer', async () => {
    const asks = (at) => ({ title: `In line ${at}.`, steps: [{ id: 'look', title: 'Look', executor: 'human' }] });
    const page = await house.page('/');
    await page.getByRole('searchbox').fill('In line');
    // One server drives eight; two programs drive others.
    for (const at of [0, 1]) {
      house.file('asks.json', asks(at));
      house.begin('run', '--plan', 'asks.json', '--attended');
      await page.getByRole('link', { name: `In line ${at}.` }).waitFor();
    }
    const runs = (await house.ask('GET', '/runs?limit=2')).items.map((run) => run.handle);
    for (let at = 2; at < 10; at++) runs.push(await house.run({ plan: asks(at) }));
    await page.reload();
    const waiting = page.getByRole('link', { name: /In line \d\..*waiting for you/ });
    await counts(waiting, 10, 'all of them are marked');
    await house.ask('POST', `/runs/${runs[0]}/cancel`, {});
    await counts(waiting, 9, 'one of them asks no more');
    for (const run of runs.slice(1)) await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.done();
  });

  it('shows a task that awaits approval as waiting instead of running', async () => {
    const run = await house.run({ goal: 'Fetch the milk' });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'shell, waiting for').waitFor();
    await page.locator('.state').getByText('waiting for you').waitFor();
    // The task, whose only call that is, too; and it does not ask its model.
    await node(page, /^Fetch the milk, waiting for/).waitFor();
    assert.equal(await page.locator('.call', { hasText: 'model' }).count(), 0);
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.done();
  });
});
