// The list of runs at `/`, one run as it happens at `/runs/RUN`.
const base = `/v1/spaces/${document.documentElement.dataset.space}`;
const $ = (id) => document.getElementById(id);
const MARKS = {
  created: ['·', 'waiting'], executing: ['▸', 'at work'], parked: ['↻', 'waits for another attempt'], running_children: ['◔', 'at work'],
  deciding: ['◇', 'a model decides'], aggregating: ['Σ', 'puts results together'], verifying: ['≟', 'is being checked'], replanning: ['↺', 'plans anew'],
  waiting_input: ['?', 'waits for an answer'], awaiting_approval: ['?', 'its plan waits for a yes'], cancelling: ['◌', 'being stopped'], running: ['▸', 'running'], interrupted: ['‖', 'interrupted: nobody drives it'], ok: ['✓', 'done'], partial: ['◑', 'partly done'],
  skipped: ['–', 'skipped'], cancelled: ['⊘', 'cancelled'], failed: ['✗', 'failed'],
};
const LARGE = 60; // groups with more members begin closed

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
async function post(path, body = {}) {
  const response = await fetch(base + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error((await response.json().catch(() => ({ detail: response.statusText }))).detail);
}
async function get(path, kind = 'json') {
  const response = await fetch(base + path);
  if (response.ok) return response[kind]();
  const problem = await response.json().catch(() => ({ detail: response.statusText }));
  throw Object.assign(new Error(problem.detail), { status: response.status });
}
function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${s.toFixed(1)} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
const words = (status) => MARKS[status]?.[1] ?? status;
const mark = (status) => element('span', { class: `mark ${status}`, 'aria-hidden': 'true' }, MARKS[status]?.[0] ?? '?');
const tell = (text) => { $('connection').textContent = text; };

// ---- the list of runs
let shownList = '';
async function showRuns() {
  try {
    const list = await get('/runs?limit=100');
    tell('');
    if (shownList === (shownList = JSON.stringify(list.items))) return;
    const focused = document.activeElement.getAttribute('href');
    $('run-list').replaceChildren(...list.items.map(runLine));
    [...$('run-list').querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
    $('runs-note').textContent = list.items.length === 0 ? 'No runs yet. `folio run --plan FILE` starts one.' : list.next ? 'The newest 100.' : '';
  } catch (error) {
    tell(error.status ? error.message : 'No connection; trying again …');
  }
}
function runLine(run) {
  const took = span(Date.parse(run.updated_at) - Date.parse(run.created_at));
  const status = run.status === 'running' && !run.driven ? 'interrupted' : run.status;
  const state = run.status === 'running' ? words(status) : `${words(status)} after ${took}`;
  const meta = `${run.handle} · ${state} · ${new Date(run.created_at).toLocaleString()}`;
  return element('li', {}, element('a', { href: `/runs/${run.handle}` }, mark(status),
    element('span', { class: 'title' }, run.title), element('span', { class: 'meta' }, meta)));
}

// ---- one run: the tree that the events change
const nodes = new Map();
const changed = new Set();
let root, selected, run, pageTimer, shownPage;
const statusOf = (node) => node.outcome ?? node.state;

function add(raw) {
  const node = { state: 'created', attempt: 0, call: '', notes: '', outcome: null, started_at: null, finished_at: null, ...raw, children: [] };
  if (nodes.has(node.id)) return;
  nodes.set(node.id, node);
  node.above = nodes.get(node.parent);
  node.level = node.above ? node.above.level + 1 : 1;
  node.above?.children.push(node);
  if (!node.above) root = node;
  changed.add(node.above ?? node);
}
const isOpen = (node) => node.open ?? (node.children.length > 0 && node.children.length <= LARGE && node.level < 5);

function draw(node) {
  if (!node.item) {
    node.row = element('div', { class: 'row' });
    node.group = element('ul', { role: 'group' });
    const item = element('li', { role: 'treeitem', 'aria-level': node.level, 'aria-selected': 'false', tabindex: '-1' }, node.row);
    node.item = Object.assign(item, { node });
    (node.above ? node.above.group : $('tree')).append(node.item);
  }
  const status = statusOf(node);
  const call = element('span', { class: 'call' }, node.call);
  node.time = element('span', { class: 'time' });
  const tries = node.attempt > 1 ? [element('span', { class: 'time' }, `attempt ${node.attempt}`)] : [];
  const twist = element('span', { class: 'twist', 'aria-hidden': 'true' }, node.children.length === 0 ? '' : isOpen(node) ? '▾' : '▸');
  node.row.replaceChildren(twist, mark(status), element('span', { class: 'title' }, node.title), call, ...tries, node.time);
  node.item.setAttribute('aria-label', `${node.title}, ${words(status)}`);
  if (node.children.length > 0) node.item.setAttribute('aria-expanded', isOpen(node));
  if (isOpen(node)) {
    if (!node.group.isConnected) node.item.append(node.group);
    for (const child of node.children) if (!child.item) draw(child);
  } else node.group.remove();
  clock(node);
}
function clock(node) {
  if (node.started_at) node.time.textContent = span((node.finished_at ? Date.parse(node.finished_at) : Date.now()) - Date.parse(node.started_at));
}
function drawChanged() {
  for (const node of changed) if (node.item || !node.above || node.above.item && isOpen(node.above)) draw(node);
  if (selected && changed.has(selected)) { about(); laterPage(); }
  changed.clear();
  if (root && !root.item.parentElement.querySelector('[tabindex="0"]')) root.item.tabIndex = 0;
  summary();
}
let frame = 0;
function touch(node) {
  if (node) changed.add(node);
  frame ||= requestAnimationFrame(() => { frame = 0; drawChanged(); });
}
function summary() {
  if (!root) return;
  const count = {};
  for (const { outcome } of nodes.values()) if (outcome) count[outcome] = (count[outcome] ?? 0) + 1;
  const ended = Object.values(count).reduce((sum, some) => sum + some, 0);
  const status = root.outcome ?? (run.driven ? 'running' : 'interrupted');
  const parts = [element('span', { class: status }, mark(status), words(status)), element('span', { class: 'quiet' }, `${ended} of ${nodes.size} nodes`)];
  for (const name of ['failed', 'partial', 'skipped', 'cancelled']) if (count[name]) parts.push(element('span', { class: name }, `${count[name]} ${name}`));
  const took = (root.finished_at ? Date.parse(root.finished_at) : Date.now()) - Date.parse(root.started_at ?? run.created_at);
  parts.push(element('span', { class: 'time' }, span(took)), element('span', { class: 'quiet' }, run.handle));
  $('run-state').replaceChildren(...parts);
  Object.assign($('run-progress'), { max: nodes.size, value: ended });
}

const on = {
  run_started: ({ nodes: made }) => made.forEach(add),
  expanded: ({ at, nodes: made }, node) => { made.forEach(add); Object.assign(node, { state: 'running_children', started_at: at }); },
  started: ({ at, attempt, call }, node) => Object.assign(node, { state: 'executing', attempt, call, started_at: node.started_at ?? at }),
  attempt_failed: (_, node) => Object.assign(node, { state: 'parked' }),
  finished: ({ at, outcome, notes }, node) => Object.assign(node, { state: 'terminal', outcome, notes, finished_at: at }),
  cancel_requested(_, node) {
    const stop = [node ?? root];
    for (const each of stop) if (!each.outcome) { each.state = 'cancelling'; touch(each); stop.push(...each.children); }
  },
  told({ at, text, state, nodes: made = [] }, node) {
    made.forEach(add);
    if (node) Object.assign(node, { state: state ?? node.state, call: text || node.call, started_at: node.started_at ?? at });
    questions();
  },
  resumed() { run.driven = true; },
};

function listen(after) {
  const source = new EventSource(`${base}/runs/${run.handle}/events?after=${after}`);
  const hear = (name, apply) => source.addEventListener(name, (message) => {
    const event = JSON.parse(message.data);
    apply(event, nodes.get(event.node));
    run.driven ||= name !== 'cancel_requested';
    touch(nodes.get(event.node));
  });
  for (const [name, apply] of Object.entries(on)) hear(name, apply);
  source.addEventListener('open', () => tell(''));
  source.addEventListener('error', () => tell('No connection; trying again …'));
  source.addEventListener('gap', () => location.reload());
  source.addEventListener('problem', (message) => { source.close(); tell(JSON.parse(message.data).detail); });
  source.addEventListener('end', async () => {
    source.close();
    controls();
    questions();
    $('announce').textContent = `The run has ended: ${words(root.outcome)}.`;
    await mainPages();
    if (!selected || selected === root) showMain();
  });
}

// ---- what a run asks people, and what they may do with it
let asked = '';
async function questions() {
  const { items } = root.outcome ? { items: [] } : await get(`/runs/${run.handle}/questions`);
  const now = JSON.stringify(items);
  if (now === asked) return;
  asked = now;
  if (items.length > 0) $('announce').textContent = `${items.length} question${items.length > 1 ? 's' : ''} to answer.`;
  $('questions').replaceChildren(...items.map((item) => {
    const field = element('input', { name: 'answer', required: '', autocomplete: 'off', 'aria-label': `Answer to: ${item.question}`, value: item.default ?? '' });
    const choices = item.options.map((option) => element('button', { type: 'submit', value: option }, option));
    const note = element('span', { class: 'failed', role: 'alert' });
    if (item.kind !== 'question') {
      const reason = element('input', { name: 'reason', autocomplete: 'off', 'aria-label': `Why not: ${item.question}`, placeholder: 'why not' });
      const form = element('form', { class: 'question' }, element('p', {}, element('span', { class: 'quiet' }, `${item.title} waits for a yes: `), item.question),
        element('button', { type: 'submit', value: 'yes' }, 'Approve'), reason, element('button', { type: 'submit', value: 'no' }, 'Reject'), note);
      form.addEventListener('submit', (event) => {
        event.preventDefault();
        const said = event.submitter.value === 'yes' ? { approve: true } : { approve: false, reason: reason.value };
        post(`/approvals/${item.id}`, said).then(questions, (error) => { note.textContent = error.message; });
      });
      return form;
    }
    const form = element('form', { class: 'question' }, element('p', {}, element('span', { class: 'quiet' }, `${item.title} asks: `), item.question),
      ...(choices.length > 0 ? choices : [field, element('button', { type: 'submit' }, 'Answer')]), note);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const answer = choices.length > 0 ? event.submitter.value : field.value;
      post(`/questions/${item.id}/answer`, { answer }).then(questions, (error) => { note.textContent = error.message; });
    });
    return form;
  }));
}
function controls() {
  const made = [['pause', 'Pause'], ['continue', 'Go on'], ['cancel', 'Cancel']].map(([action, title]) => {
    const button = element('button', { type: 'button' }, title);
    button.addEventListener('click', () => {
      const node = selected && selected !== root ? { node: selected.id } : {};
      if (action === 'cancel' && !confirm(`Stop ${node.node ? selected.title : 'the run'}?`)) return;
      post(`/runs/${run.handle}/${action}`, node).then(() => tell(''), (error) => tell(error.message));
    });
    return button;
  });
  $('controls').replaceChildren(...(root.outcome ? [] : made));
}

