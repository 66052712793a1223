// Navigation: going back restores the view, and the target of a link is visible.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { House, counts, echo, fits, hindrances, LONG, until } from './house.mjs';

describe('navigation', () => {
  let house;
  before(async () => {
    house = await House.open();
    await house.serve();
  });
  after(() => house?.close());

  const node = (page, title) => page.getByRole('treeitem', { name: title });
  const ended = (handle, status) => until(async () => (await house.ask('GET', `/runs/${handle}`)).status === status, `${handle} ${status}`);

  it('restores selection, focus and scroll position of the tree on going back in a narrow window', async () => {
    const plan = { title: 'A tall tree', steps: [{ id: 'each', title: 'Each of them', for_each: Array.from({ length: 120 }, (_, n) => n), as: 'n', max_items: 200, step: { id: 'one', title: 'Number {{ n }}.', do: echo('{{ n }}') } }] };
    const run = await house.run({ plan });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}`, { width: 360, height: 700 });
    await node(page, 'Each of them').locator('.twist').click();
    await node(page, 'Number 0.').waitFor();
    const tree = page.locator('.tree');
    const ways = [['Number 60.', () => page.getByRole('button', { name: '← Tree' }).click()], ['Number 90.', () => page.goBack()]];
    for (const [title, back] of ways) {
      await tree.evaluate((one, at) => { one.scrollTop = at; }, Number(title.match(/\d+/)[0]) * 40 - 100);
      await node(page, title).waitFor();
      const top = await tree.evaluate((one) => one.scrollTop);
      await node(page, title).click();
      await page.getByRole('heading', { name: title, level: 2 }).waitFor();
      await node(page, title).waitFor({ state: 'hidden' });
      await back();
      await node(page, title).waitFor();
      assert.equal(await tree.evaluate((one) => one.scrollTop), top);
      assert.equal(await page.evaluate(() => document.activeElement.querySelector('.title').textContent), title);
      assert.equal(await node(page, title).getAttribute('aria-selected'), 'true');
      assert.doesNotMatch(page.url(), /node=/);
    }
    await page.goForward();
    await page.getByRole('heading', { name: 'Number 90.', level: 2 }).waitFor();
    await page.done();
  });

  it('restores the loaded length and scroll position of a list on going back', async () => {
    const add = (n) => house.ask('POST', '/observations', { content: `Noticed as number ${n}.` });
    for (let n = 0; n < 65; n += 13) await Promise.all(Array.from({ length: 13 }, (_, at) => add(n + at)));
    const page = await house.page('/observations');
    const cards = page.locator('.cards > li');
    await page.getByRole('button', { name: 'More' }).click();
    await counts(cards, 65, 'all of them are there');
    await cards.last().scrollIntoViewIfNeeded();
    const top = await page.evaluate(() => scrollY);
    await cards.last().locator('.content').click();
    await page.getByRole('heading', { name: 'History' }).waitFor();
    await page.goBack();
    await counts(cards, 65, 'all of them are there again');
    await until(async () => Math.abs((await page.evaluate(() => scrollY)) - top) < 5, 'the list stands where it stood');
    // Another list starts from the beginning.
    await page.getByRole('link', { name: 'Scratch page', exact: true }).click();
    await counts(cards, 50, 'as many as at first');
    await page.done();
  });

  it('restores the scroll position on reload, and on going forward and back', async () => {
    await Promise.all(Array.from({ length: 50 }, (_, n) => house.ask('POST', '/observations', { content: `Scrolled past as number ${n}.` })));
    const page = await house.page('/observations');
    const cards = page.locator('.cards > li');
    await counts(cards, 50, 'they are there');
    const scrolled = async (top) => {
      await page.evaluate((to) => new Promise((done) => { addEventListener('scroll', () => done(), { once: true }); scrollTo(0, to); }), top);
    };
    const stands = (top) => until(async () => (await cards.count()) === 50 && (await page.evaluate(() => scrollY)) === top, `it stands at ${top}`);
    await scrolled(900);
    await page.reload();
    await stands(900);
    await cards.nth(30).locator('.content').click();
    await page.getByRole('heading', { name: 'History' }).waitFor();
    await page.goBack();
    await until(async () => (await page.evaluate(() => scrollY)) > 0, 'where it was left');
    await scrolled(700);
    await page.goForward();
    await page.getByRole('heading', { name: 'History' }).waitFor();
    await page.goBack();
    await stands(700);
    await page.done();
  });

  it('keeps the row under the mouse where it is when another comes above it', async () => {
    const say = (title) => house.run({ plan: { title, steps: [{ id: 'a', do: echo(1) }] } });
    for (let n = 0; n < 14; n++) await ended(await say(`Listed as number ${n}`), 'ok');
    for (const height of [500, 4000]) {
      const page = await house.page('/', { height });
      const row = page.getByRole('link', { name: 'Listed as number 10 done', exact: true });
      await row.hover();
      const title = `Came at a height of ${height}`;
      // Clicks where the mouse is as soon as the row has come, and returns whether that counts and how far the row has moved.
      const came = page.evaluate((coming) => new Promise((done) => {
        const list = document.querySelector('.cards'), under = list.querySelector('a:hover'), { top } = under.getBoundingClientRect();
        new MutationObserver((_, observer) => {
          if (!list.textContent.includes(coming)) return;
          observer.disconnect();
          let isHeard = false;
          addEventListener('click', () => { isHeard = true; }, { once: true });
          under.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1 }));
          done([isHeard, under.getBoundingClientRect().top - top > 1]);
        }).observe(list, { childList: true });
      }), title);
      await say(title);
      // Where the page cannot scroll, what has come under the mouse is not what was aimed at.
      const isScrolled = height === 500;
      assert.deepEqual(await came, [isScrolled, !isScrolled]);
      if (isScrolled) await page.getByRole('heading', { name: 'Listed as number 10', level: 1 }).waitFor();
      await page.done();
    }
  });

  it('names a row by its title and its state, and describes it by the rest', async () => {
    const run = await house.run({ plan: { title: 'Named shortly', steps: [{ id: 'a', do: echo(1) }] } });
    await ended(run, 'ok');
    house.folio('turn', 'begin', '--input', 'Turned shortly');
    house.folio('book', 'add', 'note', 'x');
    for (const [path, name, about] of [['/', 'Named shortly done', new RegExp(`^${run} · done after`)], ['/turns', /^running: Turned shortly( normal)?$/, /main · in progress/], ['/threads', 'main', /changed/]]) {
      const page = await house.page(path);
      const row = page.getByRole('link', { name, exact: true, description: about }).and(page.locator('.card'));
      await row.first().waitFor();
      assert.deepEqual(await hindrances(page), []);
      await page.done();
    }
  });

  it('leads to the plan of a run, or back to its tree, in a narrow window', async () => {
    const steps = Array.from({ length: 30 }, (_, n) => ({ id: `s${n}`, title: `Step ${n}.`, do: echo(n) }));
    const run = await house.run({ plan: { title: 'In a narrow window', steps } });
    await ended(run, 'ok');
    const page = await house.page(`/runs/${run}?tab=plan`, { width: 400 });
    await page.locator('.steps li', { hasText: 'Step 0.' }).waitFor();
    assert.equal(await page.getByRole('tree').isVisible(), false);
    await page.getByRole('button', { name: '← Tree' }).click();
    await node(page, 'Step 1.').click();
    await page.getByRole('heading', { name: 'Step 1.', level: 2 }).waitFor();
    await page.getByRole('button', { name: '← Tree' }).click();
    // A filter does not make the address that of the part.
    await page.getByRole('searchbox', { name: 'Filter tree' }).fill('Step 2');
    await until(() => /text=/.test(page.url()), 'the filter is in the address');
    assert.doesNotMatch(page.url(), /node=|tab=/);
    await page.reload();
    await node(page, 'Step 2.').waitFor();
    await page.done();
  });

  it('scrolls to the search hit in a long scratchbook', async () => {
    const item = (n) => house.ask('POST', '/threads/main/scratchbook/items', { kind: 'note', title: n === 170 ? 'A unicorn.' : `Item ${n}.` });
    for (let n = 0; n < 200; n += 20) await Promise.all(Array.from({ length: 20 }, (_, at) => item(n + at)));
    const page = await house.page('/search?q=unicorn');
    const seen = async (one) => { const { y, height } = await one.boundingBox(); return y >= 0 && y + height <= 800; };
    await page.locator('.content').click();
    await page.getByRole('heading', { name: 'Scratchbook of main', level: 1 }).waitFor();
    const led = page.locator('.led', { hasText: 'A unicorn.' });
    await led.waitFor();
    await until(() => seen(led), 'it is in sight');
    assert.deepEqual(await hindrances(page), []);
    await page.reload();
    await until(() => seen(led), 'it is in sight of who comes to the address');
    await page.goBack();
    await page.getByRole('searchbox', { name: 'Search memory' }).waitFor();
    await page.done();
  });

  it('pages a long trace back to its first line and forward to its end', async () => {
    const steps = Array.from({ length: 60 }, (_, n) => ({ id: `s${n}`, title: `Step ${n}`, do: echo(n) }));
    const run = await house.run({ plan: { title: 'A turn without an end', steps } });
    await ended(run, 'ok');
    const { items } = await house.ask('GET', '/turns?limit=100');
    const turn = items.find((one) => one.input === 'A turn without an end').handle;
    const whole = await until(async () => {
      const told = await house.ask('GET', `/turns/${turn}/trace?limit=10000`);
      return told.items.at(-1).component === 'reflector' && told;
    }, 'the turn has ended');
    const page = await house.page('/turns');
    // Returning a hundredth of the requested lines simulates a trace that is a hundred times as long.
    await page.route(/\/trace\?/, (route) => route.continue({ url: route.request().url().replace(/limit=(\d+)/, (_, n) => `limit=${n / 100}`) }));
    await page.locator(`a[href="/turns/${turn}"]`).click();
    const entries = page.getByRole('list', { name: 'Timeline' }).getByRole('listitem');
    const operations = () => page.locator('.entry strong').allInnerTexts();
    const lines = [], wanted = whole.items.map((one) => one.operation.replaceAll('_', ' '));
    await entries.filter({ hasText: 'end turn' }).waitFor();
    // The lines of a single component are there at once, however far back.
    const router = page.getByRole('button', { name: 'router', exact: true });
    const isAlone = async () => (await entries.locator('.kind').allInnerTexts()).join() === 'router';
    await router.click();
    await until(isAlone, 'only the router');
    await router.click();
    await entries.filter({ hasText: 'end turn' }).waitFor();
    const earlier = page.getByRole('button', { name: 'Show earlier' });
    for (const many of [20, 80, 200]) {
      await earlier.click();
      await counts(entries, many, `${many} lines`);
    }
    lines.unshift(...await operations());
    while (lines.length < wanted.length) {
      const first = await entries.first().innerText();
      await earlier.click();
      await until(async () => (await entries.first().innerText()) !== first, 'what came before');
      lines.unshift(...await operations());
    }
    assert.deepEqual(lines, wanted);
    await earlier.waitFor({ state: 'detached' });
    await entries.filter({ hasText: 'begin turn' }).waitFor();
    // The user can go back to the end, and another filter starts there.
    await page.getByRole('button', { name: 'Show later' }).click();
    await entries.filter({ hasText: 'begin turn' }).waitFor({ state: 'detached' });
    await router.click();
    await until(isAlone, 'only the router');
    assert.equal(await page.getByRole('button', { name: 'Show later' }).count(), 0);
    await page.done();
  });

  it('says of an empty part of a trace that there may be earlier entries, and shows them', async () => {
    house.folio('turn', 'begin', '--input', 'Long ago');
    const { items } = await house.ask('GET', '/turns?limit=100');
    const turn = items.find((one) => one.input === 'Long ago').handle;
    const page = await house.page('/turns');
    // As after ten thousand commits of others.
    await page.route(/\/trace\?/, async (route) => {
      const response = await route.fetch({ url: route.request().url().replace('&cursor=earlier', '') });
      const trace = await response.json();
      const isEarlier = route.request().url().includes('cursor=earlier');
      return route.fulfill({ response, json: isEarlier ? trace : { ...trace, items: [], next: 'earlier' } });
    });
    await page.locator(`a[href="/turns/${turn}"]`).click();
    const timeline = page.getByRole('list', { name: 'Timeline' });
    await timeline.getByText('No entries in this part; there may be earlier ones.').waitFor();
    await page.getByRole('button', { name: 'Show earlier' }).click();
    await timeline.getByText('begin turn').waitFor();
    await page.getByRole('button', { name: 'Show later' }).waitFor();
    await page.done();
  });

  it('shows a loading state and requests a run and its tree in parallel', async () => {
    const run = await house.run({ plan: { title: 'From far away', steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    await ended(run, 'ok');
    const page = await house.page('/');
    const held = [];
    await page.route(new RegExp(`/v1/.*/runs/${run}(/tree)?$`), (route) => { held.push(route); });
    await page.getByRole('link', { name: 'From far away' }).click();
    await until(() => held.length === 2, 'both are asked for');
    await page.getByRole('main').getByText('Loading…').waitFor();
    assert.equal(await page.title(), `Run ${run} · Folio`);
    assert.equal(await page.getByRole('main').getAttribute('aria-busy'), 'true');
    for (const route of held) await route.continue();
    await node(page, 'Begin, done').waitFor();
    assert.equal(await page.getByText('Loading…').count(), 0);
    assert.equal(await page.getByRole('main').getAttribute('aria-busy'), null);
    // The document names every module, so the browser does not discover them one after the other.
    const [named, loaded] = await page.evaluate(() => [[...document.querySelectorAll('link[rel=modulepreload], script[src]')].map((one) => new URL(one.href || one.src).pathname),
      performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname).filter((path) => path.endsWith('.js'))]);
    assert.deepEqual([...new Set(loaded)].sort(), named.sort());
    await page.done();
  });

  it('announces the page title and moves the focus on going back and forward', async () => {
    const page = await house.page('/');
    const is = (title) => until(() => page.evaluate((text) => document.getElementById('announce').textContent === text && document.activeElement.id === 'view', `${title} · Folio`), title);
    await page.getByRole('link', { name: 'Turns', exact: true }).click();
    await is('Turns');
    await page.getByRole('link', { name: 'Scratchbooks', exact: true }).click();
    await is('Scratchbooks');
    await page.goBack();
    await is('Turns');
    await page.goForward();
    await is('Scratchbooks');
    await page.done();
  });

  it('closes an open dialog on navigation without acting', async () => {
    const run = await house.run({ plan: { title: 'Left in a dialog', steps: [{ id: 'a', title: 'Begin', do: LONG }] } });
    const page = await house.page('/');
    for (const [button, name] of [['Cancel', 'Cancel the run?'], ['Limits', 'Limits of the run']]) {
      await page.getByRole('link', { name: 'Left in a dialog' }).click();
      await page.getByRole('button', { name: button }).click();
      const dialog = page.getByRole('dialog', { name });
      await dialog.waitFor();
      await page.goBack();
      await dialog.waitFor({ state: 'hidden' });
      await page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor();
    }
    assert.equal((await house.ask('GET', `/runs/${run}`)).status, 'running');
    await house.ask('POST', `/runs/${run}/cancel`, {});
    await page.done();
  });

  it('reports malformed addresses and unknown parts, and offers a command for an empty thread', async () => {
    const page = await house.page('/runs/%E0%A4%A', { quiet: true });
    await page.getByRole('heading', { name: 'Not found', level: 1 }).waitFor();
    await page.done();
    const run = await house.run({ plan: { title: 'With one part', steps: [{ id: 'a', title: 'Begin', do: echo(1) }] } });
    await ended(run, 'ok');
    const part = await house.page(`/runs/${run}?node=deadbeef`);
    await part.getByRole('alert').getByText('There is no such part in this run.').waitFor();
    assert.doesNotMatch(part.url(), /deadbeef/);
    await part.done();
    const empty = await house.page('/threads/of%20two%20words');
    await empty.getByText("folio --thread 'of two words' book add").waitFor();
    await empty.done();
  });

  it('wraps an overlong tag and formats the history of an observation for people', async () => {
    const { handle } = await house.ask('POST', '/observations', { content: 'With a tag', tags: ['x'.repeat(60)], ttl_minutes: 90 });
    await house.ask('PATCH', `/observations/${handle}`, { tags: ['x'.repeat(60), 'a', 'b'] });
    const page = await house.page(`/observations/${handle}`, { width: 360 });
    await page.getByText('Version 2').waitFor();
    assert.ok(await fits(page), 'its tag is wider than the window');
    const past = await page.locator('.versions').innerText();
    assert.doesNotMatch(past, /\d{4}-\d\d-\d\dT|\[/, 'moments and lists as elsewhere');
    assert.match(past, /a, b/);
    await page.done();
  });
});
