// Scratchbooks: the list of threads, and for each the exact text that a model reads, with its receipt.

import { get, live, query as addressOf } from './ask.js';
import { cut, element, empty, keep, keepStill, row, settle, soon, wide, written } from './dom.js';
import { filters, kept, latest } from './filters.js';
import { meter, moment, number } from './format.js';
import { tagged } from './observations.js';

const MINUTE = 60_000;

/** How many scratchbooks are shown at first, and how many are known at most. */
const BOOKS = 50, MOST_BOOKS = 10_000;

export async function showThreads(view, { query, signal, title }) {
  title('Scratchbooks');
  view.className = 'narrow';
  const list = element('ul', { class: 'cards' }), count = element('p', { class: 'meta', role: 'status' }), note = element('div');
  const limit = kept('limit', BOOKS);
  let books = [], isAll = true;
  const { wanted, change } = filters(query, () => { limit.value = BOOKS; draw(); });
  const field = element('input', { type: 'search', dir: 'auto', class: 'large', 'aria-label': 'Filter by name', placeholder: 'Filter by name', autocomplete: 'off', value: wanted.name ?? '', oninput: (event) => change('name', event.currentTarget.value.trim()) });
  const settings = element('form', { class: 'filters', role: 'search', onsubmit: (event) => event.preventDefault() }, field);
  const draw = () => {
    const sought = (wanted.name ?? '').toLowerCase();
    const found = sought ? books.filter(({ thread }) => thread.toLowerCase().includes(sought)) : books;
    keepStill(list, found.slice(0, limit.value).map(({ thread, handle, updated_at }) => ({ thread, handle, updated_at })), (book) => book.thread, card);
    settings.hidden = books.length <= BOOKS && !sought;
    count.textContent = [found.length > limit.value && `Showing ${number(limit.value)} of ${number(found.length)}.`, !isAll && `Only the first ${number(books.length)} scratchbooks of this space are known here.`].filter(Boolean).join(' ');
    const more = element('button', { type: 'button', onclick: () => { limit.value *= 2; draw(); } }, 'Show more');
    settle(note, books.length === 0 ? [empty('No scratchbooks yet. Start one with', 'folio book add task "Write the tests"')] : found.length === 0 ? [empty('No scratchbook has this in its name.')] : found.length > limit.value ? [more] : []);
  };
  // All scratchbooks are requested, so only when a page is added. Their order is refreshed often enough.
  const concerns = ({ changes }) => changes.some(({ change }) => change === 'add_page') || null;
  view.append(element('h1', {}, 'Scratchbooks'), element('p', { class: 'quiet lead' }, 'One for each thread: what an agent works from, and what a model sees of it.'), settings, count, list, note);
  await live(async () => {
    const read = [];
    let cursor;
    do {
      const part = await get(addressOf('/pages', { role: 'scratchbook', limit: 1000, cursor }), { signal });
      read.push(...part.items);
      cursor = part.next;
    } while (cursor && read.length < MOST_BOOKS);
    books = read.sort((a, b) => b.updated_at.localeCompare(a.updated_at));
    isAll = !cursor;
    draw();
  }, signal, { concerns, most: MINUTE });
}

function card(book) {
  const title = written('span', { class: 'title' }, book.thread), about = element('span', { class: 'meta' }, `${book.handle} · changed `, moment(book.updated_at));
  return element('li', {}, row(`book-${book.handle}`, `/threads/${encodeURIComponent(book.thread)}`, [element('span', { class: 'mark', 'aria-hidden': 'true' }, '≡'), title, about], { called: [title], about }));
}

/** How many items are shown at first, and at most. */
const MANY = 200, MOST = 1000;

