// Incremunica: a query over its streaming store. `--home FOLDER` is where it is installed or was built;
// `--join NAME` replaces its inner joins by one of its own: match-hash, full-hash, delete-hash, memory-bind,
// computational-bind or nestedloop. Without it, the engine joins as shipped.
//
// Incremunica does not say when a change is processed. A batch is timed until the last result that it causes,
// and taken for processed when the event loop was idle for 20 ms. Joins in progress keep the loop busy, also
// while they have no results.
'use strict';
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { createRequire } = require('node:module');

const options = Object.fromEntries(
  process.argv.slice(2).flatMap((word, at, all) => (word.startsWith('--') ? [[word.slice(2), all[at + 1]]] : [])),
);
const home = path.resolve(options.home ?? process.env.SPARQLIVE_INCREMUNICA ?? '.bench-peers/incremunica');
const engineFolder = [
  path.join(home, 'engines', 'query-sparql-incremental'), // built from its repository
  path.join(home, 'node_modules', '@incremunica', 'query-sparql-incremental'), // installed from npm
].find(folder => fs.existsSync(folder));
if (engineFolder === undefined) {
  console.error(`Incremunica is not in ${home}. Install it there: npm install @incremunica/query-sparql-incremental`);
  process.exit(1);
}
const load = createRequire(path.join(engineFolder, 'package.json'));
const { QueryEngine, QueryEngineFactory } = load('@incremunica/query-sparql-incremental');
const { StreamingStore } = load('@incremunica/streaming-store');
const { isAddition } = load('@incremunica/user-tools');
const n3 = load('n3');
const version = load('./package.json').version;
const quietMilliseconds = 20;
const idleShare = 0.1; // for what Node.js does itself

const joins = {
  'match-hash': ['ActorRdfJoinInnerMatchHash', 'mediatorHashBindings'],
  'full-hash': ['ActorRdfJoinInnerFullHash'],
  'delete-hash': ['ActorRdfJoinInnerDeleteHash', 'mediatorHashBindings'],
  nestedloop: ['ActorRdfJoinInnerNestedloop'],
  'memory-bind': ['ActorRdfJoinInnerMemoryBind', 'mediatorJoinEntriesSort', 'mediatorQueryOperation',
    'mediatorMergeBindingsContext', 'mediatorHashBindings'],
  'computational-bind': ['ActorRdfJoinInnerComputationalBind', 'mediatorJoinEntriesSort', 'mediatorQueryOperation',
    'mediatorMergeBindingsContext', 'mediatorHashBindings'],
};
const mediators = {
  mediatorHashBindings: 'hash-bindings',
  mediatorJoinEntriesSort: 'rdf-join-entries-sort',
  mediatorQueryOperation: 'query-operation',
  mediatorMergeBindingsContext: 'merge-bindings-context',
};

// A copy of the shipped configuration in which one algorithm does all inner joins of two.
function configured(join) {
  const folder = path.dirname(load.resolve('@incremunica/config-query-sparql-incremental/package.json'));
  const shipped = JSON.parse(fs.readFileSync(path.join(folder, 'config', 'config-default.json'), 'utf8'));
  const inner = JSON.parse(fs.readFileSync(path.join(folder, 'config', 'rdf-join', 'actors-inner.json'), 'utf8'));
  const outer = JSON.parse(fs.readFileSync(path.join(folder, 'config', 'rdf-join', 'actors.json'), 'utf8'));
  const [type, ...used] = joins[join];
  const actor = {
    '@id': `urn:comunica:default:rdf-join/actors#inner-${join}`,
    '@type': type,
    mediatorJoinSelectivity: { '@id': 'urn:comunica:default:rdf-join-selectivity/mediators#main' },
  };
  for (const name of used) {
    actor[name] = { '@id': `urn:comunica:default:${mediators[name]}/mediators#main` };
  }
  const kept = ['inner-none', 'inner-single', 'inner-multi-smallest'];
  inner.actors = inner.actors.filter(one => kept.some(name => one['@id'].endsWith(`#${name}`)));
  inner.actors.push(actor);
  inner['@context'].push(
    `https://linkedsoftwaredependencies.org/bundles/npm/@incremunica/actor-rdf-join-inner-${join}/^2.0.0/components/context.jsonld`,
  );
  const place = fs.mkdtempSync(path.join(os.tmpdir(), 'incremunica-'));
  process.on('exit', () => fs.rmSync(place, { recursive: true, force: true }));
  const own = (name, content) => {
    fs.writeFileSync(path.join(place, name), JSON.stringify(content));
    return name;
  };
  own('inner.json', inner);
  outer.import = outer.import.map(name => (name.endsWith('actors-inner.json') ? 'inner.json' : name));
  own('joins.json', outer);
  shipped.import = shipped.import.map(name => (name.endsWith('rdf-join/actors.json') ? 'joins.json' : name));
  return path.join(place, own('config.json', shipped));
}

