// The filters of a list: fields in the address of the page, and only the latest answer is shown.

import { isBusy, isGone, patiently, query as addressOf } from './ask.js';
import { address, trouble } from './dom.js';

/**
 * A value that is kept with the address in the history, so that it is restored when somebody comes back: `first` until
 * it is set.
 */
export function kept(name, first) {
  let value = history.state?.[name] ?? first;
  return {
    get value() { return value; },
    set value(to) {
      value = to;
      history.replaceState({ ...history.state, [name]: to }, '');
    },
  };
}

/** The most entries of a list that are shown, and how many more than are shown are requested. */
export const MOST = 1000, SLACK = 50;

/**
 * The part of a list that is shown: `limit` entries, and those that have come before them since, so that nothing at its
 * end goes while somebody reads it. `ask()` is how many to request, `part(items)` what to show of them, and `anew()`
 * begins with another list; `key` names an entry.
 */
export function shownPart(limit, key) {
  let count = 0, last;
  return {
    ask: () => Math.min(MOST, Math.max(count, limit.value) + SLACK),
    anew() { [count, last] = [0, undefined]; },
    part(items) {
      const at = last === undefined ? -1 : items.findIndex((item) => key(item) === last);
      count = Math.min(MOST, Math.max(limit.value, at < 0 ? count : at + 1));
      const shown = items.slice(0, count);
      if (shown.length > 0) last = key(shown.at(-1));
      return shown;
    },
  };
}

/**
 * The fields of `query`, and a function that changes one (an empty value removes it), updates the address, and calls
 * `then`.
 */
export function filters(query, then) {
  const wanted = Object.fromEntries(query);
  const change = (name, value) => {
    value ? (wanted[name] = value) : delete wanted[name];
    address(addressOf(location.pathname, wanted), { state: history.state });
    then();
  };
  return { wanted, change };
}

/**
 * Returns a function that requests and shows. An answer that arrives after a newer request is not shown. `refused`
 * shows what the server refuses; without it, the caller gets the error. While a refusal is temporary, the present
 * content stays.
 */
export function latest({ signal, ask, show, refused }) {
  let turn = 0;
  return async () => {
    const mine = ++turn, isOver = () => mine !== turn;
    try {
      const answer = await patiently(ask, signal, { isOver, waits: isBusy });
      if (!isOver()) show(answer);
    } catch (error) {
      if (signal.aborted || isGone(error) || !refused) throw error;
      if (!isOver()) refused(trouble(error));
    }
  };
}
