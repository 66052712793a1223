// Elements, made of text and never of HTML.

export const $ = (id) => document.getElementById(id);

/** An element; attributes that are functions are what happens (`onclick`), those without a value are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** The same for what people, models and tools wrote: from where it is read, its own letters say. */
export const written = (tag, attributes, ...children) => element(tag, { dir: 'auto', ...attributes }, ...children);

/**
 * Makes `list` show `items`: what is the same stays, with the focus that is in it; what changed is made anew.
 * `key` names an item, `make` makes its element.
 */
export function keep(list, items, key, make) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const focused = list.contains(document.activeElement) ? document.activeElement.closest('[data-key]')?.dataset.key : null;
  const wanted = items.map((item) => {
    const name = String(key(item)), said = JSON.stringify(item), there = old.get(name);
    if (there?.said === said) return there;
    const made = make(item);
    made.dataset.key = name;
    made.said = said;
    return made;
  });
  const staying = new Set(wanted);
  for (const child of [...list.children]) if (!staying.has(child)) child.remove();
  let next = list.firstElementChild;
  for (const child of wanted) {
    if (child === next) next = next.nextElementSibling; else list.insertBefore(child, next);
  }
  if (focused && !list.contains(document.activeElement)) {
    const again = wanted.find((child) => child.dataset.key === focused);
    (again?.matches('a, button') ? again : again?.querySelector('a, button'))?.focus({ preventScroll: true });
  }
}

/** Makes `block` show `parts`. What is alike stays, and with it what somebody reads there, has marked or opened. */
export function settle(block, parts) {
  parts.forEach((part, at) => {
    const there = block.childNodes[at];
    if (!there) block.append(part);
    else if (typeof part === 'string' ? there.nodeType !== Node.TEXT_NODE || there.data !== part : !there.isEqualNode(part)) there.replaceWith(part);
  });
  while (block.childNodes.length > parts.length) block.lastChild.remove();
}

/** Has the keyboard move `block`, which is called `label`, while there is more in it than room. */
export function moved(block, label) {
  const fits = () => block.scrollWidth <= block.clientWidth && block.scrollHeight <= block.clientHeight;
  new ResizeObserver(() => (fits() ? ['tabindex', 'role', 'aria-label'].forEach((name) => block.removeAttribute(name))
    : Object.entries({ tabindex: 0, role: 'region', 'aria-label': label }).forEach((pair) => block.setAttribute(...pair)))).observe(block);
  return block;
}

/** What may be wider than there is room for: then it is moved by itself, with the keyboard, too. */
export const wide = (...children) => moved(element('div', { class: 'wide' }, ...children), 'Scrollable table');

/** A heading that has room for a few lines, and shows the others to whoever asks; its text is set at `heading`. */
export function headline(text, tag = 'h1') {
  const heading = written(tag, { class: 'cut' }, text);
  const more = element('button', { type: 'button', class: 'more', hidden: true, 'aria-expanded': 'false', onclick: () => {
    const isCut = heading.classList.toggle('cut');
    more.setAttribute('aria-expanded', String(!isCut));
    more.textContent = isCut ? 'Show all' : 'Show less';
  } }, 'Show all');
  const look = () => { more.hidden = heading.classList.contains('cut') && heading.scrollHeight <= heading.clientHeight + 1; };
  new ResizeObserver(look).observe(heading);
  new MutationObserver(look).observe(heading, { childList: true });
  return { heading, block: element('div', { class: 'headline' }, heading, more) };
}

/** Says something to those who do not see the page. */
export const announce = (text) => { $('announce').textContent = text; };

/** Makes `to` the address of the page: in place of the one that it had, or, with `push`, after it. */
export function address(to, { push = false, state = null } = {}) {
  history[push ? 'pushState' : 'replaceState'](state, '', to);
  address.now = to;
}

/** Whether a link that is pressed is to open in its own place: with a key that is held, browsers open it elsewhere. */
export const isPlain = (event) => event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);

/** What was asked last, and how often something was. */
let asked = Promise.resolve(), turn = 0;

/** Asks before something is done; whether it is to be. One thing is asked at a time: of what was asked before, the answer is no. */
export function sure(title, text, yes) {
  const dialog = $('sure'), mine = ++turn;
  dialog.close('no');
  // What closes tells its own answer first.
  asked = asked.then(() => mine === turn && new Promise((done) => {
    $('sure-title').textContent = title;
    $('sure-text').textContent = text;
    dialog.querySelector('.main').textContent = yes;
    dialog.returnValue = 'no';
    dialog.addEventListener('close', () => done(dialog.returnValue === 'yes'), { once: true });
    dialog.showModal();
  }));
  return asked;
}

/** What is asked gives way, with what it was asked of: the answer is no. A token is asked for whatever is shown. */
export function unsure() {
  turn++;
  for (const dialog of document.querySelectorAll('dialog[open]:not(#unlock)')) dialog.close('no');
}

/** Where nothing is yet, and what to do about it. */
export const empty = (text, command) => element('p', { class: 'empty' }, text, command && [' ', element('code', {}, command)]);

/** What cannot be shown, and why. That a server is gone is said until it is back. */
export const trouble = (error) => element('div', { class: error.gone ? 'trouble away' : 'trouble', role: 'alert' }, element('p', {}, error.message),
  ...(error.hints ?? []).map((hint) => element('p', { class: 'quiet' }, hint)));

/** Calls `then` once, a little after the first of many calls. `ms` may be a function, where it depends on how things stand. */
export function soon(then, ms = 250) {
  let timer = null;
  return () => { timer ??= setTimeout(() => { timer = null; then(); }, typeof ms === 'function' ? ms() : ms); };
}
