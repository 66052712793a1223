// Memory in the browser: the scratch page, scratchbooks, turns, search.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, fits, hindrances, LONG, until } from './house.mjs';

describe('memory pages', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const card = (page, text) => page.getByRole('listitem').filter({ hasText: text });

  it('names the command to begin with on every empty page', async () => {
    for (const [path, command] of [['/observations', 'folio observe add'], ['/threads', 'folio book add'], ['/turns', 'folio turn begin'], ['/', 'folio run']]) {
      const page = await house.page(path);
      await page.locator('.empty').filter({ hasText: command }).waitFor();
      await page.done();
    }
  });

  it('shows new observations live with confidence and expiry', async () => {
    const page = await house.page('/observations');
    await page.locator('.empty').waitFor();
    await house.ask('POST', '/observations', { type: 'risk_alert', content: 'The key is checked in', confidence: 0.9, tags: ['key'], ttl_minutes: 90 });
    const one = card(page, 'The key is checked in');
    await one.getByText('90% confidence').first().waitFor();
    await one.getByText('expires').waitFor();
    assert.match(await one.locator('.expiry time').getAttribute('title'), /\d{4}/);
    await house.ask('POST', '/observations', { type: 'dependency', content: 'The tests need a database', confidence: 0.4, tags: ['tests', 'key'] });
    await card(page, 'The tests need a database').waitFor();
    await page.done();
  });

  it('links a tag with special characters to all observations that have it', async () => {
    for (const tag of ['one,two', '#number', '#one,#two']) await house.ask('POST', '/observations', { content: `Noticed for ${tag}.`, tags: [tag] });
    const page = await house.page('/observations');
    for (const tag of ['one,two', '#number', '#one,#two']) {
      await card(page, `Noticed for ${tag}.`).getByRole('link', { name: `#${tag}`, exact: true }).click();
      await page.getByText(/^1 in total$/).waitFor();
      await card(page, `Noticed for ${tag}.`).waitFor();
      await page.goBack();
      await counts(card(page, 'Noticed for'), 3);
    }
    await page.done();
  });

  it('refreshes an observation when its expiry time passes without other changes', async () => {
    const { handle } = await house.ask('POST', '/observations', { content: 'Holds for some time.', ttl_minutes: 60 });
    const page = await house.page('/');
    // The first answer is that of long ago.
    const past = (one) => (one.handle === handle ? { ...one, expires_at: new Date(Date.now() - 60_000).toISOString() } : one);
    let many = 0;
    const isPast = (at) => page.change(at, (told) => {
      many++;
      return told.items ? { ...told, items: told.items.map(past) } : past(told);
    });
    // The page refreshes once it is connected; after that, nothing triggers a refresh.
    const shown = async () => {
      await page.getByText('expires 1 min ago').waitFor();
      await until(() => many >= 2, 'it listens');
      await page.unrouteAll({ behavior: 'wait' });
      many = 0;
    };
    await isPast(/\/observations\?limit/);
    await page.getByRole('link', { name: 'Scratch page', exact: true }).click();
    await shown();
    await card(page, 'Holds for some time.').getByText('expires in').waitFor();
    await isPast(new RegExp(`/observations/${handle}\\?whole`));
    await card(page, 'Holds for some time.').locator('.content').click();
    await shown();
    await page.getByText('expires in').waitFor();
    await page.done();
  });

  it('keeps focus and selection on an observation that changes, and says why it was not archived', async () => {
    const { handle } = await house.ask('POST', '/observations', { content: 'Watched by somebody', tags: ['alpha', 'beta'] });
    const page = await house.page(`/observations/${handle}`, { quiet: true });
    const archive = page.getByRole('button', { name: 'Archive' });
    await archive.focus();
    await page.evaluate(() => getSelection().selectAllChildren(document.querySelector('.said')));
    const change = async (confidence, version) => {
      await house.ask('PATCH', `/observations/${handle}`, { confidence });
      await page.getByText(`Version ${version}`).waitFor();
    };
    await change(0.9, 2);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Archive');
    assert.equal(await page.evaluate(() => String(getSelection())), 'Watched by somebody');
    await page.getByRole('link', { name: '#beta' }).focus();
    await change(0.8, 3);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), '#beta');
    await archive.click();
    await change(0.4, 4);
    await page.route(/\/archive$/, (route) => route.fulfill({ status: 409, json: { detail: 'it was refused' } }));
    await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('alert').getByText('it was refused').waitFor();
    await page.done();
  });

  it('keeps the focus on the tag of a card that changes, and in a list that loses it', async () => {
    const add = async (content, tags) => (await house.ask('POST', '/observations', { content, tags })).handle;
    await add('Stays in the list', ['listed']);
    const handle = await add('Leaves the list', ['listed', 'other']);
    const page = await house.page('/observations?tags=listed');
    const one = card(page, 'Leaves the list');
    await one.getByRole('link', { name: '#other' }).focus();
    await house.ask('PATCH', `/observations/${handle}`, { confidence: 0.9 });
    await one.getByText('90% confidence').first().waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), '#other');
    await house.ask('PATCH', `/observations/${handle}`, { tags: ['other'] });
    await one.waitFor({ state: 'detached' });
    assert.ok(await page.evaluate(() => document.activeElement.closest('li')?.textContent.includes('Stays in the list')));
    await page.done();
  });

  it('filters observations and keeps the filters in the URL', async () => {
    const page = await house.page('/observations');
    const [key, tests] = [card(page, 'The key is checked in'), card(page, 'The tests need a database')];
    await tests.waitFor();
    await page.getByRole('spinbutton', { name: 'Minimum confidence, 0 to 1' }).fill('0.8');
    await tests.waitFor({ state: 'detached' });
    await counts(key, 1);
    await page.reload();
    await key.waitFor();
    await counts(tests, 0);
    await page.getByRole('spinbutton').fill('');
    await tests.waitFor();
    await page.getByRole('searchbox', { name: 'Search observations' }).fill('database');
    await key.waitFor({ state: 'detached' });
    await page.getByRole('searchbox', { name: 'Search observations' }).fill('');
    await page.getByRole('link', { name: '#tests' }).click();
    await key.waitFor({ state: 'detached' });
    await tests.waitFor();
    assert.match(page.url(), /\?tags=tests$/);
    // As the cards show them.
    await page.getByRole('textbox', { name: 'Tags (all must match)' }).fill('#key tests');
    await tests.waitFor();
    await page.getByRole('textbox', { name: 'Tags (all must match)' }).fill('#key');
    await page.getByRole('textbox', { name: 'Type' }).fill('risk alert');
    await key.waitFor();
    await tests.waitFor({ state: 'detached' });
    await page.getByRole('textbox', { name: 'Type' }).fill('');
    await page.getByRole('textbox', { name: 'Tags (all must match)' }).fill('no such tag');
    await page.getByText('No matching observations').waitFor();
    await page.done();
  });

  it('shows the versions and differences of an observation, archives it and reports unknown handles', async () => {
    const { handle } = await house.ask('POST', '/observations', { content: 'The door is red\nand open', confidence: 0.5 });
    await house.ask('PATCH', `/observations/${handle}`, { content: 'The door is blue\nand open', confidence: 0.7 });
    const page = await house.page(`/observations/${handle}`);
    await page.getByRole('heading', { name: 'History' }).waitFor();
    await page.locator('.diff del', { hasText: 'The door is red' }).waitFor();
    await page.locator('.diff ins', { hasText: 'The door is blue' }).waitFor();
    assert.equal(await page.locator('.diff ins, .diff del').filter({ hasText: 'and open' }).count(), 0);
    await house.ask('PATCH', `/observations/${handle}`, { tags: ['seen'] });
    await page.getByText('Version 3').waitFor();
    await page.getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
    await page.locator('.facts > dd').getByText('archived', { exact: true }).first().waitFor();
    await page.done();
    const gone = await house.page('/observations/e99999', { quiet: true });
    await gone.getByRole('alert').getByText('e99999').first().waitFor();
    await gone.getByRole('heading', { name: 'Not found', level: 1 }).waitFor();
    assert.equal(await gone.title(), 'Not found · Folio');
    await gone.getByRole('main').getByRole('link', { name: 'Scratch page' }).click();
    await gone.getByRole('heading', { name: 'Scratch page', level: 1 }).waitFor();
    await gone.done();
    const page99 = await house.page('/pages/p999', { quiet: true });
    await page99.getByRole('alert').getByText('p999').first().waitFor();
    // A commit does not trigger another request.
    const asked = [];
    page99.on('request', (request) => asked.push(request.url()));
    const list = await house.page('/observations');
    await house.ask('POST', '/observations', { content: 'Later than that page' });
    await card(list, 'Later than that page').waitFor();
    await list.done();
    assert.deepEqual(asked, []);
    assert.equal(await page99.locator('#connection').textContent(), '');
    await page99.done();
  });

  it('shows exactly the scratchbook view that a model reads, with its receipt', async () => {
    house.folio('book', 'add', 'task', 'Write the tests', '--phase', 'draft', '--progress', '0.2');
    house.folio('book', 'add', 'note', 'Long words', '--body', 'are '.repeat(60));
    const page = await house.page('/threads');
    await page.getByRole('link', { name: 'main' }).click();
    const view = page.getByLabel('What a model reads', { exact: true });
    await view.getByText('Write the tests').waitFor();
    const shown = await house.ask('GET', '/threads/main/scratchbook');
    assert.equal(await view.textContent(), shown.view);
    await page.getByText(`${shown.tokens} of ${shown.receipt.budget} tokens`).first().waitFor();
    await page.getByRole('row', { name: /^tasks/ }).getByText(/e\d+/).waitFor();
    await page.getByRole('spinbutton', { name: 'Tokens' }).fill('60');
    const small = await house.ask('GET', '/threads/main/scratchbook?view_token_limit=60');
    await until(async () => (await view.textContent()) === small.view, 'the view within 60 tokens');
    await page.getByRole('cell', { name: /budget/ }).first().waitFor();
    await page.getByRole('spinbutton', { name: 'Tokens' }).fill('1');
    await view.getByText('the token budget leaves room for nothing').waitFor();
    await page.getByRole('spinbutton', { name: 'Tokens' }).fill('0');
    await until(async () => (await page.locator('.meta').first().textContent()).includes('of 0 tokens'), 'no budget');
    await view.getByText('the token budget leaves room for nothing').waitFor();
    house.folio('book', 'add', 'todo', 'Seen at once');
    await card(page, 'Seen at once').waitFor();
    await page.done();
  });

  it('shows a turn as a timeline with receipts and filters it by component', async () => {
    house.folio('turn', 'begin', '--input', 'Rotate the key before the release');
    const page = await house.page('/turns');
    await page.getByRole('link', { name: /Rotate the key before the release/ }).click();
    await page.getByRole('heading', { name: 'Rotate the key before the release' }).waitFor();
    const entries = page.getByRole('list', { name: 'Timeline' }).getByRole('listitem');
    await entries.filter({ hasText: 'begin turn' }).waitFor();
    house.folio('--turn', 't1', 'book', 'view');
    house.folio('--turn', 't1', 'observe', 'add', 'The key is rotated');
    await entries.filter({ hasText: 'render view' }).waitFor();
    await entries.filter({ hasText: 'scratch page' }).first().waitFor();
    await page.locator('summary', { hasText: 'view of main' }).click();
    await page.getByRole('table').getByText('alerts').waitFor();
    house.folio('turn', 'end', 't1');
    await page.getByText('took').first().waitFor();
    await page.getByRole('button', { name: 'scratchbook', exact: true }).click();
    await entries.filter({ hasText: 'begin turn' }).waitFor({ state: 'detached' });
    await page.done();
  });

  it('leads from the receipt of a context to an item', async () => {
    const { handle } = await house.ask('POST', '/threads/main/scratchbook/items', { kind: 'note', title: 'An item to be found' });
    const turn = house.folio('turn', 'begin', '--input', 'What is known?').match(/t\d+/)[0];
    house.folio('--turn', turn, 'book', 'view');
    const page = await house.page('/turns', { quiet: true });
    // A receipt of a context names no thread.
    await page.change(/\/receipts$/, (told) => ({ ...told, items: told.items.map(({ thread, ...one }) => ({ ...one, of: 'context' })) }));
    await page.locator(`a[href="/turns/${turn}"]`).click();
    await page.locator('details.panel summary').click();
    await page.locator('table.receipt').getByRole('link', { name: handle, exact: true }).first().click();
    await page.getByRole('heading', { name: 'Scratchbook of main', level: 1 }).waitFor();
    await page.unrouteAll({ behavior: 'wait' });
    await page.done();
  });

  it('shows all items of a large scratchbook on request and highlights the linked item', async () => {
    const item = (n) => house.ask('POST', '/threads/large/scratchbook/items', { kind: 'note', title: `Item number ${n}.` });
    const { handle } = await item(0);
    for (let n = 1; n < 202; n += 20) await Promise.all(Array.from({ length: Math.min(20, 202 - n) }, (_, at) => item(n + at)));
    // A decision links to an entry by its handle, and names the thread.
    const page = await house.page(`/observations/${handle}?thread=large`, { quiet: true });
    await page.getByRole('heading', { name: 'Scratchbook of large', level: 1 }).waitFor();
    await page.locator('.led').getByText('Item number 0.').waitFor();
    await page.getByText('Showing 200 of 202').waitFor();
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByText('Showing 200 of 202').waitFor({ state: 'detached' });
    await counts(page.locator('.cards:not(:has(.led)) > li'), 202);
    await page.getByRole('spinbutton', { name: 'Tokens' }).fill('-5');
    await page.getByRole('alert').waitFor();
    await counts(page.locator('.receipt, .cards > li'), 0, 'what was there before stands beside no error');
    await page.done();
  });

  it('formats numbers, sizes, costs, times and expiry for people', async () => {
    const page = await house.page('/');
    const made = await page.evaluate(async () => {
      const { bytes, few, dollars, span, meter, moment } = await import('/ui/format.js');
      const { expiry } = await import('/ui/observations.js');
      const ago = (ms) => moment(new Date(Date.now() - ms).toISOString()).textContent;
      const until = new Date(Date.now() + 1e9).toISOString();
      return [[999, 1234, 999_950, 12_345_678, 123_456_789_012].map(few), [1023, 1_048_570, 5e9].map(bytes), [10, 5000, 1_500_000, 0].map(dollars), [999.7, 59_970, 3_599_600].map(span), [3_599_000, 86_000_000].map(ago),
        [meter(1, 'sure').className, meter(1, 'used', { isLimit: true }).className], ['archived', 'live'].map((state) => expiry({ expires_at: until, state })?.textContent ?? '')];
    });
    assert.deepEqual(made, [['999', '1.2k', '1.0M', '12.3M', '123G'], ['1023 B', '1.0 MiB', '4.7 GiB'], ['less than $0.0001', '$0.0050', '$1.50', '$0.00'], ['1.0 s', '1 min 0 s', '59 min 59 s'], ['1 hour ago', '1 day ago'],
      ['meter', 'meter full'], ['', 'expires in 12 days']]);
    await page.goto(`${house.base}/search`);
    await counts(page.getByRole('option', { name: 'summaries' }), 1);
    await page.done();
  });

  it('searches memory while the query is typed and filters by kind', async () => {
    const page = await house.page('/');
    await page.getByRole('link', { name: 'Search' }).press('Enter');
    await page.getByRole('searchbox', { name: 'Search memory' }).and(page.locator(':focus')).waitFor();
    await page.keyboard.type('database');
    await page.locator('mark', { hasText: 'database' }).waitFor();
    await page.getByRole('searchbox', { name: 'Search memory' }).fill('tests');
    const task = card(page, 'Write the tests');
    await task.waitFor();
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('observation');
    await task.waitFor({ state: 'detached' });
    await page.getByRole('combobox', { name: 'Kind' }).selectOption('task');
    await task.getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Scratchbook of main', level: 1 }).waitFor();
    await page.goBack();
    await page.getByRole('searchbox', { name: 'Search memory' }).fill('nothing has these words');
    await page.getByText('No results').waitFor();
    await page.done();
  });

  it('shows the API documentation within a width of 400 pixels', async () => {
    const page = await house.page('/docs', { width: 400 });
    await page.getByText('OpenAPI 3').waitFor();
    assert.ok(await fits(page), 'the list is wider than the window');
    await page.done();
  });

  it('keeps exactly one event stream open while the user navigates', async () => {
    const streams = async () => Number(/folio_event_streams (\d+)/.exec(await (await fetch(`${house.base}/metrics`)).text())[1]);
    await until(async () => (await streams()) === 0, 'pages that were closed leave no stream');
    const page = await house.page('/');
    for (const part of ['Scratch page', 'Scratchbooks', 'Turns', 'Search', 'Runs', 'Scratch page']) {
      await page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();
      await page.getByRole('heading', { level: 1, name: part }).waitFor();
      await until(async () => (await streams()) === 1, `one stream at ${part}`);
    }
    await house.ask('POST', '/observations', { content: 'Seen through the one that is left' });
    await card(page, 'Seen through the one that is left').waitFor();
    await page.done();
  });

  it('refreshes a page that becomes visible again instead of replaying missed events', async () => {
    const page = await house.page('/observations');
    const asked = [];
    page.on('request', (request) => { if (request.url().endsWith('/main/events')) asked.push(request.headers()['last-event-id']); });
    const look = (is) => page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, !is);
    await house.ask('POST', '/observations', { content: 'Seen before nobody looked' });
    await card(page, 'Seen before nobody looked').waitFor();
    asked.length = 0;
    await look(false);
    await house.ask('POST', '/observations', { content: 'Noticed while nobody looked' });
    await look(true);
    await card(page, 'Noticed while nobody looked').waitFor();
    await until(() => asked.length > 0, 'it listens again');
    assert.deepEqual(asked, [undefined]);
    await page.done();
  });

  it('fits 400 pixels and passes accessibility checks on all memory pages, light and dark', async () => {
    await house.ask('POST', '/observations', { content: `A word without an end: ${'x'.repeat(300)}`, tags: ['a-tag-that-is-rather-long-for-a-tag'] });
    for (const path of ['/observations', '/observations/e1', '/threads', '/threads/main', '/turns', '/turns/t1', '/search?q=key', '/pages/p1']) {
      for (const look of [{ width: 400 }, { width: 400, dark: true }]) {
        const page = await house.page(path, look);
        await page.getByRole('main').locator('h1').waitFor();
        await page.getByRole('main').locator('li, .panel, td').first().waitFor();
        assert.ok(await fits(page), `${path} is wider than ${look.width}`);
        assert.deepEqual(await hindrances(page), [], `${path} ${JSON.stringify(look)}`);
        await page.done();
      }
    }
  });
});

