/** Conclusions of a start from the answers of a node that is broken for a while. No node is needed. */
import { expect, test } from 'bun:test'
import { encodeAbiParameters } from 'viem'
import { type CheckConfig, checkEvm } from '../../../../adapters/chains/evm/check.ts'
import { stateCall } from '../../../../adapters/chains/evm/node/token.ts'
import { domainSeparator } from '../../../../adapters/chains/evm/exact/eip3009.ts'
import type { Hex } from '../../../../adapters/chains/lib/hex.ts'
import type { Answer, Rpc } from '../../../../adapters/chains/lib/json_rpc.ts'

const ASSET: Hex = `0x${'a'.repeat(40)}`
const domain = { name: 'USDC', version: '2' }
const config: CheckConfig = {
  network: 'eip155:84532',
  chainId: 84_532,
  asset: ASSET,
  payTo: `0x${'1'.repeat(40)}`,
  domain,
}
const result = (value: unknown): Answer => ({ kind: 'result', value })
const text = (value: string): Hex => encodeAbiParameters([{ type: 'string' }], [value])
const WORD: Hex = `0x${'0'.repeat(64)}`

type Call = { readonly method: string; readonly to?: string; readonly data?: string }

/** Answers of a sound node about a sound token. */
function sound({ method, to, data }: Call): Answer {
  if (method === 'eth_chainId') return result('0x14a34')
  if (method === 'eth_getCode') return result('0x6000')
  if (method === 'eth_getBalance') return result('0x1')
  if (method === 'eth_getBlockByNumber') return result({ baseFeePerGas: '0x1' })
  if (to !== ASSET) return result(data)
  if (data === '0x06fdde03') return result(text(domain.name))
  if (data === '0x54fd4d50') return result(text(domain.version))
  if (data?.startsWith(stateCall(ASSET, WORD).slice(0, 10))) return result(WORD)
  return result(domainSeparator(domain, 84_532, ASSET))
}

/** `broken` stands in for the answers of one round of the check; undefined where the node is sound. */
function node(broken: (call: Call, round: number) => Answer | undefined): Pick<Rpc, 'request'> & { rounds: number } {
  const made = {
    rounds: 0,
    async request(method: string, [call]: readonly unknown[]): Promise<Answer> {
      if (method === 'eth_chainId') made.rounds++
      const sent = { method, ...(method === 'eth_call' && (call as { to: string; data: string })) }
      return broken(sent, made.rounds) ?? sound(sent)
    },
  }
  return made
}

const check = (subject: Pick<Rpc, 'request'>, more: Partial<CheckConfig> = {}) =>
  checkEvm(subject as Rpc, { ...config, ...more })
const isOfToken = ({ method, to }: Call): boolean => method === 'eth_call' && to === ASSET
const REFUSED: Answer = { kind: 'error', code: -32_000, message: 'header not found' }
const REVERTED: Answer = { kind: 'error', code: 3, message: 'execution reverted' }

test('a sound node is asked once', async () => {
  const subject = node(() => undefined)
  expect([await check(subject), subject.rounds]).toMatchObject([{ kind: 'ready' }, 1])
})

test.each<readonly [string, (call: Call) => Answer | undefined]>([
  ['errors', (call) => (isOfToken(call) ? REFUSED : undefined)],
  ['reverts', (call) => (isOfToken(call) ? REVERTED : undefined)],
  ['nothing', (call) => (call.method === 'eth_call' ? result('0x') : undefined)],
  ['no code', ({ method }) => (method === 'eth_getCode' ? result('0x') : undefined)],
  ['another name', ({ data }) => (data === '0x06fdde03' ? result(text('Coin')) : undefined)],
  ['another chain', ({ method }) => (method === 'eth_chainId' ? result('0x1') : undefined)],
])('a node that answers %s once is not taken for a wrong token', async (_, broken) => {
  for (const bad of [1, 2]) {
    const subject = node((call, round) => (round === bad ? broken(call) : undefined))
    let checked = await check(subject)
    if (checked.kind === 'unavailable') checked = await check(subject)
    expect(checked.kind).toBe('ready')
  }
})

test.each<readonly [string, (call: Call) => Answer | undefined]>([
  ['errors', (call) => (isOfToken(call) ? REFUSED : undefined)],
  ['empty results for every call', (call) => (call.method === 'eth_call' ? result('0x') : undefined)],
])('a node that always answers %s is unavailable', async (_, broken) => {
  expect(await check(node(broken))).toMatchObject({ kind: 'unavailable', reason: expect.stringMatching(/^eth_call: /) })
})

test('a node that contradicts itself is unavailable', async () => {
  const subject = node(({ data }, round) => (data === '0x06fdde03' ? result(text(`Coin ${round}`)) : undefined))
  const separator = domainSeparator(domain, 84_532, ASSET)
  const other: typeof subject = {
    ...subject,
    async request(method, params) {
      const answer = await subject.request(method, params)
      return answer.kind === 'result' && answer.value === separator ? REVERTED : answer
    },
  }
  expect(await check(other)).toMatchObject({ kind: 'unavailable', reason: expect.stringContaining('does not repeat') })
})

test.each<readonly [string, Answer]>([
  ['reverts', REVERTED],
  ['answers nothing, as its fallback does', result('0x')],
])('a token that always %s is wrong', async (_, answer) => {
  const subject = node((call) => (isOfToken(call) ? answer : undefined))
  expect([await check(subject), subject.rounds]).toMatchObject([
    { kind: 'wrong', problems: expect.arrayContaining([expect.stringContaining('neither DOMAIN_SEPARATOR()')]) },
    2,
  ])
})

test("a configured name that is not the token's is wrong", async () => {
  const checked = await check(
    node(() => undefined),
    { domain: { name: 'USD Coin', version: '2' } },
  )
  expect(checked).toMatchObject({ kind: 'wrong', problems: [expect.stringContaining('domain.name')] })
})
