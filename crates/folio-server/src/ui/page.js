// A page: its text, what it belongs to, and the pages below it.

import { get, live } from './ask.js';
import { element, headline, keep, settle, written } from './dom.js';
import { moment, number } from './format.js';
import { markdown, metaOf } from './markdown.js';

export async function showPage(view, { name, signal, title, go }) {
  view.className = 'narrow';
  const { heading: head, block: top } = headline(name), about = element('p', { class: 'meta' });
  const text = element('article', { class: 'text panel' });
  const below = element('ul', { class: 'plain' }), rest = element('p', { class: 'quiet' });
  view.append(top, about, text, element('section', { 'aria-label': 'Child pages' }, below, rest));
  const at = encodeURIComponent(name);
  const sought = location.hash.slice(1);
  let id = null;
  await live(async () => {
    const [page, md, children] = await Promise.all([
      get(`/pages/${at}`, { signal }), get(`/pages/${at}.md`, { as: 'text', signal }), get(`/pages/${at}/children`, { signal }),
    ]);
    // The items of a scratchbook are shown with their thread, including those that are done.
    if (sought && page.role === 'scratchbook' && page.thread) return go(`/threads/${encodeURIComponent(page.thread)}#${sought}`, { replace: true });
    title(page.title);
    id = page.page_id;
    if (head.textContent !== page.title) head.textContent = page.title;
    // The text begins with the title, and with what the page says of itself.
    const [begin, meta = `${page.handle} ${page.role} · ${page.status}`] = /^# [^\n]*\n+(?:<!-- (p\d+ [^\n]*) -->\n)?/.exec(md) ?? [''];
    settle(about, [`${metaOf(meta)} · `, moment(page.updated_at),
      ...(page.homework_run_id ? [' · ', element('a', { href: `/runs/${page.homework_run_id}` }, 'run')] : []),
      ...(page.parent ? [' · ', element('a', { href: `/pages/${page.parent}` }, 'parent page')] : [])]);
    if (text.said !== md) { text.said = md; settle(text, markdown(md.slice(begin.length))); }
    // The text already lists pages at its end.
    const isTold = (handle) => text.querySelector(`a[href="/pages/${handle}"]`);
    keep(below, children.items.filter(({ handle }) => !isTold(handle)).map(({ handle, title: called }) => ({ handle, called })), (page) => page.handle,
      ({ handle, called }) => element('li', {}, written('a', { href: `/pages/${handle}` }, called), ` ${handle}`));
    rest.textContent = children.next ? `These are the first ${number(children.returned)}.` : '';
    return undefined;
  }, signal, { concerns: ({ changes }) => changes.some((one) => one.page_id === id) });
}
