// Reading a run that others made: what failed and why, what it waits for, and that it stays readable while it changes.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, fits, hindrances, LONG, until } from './house.mjs';

describe('reading a run', () => {
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

  it('refreshes again for changes that arrived during a failed refresh', async () => {
    // Only the module is loaded, and time stands still.
    const page = await house.page('/ui/ask.js');
    const looks = await page.evaluate(async () => {
      const { live } = await import('/ui/ask.js');
      const later = [], beats = [], looks = [];
      window.setTimeout = (then) => later.push(then);
      window.setInterval = (then) => beats.push(then);
      window.fetch = () => new Promise(() => {});
      const first = live(() => new Promise((_, refused) => looks.push(refused)), new AbortController().signal, { isOwed: () => true });
      beats[0]();
      later.shift()();
      looks[0](new Error('too many at a time'));
      await first.catch(() => {});
      later.shift()?.();
      return looks.length;
    });
    assert.equal(looks, 2);
    await page.done();
  });

  it('parses event stream messages whatever their chunk boundaries', async () => {
    const page = await house.page('/ui/ask.js');
    const told = await page.evaluate(async () => {
      document.body.append(Object.assign(document.createElement('p'), { id: 'connection' }));
      const { follow } = await import('/ui/ask.js');
      const text = ': alive\n\nid: 1\nevent: said\ndata: {"a":\ndata: "é"}\n\nid: 2\ndata: 2\n\nevent: end\ndata: {}\n\n';
      const bytes = new TextEncoder().encode(text), all = new Set();
      for (let size = 1; size <= bytes.length; size++) {
        window.fetch = async () => new Response(new ReadableStream({ start(to) {
          for (let at = 0; at < bytes.length; at += size) to.enqueue(bytes.slice(at, at + size));
          to.close();
        } }));
        const heard = [];
        await follow('/events', { signal: new AbortController().signal, hear: (...one) => { heard.push(one); return one[0] !== 'end'; } });
        all.add(JSON.stringify(heard));
      }
      return [...all];
    });
    assert.deepEqual(told, ['[["said",{"a":"é"},"1"],["message",2,"2"],["end",{},null]]']);
    await page.done();
  });

  it('filters a large tree to failed nodes with one button and shows why they failed', async () => {
    const numbers = Array.from({ length: 120 }, (_, n) => n);
    const criteria = [{ text: 'It is another one.', check: { json_schema: { schema: { properties: { value: { not: { enum: [77, '77'] } } } } } } }];
    const step = { id: 'part', title: 'Part {{ n }}.', do: echo('{{ n }}'), criteria };
    const run = await house.run({ plan: { title: 'Many parts', goal: 'See which of them is broken', steps: [{ id: 'each', title: 'All of them', for_each: numbers, as: 'n', max_items: 200, step }] } });
    await ended(run, 'failed');
    for (const width of [1280, 400]) {
      const page = await house.page(`/runs/${run}`, { width });
      await page.getByText('See which of them is broken').waitFor();
      // A group of this size is collapsed at first.
      await counts(node(page, 'Part 77.'), 0);
      const failed = page.getByRole('button', { name: '2 failed' });
      await failed.focus();
      await page.keyboard.press('Enter');
      await node(page, 'Part 77.').waitFor();
      await counts(page.getByRole('treeitem'), 3);
      assert.equal(await page.evaluate(() => document.activeElement.textContent), '✗2 failed', 'the button keeps the focus');
      assert.deepEqual(await hindrances(page), []);
      assert.ok(await fits(page), `it is wider than ${width}`);
      await node(page, 'Part 77.').click();
      await page.getByRole('article').getByText('what was wanted was not reached').waitFor();
      if (width === 400) { await page.done(); continue; }
      await page.getByRole('button', { name: '2 failed' }).click();
      await node(page, 'All of them').click();
      // If there is much evidence, only the first is shown, and failures come first.
      const evidence = page.getByRole('article').getByRole('listitem');
      await page.getByRole('button', { name: 'Show all 120' }).waitFor();
      await counts(evidence, 50);
      assert.match(await evidence.first().innerText(), /Part 77\./);
      // The target of a link is shown, whatever the filter.
      await page.getByRole('searchbox', { name: 'Filter tree' }).fill('Part 77.');
      await node(page, 'Part 0.').waitFor({ state: 'detached' });
      await page.getByRole('article').getByRole('link', { name: 'Part 0.' }).click();
      await page.getByRole('heading', { name: 'Part 0.', exact: true }).waitFor();
      await page.locator('[role=treeitem][aria-selected=true]').filter({ hasText: 'Part 0.' }).waitFor();
      assert.equal(await page.getByRole('searchbox', { name: 'Filter tree' }).inputValue(), '');
      await page.done();
    }
  });

  it('says that a run waits for approval, or which other run it waits for', async () => {
    const command = (title, seconds) => ({ title, steps: [{ id: 'a', title: 'A command', do: { tool: 'shell', args: { argv: ['sleep', String(seconds)], cwd: house.folder } } }] });
    const approved = async (run) => {
      const asks = await until(async () => (await house.ask('GET', `/runs/${run}/questions`)).items[0], 'it asks');
      await house.ask('POST', `/approvals/${asks.id}`, { approve: true });
    };
    const first = await house.run({ plan: command('Writes first', 60) });
    const page = await house.page(`/runs/${first}`);
    const state = page.locator('.state');
    await state.getByText('waiting for you').waitFor();
    await page.getByRole('article').getByText('waiting for you').waitFor();
    await approved(first);
    await state.getByText('running').waitFor();
    // It is running before its command writes: the other one would be first otherwise.
    await until(async () => (await house.ask('GET', `/runs/${first}`)).in_flight === 1, 'its command has begun');
    await page.done();
    const second = await house.run({ plan: command('Is to write there, too', 0) });
    await approved(second);
    await until(async () => (await house.ask('GET', `/runs/${second}`)).held_up?.by === first, 'it is known what it waits for');
    const waiting = await house.page(`/runs/${second}`, { width: 400 });
    await waiting.getByText(`a call of ${first} is writing ${house.folder}`).waitFor();
    await waiting.locator('.state').getByText('waiting for another run').waitFor();
    assert.ok(await fits(waiting), 'what it says is wider than the window');
    assert.deepEqual(await hindrances(waiting), []);
    await stopped(first);
    await waiting.getByText('a call of').waitFor({ state: 'detached' });
    await ended(second, 'ok');
    await waiting.done();
  });

  it('renders scrollable tables, lists and quotes of a report within the window', async () => {
    const row = (of) => `|${Array.from({ length: 24 }, (_, n) => ` ${of} ${n} `).join('|')}|\n`;
    const body = `${row('Heading')}${'|---:'.repeat(24)}|\n${row('words')}\n> What somebody said.\n\n1. first\n2. second\n\n---\n\n| small |\n|---|\n| table |\n`;
    const run = await house.run({ plan: { title: 'With a report', steps: [{ id: 'a', title: 'Begin', do: echo(1) }], report: { title: 'What came of it', body } } });
    await ended(run, 'ok');
    for (const width of [1280, 400]) {
      const page = await house.page(`/runs/${run}`, { width });
      if (width === 400) await node(page, 'With a report').click();
      const wide = page.getByRole('region', { name: 'Scrollable table' });
      await wide.waitFor();
      assert.ok(await fits(page), `the report is wider than ${width}`);
      assert.deepEqual(await hindrances(page), []);
      const cell = page.getByRole('cell', { name: 'words 23' });
      assert.ok((await cell.boundingBox()).height < 70, 'its words are whole');
      assert.equal(await cell.evaluate((one) => getComputedStyle(one).textAlign), 'end');
      assert.equal(await page.locator('article blockquote').innerText(), 'What somebody said.');
      assert.deepEqual(await page.locator('article ol li').allInnerTexts(), ['first', 'second']);
      await counts(page.locator('article hr'), 1);
      // The small one cannot be focused with the keyboard.
      await counts(wide, 1);
      await wide.focus();
      await page.keyboard.press('ArrowRight');
      await until(() => wide.evaluate((one) => one.scrollLeft > 0), 'the keyboard moves it');
      await page.done();
    }
  });

  it('renders code blocks in Markdown, names commands of people, marks external links and handles huge input quickly', async () => {
    const page = await house.page('/');
    const made = (text) => page.evaluate(async (text) => {
      const { markdown } = await import('/ui/markdown.js');
      const block = document.createElement('div');
      block.append(...markdown(text));
      return block.innerHTML.replace(/ dir="auto"/g, '');
    }, text);
    const entry = (handle, body) => `- ${handle} Seen — ${body.replaceAll('\n', '\n  ')}`;
    assert.equal(await made(`${entry('e1', '```js\nlet a;\n\n- b\n```\nafter')}\n${entry('e2', '```\ncut')}\n- e3\n\nText`),
      '<ul><li>e1 Seen — <pre>let a;\n\n- b</pre>\nafter</li><li>e2 Seen — <pre>cut</pre></li><li>e3</li></ul><p>Text</p>');
    assert.equal(await made('````\n```js\nlet a;\n```\n````\nText'), '<pre>```js\nlet a;\n```</pre><p>Text</p>');
    assert.equal(await made('1. step\n   ```\n   a\n     b\n   ```\n2. next'), '<ol><li value="1">step<pre>a\n  b</pre></li><li value="2">next</li></ol>');
    assert.equal(await made('It is.\n[9 of 99 characters left out; use result_read node=obs_1AB]\n\nIt is kept as blob:a1; read it with result_read'),
      '<p>It is.\n[9 of 99 characters left out; <code>folio blob obs_1AB</code> prints all]</p><p>It is kept as blob:a1; read it with <code>folio blob a1</code></p>');
    const links = (await made('[a](/runs/r1) [b](/\\evil.example/) [c](//evil.example) [d](https://evil.example) [e](https://[)')).split('<a').slice(1);
    assert.deepEqual(links.map((one) => one.includes('noopener noreferrer')), [false, true, true, true]);
    for (const part of ['[', '[a](/', '**', '`', '| ', '- ']) {
      const began = Date.now();
      await made(part.repeat(100_000));
      assert.ok(Date.now() - began < 2000, `${Date.now() - began} ms for many ${part}`);
    }
    // Also what opens nothing, or becomes many elements.
    for (const text of [`${'~'.repeat(60_000)}\``, '(*'.repeat(10_000), '`1` '.repeat(5000), '`src/file.rs` changed\n'.repeat(4000), `- a\n${'  `b` c\n'.repeat(4000)}`]) {
      const began = Date.now();
      await made(text);
      assert.ok(Date.now() - began < 2000, `${Date.now() - began} ms for ${text.slice(0, 20)}…`);
    }
    await page.done();
  });

  it('keeps text selection and focus while a run progresses', async () => {
    const steps = [{ id: 'gate', title: 'Gate', executor: 'human' }, { id: 'more', title: 'More', do: echo(2) }, { id: 'last', title: 'Last', do: LONG }];
    const run = await house.run({ plan: { title: 'Read meanwhile', goal: 'To be read while it is written', steps } });
    const page = await house.page(`/runs/${run}`);
    await page.locator('form.question').waitFor();
    await page.getByRole('button', { name: 'Log' }).focus();
    await page.keyboard.press('Enter');
    const text = page.getByRole('article').getByText('To be read while it is written');
    await text.waitFor();
    const focus = () => page.evaluate(() => document.activeElement.textContent);
    assert.equal(await focus(), 'Log');
    const lines = await page.getByRole('article').innerText();
    await text.evaluate((one) => { one.isSame = true; getSelection().selectAllChildren(one); });
    const { items: [asks] } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${asks.id}/answer`, { answer: 'go' });
    await node(page, 'Last, running').waitFor();
    await until(async () => (await page.getByRole('article').innerText()) !== lines, 'the log grows');
    assert.ok(await text.evaluate((one) => one.isSame && getSelection().toString() === one.textContent), 'what was marked is');
    assert.equal(await focus(), 'Log');
    await page.getByRole('button', { name: 'Pause' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Continue' }).waitFor();
    await until(async () => (await focus()) === 'Continue', 'the button keeps the focus');
    await stopped(run);
    await page.done();
  });

  it('keeps opened and closed sections of a plan while its steps progress', async () => {
    const steps = [{ id: 'gate', title: 'Gate', executor: 'human' }, { id: 'more', title: 'More', do: echo(2) }, { id: 'last', title: 'Last', do: LONG }];
    const run = await house.run({ plan: { title: 'A plan that is read', steps } });
    const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
    const put = (body) => fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, { method: 'PUT', headers: { 'content-type': 'text/markdown', 'if-match': '*' }, body });
    assert.equal((await put(markdown.replace('Last', 'The last one'))).status, 200);
    const page = await house.page(`/runs/${run}?tab=plan`);
    const about = page.getByRole('article');
    const [whole, change] = ['Plan source', 'Changes since version 1'].map((text) => about.locator('details', { hasText: text }));
    await whole.locator('summary').click();
    await change.locator('summary').click();
    const edit = page.getByRole('button', { name: 'Edit plan' });
    await edit.focus();
    const { items: [asks] } = await house.ask('GET', `/runs/${run}/questions`);
    await house.ask('POST', `/questions/${asks.id}/answer`, { answer: 'go' });
    await about.locator('.steps li', { hasText: 'The last one' }).getByText('running').waitFor();
    await about.locator('.steps li', { hasText: 'More' }).getByText('done').waitFor();
    assert.deepEqual([await whole.evaluate((one) => one.open), await change.evaluate((one) => one.open)], [true, false]);
    assert.ok(await edit.evaluate((one) => one === document.activeElement), 'the button keeps the focus');
    // Another version is listed, and opened parts show it.
    assert.equal((await put((await house.ask('GET', `/runs/${run}/plan`)).markdown.replace('A plan', 'The plan') + '- After it {after}\n')).status, 200);
    await about.locator('.versions > li').filter({ hasText: 'Version 3' }).waitFor();
    await whole.getByText('After it').waitFor();
    assert.equal(await change.evaluate((one) => one.open), false);
    await stopped(run);
    await edit.waitFor({ state: 'hidden' });
    await page.done();
  });

  it('indents the members of a group in the list of steps', async () => {
    const inner = { id: 'inner', title: 'Inner', sequence: [{ id: 'b', title: 'In it', do: echo(1) }] };
    const steps = [{ id: 'all', title: 'Outer', parallel: [{ id: 'a', title: 'Beside it', do: echo(1) }, inner] }, { id: 'c', title: 'Next', do: echo(1) }];
    const run = await house.run({ plan: { title: 'Of groups', steps } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}?tab=plan`);
    const left = async (title) => (await page.locator('.steps li', { hasText: title }).boundingBox()).x;
    const [outer, beside, within, last, next] = [await left('Outer'), await left('Beside it'), await left('Inner'), await left('In it'), await left('Next')];
    assert.ok(outer < beside && beside === within && within < last && next === outer, String([outer, beside, within, last, next]));
    await page.done();
  });

  it('scrolls the focused row of a tree into a low window', async () => {
    const steps = Array.from({ length: 12 }, (_, at) => ({ id: `s${at}`, title: `Step ${at}`, do: echo(at) }));
    const run = await house.run({ plan: { title: 'In a low window', steps } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`, { height: 260 });
    await node(page, 'Step 1, done').focus();
    await page.evaluate(() => scrollTo(0, 0));
    await page.keyboard.press('ArrowDown');
    const isVisible = () => page.evaluate(() => { const { top, bottom } = document.activeElement.getBoundingClientRect(); return top > -1 && bottom < innerHeight + 1; });
    assert.ok(await isVisible());
    await page.keyboard.press('End');
    assert.ok(await isVisible());
    await page.done();
  });

  it('navigates a filtered tree with the arrow keys', async () => {
    const parts = Array.from({ length: 30 }, (_, n) => ({ id: `s${n}`, title: `Number ${n}.`, do: echo(n) }));
    const run = await house.run({ plan: { title: 'Found among many', steps: [{ id: 'all', title: 'All of them', parallel: parts }] } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`);
    const search = page.getByRole('searchbox', { name: 'Filter tree' });
    await search.fill('Number 17');
    await counts(page.getByRole('treeitem'), 3);
    const focus = (title) => until(() => page.evaluate((text) => document.activeElement.querySelector('.title')?.textContent === text, title), `${title} has the focus`);
    await node(page, 'Found among many').focus();
    for (const [key, title] of [['ArrowRight', 'All of them'], ['ArrowRight', 'Number 17.'], ['ArrowRight', 'Number 17.'], ['ArrowLeft', 'All of them'], ['ArrowLeft', 'Found among many']]) {
      await page.keyboard.press(key);
      await focus(title);
      assert.equal(await search.inputValue(), 'Number 17');
      await counts(page.getByRole('treeitem'), 3);
    }
    // Nothing was collapsed meanwhile.
    await search.fill('');
    await node(page, 'Number 0.').waitFor();
    await page.done();
  });

  it('restores the scroll position of the run list on going back', async () => {
    const page = await house.page('/', { height: 300 });
    await page.getByRole('link', { name: 'With a report' }).waitFor();
    const last = page.locator('.cards a').last();
    await last.scrollIntoViewIfNeeded();
    const top = await page.evaluate(() => scrollY);
    assert.ok(top > 0, 'there is something to scroll');
    await last.click();
    await page.getByRole('tree').waitFor();
    await page.goBack();
    await until(async () => Math.abs((await page.evaluate(() => scrollY)) - top) < 5, 'the list stands where it stood');
    await page.done();
  });

  it('links a memory page to its child pages', async () => {
    const run = await house.run({ plan: { title: 'With pages', steps: [{ id: 'a', title: 'A branch of it', do: echo('leaf') }] } });
    await ended(run, 'ok');
    const { pages } = await house.ask('GET', `/runs/${run}`);
    const page = await house.page(`/pages/${pages.workspace}`);
    await page.getByRole('link', { name: pages.main, exact: true }).click();
    await page.getByRole('heading', { name: 'Main scratchpad', level: 1 }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'A branch of it' }).getByRole('link').click();
    await page.getByRole('heading', { name: 'A branch of it', level: 1 }).waitFor();
    await page.done();
  });

  it('shows the end of a long trace, loads earlier lines on request and keeps a receipt open', async () => {
    const steps = Array.from({ length: 90 }, (_, n) => ({ id: `s${n}`, title: `Step ${n}`, do: echo(n) }));
    const run = await house.run({ plan: { title: 'A long turn', steps } });
    await ended(run, 'ok');
    const { items } = await house.ask('GET', '/turns?limit=100');
    const turn = items.find((one) => one.input === 'A long turn').handle;
    const page = await house.page(`/turns/${turn}`);
    const entries = page.getByRole('list', { name: 'Timeline' }).getByRole('listitem');
    await entries.filter({ hasText: 'end turn' }).waitFor();
    assert.equal(await entries.filter({ hasText: 'Iteration 1: plan' }).count(), 0);
    // A commit of something else triggers no request for a turn that has ended.
    let asked = [];
    // Earlier requests are not counted.
    await page.goto('about:blank');
    page.on('request', (request) => { if (request.url().includes('/trace')) asked.push(request.url()); });
    await page.goto(`${house.base}/turns/${turn}`);
    // The page refreshes once it is connected.
    await until(() => asked.length >= 2, 'it listens');
    asked = [];
    house.folio('observe', 'add', 'Noticed beside it');
    const other = await house.page('/observations');
    await other.getByText('Noticed beside it').waitFor();
    await other.done();
    assert.deepEqual(asked, []);
    // The answer to an automatic refresh arrives after that to a request of the user.
    const held = [], isHeld = /trace\?limit=500$/;
    await page.route(isHeld, (route) => held.push(route));
    const last = entries.filter({ hasText: 'end turn' });
    await last.evaluate((one) => { one.isSame = true; });
    house.folio('--turn', turn, 'observe', 'add', 'Noticed in it');
    await until(() => held.length > 0, 'it is asked for once more');
    const first = held.shift();
    await first.continue();
    await entries.filter({ hasText: 'Noticed in it' }).waitFor();
    assert.ok(await last.evaluate((one) => one.isSame), 'the lines that were there are');
    house.folio('--turn', turn, 'observe', 'add', 'Noticed later');
    await until(() => held.length > 0, 'it is asked for a third time');
    await page.getByRole('button', { name: 'Show earlier' }).click();
    await entries.filter({ hasText: 'Iteration 1: plan' }).waitFor();
    await page.getByRole('button', { name: 'Show earlier' }).waitFor({ state: 'detached' });
    const late = page.waitForResponse((response) => isHeld.test(response.url()));
    await Promise.all(held.map((route) => route.continue()));
    await (await late).finished();
    await page.evaluate(() => new Promise((done) => setTimeout(done)));
    await counts(entries.filter({ hasText: 'Iteration 1: plan' }), 1, 'all of it is still there');
    const chip = page.getByRole('button', { name: 'engine', exact: true });
    await chip.focus();
    await page.keyboard.press('Enter');
    await entries.filter({ hasText: 'Iteration 1: plan' }).waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'engine');
    await page.done();
    house.folio('turn', 'begin', '--input', 'Goes on');
    const { items: [{ handle: open }] } = await house.ask('GET', '/turns?limit=1');
    house.folio('--turn', open, 'book', 'view');
    const live = await house.page(`/turns/${open}`, { width: 400 });
    await live.locator('summary', { hasText: 'view of main' }).click();
    await live.getByRole('rowheader', { name: 'alerts' }).or(live.locator('.receipt th', { hasText: 'alerts' })).first().waitFor();
    assert.ok(await fits(live), 'the receipt is wider than the window');
    house.folio('--turn', open, 'observe', 'add', 'Noticed meanwhile');
    await live.getByText('add observation').first().waitFor();
    assert.ok(await live.locator('details.panel').first().evaluate((one) => one.open), 'it is still open');
    await live.done();
  });
});
