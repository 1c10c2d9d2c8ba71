/** `farebox init` and `farebox keys`: files that pass the check, secrets that stay in files of mode 0600. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from './command_kit.ts'

const scratch = mkdtempSync(join(tmpdir(), 'farebox-init-'))
const PAYEE = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C'
const SOLANA_PAYEE = '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T'
afterAll(() => rmSync(scratch, { recursive: true }))

function files() {
  const dir = mkdtempSync(join(scratch, 'run-'))
  return { toml: join(dir, 'farebox.toml'), secrets: join(dir, 'farebox.env') }
}

const offline = (toml: string, secrets: string) =>
  runCommand(['check', '--offline', '--config', toml, '--env-file', secrets])

test.each([
  ['base-sepolia', PAYEE, []],
  ['base', PAYEE, ['--origin', 'https://ai.example.com', '--vendor', 'openai', '--vendor', 'anthropic']],
  ['solana', SOLANA_PAYEE, []],
  ['solana-devnet', SOLANA_PAYEE, ['--facilitator', 'https://x402.org/facilitator']],
])('init --network %s writes a file that passes the check, and secrets that only the owner reads', async (...row) => {
  const [network, payee, more] = row
  const { toml, secrets } = files()
  const args = ['init', '--yes', '--config', toml, '--network', network, '--payee', payee, ...more]
  const { code, out, err } = await runCommand(args)
  expect({ code, out }).toEqual({ code: 0, out: `${toml}\n${secrets}\n` })
  expect(err).toEndWith(
    `\nNext: farebox check --config ${toml} --env-file ${secrets}\nThen: farebox start --config ${toml} --env-file ${secrets}\n`,
  )
  expect(statSync(secrets).mode & 0o777).toBe(0o600)
  expect(await offline(toml, secrets)).toEqual({ code: 0, out: '', err: 'Nothing is wrong.\n' })
  const secret = /_KEY=(\S{64,})/.exec(readFileSync(secrets, 'utf8'))?.[1]
  expect(secret === undefined).toBe(more.includes('--facilitator'))
  if (secret !== undefined) expect(out + err + readFileSync(toml, 'utf8')).not.toContain(secret)
  expect(readFileSync(secrets, 'utf8').includes('OPENAI_API_KEY=\nANTHROPIC_API_KEY=\n')).toBe(more.includes('openai'))
})

test('init overwrites nothing, and writes nothing when an answer is wrong', async () => {
  const { toml, secrets } = files()
  const init = (...args: readonly string[]) => runCommand(['init', '--yes', '--config', toml, ...args])
  expect(await init()).toMatchObject({ code: 2, err: expect.stringContaining('--payee is needed') })
  expect(await init('--payee', PAYEE, '--network', 'bas')).toMatchObject({ code: 2 })
  expect(await init('--payee', PAYEE, '--vendor', 'acme')).toMatchObject({ code: 2 })
  expect(await init('--payee', '0x1234')).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /^Nothing was written:\n {2}.*farebox\.toml:\d+:1: gateways\.0\.pay_to: must be an address/,
    ),
  })
  expect([existsSync(toml), existsSync(secrets)]).toEqual([false, false])
  writeFileSync(secrets, 'MINE=1')
  expect(await init('--payee', PAYEE)).toEqual({
    code: 1,
    out: '',
    err: `${secrets} exists, and nothing is overwritten. Choose another file.\n`,
  })
  expect([existsSync(toml), readFileSync(secrets, 'utf8')]).toEqual([false, 'MINE=1'])
})

test('init asks on a terminal for what the options do not say', async () => {
  const { toml, secrets } = files()
  const questions: string[] = []
  const answers = ['base', PAYEE, '', 'openai, xai']
  const ask = async (question: string) => (questions.push(question), answers.shift() ?? '')
  const { code } = await runCommand(['init', '--config', toml], { ask })
  expect(code).toBe(0)
  expect(questions.map((question) => question.split(/[ ,(]/, 1)[0])).toEqual(['Network', 'Your', 'Where', 'Makers'])
  expect(readFileSync(toml, 'utf8')).toContain('network = "eip155:8453"')
  expect(readFileSync(secrets, 'utf8')).toContain('OPENAI_API_KEY=\nXAI_API_KEY=\n')
})

test('keys lists payees and paying accounts without their keys', async () => {
  const { toml, secrets } = files()
  await runCommand(['init', '--yes', '--config', toml, '--payee', PAYEE])
  const keys = (...args: readonly string[]) =>
    runCommand(['keys', '--offline', '--config', toml, '--env-file', secrets, ...args])
  const { code, out, err } = await keys()
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(
    new RegExp(
      `^base-sepolia {2}payee {2}eip155:84532 {2}${PAYEE}\nbase-sepolia {2}relayer {2}eip155:84532 {2}0x\\w{40}\n$`,
    ),
  )
  const { accounts } = JSON.parse((await keys('--json')).out) as { accounts: readonly { role: string }[] }
  expect(accounts.map(({ role }) => role)).toEqual(['payee', 'relayer'])
  const [, secret = ''] = /RELAYER_KEY=0x(\w{64})/.exec(readFileSync(secrets, 'utf8')) ?? []
  expect(secret).not.toBe('')
  expect(out + (await keys('--json')).out).not.toContain(secret)
})

test('keys new writes a key that the configuration accepts into a new file of mode 0600, and prints its address', async () => {
  for (const [network, variable, form] of [
    ['evm', 'RELAYER_KEY', /^# (0x\w{40})\nRELAYER_KEY=0x[0-9a-f]{64}\n$/],
    ['solana', 'FEE_PAYER_KEY', /^# (\w{32,44})\nFEE_PAYER_KEY=\w{64,88}\n$/],
  ] as const) {
    const { secrets } = files()
    const { code, out, err } = await runCommand(['keys', 'new', '--network', network, '--out', secrets])
    const text = readFileSync(secrets, 'utf8')
    expect([code, out, statSync(secrets).mode & 0o777]).toEqual([0, `${form.exec(text)?.[1]}\n`, 0o600])
    expect(out + err).not.toContain(text.split(`${variable}=`)[1]?.trim() ?? '')
    expect(await runCommand(['keys', 'new', '--out', secrets])).toMatchObject({ code: 1, out: '' })
    expect(readFileSync(secrets, 'utf8')).toBe(text)
  }
  expect(await runCommand(['keys', 'new'])).toMatchObject({ code: 2, out: '' })
})

test('--env-file gives every command variables; the environment comes first; a bad line is named, not shown', async () => {
  const { secrets } = files()
  writeFileSync(secrets, '# a comment\n\nexport PORT="99999"\nHOST=\'::1\'\n')
  const seen: Record<string, string | undefined>[] = []
  const serve = async (env: Readonly<Record<string, string | undefined>>) => void seen.push({ ...env })
  await runCommand(['start', '--env-file', secrets], { serve })
  await runCommand([`--env-file=${secrets}`], { env: { PORT: '1' }, serve })
  await runCommand([], { env: { FAREBOX_ENV_FILE: secrets }, serve })
  expect(seen).toEqual([
    { PORT: '99999', HOST: '::1' },
    { PORT: '1', HOST: '::1' },
    { PORT: '99999', HOST: '::1', FAREBOX_ENV_FILE: secrets },
  ])
  writeFileSync(secrets, 'A=1\ns3cret value\n')
  expect(await runCommand(['check', '--env-file', secrets])).toEqual({
    code: 1,
    out: '',
    err: `${secrets}:2: must be NAME=value, or a comment after #\n`,
  })
  expect(await runCommand(['check', '--env-file'])).toMatchObject({ code: 2 })
})

test.each([
  [`${PAYEE.slice(0, -1)}d`, /pay_to: the checksum of 0x\w+d does not match its capitals; a digit may be wrong/],
  [`0x${'0'.repeat(40)}`, /pay_to: must not be the zero address/],
])('init refuses a payee that nobody has: %s', async (payee, problem) => {
  const { toml } = files()
  const refused = await runCommand(['init', '--yes', '--config', toml, '--network', 'base', '--payee', payee])
  expect([refused.code, existsSync(toml)]).toEqual([1, false])
  expect(refused.err).toMatch(problem)
})

test('check loads the files of one’s own, as a start does', async () => {
  const { toml, secrets } = files()
  await runCommand(['init', '--yes', '--config', toml, '--network', 'base', '--payee', PAYEE])
  const configured = readFileSync(toml, 'utf8')
  writeFileSync(toml, `products = ["./none.ts"]\n${configured}`)
  const none = join(toml, '../none.ts')
  expect(await offline(toml, secrets)).toEqual({
    code: 1,
    out: `WRONG    products: there is no file ${none}\n`,
    err: '1 mistake. Nothing was changed.\n',
  })
  writeFileSync(none, 'export const products = []')
  expect((await offline(toml, secrets)).out).toContain(`WRONG    products: ${none} must export a list of products`)
})
