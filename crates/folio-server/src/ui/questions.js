// What a run asks people: questions, and calls and plans that wait for a yes.

import { get, post, told } from './ask.js';
import { announce, element, keep, trouble } from './dom.js';

/** A list that shows what the run asks, and how to look again. */
export function questions(run, { signal, onanswer }) {
  const list = element('div', { class: 'questions' });
  let before = 0;
  const look = async () => {
    const { items } = await get(`/runs/${run}/questions`, { signal });
    if (items.length > before) announce(`${items.length} question${items.length > 1 ? 's' : ''} to answer.`);
    before = items.length;
    keep(list, items, (item) => item.id, (item) => form(item, async () => { await look(); onanswer(); }));
  };
  const none = () => { before = 0; list.replaceChildren(); };
  return { list, look, none };
}

function form(item, done) {
  const note = element('div');
  const say = (path, body) => post(path, body).then(done, (error) => note.replaceChildren(trouble(told(error))));
  return item.kind === 'question' ? question(item, note, say) : approval(item, note, say);
}

function question(item, note, say) {
  const hasChoices = item.options.length > 0;
  const field = element('input', { name: 'answer', required: true, autocomplete: 'off', 'aria-label': `Answer to: ${item.question}`, value: item.default ?? '' });
  const parts = hasChoices ? item.options.map((option) => element('button', { type: 'submit', value: option }, option))
    : [field, element('button', { type: 'submit', class: 'main' }, 'Answer')];
  return element('form', {
    class: 'question',
    onsubmit: (event) => { event.preventDefault(); say(`/questions/${item.id}/answer`, { answer: hasChoices ? event.submitter.value : field.value }); },
  }, element('p', {}, element('span', { class: 'quiet' }, `${item.path === '' ? 'The run' : item.title} asks: `), item.question), ...parts, note);
}

function approval(item, note, say) {
  const reason = element('input', { name: 'reason', autocomplete: 'off', 'aria-label': `Why not: ${item.question}`, placeholder: 'why not' });
  const isCall = item.kind === 'call';
  const yes = (always, text) => element('button', { type: 'submit', value: 'yes', 'data-always': always }, text);
  return element('form', {
    class: 'question',
    onsubmit: (event) => {
      event.preventDefault();
      const { value, dataset } = event.submitter ?? { value: 'no', dataset: {} };
      say(`/approvals/${item.id}`, value === 'yes' ? { approve: true, ...(dataset.always ? { always: dataset.always } : {}) } : { approve: false, reason: reason.value });
    },
  }, element('p', {}, element('span', { class: 'quiet' }, `${item.path === '' ? 'The run' : item.title} waits for a yes: `), element(isCall ? 'code' : 'span', {}, item.question)),
  element('button', { type: 'submit', value: 'yes', class: 'main' }, 'Approve'),
  ...(isCall ? [yes('arguments', 'Yes, always to this call'), yes('tool', `Yes, always to ${item.call.tool}`)] : []),
  reason, element('button', { type: 'submit', value: 'no' }, 'Reject'), note);
}
