// What a run asks people: questions, and calls and plans that wait for approval.

import { QUIET, failureOf, get, isGone, post } from './ask.js';
import { $, aimed, announce, cut, element, isPlain, keep, moved, settle, sure, trouble, written } from './dom.js';
import { moment, revealed } from './format.js';
import { plain } from './markdown.js';
import { hasValues, values } from './values.js';

/** How many questions are shown at first. */
const MANY = 3;

/** Whether an answer, or a reason for rejecting, was written but not sent. */
export const isAnswering = () => $('view').querySelector('.question textarea[readonly]') !== null || [...$('view').querySelectorAll('form.question')].some((form) => writtenIn(form) !== '');

/** Whether written answers may be lost: asks, if there are any. */
export const mayDrop = async () => !isAnswering() || sure('Discard your answer?', 'You have not sent it.', 'Discard');

function writtenIn(form) {
  const field = form.querySelector('textarea, input');
  return !field || form.isSent || field.value === field.defaultValue ? '' : field.value;
}

/**
 * Focuses the text field of `form`, or the form itself. No button gets the focus, which a held or repeated key would
 * press.
 */
const enter = (form, options) => (form?.querySelector('textarea, input') ?? form)?.focus(options);

/**
 * The questions of a run: a `block` that shows them, `look` to refresh them, `none` to clear them, and their `count`.
 * `onchange` is called with what is asked when that changes, `choose(node, tab)` shows a node of the run that `find(id)`
 * knows, `rest()` moves the focus to what follows the questions.
 */
export function questions(run, { signal, onchange, find, choose, rest }) {
  const list = element('div'), more = element('button', { type: 'button', hidden: true, onclick: () => (isAll ? showFew() : showAll()) });
  const block = element('div', { class: 'questions' }, list, more);
  /** The open questions, and those that somebody else answered while an answer was written here, with its text. */
  let asked = [], lost = [], isAll = false;
  /** Whether the run has ended: it asks nothing more, whatever an answer that was under way says. */
  let isOver = false;
  /** The position in the log of the newest answer shown: of two requests at the same time, the older may come last. */
  let shownAsOf = 0;
  const shifted = aimed(list);

  // A form that somebody writes in, or has focused, stays, whatever else is asked.
  const isUsed = ({ id }) => [...list.children].some((one) => one.item?.id === id && (writtenIn(one) !== '' || one.contains(document.activeElement)));
  const draw = () => {
    const items = asked.filter((item, at) => isAll || at < MANY || isUsed(item));
    const left = asked.length - items.length;
    const before = [...list.children].map(({ dataset }) => dataset.key);
    keep(list, [...lost, ...items.map(lasting)], (item) => (item.text === undefined ? item.id : `${item.id} lost`), (item) => (item.text === undefined ? form(item, { answered, refused, find, choose }) : leftOver(item, () => dismiss(item))));
    if ([...list.children].some(({ dataset }, at) => before[at] !== undefined && dataset.key !== before[at])) shifted();
    const untils = new Map(items.map((item) => [item.id, waits(item)]));
    for (const one of list.children) if (untils.has(one.dataset.key)) settle(one.querySelector('.until'), untils.get(one.dataset.key));
    more.hidden = left === 0 && !isAll;
    more.textContent = isAll ? 'Show fewer' : `Show ${left} more`;
  };
  const showAll = () => {
    const there = new Set(list.children);
    isAll = true;
    draw();
    enter([...list.children].find((one) => !there.has(one)));
  };
  const showFew = () => {
    isAll = false;
    draw();
  };
  const dismiss = (item) => {
    lost = lost.filter((one) => one !== item);
    draw();
    next();
  };
  const next = () => {
    const form = list.querySelector('form.question:not([aria-busy=true])');
    form ? enter(form, { preventScroll: true }) : rest();
  };
  const show = (items) => {
    if (items.length > asked.length) announce(`${items.length} question${items.length > 1 ? 's' : ''} to answer.`);
    const isOther = items.map(({ id }) => id).join() !== asked.map(({ id }) => id).join();
    const gone = [...list.children].filter((one) => one.item && !items.some(({ id }) => id === one.item.id) && writtenIn(one) !== '');
    for (const one of gone) lost.push({ id: one.item.id, question: one.item.question, text: writtenIn(one), isUncertain: one.isUncertain });
    if (gone.length > 0) announce('Somebody else answered first, or the question was withdrawn. Your text is kept.');
    asked = items;
    if (asked.length <= MANY) isAll = false;
    const hadFocus = list.contains(document.activeElement);
    draw();
    // The form that had the focus is gone.
    if (hadFocus && !list.contains(document.activeElement)) gone.length > 0 ? list.querySelector('[readonly]').focus() : next();
    if (isOther) onchange(items);
  };
  const look = async () => {
    const { items, as_of: asOf } = await get(`/runs/${run}/questions`, { signal });
    if (isOver || asOf < shownAsOf) return;
    shownAsOf = asOf;
    show(items);
  };
  const answered = async (what, hadFocus) => {
    await look().catch(() => {});
    announce(asked.length ? `${what} ${asked.length} more to answer.` : what);
    if (hadFocus && (document.activeElement === document.body || document.activeElement?.disabled || !document.activeElement?.isConnected)) next();
  };
  // What was refused may no longer be asked. The reason is shown even if the form that shows it is gone.
  const refused = async (made, error) => {
    await look().catch(() => {});
    const { item } = made;
    if (made.isConnected) return;
    if (lost.some(({ id }) => id === item.id)) { announce(error.message); return; }
    lost.push({ id: item.id, question: item.kind === 'question' ? item.question : revealed(item.question), text: writtenIn(made), why: error.message });
    draw();
    if (document.activeElement === document.body) next();
  };
  const none = () => {
    isOver = true;
    show([]);
  };
  return { block, look, none, count: () => asked.length };
}

