/** Calls that API keys pay out of a reservation: nothing is charged beyond the balance, without one, or twice. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { keySigner } from '../../../../../../adapters/chains/evm/channels/keys/api_key.ts'
import { channelDigests, type ChannelConfig } from '../../../../../../adapters/chains/evm/channels/digests.ts'
import { keyCalls } from '../../../../../../adapters/chains/evm/channels/keys/calls.ts'
import type { ReservedCall } from '../../../../../../adapters/chains/evm/channels/keys/open_calls.ts'
import { channelStates } from '../../../../../../adapters/chains/evm/channels/records.ts'
import { recoverSigner } from '../../../../../../adapters/chains/evm/exact/eip3009.ts'
import { type Hex, word } from '../../../../../../adapters/chains/lib/hex.ts'
import { memoryStorage } from '../../../../../../adapters/storage/memory/mod.ts'
import { keySalt } from '../../../../../../core/x402/api_key.ts'
import type { Storage } from '../../../../../../core/mod.ts'
import { usdc } from '../../../../../../core/x402/money.ts'

const NOW = 1_795_132_800_000
const UNTIL = NOW + 600_000
const times = { network: 'eip155:84532', withdrawDelay: 900, lagSeconds: 10 }
const digests = channelDigests(84_532)
const [PAYER, PAY_TO, SELLER, ASSET] = ['1', '2', '3', '4'].map((digit) => `0x${digit.repeat(40)}`) as [
  Hex,
  Hex,
  Hex,
  Hex,
]
const at = () => ({ now: NOW, signal: AbortSignal.timeout(60_000) })

/** A gateway on the storage, whose node confirms these figures of the channel. */
function gateway(storage: Storage, { balance, withdrawing = 0n }: { balance: bigint; withdrawing?: bigint }) {
  const figures = [[balance, 0n], [withdrawing, withdrawing === 0n ? 0n : BigInt(NOW / 1000)], [0n]]
  const results = figures.map((words) => ({
    ok: true,
    data: `0x${words.map((each) => word(each)).join('')}` as Hex,
  }))
  const views = { count: 0 }
  const reads = { view: async () => (views.count++, { kind: 'seen' as const, time: NOW / 1000, results }) }
  const states = channelStates(storage, { network: times.network, seller: SELLER })
  return { states, views, calls: keyCalls({ storage, states, digests, reads }, times) }
}

async function keyOf(byte: number) {
  const open = () => keySigner(new Uint8Array(32).fill(byte))
  const { address } = await open()
  const parties = { payer: PAYER, payerAuthorizer: address, receiver: PAY_TO, receiverAuthorizer: SELLER }
  const config: ChannelConfig = { ...parties, token: ASSET, withdrawDelay: 900, salt: keySalt(address) }
  const channelId = digests.channelId(config)
  /** The key is opened for each call, whose end closes it. */
  const call = async (name: string, price: bigint, isLate = true): Promise<ReservedCall> => ({
    channelId,
    config,
    name: `key/${name}`,
    price,
    until: UNTIL,
    isLate,
    signer: await open(),
  })
  return { address, channelId, call, config }
}

/** Two processes on one database, or two users of one process. */
const setups = {
  'two replicas': (memory: Storage): readonly Storage[] => [
    { ...memory, isShared: true },
    { ...memory, isShared: true },
  ],
  'one process': (memory: Storage): readonly Storage[] => [memory, memory],
}

for (const [name, storagesOf] of Object.entries(setups))
  test(`${name}: of 64 parallel calls, those that the balance covers are charged and the rest are refused`, async () => {
    const replicas = storagesOf(memoryStorage()).map((storage) => gateway(storage, { balance: 20_500n }))
    const [first, second] = replicas as [(typeof replicas)[number], (typeof replicas)[number]]
    const { call, channelId, address, config } = await keyOf(1)
    await first.calls.recorded({ channelId, config }, at())
    const calls = await Promise.all(Array.from({ length: 64 }, (_, i) => call(String(i), 1_000n)))
    const all = calls.map((each, i) => ({ on: i % 2 ? first : second, call: each }))
    const secured = await Promise.all(all.map(({ on, call: each }) => on.calls.secure(each, at())))
    const taken = all.filter((_, i) => secured[i]?.kind === 'secured')
    expect(taken).toHaveLength(20)
    expect(secured.find(({ kind }) => kind !== 'secured')).toMatchObject({
      kind: 'refused',
      code: 'PAYMENT_UNFUNDED',
      reason: expect.stringContaining('0.020000 USDC are reserved by calls that are open'),
    })
    const ends = await Promise.all(taken.map(({ on, call: each }) => on.calls.settle(each, { ...at(), due: 700n })))
    expect(ends.every(({ kind }) => kind === 'settled')).toBe(true)
    const state = await first.states.get(channelId, NOW)
    expect(state).toMatchObject({ charged: 14_000n, ceiling: 14_000n })
    const voucher = digests.voucher(channelId, 14_000n)
    expect(await recoverSigner(voucher, state?.signature ?? '0x')).toBe(address)
    expect(state && first.calls.available(state, NOW)).toBe(6_500n)
    expect(state && first.calls.reserved(state, NOW)).toBe(0n)
  })

