// A run page while the run goes on: slow answers, clicks at the same time, and what somebody reads or has opened.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, LONG, until } from './house.mjs';

describe('while a run goes on', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const about = (page) => page.getByRole('article');
  const questionsOf = async (run) => (await house.ask('GET', `/runs/${run}/questions`)).items;
  const people = (...titles) => titles.map((title, at) => ({ id: `p${at}`, title, executor: 'human' }));
  /** A run in which something happens whenever `answer` gives the next answer, and nothing else does. */
  const stepwise = async (title, more = {}) => {
    const run = await house.run({ plan: { title, steps: [...people(...Array.from({ length: 6 }, (_, n) => `Person ${n}`)), { id: 'z', title: 'Last', do: LONG }], ...more.plan }, inputs: more.inputs });
    let last = null;
    const answer = async () => {
      const item = await until(async () => (await questionsOf(run)).find(({ id }) => id !== last), 'a question');
      last = item.id;
      await house.ask('POST', `/questions/${item.id}/answer`, { answer: 'yes' });
      await until(async () => (await questionsOf(run)).every(({ id }) => id !== last), 'it is answered');
    };
    return { run, answer };
  };
  /** Holds the requests at `at` of the page until `let go` is called; `held` has those under way. */
  const hold = async (page, at) => {
    const held = [];
    let isHeld = true;
    await page.route(at, async (route) => {
      if (!isHeld || route.request().isNavigationRequest()) return route.fallback();
      const answer = await route.fetch();
      await new Promise((go) => { held.push(go); if (!isHeld) go(); });
      return route.fulfill({ response: answer });
    });
    return { held, go: () => held.shift()?.(), all: () => { isHeld = false; for (const go of held.splice(0)) go(); } };
  };
  const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

  it('shows no question of a run that ended while the list of questions was under way', async () => {
    const run = await house.run({ plan: { title: 'Ends too early', steps: people('Height') } });
    await until(async () => (await questionsOf(run)).length, 'it asks');
    const page = await house.page('/');
    const asked = await hold(page, /\/questions$/);
    await page.getByRole('link', { name: 'Ends too early' }).click();
    await until(() => asked.held.length > 0, 'the list is under way');
    await stop(run);
    await page.locator('.state .cancelled').first().waitFor();
    const over = page.waitForResponse(/\/questions$/);
    asked.all();
    await (await over).finished();
    await drawn(page);
    assert.equal(await page.locator('form.question').count(), 0);
    assert.doesNotMatch(await page.title(), /^\?/);
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('shows the selected part even if events come faster than answers', async () => {
    const { run, answer } = await stepwise('Of many events');
    const page = await house.page('/');
    await page.clock.install();
    const asked = await hold(page, /\/nodes\/[^/]+$/);
    await page.getByRole('link', { name: 'Of many events' }).click();
    await until(() => asked.held.length === 1, 'the part is asked for');
    // A refresh is due before its answer is there.
    await answer();
    await node(page, 'Person 0, done').waitFor();
    await page.clock.runFor(2000);
    assert.equal(asked.held.length, 1, 'one request at a time');
    asked.go();
    await about(page).getByText(/running|waiting for you/).first().waitFor();
    // What happened meanwhile is asked for after it.
    await page.clock.runFor(2000);
    await until(() => asked.held.length === 1, 'the refresh');
    asked.all();
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('sends a confirmed cancellation while a slow request to pause is under way', async () => {
    const run = await house.run({ plan: { title: 'Paused slowly', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    let held = null;
    await page.route(/\/pause$/, (route) => { held = route; });
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await until(() => held, 'it is under way');
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('button', { name: 'Yes, cancel' }).click();
    await page.locator('.state .cancelled').first().waitFor();
    await held.abort();
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('names the part whose action was refused after another was selected', async () => {
    const run = await house.run({ plan: { title: 'Refused later', steps: [{ id: 'both', parallel: [{ id: 'a', title: 'Alpha', do: LONG }, { id: 'b', title: 'Beta', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    let held = null;
    await page.route(/\/pause$/, (route) => { held = route; });
    await node(page, 'Alpha, running').click();
    await page.getByRole('button', { name: 'Pause this part' }).click();
    await until(() => held, 'it is under way');
    await node(page, 'Beta, running').click();
    await page.getByRole('heading', { name: 'Beta', level: 2 }).waitFor();
    await held.fulfill({ status: 409, json: { detail: 'it cannot be paused' } });
    await page.getByRole('alert').getByText('Alpha: it cannot be paused').waitFor();
    assert.equal(await page.locator('.about').getByRole('alert').count(), 0);
    await stop(run);
    await page.done();
  });

  it('updates the plan and cost of a selected part when the parts below it go on', async () => {
    const steps = [{ id: 'sub', title: 'Sub', plan: { steps: [{ id: 'both', parallel: [{ id: 'a', title: 'Alpha', optional: true, do: LONG }, { id: 'b', title: 'Beta', do: LONG }] }] } }];
    const run = await house.run({ plan: { title: 'With parts in parts', steps } });
    const page = await house.page(`/runs/${run}`);
    await node(page, /^Sub/).click();
    await page.locator('.about nav').getByRole('button', { name: 'Plan' }).click();
    await page.locator('.steps li', { hasText: 'Alpha' }).getByText('running').waitFor();
    const { node_id: id } = (await house.ask('GET', `/runs/${run}/tree`)).nodes.find(({ title }) => title === 'Alpha');
    await house.ask('POST', `/runs/${run}/cancel`, { node: id });
    await node(page, 'Alpha, cancelled').waitFor();
    await page.locator('.steps li', { hasText: 'Alpha' }).getByText('cancelled').waitFor();
    await stop(run);
    await page.done();
  });

  it('keeps what was opened and scrolled in the inputs while the run goes on', async () => {
    const text = Array.from({ length: 400 }, (_, n) => `line ${n} of the specification`).join('\n');
    const { run, answer } = await stepwise('With long inputs', { plan: { inputs: { long: 'string', short: 'string' } }, inputs: { long: text, short: text.slice(0, 3500) } });
    const page = await house.page(`/runs/${run}`);
    const all = about(page).getByRole('button', { name: /^Show all .* characters/ });
    await all.click();
    const short = about(page).locator('pre').last();
    await short.evaluate((one) => { one.scrollTop = 300; });
    const cost = page.waitForResponse(/\/nodes\//);
    await answer();
    await node(page, 'Person 0, done').waitFor();
    await (await cost).finished();
    await drawn(page);
    assert.equal(await all.count(), 0);
    assert.equal(await short.evaluate((one) => one.scrollTop), 300);
    await stop(run);
    await page.done();
  });

  it('keeps the tree filtered by a state up to date', async () => {
    const { run, answer } = await stepwise('Sought by state', { plan: { steps: [...people(...Array.from({ length: 30 }, (_, n) => `Person ${n}`))] } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('searchbox', { name: 'Filter tree' }).fill('waiting for an answer');
    await node(page, 'Person 0, waiting for').waitFor();
    await counts(node(page, 'Person'), 1);
    await answer();
    await node(page, 'Person 1, waiting for').waitFor();
    await counts(node(page, 'Person'), 1);
    await stop(run);
    await page.done();
  });

  it('offers to filter a tree once it has grown', async () => {
    const items = Array.from({ length: 30 }, (_, n) => `item ${n}`);
    const steps = [...people('Go'), { id: 'each', title: 'Each', for_each: items, step: { id: 'one', title: 'One {{ item }}', do: echo('x') } }, { id: 'z', title: 'End', do: LONG }];
    const run = await house.run({ plan: { title: 'Grows', steps } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Go, waiting for').waitFor();
    const seek = page.getByRole('searchbox', { name: 'Filter tree' });
    assert.equal(await seek.isVisible(), false);
    await house.ask('POST', `/questions/${(await questionsOf(run))[0].id}/answer`, { answer: 'go' });
    await seek.waitFor();
    await stop(run);
    await page.done();
  });

  it('shows how to remove a filter that the address names, whatever it matches', async () => {
    const run = await house.run({ plan: { title: 'All well', steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    await until(async () => (await house.ask('GET', `/runs/${run}`)).status === 'ok', 'it has ended');
    const page = await house.page(`/runs/${run}?only=cancelled`);
    await page.getByText('No matching parts').waitFor();
    await page.getByRole('button', { name: '0 cancelled', pressed: true }).click();
    await node(page, 'Begin, done').waitFor();
    assert.doesNotMatch(page.url(), /only=/);
    await page.goto(`${house.base}/runs/${run}?text=zzz`);
    await page.getByText('No matching parts').waitFor();
    await page.getByRole('searchbox', { name: 'Filter tree' }).fill('');
    await node(page, 'Begin, done').waitFor();
    await page.done();
  });

  it('offers the summary of an earlier plan once there is one', async () => {
    const run = await house.run({ plan: { title: 'Edited once', steps: [{ id: 'a', title: 'Begin', do: LONG }, { id: 'b', title: 'Second', do: echo(1) }] } });
    const page = await house.page(`/runs/${run}`);
    const tab = page.locator('.about nav').getByRole('button', { name: 'Summary' });
    await node(page, 'Second').waitFor();
    assert.equal(await tab.count(), 0);
    await change(run, (markdown) => markdown.replace('Second', 'Second of mine'));
    await tab.click();
    await about(page).getByText('Begin').first().waitFor();
    await stop(run);
    await page.done();
  });

  it('gives a call that waits for approval no time and no fork', async () => {
    const run = await house.run({ plan: { title: 'Gated', steps: [...people('Go'), { id: 'say', title: 'Say it', do: { tool: 'shell', args: { argv: ['echo', 'x'] } } }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Go, waiting for').waitFor();
    await house.ask('POST', `/questions/${(await questionsOf(run))[0].id}/answer`, { answer: 'go' });
    await node(page, 'Say it, waiting for approval').click();
    await page.getByRole('button', { name: 'Pause this part' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Fork from here' }).count(), 0);
    assert.equal(await node(page, 'Say it').locator('.time').innerText(), '');
    await stop(run);
    await page.done();
  });

  it('says what became of an approval that somebody else decided', async () => {
    const run = await house.run({ plan: { title: 'Decided twice', steps: [{ id: 'say', title: 'Say it', optional: true, do: { tool: 'shell', args: { argv: ['echo', 'x'] } } }, { id: 'z', title: 'End', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    await page.route(/\/approvals\//, async (route) => {
      const { pathname } = new URL(route.request().url());
      await house.ask('POST', pathname.replace('/v1/spaces/main', ''), { approve: false, reason: 'no' });
      await page.locator('form.question').waitFor({ state: 'detached' });
      await route.continue();
    });
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.locator('.question').getByRole('alert').waitFor();
    await page.getByText(/^Somebody else answered first.*shell/).waitFor();
    await page.getByRole('button', { name: 'Dismiss' }).click();
    await counts(page.locator('.question'), 0);
    await page.unrouteAll({ behavior: 'wait' });
    await stop(run);
    await page.done();
  });

  it('keeps the focus on the row of a step that an edit moves', async () => {
    const run = await house.run({ plan: { title: 'Reordered', steps: [{ id: 'w', title: 'Wait', do: LONG }, ...['a', 'b', 'c'].map((id) => ({ id, title: `Step ${id}`, do: echo(id) }))] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Step c').click();
    await change(run, (markdown) => {
      const parts = markdown.split(/(?=^- \[)/m), at = (title) => parts.findIndex((part) => part.includes(title));
      const [moved] = parts.splice(at('Step c'), 1);
      parts.splice(at('Step a'), 0, `${moved.trimEnd()}\n`);
      return parts.join('');
    });
    await until(async () => (await page.locator('[role=treeitem] .title').allInnerTexts())[2] === 'Step c', 'it has moved');
    await drawn(page);
    assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? ''), /^Step c/);
    await stop(run);
    await page.done();
  });

  it('leads from a question to a tab that the part has', async () => {
    const run = await house.run({ plan: { title: 'Leads on', steps: [{ id: 'all', parallel: [...people('Height'), { id: 'b', title: 'Goes on', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}?tab=branches`);
    await page.locator('form.question').getByRole('link', { name: 'Height' }).click();
    await page.getByRole('heading', { name: 'Height', level: 2 }).waitFor();
    await page.locator('.about nav button[aria-current]').getByText('Result').waitFor();
    assert.doesNotMatch(page.url(), /tab=/);
    await stop(run);
    await page.done();
  });

  it('says of the steps of a rejected or changed plan that they had not begun', async () => {
    const page = await house.page('/');
    const told = await page.evaluate(async () => {
      const { stateOf } = await import('/ui/tree.js');
      return [null, '2026-01-01T00:00:00Z'].map((at) => stateOf({ status: 'skipped', superseded: true, started_at: at }));
    });
    assert.deepEqual(told, ['not_begun', 'superseded']);
    await page.done();
  });

  it('shows every part of a paused run as paused, and what a model is asked for', async () => {
    const page = await house.page('/');
    const told = await page.evaluate(async () => {
      const [{ happen }, { Tree, stateOf }] = await Promise.all(['happened', 'tree'].map((name) => import(`/ui/${name}.js`)));
      const tree = new Tree({ onselect: () => {}, signal: new AbortController().signal });
      const does = (event, more) => happen(tree, { event, at: '2026-01-01T00:00:00Z', ...more });
      does('run_started', { nodes: [{ node_id: 'top', parent_id: null, kind: 'plan', title: 'top' }] });
      does('expanded', { node_id: 'top', nodes: ['a', 'b', 'c'].map((id) => ({ node_id: id, parent_id: 'top', kind: 'model', title: id })) });
      does('told', { node_id: 'a', state: 'verifying', what: 'asked', text: 'to verify' });
      does('started', { node_id: 'b', attempt: 1, call: 'wait' });
      does('told', { what: 'paused' });
      return ['top', 'a', 'b', 'c'].map((id) => [stateOf(tree.nodes.get(id)), tree.nodes.get(id).call]);
    });
    assert.deepEqual(told, [['paused', ''], ['paused', 'model, to verify'], ['pausing', 'wait'], ['created', '']]);
    await page.done();
  });

  /** Changes the plan of `run` as others do. */
  async function change(run, how) {
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const put = await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body: how(markdown) });
    assert.equal(put.status, 200, await put.text());
  }
});
