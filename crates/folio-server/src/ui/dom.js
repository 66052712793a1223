// Creates elements from text, never from HTML.

export const $ = (id) => document.getElementById(id);

/**
 * Creates an element; attributes that are functions are event handlers (`onclick`), those without a value are left
 * out.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  // Before the attributes: with `dir=auto`, a browser looks at everything again for each child that comes.
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  return made;
}

/** Like `element`, for text by people, models and tools: its characters decide the writing direction. */
export const written = (tag, attributes, ...children) => element(tag, { dir: 'auto', ...attributes }, ...children);

/**
 * Makes `list` show `items`: unchanged ones stay, with the focus inside them; changed ones are replaced. `key` names
 * an item, `make` creates its element.
 */
export function keep(list, items, key, make) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const focused = list.contains(document.activeElement) ? document.activeElement : null, at = focused?.closest('[data-key]');
  const place = [...list.children].indexOf(at);
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
  if (!at || list.contains(document.activeElement)) return;
  // It was moved, was replaced by the same in its changed item, or its item is gone. Then a link in the next item has
  // the focus, but no button, which a held key would press.
  const again = wanted.find((child) => child.dataset.key === at.dataset.key), other = again ?? wanted[Math.min(place, wanted.length - 1)];
  const what = again ? 'a, button' : 'a', isForm = !again && other?.matches('form');
  const links = other && !isForm ? [...(other.matches(what) ? [other] : []), ...other.querySelectorAll(what)] : [];
  const same = focused.isConnected ? focused : links.find((one) => one.tagName === focused.tagName && one.textContent === focused.textContent) ?? links[0];
  same?.focus({ preventScroll: true });
}

/** A function for each list that was moved under the mouse: until it is shortly over, no click there counts. */
const guards = new WeakMap();

/**
 * Like `keep`, for a list to which others add at its top: the item under the mouse stays there. The page scrolls with
 * it; if it cannot, what has come under the mouse takes no click for a moment. A page that was scrolled is kept in place
 * by the browser.
 */
export function keepStill(list, items, key, make) {
  if (!guards.has(list)) guards.set(list, aimed(list, 'a, button'));
  const under = [...list.children].find((child) => child.matches(':hover')), name = under?.dataset.key;
  const before = under?.getBoundingClientRect().top, stood = scrollY;
  keep(list, items, key, make);
  if (!under) return;
  const there = [...list.children].find((child) => child.dataset.key === name);
  const moved = () => (there ? there.getBoundingClientRect().top - before : Infinity);
  if (there && stood === 0 && moved() > 1) scrollBy({ top: moved(), behavior: 'instant' });
  if (Math.abs(moved()) > 1) guards.get(list)();
}

/**
 * A link to an item of a list with these `parts`. Its name is what the `called` of them say, its title and its state, and
 * not everything in it; `about` describes it. `name` is its name among all items of the page.
 */
export function row(name, to, parts, { called, about }) {
  const labels = called.filter(Boolean).map((one, at) => Object.assign(one, { id: `${name}-${at}` }).id);
  if (about) about.id = `${name}-about`;
  return element('a', { class: 'card', href: to, 'aria-labelledby': labels.join(' '), 'aria-describedby': about?.id }, ...parts);
}

/**
 * Makes `block` show `parts`. Unchanged parts stay, and with them what somebody has selected or opened there; in lists
 * and paragraphs that have changed, what has not. What counts is how a part was made, not what it became by use.
 */
export function settle(block, parts) {
  parts.forEach((given, at) => {
    const part = typeof given === 'string' ? document.createTextNode(given) : given, there = block.childNodes[at];
    if (there && (there.isEqualNode(part) || there.made?.isEqualNode(part))) return;
    const made = isStill(part) ? null : part.cloneNode(true);
    if (there && isList(there) && isList(part) && there.cloneNode().isEqualNode(part.cloneNode())) {
      settle(there, [...part.childNodes]);
      there.made = made;
      return;
    }
    part.made = made;
    there ? there.replaceWith(part) : block.append(part);
  });
  while (block.childNodes.length > parts.length) block.lastChild.remove();
}
/** Whether use changes nothing of `part`, so that it is as it was made. */
const isStill = (part) => isList(part) && !part.querySelector('pre, .wide, .headline');
/** Whether `part` is a list, or an item of one or a paragraph, that somebody can only read and follow links in. */
const isList = (part) => /^(UL|OL|LI|DL|DD|P)$/.test(part.tagName) && !part.querySelector('button, details');

