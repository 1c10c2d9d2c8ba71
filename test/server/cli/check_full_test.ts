/** `farebox check` against a chain, an S3 server and vendors that answer, and against those that do not. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Devnet, startDevnet } from '../../../server/devnet/mod.ts'
import { readConfig } from '../../../server/config/mod.ts'
import { checkOnline } from '../../../server/wiring/check.ts'
import { runCommand } from './command_kit.ts'

const dir = mkdtempSync(join(tmpdir(), 'farebox-check-'))
const path = join(dir, 'farebox.toml')
/** Nobody has sent anything to its account. */
const EMPTY_KEY = `0x${'17'.repeat(32)}`
let devnet: Devnet
let vendor: Bun.Server<undefined>

beforeAll(async () => {
  devnet = await startDevnet()
  vendor = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ headers, url }) => {
      const isKnown = headers.get('authorization') === 'Bearer good' && url.endsWith('/v1/models')
      return new Response('{}', { status: isKnown ? 200 : 401 })
    },
  })
})

afterAll(async () => {
  await devnet.stop()
  await vendor.stop(true)
  rmSync(dir, { recursive: true })
})

/** The configuration of one gateway on the local chain. */
function configured(more = '', gateway: Readonly<Record<string, unknown>> = {}) {
  const row = {
    name: 'base',
    network: devnet.network,
    pay_to: devnet.payTo,
    rpc_url: devnet.rpcUrl,
    relayer_key_env: ['RELAYER_KEY'],
    ...gateway,
  }
  const lines = Object.entries(row).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
  const storage = `database_url = "sqlite:${dir}/farebox.db"\nobject_store = "file:${dir}/media"\n`
  writeFileSync(path, `${storage}${more}[[gateways]]\n${lines.join('\n')}\n`)
}

async function check(env: Readonly<Record<string, string>> = {}, ...args: readonly string[]) {
  return await runCommand(['check', '--config', path, ...args], { env: { RELAYER_KEY: devnet.relayerKey, ...env } })
}

const OPENAI = (key: string) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${vendor.url}v1` })

test('a gateway that can sell passes: chain, gas, clock, storage and the keys of vendors', async () => {
  configured()
  const { code, out, err } = await check(OPENAI('good'))
  expect({ code, err }).toEqual({ code: 0, err: 'Nothing is wrong.\n' })
  expect(out.split('\n')).toEqual([
    'ok       gateways.base: eip155:84532 answers, and the token and pay_to are as configured',
    expect.stringMatching(/^ok {7}gateways\.base: relayer 0x[0-9a-fA-F]{40} holds \d{21,22} wei$/),
    expect.stringMatching(/^ok {7}gateways\.base: this clock and the latest block are \d+ s apart$/),
    `ok       database_url: ${dir}/farebox.db can be written`,
    `ok       object_store: ${dir}/media can be written`,
    'ok       vendors.vendor-a: accepts its key',
    '',
  ])
})

test('every key without gas, a refused vendor and a folder that cannot be written are named, all at once', async () => {
  writeFileSync(join(dir, 'file'), '')
  configured('', { relayer_key_env: ['RELAYER_KEY', 'SPARE_KEY'] })
  const env = { SPARE_KEY: EMPTY_KEY, OBJECT_STORE: `file:${dir}/file/media`, ...OPENAI('bad') }
  const { code, out, err } = await check(env)
  expect({ code, err }).toEqual({ code: 1, err: '3 mistakes. Nothing was changed.\n' })
  expect(out.split('\n').filter((line) => line.startsWith('WRONG'))).toEqual([
    expect.stringMatching(
      /^WRONG {4}gateways\.base: relayer: account 0x\w{40} holds 0 ether for gas, below the floor /,
    ),
    `WRONG    object_store: ${dir}/file/media cannot be written (ENOTDIR)`,
    'WRONG    vendors.vendor-a: refuses its key (status 401)',
  ])
  expect(out + err).not.toContain(EMPTY_KEY.slice(2))
})

test('a node of another chain, a token that is none and a node that is away are told apart', async () => {
  const message = async (gateway: Readonly<Record<string, unknown>>) => {
    configured('', gateway)
    const { code, out } = await check({}, '--json')
    const { ok, findings } = JSON.parse(out) as { ok: boolean; findings: readonly Record<string, string>[] }
    expect({ code, ok }).toEqual({ code: 1, ok: false })
    return findings.filter(({ level }) => level === 'wrong').map(({ message }) => message)
  }
  expect(await message({ network: 'eip155:8453' })).toEqual([
    'network: the configured network is eip155:8453, but the node serves eip155:84532',
  ])
  expect(await message({ asset: '0x000000000000000000000000000000000000dEaD' })).toEqual([
    'asset: 0x000000000000000000000000000000000000dEaD has no code on eip155:84532',
  ])
  expect(await message({ rpc_url: 'http://127.0.0.1:1' })).toEqual([
    expect.stringMatching(/^eip155:84532 cannot be checked: /),
  ])
})

test('a clock behind the latest block is wrong, one far ahead is a warning', async () => {
  configured()
  const read = readConfig({ FAREBOX_CONFIG: path, RELAYER_KEY: devnet.relayerKey })
  if (!read.ok) throw new Error(read.mistakes.join())
  const clockAt = async (seconds: number) => {
    const found = await checkOnline(read.config, { now: () => Date.now() + seconds * 1000 })
    return found.filter(({ level }) => level !== 'ok').map(({ level, message }) => `${level}: ${message}`)
  }
  expect(await clockAt(-3_600)).toEqual([
    expect.stringMatching(/^wrong: this clock is \d{4} s behind the latest block: set it$/),
  ])
  expect(await clockAt(3_600)).toEqual([
    expect.stringMatching(/^warning: the latest block is \d{4} s old: the node lags, or this clock is ahead$/),
  ])
})

test('--offline reads the configuration only; mistakes have lines, and their JSON as well', async () => {
  configured('log_level = "loud"\n', { rpc_url: 'http://127.0.0.1:1', retierd: true })
  expect(await check({}, '--offline')).toEqual({
    code: 1,
    out: `${path}:3:1: log_level: must be one of silent, error, warn, info, got "loud"
${path}:10:1: gateways.0.retierd: there is no such setting; did you mean retired?\n`,
    err: '2 mistakes. Nothing was changed.\n',
  })
  const { errors } = JSON.parse((await check({}, '--offline', '--json')).out) as { errors: unknown }
  expect(errors).toMatchObject([
    { file: path, line: 3, column: 1 },
    { file: path, line: 10, column: 1 },
  ])
  configured('', { rpc_url: 'http://127.0.0.1:1' })
  expect(await check({}, '--offline')).toEqual({ code: 0, out: '', err: 'Nothing is wrong.\n' })
})
