// Named values in full, for people: the arguments of a call, the inputs of a run, the fields of an output.

import { element, moved, written } from './dom.js';
import { number, revealed } from './format.js';

/** How many characters of a text are shown at first. */
const SHORT = 4000;

/** A text with its lines and tabs; whatever else is invisible is written out. */
const shown = (text) => text.split('\t').map(revealed).join('\t');

const isLong = (value) => typeof value === 'string' && value.includes('\n');
const isNamed = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** Whether `value` has a text of several lines, which JSON would show in one. */
export const hasLines = (value) => isLong(value) || (value !== null && typeof value === 'object' && Object.values(value).some(isLong));

/**
 * A text with its lines: all of it if `isWhole`, otherwise the beginning, and the rest on request. A newline at its end
 * would be an empty line.
 */
export function lines(text, { isWhole = false, label = 'Text' } = {}) {
  const said = text.replace(/\n$/, '');
  if (isWhole || said.length <= SHORT) return moved(written('pre', {}, said), label);
  const shown = moved(written('pre', {}, said.slice(0, SHORT)), label);
  const all = element('button', { type: 'button', onclick: () => { shown.textContent = said; all.remove(); } }, `Show all ${number(said.length)} characters`);
  return element('div', {}, shown, all);
}

/** One value: texts of several lines with their lines, what contains any as a list, anything else as JSON. */
function one(value, how) {
  if (isLong(value)) return lines(shown(value), how);
  if (typeof value === 'string') return written('code', {}, revealed(value));
  if (Array.isArray(value) && hasLines(value)) return element('ol', {}, ...value.map((item) => element('li', {}, one(item, how))));
  const text = revealed(JSON.stringify(value));
  return text.length > SHORT && !how.isWhole ? lines(revealed(JSON.stringify(value, null, 2)), how) : written('code', {}, text);
}

/** The values of an object, each with its name; anything else as one value. With `isWhole`, nothing is left out. */
export function values(of, { isWhole = false } = {}) {
  if (!isNamed(of)) return one(of, { isWhole });
  return element('dl', { class: 'facts values' }, ...Object.entries(of).flatMap(([name, value]) => [element('dt', {}, revealed(name)), element('dd', {}, one(value, { isWhole, label: revealed(name) }))]));
}

/** Whether there are any: an empty object, or nothing, needs no place. */
export const hasValues = (of) => of !== null && of !== undefined && (!isNamed(of) || Object.keys(of).length > 0);