export async function showThread(view, { name, query, signal, title }) {
  title(`Scratchbook of ${name}`);
  const at = `/threads/${encodeURIComponent(name)}/scratchbook`;
  const text = written('pre', { class: 'view', tabindex: '0', role: 'region', 'aria-label': 'What a model reads' });
  const sum = element('p', { class: 'line meta' }), receipt = wide(), note = element('div');
  const items = element('ul', { class: 'cards' }), count = element('p', { class: 'meta', role: 'status' }), rest = element('div'), led = element('ul', { class: 'cards' });
  const sought = location.hash.slice(1);
  const limit = kept('limit', MANY);
  const later = soon(() => draw().catch(() => {}), 200);
  const { wanted, change } = filters(query, later);
  const field = (name, type, label, hint) => element('label', {}, `${label} `, element('input', { type, min: 0, placeholder: hint, class: 'short', value: wanted[name] ?? '', oninput: (event) => change(name, event.currentTarget.value.trim()) }));
  view.append(
    element('p', { class: 'up' }, element('a', { href: '/threads' }, '← Scratchbooks')), element('h1', {}, `Scratchbook of ${name}`),
    element('form', { class: 'filters', 'aria-label': 'View settings', onsubmit: (event) => event.preventDefault() },
      field('view_token_limit', 'number', 'Tokens', '800'), field('max_rendered_items', 'number', 'Lines per section', '40'), field('model', 'text', 'Model', 'Any')),
    note,
    element('div', { class: 'columns even' },
      element('section', { class: 'panel' }, element('h2', {}, 'What a model reads'), sum, text),
      element('section', { class: 'panel' }, element('h2', {}, 'Receipt'), receipt)),
    led, element('h2', {}, 'Items'), count, items, rest);
  const draw = latest({
    signal,
    ask: () => Promise.all([get(addressOf(at, wanted), { signal }), get(`${at}/items?all=true&limit=${limit.value}`, { signal }),
      sought ? get(`${at}/items/${encodeURIComponent(sought)}`, { signal }).catch((error) => { if (error.status === 404) return null; throw error; }) : null]),
    show([shown, all, one]) {
      note.replaceChildren();
      const { receipt: kept } = shown;
      sum.replaceChildren(meter(kept.budget ? shown.tokens / kept.budget : 0, `${shown.tokens} of ${kept.budget} tokens`),
        ` ${number(shown.tokens)} of ${number(kept.budget)} tokens, ${kept.counted}; placement: ${shown.placement}`, element('code', { class: 'hash', title: `Hash of the text: ${kept.hash}` }, kept.hash.slice(0, 12)));
      rewrite(text, shown.view);
      if (shown.view === '') text.replaceChildren(empty(hasAny(shown) ? 'Nothing: the token budget leaves room for nothing.' : 'Nothing yet: the scratchbook is empty.'));
      settle(receipt, [receiptTable(kept, name)]);
      keep(led, one ? [one] : [], (item) => item.item_id, itemCard);
      for (const card of led.children) card.classList.add('led');
      keep(items, all.items, (item) => item.item_id, itemCard);
      count.textContent = all.next ? `Showing ${number(all.items.length)} of ${all.at_least ? 'at least ' : ''}${number(all.total)}.` : '';
      settle(rest, all.next && limit.value < MOST ? [element('button', { type: 'button', onclick: () => { limit.value = Math.min(MOST, limit.value * 2); draw().catch(() => {}); } }, 'Show more')] : []);
      if (all.items.length === 0) items.replaceChildren(element('li', { 'data-key': '' }, empty('No items yet. Add one with', `folio --thread ${quoted(name)} book add todo "Ask for a review"`)));
    },
    refused(why) {
      for (const old of [sum, text, receipt, led, items, rest]) old.replaceChildren();
      count.textContent = '';
      note.replaceChildren(why);
    },
  });
  // Entries expire without a commit.
  await live(draw, signal, { most: MINUTE });
}

