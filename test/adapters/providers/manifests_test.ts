/**
 * The manifest of every provider is complete and true: its settings, its secrets, its needs, and its products.
 */
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import * as index from '../../../adapters/providers/index.ts'
import {
  createVendor,
  isInFile,
  isSecret,
  key,
  type Manifest,
  provider,
  type ProviderPorts,
  requiredBy,
  type Service,
  usedBy,
  type Values,
} from '../../../adapters/providers/manifest.ts'
import { providers as manifests } from '../../../server/config/providers.ts'
import { testClock, testLog } from '../../kit.ts'

const ROOT = join(import.meta.dirname, '../../../adapters/providers')

/** Folders without a manifest: what providers share, and vendors of tests. */
const NO_PROVIDERS = ['lib', 'scripted']

function portsOf(steps: (() => unknown)[] = []): ProviderPorts {
  return {
    clock: testClock(),
    log: testLog(),
    random: (bytes) => new Uint8Array(bytes),
    cdpBearer: () => async () => 'token',
    onClose: (step) => void steps.push(step),
  }
}

/** Settings that an operator could have written. */
function exampleOf({ settings }: Manifest): Values {
  const example = (pattern: string) =>
    ['https://api.example', `AC${'7'.repeat(32)}`, `0x${'7'.repeat(40)}`, 'US', 'word', 'a-1'].find((text) =>
      new RegExp(pattern).test(text),
    )
  return Object.fromEntries(
    Object.entries(settings).map(([name, schema]) => {
      if (schema.type === 'string') return [name, example(schema.pattern ?? '')]
      return [name, schema.type === 'object' ? { 'base-mainnet': 'https://api.example' } : Value.Create(schema)]
    }),
  )
}

test('every folder of providers has its line in the list', () => {
  const folders = readdirSync(ROOT, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && !NO_PROVIDERS.includes(entry.name) ? [entry.name] : [],
  )
  expect(
    Object.values(index)
      .map(({ name }) => name)
      .sort(),
  ).toEqual(folders.sort())
  expect(folders.filter((name) => !existsSync(join(ROOT, name, 'mod.ts')))).toEqual([])
})

test('a setting and a variable belong to one provider', () => {
  for (const part of ['settings', 'environment'] as const) {
    const names = manifests.flatMap((manifest) => Object.keys(manifest[part]))
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
  }
})

describe.each(manifests.map((manifest) => [manifest.name, manifest] as const))('%s', (folder, manifest) => {
  const { settings, environment, serves } = manifest
  const offers = Object.keys(serves) as Service[]

  test('describes every setting in a sentence, and gives a variable to those that are not in the file', () => {
    for (const [name, schema] of Object.entries(settings)) {
      expect(`${name}: ${schema.description}`).toMatch(/: \S.*\.$/)
      if (!isInFile(schema)) expect(Object.values(environment)).toContain(name)
    }
    expect(Object.values(environment).filter((name) => !(name in settings))).toEqual([])
  })

  test('keeps every key out of the file and out of mistakes', () => {
    const keys = Object.keys(settings).filter((name) => /key|secret|token|sid$|password/.test(name))
    expect(keys.filter((name) => !isSecret(settings[name]))).toEqual([])
  })

  test.each(offers)('serves %s with what it requires, and says what is missing', async (product) => {
    const offer = serves[product]
    if (!offer) throw new Error('no offer')
    expect(usedBy(manifest, offer).filter((name) => !(name in settings))).toEqual([])
    const example = exampleOf(manifest)
    expect([...Value.Errors(Type.Object(settings), example)]).toEqual([])
    for (const missing of requiredBy(manifest, offer)) {
      const { [missing]: _missing, ...rest } = example
      expect(() => createVendor({ manifest, product, settings: rest }, portsOf())).toThrow(missing)
    }
    const steps: (() => unknown)[] = []
    const log = testLog()
    // The embedded sandbox needs Deno: without it there is no vendor, and the log says why.
    const vendor = createVendor({ manifest, product, settings: example }, { ...portsOf(steps), log })
    expect([typeof vendor, log.lines.length]).toEqual(vendor === undefined ? ['undefined', 1] : ['object', 0])
    if (folder !== 'pyodide') expect(vendor).toBeObject()
    for (const step of steps) await step()
  })
})

test('a protocol belongs to one provider, and an account speaks protocols that there are', () => {
  for (const kind of ['images', 'chat', 'videos'] as const) {
    const protocols = manifests.flatMap((manifest) => Object.entries(manifest.protocols?.[kind] ?? {}))
    const names = protocols.map(([name]) => name)
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
    const spoken = manifests.flatMap(({ account }) => account?.speaks[kind] ?? [])
    expect(spoken.filter((name) => !names.includes(name))).toEqual([])
    expect(protocols.filter(([, { isDemo }]) => isDemo).length).toBe(1)
  }
  const accounts = manifests.flatMap(({ account }) => account?.name ?? [])
  expect(new Set(accounts).size).toBe(accounts.length)
})

describe('names', () => {
  /** Names that are products, paths or values of the contract as well. */
  const WORDS: Readonly<Record<string, readonly string[]>> = {
    'server/config': ['rpc'],
    'server/wiring': ['rpc', 'bridge'],
    core: ['rpc', 'speech', 'sample', 'embedded', 'polymarket', 'pyth', 'echo'],
  }
  const files = (folder: string): readonly string[] =>
    readdirSync(folder, { withFileTypes: true, recursive: true }).flatMap((entry) =>
      entry.isFile() && entry.name.endsWith('.ts') ? [join(entry.parentPath, entry.name)] : [],
    )
  const names = manifests.flatMap(({ name, serves, protocols, environment, settings }) => [
    name,
    ...Object.values(serves).flatMap(({ as }) => as ?? []),
    ...Object.values(protocols ?? {}).flatMap((each) => Object.keys(each)),
    ...Object.keys(environment),
    ...Object.keys(settings),
  ])

  test.each(Object.entries(WORDS))('of providers, protocols and settings are not in %s', (folder, words) => {
    const all = [...new Set(names)].filter((name) => !words.includes(name))
    const isNamed = new RegExp(`['"\`](${all.join('|')})['"\`]`, 'g')
    const root = join(ROOT, '../..')
    const found = files(join(root, folder))
      .filter((path) => !/\/catalog(\/|\.ts$)/.test(path))
      .flatMap((path) =>
        [...readFileSync(path, 'utf8').matchAll(isNamed)].map(
          ([name]) => `${relative(root, path)}: ${name}; rows that name providers stand in catalog.ts of their product`,
        ),
      )
    expect(found).toEqual([])
  })
})

test('a product that a provider does not serve is refused by its name', () => {
  const manifest = provider({ name: 'new', title: 'New', settings: { a: key('A key.') }, environment: {}, serves: {} })
  expect(() => createVendor({ manifest, product: 'market', settings: {} }, portsOf())).toThrow(
    'New does not serve market',
  )
})