/** Lets the keyboard scroll `block`, which is called `label`, while its content overflows. */
export function moved(block, label) {
  const fits = () => block.scrollWidth <= block.clientWidth && block.scrollHeight <= block.clientHeight;
  new ResizeObserver(() => (fits() ? ['tabindex', 'role', 'aria-label'].forEach((name) => block.removeAttribute(name))
    : Object.entries({ tabindex: 0, role: 'region', 'aria-label': label }).forEach((pair) => block.setAttribute(...pair)))).observe(block);
  return block;
}

/** Milliseconds in which a click is meant for what was under the mouse before. */
const AIMED = 500;

/**
 * Lets no click press a button in `block`, or what else `pressed` names, that has just come under the mouse: no second
 * one of a double click, and none shortly after the returned function was called.
 */
export function aimed(block, pressed = 'button') {
  let movedAt = -AIMED;
  block.addEventListener('click', (event) => {
    const isMouse = event.detail > 0, isLate = event.detail > 1 || event.timeStamp - movedAt < AIMED;
    if (!isMouse || !isLate || !event.target.closest(pressed)) return;
    event.preventDefault();
    event.stopPropagation();
  }, { capture: true });
  return () => { movedAt = performance.now(); };
}

/** A container that scrolls by itself if its content is too wide, with the keyboard, too. */
export const wide = (...children) => moved(element('div', { class: 'wide' }, ...children), 'Scrollable table');

/** Shows only the first lines of `text`, as its class `cut` says, and the rest on request. */
export function cut(text) {
  text.classList.add('cut');
  const more = element('button', { type: 'button', class: 'more', hidden: true, 'aria-expanded': 'false', onclick: () => {
    const isCut = text.classList.toggle('cut');
    more.setAttribute('aria-expanded', String(!isCut));
    more.textContent = isCut ? 'Show all' : 'Show less';
  } }, 'Show all');
  const look = () => { more.hidden = text.classList.contains('cut') && text.scrollHeight <= text.clientHeight + 1; };
  new ResizeObserver(look).observe(text);
  new MutationObserver(look).observe(text, { childList: true });
  return element('div', { class: 'headline' }, text, more);
}

/** A heading that shows its first lines, and the rest on request; its text is set at `heading`. */
export function headline(text, tag = 'h1') {
  const heading = written(tag, {}, text);
  return { heading, block: cut(heading) };
}

/** Announces something to screen readers. */
export const announce = (text) => { $('announce').textContent = text; };

/** Changes the address of the page to `to`: replaces the current one or, with `push`, adds to the history. */
export function address(to, { push = false, state = null } = {}) {
  history[push ? 'pushState' : 'replaceState']({ ...state, entry: push ? null : history.state?.entry }, '', to);
  address.now = to;
}

/** Whether a click on a link opens it in place: with a modifier key, browsers open it elsewhere. */
export const isPlain = (event) => event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);

/** The last confirmation, and how many were requested. */
let asked = Promise.resolve(), turn = 0;

/**
 * Asks for confirmation, and returns whether it was given. One question is asked at a time: an earlier one is answered
 * with no.
 */
export function sure(title, text, yes) {
  const dialog = $('sure'), mine = ++turn;
  dialog.close('no');
  // The dialog that is closed reports its answer first.
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

/** Closes open dialogs when the view is left: the answer is no. The question for a token stays, whatever the view. */
export function unsure() {
  turn++;
  for (const dialog of document.querySelectorAll('dialog[open]:not(#unlock)')) dialog.close('no');
}

/** A text for an empty place, with a command to fill it. */
export const empty = (text, command) => element('p', { class: 'empty' }, text, command && [' ', element('code', {}, command)]);

/** An error that is shown instead of content. That the server is gone is shown until it is back. */
export const trouble = (error) => element('div', { class: error.gone ? 'trouble away' : 'trouble', role: 'alert' }, element('p', {}, error.message),
  ...(error.hints ?? []).map((hint) => element('p', { class: 'quiet' }, hint)));

/** Milliseconds after which people notice that they are waiting. */
const NOTICED = 300;

/**
 * Shows in `place` that something is loading, if it takes long enough to be noticed, until `over()` is called. Nothing
 * is shown once it `isOld`.
 */
export function waiting(place, isOld) {
  const said = element('p', { class: 'loading' }, 'Loading…');
  const timer = setTimeout(() => {
    if (isOld()) return;
    place.append(said);
    place.ariaBusy = 'true';
    announce(said.textContent);
  }, NOTICED);
  return {
    over() {
      clearTimeout(timer);
      said.remove();
      // Somebody may have gone to something else, which is still loading.
      if (!place.querySelector(':scope > .loading')) place.ariaBusy = null;
    },
  };
}

/** Calls `then` once, shortly after the first of many calls. `ms` may be a function, if it varies. */
export function soon(then, ms = 250) {
  let timer = null;
  return () => { timer ??= setTimeout(() => { timer = null; then(); }, typeof ms === 'function' ? ms() : ms); };
}