describe('on a server that requires a token', () => {
  let house;
  before(async () => {
    house = await House.open();
    house.token = house.folio('token', 'new', '--role', 'human', '--name', 'tester').trim().split('\n').pop();
    house.listen = '0.0.0.0:0';
    await house.serve();
  });
  after(() => house?.close());

  it('asks for a token, rejects invalid ones, then shows live updates', async () => {
    const page = await house.page('/observations', { quiet: true });
    const field = page.getByRole('textbox', { name: 'Token' });
    await field.fill('wrong');
    await field.press('Enter');
    await page.getByText('is unknown, expired or revoked').waitFor();
    // Characters that no header can contain.
    await field.fill('folio_abc…');
    await field.press('Enter');
    await page.getByRole('alert').getByText('This is not a valid token').waitFor();
    await field.fill(house.token);
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.locator('.empty').waitFor();
    await house.ask('POST', '/observations', { content: 'Between us' });
    await page.getByText('Between us').waitFor();
    await page.reload();
    await page.getByText('Between us').waitFor();
    const run = await house.run({ plan: { title: 'Behind a token', steps: [{ id: 'a', do: { tool: 'wait', args: { ms: 60_000 } } }] } });
    await page.getByRole('link', { name: 'Runs' }).click();
    await page.getByRole('link', { name: 'Behind a token' }).click();
    await page.getByRole('treeitem', { name: /running/ }).first().waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.getByRole('treeitem', { name: 'Behind a token, cancelled' }).waitFor();
    assert.equal(await page.evaluate(() => localStorage.length + document.cookie.length), 0);
    await page.evaluate(() => sessionStorage.setItem('folio.token', 'folio_abc…'));
    await page.reload();
    await field.fill(house.token);
    await field.press('Enter');
    await page.getByRole('treeitem', { name: 'Behind a token, cancelled' }).waitFor();
    await page.done();
  });

  it('shows the space of a token and asks for another token when the space differs', async () => {
    const other = house.folio('--space', 'other', 'token', 'new', '--role', 'human').trim().split('\n').pop();
    const page = await house.page('/turns', { quiet: true });
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    const field = page.getByRole('textbox', { name: 'Token' });
    const keep = (token) => page.evaluate((kept) => sessionStorage.setItem('folio.token', kept), token);
    await field.fill(other);
    await field.press('Enter');
    await page.getByRole('heading', { name: 'Turns', level: 1 }).waitFor();
    await page.locator('#space').getByText('space other').waitFor();
    await keep(house.token);
    await page.reload();
    await page.locator('#space').getByText('space main').waitFor();
    await keep(other);
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByText('opens only the space other').waitFor();
    await field.fill(house.token);
    await field.press('Enter');
    await page.locator('#unlock').waitFor({ state: 'hidden' });
    await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor();
    await page.locator('#space').getByText('space main').waitFor();
    assert.deepEqual(asked.filter((url) => url.includes('null')), []);
    await page.done();
  });
});