type Step = { readonly at: number; readonly does: 'open' | 'charge' | 'again' | 'release'; readonly part: number }
const steps = fc.array(
  fc.record<Step>({
    at: fc.nat(7),
    does: fc.constantFrom('open', 'charge', 'again', 'release'),
    part: fc.nat(100),
  }),
  { maxLength: 24 },
)

for (const [name, storagesOf] of Object.entries(setups))
  test(`${name}: whatever is opened, charged and released, the charges add up and vouchers cover them`, async () => {
    const key = await keyOf(2)
    const property = fc.asyncProperty(steps, async (all) => {
      const balance = 3_000n
      const [first, second] = storagesOf(memoryStorage()).map((storage) => gateway(storage, { balance }))
      if (!first || !second) throw new Error('there are two')
      await first.calls.recorded(key, at())
      const open = new Map<number, ReservedCall>()
      const charges = new Map<string, bigint>()
      let done: ReservedCall | undefined
      for (const [turn, { at: slot, does, part }] of all.entries()) {
        const on = slot % 2 ? first : second
        const mine = open.get(slot)
        const reserved = [...open.values()].reduce((sum, { price }) => sum + price, 0n)
        const charged = [...charges.values()].reduce((sum, each) => sum + each, 0n)
        if (does === 'open' && !mine) {
          const call = await key.call(`${turn}`, 1n + BigInt(part) * 9n, part % 3 > 0)
          const secured = await on.calls.secure(call, at())
          expect(secured.kind === 'secured').toBe(charged + reserved + call.price <= balance)
          if (secured.kind === 'secured') open.set(slot, call)
        }
        if (does === 'charge' && mine) {
          const due = 1n + ((mine.price - 1n) * BigInt(part)) / 100n
          expect(await on.calls.settle(mine, { ...at(), due })).toMatchObject({ kind: 'settled' })
          charges.set(mine.name, due)
          open.delete(slot)
          done = mine
        }
        if (does === 'again' && done) {
          const again = await on.calls.settle(done, { ...at(), due: usdc(1n) })
          expect(again).toMatchObject({ kind: 'settled', receipt: { amount: String(charges.get(done.name)) } })
        }
        if (does === 'release' && mine) {
          await on.calls.release(mine.channelId, mine.name, NOW)
          open.delete(slot)
          expect(await on.calls.settle(mine, { ...at(), due: 1n })).toMatchObject({ kind: 'refused' })
        }
      }
      const state = await first.states.get(key.channelId, NOW)
      const sum = [...charges.values()].reduce((total, each) => total + each, 0n)
      expect(state?.charged).toBe(sum)
      expect(state && state.ceiling >= sum && state.ceiling <= balance).toBe(true)
      if (!state || state.ceiling === 0n) return
      const signer = await recoverSigner(digests.voucher(key.channelId, state.ceiling), state.signature)
      expect(signer).toBe(key.address)
    })
    await fc.assert(property, { numRuns: 60 })
  })

test('a call without a reservation is never charged, and money that is being withdrawn reserves nothing', async () => {
  const { states, calls } = gateway(memoryStorage(), { balance: 1_000n, withdrawing: 400n })
  const { call, channelId, config } = await keyOf(3)
  await calls.recorded({ channelId, config }, at())
  expect(await calls.settle(await call('none', 10n), { ...at(), due: 10n })).toMatchObject({ kind: 'refused' })
  expect(await calls.secure(await call('large', 601n), at())).toMatchObject({
    kind: 'refused',
    reason: expect.stringContaining('0.000400 USDC are being withdrawn'),
  })
  expect(await calls.secure(await call('small', 600n), at())).toEqual({ kind: 'secured' })
  expect((await states.get(channelId, NOW))?.charged).toBe(0n)
})

