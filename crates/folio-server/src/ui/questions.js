// What a run asks people: questions, and calls and plans that wait for a yes.

import { get, post, told } from './ask.js';
import { announce, element, keep, trouble, written } from './dom.js';
import { revealed } from './format.js';

/** A list that shows what the run asks, how to look again, and how much it asks. `onchange` is called when that is something else. */
export function questions(run, { signal, onchange }) {
  const list = element('div', { class: 'questions' });
  let before = 0;
  const look = async () => {
    const { items } = await get(`/runs/${run}/questions`, { signal });
    if (items.length > before) announce(`${items.length} question${items.length > 1 ? 's' : ''} to answer.`);
    const isOther = items.length !== before;
    before = items.length;
    keep(list, items, (item) => item.id, (item) => form(item, look));
    if (isOther) onchange();
  };
  const none = () => { before = 0; list.replaceChildren(); };
  return { list, look, none, count: () => before };
}

function form(item, done) {
  const note = element('div');
  const say = (path, body) => post(path, body).then(done, (error) => note.replaceChildren(trouble(told(error))));
  return item.kind === 'question' ? question(item, note, say) : approval(item, note, say);
}

const nameOf = (item) => (item.path === '' ? 'The run' : revealed(item.title));

function question(item, note, say) {
  const hasChoices = item.options.length > 0;
  const field = element('textarea', {
    name: 'answer', dir: 'auto', rows: 2, required: true, autocomplete: 'off', 'aria-label': `Answer to: ${item.question}`, 'aria-keyshortcuts': 'Control+Enter', placeholder: 'Ctrl+Enter sends it',
    onkeydown: (event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
      event.preventDefault();
      field.form.requestSubmit();
    },
  }, item.default ?? '');
  const parts = hasChoices ? item.options.map((option) => written('button', { type: 'submit', value: option }, option))
    : [field, element('button', { type: 'submit', class: 'main' }, 'Answer')];
  return element('form', {
    class: 'question',
    onsubmit: (event) => { event.preventDefault(); say(`/questions/${item.id}/answer`, { answer: hasChoices ? event.submitter.value : field.value }); },
  }, element('p', {}, element('span', { class: 'quiet' }, `${nameOf(item)} asks: `), written('bdi', {}, item.question)), ...parts, note);
}

// None of the buttons is the one that Enter presses: in the reason it says no, and without a reason nothing.
function approval(item, note, say) {
  const asks = revealed(item.question);
  const reason = element('input', { name: 'reason', dir: 'auto', autocomplete: 'off', 'aria-label': `Why not: ${asks}`, placeholder: 'why not' });
  const isCall = item.kind === 'call';
  const no = () => say(`/approvals/${item.id}`, { approve: false, reason: reason.value });
  const button = (text, onclick, attributes = {}) => element('button', { type: 'button', onclick, ...attributes }, text);
  const yes = (text, more, attributes) => button(text, () => say(`/approvals/${item.id}`, { approve: true, ...more }), attributes);
  return element('form', { class: 'question', onsubmit: (event) => { event.preventDefault(); if (reason.value.trim()) no(); } },
    element('p', {}, element('span', { class: 'quiet' }, `${nameOf(item)} waits for a yes: `), element(item.kind === 'plan' ? 'span' : 'code', {}, asks)),
    yes('Approve', {}, { class: 'main' }),
    ...(isCall ? [yes('Yes, always to this call', { always: 'arguments' }), yes(`Yes, always to ${revealed(item.call.tool)}`, { always: 'tool' })] : []),
    reason, button('Reject', no), note);
}
