// The official TypeScript client with `folio mcp` and `folio serve`: both generations of the protocol, both transports.
//
// client.mjs stdio FOLIO MODE    client.mjs http URL MODE        MODE: legacy, auto, 2026-07-28

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The caller says where the packages are installed.
const packages = createRequire(join(process.env.NODE_PACKAGES, "package.json"));
const load = (name) => import(pathToFileURL(packages.resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");

const [transport, where, mode] = process.argv.slice(2);
const VERSIONS = { legacy: "2025-11-25", auto: "2026-07-28", "2026-07-28": "2026-07-28" };
// All conversations over HTTP share one space.
const thread = `node-${transport}-${mode}`;
const view = `folio://view/${thread}`;
const folder = mkdtempSync(join(tmpdir(), "folio-peer-"));
const args = ["--store", `sqlite:${folder}/f.db`, "mcp", "--tools", "observe,memory,plan,run"];

const negotiation = { legacy: "legacy", auto: "auto", "2026-07-28": { pin: "2026-07-28" } };
const client = new Client({ name: "typescript", version: "1" }, {
  versionNegotiation: { mode: negotiation[mode] },
  capabilities: { elicitation: { form: {} } },
});
const forms = [];
client.setRequestHandler("elicitation/create", (request) => {
  forms.push(request.params.message);
  return { action: "accept", content: { answer: "blue" } };
});
let updated;
// Hears the next update.
const next = () => new Promise((resolve) => (updated = resolve));
client.setNotificationHandler("notifications/resources/updated", (told) => updated(told.params.uri));
await client.connect(
  transport === "http"
    ? new StreamableHTTPClientTransport(new URL(where))
    : new StdioClientTransport({ command: where, args, env: { FOLIO_MODEL: process.env.FOLIO_MODEL } }),
);
try {
  assert.equal(client.getNegotiatedProtocolVersion(), VERSIONS[mode]);
  const { tools } = await client.listTools();
  assert.deepEqual(tools.slice(0, 2).map((tool) => tool.name), ["scratch_read", "scratch_add"]);

  const call = (name, more) => client.callTool({ name, arguments: { thread, ...more } });
  const added = await call("scratch_add", { kind: "todo", title: "From TypeScript" });
  const { handle } = added.structuredContent;
  assert.equal(added.content[0].text, `${handle} [todo/open] From TypeScript`);
  const refused = await call("scratch_pin", { id: "e99999" });
  assert.ok(refused.isError && refused.content[0].text.startsWith("not_found: "), JSON.stringify(refused));

  const { resources } = await client.listResources();
  assert.ok(resources.some((resource) => resource.uri.startsWith("folio://view/")));
  const { contents } = await client.readResource({ uri: view });
  assert.ok(contents[0].text.includes(handle) && contents[0].mimeType === "text/markdown");

  const change = () => call("scratch_complete", { id: handle });
  if (mode === "legacy") {
    await client.subscribeResource({ uri: view });
  } else {
    // The first says that what was read before may be old.
    const first = next();
    await client.listen({ resourceSubscriptions: [view] });
    assert.equal(await first, view);
  }
  const changed = next();
  await change();
  assert.equal(await changed, view);

  const made = await client.getPrompt({ name: "handover", arguments: { thread } });
  assert.ok(made.messages[0].content.text.includes("From TypeScript"));

  const heard = [];
  const step = (n) => ({ id: `s${n}`, do: { tool: "text", args: { op: "echo", value: n } } });
  const plan = { title: "Three", steps: [1, 2, 3].map(step) };
  const done = await client.callTool(
    { name: "run_start", arguments: { plan, thread } },
    { onprogress: (progress) => heard.push(progress) },
  );
  assert.match(done.content[0].text, /\[ok\] Three: 3 of 3 done/);
  assert.equal(heard.at(-1).total, 3);

  const typed = await client.complete({
    ref: { type: "ref/prompt", name: "resume" },
    argument: { name: "thread", value: thread.slice(0, 6) },
  });
  assert.ok(typed.completion.values.includes(thread), JSON.stringify(typed));

  const painted = await call("run_start", { goal: "Paint the door" });
  assert.match(painted.content[0].text, /\[ok\][^]*painted blue/);
  assert.equal(forms.length, 1);
  assert.match(forms[0], /asks: Which colour\?$/);
} finally {
  await client.close();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`typescript, ${transport}, ${mode}: ok`);