test('the reservation of a process that was killed ends by itself, and its call can never be charged', async () => {
  const shared = { ...memoryStorage(), isShared: true }
  const [killed, other] = [gateway(shared, { balance: 1_000n }), gateway({ ...shared }, { balance: 1_000n })]
  const { call, channelId, config } = await keyOf(4)
  await killed.calls.recorded({ channelId, config }, at())
  await killed.calls.secure(await call('lost', 900n), at())
  expect((await other.calls.secure(await call('next', 900n), at())).kind).toBe('refused')
  const later = { now: UNTIL, signal: at().signal }
  expect(await other.calls.fate(await call('lost', 900n), UNTIL)).toEqual({ kind: 'dead' })
  expect(await other.calls.secure({ ...(await call('next', 900n)), until: UNTIL + 1 }, later)).toEqual({
    kind: 'secured',
  })
  expect(await other.calls.settle(await call('lost', 900n), { ...later, due: 1n })).toMatchObject({ kind: 'refused' })
})

test('a voucher is not reserved beside a call that vouchers must cover, and one that was reserved before is charged', async () => {
  const { states, calls } = gateway(memoryStorage(), { balance: 1_000n })
  const key = await keyOf(5)
  await calls.recorded(key, at())
  const voucher = (base: bigint): ReservedCall => {
    const { channelId, config } = key
    const signed = { ceiling: base + 100n, signature: '0x01' as Hex }
    return { channelId, config, name: `${base}`, price: 100n, until: UNTIL, isLate: false, voucher: signed }
  }
  const lend = await key.call('lend', 500n, false)
  expect(await calls.secure(lend, at())).toEqual({ kind: 'secured' })
  expect(await calls.secure(voucher(0n), at())).toMatchObject({
    kind: 'refused',
    reason: expect.stringContaining('not collected yet'),
  })
  await calls.release(lend.channelId, lend.name, NOW)
  expect(await calls.secure(voucher(0n), at())).toEqual({ kind: 'secured' })
  const [job, late] = [await key.call('job', 500n, false), await key.call('late', 100n)]
  expect(await calls.secure(job, at())).toEqual({ kind: 'secured' })
  expect(await calls.secure(late, at())).toEqual({ kind: 'secured' })
  expect(await calls.settle(late, { ...at(), due: 60n })).toMatchObject({ kind: 'settled' })
  expect(await calls.settle(voucher(0n), { ...at(), due: 100n })).toMatchObject({ kind: 'settled' })
  expect(await calls.settle(job, { ...at(), due: 500n })).toMatchObject({ kind: 'settled' })
  expect((await states.get(key.channelId, NOW))?.charged).toBe(660n)
})

test('a voucher that was signed before another charge is not reserved', async () => {
  const { calls } = gateway(memoryStorage(), { balance: 1_000n })
  const key = await keyOf(6)
  await calls.recorded(key, at())
  const late = await key.call('late', 100n)
  await calls.secure(late, at())
  await calls.settle(late, { ...at(), due: 60n })
  const { channelId, config } = key
  const signed = { ceiling: 100n, signature: '0x01' as Hex }
  const voucher = { channelId, config, name: '0', price: 100n, until: UNTIL, isLate: false, voucher: signed }
  expect(await calls.secure(voucher, at())).toMatchObject({
    kind: 'refused',
    corrected: { error: expect.stringContaining('cumulative_amount_mismatch') },
  })
})

test('orders that a channel does not cover are refused without a read of the chain, but for one in three seconds', async () => {
  const { calls, views } = gateway(memoryStorage(), { balance: 1_000n })
  const key = await keyOf(7)
  await calls.recorded(key, at())
  for (let second = 0; second < 9; second++)
    for (let order = 0; order < 5; order++) {
      const dear = await key.call(`${second}/${order}`, 1_001n)
      const then = { ...at(), now: NOW + second * 1_000 }
      expect([(await calls.verify(dear, then)).kind, (await calls.secure(dear, then)).kind]).toEqual([
        'refused',
        'refused',
      ])
    }
  // The first made the record.
  expect(views.count).toBe(3)
})
