// One line for each test, more for a failed one; at the end the failures again, and the line that ./test counts.

export default async function* report(events) {
  let passed = 0, skipped = 0;
  const failures = [];
  for await (const { type, data } of events) {
    const isGroup = data?.details?.type === 'suite' || (data?.name?.endsWith('.mjs') && data.nesting === 0);
    if (type === 'test:pass' && !isGroup) {
      if (data.skip !== undefined) skipped += 1; else passed += 1;
      yield `ok      ${data.name} (${Math.round(data.details.duration_ms)} ms)\n`;
    } else if (type === 'test:fail') {
      const cause = data.details.error?.cause ?? data.details.error;
      // A group fails with its tests, which were already reported.
      if (data.details.error?.failureType === 'subtestsFailed') continue;
      failures.push(`FAILED  ${data.name}\n${cause?.stack ?? cause}\n`);
      yield failures.at(-1);
    } else if (type === 'test:stderr') yield data.message;
    // An error outside any test, which fails its file: nothing else says what it was.
    else if (type === 'test:diagnostic' && /^(Error|Warning):/.test(data.message)) yield `${data.message}\n`;
  }
  yield* failures;
  const failed = failures.length;
  yield `test result: ${failed === 0 ? 'ok' : 'FAILED'}. ${passed} passed; ${failed} failed; ${skipped} ignored\n`;
}
