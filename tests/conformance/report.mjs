// Reads the results of the conformance suite, prints one line per scenario, and fails on unexpected ones.
//
//   node report.mjs REVISION RESULTS_DIR EXPECTED_FAILURES_FILE

import { readFileSync, readdirSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TASK_SCENARIOS = [
  'tasks-lifecycle', 'tasks-capability-negotiation', 'tasks-wire-fields', 'tasks-request-state-removal',
  'tasks-mrtr-input', 'tasks-request-headers', 'tasks-dispatch-and-envelope', 'tasks-status-notifications',
  'tasks-required-task-error', 'tasks-mrtr-composition',
];

const [revision, resultsDir, expectedFile] = process.argv.slice(2);
const launcher = fileURLToPath(new URL('../../.cache/tools/bin/conformance', import.meta.url));

// The scenarios that must have run: without this list a scenario that the suite left out would look like one that passed.
function requiredScenarios() {
  if (revision === '2025-06-18') return scenariosOfRevision();
  const printed = execFileSync(launcher, ['list', '--requirements', revision], { encoding: 'utf8' });
  const required = [];
  let isServerSection = false;
  for (const line of printed.split('\n')) {
    if (/^\S/.test(line)) isServerSection = /^Server/i.test(line);
    const item = /^\s+- (\S+?)(?: \[(\w+)\])?$/.exec(line);
    if (item && (item[2] === 'server' || (!item[2] && isServerSection))) required.push(item[1]);
  }
  if (required.length === 0) throw new Error(`the suite lists no server scenario for ${revision}`);
  return new Set(revision === '2026-07-28' ? [...required, ...TASK_SCENARIOS] : required);
}

// The suite has frozen no requirements for this revision.
function scenariosOfRevision() {
  const printed = execFileSync(launcher, ['list', '--server', '--spec-version', revision], { encoding: 'utf8' });
  const names = [...printed.matchAll(/^\s+- (\S+) \[([^\]]*)\]/gm)].filter(([, , of]) => of.split(',').includes(revision));
  if (names.length === 0) throw new Error(`the suite lists no server scenario for ${revision}`);
  return new Set(names.map(([, name]) => name));
}

// Directory names are server-SCENARIO-TIMESTAMP.
function readResults() {
  const byScenario = new Map();
  for (const entry of readdirSync(resultsDir, { withFileTypes: true })) {
    const match = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(entry.name);
    if (!entry.isDirectory() || !match) continue;
    const checks = JSON.parse(readFileSync(join(resultsDir, entry.name, 'checks.json'), 'utf8'));
    byScenario.set(match[1], [...(byScenario.get(match[1]) ?? []), ...checks]);
  }
  return byScenario;
}

function readExpected() {
  const expected = new Map();
  for (const line of readFileSync(expectedFile, 'utf8').split('\n')) {
    if (!line.trim() || line.startsWith('#')) continue;
    const [lineRevision, scenario, check, ...why] = line.trim().split(/\s+/);
    if (why.length === 0) throw new Error(`an expected failure needs its reason: ${line}`);
    if (lineRevision === revision) expected.set(`${scenario} ${check}`, why.join(' '));
  }
  return expected;
}

const count = (checks, status) => checks.filter((check) => check.status === status).length;

function main() {
  const results = readResults();
  const expected = readExpected();
  const problems = [];
  const notes = [];
  const totals = { SUCCESS: 0, FAILURE: 0, WARNING: 0, SKIPPED: 0 };

  console.log(`${'scenario'.padEnd(50)} passed failed warned skipped`);
  for (const scenario of new Set([...requiredScenarios(), ...results.keys()])) {
    const checks = results.get(scenario);
    if (!checks || checks.length === 0) {
      problems.push(`${scenario}: did not run`);
      continue;
    }
    const counts = Object.keys(totals).map((status) => count(checks, status));
    Object.keys(totals).forEach((status, at) => { totals[status] += counts[at]; });
    console.log(scenario.padEnd(50) + counts.map((n) => String(n).padStart(7)).join(''));
    for (const check of checks) {
      const name = `${scenario} ${check.id}`;
      const said = `${name}: ${check.errorMessage ?? check.description}`;
      if (check.status === 'FAILURE' && expected.has(name)) {
        notes.push(`expected: ${said}`);
        expected.set(name, null);
      } else if (check.status === 'FAILURE') problems.push(said);
      else if (check.status === 'WARNING' || check.status === 'SKIPPED') notes.push(`${check.status.toLowerCase()}: ${said}`);
    }
  }
  for (const [name, why] of expected) {
    if (why !== null) problems.push(`${name}: is in expected-failures.txt but did not fail`);
  }

  console.log('total'.padEnd(50) + Object.values(totals).map((n) => String(n).padStart(7)).join(''));
  if (notes.length) console.log(`\n${notes.join('\n')}`);
  if (problems.length) {
    console.log(`\n${problems.length} problem(s) with ${revision}:\n${problems.join('\n')}`);
    process.exit(1);
  }
  console.log(`\n${revision}: nothing failed that is not expected`);
}

main();
