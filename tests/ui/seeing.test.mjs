// What people must not miss: what they approve, how it ended and why, and what each button acts on.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, echo, fits, hindrances, LONG, until } from './house.mjs';

const SCRIPT = 'set -e\nfor one in a b; do\n\techo "$one"\ndone\n';
const REFUSED = { version: 1, cues: [
  { role: 'planner', contains: ['Decide how', 'Rejected'], json: { decision: 'execute', reason: 'no plan', action: { tool: 'ask_person', args: { question: 'What then?' } } }, times: 'always' },
  { role: 'planner', contains: ['Decide how', '# Task\nTidy the shed'], json: { decision: 'plan', reason: 'two things', steps: ['Look around', 'Burn it all'].map((title, at) => ({ id: `s${at}`, title, criteria: ['It is done.'] })) }, times: 'always' },
] };

describe('what people must not miss', () => {
  let house;
  before(async () => {
    house = await House.open(['--model', 'scripted:script.json']);
    house.file('script.json', REFUSED);
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const ended = (handle) => until(async () => (await house.ask('GET', `/runs/${handle}`)).status !== 'running', `${handle} ended`);
  const stop = (run) => house.ask('POST', `/runs/${run}/cancel`, {});
  const place = (locator) => locator.evaluate((one) => one.getBoundingClientRect().top);

  it('shows a script that waits for approval line by line, and its arguments after it ran', async () => {
    const run = await house.run({ plan: { title: 'A script', steps: [{ id: 'say', title: 'Say it', do: { tool: 'shell', args: { command: SCRIPT } } }] } });
    const page = await house.page(`/runs/${run}`, { width: 400 });
    const form = page.locator('form.question');
    await form.locator('pre').waitFor();
    assert.equal(await form.locator('pre').textContent(), SCRIPT.trimEnd());
    assert.doesNotMatch(await form.innerText(), /\\n/);
    assert.ok(await fits(page), 'the script is wider than the window');
    assert.deepEqual(await hindrances(page), []);
    await form.getByRole('button', { name: 'Always allow this call' }).click();
    const dialog = page.getByRole('dialog');
    assert.doesNotMatch(await dialog.innerText(), /set -e/);
    await dialog.getByRole('button', { name: 'Never mind' }).click();
    await form.getByRole('button', { name: 'Approve' }).click();
    await ended(run);
    await node(page, 'Say it, done').click();
    const about = page.getByRole('article');
    await about.locator('pre', { hasText: 'for one in a b; do' }).waitFor();
    // The output has its lines, too.
    await until(async () => (await about.locator('pre').allTextContents()).includes('a\nb'), 'the output line by line');
    await page.done();
  });

  it('keeps the actions on the run apart from those on a part, and the tree in its place', async () => {
    const run = await house.run({ plan: { title: 'Two at once', steps: [{ id: 'both', parallel: [{ id: 'left', title: 'Left', do: LONG }, { id: 'right', title: 'Right', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}`);
    await node(page, 'Left, running').waitFor();
    const before = await place(page.getByRole('tree'));
    await node(page, 'Left, running').click();
    await page.getByRole('button', { name: 'Fork from here' }).waitFor();
    assert.equal(await place(page.getByRole('tree')), before);
    await page.getByRole('button', { name: 'Pause this part' }).click();
    await node(page, 'Left, running: will pause when its call ends').waitFor();
    await page.getByRole('button', { name: 'Continue this part' }).click();
    await node(page, /^Left, running, /).waitFor();
    // The buttons above still act on the run.
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('dialog', { name: 'Cancel the run?' }).getByRole('button', { name: 'Never mind' }).click();
    assert.deepEqual(await hindrances(page), []);
    await stop(run);
    await page.done();
  });

  it('opens a run that failed at its reason, and counts its parts as everywhere else', async () => {
    const bad = { tool: 'read', args: { path: 'no/such/file' } };
    const steps = [{ id: 'group', title: 'All of it', parallel: Array.from({ length: 3 }, (_, at) => ({ id: `b${at}`, title: `Bad ${at}`, do: bad })) }, { id: 'after', title: 'After', do: echo(1) }];
    const run = await house.run({ plan: { title: 'Goes wrong', steps } });
    await ended(run);
    const page = await house.page(`/runs/${run}`);
    assert.equal(await page.locator('nav button[aria-current=true]').textContent(), 'Result');
    const { nodes: all } = await house.ask('GET', `/runs/${run}/tree`), nodes = all.length;
    const failed = all.filter(({ path, status }) => path !== '' && status === 'failed').length;
    const state = await page.locator('.state').innerText();
    assert.match(state, new RegExp(`${nodes - 1} of ${nodes - 1} nodes`));
    assert.match(state, /partly done\s+the call or request was invalid/);
    assert.match(await page.locator('progress').getAttribute('class'), /partial/);
    // The root stands for the run.
    await page.getByRole('button', { name: `${failed} failed` }).click();
    // A row says what is below it, open or not.
    assert.match(await node(page, 'All of it').innerText(), /3\/3 ✗ 3/);
    assert.match(await node(page, 'All of it').getAttribute('aria-label'), /3 of 3 parts below have ended, 3 failed/);
    // The filter is in the address.
    assert.match(page.url(), /only=failed/);
    await page.reload();
    await node(page, 'Bad 0').waitFor();
    assert.equal(await page.getByRole('button', { name: `${failed} failed` }).getAttribute('aria-pressed'), 'true');
    assert.equal(await node(page, 'After').count(), 0);
    await page.done();
  });

  it('shows the inputs of a run, and the criteria of a part before it ends', async () => {
    const plan = { title: 'With inputs', inputs: { where: { type: 'string' } }, steps: [{ id: 'go', title: 'Go', criteria: [{ text: 'Something is said.', check: 'result_nonempty' }], do: LONG }] };
    const run = await house.run({ plan, inputs: { where: 'the red barn' } });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('article').getByText('the red barn').waitFor();
    await node(page, 'Go, running').click();
    await page.getByRole('article').getByText('Something is said.').waitFor();
    await page.getByRole('article').getByText('not checked yet').waitFor();
    await page.getByRole('article').getByText('go', { exact: true }).waitFor();
    await stop(run);
    await page.done();
  });

  it('says who rejected a plan and why, and offers no edit of it', async () => {
    const run = await house.run({ goal: 'Tidy the shed', plan_gate: 'root' });
    const page = await house.page(`/runs/${run}`);
    await page.getByRole('link', { name: 'Show the plan' }).click();
    await page.getByRole('button', { name: 'Edit plan' }).waitFor();
    await page.getByRole('textbox', { name: /^Reason/ }).fill('not the shed');
    await page.getByRole('button', { name: 'Reject' }).click();
    const about = page.getByRole('article');
    await about.getByText(/^Rejected by .*not the shed/).first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'Edit plan' }).isVisible(), false);
    assert.match(await about.locator('.steps').innerText(), /Burn it all.*not begun/);
    await stop(run);
    await page.done();
  });

  it('says until when an answer is waited for, and which one is the default', async () => {
    const run = await house.run({ plan: { title: 'By hand', steps: [{ id: 'look', title: 'Look', description: 'Look at `it`.', executor: 'human' }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    await page.locator('form.question').waitFor();
    await page.waitForFunction(() => document.title.startsWith('? By hand'));
    assert.equal(await page.locator('form.question .asked code').first().textContent(), 'it');
    const until = new Date(Date.now() + 600_000).toISOString();
    await page.change(/\/questions$/, (told) => ({ ...told, items: told.items.map((one) => ({ ...one, id: `${one.id}-x`, options: ['red', 'green'], default: 'green', until })) }));
    await page.reload();
    await page.getByRole('button', { name: 'green (default)' }).waitFor();
    await page.getByText(/^The time to answer ends in 10 min, and then the default applies/).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    // The list says the same, and finds it.
    await page.goto(`${house.base}/`);
    await page.getByRole('button', { name: 'waiting for you' }).click();
    await page.getByRole('link', { name: /By hand.*waiting for you/ }).waitFor();
    assert.match(page.url(), /status=asks/);
    await stop(run);
    await page.getByRole('link', { name: /By hand/ }).waitFor({ state: 'detached' });
    await page.done();
  });

  it('shows every character of a question and of an answer', async () => {
    const description = 'May I delete *.log and *.tmp below C:\\.cache\\_old, matching \\d+\\.\\d+ (2*3*4), as `it` says at https://example.org/a_b?';
    const run = await house.run({ plan: { title: 'Literally', steps: [{ id: 'all', parallel: [{ id: 'h', title: 'Clean up', executor: 'human', description }, { id: 'w', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}?tab=branches`);
    const asked = page.locator('form.question .asked');
    assert.ok((await asked.locator('bdi').textContent()).startsWith(`${description.replaceAll('`', '')}\n`));
    assert.equal(await asked.locator('code').first().textContent(), 'it');
    assert.equal(await asked.getByRole('link').last().getAttribute('href'), 'https://example.org/a_b');
    await page.getByRole('textbox', { name: /^Answer to/ }).fill('removed *.a and *.b below C:\\.x\\_y');
    await page.getByRole('button', { name: 'Send answer' }).click();
    await page.getByRole('article').getByText('removed *.a and *.b below C:\\.x\\_y').first().waitFor();
    await stop(run);
    // A backtick that is never closed makes no code of what follows.
    const odd = await house.run({ plan: { title: 'Oddly', steps: [{ id: 'h', title: 'Look', executor: 'human', description: 'What is ` here' }] } });
    await page.goto(`${house.base}/runs/${odd}`);
    await asked.getByText('What is ` here').waitFor();
    for (const code of await asked.locator('code').allTextContents()) assert.doesNotMatch(code, /here/);
    await stop(odd);
    await page.done();
  });

  it('shows the beginning of a large output at once', async () => {
    const run = await house.run({ plan: { title: 'Large', steps: [{ id: 'big', title: 'Big', do: echo('All of it. '.repeat(20_000)) }] } });
    await ended(run);
    const page = await house.page(`/runs/${run}?node=${(await house.ask('GET', `/runs/${run}/nodes/big`)).node_id}`);
    await page.getByRole('article').locator('pre', { hasText: 'All of it.' }).first().waitFor();
    await page.done();
  });

  it('shows a selected part on a telephone, however many questions are above it', async () => {
    const steps = Array.from({ length: 3 }, (_, at) => ({ id: `p${at}`, title: `Person ${at}`, executor: 'human', description: 'Say what is there.\n'.repeat(8) }));
    const run = await house.run({ plan: { title: 'Many questions', steps: [{ id: 'all', parallel: [...steps, { id: 'on', title: 'Goes on', do: LONG }] }] } });
    const page = await house.page(`/runs/${run}`, { width: 400, height: 700 });
    await until(async () => (await page.locator('form.question').count()) === 3, 'three questions');
    await node(page, 'Goes on').click();
    await until(async () => (await place(page.locator('.about'))) < 350, 'the part is in the window');
    await stop(run);
    await page.done();
  });

  it('says that a search found only some of the words', async () => {
    house.folio('observe', 'add', 'The key is in the barn');
    house.folio('observe', 'add', 'The door is open');
    const page = await house.page('/search?q=key+door');
    await page.getByText('Nothing has all of the words; these have some of them.').waitFor();
    await page.getByRole('searchbox').fill('key barn');
    await page.getByText('1 found').waitFor();
    assert.equal(await page.getByText('Nothing has all of the words').count(), 0);
    await page.done();
  });

  it('restores an archived observation', async () => {
    house.folio('observe', 'add', 'Put away by mistake');
    const { items: [{ handle }] } = await house.ask('GET', '/observations?text=mistake');
    const page = await house.page(`/observations/${handle}`);
    await page.getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.getByRole('button', { name: 'Archive' }).waitFor();
    assert.equal((await house.ask('GET', `/observations/${handle}`)).status, 'active');
    await page.done();
  });

  it('shows a turn to whom its trace is refused, and calls a refused page not allowed', async () => {
    const turn = house.folio('turn', 'begin', '--input', 'Rotate the key').match(/t\d+/)[0];
    const page = await house.page('/', { quiet: true });
    const refuse = (route) => route.fulfill({ status: 403, contentType: 'application/problem+json', json: { title: 'Forbidden', detail: 'a client may not read the trace', status: 403, code: 'forbidden' } });
    await page.route(/\/(trace|receipts)(\?|$)/, refuse);
    await page.goto(`${house.base}/turns/${turn}`);
    await page.getByRole('heading', { name: 'Rotate the key' }).waitFor();
    await page.getByText('a client may not read the trace').first().waitFor();
    await page.route(/\/turns\/t\d+$/, (route) => (route.request().isNavigationRequest() ? route.fallback() : refuse(route)));
    await page.reload();
    await page.getByRole('heading', { name: 'Not allowed' }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('renders bare addresses, images and escaped bars in tables', async () => {
    const text = '![a map](https://example.org/map.png)\n\nSee https://example.org/a, and `b`.\n\n| a | b |\n|---|---|\n| `x \\| y` | z |\n';
    const page = await house.page('/');
    const made = await page.evaluate(async (given) => {
      const { markdown } = await import('/ui/markdown.js');
      const block = document.createElement('div');
      block.append(...markdown(given));
      return { text: block.textContent, links: [...block.querySelectorAll('a')].map((one) => one.href), code: [...block.querySelectorAll('td code')].map((one) => one.textContent) };
    }, text);
    assert.deepEqual(made.links, ['https://example.org/map.png', 'https://example.org/a']);
    assert.deepEqual(made.code, ['x | y']);
    assert.doesNotMatch(made.text, /!/);
    await page.done();
  });

  it('renders escaped characters as they are, in addresses and marks, too', async () => {
    const page = await house.page('/');
    const made = await page.evaluate(async (lines) => {
      const { markdown } = await import('/ui/markdown.js');
      return lines.map((line) => {
        const block = document.createElement('div');
        block.append(...markdown(line));
        return [block.textContent, ...[...block.querySelectorAll('a, strong, em, code')].map((one) => one.getAttribute('href') ?? `${one.tagName} ${one.textContent}`)];
      });
    }, ['https://host.example/a\\_b/c\\#d \\*z\\* \\`c\\` &lt;x&gt;', 'At https://en.wikipedia.org/wiki/Rust_(fungus), (https://a.example/c) too.', '[a\\_b](https://x.example/y\\_z) **a\\_b** *c*']);
    assert.deepEqual(made, [
      ['https://host.example/a_b/c#d *z* `c` <x>', 'https://host.example/a_b/c#d'],
      ['At https://en.wikipedia.org/wiki/Rust_(fungus), (https://a.example/c) too.', 'https://en.wikipedia.org/wiki/Rust_(fungus)', 'https://a.example/c'],
      ['a_b a_b c', 'https://x.example/y_z', 'STRONG a_b', 'EM c'],
    ]);
    await page.done();
  });
});