describe('when the first request fails', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  it('recovers when the user navigates to another page', async () => {
    const page = await house.page('/docs', { quiet: true });
    await page.route(/\/v1\/spaces$/, (route) => route.fulfill({ status: 500, json: { detail: 'It broke.' } }), { times: 1 });
    await page.goto(`${house.base}/`);
    await page.getByRole('alert').getByText('It broke.').waitFor();
    await page.getByRole('link', { name: 'Turns' }).click();
    await page.locator('.empty').filter({ hasText: 'folio turn begin' }).waitFor();
    await page.locator('#space').getByText('space main').waitFor();
    await page.done();
  });
});

describe('when a token is revoked', () => {
  let house;
  before(async () => {
    house = await House.open();
    house.token = house.folio('token', 'new', '--role', 'human', '--name', 'first').trim().split('\n').pop();
    house.listen = '0.0.0.0:0';
    await house.serve();
  });
  after(() => house?.close());

  it('asks for a new token and resumes live updates', async () => {
    const run = await house.run({ plan: { title: 'Longer than the token', steps: [{ id: 'a', title: 'Wait', do: LONG }] } });
    const page = await house.page(`/runs/${run}`, { quiet: true });
    const field = page.getByRole('textbox', { name: 'Token' });
    const open = async () => { await field.fill(house.token); await field.press('Enter'); };
    await open();
    await page.getByRole('treeitem', { name: 'Wait, running' }).waitFor();
    const [first] = house.folio('token', 'list').trim().split(' ');
    house.token = house.folio('token', 'new', '--role', 'human', '--name', 'second').trim().split('\n').pop();
    house.folio('token', 'revoke', first);
    await house.ask('POST', `/runs/${run}/pause`, {});
    await page.getByText('is unknown, expired or revoked').waitFor();
    await open();
    await page.locator('.state').getByText('paused').waitFor();
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.getByRole('treeitem', { name: 'Longer than the token, cancelled' }).waitFor();
    await page.done();
  });
});