// ---- the page beside the tree
function select(node, read = true) {
  if (selected) selected.item.setAttribute('aria-selected', 'false');
  selected = node;
  node.item.setAttribute('aria-selected', 'true');
  about();
  showPage(node.page_id);
  if (read) document.body.classList.add('reading');
}
function about() {
  const status = statusOf(selected);
  $('about').replaceChildren(element('p', { class: status }, mark(status), words(status)), element('p', { class: 'quiet' }, element('code', {}, selected.call)));
}
async function showPage(id) {
  const isNew = shownPage !== id;
  shownPage = id;
  for (const button of $('pages').children) button.setAttribute('aria-current', button.page === id);
  try {
    const text = await get(`/pages/${id}.md`, 'text');
    if (shownPage === id) $('page').replaceChildren(...markdown(text));
  } catch (error) {
    if (shownPage === id) $('page').replaceChildren(element('p', { class: 'quiet' }, error.status === 404 ? selected?.notes || 'Nothing is written here yet.' : error.message));
  }
  if (isNew) $('page').scrollTop = 0;
}
const laterPage = () => { pageTimer ??= setTimeout(() => { pageTimer = null; if (shownPage === selected?.page_id) showPage(shownPage); }, 400); };
async function mainPages() {
  run = await get(`/runs/${run.handle}`);
  const names = { report: 'Report', main: 'Log', plan: 'Plan', summary: 'Summary' };
  $('pages').replaceChildren(...Object.keys(names).filter((name) => run.pages[name]).map((name) => {
    const button = Object.assign(element('button', { type: 'button' }, names[name]), { page: run.pages[name] });
    button.addEventListener('click', () => {
      selected?.item.setAttribute('aria-selected', 'false');
      selected = null;
      $('about').replaceChildren();
      showPage(button.page);
    });
    return button;
  }));
}
function showMain() {
  const wanted = run.pages.report ?? run.pages.main;
  [...$('pages').children].find((button) => button.page === wanted)?.click();
}

