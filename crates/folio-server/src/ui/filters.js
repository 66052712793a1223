// What a list is asked for: fields that stand in the address of the page, and an answer that is the last one asked for.

import { isBusy, patiently, query as addressOf } from './ask.js';
import { address, trouble } from './dom.js';

/** A value that stays with the address in the history, so that whoever comes back finds it as it was: `first` until it is set. */
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

/** The fields of `query`, and a function that changes one (nothing takes it away), writes the address, and calls `then`. */
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
 * A function that asks and shows. An answer that comes after something newer was asked for is not shown, and what the server
 * refuses is told by `refused`; without it, whoever called hears of it. Where it is refused for now, what is shown stays until it is given.
 */
export function latest({ signal, ask, show, refused }) {
  let turn = 0;
  return async () => {
    const mine = ++turn, isOver = () => mine !== turn;
    try {
      const answer = await patiently(ask, signal, { isOver, waits: isBusy });
      if (!isOver()) show(answer);
    } catch (error) {
      if (signal.aborted || error instanceof TypeError || !refused) throw error;
      if (!isOver()) refused(trouble(error));
    }
  };
}
