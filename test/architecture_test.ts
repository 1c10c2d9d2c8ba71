/**
 * The architecture as tests: what may import what, what core may not name, and which lists must be complete (decision
 * 1).
 */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import programs from './programs/package.json' with { type: 'json' }
import { unusedExports } from './exports.ts'
import {
  circles,
  loaded,
  folderBelow,
  folderOrFile,
  folders,
  type Graph,
  graphOf,
  pathsIn,
  resolve,
  specifiers,
  strangers,
  wrongArrows,
} from './graph.ts'

const ROOT = join(import.meta.dirname, '..')
const ROOMS = ['core', 'adapters', 'server', 'test']

type Source = {
  /** From the root of the house, for example `core/call/paid_call.ts`. */
  readonly path: string
  readonly room: string
  readonly text: string
  /** The text with blanks for comments and for what stands in quotes. */
  readonly code: string
  /** Its imports, types too: other sources by their path, packages by their specifier. */
  readonly imports: readonly string[]
}

const paths = pathsIn(ROOMS)
const sources = paths.filter((path) => path.endsWith('.ts') && !path.endsWith('.d.ts')).map(source)

function source(path: string): Source {
  const text = read(path)
  return {
    path,
    room: path.split('/', 1)[0] ?? '',
    text,
    code: withoutWords(text),
    imports: specifiers(text).map((specifier) => resolve(path, specifier)),
  }
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function withoutWords(text: string): string {
  return text.replace(/'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\/\*[^]*?\*\/|(?<![\\:/])\/\/.*$/gm, (words) =>
    words.replace(/[^\n]/g, ' '),
  )
}

function inRoom(...rooms: readonly string[]): readonly Source[] {
  return sources.filter(({ room }) => rooms.includes(room))
}

/** `core/call/paid_call.ts imports viem`, for each import that is not allowed: a failing test says what to do. */
function strays(from: readonly Source[], isAllowed: (target: string, source: Source) => boolean): string[] {
  return from.flatMap((source) =>
    source.imports.filter((target) => !isAllowed(target, source)).map((target) => `${source.path} imports ${target}`),
  )
}

/** `core/call/paid_call.ts:12 setTimeout(`, for each match. */
function matches(from: readonly Source[], pattern: RegExp, part: 'code' | 'text' = 'code'): string[] {
  const lineOf = (text: string, index: number) => text.slice(0, index).split('\n').length
  return from.flatMap(({ path, [part]: text }) =>
    [...text.matchAll(pattern)].map(({ 0: found, index }) => `${path}:${lineOf(text, index)} ${found.trim()}`),
  )
}

// ── who may import whom ─────────────────────────────────────────────────────────────────────────────────────────────

test('core imports TypeBox, noble hashes, image-size and itself', () => {
  expect(
    strays(inRoom('core'), (target) => /^(core\/|@sinclair\/typebox(\/|$)|@noble\/hashes\/|image-size$)/.test(target)),
  ).toEqual([])
})

test('adapters import core and adapters, never server', () => {
  expect(strays(inRoom('adapters'), (target) => !/^(server|test)\//.test(target))).toEqual([])
})

/** Doors of core for adapters and the server: its public doors, and those of its tiers for the two alone. */
const DOORS = [
  'core/mod.ts',
  'core/http/mod.ts',
  'core/lib/mod.ts',
  'core/payment/mod.ts',
  'core/ports/mod.ts',
  'core/products/chat/mod.ts',
  'core/products/mod.ts',
  'core/x402/mod.ts',
  'core/mpp/mod.ts',
]

test('adapters and server import core by its doors, pages included', () => {
  const outside = graphOf(paths.filter((path) => /^(adapters|server)\//.test(path)))
  const past = [...outside].flatMap(([path, targets]) =>
    targets
      .filter((target) => /^core\/.*\.ts$/.test(target) && !DOORS.includes(target))
      .map((target) => `${path} imports ${target}`),
  )
  expect([outside.size > 400, past]).toEqual([true, []])
})

test('a door leads into core and is for the outside: core itself imports the files', () => {
  const forOutside = DOORS.filter((door) => /^core\/(http|lib|payment|products\/chat)\/mod\.ts$/.test(door))
  expect(strays(inRoom('core'), (target) => !forOutside.includes(target))).toEqual([])
})

/**
 * Other kinds that each kind of adapter may import beside its own folder. Providers are made from what they share and
 * from the guarded fetch.
 */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  http: [],
  storage: [],
  objects: [],
  chains: [],
  providers: ['http'],
}

/** Shared by adapters of every kind. */
const SHARED = ['adapters/settings.ts', 'adapters/machine.ts']

test('an adapter knows no adapter of another kind but the guarded fetch', () => {
  const kinds = inRoom('adapters').filter(({ path }) => folderBelow(path, 'adapters') !== undefined)
  const isAllowed = (target: string, { path }: Source): boolean => {
    if (!target.startsWith('adapters/') || SHARED.includes(target)) return true
    const [own = '', other = ''] = [folderBelow(path, 'adapters'), folderBelow(target, 'adapters')]
    return own === other || (KINDS[own] ?? []).includes(other)
  }
  expect(strays(kinds, isAllowed)).toEqual([])
})

test('a provider knows no other provider, but for a protocol that it shares with the one that named it', () => {
  const SHARES: Readonly<Record<string, string>> = { token360: 'bytedance' }
  const providers = inRoom('adapters').filter(({ path }) => folderBelow(path, 'adapters/providers') !== undefined)
  const isAllowed = (target: string, { path }: Source): boolean => {
    if (!target.startsWith('adapters/providers/') || target === 'adapters/providers/manifest.ts') return true
    const [own = '', other = ''] = [path, target].map((file) => folderBelow(file, 'adapters/providers'))
    return other === own || other === 'lib' || SHARES[own] === other
  }
  expect(strays(providers, isAllowed)).toEqual([])
})

/** Statements of adapters about themselves, for configuration to check against: no adapter is made from it. */
const STATEMENTS = [
  'adapters/settings.ts',
  'adapters/chains/settings.ts',
  'adapters/chains/lib/settings.ts',
  'adapters/chains/evm/node/address.ts',
  'adapters/chains/evm/node/x402_contracts.ts',
  'adapters/storage/manifests.ts',
  'adapters/providers/index.ts',
  'adapters/providers/manifest.ts',
]
/** Facts of a family of chains: data that every room may show. */
const isFacts = (path: string): boolean =>
  /^adapters\/chains\/(families|networks|\w+\/(charge|family|networks))\.ts$/.test(path)

test('a payment method knows no other one, but for the shared files of chains and the facilitator client', () => {
  const chains = inRoom('adapters').filter(({ path }) => path.startsWith('adapters/chains/'))
  const isAllowed = (target: string, { path }: Source): boolean => {
    if (!target.startsWith('adapters/chains/') || isFacts(target)) return true
    if (path === 'adapters/chains/manifests.ts' && target.endsWith('/manifest.ts')) return true
    if (path === 'adapters/chains/settings.ts' && target.endsWith('/settings.ts')) return true
    const [own, other] = [path, target].map((file) => folderBelow(file, 'adapters/chains'))
    return other === own || other === undefined || other === 'lib' || (own !== undefined && other === 'facilitator')
  }
  expect(strays(chains, isAllowed)).toEqual([])
})

/** The journal of a local wallet is a file of SQLite, and no storage of a gateway. */
const JOURNAL: Readonly<Record<string, string>> = {
  'server/buyer/journal.ts': 'adapters/storage/sqlite/driver.ts',
}

test('only wiring names concrete adapters; configuration and devnet read what they state, the demo what providers share', () => {
  const others = inRoom('server').filter(({ path }) => !path.startsWith('server/wiring/'))
  const isAllowed = (target: string, { path }: Source): boolean =>
    !target.startsWith('adapters/') ||
    isFacts(target) ||
    JOURNAL[path] === target ||
    (path.startsWith('server/devnet/demo/') && /^adapters\/(http|providers\/lib)\//.test(target)) ||
    (/^server\/(config|devnet)\//.test(path) && STATEMENTS.includes(target))
  expect(strays(others, isAllowed)).toEqual([])
})

test('the buying side is a client of the protocol: it imports nothing of the engine', () => {
  const isAllowed = (target: string, { path }: Source): boolean => {
    if (!/^(core|adapters|server)\//.test(target)) return true
    if (target.startsWith('server/proxy/')) return path.startsWith('server/proxy/')
    return (
      /^(server\/buyer|core\/lib|core\/mpp|core\/x402)\//.test(target) || isFacts(target) || JOURNAL[path] === target
    )
  }
  expect(
    strays(
      sources.filter(({ path }) => /^server\/(buyer|proxy)\//.test(path)),
      isAllowed,
    ),
  ).toEqual([])
})

describe('the layout of core, type imports included', () => {
  const core = graphOf(paths.filter((path) => path.startsWith('core/')))

  test('every import follows the order of the tiers', () => expect(wrongArrows(core)).toEqual([]))
  test('files import one another in no circle', () => expect(circles(core)).toEqual([]))
  test('folders import one another in no circle', () => expect(circles(folders(core))).toEqual([]))
  test('every file stands in a tier, and core itself holds only its own files', () =>
    expect(strangers(paths)).toEqual([]))
})

test('files of core, adapters and server import one another in no circle, by types and dynamic imports either', () => {
  const graph = graphOf(paths.filter((path) => /^(core|adapters|server)\//.test(path)))
  expect([...graph.keys()].some((path) => path.endsWith('.tsx'))).toBe(true)
  expect(circles(graph)).toEqual([])
})

test('folders of core, adapters and server import one another in no circle; a file beside folders counts for itself', () => {
  const graph = graphOf(paths.filter((path) => /^(core|adapters|server)\//.test(path)))
  expect(circles(folders(graph, folderOrFile(graph)))).toEqual([])
})

test('a folder of source holds at most twenty files', () => {
  expect(loaded(paths.filter((path) => /^(core|adapters|server)\//.test(path)))).toEqual([])
})

/** Loaded by a name in a string: modules of other runtimes, of a throwaway tree, of a release that is kept. */
const LOADED_BY_NAME = [
  'test/adapters/chains/throwaway_family_test.ts',
  'test/adapters/storage/releases/mod.ts',
  'test/runtime/expect_shim.ts',
  'test/runtime/law_worker.ts',
]

test('every export is used by another file, or is public', () => {
  const files = paths.filter((path) => /\.tsx?$/.test(path) && !path.endsWith('.d.ts'))
  const doors: readonly string[] = Object.values(manifest.exports).map((path) => path.slice('./'.length))
  const isDoor = (path: string) => doors.includes(path) || LOADED_BY_NAME.includes(path)
  expect(
    unusedExports(
      files.map((path) => ({ path, text: read(path) })),
      isDoor,
    ),
  ).toEqual([])
})

describe('the laws of layout fail', () => {
  const graph = (edges: Readonly<Record<string, readonly string[]>>): Graph => new Map(Object.entries(edges))

  test.each([
    ['core/lib/ids.ts', 'core/x402/money.ts'],
    ['core/x402/protocol.ts', 'core/ports/chain.ts'],
    ['core/ports/chain.ts', 'core/http/errors.ts'],
    ['core/http/errors.ts', 'core/endpoint/mod.ts'],
    ['core/endpoint/mod.ts', 'core/products/images/catalog.ts'],
    ['core/payment/settlement/settle.ts', 'core/call/job.ts'],
    ['core/call/job.ts', 'core/products/video/owned_characters.ts'],
    ['core/products/images/edits.ts', 'core/payment/settlement/settle.ts'],
    ['core/products/images/edits.ts', 'core/call/job.ts'],
    ['core/products/images/edits.ts', 'core/products/video/price.ts'],
    ['core/products/lib/wallet_lists.ts', 'core/products/wallet/wallet.ts'],
    ['core/discovery/openapi.ts', 'core/payment/offers.ts'],
    ['core/discovery/openapi.ts', 'core/products/mod.ts'],
    ['core/call/job.ts', 'core/serving/router.ts'],
    ['core/engine.ts', 'core/call/job.ts'],
    ['core/lifecycle/running.ts', 'core/serving/route.ts'],
    ['core/serving/route.ts', 'core/products/mod.ts'],
    ['core/identity/proofs.ts', 'core/engine.ts'],
    ['core/payment/settle.ts', 'core/identity/proofs.ts'],
  ])('for %s that imports %s', (from, to) => {
    expect(wrongArrows(graph({ [from]: [to], [to]: [] }))).toEqual([`${from} imports ${to}`])
  })

  test('for a circle of files in one folder, and not for a chain', () => {
    const chain = { 'core/lib/a.ts': ['core/lib/b.ts'], 'core/lib/b.ts': ['core/lib/c.ts'] }
    expect(circles(graph({ ...chain, 'core/lib/c.ts': [] }))).toEqual([])
    expect(circles(graph({ ...chain, 'core/lib/c.ts': ['core/lib/a.ts'] }))).toEqual([
      ['core/lib/a.ts', 'core/lib/b.ts', 'core/lib/c.ts'],
    ])
  })

  test('for a circle of folders whose files have none', () => {
    const files = graph({
      'core/products/a/one.ts': ['core/products/b/two.ts'],
      'core/products/b/two.ts': [],
      'core/products/b/three.ts': ['core/products/a/four.ts'],
      'core/products/a/four.ts': [],
    })
    expect(circles(files)).toEqual([])
    expect(circles(folders(files))).toEqual([['core/products/a', 'core/products/b']])
  })

  test('for a circle of folders beside a list of them, and not for the list that shares a type with them', () => {
    const list = { 'adapters/chains/list.ts': ['adapters/chains/a/mod.ts'], 'adapters/chains/type.ts': [] }
    const files = graph({
      ...list,
      'adapters/chains/a/mod.ts': ['adapters/chains/type.ts'],
      'adapters/chains/b/mod.ts': ['adapters/chains/a/mod.ts'],
    })
    expect(circles(folders(files, folderOrFile(files)))).toEqual([])
    const turned = graph({ ...Object.fromEntries(files), 'adapters/chains/a/back.ts': ['adapters/chains/b/mod.ts'] })
    expect(circles(folders(turned, folderOrFile(turned)))).toEqual([['adapters/chains/a', 'adapters/chains/b']])
  })

  test('for another file in core, and for a folder that is no tier', () => {
    expect(
      strangers(['core/mod.ts', 'core/README.md', 'core/wallet.ts', 'core/lib/ids.ts', 'core/wires/chat.ts']),
    ).toEqual(['core/wallet.ts', 'core/wires/chat.ts'])
  })

  test('for the twenty-first file of a folder, unless it is the index of providers', () => {
    const files = (folder: string, count: number) => Array.from({ length: count }, (_, at) => `${folder}/${at}.ts`)
    expect(loaded([...files('core/lib', 20), ...files('adapters/providers', 30)])).toEqual([])
    expect(loaded(files('core/lib', 21))).toEqual(['core/lib holds 21 files'])
  })

  test('for an export that is imported nowhere by its name, or through a door that nobody asks for it', () => {
    const file = (path: string, text: string) => ({ path, text })
    const files = [
      file('core/lib/a.ts', 'export const one = 1\nexport type Two = 2\nexport function three() {}\n'),
      file('core/lib/mod.ts', "export { one, type Two as Second } from './a.ts'\n"),
      file('core/mod.ts', "export * from './lib/listed.ts'\nimport { one as first } from './lib/mod.ts'\n"),
      file('core/lib/listed.ts', 'export const listed = 1\n'),
      file('core/lib/graph.ts', 'export const four = 4\nexport const five = 5\n'),
      file('core/lib/lazy.ts', "const { four } = await import('./graph.ts')\n"),
    ]
    expect(unusedExports(files, (path) => path === 'core/mod.ts')).toEqual([
      'core/lib/a.ts three',
      'core/lib/mod.ts Second',
      'core/lib/graph.ts five',
    ])
  })

  test('for an import of types, and for one at run time, as for any other', () => {
    const text = "import type { Call } from './storage.ts'\nexport type * from './chain.ts'\n"
    expect(specifiers(text)).toEqual(['./storage.ts', './chain.ts'])
    expect(specifiers("const { run } = await import('./graph.ts')\n")).toEqual(['./graph.ts'])
    expect(specifiers("type Chain = typeof import(\n  './graph.ts'\n)\n")).toEqual(['./graph.ts'])
  })
})

test('nothing but tests imports tests', () => {
  expect(strays(inRoom('core', 'adapters', 'server'), (target) => !target.startsWith('test/'))).toEqual([])
})

test('what comes from npm is a dependency in package.json, and of the right sort', () => {
  const runtime = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.optionalDependencies)]
  const all = [
    ...runtime,
    ...Object.keys(manifest.devDependencies),
    ...Object.keys(programs.devDependencies),
    manifest.name,
  ]
  const isBuiltIn = (target: string) =>
    /^(node|bun):|^bun$/.test(target) || sources.some(({ path }) => path === target) || existsSync(join(ROOT, target))
  const named = (target: string) => target.split('/', target.startsWith('@') ? 2 : 1).join('/')
  const isTool = ({ path }: Source) => path === 'server/devnet/compile.ts'
  expect(
    strays(
      sources,
      (target, source) =>
        isBuiltIn(target) || (source.room === 'test' || isTool(source) ? all : runtime).includes(named(target)),
    ),
  ).toEqual([])
})

// ── what comes in as an argument ────────────────────────────────────────────────────────────────────────────────────

test('core names no runtime', () => {
  expect(matches(inRoom('core'), /\b(?:Bun|Deno|process)\.\w+|\bBuffer\b|\bimport\.meta\b|\bconsole\.\w+/g)).toEqual([])
})

test('core has no clock, timer, randomness or network of its own', () => {
  const own =
    /\bDate\.now\b|\bnew Date\(\)|\bperformance\.\w+|\bAbortSignal\.timeout\b|\bset(?:Timeout|Interval|Immediate)\b|\bMath\.random\b|\bcrypto\.\w+|(?:\bawait|\breturn|=>|[=(,?:]) *(?:globalThis\.)?fetch\(/g
  expect(matches(inRoom('core'), own)).toEqual([])
})

test('a start reads no optional package: each is loaded when it is used', () => {
  const optional = Object.keys(manifest.optionalDependencies)
  const texts = new Map(sources.map(({ path, text }) => [path, text]))
  const reached = new Set([
    'server/main.ts',
    'server/cli/buy.ts',
    'server/cli/buy/wallet.ts',
    'server/cli/buy/evm_wallet.ts',
    'server/cli/buy/solana_wallet.ts',
    'adapters/mod.ts',
    'core/mod.ts',
  ])
  const early: string[] = []
  for (const path of reached) {
    for (const [, target = ''] of (texts.get(path) ?? '').matchAll(
      /^(?:import|export)\s+(?!type\b)[^'"]*?\s*from '([^']+)'/gm,
    )) {
      if (target.startsWith('.')) reached.add(join(path, '..', target))
      else if (optional.some((name) => target === name || target.startsWith(`${name}/`)))
        early.push(`${path} imports ${target}`)
    }
  }
  expect([reached.size > 300, early]).toEqual([true, []])
})

test('a package that is imported by its names is nowhere imported whole: a bundler would load all of it everywhere', () => {
  // The pages are bundled by themselves, and the snippets in them import what buyers install.
  const code = inRoom('core', 'adapters', 'server').filter(({ path }) => !path.startsWith('server/web/pages/'))
  const packageOf = (target: string) => target.split('/', target.startsWith('@') ? 2 : 1).join('/')
  const named = new Set(
    code.flatMap(({ text }) =>
      [...text.matchAll(/^import (?!type\b)\{[^}]*\} from '([^.'][^']*)'/gm)].map(([, target = '']) =>
        packageOf(target),
      ),
    ),
  )
  const whole = code.flatMap(({ path, text }) =>
    [...text.matchAll(/\bimport\('([^.'][^']*)'\)/g)].flatMap(([, target = '']) =>
      named.has(packageOf(target)) ? [`${path} imports all of ${target}`] : [],
    ),
  )
  expect([named.has('viem'), whole]).toEqual([true, []])
})

test('adapters read no clock and roll no dice; the machine does', () => {
  const others = inRoom('adapters').filter(({ path }) => path !== 'adapters/local.ts')
  expect(matches(others, /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bMath\.random\b/g)).toEqual([])
})

// ── lists that must be true ─────────────────────────────────────────────────────────────────────────────────────────

test('every endpoint of a product is in the list of products', async () => {
  const { endpoints } = await import('../core/products/mod.ts')
  const isEndpoint = (value: unknown): value is (typeof endpoints)[number] =>
    typeof value === 'object' && value !== null && ['name', 'path', 'method', 'summary'].every((word) => word in value)
  let found = 0
  for (const { path } of sources.filter((file) => file.path.startsWith('core/products/'))) {
    const exported = Object.values((await import(join(ROOT, path))) as Record<string, unknown>)
    const offered = exported.flat().filter(isEndpoint)
    found += path === 'core/products/mod.ts' ? 0 : offered.length
    const missing = offered.filter((endpoint) => !endpoints.includes(endpoint)).map(({ name }) => name)
    expect({ path, missing }).toEqual({ path, missing: [] })
  }
  expect(found).toBe(endpoints.length)
})

test('every adapter of a port runs the laws of that port', () => {
  const tests = inRoom('test').filter(({ path }) => path.endsWith('_test.ts'))
  const adapters = sources.filter(({ path }) => /^(adapters|server\/devnet\/demo)\//.test(path))
  const lawless: string[] = []
  for (const [port, laws] of Object.entries(LAWS)) {
    const made = adapters.flatMap((file) => factories(file, port).map((name) => ({ name, path: file.path })))
    expect({ port, hasAdapters: made.length > 0, hasLaws: existsSync(join(ROOT, laws)) }).toEqual({
      port,
      hasAdapters: true,
      hasLaws: true,
    })
    for (const { name, path } of made) {
      const isRun = tests.some(
        ({ imports, code }) => imports.includes(laws) && imports.includes(path) && /\brunLaws\(/.test(code),
      )
      if (!isRun) lawless.push(`${name} of ${path} does not run ${laws}`)
    }
    if (!tests.some(({ imports, code }) => imports.includes(laws) && /\brunBroken\(/.test(code)))
      lawless.push(`nothing breaks ${laws}`)
  }
  expect(lawless).toEqual([])
})

/** `core/products/poems` that declares `PoemVendor` lacks these files and names, for each that is missing. */
function lacksOfProducts(from: readonly Source[], isThere: (path: string) => boolean): string[] {
  return from.flatMap(({ path, text }) => {
    const product = path.startsWith('core/products/') ? folderBelow(path, 'core/products') : undefined
    if (product === undefined || !/^declare module '[./]*ports\/vendors\/mod\.ts'/m.test(text)) return []
    const standIn = `test/core/products/${product}/stand_in.ts`
    const interfaces = [...text.matchAll(/^export interface (\w+Vendor)\b/gm)].map(([, name = '']) => name)
    return [
      ...(isThere(standIn) ? [] : [`${path} declares a vendor; ${standIn} has to export who makes it in tests`]),
      ...interfaces
        .filter((name) => LAWS[name] === undefined)
        .map(
          (name) =>
            `${path}: ${name} has no laws; write ${name[0]?.toLowerCase()}${name.slice(1)}Laws in test/conformance/`,
        ),
    ]
  })
}

test('a product with a vendor of its own has a stand-in for tests, and laws for its interface', () => {
  expect(lacksOfProducts(inRoom('core'), (path) => existsSync(join(ROOT, path)))).toEqual([])
  const text = "export interface PoemVendor {}\ndeclare module '../../ports/vendors/mod.ts' {\n}\n"
  const poems = { path: 'core/products/poems/vendor.ts', room: 'core', text, code: text, imports: [] }
  expect(lacksOfProducts([poems], () => false)).toEqual([
    'core/products/poems/vendor.ts declares a vendor; test/core/products/poems/stand_in.ts has to export who makes it in tests',
    'core/products/poems/vendor.ts: PoemVendor has no laws; write poemVendorLaws in test/conformance/',
  ])
})

test('every storage in the list of manifests runs the laws of storage', () => {
  const runners = inRoom('test').filter(
    ({ path, imports, code }) =>
      path.endsWith('_test.ts') && imports.includes('test/conformance/storage.ts') && /\brunLaws\(/.test(code),
  )
  const manifests = inRoom('adapters').find(({ path }) => path === 'adapters/storage/manifests.ts')?.imports ?? []
  const folders = manifests.flatMap((path) => /^(adapters\/storage\/\w+)\/manifest\.ts$/.exec(path)?.[1] ?? [])
  const lawless = (folder: string) =>
    !runners.some(({ imports }) => imports.some((path) => path === `${folder}.ts` || path === `${folder}/mod.ts`))
  expect(folders.length).toBeGreaterThan(2)
  expect(folders.filter(lawless)).toEqual([])
  expect(lawless('adapters/storage/without_laws')).toBe(true)
})

test('each room has a README of at most 25 lines', () => {
  const lengths = ROOMS.filter((room) => room !== 'core').map((room) => ({
    room,
    lines: existsSync(join(ROOT, room, 'README.md')) ? lines(read(`${room}/README.md`)) : 0,
  }))
  expect(lengths.filter(({ lines }) => lines === 0 || lines > 25)).toEqual([])
})

test('the house has four rooms', () => {
  const folders = readdirSync(ROOT, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && !/^\.|^node_modules$|^dist$/.test(entry.name),
  )
  expect(folders.map(({ name }) => name).sort()).toEqual([...ROOMS].sort())
})

// ── packages ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('the version is written once', async () => {
  const { VERSION } = await import('../server/wiring/gateways.ts')
  expect(VERSION).toBe(manifest.version)
  expect(
    matches(
      inRoom('core', 'adapters', 'server'),
      new RegExp(`\\b${manifest.version.replaceAll('.', '\\.')}\\b`, 'g'),
      'text',
    ),
  ).toEqual([])
})

test('dependencies are named at exact versions', () => {
  const named = Object.entries({
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.devDependencies,
  })
  expect(named.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([])
})

test('the root package cannot be published by accident', () => {
  expect(manifest.private).toBe(true)
})

test('bun.lock names no registry', () => {
  expect(read('bun.lock').match(/\w+:\/\/[^"]*|"registry[^"]*"/g)).toBeNull()
})

// ── habits that no linter knows ─────────────────────────────────────────────────────────────────────────────────────

test('files are named in snake_case', () => {
  const isNamed = (name: string) =>
    /^[a-z0-9]+(_[a-z0-9]+)*$/.test(name.slice(0, -extname(name).length).replace(/\.d$/, ''))
  const exempt = /(^|\/)(README|DECISIONS|CONTRACT|RESULTS)\.md$|^server\/deploy\/(Caddyfile|Dockerfile)$/
  expect(
    paths.filter((path) => !exempt.test(path) && !path.startsWith('test/vectors/') && !isNamed(basename(path))),
  ).toEqual([])
})

test('source files have at most 600 lines, lists of rows aside', () => {
  expect(
    inRoom('core', 'adapters', 'server')
      .filter(({ path, text }) => lines(text) > 600 && basename(path) !== 'catalog.ts')
      .map(({ path, text }) => `${path}: ${lines(text)}`),
  ).toEqual([])
})

test('relative imports carry their extension', () => {
  expect(
    strays(
      sources,
      (target) => !ROOMS.includes(target.split('/', 1)[0] ?? '') || /\.(ts|json|wasm|md|png)$/.test(target),
    ),
  ).toEqual([])
})

test('there are no default exports, enums, namespaces or decorators, and no classes but errors', () => {
  expect(
    matches(
      sources,
      /^export default\b|^(?:export )?(?:declare )?(?:const )?enum \w+|^(?:export )?(?:declare )?namespace \w+|^ *@\w+\(|^ *(?:export )?(?:abstract )?class \w+(?! extends \w*Error\b)\b/gm,
    ),
  ).toEqual([])
})

test('only doors re-export, and the list of providers', () => {
  expect(
    matches(
      sources.filter(({ path }) => basename(path) !== 'mod.ts' && path !== 'adapters/providers/index.ts'),
      /^export (?:type )?(?:\{[^}]*\}|\*(?: as \w+)?) from\b/gm,
    ),
  ).toEqual([])
})

test('nothing is left for later', () => {
  expect(matches(sources, /\b(?:TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b.*/g, 'text')).toEqual([])
})

test('no test is alone or postponed; what a platform lacks is skipped by a condition, a law by its name and a reason', () => {
  const tests = inRoom('test').filter(({ path }) => path !== 'test/conformance/law.ts')
  expect(matches(tests, /\b(?:test|it|describe)\.(?:only|todo|skip|todoIf|failing)\b.*/g)).toEqual([])
})

test('no test sleeps or tries again', () => {
  expect(matches(inRoom('test'), /\bBun\.sleep(?:Sync)?\(|\bretry: *\d/g)).toEqual([])
})

// ── what the tests above speak of ───────────────────────────────────────────────────────────────────────────────────

/**
 * The interface that an adapter gives, and where its laws are. `poemVendorLaws` of test/conformance are those of
 * `PoemVendor`.
 */
const LAWS: Readonly<Record<string, string>> = {
  Storage: 'test/conformance/storage.ts',
  Objects: 'test/conformance/objects.ts',
  Chain: 'test/conformance/chain_histories.ts',
  ImageVendor: 'test/conformance/vendors.ts',
  VideoVendor: 'test/conformance/videos.ts',
  ChatVendor: 'test/conformance/chat_vendors.ts',
  AudioVendor: 'test/conformance/audio.ts',
  SearchVendor: 'test/conformance/search.ts',
  SwapVendor: 'test/conformance/swap.ts',
  MarketVendor: 'test/conformance/markets.ts',
  ...Object.fromEntries(
    inRoom('test').flatMap(({ path, text }) =>
      path.startsWith('test/conformance/')
        ? [...text.matchAll(/^export const (\w)(\w+Vendor)Laws\b/gm)].map(
            ([, first = '', rest]) => [first.toUpperCase() + rest, path] as const,
          )
        : [],
    ),
  ),
}

/** Exported functions of a file that return the port, or a type of that file that extends it. */
function factories({ text }: Source, port: string): string[] {
  const names = [port, ...[...text.matchAll(new RegExp(`\\btype (\\w+) = ${port}\\b`, 'g'))].map(([, name]) => name)]
  return [...text.matchAll(new RegExp(`^export function (\\w+)\\(.*\\): (?:${names.join('|')}) \\{$`, 'gm'))].map(
    ([, name]) => name ?? '',
  )
}

function lines(text: string): number {
  return text.trimEnd().split('\n').length
}

test('the demo is small: at most 1,200 lines (decision 103)', () => {
  const folder = join(ROOT, 'server/devnet/demo')
  const lines = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8').split('\n').length - 1)
  expect(lines.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(1_200)
})