// The little of markdown that pages are written in. Makes elements, never HTML from text.
function markdown(text) {
  const made = [];
  const lines = text.split('\n');
  const last = (tag) => { if (made.at(-1)?.tagName !== tag.toUpperCase()) made.push(element(tag)); return made.at(-1); };
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    let part;
    if ((part = /^<!-- (.*) -->$/.exec(line))) made.push(element('p', { class: 'meta' }, part[1]));
    else if ((part = /^(#{1,6}) (.*)/.exec(line))) made.push(element(`h${Math.min(part[1].length + 1, 6)}`, {}, ...inline(part[2])));
    else if (line.startsWith('```')) {
      const from = at + 1;
      do at++; while (at < lines.length && !lines[at].startsWith('```'));
      made.push(element('pre', {}, lines.slice(from, at).join('\n')));
    } else if (line.startsWith('|')) {
      const table = last('table');
      const cells = line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim());
      if (!cells.some((cell) => /[^\s:-]/.test(cell))) continue;
      const tag = /^\|[\s:|-]+$/.test(lines[at + 1]) ? 'th' : 'td';
      table.append(element('tr', {}, ...cells.map((cell) => element(tag, {}, ...inline(cell)))));
    } else if ((part = /^(\s*)[-*] (?:\[(.)\] )?(.*)/.exec(line))) {
      const box = { x: '✓ ', '~': '▸ ', '!': '✗ ', '-': '⊘ ', ' ': '· ' }[part[2]] ?? '';
      const item = element('li', box ? { class: 'box' } : {}, box, ...inline(part[3]));
      if (part[1]) item.style.marginLeft = `${part[1].length / 2}rem`;
      last('ul').append(item);
    } else if (line.trim() === '') { if (/^(P|TABLE)$/.test(made.at(-1)?.tagName)) made.push(''); }
    else if (made.at(-1)?.tagName === 'UL' && /^\s/.test(line)) made.at(-1).lastChild.append('\n', ...inline(line.trim()));
    else { const block = last('p'); block.append(block.hasChildNodes() ? '\n' : '', ...inline(line)); }
  }
  return made;
}
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|(?<![\w*])\*[^*\s][^*]*\*(?![\w*]))/).map((part, index) => {
    if (index % 2 === 0) return part.replace(/\\([!-\/:-@[-`{-~])/g, '$1');
    if (part[0] === '`') return element('code', {}, part.slice(1, -1));
    return part.startsWith('**') ? element('strong', {}, part.slice(2, -2)) : element('em', {}, part.slice(1, -1));
  });
}

// ---- keys and clicks in the tree
function focus(node) {
  if (!node) return;
  for (const item of $('tree').querySelectorAll('[tabindex="0"]')) item.tabIndex = -1;
  node.item.tabIndex = 0;
  node.item.focus();
}
const toggle = (node, open) => { node.open = open; draw(node); focus(node); };
const keys = {
  ArrowDown: (node, all) => focus(all[all.indexOf(node) + 1]),
  ArrowUp: (node, all) => focus(all[all.indexOf(node) - 1]),
  Home: (_, all) => focus(all[0]),
  End: (_, all) => focus(all.at(-1)),
  ArrowRight: (node) => { if (node.children.length > 0) isOpen(node) ? focus(node.children[0]) : toggle(node, true); },
  ArrowLeft: (node) => (isOpen(node) ? toggle(node, false) : focus(node.above)),
  Enter: (node) => { select(node); if (getComputedStyle($('back')).display !== 'none') $('back').focus(); },
  ' ': (node) => select(node),
};
$('tree').addEventListener('keydown', (event) => {
  const { node } = event.target;
  if (!node || !keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  keys[event.key](node, [...$('tree').querySelectorAll('[role=treeitem]')].map((item) => item.node));
});
$('tree').addEventListener('click', (event) => {
  const node = event.target.closest('[role=treeitem]')?.node;
  if (!node) return;
  if (event.target.closest('.twist') && node.children.length > 0) return toggle(node, !isOpen(node));
  focus(node);
  select(node);
});
$('back').addEventListener('click', () => { document.body.classList.remove('reading'); focus(selected ?? root); });

async function showRun(name) {
  run = { handle: name, driven: false };
  await mainPages();
  const tree = await get(`/runs/${name}/tree`);
  document.title = `${tree.title} · Folio`;
  $('run-title').textContent = tree.title;
  tree.nodes.forEach(add);
  drawChanged();
  controls();
  if (!root.outcome) await questions();
  if (tree.status === 'running') { select(root, false); listen(tree.last_event_id); } else showMain();
  setInterval(() => { if (root.outcome) return; for (const node of nodes.values()) if (node.item && !node.outcome) clock(node); summary(); }, 1000);
}

const name = /^\/runs\/([^/]+)$/.exec(location.pathname)?.[1];
$(name ? 'run' : 'runs').hidden = false;
if (name) {
  showRun(name).catch((error) => {
    document.querySelector('.columns').hidden = $('run-progress').hidden = true;
    $('run-title').textContent = 'This run cannot be shown';
    $('run-state').textContent = error.message;
  });
} else {
  showRuns();
  setInterval(() => { if (!document.hidden) showRuns(); }, 2000);
}