/** What is left for somebody who was not the first to answer: the text, if there is one, and why it was refused. */
const leftOver = (item, dismiss) => element('div', { class: 'question' },
  element('p', {}, element('span', { class: 'quiet' }, item.isUncertain ? 'No answer is waited for any more. Yours may have arrived: ' : 'Somebody else answered first, or the question was withdrawn: '), written('bdi', {}, item.question)),
  item.text ? element('textarea', { readonly: true, dir: 'auto', rows: 2, 'aria-label': 'Your unsent answer' }, item.text) : '',
  item.why ? element('div', {}, trouble({ message: item.why })) : '', element('button', { type: 'button', onclick: dismiss }, 'Dismiss'));

function form(item, { answered, refused, find, choose }) {
  const note = element('div');
  // An answer that is being sent cannot be sent again.
  const say = async (path, body, what) => {
    if (made.isSent) return;
    const hadFocus = made.contains(document.activeElement), focused = document.activeElement;
    const close = (is) => {
      made.isSent = is;
      for (const one of made.querySelectorAll('button, input, textarea')) one.disabled = is;
      made.setAttribute('aria-busy', is);
    };
    close(true);
    try {
      await post(path, body);
      await answered(what, hadFocus);
      // The same may be asked once more.
      setTimeout(() => { if (made.isConnected) close(false); }, QUIET);
    } catch (error) {
      close(false);
      made.isUncertain = isGone(error);
      note.replaceChildren(trouble(failureOf(error)));
      if (hadFocus) focused.focus({ preventScroll: true });
      await refused(made, error);
    }
  };
  const who = nameOf(item, find, choose);
  // A held key was pressed for what was there before.
  const once = (event) => { if (event.repeat && event.key === 'Enter' && (event.ctrlKey || event.metaKey || event.target.tagName !== 'TEXTAREA')) event.preventDefault(); };
  const made = item.kind === 'question' ? question(item, who, note, say) : approval(item, { who, plan: partOf(item, find, choose, 'Show the plan', 'plan'), note, say });
  made.item = item;
  made.addEventListener('keydown', once, { capture: true });
  return made;
}

/** Who asks: a part of the run, with a link to it, or the run itself. */
const nameOf = (item, find, choose) => (item.path === '' ? 'The run' : partOf(item, find, choose, coded(revealed(item.title))));

