// Makes the pictures of the documentation from the real program at work on this repository; called by pictures.sh.

import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { House, LONG, echo } from './house.mjs';
import { picture } from './terminal.mjs';

const [repository, folder] = process.argv.slice(2);
/** The largest size of a picture, in bytes. */
const MOST = 150_000;
mkdirSync(folder, { recursive: true });

const house = await House.open();
try {
  const copy = join(house.folder, 'folio');
  execFileSync('git', ['clone', '--quiet', repository, copy]);
  house.folio('run', '--plan', join(copy, 'examples/repo-review.yaml'), '--input', `repo=${copy}`);
  house.folio('observe', 'add', 'The release waits for the security review of the importer', '--type', 'dependency', '--tag', 'release', '--confidence', '0.7', '--ttl-minutes', '2880');
  house.folio('book', 'add', 'task', 'Write the notes of the release', '--phase', 'draft', '--progress', '0.4', '--tag', 'release');
  house.folio('book', 'add', 'note', 'Names of tools are part of the contract');
  house.folio('turn', 'begin', '--input', 'What is left before the release?');
  house.folio('--turn', 't2', 'book', 'view');
  house.folio('--turn', 't2', 'observe', 'add', 'The notes of the release lack the new importer', '--type', 'risk_alert', '--tag', 'release', '--confidence', '0.8');
  house.folio('turn', 'end', 't2');
  await house.serve();

  await take('run', '/runs/r1', {}, (page) => page.getByRole('article').getByText('Languages').waitFor());
  await take('scratch-page', '/observations', {}, (page) => page.getByText('lack the new importer').waitFor());
  await take('scratchbook', '/threads/main', { dark: true }, (page) => page.getByRole('row', { name: /^alerts/ }).waitFor());
  await take('turn', '/turns/t2', {}, (page) => page.getByText('render view').waitFor());
  await take('phone', '/runs/r1', { width: 400, height: 800, dark: true }, (page) => page.getByRole('treeitem').nth(5).waitFor());

  const steps = [
    { id: 'notes', title: 'Read the notes of the release', do: echo('three changes') },
    { id: 'checks', title: 'Check', parallel: [{ id: 'links', title: 'Follow every link', do: LONG }, { id: 'tag', title: 'Sign the tag', do: { tool: 'shell', args: { argv: ['git', 'tag', '--sign', 'v0.1.0'] } } }] },
    { id: 'tell', title: 'Say what is new', do: echo('done') },
  ];
  const run = await house.run({ plan: { title: 'Prepare the release', steps } });
  const { markdown } = await house.ask('GET', `/runs/${run}/plan`);
  const edit = { method: 'PUT', headers: { 'content-type': 'text/markdown' }, body: markdown.replace('Say what is new', 'Say what is new, and to whom it matters') };
  await fetch(`${house.base}/v1/spaces/main/runs/${run}/plan`, edit);
  await take('live', `/runs/${run}`, { dark: true }, async (page) => {
    await page.getByRole('button', { name: 'Approve' }).waitFor();
    await page.getByRole('button', { name: 'Plan', exact: true }).click();
    await page.locator('.diff').waitFor();
  });
  await house.ask('POST', `/runs/${run}/cancel`, {});
  terminal(copy);
} finally {
  await house.close();
}

/** Takes a picture of the page at `path`, once `ready` has seen it. */
async function take(name, path, look, ready) {
  const page = await house.page(path, { width: 1100, height: 660, ...look });
  await ready(page);
  await page.evaluate(() => document.fonts.ready);
  const file = join(folder, `${name}.png`);
  await page.screenshot({ path: file });
  await page.done();
  const { size } = statSync(file);
  if (size > MOST) throw new Error(`${name}.png has ${size} bytes`);
  console.log(`${name}.png ${size}`);
}

/** The first commands of the README and their output; of a long output, the beginning and the end. */
function terminal(copy) {
  const env = { ...process.env, XDG_DATA_HOME: join(house.folder, 'data') };
  const call = (words) => execFileSync('sh', ['-c', `"$FOLIO" --color always ${words} 2>&1`], { cwd: copy, env, encoding: 'utf8', maxBuffer: 1 << 26 }).trimEnd().split('\n');
  const ran = call('run --plan examples/repo-review.yaml --input repo=.');
  const report = ran.findIndex((line) => line.startsWith('# '));
  const short = (lines, many) => (lines.length > many ? [...lines.slice(0, many), '…'] : lines);
  const lines = [
    '$ cargo run --release -- run --plan examples/repo-review.yaml --input repo=.',
    ...ran.slice(0, 6), '…', ...short(ran.slice(report), 9), ...ran.slice(-5), '',
    '$ cargo run --release -- tree', ...short(call('tree'), 7), '',
    '$ cargo run --release -- observe list', ...short(call('observe list'), 4),
  ];
  writeFileSync(join(folder, 'terminal.svg'), picture(lines));
}
