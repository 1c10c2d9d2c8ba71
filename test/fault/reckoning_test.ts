/** A reckoning that finds nothing wrong anywhere proves nothing: each invariant is broken here by hand. */
import { expect, test } from 'bun:test'
import { privateKeyToAccount } from 'viem/accounts'
import { type ChannelLine, NO_CHANNELS } from './channel_ledger.ts'
import { chargeId, idOf, type Signed } from './payers.ts'
import { type Task, newTask, type Ware } from './tasks.ts'
import { CAP, type Facts, INVARIANTS, type Invariant, reckon } from './reckoning.ts'

const PRICE = 20_000n
const buyer = (index: number) => privateKeyToAccount(`0x${String(index + 1).padStart(64, '0')}`)
const signature = (index: number) =>
  ({
    accepted: { scheme: 'exact', amount: String(PRICE) },
    payload: { authorization: { nonce: `0x${index.toString(16).padStart(64, '0')}` } },
  }) as unknown as Signed
const CHANNEL = `0x${'c'.repeat(64)}`
/** A voucher of the channel for one call, on what the channel was charged before. */
const voucher = (base: bigint) =>
  ({
    accepted: { scheme: 'batch-settlement', amount: String(PRICE) },
    payload: { type: 'voucher', voucher: { channelId: CHANNEL, maxClaimableAmount: String(base + PRICE) } },
  }) as unknown as Signed

/** Somebody who has read one answer for one signature. */
function served(index: number, { ware = 'stream', of = index }: { ware?: Ware; of?: number } = {}): Task {
  const task = newTask({ ware, buyer: buyer(of), ms: 0, about: `task ${index}` })
  return Object.assign(task, {
    signed: [signature(index)],
    works: new Set([`work ${index}`]),
    quote: PRICE,
    end: 'whole' as const,
  })
}

/** Books in which every task is paid once. */
function wholeLedger(tasks: readonly Task[] = [served(1), served(2), served(3, { ware: 'video' })]): Facts {
  const chain = tasks.map((task, index) => ({
    nonce: idOf(task.signed[0]!),
    payer: task.buyer.address.toLowerCase(),
    units: PRICE,
    transaction: `0xt${index}`,
  }))
  const ledger = chain.map(({ payer, units, transaction }, index) => ({
    id: `call-${index}`,
    payer,
    units,
    transaction,
    workStatus: 'completed',
    paymentStatus: 'settled',
  }))
  return {
    tasks,
    chain,
    channels: NO_CHANNELS,
    ledger,
    drained: new Set(),
    signed: new Set(chain.map(({ nonce }) => nonce)),
    uncollected: new Map(),
  }
}

/** The same, and a channel that has paid for two calls, of which the first is claimed. */
function withChannel(facts: Facts = wholeLedger()): Facts {
  const tasks = [0n, 500n].map((base, index) => ({
    ...served(20 + index, { ware: 'chat by channel', of: 20 }),
    signed: [voucher(base)],
  }))
  const charge = (base: bigint) => ({
    nonce: chargeId(CHANNEL, base),
    payer: buyer(20).address.toLowerCase(),
    units: 500n,
    transaction: `call ${base}`,
  })
  const line: ChannelLine = {
    id: CHANNEL,
    record: { charged: 1_000n, claimed: 500n },
    balance: 100_000n,
    claimed: 500n,
    deposits: [100_000n],
    refunds: 0n,
  }
  const channels = {
    charges: [charge(0n), charge(500n)],
    earlier: new Set<string>(),
    lines: [line],
    paidOut: 500n,
    signed: [{ channelId: CHANNEL, amount: 100_000n }],
    isClaimed: false,
  }
  const signed = new Set([...facts.signed, ...channels.charges.map(({ nonce }) => nonce)])
  return { ...facts, tasks: [...facts.tasks, ...tasks], channels, signed }
}
const withLine = (change: Partial<ChannelLine>, more: Partial<Facts['channels']> = {}): Facts => {
  const facts = withChannel()
  const lines = facts.channels.lines.map((line) => ({ ...line, ...change }))
  return { ...facts, channels: { ...facts.channels, lines, ...more } }
}

const broken = (facts: Facts): readonly Invariant[] => [
  ...new Set(reckon(facts).violations.map(({ invariant }) => invariant)),
]

test('whole books have no violation, and count what they hold', () => {
  const { counts, paid, violations } = reckon(wholeLedger())
  expect(violations).toEqual([])
  expect(counts).toMatchObject({ tasks: 3, whole: 3, answers: 3, transfers: 3, given: 0 })
  expect(paid).toBe(3n * PRICE)
})

