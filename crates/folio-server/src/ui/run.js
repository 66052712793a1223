// A live run: its tree, and beside it the details of the selected part.

import { CHANCE, QUIET, failureOf, follow, get, patiently, post, query as addressOf, told } from './ask.js';
import { branches, branchesOf } from './branches.js';
import { now } from './clock.js';
import { $, address, aimed, announce, cut, element, empty, headline, keep, settle, soon, sure, trouble, waiting as loading, written } from './dom.js';
import { cost, mark, moment, number, span, stateLine, why, words } from './format.js';
import { happen } from './happened.js';
import { changeLimits } from './limits.js';
import { markdown } from './markdown.js';
import { nodeParts } from './node.js';
import { mayLeave, showPlan } from './plan.js';
import { questions } from './questions.js';
import { countsOf, showWaiting, standingOf } from './standing.js';
import { Tree, stateOf } from './tree.js';
import { uses, usesLine } from './uses.js';

/** The stop reasons that a higher limit would have avoided. Nobody can raise how deep and how large plans may be. */
const LIMITED = /^(budget_(?!depth|children)|deadline$)/;
/** Milliseconds between two looks of a hidden tab, which follows no events. */
const HIDDEN = 15_000;
/** The number of nodes from which a tree gets a search box. */
const SEARCHED = 25;
/** The outcomes that the tree can be filtered by. */
const TALLIED = ['failed', 'partial', 'skipped', 'cancelled', 'superseded', 'not_begun'];
/** Events that people cause, whether a process drives the run or not. */
const BY_PEOPLE = /^(answered|call_approved|call_rejected|continued|limits_changed|paused|plan_approved|plan_edited|plan_rejected)$/;
/** Events after which a run may have other pages. */
const MAKES_PAGES = /^(planned|plan_edited|plan_rejected)$/;
/** Events with which something gets under way. */
const BEGINS = /^(started|asked|checked|compacting|continued)$/;
const RUN_TABS = { result: 'Result', report: 'Report', log: 'Log', branches: 'Branches', plan: 'Plan', summary: 'Summary' };

/** The tree with all its nodes. The live stream continues after the first part, so nothing is missed between parts. */
async function wholeTree(place, signal) {
  const tree = await get(place, { signal });
  for (let { next } = tree; next;) {
    const part = await get(addressOf(place, { cursor: next }), { signal });
    tree.nodes.push(...part.nodes);
    ({ next } = part);
  }
  return tree;
}