describe('right-to-left scripts', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  it('aligns right-to-left text to the right', async () => {
    // In Hebrew, the final question mark is on the left.
    const hebrew = 'האם המפתח עדיין שם?', english = 'Is the key still there?';
    for (const content of [hebrew, english]) await house.ask('POST', '/observations', { content, tags: ['מפתח'] });
    house.folio('book', 'add', 'todo', hebrew, '--body', english);
    house.folio('turn', 'begin', '--input', hebrew);
    house.folio('turn', 'end', 't1');
    house.folio('page', 'new', hebrew);
    const told = (of) => of.first().evaluate((one) => [getComputedStyle(one).direction, getComputedStyle(one).textAlign].join(' '));
    for (const [path, of] of [['/observations', '.content'], ['/threads/main', '.card .content'], ['/turns', '.card .title'], ['/turns/t1', 'h1'], ['/search?q=המפתח', '.content']]) {
      const page = await house.page(path);
      const one = page.locator(of).filter({ hasText: hebrew });
      await one.first().waitFor();
      assert.equal(await told(one), 'rtl start', path);
      if (path === '/observations') {
        assert.equal(await told(page.locator(of).filter({ hasText: english })), 'ltr start');
        const [card, text] = [await one.locator('xpath=..').boundingBox(), await one.evaluate((at) => {
          const range = document.createRange();
          range.selectNodeContents(at);
          return range.getBoundingClientRect().right;
        })];
        assert.ok(card.x + card.width - text < 30, 'it ends where the card does');
      }
      await page.done();
    }
  });
});