test('a channel whose calls, deposits and claims agree has no violation, claimed or not', () => {
  const { counts, violations } = reckon(withChannel())
  expect(violations).toEqual([])
  expect(counts).toMatchObject({ tasks: 5, answers: 5, transfers: 5, given: 0 })
  expect(broken(withLine({ claimed: 1_000n }, { paidOut: 1_000n, isClaimed: true }))).toEqual([])
})

test('a voucher on what an earlier task was charged is corrected, and is no second charge', () => {
  const { tasks, channels, ...facts } = withChannel()
  const [first, last] = [tasks.at(-2)!, tasks.at(-1)!]
  const later = { ...last, signed: [...first.signed, ...last.signed] }
  const earlier = new Set([channels.charges[0]!.nonce])
  const own = tasks.slice(0, -2)
  expect(broken({ ...facts, channels: { ...channels, earlier }, tasks: [...own, later] })).toEqual([])
  expect(broken({ ...facts, channels, tasks: [...own, later] })).toEqual(['chargedOnce'])
})

const spoils: Readonly<Record<string, { readonly breaks: Invariant; spoil(ledgerRows: Facts): Facts }>> = {
  'two signatures of one task moved money': {
    breaks: 'chargedOnce',
    spoil({ tasks: [first, second, ...rest], ...ledgerRows }) {
      return {
        ...ledgerRows,
        tasks: [
          { ...first!, signed: [...first!.signed, ...second!.signed], works: new Set(['work 1', 'work 2']) },
          ...rest,
        ],
      }
    },
  },
  'somebody was charged by what was signed for nothing': {
    breaks: 'chargedOnce',
    spoil: (ledgerRows) => ({ ...ledgerRows, signed: new Set() }),
  },
  'what was paid cannot be collected': {
    breaks: 'nothingLost',
    spoil: (ledgerRows) => ({ ...ledgerRows, uncollected: new Map([[ledgerRows.tasks[0]!, '404']]) }),
  },
  'an answer was read and not paid': {
    breaks: 'nothingGiven',
    spoil: (ledgerRows) => ({ ...ledgerRows, chain: ledgerRows.chain.slice(1), ledger: ledgerRows.ledger.slice(1) }),
  },
  'one payment bought two answers': {
    breaks: 'nothingGiven',
    spoil: ({ tasks: [first, ...rest], ...ledgerRows }) => ({
      ...ledgerRows,
      tasks: [{ ...first!, works: new Set(['work 1', 'work 9']) }, ...rest],
    }),
  },
  'the ledger misses a transfer': {
    breaks: 'trueLedger',
    spoil: (ledgerRows) => ({ ...ledgerRows, ledger: ledgerRows.ledger.slice(1) }),
  },
  'the chain misses what the ledger says': {
    breaks: 'trueLedger',
    spoil: ({ tasks: [first, ...tasks], ...ledgerRows }) => ({
      ...ledgerRows,
      tasks: [{ ...first!, works: new Set() }, ...tasks],
      chain: ledgerRows.chain.slice(1),
    }),
  },
  'a channel was charged for a call that nobody ordered': {
    breaks: 'chargedOnce',
    spoil: (ledgerRows) => ({ ...withChannel(ledgerRows), signed: ledgerRows.signed }),
  },
  'a channel was charged more than its voucher allows': {
    breaks: 'chargedOnce',
    spoil(ledgerRows) {
      const { channels, ...facts } = withChannel(ledgerRows)
      const [first, ...charges] = channels.charges.map((charge) => ({ ...charge }))
      const lines = channels.lines.map((line) => ({ ...line, record: { charged: PRICE + 501n, claimed: 500n } }))
      return { ...facts, channels: { ...channels, lines, charges: [{ ...first!, units: PRICE + 1n }, ...charges] } }
    },
  },
  'a deposit was mined twice': {
    breaks: 'chargedOnce',
    spoil: () => withLine({ deposits: [100_000n, 100_000n], balance: 200_000n }),
  },
  'a voucher bought two answers': {
    breaks: 'nothingGiven',
    spoil(ledgerRows) {
      const { tasks, ...facts } = withChannel(ledgerRows)
      return { ...facts, tasks: [...tasks, { ...tasks.at(-1)!, works: new Set(['work 99']) }] }
    },
  },
  'a channel was charged more than it holds': {
    breaks: 'nothingGiven',
    spoil: () => withLine({ balance: 999n, deposits: [999n] }, { signed: [{ channelId: CHANNEL, amount: 999n }] }),
  },
  "a channel's record is behind its calls": {
    breaks: 'trueLedger',
    spoil: () => withLine({ record: { charged: 999n, claimed: 500n } }),
  },
  "a channel's record says more is claimed than the chain": {
    breaks: 'trueLedger',
    spoil: () => withLine({ record: { charged: 1_000n, claimed: 501n } }),
  },
  'more was claimed than was charged': {
    breaks: 'trueLedger',
    spoil: () => withLine({ claimed: 1_001n }, { paidOut: 1_001n }),
  },
  'what was claimed was not paid out': { breaks: 'trueLedger', spoil: () => withLine({}, { paidOut: 499n }) },
  'a channel lost a part of its deposit': { breaks: 'trueLedger', spoil: () => withLine({ balance: 99_999n }) },
  'a charge is never claimed': { breaks: 'nothingStuck', spoil: () => withLine({}, { isClaimed: true }) },
  'a call is queued for ever': {
    breaks: 'nothingStuck',
    spoil: (ledgerRows) => ({
      ...ledgerRows,
      ledger: [
        ...ledgerRows.ledger,
        { id: 'call-9', payer: '0x', units: PRICE, transaction: '', workStatus: 'queued', paymentStatus: 'verified' },
      ],
    }),
  },
  'a payment is in doubt for ever': {
    breaks: 'nothingStuck',
    spoil: (ledgerRows) => ({
      ...ledgerRows,
      ledger: [
        ...ledgerRows.ledger,
        {
          id: 'call-9',
          payer: '0x',
          units: PRICE,
          transaction: '',
          workStatus: 'completed',
          paymentStatus: 'settling',
        },
      ],
    }),
  },
  'somebody waits for ever': {
    breaks: 'nothingStuck',
    spoil: (ledgerRows) => ({
      ...ledgerRows,
      tasks: [...ledgerRows.tasks, { ...served(9), works: new Set(), end: 'left' }],
    }),
  },
  'somebody was told 500': {
    breaks: 'noSurprise',
    spoil: ({ tasks: [first, ...rest], ...ledgerRows }) => ({
      ...ledgerRows,
      tasks: [{ ...first!, oddities: ['500'] }, ...rest],
    }),
  },
}