/** Makes `block` say `text`. What is marked before or after the change stays marked. */
function rewrite(block, text) {
  const [node] = block.childNodes, old = block.textContent;
  if (old === text) return;
  if (block.childNodes.length !== 1 || node.nodeType !== Node.TEXT_NODE) { block.textContent = text; return; }
  let same = 0, after = 0;
  const shorter = Math.min(old.length, text.length);
  while (same < shorter && old[same] === text[same]) same++;
  while (after < shorter - same && old.at(-1 - after) === text.at(-1 - after)) after++;
  node.replaceData(same, old.length - same - after, text.slice(same, text.length - after));
}

/** Whether there is something to show, whatever the limits leave of it. */
const hasAny = ({ items, receipt }) => items.length > 0 || receipt.sections.some(({ omitted, beyond }) => omitted?.length || beyond);

/** A name quoted for a shell. */
const quoted = (name) => (/^[\w.:@/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

const names = (handles, section, thread) => handles.flatMap((handle, at) => [at ? ' ' : '', linkTo(handle, section, thread)]);
/** The sections that contain only observations. */
const OBSERVED = ['alerts', 'observations'];
/** A link to a page or an observation; to an item, by the `thread` whose scratchbook it may be in. */
function linkTo(handle, section, thread) {
  const isPage = /^p\d+$/.test(handle), isEntry = /^e\d+$/.test(handle);
  const to = isPage ? `/pages/${handle}` : OBSERVED.includes(section) || !thread ? `/observations/${handle}` : addressOf(`/observations/${handle}`, { thread });
  return isPage || isEntry ? element('a', { class: 'handle', href: to }, handle) : element('span', { class: 'handle' }, handle);
}

const REASONS = { limit: 'line limit' };
const FACTS = ['Tokens', 'Shown', 'Shortened', 'Left out'];
/** What was shown, shortened and left out, and why. */
export function receiptTable(receipt, thread) {
  const rows = receipt.sections.map((section) => {
    const why = new Map();
    for (const { name, reason } of section.omitted ?? []) why.set(reason, [...(why.get(reason) ?? []), name]);
    // Of what is beyond the line limit, only the first names are known, and how many others there are.
    if (section.beyond && !why.has('limit')) why.set('limit', []);
    const left = [...why].flatMap(([reason, omitted]) => [element('span', { class: 'reason' }, `${REASONS[reason] ?? reason.replaceAll('_', ' ')}: `), ...names(omitted, section.section, thread),
      reason === 'limit' && section.beyond ? `${omitted.length > 0 ? ' and ' : ''}${number(section.beyond)} more` : '', element('br')]);
    const cells = [[`${number(section.tokens)}, share ${number(section.reserved)}`], names(section.shown ?? [], section.section, thread), names(section.shortened ?? [], section.section, thread), left];
    return element('tr', {}, element('th', { scope: 'row' }, section.section.replaceAll('_', ' ')), ...cells.map((parts, at) => element('td', { class: at === 0 ? 'figure' : null, 'data-label': FACTS[at] }, ...parts)));
  });
  const heads = ['Section', ...FACTS].map((text) => element('th', { scope: 'col' }, text));
  return element('table', { class: 'receipt' }, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows));
}

const ITEM_MARKS = { completed: '✓', done: '✓', in_progress: '▸', blocked: '‖', archived: '⊘' };
/** A card of an item, which is nowhere else on the page: what does not fit is shown on request. */
function itemCard(item) {
  return element('li', { class: 'card stack' },
    element('p', { class: 'line' }, element('span', { class: 'kind' }, item.kind), element('span', { class: 'badge calm' }, `${ITEM_MARKS[item.status] ?? '·'} ${item.status.replaceAll('_', ' ')}`),
      item.pinned && element('span', { class: 'badge calm' }, 'pinned'), element('span', { class: 'handle' }, item.handle)),
    cut(written('p', { class: 'content' }, element('strong', {}, item.title), item.body ? ` ${item.body}` : '')),
    element('p', { class: 'line meta' }, item.phase && element('span', {}, item.phase), typeof item.progress === 'number' && meter(item.progress, `${Math.round(item.progress * 100)}% done`), ...item.tags.map((tag) => tagged(tag, addressOf('/search', { q: tag })))));
}
