// Shows the API from its OpenAPI description. Text is set as text, never as HTML.

const node = (name, text, ...children) => {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
};

const nameOf = (ref) => ref.split('/').pop();

// A schema in a few words: a name, a list of something, a type.
const words = (schema) => {
  if (!schema) return '';
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.type === 'array') return `list of ${words(schema.items) || 'anything'}`;
  const any = schema.anyOf || schema.oneOf;
  if (any) return [...new Set(any.map((one) => words(one) || one.const || 'anything'))].join(' or ');
  if (schema.enum) return schema.enum.join(' or ');
  if (Array.isArray(schema.type)) return schema.type.join(' or ');
  return schema.type || 'anything';
};

const table = (rows) => node('table', '', node('tbody', '', ...rows.map((row) => node('tr', '', ...row.map((cell) => node('td', cell))))));

const bodies = (content) => Object.entries(content || {}).map(([kind, media]) => [kind, words(media.schema)]);

const operation = (path, method, said) => {
  const details = node('details', '', node('summary', `${method.toUpperCase()} ${path} — ${said.summary || ''}`));
  details.id = said.operationId || '';
  const parameters = (said.parameters || []).map((one) => [one.name, one.in, words(one.schema), one.description || '']);
  if (parameters.length) details.append(node('h4', 'Parameters'), table(parameters));
  if (said.requestBody) details.append(node('h4', 'Request body'), table(bodies(said.requestBody.content)));
  const answers = Object.entries(said.responses || {}).flatMap(([status, answer]) =>
    answer.$ref ? [] : bodies(answer.content).map((body) => [status, ...body]));
  if (answers.length) details.append(node('h4', 'Responses'), table(answers));
  return details;
};

const schema = (name, said) => {
  const details = node('details', '', node('summary', name));
  if (said.description) details.append(node('p', said.description));
  const needed = new Set(said.required || []);
  const fields = Object.entries(said.properties || {}).map(([field, of]) =>
    [field, words(of), needed.has(field) ? 'required' : '', of.description || '']);
  if (fields.length) details.append(table(fields));
  return details;
};

const show = (api) => {
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const [method, said] of Object.entries(item)) {
      const group = (said.tags || ['other'])[0];
      groups.set(group, [...(groups.get(group) || []), operation(path, method, said)]);
    }
  }
  const main = document.getElementById('docs');
  for (const [group, operations] of groups) main.append(node('h2', group), ...operations);
  main.append(node('h2', 'Schemas'), ...Object.entries(api.components.schemas).map(([name, said]) => schema(name, said)));
  document.getElementById('state').textContent = `Folio ${api.info.version}, OpenAPI ${api.openapi}`;
};

fetch('/openapi.json').then((answer) => answer.json()).then(show).catch((error) => {
  document.getElementById('state').textContent = `Could not load the API description: ${error.message}`;
});