const engine = options.join
  ? new QueryEngineFactory().create({ configPath: configured(options.join) })
  : Promise.resolve(new QueryEngine());

function text(term) {
  if (term === undefined || term === null) {
    return null;
  }
  switch (term.termType) {
    case 'NamedNode': return `<${term.value}>`;
    case 'BlankNode': return `_:${term.value}`;
    default: {
      const value = JSON.stringify(term.value);
      if (term.language) {
        return `${value}@${term.language}`;
      }
      return term.datatype.value.endsWith('#string') ? value : `${value}^^<${term.datatype.value}>`;
    }
  }
}

let current; // the store, the result and the stream of the present query

async function quiet(begun) {
  const handed = performance.now();
  let share = 1;
  while (share > idleShare) {
    const mark = performance.eventLoopUtilization();
    await new Promise(resolve => setTimeout(resolve, quietMilliseconds));
    share = performance.eventLoopUtilization(mark).utilization;
    if (current.error) {
      throw current.error;
    }
  }
  // Without a result, the time to hand the batch over counts: when it is processed cannot be seen.
  return ((current.lastEvent > begun ? current.lastEvent : handed) - begun) / 1000;
}

async function start({ file, query }) {
  if (current) {
    current.stream?.close();
    current.store.end();
  }
  const parser = new n3.Parser({ format: 'N-Quads' });
  const quads = parser.parse(fs.readFileSync(file, 'utf8'));
  const ready = await engine;
  const begun = performance.now();
  const store = new StreamingStore();
  quads.forEach(quad => store.addQuad(quad));
  current = { store, rows: new Map(), lastEvent: begun, variables: [] };
  const here = current;
  here.stream = await ready.queryBindings(query, { sources: [ store ] });
  here.variables = (await here.stream.getProperty?.('metadata'))?.variables;
  here.stream.on('data', bindings => {
    const key = JSON.stringify([ ...bindings ].map(([ variable, term ]) => [ variable.value, text(term) ]).sort());
    const count = (here.rows.get(key) ?? 0) + (isAddition(bindings) ? 1 : -1);
    count === 0 ? here.rows.delete(key) : here.rows.set(key, count);
    here.lastEvent = performance.now();
  });
  here.stream.on('error', error => { here.error = error; });
  here.projected = projected(query);
  return { seconds: await quiet(begun) };
}

// The variables of the outermost SELECT, in order: rows must have the columns of the query.
function projected(query) {
  const head = /SELECT\s+(?:DISTINCT\s+)?(.*?)\s*WHERE/su.exec(query)[1];
  return [ ...head.replace(/\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\bAS\s+\?(\w+)\s*\)/gu, '?$1')
    .matchAll(/\?(\w+)/gu) ].map(match => match[1]);
}

async function apply({ delete: deletes, insert: inserts }) {
  const parse = lines => new n3.Parser({ format: 'N-Quads' }).parse(lines.join('\n'));
  const gone = parse(deletes);
  const come = parse(inserts);
  const begun = performance.now();
  gone.forEach(quad => current.store.removeQuad(quad));
  come.forEach(quad => current.store.addQuad(quad));
  return { seconds: await quiet(begun) };
}

function result() {
  const rows = [];
  for (const [ key, count ] of current.rows) {
    if (count < 0) {
      throw new Error(`a solution has the count ${count}: ${key}`);
    }
    const values = Object.fromEntries(JSON.parse(key));
    for (let one = 0; one < count; one += 1) {
      rows.push(current.projected.map(name => values[name] ?? null));
    }
  }
  return { rows };
}

async function answer(request) {
  try {
    switch (request.op) {
      case 'hello': return { engine: `Incremunica ${version}${options.join ? `, ${options.join}` : ''}` };
      case 'start': return /\b(ASK|CONSTRUCT)\b/u.test(request.query)
        ? { refused: 'this driver reads solutions only: ASK and CONSTRUCT are not maintained' }
        : await start(request);
      case 'apply': return await apply(request);
      default: return result();
    }
  } catch (error) {
    const message = String(error?.message ?? error).split('\n')[0];
    return request.op === 'start' ? { refused: message } : { error: message };
  }
}

process.on('uncaughtException', error => { if (current) { current.error ??= error; } });
process.on('unhandledRejection', error => { if (current) { current.error ??= error; } });

(async() => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
  process.exit(0);
})();
