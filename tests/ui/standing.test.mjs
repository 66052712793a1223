// The state of a run on its page and in the list: that it is not driven, what it was forked from, how long it took,
// what it asks.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, fits, hindrances, LONG, until } from './house.mjs';

describe('run state', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const ended = (handle, status) => until(async () => (await house.ask('GET', `/runs/${handle}`)).status === status, `${handle} ${status}`);
  const stopped = async (handle) => {
    await house.ask('POST', `/runs/${handle}/cancel`, {});
    await ended(handle, 'cancelled');
  };

  it('counts what was used once when events are replayed', async () => {
    const page = await house.page('/');
    const told = await page.evaluate(async () => {
      const [{ happen }, { Tree }] = await Promise.all(['happened', 'tree'].map((name) => import(`/ui/${name}.js`)));
      const tree = new Tree({ onselect: () => {}, signal: new AbortController().signal });
      const made = (id, parent, kind = 'call') => ({ node_id: id, parent_id: parent, kind, title: id });
      const used = (...calls) => { const [spent, ...above] = calls.map((one) => ({ tool_calls: one })); return { spent, spent_above: above }; };
      const does = (event, more) => happen(tree, { event, at: '2026-01-01T00:00:00Z', ...more });
      does('run_started', { nodes: [made('top', null, 'plan')] });
      does('expanded', { node_id: 'top', nodes: [made('a', 'top')] });
      // Each event of the past says what is used by now.
      does('told', { node_id: 'top', what: 'planned', ...used(5) });
      does('started', { node_id: 'a', attempt: 1, call: 'wait', ...used(3, 5) });
      does('finished', { node_id: 'a', status: 'ok', notes: '', ...used(3, 5) });
      does('told', { node_id: 'a', what: 'said', ...used(2, 4) });
      return [...tree.nodes.values()].map((node) => `${node.node_id} ${node.spent.tool_calls}`);
    });
    assert.deepEqual(told, ['top 5', 'a 3']);
    await page.done();
  });

  it('derives node states and the run state from events', async () => {
    const page = await house.page('/');
    const told = await page.evaluate(async () => {
      const [{ happen }, { Tree, stateOf }, { countsOf, standingOf }] = await Promise.all(['happened', 'tree', 'standing'].map((name) => import(`/ui/${name}.js`)));
      const tree = new Tree({ onselect: () => {}, signal: new AbortController().signal });
      const made = (id, parent, kind = 'call') => ({ node_id: id, parent_id: parent, kind, title: id });
      const lines = [], run = { driven: true };
      const does = (event, more) => {
        happen(tree, { event, at: '2026-01-01T00:00:00Z', ...more });
        const { ends, stands } = countsOf(tree);
        lines.push(`${[...tree.nodes.values()].map((node) => `${node.node_id} ${stateOf(node)}${node.spent.tool_calls ?? ''}`).join(', ')}: ${standingOf(run, tree.root, stands, { asks: stands.waiting_input ?? 0, isHoped: false })} ${JSON.stringify(ends)}`);
      };
      does('run_started', { nodes: [made('top', null, 'plan')] });
      does('expanded', { node_id: 'top', nodes: [made('a', 'top'), made('group', 'top', 'parallel'), made('b', 'group')] });
      does('started', { node_id: 'b', attempt: 1, call: 'wait', spent: { tool_calls: 1 }, spent_above: [{ tool_calls: 1 }, { tool_calls: 1 }] });
      does('attempt_failed', { node_id: 'b' });
      does('finished', { node_id: 'b', status: 'ok', spent: { tool_calls: 2 }, spent_above: [{ tool_calls: 2 }, { tool_calls: 2 }] });
      does('told', { node_id: 'a', state: 'waiting_input' });
      does('told', { what: 'paused' });
      does('told', { what: 'continued' });
      does('told', { superseded: ['group'], nodes: [made('c', 'top')] });
      does('told', { superseded: ['b'] });
      does('cancel_requested', {});
      run.driven = false;
      does('of another version', { node_id: 'c' });
      return lines;
    });
    assert.deepEqual(told, [
      'top created: running {}',
      'top running_children, a created, group created, b created: running {}',
      'top running_children1, a created, group created1, b executing1: running {}',
      'top running_children1, a created, group created1, b parked1: running {}',
      'top running_children2, a created, group created2, b ok2: running {"ok":1}',
      'top running_children2, a waiting_input, group created2, b ok2: asks {"ok":1}',
      'top paused2, a waiting_input, group created2, b ok2: paused {"ok":1}',
      'top running_children2, a waiting_input, group created2, b ok2: asks {"ok":1}',
      'top running_children2, a waiting_input, group created2, b ok2, c created: asks {"ok":1}',
      'top running_children2, a waiting_input, group created2, b superseded2, c created: asks {"superseded":1}',
      'top cancelling2, a cancelling, group cancelling2, b superseded2, c cancelling: cancelling {"superseded":1}',
      'top cancelling2, a cancelling, group cancelling2, b superseded2, c cancelling: interrupted {"superseded":1}',
    ]);
    await page.done();
  });

  it('says that a run waits if nothing is under way, whatever its tasks seem to do', async () => {
    const steps = [{ id: 'all', parallel: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Look', executor: 'human' }] }];
    const run = await house.run({ plan: { title: 'Held and asking', steps } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Look, waiting for').waitFor();
    const state = page.locator('.state');
    await state.getByText('running').waitFor();
    // A task in progress whose only call waits for another run.
    await page.change(new RegExp(`/v1/.*/runs/${run}$`), (told) => ({ ...told, in_flight: 0, held_up: { name: '/a/path', by: 'r999' } }));
    await state.getByText('waiting for you').waitFor();
    await page.getByText('The part that writes it continues when that call ends.').waitFor();
    await page.change(/\/questions$/, (told) => ({ ...told, items: [] }));
    await page.reload();
    await state.getByText('waiting for another run').waitFor();
    await page.getByText('This run continues when that call ends.').waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await stopped(run);
    await page.done();
  });

  it('leaves node states and calls unchanged by events that do not change them', async () => {
    const page = await house.page('/');
    const told = await page.evaluate(async () => {
      const [{ happen }, { Tree }] = await Promise.all(['happened', 'tree'].map((name) => import(`/ui/${name}.js`)));
      const tree = new Tree({ onselect: () => {}, signal: new AbortController().signal });
      const does = (event, more) => happen(tree, { event, at: '2026-01-01T00:00:00Z', ...more });
      does('run_started', { nodes: [{ node_id: 'top', parent_id: null, kind: 'plan', title: 'top' }] });
      does('expanded', { node_id: 'top', nodes: ['a', 'b'].map((id) => ({ node_id: id, parent_id: 'top', kind: 'call', title: id })) });
      does('started', { node_id: 'a', attempt: 1, call: 'wait' });
      for (const [node, state] of [['a', 'executing'], ['b', 'created']]) does('told', { node_id: node, state, what: 'limits_changed', text: 'human:tokens 5000', at: '2026-01-01T00:01:00Z' });
      does('told', { node_id: 'a', state: 'executing', what: 'replied', text: '7 tokens read, 5 written' });
      return ['a', 'b'].map((id) => tree.nodes.get(id)).map(({ state, call, started_at: at }) => [state, call, at]);
    });
    assert.deepEqual(told, [['executing', 'wait', '2026-01-01T00:00:00Z'], ['created', '', null]]);
    await page.done();
  });

  it('shows the same duration of a run in its header and its tree', async () => {
    const run = await house.run({ plan: { title: 'Of one length', steps: [{ id: 'a', title: 'Begin', do: { tool: 'wait', args: { ms: 200 } } }] } });
    await ended(run, 'ok');
    const page = await house.page('/');
    // A run whose first part began long after it.
    const later = (text) => new Date(Date.parse(text) + 70_000).toISOString();
    await page.change(new RegExp(`/v1/.*/runs/${run}$`), (told) => ({ ...told, updated_at: later(told.updated_at), finished_at: later(told.finished_at) }));
    await page.change(new RegExp(`/v1/.*/runs/${run}/tree$`), (told) => ({ ...told, nodes: told.nodes.map((one) => ({ ...one, started_at: later(one.started_at), finished_at: later(one.finished_at) })) }));
    await page.getByRole('link', { name: 'Of one length' }).click();
    await page.locator('.state .time').getByText(/^1 min 10 s$/).waitFor();
    assert.equal(await node(page, 'Of one length, done').locator('.time').innerText(), '1 min 10 s');
    assert.match(await node(page, 'Begin, done').locator('.time').innerText(), /^\d+ ms$|^\d\.\d s$/);
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('shows the origin of a fork and which parts it kept', async () => {
    const steps = [{ id: 'a', title: 'Before it', do: { tool: 'wait', args: { ms: 30 } } }, { id: 'b', title: 'A part of the middle', do: echo(2) }];
    const run = await house.run({ plan: { title: 'To be forked', steps } });
    await ended(run, 'ok');
    const { handle } = await house.ask('POST', `/runs/${run}/fork`, { at: 'b' });
    await ended(handle, 'ok');
    const page = await house.page(`/runs/${handle}`, { width: 400 });
    await page.getByText(`forked from ${run} before A part of the middle`).waitFor();
    assert.equal(await node(page, 'Before it, done').locator('.time').innerText(), 'kept');
    assert.match(await node(page, 'A part of the middle, done').locator('.time').innerText(), /\d m?s$/);
    assert.ok(await fits(page));
    await node(page, 'Before it, done').click();
    await page.getByRole('article').getByText('It did not run again').waitFor();
    await page.done();
  });

  it('offers a log for calls but not for groups', async () => {
    const steps = [{ id: 'both', title: 'Both of them', parallel: [{ id: 'a', title: 'One', do: echo(1) }, { id: 'inner', title: 'A group in it', sequence: [{ id: 'b', title: 'Other', do: echo(2) }] }] }];
    const run = await house.run({ plan: { title: 'With a group', steps } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`);
    const log = page.getByRole('button', { name: 'Log', exact: true });
    await log.click();
    for (const [title, many] of [['Both of them', 0], ['One', 1], ['A group in it', 0], ['Other', 1]]) {
      await node(page, `${title}, done`).click();
      await page.getByRole('heading', { name: title, level: 2 }).waitFor();
      await counts(log, many, title);
    }
    await page.getByRole('article').getByText('Not started').waitFor({ state: 'detached' });
    await log.click();
    await page.getByRole('article').getByText('2').first().waitFor();
    await page.done();
  });

  it('keeps the answer field visible below a long question', async () => {
    const steps = [{ id: 'look', title: 'Look', executor: 'human', description: Array.from({ length: 120 }, (_, n) => `Line ${n} of what is to be known`).join('\n') }];
    const run = await house.run({ plan: { title: 'Asks at length', steps } });
    for (const [width, height] of [[1280, 800], [400, 700]]) {
      const page = await house.page(`/runs/${run}`, { width, height });
      const field = page.getByRole('textbox', { name: /^Answer to/ });
      await field.waitFor();
      const { y } = await field.boundingBox();
      assert.ok(y < height, `the field is at ${y} of ${height}`);
      // It can be scrolled with the keyboard, too.
      const asked = page.getByRole('region', { name: 'Question' });
      await asked.focus();
      await page.keyboard.press('End');
      await until(() => asked.evaluate((one) => one.scrollTop > 0 && one.scrollTop + one.clientHeight >= one.scrollHeight - 2), 'its end');
      assert.deepEqual(await hindrances(page), []);
      await page.done();
    }
    await stopped(run);
  });

  it('counts omitted entries beyond those named in a receipt', async () => {
    const item = (n) => house.ask('POST', '/threads/much/scratchbook/items', { kind: 'note', title: `Something to be known, number ${n}` });
    for (let n = 0; n < 140; n += 20) await Promise.all(Array.from({ length: 20 }, (_, at) => item(n + at)));
    const { receipt } = await house.ask('GET', '/threads/much/scratchbook');
    const { beyond } = receipt.sections.find(({ section }) => section === 'notes');
    assert.ok(beyond > 0, JSON.stringify(receipt));
    const page = await house.page('/threads/much');
    await page.getByRole('row', { name: new RegExp(`^notes.*line limit: ${beyond} more`) }).waitFor();
    // Some of them may be named.
    const named = (one) => (one.section === 'notes' ? { ...one, omitted: [{ name: 'e7', reason: 'limit' }] } : one);
    await page.change(/\/scratchbook(\?|$)/, (told) => ({ ...told, receipt: { ...told.receipt, sections: told.receipt.sections.map(named) } }));
    await page.reload();
    await page.getByRole('row', { name: new RegExp(`^notes.*line limit: e7 and ${beyond} more`) }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('explains how to resume a run without a driver and shows its pending cancellation', async () => {
    const steps = [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Not begun', do: echo(1) }];
    house.file('left.json', { title: 'Left by its driver', steps });
    await house.stop();
    await house.serve('--no-resume');
    const driver = house.begin('run', '--plan', 'left.json', '--attended');
    const [list, page] = [await house.page('/'), await house.page('/')];
    await page.getByRole('link', { name: /Left by its driver/ }).click();
    await node(page, 'Begin, running').waitFor();
    const run = new URL(page.url()).pathname.split('/').pop();
    const card = (text) => list.getByRole('link', { name: new RegExp(`Left by its driver.*${text}`) });
    await card('running').waitFor();
    driver.kill('SIGKILL');
    const state = page.locator('.state');
    await state.getByText('no process drives it').waitFor();
    await page.getByText(`To continue where it stopped, run: folio resume ${run}`).waitFor();
    await card('no process drives it').waitFor();
    // Its times stand still, however often they are refreshed.
    const clocks = async () => [await state.locator('.time').innerText(), await node(page, 'Begin, interrupted').locator('.time').innerText()];
    const before = await clocks();
    // Without a date header, nothing tells that the clock of the server differs.
    await page.evaluate(() => {
      const { get } = Headers.prototype;
      Headers.prototype.get = function (name) { return name === 'date' ? null : get.call(this, name); };
      window.now = Date.now;
      Date.now = () => window.now() + 3_600_000;
      window.settle = () => { Headers.prototype.get = get; Date.now = window.now; };
    });
    await until(() => state.evaluate((one) => one.said.includes('hour ago')), 'they are looked at');
    assert.deepEqual(await clocks(), before);
    await page.evaluate(() => window.settle());
    assert.deepEqual(await hindrances(page), []);
    // A request from the page does not bring a process to drive it.
    await page.getByRole('button', { name: 'Pause' }).click();
    await state.getByText('paused').waitFor();
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await state.getByText('no process drives it').waitFor();
    assert.equal(await state.getByText('starting').count(), 0);
    await card('no process drives it').waitFor();
    // The request to cancel is recorded, and shown.
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Yes, cancel' }).click();
    await page.getByText(`This run is being cancelled, but no process drives it. To finish, run: folio resume ${run}`).waitFor();
    await node(page, 'Begin, cancelling').waitFor();
    await node(page, 'Not begun, cancelling').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0);
    await page.reload();
    await page.getByText('This run is being cancelled').waitFor();
    await node(page, 'Not begun, cancelling').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Cancel' }).count(), 0);
    assert.ok(await fits(page));
    // The program exits with the code of a cancelled run.
    assert.throws(() => house.folio('resume', run), ({ status }) => status > 0);
    await state.getByText('⊘cancelled').waitFor();
    await page.getByText('This run is being cancelled').waitFor({ state: 'detached' });
    await list.done();
    await page.done();
  });

  it('shows a run that waits for a person as waiting though no process drives it', async () => {
    house.file('asks.json', { title: 'Left while it asks', steps: [{ id: 'look', title: 'Look', executor: 'human' }] });
    await house.stop();
    await house.serve('--no-resume');
    const driver = house.begin('run', '--plan', 'asks.json', '--attended');
    const [list, page] = [await house.page('/'), await house.page('/')];
    await page.getByRole('link', { name: /Left while it asks/ }).click();
    const state = page.locator('.state');
    await state.getByText('waiting for you').waitFor();
    const run = new URL(page.url()).pathname.split('/').pop();
    driver.kill('SIGKILL');
    await until(async () => !(await house.ask('GET', `/runs/${run}`)).driven, 'its driver is gone');
    await Promise.all([list.reload(), page.reload()]);
    await state.getByText('waiting for you').waitFor();
    const card = (text) => list.getByRole('link', { name: new RegExp(`Left while it asks.*${text}`) });
    await card('waiting for you').waitFor();
    // With an answer there is something to do, and nobody to do it.
    house.folio('answer', run, 'dry');
    await state.getByText('no process drives it').waitFor();
    await card('no process drives it').waitFor();
    house.folio('resume', run);
    await state.getByText('done').waitFor();
    await list.done();
    await page.done();
  });
});
