/** A family of chains is a folder and its lines in the lists beside it: configuration and wiring follow. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type * as ManifestsModule from '../../../adapters/chains/manifests.ts'
import type * as ConfigModule from '../../../server/config/mod.ts'
import type * as MethodsModule from '../../../server/config/payment_methods.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** An import as text, which is none of this file. */
const use = (names: string, path: string) => ['import {', names, '} from', `'${path}'`].join(' ')
const FOLDER: Readonly<Record<string, string>> = {
  'networks.ts': `export const TOY_NETWORKS = { 'toy:1': { label: 'toy', title: 'Toy', isTest: true } }\n`,
  'family.ts': `${use('solanaFamily', '../solana/family.ts')}
${use('TOY_NETWORKS', './networks.ts')}
export const toyFamily = {
  ...solanaFamily,
  namespace: 'toy',
  accountName: 'Toy',
  networkPattern: 'toy:[0-9]',
  networkForm: 'toy:<digit>',
  addressPattern: 'toy[a-z]{3}',
  addressForm: 'toy and three letters',
  addressOf: (text: string) => (/^toy[a-z]{3}$/.test(text) ? text : undefined),
  networks: TOY_NETWORKS,
}\n`,
  'settings.ts': `${use('Type', '@sinclair/typebox')}
${use('named, setting', '../../settings.ts')}
${use('toyFamily', './family.ts')}
const settings = { toy_speed: setting('Toy: how fast.', Type.Integer({ minimum: 1 })) }
export const toySettings = {
  family: toyFamily,
  words: 'Toy',
  settings,
  roles: {},
  withoutFacilitators: {},
  wrongPayee: () => [],
  read: (row: never, _at: string, { shared }: { shared: object }) =>
    ({ kind: 'toy', ...shared, settles: { by: 'toy', ...named(settings, row) } }) as const,
}\n`,
  'manifest.ts': `export const toyManifest = { open: async (method) => method, accounts: async () => [] }\n`,
}
/** One line of each list: its file, and what it is put beside. */
const LINES: readonly (readonly [file: string, beside: string, line: string])[] = [
  ['networks.ts', '...SOLANA_NETWORKS', ', ...TOY_NETWORKS'],
  ['families.ts', '[evmFamily, solanaFamily', ', toyFamily'],
  ['settings.ts', '[evmSettings, solanaSettings', ', toySettings'],
  ['settings.ts', '  ...solanaSettings.settings,', '\n  ...toySettings.settings,'],
  ['manifests.ts', '  solana: solanaManifest,', '\n  toy: toyManifest,'],
]
let copy: string

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'farebox-family-'))
  for (const room of ['core', 'node_modules', 'package.json']) symlinkSync(join(ROOT, room), join(copy, room))
  for (const [room, copied] of [
    ['adapters', 'chains'],
    ['server', 'config'],
  ] as const) {
    mkdirSync(join(copy, room))
    for (const name of readdirSync(join(ROOT, room)).filter((each) => each !== copied))
      symlinkSync(join(ROOT, room, name), join(copy, room, name))
    cpSync(join(ROOT, room, copied), join(copy, room, copied), { recursive: true })
  }
  const chains = join(copy, 'adapters/chains')
  mkdirSync(join(chains, 'toy'))
  for (const [name, text] of Object.entries(FOLDER)) writeFileSync(join(chains, 'toy', name), text)
  for (const [file, beside, line] of LINES) {
    const text = readFileSync(join(chains, file), 'utf8')
    expect([file, beside, text.split(beside).length]).toEqual([file, beside, 2])
    const name = line.includes('TOY_') ? 'TOY_NETWORKS' : (/toy\w+/.exec(line.split(': ').at(-1) ?? '')?.[0] ?? '')
    const source = `./toy/${file.replace('families', 'family').replace('manifests', 'manifest')}`
    const header = text.includes(`'${source}'`) ? '' : `${use(name, source)}\n`
    writeFileSync(join(chains, file), header + text.replace(beside, beside + line))
  }
})
afterAll(() => rmSync(copy, { recursive: true }))

const gateway = `[[gateways]]
name = "toy"
network = "toy:1"
pay_to = "toyabc"
asset = "toyusd"
rpc_url = "https://node.example"
`

test('a third family of chains is configured, named and opened by its folder and four lists', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const { familyOfMethod } = (await import(join(copy, 'server/config/payment_methods.ts'))) as typeof MethodsModule
  const { chainManifest } = (await import(join(copy, 'adapters/chains/manifests.ts'))) as typeof ManifestsModule
  const read = (toml: string) => {
    const result = parseConfig(toml, {})
    return result.ok ? result.config.gateways[0] : result.mistakes
  }
  const row = read(`${gateway}toy_speed = 3\n`) as Exclude<ReturnType<typeof read>, readonly string[]>
  const method = row?.paymentMethods[0]
  expect(row).toMatchObject({
    label: 'toy',
    paymentMethods: [{ kind: 'toy', network: 'toy:1', settles: { by: 'toy', toySpeed: 3 } }],
  })
  expect(method && familyOfMethod(method)?.accountName).toBe('Toy')
  expect(method && (await chainManifest(method).open(method, {} as never))).toBe(method as never)
  expect(read(gateway.replace('toyabc', '0x1'))).toEqual([expect.stringContaining('gateways.0.pay_to: ')])
  expect(read(`${gateway}toy_speed = 0\n`)).toEqual([expect.stringContaining('gateways.0.toy_speed: ')])
  expect(read(`${gateway}relayer_key_env = "KEY"\n`)).toEqual(['gateways.0.relayer_key_env: is for EVM networks'])
})

test('a setting of the new family is refused on another one', async () => {
  const { parseConfig } = (await import(join(copy, 'server/config/mod.ts'))) as typeof ConfigModule
  const onEvm = gateway
    .replace('toy:1', 'eip155:8453')
    .replace(/pay_to = .*\n/, `pay_to = "0x${'ab'.repeat(20)}"\nrelayer_key_env = "K"\ntoy_speed = 1\n`)
    .replace(/asset = .*\n/, '')
  const result = parseConfig(onEvm, { K: `0x${'1'.repeat(64)}` })
  expect(result.ok || result.mistakes).toEqual(['gateways.0.toy_speed: is for Toy'])
})