for (const [name, { breaks, spoil }] of Object.entries(spoils)) {
  test(`${name}: ${INVARIANTS[breaks]}`, () => expect(broken(spoil(wholeLedger()))).toEqual([breaks]))
}

test('every invariant is broken by some of these', () => {
  const found = new Set(Object.values(spoils).map(({ breaks }) => breaks))
  expect(Object.keys(INVARIANTS).filter((name) => !found.has(name as Invariant))).toEqual([])
})

test('a wallet that was drained before it paid anything may have two answers, worth 0.05 USDC together', () => {
  const unpaid = [11, 12, 13].map((index) => served(index, { of: 11 }))
  const drained = new Set([buyer(11).address.toLowerCase()])
  const ledgerRows = (tasks: readonly Task[]) => ({
    ...wholeLedger(),
    tasks: [...wholeLedger().tasks, ...tasks],
    drained,
  })
  const two = reckon(ledgerRows(unpaid.slice(0, 2)))
  expect(two.violations).toEqual([])
  expect([two.counts.capped, two.capped, two.counts.given]).toEqual([CAP.calls, 2n * PRICE, 0])
  const three = reckon(ledgerRows(unpaid))
  expect(three.violations.map(({ invariant }) => invariant)).toEqual(['nothingGiven'])
  expect([three.counts.capped, three.counts.given, three.given]).toEqual([CAP.calls, 1, PRICE])
  expect(broken(ledgerRows([{ ...unpaid[0]!, quote: CAP.units + 1n }]))).toEqual(['nothingGiven'])
  expect(broken(ledgerRows([served(14, { ware: 'video', of: 11 })]))).toEqual(['nothingGiven'])
  expect(broken({ ...ledgerRows(unpaid.slice(0, 1)), drained: new Set() })).toEqual(['nothingGiven'])
  // Contract 1.47 has no cap for who has paid something: it is counted by itself.
  const paying = { ...served(1), works: new Set(['work 1', 'work 6', 'work 7', 'work 8', 'work 9']), quote: CAP.units }
  const payer = { ...wholeLedger([paying]), drained: new Set([buyer(1).address.toLowerCase()]) }
  expect(reckon(payer)).toMatchObject({ violations: [], counts: { capped: 0, taken: 4 }, taken: 4n * CAP.units })
  const doubtful = {
    id: 'call-9',
    payer: buyer(1).address,
    units: PRICE,
    transaction: '',
    workStatus: 'completed',
    paymentStatus: 'settling',
  }
  expect(reckon({ ...payer, ledger: [...payer.ledger, doubtful] })).toMatchObject({
    violations: [],
    counts: { inDoubt: 1 },
  })
  expect(broken({ ...payer, ledger: [...payer.ledger, { ...doubtful, workStatus: 'queued' }] })).toEqual([
    'nothingStuck',
  ])
})