export async function showRun(view, { name, query, signal, title, go, mayGo, onmove }) {
  title(`Run ${name}`);
  const place = `/runs/${encodeURIComponent(name)}`;
  let [run, known] = await Promise.all([get(place, { signal }), wholeTree(`${place}/tree`, signal)]);
  // The run may have ended between the two requests.
  if (known.status !== 'running' && run.status === 'running') run = await get(place, { signal });
  const at = `/runs/${run.handle}`;
  view.className = 'run';

  const state = element('p', { class: 'line state' }), controls = element('p', { class: 'buttons' }), note = element('div'), broken = element('div');
  // A button that is pressed may be replaced by its opposite.
  aimed(controls);
  // What can be done with the run is above the tree; what can be done with a part, beside it, so that the tree does not move.
  const partControls = element('p', { class: 'buttons' }), partNote = element('div');
  aimed(partControls);
  const progress = element('progress', { 'aria-label': 'Finished nodes' });
  const asked = questions(run.handle, {
    signal, onchange: (items) => { tree.approve(items); laterSummary(); laterPane(); }, find: (id) => tree.nodes.get(id),
    choose: (node, wanted) => leadTo(node, wanted),
    rest: () => (pane.contains(document.activeElement) ? null : isNarrow() && view.classList.contains('reading') ? pane.focus({ preventScroll: true }) : tree.focus(tree.selected ?? tree.root)),
  });
  const tabs = element('nav', { 'aria-label': 'Selected part' }), pane = element('article', { class: 'text', tabindex: '0', 'aria-label': 'Selected part' });
  const { heading: chosen, block: chosenBlock } = headline('', 'h2');
  const back = element('button', { type: 'button', class: 'back', onclick: () => (history.state?.isFromTree ? history.back() : toTree()) }, '← Tree');
  // The link to a part disappears when the pane shows that part.
  const leadTo = (node, wanted) => tree.choose(node, () => {
    if (wanted && wanted !== tab) { open(wanted); readdress({ state: history.state }); }
    if (isNarrow()) pane.focus(); else tree.focus(node);
  });
  const isNarrow = () => getComputedStyle(back).display !== 'none';
  const tree = new Tree({ signal, mayLeave, onselect: chose, onsift: sifted, onopen: () => { if (isNarrow()) back.focus(); } });
  const seek = element('input', { type: 'search', dir: 'auto', class: 'seek', placeholder: 'Filter tree', 'aria-label': 'Filter tree', oninput: (event) => { tree.sift({ sought: event.currentTarget.value.trim() }); readdress({ state: history.state }); } });
  const tally = element('p', { class: 'tally', role: 'group', 'aria-label': 'Filter tree by outcome' }), waiting = element('p', { class: 'said', role: 'status' });
  const { run_id: first, path: before } = run.forked_from ?? {};
  const beforeWhat = known.nodes.find(({ path }) => path === before)?.title ?? before;
  const origin = first && element('span', { class: 'meta' }, 'forked from ', element('a', { href: `/runs/${first}` }, 'another run'), before ? [' before ', written('bdi', {}, beforeWhat)] : '');
  if (origin) get(`/runs/${first}`, { signal }).then(({ handle }) => { Object.assign(origin.querySelector('a'), { textContent: handle, href: `/runs/${handle}` }); }, () => {});
  const turn = run.turn_id && element('a', { href: `/turns/${run.turn_id}` }, 'Turn trace');
  const about = element('section', { class: 'panel about', 'aria-label': 'Selected part' }, element('div', { class: 'bar' }, back, chosenBlock), partControls, partNote, tabs, pane);
  view.append(
    element('header', {}, headline(run.title).block, run.goal && run.goal !== run.title && cut(written('p', { class: 'said quiet' }, run.goal)), element('div', { class: 'line' }, state, turn, origin, tally), controls, note, broken, waiting, asked.block, progress),
    element('div', { class: 'columns' }, element('section', { class: 'panel side', 'aria-label': 'Tree' }, seek, tree.none, tree.scroller),
      about));

  let tab = query.get('tab') ?? 'result', isChosen = query.has('tab'), wasDrawn = 0, underWay = 0, isOwed = false, shown = null, standing = null, saidTitle = null, drivenAt = 0;
  /** How much of each limit was used when it was said last. */
  const saidUses = {};
  const nodePath = (node) => `${at}/nodes/${node.node_id}`;

  // Until when a process may still begin to drive the run after it was started or continued.
  let hopedUntil = Math.min(Date.parse(run.updated_at), now()) + CHANCE;
  // Whether no process came although one could have: then another request on this page will not bring one either.
  let isLeft = false;
  const isHoped = () => {
    if (run.driven) hopedUntil = 0;
    return now() < hopedUntil;
  };

  // ---- the summary, and what people can do
  function summary() {
    const { root } = tree;
    const { ends, stands, ended, all } = countsOf(tree);
    const stand = standingOf(run, root, stands, { asks: asked.count(), isHoped: isHoped() });
    if (stand === 'interrupted') isLeft = true; else if (run.driven) isLeft = false;
    if (standing !== stand) { if (standing) laterPane(); standing = stand; }
    // No process drives the run, though something is due: its clock stands at the last moment when one did, as far as is
    // known.
    if (run.driven || run.waits) drivenAt = now();
    const stoodAt = run.driven || run.waits || root.status ? null : Math.max(drivenAt, Date.parse(run.updated_at));
    const took = (root.finished_at ? Date.parse(root.finished_at) : stoodAt ?? now()) - Date.parse(root.started_at ?? run.created_at);
    const parts = [stateLine(stand), root.status && root.stop_reason && element('span', { class: 'quiet', title: root.stop_reason }, why(root.stop_reason)), all > 0 && element('span', { class: 'quiet' }, `${number(ended)} of ${number(all)} node${all === 1 ? '' : 's'}`)];
    const used = cost(root.spent);
    const much = root.status ? [] : uses(root);
    for (const { what, step, text } of much) if (step > (saidUses[what] ?? 0)) { saidUses[what] = step; announce(text); }
    parts.push(element('span', { class: 'time' }, span(took)), used && element('span', { class: 'quiet' }, used), ...usesLine(much), element('span', { class: 'quiet' }, run.handle, ' · ', moment(run.created_at)));
    const text = parts.filter(Boolean).map((part) => part.textContent).join('|');
    if (state.said !== text) { state.said = text; state.replaceChildren(...parts.filter(Boolean)); }
    drawTally(ends);
    // It stays once it is there.
    if (tree.nodes.size >= SEARCHED || tree.sought) seek.hidden = false;
    showWaiting(waiting, run, root, stand);
    // A run without parts is done when it ends.
    Object.assign(progress, all > 0 ? { max: all, value: ended } : { max: 1, value: root.status ? 1 : 0 });
    progress.className = root.status ?? '';
    const called = `${asked.count() > 0 ? '? ' : ''}${run.title}`;
    if (called !== saidTitle) { saidTitle = called; title(called); }
    tree.drives(run.driven || run.waits || isHoped(), stoodAt);
  }
  // Parts that did not end well are found with one click, however large the tree is.
  function drawTally(count) {
    const { only } = tree;
    // One that the tree is filtered by can be removed, even if there are none.
    keep(tally, TALLIED.filter((what) => what === only || (count[what] && tree.nodes.size > 1)).map((what) => ({ what, many: count[what] ?? 0, isOnly: what === only })), ({ what }) => what, ({ what, many, isOnly }) => element('button', {
      type: 'button', class: 'chip', 'aria-pressed': String(isOnly), title: isOnly ? 'Show the whole tree' : 'Show only these in the tree',
      onclick: () => {
        tree.sift({ only: isOnly ? null : what });
        readdress({ state: history.state });
        if (isNarrow()) view.classList.remove('reading');
        tree.scroller.scrollTop = 0;
        summary();
      },
    }, mark(what), `${number(many)} ${words(what)}`));
  }
  function sifted() {
    seek.value = '';
    summary();
    readdress({ state: history.state });
  }
  /** The actions that are under way: none of them is started again, but any other is. */
  const busy = new Set();
  /** Does `what` to `node` or, without one, to the run. What is refused is said in `said`. */
  const doing = async (what, ask, said = note, node = null) => {
    const name = `${what} ${node?.node_id}`;
    if (busy.has(name)) return;
    busy.add(name);
    controls.ariaBusy = partControls.ariaBusy = 'true';
    said.replaceChildren();
    await ask().catch((error) => {
      // Beside another part it would seem to be about that one.
      const isHere = !node || node === part(), why = failureOf(error);
      (isHere ? said : note).replaceChildren(trouble(isHere ? why : { message: `${node.title}: ${why.message}`, hints: why.hints }));
    });
    busy.delete(name);
    controls.ariaBusy = partControls.ariaBusy = String(busy.size > 0);
  };
  // Everything that somebody has written in this view.
  const unsaved = () => [...view.querySelectorAll('textarea, input')].map((field) => (field.value === field.defaultValue ? '' : field.value)).join('\n');
  const fork = async (body, said) => {
    if (!await mayGo()) return;
    const before = unsaved();
    let begun = null;
    await doing('fork', async () => {
      ({ handle: begun } = await post(`${at}/fork`, body));
      // By now somebody may be elsewhere, or have written more than they agreed to lose.
      if (!signal.aborted && (unsaved() === before || await mayGo())) { go(`/runs/${begun}`); begun = null; }
    }, said, body.at ? tree.nodes.get(body.at) : null);
    if (begun === null) return;
    announce(`Fork started: ${begun}.`);
    said.replaceChildren(element('p', { class: 'quiet' }, 'Fork started: ', element('a', { href: `/runs/${begun}` }, begun), '.'));
  };
  const part = () => (tree.selected && tree.selected !== tree.root ? tree.selected : null);
  const button = (text, onclick) => {
    const made = element('button', { type: 'button', onclick: async () => {
      await onclick();
      // While its dialog was open, the button may have been replaced by an equal one.
      if (made.isConnected || document.activeElement !== document.body || signal.aborted) return;
      ([...controls.children, ...partControls.children].find((one) => one.textContent === text) ?? pane).focus({ preventScroll: true });
    } }, text);
    return made;
  };
  /** The actions on the run or, if `node` is given, on that part of it. Their names say on which. */
  function actions(node, said) {
    const one = node ?? tree.root, what = node ? `“${node.title}”` : 'the run', whose = node ? ' this part' : '';
    const body = node ? { node: node.node_id } : {};
    if (tree.root.status || one.status || one.state === 'cancelling') return [];
    const does = (verb) => doing(verb, () => post(`${at}/${verb}`, body), said, node);
    return [one.paused ? button(`Continue${whose}`, () => does('continue')) : button(`Pause${whose}`, () => does('pause')),
      button(node ? 'Limits of this part' : 'Limits', () => doing('limits', () => changeLimits(run.handle, { node: node?.node_id, what, signal }), said, node)),
      button(`Cancel${whose}`, async () => { if (await sure(`Cancel ${what}?`, 'Work in progress stops. Finished work is kept.', 'Yes, cancel')) does('cancel'); })];
  }
  /** Whether a limit stopped the run, or a part of it that counts. */
  const isLimited = () => LIMITED.test(tree.root.stop_reason) || [...tree.nodes.values()].some((one) => !one.superseded && LIMITED.test(one.stop_reason));
  function drawControls() {
    const node = part();
    const ofRun = actions(null, note), ofPart = node ? actions(node, partNote) : [];
    if (tree.root.status && isLimited()) {
      ofRun.push(button('Fork with higher limits', async () => {
        if (!await sure('Fork with higher limits?', 'A new run starts from the point before a limit stopped anything. It stays paused until you raise its limits and continue it.', 'Start fork')) return;
        fork({ before_limit: true, paused: true }, note);
      }));
    }
    if (node?.started_at) {
      ofPart.push(button('Fork from here', async () => {
        if (!await sure(`Fork before “${node.title}”?`, 'A new run keeps everything done before this part, and runs this part and everything after it again.', 'Start fork')) return;
        fork({ at: node.node_id }, partNote);
      }));
    }
    offer(controls, ofRun, '');
    offer(partControls, ofPart, node?.node_id ?? '');
  }
  /** Makes `place` offer the actions `made` on `whom`. A button that replaces the pressed one gets the focus. */
  function offer(place, made, whom) {
    const said = made.map((one) => one.textContent).join() + whom;
    if (place.said === said) return;
    place.said = said;
    const focused = [...place.children].indexOf(document.activeElement);
    place.replaceChildren(...made);
    if (focused >= 0) (made[Math.min(focused, made.length - 1)] ?? pane).focus({ preventScroll: true });
  }

  // ---- the selected part
  // A report says what was done: of a run that did not end well, the result says why.
  const usual = (node) => (node === tree.root && node.status === 'ok' && run.pages.report ? 'report' : 'result');
  /** Updates the address to the selected part and its tab. */
  function readdress(how) {
    // On a narrow screen, an address that names neither leads to the tree.
    const node = tree.selected, isShown = !isNarrow() || view.classList.contains('reading');
    address(addressOf(at, { node: isShown && (node !== tree.root || isNarrow()) && node.node_id, tab: isShown && tab !== usual(node) && tab, only: tree.only, text: seek.value.trim() }), how);
  }
  function open(name) {
    tab = name;
    pane.said = null;
    pane.replaceChildren();
    drawPane();
  }
  function toTree() {
    view.classList.remove('reading');
    readdress({ push: true });
    tree.focus(tree.selected ?? tree.root);
  }
  /** Whether an address names a part, or a tab of the run. */
  const isNamed = (to) => to.has('node') || to.has('tab');
  /** Filters the tree as an address says. */
  function sift(to) {
    seek.value = to.get('text') ?? '';
    tree.sift({ sought: seek.value.trim(), only: TALLIED.includes(to.get('only')) ? to.get('only') : null });
  }
  // Moves back and forward between parts of the run.
  onmove((to) => {
    // On a narrow screen, the tree comes back as it was left.
    if (isNarrow() && !isNamed(to)) {
      view.classList.remove('reading');
      tree.focus(tree.selected ?? tree.root);
      return;
    }
    const node = tree.nodes.get(to.get('node')) ?? tree.root;
    sift(to);
    tab = to.get('tab') ?? usual(node);
    view.classList.toggle('reading', isNamed(to));
    tree.select(node, false);
    if (isNarrow()) pane.focus(); else tree.focus(node);
  });
  function tabsOf(node) {
    if (node === tree.root) return Object.keys(RUN_TABS).filter((one) => ['result', 'log', 'branches', 'plan'].includes(one) || run.pages[one]);
    // The page of a group is that of the task around it.
    const hasPage = !node.page_id || node.page_id !== node.above?.page_id;
    return ['result', ...(hasPage ? ['log'] : []), ...(node.plan_version > 0 || node.kind === 'plan' ? ['plan'] : [])];
  }
  function chose(node, isByPerson) {
    // If it is selected again while its plan is edited, the editor stays.
    if (isByPerson && node === shown && pane.querySelector('textarea')) { view.classList.add('reading'); return; }
    shown = node;
    const tabsThere = tabsOf(node);
    if (isByPerson && node !== tree.root) tab = !tabsThere.includes(tab) ? 'result' : tab;
    else if (!tabsThere.includes(tab)) tab = 'result';
    if (isByPerson) {
      // On a narrow screen, going back leads to the tree.
      const isFromTree = isNarrow() && !view.classList.contains('reading');
      view.classList.add('reading');
      readdress(isNarrow() ? { push: true, state: { isFromTree } } : { state: history.state });
      // Above it there may be questions that fill the window.
      if (isNarrow()) about.scrollIntoView({ block: 'start' });
    }
    chosen.textContent = node.title;
    partNote.replaceChildren();
    pane.said = null;
    pane.replaceChildren();
    drawControls();
    drawPane();
  }
  async function drawPane() {
    const node = tree.selected;
    if (!node) return;
    const mine = underWay = ++wasDrawn, wanted = tab;
    isOwed = false;
    keep(tabs, tabsOf(node).map((name) => ({ name, isShown: name === tab })), ({ name }) => name, ({ name, isShown }) => element('button', {
      type: 'button', 'aria-current': isShown ? 'true' : null, onclick: async () => { if (!await mayLeave()) return; isChosen = true; open(name); readdress({ state: history.state }); },
    }, RUN_TABS[name]));
    const isOld = () => signal.aborted || mine !== wasDrawn || tree.selected !== node || tab !== wanted;
    // What is there stays until its successor comes.
    const wait = pane.hasChildNodes() ? null : loading(pane, isOld);
    const put = (said, parts) => { if (!isOld() && pane.said !== said) { pane.said = said; settle(pane, parts()); } };
    const draw = async () => {
      if (wanted === 'result') {
        const detail = await get(nodePath(node), { signal }), { approval } = node;
        const state = node === tree.root && !detail.status && /^(asks|held)$/.test(standing) ? standing : stateOf({ ...detail, approval, above: node.above, children: node.children }, run.driven || run.waits || isHoped());
        put(`${node.node_id}${state}${approval?.id}${JSON.stringify(detail)}`, () => nodeParts(detail, { state, approval, isKept: tree.isKept(node), inputs: node === tree.root ? run.inputs : null, find: (id) => tree.nodes.get(id), choose: leadTo }));
      } else if (wanted === 'plan') {
        await showPlan(pane, { run: run.handle, node: node === tree.root ? undefined : node.node_id, hasEnded: Boolean(node.status), signal, isOld, again: () => drawPane() });
      } else if (wanted === 'branches') {
        const told = await get(branchesOf(run.pages.main), { signal });
        put(told.rollup, () => (told.rollup ? branches(told) : [empty('No branches yet.')]));
      } else {
        const page = node === tree.root ? run.pages[wanted === 'log' ? 'main' : wanted] : node.page_id;
        const text = await get(`/pages/${page}.md`, { as: 'text', signal });
        put(text, () => markdown(text));
      }
    };
    try {
      await patiently(draw, signal, { isOver: isOld });
    } catch (error) {
      // A plan that is being edited stays, whatever fails meanwhile.
      if (isOld() || pane.querySelector('textarea.plan')) return;
      put(error.message, () => [error.status === 404 ? empty(node.started_at ? 'Nothing here yet.' : 'Not started yet.') : trouble(told(error))]);
    } finally {
      wait?.over();
      if (mine === underWay) {
        underWay = 0;
        if (isOwed) laterPane();
      }
    }
  }
  // Requests for a large run cost its server more, so they are made less often.
  const pause = (least) => () => Math.max(least, tree.nodes.size / 2);
  // A refresh waits for the one under way. While events come faster than answers, each would otherwise make the answer
  // before it too old to be shown.
  const laterPane = soon(() => { if (signal.aborted) return; if (underWay) isOwed = true; else drawPane(); }, pause(400));

  // ---- events
  const laterQuestions = soon(() => {
    if (signal.aborted) return;
    if (tree.root.status) asked.none();
    else lookForQuestions();
  }, pause(150));
  // A run that waits for an answer may have no other events, so a failed refresh is repeated.
  let isLooking = false, isLookedForAgain = false;
  const lookForQuestions = async () => {
    isLookedForAgain = isLooking;
    if (isLooking) return;
    isLooking = true;
    // That the store responds again may be the only event.
    await patiently(asked.look, signal, { isOver: () => Boolean(tree.root.status) }).then(() => broken.replaceChildren(), () => {});
    isLooking = false;
    if (isLookedForAgain) laterQuestions();
  };
  // A part that ends, or is to end, takes its questions with it.
  const mayWithdraw = () => { if (asked.count() > 0) laterQuestions(); };
  // The effects of events beyond the tree.
  const besides = {
    finished: mayWithdraw,
    cancel_requested: mayWithdraw,
    told({ what }, node) {
      const one = node ?? tree.root;
      if (what === 'limits_changed') {
        // Of two changes, the answer to the first may come last.
        const mine = one.limitsAsked = (one.limitsAsked ?? 0) + 1;
        get(nodePath(one), { signal }).then(({ limits }) => { if (mine === one.limitsAsked) { one.limits = limits; tree.touch(one); } }, () => {});
      }
      if (MAKES_PAGES.test(what)) laterStanding();
      if ((what === 'continued' || run.waits) && !isLeft) hopedUntil = now() + CHANCE;
      // This may be all that it waited for.
      if (run.waits) { run.waits = false; laterStanding(); }
      laterQuestions();
    },
  };
  // The summary goes through the whole tree, and updates the buttons as well: with a hundred thousand nodes, once a
  // second.
  const laterSummary = soon(() => { if (!signal.aborted) { summary(); drawControls(); } }, () => Math.max(60, tree.nodes.size / 100));
  let heard = Date.now();
  // No event reports that a driver died, that the run waits for another one, or that nothing is under way.
  const untold = ({ driven, waits, held_up: heldUp, in_flight: calls }) => JSON.stringify([driven, waits, heldUp, calls === 0]);
  const lookAgain = async () => {
    if (signal.aborted || tree.root.status) return;
    const before = heard, is = await get(at, { signal }).catch(() => run);
    if (is !== run && is.asks !== asked.count()) laterQuestions();
    if (JSON.stringify(is.pages) !== JSON.stringify(run.pages)) { run.pages = is.pages; laterPane(); }
    if (heard === before && untold(is) !== untold(run)) { run = is; laterSummary(); laterPane(); }
  };
  const laterStanding = soon(lookAgain, pause(1000));
  const hear = (event, data) => {
    heard = Date.now();
    if (BEGINS.test(data?.what ?? event)) run.in_flight = null;
    if (run.held_up || (asked.count() > 0 && run.in_flight !== 0)) laterStanding();
    if (event === 'end') { atTheEnd().catch(() => {}); return false; }
    if (event === 'gap') { anew(); return false; }
    // If the token has expired, the next attempt asks for another.
    if (event === 'problem' && data.status === 401) return undefined;
    if (event === 'problem') {
      if (broken.textContent !== data.detail) broken.replaceChildren(trouble(new Error(data.detail)));
      // A store that is busy can answer later.
      return data.status === 429 || data.status === 503 ? undefined : false;
    }
    broken.replaceChildren();
    const node = tree.nodes.get(data.node_id);
    happen(tree, data);
    besides[data.event]?.(data, node);
    if (data.event !== 'cancel_requested' && !BY_PEOPLE.test(data.what ?? '')) run.driven = true;
    // The result, cost and plan of a part contain those of the parts below it, and those of a run all.
    let above = node;
    while (above && above !== tree.selected) above = above.above;
    if (above || tree.selected === tree.root) laterPane();
    laterSummary();
    return undefined;
  };
  // The title of a hidden tab says that the run asks something.
  const keepLooking = soon(async () => {
    if (signal.aborted || tree.root.status) return;
    if (Date.now() - heard >= QUIET) await lookAgain();
    keepLooking();
  }, () => (document.hidden ? HIDDEN : pause(QUIET)()));
  // The missed events are not sent: everything is loaded again, unless something written would be lost.
  async function anew() {
    if (await mayGo()) go(location.pathname + location.search, { replace: true });
    else note.replaceChildren(trouble(new Error('This page no longer updates. Save your text, then reload the page.')));
  }
  // Whether somebody chose the shown tab, or has marked, focused or opened something there.
  const isRead = () => {
    const marks = getSelection(), { activeElement: focused } = document;
    return isChosen || (!marks.isCollapsed && pane.contains(marks.anchorNode)) || (focused !== pane && pane.contains(focused)) || pane.querySelector('details[open]') !== null;
  };
  async function atTheEnd() {
    asked.none();
    announce(`The run has ended: ${words(stateOf(tree.root))}.`);
    run = await patiently(() => get(at, { signal }), signal);
    summary();
    drawControls();
    if (tree.selected === tree.root && tab === 'result' && !isRead()) tab = usual(tree.root);
    drawPane();
  }

  known.nodes.forEach((node) => tree.add(node));
  // The run begins before its first part, and its root stands for the run.
  tree.root.started_at = run.started_at ?? tree.root.started_at;
  if (first) tree.keptUntil = Date.parse(run.created_at);
  seek.hidden = true;
  const wanted = tree.nodes.get(query.get('node'));
  if (!query.has('tab') && (!wanted || wanted === tree.root)) tab = usual(tree.root);
  sift(query);
  tree.draw();
  summary();
  tree.select(wanted ?? tree.root, false);
  view.classList.toggle('reading', Boolean(wanted) || (!query.has('node') && query.has('tab')));
  if (wanted) tree.focus(wanted);
  else if (query.has('node')) {
    note.replaceChildren(trouble(new Error('There is no such part in this run.')));
    readdress();
  }
  const timer = setInterval(() => { if (!tree.root.status && !document.hidden) { tree.tick(); summary(); } }, 1000);
  signal.addEventListener('abort', () => clearInterval(timer));
  $('view').dataset.ready = 'yes';
  if (known.status === 'running') {
    keepLooking();
    laterQuestions();
    follow(`${at}/events`, { after: known.last_event_id, signal, hear, fresh: laterQuestions }).catch((error) => note.replaceChildren(trouble(told(error))));
  }
}