/** `text` with what is in backticks as code. A link has no links in it. */
const coded = (text) => text.split(/`([^`]+)`/).map((part, at) => (at % 2 === 0 ? part : element('code', {}, part)));

/** A link to the part that asks, or to a `tab` of it. */
function partOf(item, find, choose, text, tab) {
  const fields = [item.path !== '' && `node=${item.node_id}`, tab && `tab=${tab}`].filter(Boolean);
  return element('a', {
    href: `/runs/${item.run_id}?${fields.join('&')}`,
    onclick: (event) => {
      const node = find(item.node_id);
      if (!node || !isPlain(event)) return;
      event.preventDefault();
      choose(node, tab);
    },
  }, text);
}

/** What of a question does not change while it is asked: its form stays, and with it what somebody writes there. */
const lasting = ({ until, ...rest }) => rest;

/** Until when an answer is waited for, and what happens then: nothing, or one paragraph. It changes as the run goes on. */
function waits(item) {
  if (!item.until) return [];
  const hasDefault = item.default !== null && item.default !== undefined;
  return [element('p', { class: 'meta' }, 'The time to answer ends ', moment(item.until), hasDefault ? ', and then the default applies.' : '.')];
}
const untilBlock = () => element('div', { class: 'until' });

/** What `who` asks. The words of a task for a person begin with its title, which `who` is. */
function askedBy({ question, title }, who) {
  const [, task] = /^Task for a person: ([^]*)/.exec(question) ?? [];
  const isTold = task === title || task?.startsWith(`${title}\n`), rest = isTold ? task.slice(title.length).trim() : task ?? question;
  return [element('span', { class: 'quiet' }, who, task === undefined ? ' asks: ' : rest ? ' is a task for a person: ' : ' is a task for a person.'), written('bdi', {}, ...plain(rest))];
}

function question(item, who, note, say) {
  const hasChoices = item.options.length > 0;
  const field = element('textarea', {
    name: 'answer', dir: 'auto', rows: 2, required: true, autocomplete: 'off', 'aria-label': `Answer to: ${item.question}`, 'aria-keyshortcuts': 'Control+Enter', placeholder: matchMedia('(pointer: coarse)').matches ? '' : 'Ctrl+Enter to send',
    onkeydown: (event) => {
      if (event.defaultPrevented || event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
      event.preventDefault();
      field.form.requestSubmit();
    },
  }, item.default ?? '');
  const parts = hasChoices ? item.options.map((option) => written('button', { type: 'submit', value: option }, option, option === item.default ? element('span', { class: 'quiet' }, ' (default)') : ''))
    : [field, element('button', { type: 'submit', class: 'main' }, 'Send answer')];
  return element('form', {
    class: 'question', ...(hasChoices ? { tabindex: -1, 'aria-label': item.question } : {}),
    onsubmit: (event) => { event.preventDefault(); say(`/questions/${item.id}/answer`, { answer: hasChoices ? event.submitter.value : field.value }, 'Answered.'); },
  }, cut(moved(element('p', { class: 'asked' }, ...askedBy(item, who)), 'Question')), ...parts, untilBlock(), note);
}

/** How much of a call is named beside a button or in a dialog: all of it is above. */
const SHORT = 120;
const short = (text) => (text.length > SHORT ? `${text.slice(0, SHORT)}…` : text);

// No button is the default for Enter: with a reason, Enter rejects, and without one it does nothing.
function approval(item, { who, plan, note, say }) {
  const asks = revealed(item.question), isCall = item.kind === 'call';
  const reason = element('input', { name: 'reason', dir: 'auto', autocomplete: 'off', 'aria-label': `Reason for rejecting: ${short(asks)}`, placeholder: 'Reason for rejecting' });
  // A permission does not cover a call that was under way when its driver died: each is asked about.
  const mayAlways = isCall && !item.call.again;
  const no = () => say(`/approvals/${item.id}`, { approve: false, reason: reason.value }, 'Rejected.');
  const button = (text, onclick, attributes = {}) => element('button', { type: 'button', onclick, ...attributes }, text);
  const yes = (more) => say(`/approvals/${item.id}`, { approve: true, ...more }, 'Approved.');
  const always = (text, what, more) => button(text, async () => { if (await sure('Always allow?', `${what} no longer needs approval in this run.`, 'Always allow')) yes(more); });
  const tool = isCall && revealed(item.call.tool);
  const again = isCall && item.call.again && element('span', {}, 'It had begun when its process died, and nobody knows whether it took effect. Make it again? ');
  const what = isCall ? [again, element('code', {}, tool)] : [element(item.kind === 'plan' ? 'span' : 'code', {}, asks), item.kind === 'plan' ? [' ', plan] : ''];
  return element('form', { class: 'question', onsubmit: (event) => { event.preventDefault(); if (reason.value.trim()) no(); } },
    element('p', {}, element('span', { class: 'quiet' }, who, ' is waiting for approval: '), ...what.flat()),
    isCall && hasValues(item.call.args) ? cut(moved(element('div', { class: 'asked' }, values(item.call.args, { isWhole: true })), 'Arguments')) : '',
    button('Approve', () => yes({}), { class: 'main' }),
    ...(mayAlways ? [always('Always allow this call', `This very call of ${tool}, with the same arguments,`, { always: 'arguments' }), always(`Always allow ${tool}`, `Any call of ${tool}, whatever it does,`, { always: 'tool' })] : []),
    reason, button('Reject', no), untilBlock(), note);
}
