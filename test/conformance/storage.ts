/**
 * Promises of every storage, as data. Each law runs on a fresh database; `subject.open()` twice gives two handles on
 * it.
 */
import { expect } from 'bun:test'
import { LOST } from '../../core/payment/ledger/mod.ts'
import { limits } from '../../core/http/rate_limit.ts'
import { usdc } from '../../core/x402/money.ts'
import type {
  Authorization,
  Call,
  Claim,
  NewCall,
  Opened,
  Outcome,
  StoredRecord,
  Spend,
  Storage,
  Usage,
} from '../../core/ports/mod.ts'
import type { Json } from '../../core/lib/json.ts'
import type { Offer, Receipt } from '../../core/x402/protocol.ts'
import { law, portLaw, type Law, type Subject } from './law.ts'
import { listingLaws } from './storage_listings.ts'
import { prepaidLaws } from './storage_prepaid.ts'

const T = 1_800_000_000_000
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const PAYER = '0x00000000000000000000000000000000000000Aa'
const ASSET = 'eip155:84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e'
const CENT = usdc(10_000n)
const LARGEST = usdc(99_999_999_999_999_999_999n)

const opening: readonly Law<Storage>[] = [
  law('openCall() gives one winner among twenty racers', async (subject) => {
    const [one, two] = await handles(subject)
    const answers = await Promise.all(
      times(20, (n) => (n % 2 ? one : two).openCall(newCall(`call ${n}`), signed('shared'), at())),
    )
    expect(kinds(answers)).toEqual({ opened: 1, replayed: 19 })
  }),
  portLaw('the loser of openCall() learns the call of the winner', async (storage) => {
    await opened(storage, 'winner', { key: 'shared' })
    const answer = await storage.openCall(newCall('loser'), signed('shared'), at())
    expect(answer).toMatchObject({
      kind: 'replayed',
      call: { id: 'winner', authorization: 'shared', workStatus: 'queued', paymentStatus: 'verified' },
    })
    expect(await storage.getCall('loser')).toBeUndefined()
  }),
  portLaw('an authorization opens one call, while that call works and when it is done', async (storage) => {
    await opened(storage, 'first', { key: 'shared' })
    const again = async (id: string) => (await storage.openCall(newCall(id), signed('shared'), at())).kind
    expect(await again('second')).toBe('replayed')
    await storage.moveCall('first', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
    expect(await again('third')).toBe('replayed')
    await storage.moveCall('first', { workStatus: ['in_progress'] }, { workStatus: 'completed', result: 1 })
    expect(await again('fourth')).toBe('replayed')
    expect((await storage.openCall(newCall('later'), signed('shared'), at(T + 10 * HOUR))).kind).toBe('replayed')
    for (const id of ['second', 'third', 'fourth', 'later']) expect(await storage.getCall(id)).toBeUndefined()
  }),
  law('a call id opens once: another authorization under it is rejected, and nothing is written', async (subject) => {
    const [one, two] = await handles(subject)
    const racers = times(20, (n) => (n % 2 ? one : two).openCall(newCall('same'), signed(`key ${n}`), at()))
    const answers = await Promise.allSettled(racers)
    const winner = answers.findIndex(({ status }) => status === 'fulfilled')
    expect(answers.map(({ status }) => status).filter((status) => status === 'fulfilled')).toEqual(['fulfilled'])
    expect((await one.getCall('same'))?.authorization).toBe(`key ${winner}`)
    await opened(one, 'lost', { key: 'shared', until: T + MINUTE })
    const late = T + 2 * MINUTE
    await expect(two.openCall(newCall('same'), signed('shared'), at(late))).rejects.toThrow()
    expect(await one.getCall('lost')).toMatchObject({ workStatus: 'queued' })
    expect((await one.openCall(newCall('free'), signed(`key ${(winner + 1) % 20}`), at())).kind).toBe('opened')
  }),
  portLaw('a failed call frees its authorization in the same step', async (storage) => {
    await opened(storage, 'first', { key: 'shared' })
    await storage.moveCall('first', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream', endedAt: T })
    expect(await storage.callOf('shared', T)).toBeUndefined()
    expect((await storage.openCall(newCall('second'), signed('shared'), at())).kind).toBe('opened')
    expect((await storage.openCall(newCall('third'), signed('shared'), at())).kind).toBe('replayed')
    expect(await storage.getCall('first')).toMatchObject({
      workStatus: 'failed',
      error: 'upstream',
      paymentStatus: 'verified',
    })
  }),
  portLaw('a lost call frees its authorization, and is failed in the same step', async (storage) => {
    await opened(storage, 'lost', { key: 'shared', until: T + MINUTE })
    await storage.moveCall('lost', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T })
    const later = T + 2 * MINUTE
    expect((await storage.openCall(newCall('next'), signed('shared'), at(later))).kind).toBe('opened')
    const lost = await storage.getCall('lost')
    expect(lost).toMatchObject({ workStatus: 'failed', paymentStatus: 'verified', endedAt: later, result: null })
    expect(lost?.error).toStartWith('The work was lost')
    expect(
      await storage.moveCall('lost', { workStatus: ['queued', 'in_progress'] }, { workStatus: 'completed', result: 1 }),
    ).toBe(false)
    const late = { now: later, until: later + MINUTE, result: { result: 1, expiresAt: later + HOUR } }
    expect(await storage.claimSettlement('lost', signed('shared'), late)).toEqual({ kind: 'nothing' })
  }),
  portLaw("the end of an owner's promise is exact", async (storage) => {
    const end = T + MINUTE
    await opened(storage, 'call', { key: 'shared', until: end })
    expect((await storage.callOf('shared', end - 1))?.id).toBe('call')
    expect(await storage.lostCalls(end - 1, 9)).toEqual([])
    expect((await storage.openCall(newCall('early'), signed('shared'), at(end - 1))).kind).toBe('replayed')
    expect(await storage.callOf('shared', end)).toBeUndefined()
    expect(ids(await storage.lostCalls(end, 9))).toEqual(['call'])
    expect((await storage.openCall(newCall('exact'), signed('shared'), at(end))).kind).toBe('opened')
  }),
  portLaw('a call with a settlement begun never frees its authorization', async (storage) => {
    const outcomes: readonly (Outcome | undefined)[] = [
      undefined,
      { kind: 'unknown' },
      { kind: 'refused' },
      { kind: 'dead' },
      { kind: 'unresolved' },
      { kind: 'paid', receipt: receipt() },
    ]
    for (const [n, outcome] of outcomes.entries()) {
      const id = `call ${n}`
      await completed(storage, id)
      const token = await claimed(storage, id)
      if (outcome) await storage.finishSettlement(id, token, outcome, { now: T })
      const much = T + 10 * HOUR
      expect((await storage.callOf(keyOf(id), much))?.id).toBe(id)
      expect((await storage.openCall(newCall(`thief ${n}`), signed(keyOf(id)), at(much))).kind).toBe('replayed')
    }
  }),
  portLaw('callOf() finds a call by each of its authorizations', async (storage) => {
    await withDeadOriginal(storage, 'call')
    await storage.claimSettlement('call', signed('second'), at())
    expect((await storage.callOf(keyOf('call'), T))?.id).toBe('call')
    expect((await storage.callOf('second', T))?.id).toBe('call')
    expect(await storage.callOf('third', T)).toBeUndefined()
  }),
  portLaw('a call comes back as it was given', async (storage) => {
    const request = { text: 'naïve \u{1F3AB} \u0000 "quoted"', list: [1, -2.5, true, null, { deep: [] }], empty: {} }
    const whole = newCall('whole', { request, model: null, createdAt: T - 1, expiresAt: Number.MAX_SAFE_INTEGER })
    const call: Call = {
      ...whole,
      authorization: 'key 1',
      workStatus: 'queued',
      paymentStatus: 'verified',
      leaseExpiresAt: T + MINUTE,
      startedAt: null,
      endedAt: null,
      result: null,
      error: null,
      usage: null,
      charge: null,
      receipt: null,
      settledAt: null,
    }
    expect(await storage.openCall(whole, signed('key 1'), { now: T, until: T + MINUTE })).toEqual({
      kind: 'opened',
      call,
    })
    expect(await storage.getCall('whole')).toEqual(call)
    expect(await storage.callOf('key 1', T)).toEqual(call)
    const done = {
      workStatus: 'completed',
      startedAt: T + 1,
      endedAt: T + 2,
      result: request,
      usage: { input: 0, output: Number.MAX_SAFE_INTEGER },
      charge: LARGEST,
      expiresAt: T + 3,
    } as const
    await storage.moveCall('whole', { workStatus: ['queued'] }, done)
    expect(await storage.getCall('whole')).toEqual({ ...call, ...done })
    expect(await storage.getCall('nobody')).toBeUndefined()
  }),
  portLaw('money round-trips as bigint', async (storage) => {
    const amounts = [0n, 1n, 2n ** 53n + 1n, 2n ** 63n + 1n, LARGEST].map(usdc)
    for (const [n, quote] of amounts.entries()) {
      await opened(storage, `call ${n}`, { quote })
      expect((await storage.getCall(`call ${n}`))?.quote).toBe(quote)
    }
    const sum = amounts.reduce((all, each) => all + each, 0n)
    const cap = { observed: usdc(sum - 1n), asOf: T }
    expect(await storage.openCall(newCall('over', { quote: usdc(0n) }), signed('over'), at(T, cap))).toEqual({
      kind: 'over',
      sum: usdc(sum),
    })
  }),
  portLaw('nobody holds a row of the storage', async (storage) => {
    const request = newCall('call', { request: { prompt: 'a cat' } })
    const authorization = signed(keyOf('call'))
    const opening = storage.openCall(request, authorization, at())
    spoil(request)
    spoil(authorization)
    const answer = await opening
    if (answer.kind === 'opened') spoil(answer.call)
    const read = await storage.getCall('call')
    expect(read).toMatchObject({ endpoint: 'images', request: { prompt: 'a cat' } })
    spoil(read)
    expect(await storage.getCall('call')).toMatchObject({ endpoint: 'images', request: { prompt: 'a cat' } })
    const result = { list: [1] }
    const moving = storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'completed', result })
    result.list.push(2)
    await moving
    expect(await storage.getCall('call')).toMatchObject({ result: { list: [1] } })
    const claim = await storage.claimSettlement('call', undefined, at())
    expect(claim).toMatchObject({ kind: 'retry', authorization: signed(keyOf('call')) })
  }),
]

const exposure: readonly Law<Storage>[] = [
  law('openCall() lets 500 racing calls of one payer spend a balance once', async (subject) => {
    const [one, two] = await handles(subject)
    const cap = { observed: CENT, asOf: T }
    const answers = await Promise.all(
      times(500, (n) => (n % 2 ? one : two).openCall(newCall(`call ${n}`), signed(`key ${n}`), at(T, cap))),
    )
    expect(kinds(answers)).toEqual({ opened: 1, over: 499 })
  }),
  portLaw('over() tells the sum, and nothing is written', async (storage) => {
    await opened(storage, 'lost', { key: 'shared', until: T + 1 })
    await opened(storage, 'other')
    const later = T + MINUTE
    const request = newCall('call', { quote: usdc(15_000n) })
    const tight = { observed: usdc(24_999n), asOf: later }
    expect(await storage.openCall(request, signed('shared'), at(later, tight))).toEqual({
      kind: 'over',
      sum: usdc(25_000n),
    })
    expect(await storage.getCall('call')).toBeUndefined()
    expect(await storage.callOf('shared', later)).toBeUndefined()
    expect(await storage.getCall('lost')).toMatchObject({ workStatus: 'queued', endedAt: null })
    const enough = { observed: usdc(25_000n), asOf: later }
    expect((await storage.openCall(request, signed('shared'), at(later, enough))).kind).toBe('opened')
  }),
  portLaw('exposure counts every call whose authorization can still move money, and no other', async (storage) => {
    const bit = (n: number) => usdc(1n << BigInt(n))
    const settling = async (id: string, n: number, outcome: Outcome) => {
      await completed(storage, id, { quote: bit(n) })
      await storage.finishSettlement(id, await claimed(storage, id), outcome, { now: T })
    }
    await opened(storage, 'queued', { quote: bit(0) })
    await opened(storage, 'in progress', { quote: bit(1) })
    await storage.moveCall('in progress', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
    await completed(storage, 'completed', { quote: bit(2) })
    await completed(storage, 'claimed', { quote: bit(3) })
    await claimed(storage, 'claimed')
    await settling('unknown', 4, { kind: 'unknown' })
    await settling('refused', 5, { kind: 'refused' })
    await settling('unresolved', 6, { kind: 'unresolved' })
    await withDeadOriginal(storage, 'second try', { quote: bit(7) })
    await storage.claimSettlement('second try', signed('second'), at())

    await settling('dead', 8, { kind: 'dead' })
    await opened(storage, 'failed', { quote: bit(9) })
    await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    await opened(storage, 'of another payer', { quote: bit(10), payer: '0xsomebody' })
    await opened(storage, 'of another asset', { quote: bit(11), asset: 'eip155:1/0xother' })
    expect(await exposed(storage, T)).toBe(0b1111_1111n)
  }),
  portLaw('exposure lets go of an authorization exactly at its end', async (storage) => {
    await opened(storage, 'call', { quote: CENT, expiresAt: T + MINUTE })
    expect(await exposed(storage, T + MINUTE - 1)).toBe(CENT)
    expect(await exposed(storage, T + MINUTE)).toBe(0n)
  }),
  portLaw('exposure counts the settlements that a balance may not show yet', async (storage) => {
    for (const [n, settledAt] of [T - 5_001, T - 5_000, T, T + 1].entries()) {
      await completed(storage, `call ${n}`, { quote: usdc(1n << BigInt(n)) })
      const token = await claimed(storage, `call ${n}`, settledAt)
      const paid = { ...receipt(), amount: String(1n << BigInt(n)) }
      await storage.finishSettlement(`call ${n}`, token, { kind: 'paid', receipt: paid }, { now: settledAt })
    }
    expect(await exposed(storage, T + MINUTE, T)).toBe(0b1110n)
  }),
  portLaw(
    'exposure counts what was settled after the block of a balance, and nothing that was settled up to it',
    async (storage) => {
      const settled: readonly [block: number, settledAt: number][] = [
        [9, T],
        [10, T],
        [11, T],
        [11, T - 59_000],
        [11, T - 61_000],
        [2 ** 40, T],
      ]
      for (const [n, [block, settledAt]] of settled.entries()) {
        await completed(storage, `call ${n}`, { quote: usdc(1n << BigInt(n)) })
        const token = await claimed(storage, `call ${n}`, settledAt)
        await storage.finishSettlement(
          `call ${n}`,
          token,
          { kind: 'paid', receipt: { ...receipt(), block, amount: String(1n << BigInt(n)) } },
          { now: settledAt },
        )
      }
      await spent(storage, 'without a block', { quote: usdc(1n << 6n), amount: '64' })
      expect(await exposed(storage, T + MINUTE, T, 10)).toBe(0b110_1100n)
      expect((await storage.getCall('call 5'))?.receipt?.block).toBe(2 ** 40)
    },
  ),
  law(
    'openCall() lets 100 racing calls of one payer open one where its balance cannot be read, and another once that has ended',
    async (subject) => {
      const [one, two] = await handles(subject)
      const blind = { asOf: T }
      await opened(one, 'of nothing', { quote: usdc(0n) })
      await spent(one, 'settled', {})
      await opened(one, 'of another payer', { payer: '0xsomebody' })
      const open = (storage: Storage, n: number) =>
        storage.openCall(newCall(`call ${n}`), signed(`key ${n}`), at(T, blind))
      const answers = await Promise.all(times(100, (n) => open(n % 2 ? one : two, n)))
      expect(kinds(answers)).toEqual({ opened: 1, over: 99 })
      const over = answers.find(({ kind }) => kind === 'over')
      expect(over).toEqual({ kind: 'over', sum: usdc(2n * CENT), why: 'unreadable' })
      const [first] = answers.flatMap((answer) => (answer.kind === 'opened' ? [answer.call.id] : []))
      await one.moveCall(first ?? '', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
      expect((await open(two, 100)).kind).toBe('opened')
    },
  ),
  law(
    'openCall() lets a wallet that never paid open two of 30 racing calls that are served before they are paid for',
    async (subject) => {
      const [one, two] = await handles(subject)
      const open = (storage: Storage, id: string, quote = CENT, payer = PAYER) =>
        storage.openCall(newCall(id, { endpoint: 'chat', quote, payer }), signed(`key of ${id}`), at(T, NEWCOMER))
      await opened(one, 'of another kind', { payer: PAYER })
      await opened(one, 'in the background', { endpoint: 'chat', quote: usdc(49_999n) })
      await one.moveCall('in the background', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T })
      const answers = await Promise.all(times(30, (n) => open(n % 2 ? one : two, `chat ${n}`)))
      expect(kinds(answers)).toEqual({ opened: 2, over: 28 })
      expect(answers.flatMap((answer) => (answer.kind === 'opened' ? [answer.atLimit ?? false] : [])).sort()).toEqual([
        false,
        true,
      ])
      expect(answers.find(({ kind }) => kind === 'over')).toEqual({
        kind: 'over',
        sum: usdc(3n * CENT),
        why: 'new_wallet',
      })
      const dear = [
        await open(one, 'first', usdc(40_000n), '0xdear'),
        await open(two, 'second', usdc(10_001n), '0xdear'),
        await open(one, 'third', usdc(10_000n), '0xdear'),
      ]
      expect(dear.map((answer) => [answer.kind, answer.kind === 'opened' && answer.atLimit])).toEqual([
        ['opened', true],
        ['over', false],
        ['opened', true],
      ])
      expect(await open(two, 'dearest', usdc(10n ** 6n), '0xrich')).toMatchObject({ kind: 'opened', atLimit: true })
    },
  ),
  law(
    'openCall() tells that a wallet is new until it has paid as much as the cap says (contract 1.95)',
    async (subject) => {
      const [one, two] = await handles(subject)
      const open = async (id: string, paid: bigint, isFull = false) => {
        const cap = { asOf: T, observed: usdc(10n ** 9n), newWallets: { paid: usdc(paid), isFull } }
        const answer = await two.openCall(newCall(id, { payer: '0xnew' }), signed(`key of ${id}`), at(T, cap))
        return answer.kind === 'over' ? answer.why : answer.kind === 'opened' && answer.isNew
      }
      expect([await open('a', 0n), await open('b', 0n, true)]).toEqual([true, 'new_wallets'])
      await spent(one, 'paid', { payer: '0xnew', quote: CENT })
      const answers = [await open('c', 0n, true), await open('d', CENT, true), await open('e', CENT + 1n)]
      expect([...answers, await open('f', CENT + 1n, true)]).toEqual([undefined, undefined, true, 'new_wallets'])
      expect(await two.getCall('b')).toBeUndefined()
    },
  ),
  law('a wallet is new in an asset until a call of it has settled there, at whatever gateway', async (subject) => {
    const [one, two] = await handles(subject)
    let requestCount = 0
    const kindsOf = async () => {
      const chats = times(3, () => newCall(`chat ${requestCount++}`, { endpoint: 'chat', quote: usdc(1n) }))
      const answers: Opened[] = []
      for (const chat of chats) answers.push(await one.openCall(chat, signed(`key of ${chat.id}`), at(T, NEWCOMER)))
      for (const { id } of chats)
        await one.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
      return kinds(answers)
    }
    await spent(one, 'elsewhere', { asset: 'eip155:1/0xother' })
    await spent(two, 'of somebody', { payer: '0xsomebody' })
    expect(await kindsOf()).toEqual({ opened: 2, over: 1 })
    await spent(two, 'settled', { gateway: 'another', endpoint: 'images', settledAt: T - 90 * HOUR })
    expect(await kindsOf()).toEqual({ opened: 3 })
  }),
  law(
    'a wallet that has paid opens what it likes, and is told beyond what it has paid and beyond what a new one may have (contract 1.47)',
    async (subject) => {
      const [one, two] = await handles(subject)
      let requestCount = 0
      const observed = async (payer: string, ...quotes: readonly bigint[]) => {
        const calls = quotes.map((quote) =>
          newCall(`chat ${requestCount++}`, { endpoint: 'chat', quote: usdc(quote), payer }),
        )
        const open = (call: NewCall, n: number) =>
          (n % 2 ? one : two).openCall(call, signed(`key of ${call.id}`), at(T, NEWCOMER))
        const answers = await Promise.all(calls.map(open))
        for (const { id } of calls)
          await one.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
        return answers.flatMap((answer) => (answer.kind === 'opened' ? [answer.atLimit ?? false] : [])).sort()
      }
      await spent(one, 'small', { amount: '2', payer: '0xsmall' })
      expect(await observed('0xsmall', 50_000n)).toEqual([false])
      expect(await observed('0xsmall', 50_001n)).toEqual([true])
      expect(await observed('0xsmall', ...times(9, () => 10_000n))).toEqual([
        ...times(5, () => false),
        ...times(4, () => true),
      ])
      // By its receipt, where that says another sum than was quoted; in this asset; of whatever endpoint and gateway.
      await spent(one, 'first', { amount: '60000', quote: usdc(1n), payer: '0xlarge', endpoint: 'images' })
      await spent(two, 'second', { amount: '40000', payer: '0xlarge', gateway: 'another', settledAt: T - 90 * HOUR })
      await spent(two, 'elsewhere', { amount: '900000', payer: '0xlarge', asset: 'eip155:1/0xother' })
      expect(await observed('0xlarge', 100_000n)).toEqual([false])
      expect(await observed('0xlarge', 100_001n)).toEqual([true])
      expect(await observed('0xlarge', 60_000n, 60_000n)).toEqual([false, true])
      for (let n = 0; n < 99; n++)
        await spent(n % 2 ? one : two, `later ${n}`, { amount: '1', payer: '0xlarge', settledAt: T + MINUTE + n })
      // The newest hundred count: the call of 40,000 is the 101st.
      expect(await observed('0xlarge', 60_099n)).toEqual([false])
      expect(await observed('0xlarge', 60_100n)).toEqual([true])
    },
  ),
]

const moves: readonly Law<Storage>[] = [
  law('moveCall() is won once among twenty racers', async (subject) => {
    const [one, two] = await handles(subject)
    await opened(one, 'call')
    const answers = await Promise.all(
      times(20, (n) =>
        (n % 2 ? one : two).moveCall(
          'call',
          { workStatus: ['queued'] },
          { workStatus: 'in_progress', startedAt: T + n },
        ),
      ),
    )
    expect(answers.filter(Boolean).length).toBe(1)
  }),
  portLaw('moveCall() applies only from what its caller expects', async (storage) => {
    await opened(storage, 'call', { workerId: 'me' })
    const before = await storage.getCall('call')
    const stale = [
      { workStatus: ['in_progress'] },
      { workStatus: ['completed', 'failed'] },
      { workStatus: [] },
      { workStatus: ['queued'], workerId: 'somebody' },
      { workStatus: ['queued'], workerId: 'me', paymentStatus: 'settled' },
    ] as const
    for (const from of stale)
      expect(await storage.moveCall('call', from, { workStatus: 'failed', error: 'no' })).toBe(false)
    expect(await storage.getCall('call')).toEqual(before)
    expect(await storage.moveCall('nobody', { workStatus: ['queued'] }, { workStatus: 'failed' })).toBe(false)
    expect(
      await storage.moveCall(
        'call',
        { workStatus: ['in_progress', 'queued'], workerId: 'me', paymentStatus: 'verified' },
        { workStatus: 'in_progress' },
      ),
    ).toBe(true)
    expect((await storage.getCall('call'))?.workStatus).toBe('in_progress')
  }),
  portLaw('a patch changes what it names, and nothing else', async (storage) => {
    await opened(storage, 'call')
    await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T + 1 })
    const before = await storage.getCall('call')
    expect(await storage.moveCall('call', { workStatus: ['in_progress'] }, { leaseExpiresAt: T + HOUR })).toBe(true)
    expect(await storage.getCall('call')).toEqual({ ...before, leaseExpiresAt: T + HOUR } as Call)
    expect(await storage.moveCall('call', { workStatus: ['in_progress'] }, {})).toBe(true)
    expect(await storage.getCall('call')).toEqual({ ...before, leaseExpiresAt: T + HOUR } as Call)
  }),
  law("an unfinished call that is moved to another owner is that owner's alone", async (subject) => {
    const [one, two] = await handles(subject)
    await opened(one, 'call', { key: 'shared', workerId: 'me', until: T + MINUTE })
    const handed = {
      workStatus: 'in_progress',
      workerId: 'the vendor',
      startedAt: T,
      leaseExpiresAt: T + HOUR,
    } as const
    expect(await one.moveCall('call', { workStatus: ['queued'], workerId: 'me' }, handed)).toBe(true)
    expect(await two.getCall('call')).toMatchObject(handed)
    await two.renew('me', ['call'], T + 9 * HOUR)
    expect(await one.getCall('call')).toMatchObject(handed)
    expect(await one.lostCalls(T + HOUR - 1, 9)).toEqual([])
    expect((await two.openCall(newCall('early'), signed('shared'), at(T + HOUR - 1))).kind).toBe('replayed')
    expect(await one.lostCalls(T + HOUR, 9)).toMatchObject([{ id: 'call', ...handed }])
    await one.renew('the vendor', ['call'], T + 2 * HOUR)
    expect(await two.lostCalls(T + HOUR, 9)).toEqual([])
    expect(await two.lostCalls(Number.MAX_SAFE_INTEGER, 9)).toMatchObject([
      { id: 'call', ...handed, leaseExpiresAt: T + 2 * HOUR },
    ])
    const done = { workStatus: 'completed', result: 1 } as const
    expect(
      await two.moveCall(
        'call',
        { workStatus: ['in_progress'], workerId: 'the vendor', paymentStatus: 'verified' },
        done,
      ),
    ).toBe(true)
  }),
  portLaw(
    "renew() lengthens the promise of the calls that it is given, where they are unfinished and its owner's",
    async (storage) => {
      await opened(storage, 'queued', { workerId: 'me', until: T + 10 })
      await opened(storage, 'in progress', { workerId: 'me', until: T + 20 })
      await storage.moveCall('in progress', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
      await opened(storage, 'done', { workerId: 'me', until: T + 30 })
      await storage.moveCall('done', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
      await opened(storage, 'promised for longer', { workerId: 'me', until: T + HOUR })
      await opened(storage, 'of another', { workerId: 'you', until: T + 40 })
      await opened(storage, 'not asked for', { workerId: 'me', until: T + 50 })
      await storage.renew(
        'me',
        ['queued', 'in progress', 'done', 'promised for longer', 'of another', 'of nobody'],
        T + MINUTE,
      )
      const until = async (id: string) => ((await storage.getCall(id))?.leaseExpiresAt ?? 0) - T
      expect(await until('queued')).toBe(MINUTE)
      expect(await until('in progress')).toBe(MINUTE)
      expect(await until('done')).toBe(30)
      expect(await until('promised for longer')).toBe(HOUR)
      expect(await until('of another')).toBe(40)
      expect(await until('not asked for')).toBe(50)
    },
  ),
  portLaw('renew() answers with the calls that its owner may go on with', async (storage) => {
    await opened(storage, 'queued', { until: T + 10 })
    await opened(storage, 'promised for longer', { until: T + HOUR })
    await opened(storage, 'of another', { workerId: 'you' })
    await completed(storage, 'completed')
    await opened(storage, 'failed')
    await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    const many = times(300, (n) => `call ${n}`)
    for (const id of many) await opened(storage, id)
    const leased = await storage.renew(
      'me',
      ['queued', 'promised for longer', 'of another', 'completed', 'failed', 'of nobody', ...many],
      T + MINUTE,
    )
    expect([...leased].sort()).toEqual(['queued', 'promised for longer', ...many].sort())
    expect(await storage.renew('me', [], T + MINUTE)).toEqual([])
  }),
  law(
    'an owner takes back what was declared lost, while its authorization has served no other call',
    async (subject) => {
      const [one, two] = await handles(subject)
      const later = T + 2 * MINUTE
      for (const id of ['queued', 'begun', 'taken', 'of another'])
        await opened(one, id, { until: T + MINUTE, ...(id === 'of another' && { workerId: 'you' }) })
      await one.moveCall('begun', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T })
      const lost = { workStatus: 'failed', error: LOST, endedAt: later } as const
      const drop = async (id: string) =>
        await two.moveCall(
          id,
          { workStatus: ['queued', 'in_progress'], paymentStatus: 'verified' },
          id === 'begun' ? { ...lost, startedAt: T } : lost,
        )
      for (const id of ['queued', 'begun', 'taken', 'of another']) expect(await drop(id)).toBe(true)
      await two.openCall(newCall('taker'), signed(keyOf('taken')), at(later))
      await one.renew('me', ['queued', 'begun', 'taken', 'of another'], later + MINUTE)
      const alive = { paymentStatus: 'verified', error: null, endedAt: null, leaseExpiresAt: later + MINUTE }
      expect(await two.getCall('queued')).toMatchObject({ ...alive, workStatus: 'queued', startedAt: null })
      expect(await two.getCall('begun')).toMatchObject({ ...alive, workStatus: 'in_progress', startedAt: T })
      expect(await two.getCall('of another')).toMatchObject({ workStatus: 'failed', error: LOST })
      // Whoever has the authorization: one of the two lives.
      const served = [await two.getCall('taken'), await two.getCall('taker')].filter(
        (call) => call && call.workStatus !== 'failed',
      )
      expect(served.length).toBe(1)
      expect((await two.openCall(newCall('late'), signed(keyOf('queued')), at(later))).kind).toBe('replayed')
      await two.moveCall(
        'begun',
        { workStatus: ['in_progress'] },
        { workStatus: 'failed', error: 'upstream', endedAt: later },
      )
      await one.renew('me', ['begun'], later + MINUTE)
      expect(await two.getCall('begun')).toMatchObject({ workStatus: 'failed', error: 'upstream' })
    },
  ),
  law('claimSettlement() completes what was declared lost for its owner, and for nobody else', async (subject) => {
    const [one, two] = await handles(subject)
    const late = T + 2 * MINUTE
    const made = { now: late, until: late + MINUTE, result: { result: 1, expiresAt: T + HOUR } }
    await opened(one, 'lost', { until: T + MINUTE })
    await two.moveCall('lost', { workStatus: ['queued'] }, { workStatus: 'failed', error: LOST, endedAt: late })
    expect(await one.claimSettlement('lost', signed(keyOf('lost')), { ...made, workerId: 'you' })).toEqual({
      kind: 'nothing',
    })
    expect(await one.claimSettlement('lost', signed(keyOf('lost')), { ...made, workerId: 'me' })).toMatchObject({
      kind: 'yours',
    })
    expect(await two.getCall('lost')).toMatchObject({
      workStatus: 'completed',
      paymentStatus: 'settling',
      error: null,
      result: 1,
    })
  }),
  portLaw('while nobody could renew, only what was lost before is lost', async (storage) => {
    await opened(storage, 'before', { until: T + 10 })
    await opened(storage, 'meanwhile', { until: T + 11 })
    const open = async (id: string, key: string) =>
      (await storage.openCall(newCall(id), signed(keyOf(key)), { ...at(T + MINUTE), lostBy: T + 10 })).kind
    expect([await open('first', 'before'), await open('second', 'meanwhile')]).toEqual(['opened', 'replayed'])
    expect(await storage.getCall('meanwhile')).toMatchObject({ workStatus: 'queued' })
  }),
  portLaw('lostCalls() lists unfinished calls past their promise, longest first', async (storage) => {
    for (const [id, after] of [
      ['b', 20],
      ['a', 10],
      ['c', 30],
      ['alive', 40],
    ] as const) {
      await opened(storage, id, { until: T + after })
    }
    await storage.moveCall('a', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
    await completed(storage, 'completed', { until: T + 1 })
    await opened(storage, 'failed', { until: T + 1 })
    await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    expect(ids(await storage.lostCalls(T + 30, 9))).toEqual(['a', 'b', 'c'])
    expect(ids(await storage.lostCalls(T + 30, 2))).toEqual(['a', 'b'])
  }),
  portLaw(
    'unfinishedCalls() lists what an owner has to do on a gateway, by id, however much others have to do',
    async (storage) => {
      for (const n of times(20, (n) => n)) await opened(storage, `a queue ${n}`, { until: T + n })
      for (const id of ['job d', 'job b', 'job e', 'job c', 'job a'])
        await opened(storage, id, { workerId: 'the vendor', until: T + HOUR })
      await storage.moveCall('job b', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T })
      await storage.moveCall('job e', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
      await opened(storage, 'job elsewhere', { workerId: 'the vendor', gateway: 'base' })
      const listed = async (after: string, limit: number) =>
        ids(await storage.unfinishedCalls('the vendor', { gateway: 'devnet', after, limit }))
      expect(await listed('', 2)).toEqual(['job a', 'job b'])
      expect(await listed('job b', 9)).toEqual(['job c', 'job d'])
      expect(await listed('job d', 9)).toEqual([])
      expect(ids(await storage.unfinishedCalls('the vendor', { gateway: 'base', after: '', limit: 9 }))).toEqual([
        'job elsewhere',
      ])
    },
  ),
]

const ties: readonly Law<Storage>[] = [
  portLaw('calls that are due at the same moment are listed in the order of their ids', async (storage) => {
    const names = ['d', 'b', 'e', 'a', 'c']
    for (const id of names) await opened(storage, `lost ${id}`, { until: T + 10 })
    for (const id of names) await completed(storage, `unsettled ${id}`)
    for (const id of names.toReversed())
      await storage.claimSettlement(`unsettled ${id}`, undefined, { now: T, until: T + 10 })
    await storage.moveCall('lost a', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
    const [lost, unsettled] = ['lost', 'unsettled'].map((of) => ['a', 'b', 'c'].map((id) => `${of} ${id}`)) as [
      string[],
      string[],
    ]
    expect(ids(await storage.lostCalls(T + 10, 3))).toEqual(lost)
    expect(ids(await storage.unsettled(T + 10, 3))).toEqual(unsettled)
  }),
]

const claiming: readonly Law<Storage>[] = [
  law('claimSettlement() gives one winner among twenty racers', async (subject) => {
    const [one, two] = await handles(subject)
    await completed(one, 'call')
    const answers = await Promise.all(
      times(20, (n) => (n % 2 ? one : two).claimSettlement('call', signed(keyOf('call')), at())),
    )
    expect(kinds(answers)).toEqual({ yours: 1, taken: 19 })
    expect((await one.getCall('call'))?.paymentStatus).toBe('settling')
  }),
  portLaw('a claim lasts exactly until its end', async (storage) => {
    await completed(storage, 'call')
    const end = T + MINUTE
    expect((await storage.claimSettlement('call', signed(keyOf('call')), { now: T, until: end })).kind).toBe('yours')
    const next = (now: number) => storage.claimSettlement('call', undefined, { now, until: now + MINUTE })
    expect(await next(end - 1)).toEqual({ kind: 'taken', until: end })
    expect((await next(end)).kind).toBe('retry')
  }),
  portLaw('claimSettlement() stores the result in the same step, and only the first', async (storage) => {
    await opened(storage, 'call')
    await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'in_progress', startedAt: T })
    const first = { result: { made: [1] }, expiresAt: T + HOUR }
    const claim = await storage.claimSettlement('call', signed(keyOf('call')), {
      now: T + 5,
      until: T + MINUTE,
      result: first,
    })
    expect(claim.kind).toBe('yours')
    const stored = {
      workStatus: 'completed',
      paymentStatus: 'settling',
      result: { made: [1] },
      startedAt: T,
      endedAt: T + 5,
      expiresAt: T + HOUR,
    }
    expect(await storage.getCall('call')).toMatchObject(stored)
    const second = { result: { made: [2] }, expiresAt: T + 9 * HOUR }
    await storage.claimSettlement('call', signed(keyOf('call')), { now: T + 6, until: T + MINUTE, result: second })
    await storage.claimSettlement('call', signed(keyOf('call')), {
      now: T + HOUR,
      until: T + 2 * HOUR,
      result: second,
    })
    expect(await storage.getCall('call')).toMatchObject(stored)
  }),
  portLaw('claimSettlement() finds nothing to settle where there is no result', async (storage) => {
    const claim = (id: string, more = {}) => storage.claimSettlement(id, signed(keyOf(id)), { ...at(), ...more })
    const result = { result: 1, expiresAt: T + HOUR }
    expect(await claim('nobody', { result })).toEqual({ kind: 'nothing' })
    await opened(storage, 'call')
    expect(await claim('call')).toEqual({ kind: 'nothing' })
    await storage.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'in_progress' })
    expect(await claim('call')).toEqual({ kind: 'nothing' })
    await storage.moveCall('call', { workStatus: ['in_progress'] }, { workStatus: 'failed', error: 'upstream' })
    expect(await claim('call', { result })).toEqual({ kind: 'nothing' })
    expect(await storage.getCall('call')).toMatchObject({
      workStatus: 'failed',
      paymentStatus: 'verified',
      result: null,
    })
  }),
  portLaw('an authorization that opened a call pays for no other', async (storage) => {
    await opened(storage, 'owner')
    await withDeadOriginal(storage, 'thief')
    const before = await storage.getCall('thief')
    const claim = await storage.claimSettlement('thief', signed(keyOf('owner')), at())
    expect(claim).toMatchObject({ kind: 'replayed', call: { id: 'owner' } })
    expect(await storage.getCall('thief')).toEqual(before)
    expect((await storage.callOf(keyOf('owner'), T))?.id).toBe('owner')
  }),
  portLaw('an authorization claimed for a call opens no other', async (storage) => {
    await withDeadOriginal(storage, 'owner')
    expect((await storage.claimSettlement('owner', signed('fresh'), at())).kind).toBe('yours')
    expect((await storage.openCall(newCall('thief'), signed('fresh'), at(T + 10 * HOUR))).kind).toBe('replayed')
  }),
  law('an authorization offered for two jobs at once pays for one', async (subject) => {
    const [one, two] = await handles(subject)
    await withDeadOriginal(one, 'left')
    await withDeadOriginal(one, 'right')
    const answers = await Promise.all([
      one.claimSettlement('left', signed('fresh'), at()),
      two.claimSettlement('right', signed('fresh'), at()),
    ])
    expect(kinds(answers)).toEqual({ yours: 1, replayed: 1 })
  }),
  portLaw('claimSettlement() takes over an authorization that its call has no more use for', async (storage) => {
    await opened(storage, 'failed')
    await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    await withDeadOriginal(storage, 'one')
    expect((await storage.claimSettlement('one', signed(keyOf('failed')), at())).kind).toBe('yours')

    await opened(storage, 'lost', { until: T + 1 })
    await withDeadOriginal(storage, 'two')
    expect((await storage.claimSettlement('two', signed(keyOf('lost')), at(T + MINUTE))).kind).toBe('yours')
    expect(await storage.getCall('lost')).toMatchObject({ workStatus: 'failed', endedAt: T + MINUTE })
  }),
  portLaw('every earlier authorization is proven dead before another is spent', async (storage) => {
    await completed(storage, 'call')
    const claim = (key: string, now: number) =>
      storage.claimSettlement('call', signed(key, T + 9 * HOUR), { now, until: now + MINUTE })
    const original = { kind: 'retry', authorization: { key: keyOf('call') }, sent: false }
    const first = await claim('second', T)
    expect(first).toMatchObject(original)
    await storage.finishSettlement('call', tokenOf(first), { kind: 'refused' }, { now: T })
    const again = await claim('second', T)
    expect(again).toMatchObject(original)
    await storage.finishSettlement('call', tokenOf(again), { kind: 'dead' }, { now: T })
    expect((await claim('second', T)).kind).toBe('yours')
    const expired = await claim('third', T + HOUR)
    expect(expired).toMatchObject({ kind: 'retry', authorization: { key: 'second' } })
    expect(await storage.callOf('third', T + HOUR)).toBeUndefined()
    await storage.finishSettlement('call', tokenOf(expired), { kind: 'dead' }, { now: T + HOUR })
    expect((await claim('third', T + HOUR)).kind).toBe('yours')
  }),
  portLaw('a dead authorization is never handed out again', async (storage) => {
    await withDeadOriginal(storage, 'call')
    expect((await storage.getCall('call'))?.paymentStatus).toBe('refused')
    expect(await storage.claimSettlement('call', signed(keyOf('call')), at())).toEqual({ kind: 'nothing' })
    expect(await storage.claimSettlement('call', undefined, at())).toEqual({ kind: 'nothing' })
  }),
  portLaw(
    'an authorization that was over when it was claimed does not count as sent, until someone says that it may have been',
    async (storage) => {
      const end = T + HOUR
      await completed(storage, 'call', { expiresAt: end })
      await claimed(storage, 'call', end)
      const claim = await storage.claimSettlement('call', undefined, at(end + HOUR))
      expect(claim).toMatchObject({ kind: 'retry', sent: false, authorization: { key: keyOf('call') } })
      await storage.finishSettlement('call', tokenOf(claim), { kind: 'unknown' }, { now: end + HOUR })
      expect(await storage.claimSettlement('call', undefined, at(end + HOUR))).toMatchObject({
        kind: 'retry',
        sent: true,
      })
    },
  ),
  portLaw('an expired lease hands over the earlier authorization, which may have been sent', async (storage) => {
    const original = signed(keyOf('call'), T + 1)
    await completed(storage, 'call', { expiresAt: T + 1 })
    const first = await claimed(storage, 'call')
    for (const [n, offered] of [undefined, signed('another'), original].entries()) {
      const now = T + (n + 1) * HOUR
      const claim = await storage.claimSettlement('call', offered, { now, until: now + MINUTE })
      expect(claim).toMatchObject({ kind: 'retry', sent: true, authorization: original })
      expect(tokenOf(claim)).not.toBe(first)
    }
  }),
  portLaw('tokens only grow', async (storage) => {
    await completed(storage, 'call')
    const tokens: number[] = []
    for (const n of [0, 1, 2, 3]) {
      tokens.push(await claimed(storage, 'call', T + n * HOUR))
      if (n === 0) await storage.finishSettlement('call', tokens[n] ?? 0, { kind: 'refused' }, { now: T })
    }
    expect(tokens.toSorted((a, b) => a - b)).toEqual(tokens)
    expect(new Set(tokens).size).toBe(4)
  }),
]

const finishing: readonly Law<Storage>[] = [
  portLaw('only the current token ends a claim', async (storage) => {
    await completed(storage, 'call')
    const stale = await claimed(storage, 'call')
    const current = await claimed(storage, 'call', T + HOUR)
    const now = T + HOUR + 1
    const before = await storage.getCall('call')
    for (const kind of ['unknown', 'refused', 'dead', 'unresolved'] as const) {
      expect(await storage.finishSettlement('call', stale, { kind }, { now, expiresAt: 1 })).toBe(false)
    }
    expect(await storage.getCall('call')).toEqual(before)
    expect((await storage.claimSettlement('call', undefined, { now, until: now + 1 })).kind).toBe('taken')
    expect(await storage.finishSettlement('nobody', 1, { kind: 'dead' }, { now })).toBe(false)
    expect(await storage.finishSettlement('call', current, { kind: 'dead' }, { now })).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('refused')
  }),
  portLaw('the token of an ended claim is stale', async (storage) => {
    await completed(storage, 'call')
    const token = await claimed(storage, 'call')
    expect(await storage.finishSettlement('call', token, { kind: 'refused' }, { now: T })).toBe(true)
    for (const kind of ['unknown', 'refused', 'dead', 'unresolved'] as const) {
      expect(await storage.finishSettlement('call', token, { kind }, { now: T })).toBe(false)
    }
    expect((await storage.getCall('call'))?.paymentStatus).toBe('refused')
  }),
  portLaw('a payment is recorded whatever the token says', async (storage) => {
    await completed(storage, 'call')
    const stale = await claimed(storage, 'call')
    const current = await claimed(storage, 'call', T + HOUR)
    expect(await storage.finishSettlement('call', stale, { kind: 'paid', receipt: receipt() }, { now: T + HOUR })).toBe(
      true,
    )
    expect(await storage.getCall('call')).toMatchObject({
      paymentStatus: 'settled',
      settledAt: T + HOUR,
      receipt: receipt(),
    })
    expect(await storage.finishSettlement('call', current, { kind: 'refused' }, { now: T + HOUR })).toBe(false)
    expect(await storage.claimSettlement('call', signed('another'), at(T + HOUR))).toEqual({
      kind: 'settled',
      receipt: receipt(),
    })
    expect(await storage.finishSettlement('nobody', 1, { kind: 'paid', receipt: receipt() }, { now: T })).toBe(false)
  }),
  portLaw('a settled call stays settled, with its first receipt', async (storage) => {
    await completed(storage, 'call')
    const token = await claimed(storage, 'call')
    await storage.finishSettlement('call', token, { kind: 'paid', receipt: receipt() }, { now: T })
    const before = await storage.getCall('call')
    const again = { now: T + HOUR, expiresAt: T + 9 * HOUR }
    expect(await storage.finishSettlement('call', token, { kind: 'paid', receipt: receipt('0xother') }, again)).toBe(
      true,
    )
    for (const kind of ['unknown', 'refused', 'dead', 'unresolved'] as const) {
      expect(await storage.finishSettlement('call', token, { kind }, again)).toBe(false)
    }
    expect(await storage.getCall('call')).toEqual(before)
    expect(before).toMatchObject({ paymentStatus: 'settled', receipt: receipt() })
  }),
  portLaw('the end of a claim moves the end of the shelf life where told', async (storage) => {
    for (const [id, kind] of [
      ['a', 'refused'],
      ['b', 'unknown'],
    ] as const) {
      await completed(storage, id, {}, T + HOUR)
      await storage.finishSettlement(id, await claimed(storage, id), { kind }, { now: T })
      expect((await storage.getCall(id))?.expiresAt).toBe(T + HOUR)
    }
    const paid: Outcome = { kind: 'paid', receipt: receipt() }
    await storage.finishSettlement('a', await claimed(storage, 'a'), paid, { now: T, expiresAt: T + 9 * HOUR })
    expect((await storage.getCall('a'))?.expiresAt).toBe(T + 9 * HOUR)
  }),
  portLaw('a refused original stays with its call, unsent', async (storage) => {
    await completed(storage, 'call')
    expect(
      await storage.finishSettlement('call', await claimed(storage, 'call'), { kind: 'refused' }, { now: T }),
    ).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('refused')
    const again = await storage.claimSettlement('call', signed(keyOf('call')), at())
    expect(again.kind).toBe('yours')
    await storage.finishSettlement('call', tokenOf(again), { kind: 'refused' }, { now: T })
    const unasked = await storage.claimSettlement('call', undefined, at())
    expect(unasked).toMatchObject({ kind: 'retry', sent: false, authorization: { key: keyOf('call') } })
  }),
  portLaw('a refused later authorization is freed', async (storage) => {
    await withDeadOriginal(storage, 'call')
    const claim = await storage.claimSettlement('call', signed('fresh'), at())
    expect(await storage.finishSettlement('call', tokenOf(claim), { kind: 'refused' }, { now: T })).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('refused')
    expect(await storage.callOf('fresh', T)).toBeUndefined()
    expect((await storage.openCall(newCall('other'), signed('fresh'), at())).kind).toBe('opened')
  }),
  portLaw('a refusal frees nothing that may have been sent before', async (storage) => {
    await completed(storage, 'one')
    await withDeadOriginal(storage, 'two')
    for (const [id, key] of [
      ['one', keyOf('one')],
      ['two', 'fresh'],
    ] as const) {
      await storage.claimSettlement(id, signed(key), at())
      const token = await claimed(storage, id, T + HOUR)
      expect(await storage.finishSettlement(id, token, { kind: 'refused' }, { now: T + HOUR })).toBe(true)
      expect((await storage.getCall(id))?.paymentStatus).toBe('settling')
      const again = await storage.claimSettlement(id, signed('another'), at(T + HOUR))
      expect(again).toMatchObject({ kind: 'retry', sent: true, authorization: { key } })
    }
  }),
  portLaw('an unknown outcome is due for another look at once', async (storage) => {
    await completed(storage, 'call')
    const token = await claimed(storage, 'call')
    expect(await storage.unsettled(T, 9)).toEqual([])
    expect(await storage.finishSettlement('call', token, { kind: 'unknown' }, { now: T })).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('settling')
    expect(ids(await storage.unsettled(T, 9))).toEqual(['call'])
    expect(await storage.claimSettlement('call', signed(keyOf('call')), at())).toMatchObject({
      kind: 'retry',
      sent: true,
    })
  }),
  portLaw('unsettled() lists claims that ran out, longest first', async (storage) => {
    for (const [id, end] of [
      ['b', 20],
      ['a', 10],
      ['c', 30],
      ['later', 31],
    ] as const) {
      await completed(storage, id)
      await storage.claimSettlement(id, signed(keyOf(id)), { now: T, until: T + end })
    }
    for (const kind of ['refused', 'paid'] as const) {
      await completed(storage, kind)
      const outcome: Outcome = kind === 'paid' ? { kind, receipt: receipt() } : { kind }
      await storage.finishSettlement(kind, await claimed(storage, kind), outcome, { now: T })
    }
    await completed(storage, 'never claimed')
    expect(ids(await storage.unsettled(T + 30, 9))).toEqual(['a', 'b', 'c'])
    expect(ids(await storage.unsettled(T + 30, 2))).toEqual(['a', 'b'])
  }),
  portLaw('unsettled() of one gateway is not crowded out by those of another', async (storage) => {
    for (const [id, gateway, end] of [
      ['first', 'other', 10],
      ['second', 'other', 20],
      ['own', 'devnet', 30],
    ] as const) {
      await opened(storage, id, { gateway })
      const result = { result: 1, expiresAt: T + HOUR }
      await storage.claimSettlement(id, signed(keyOf(id)), { now: T, until: T + end, result })
    }
    expect(ids(await storage.unsettled(T + 30, 2, 'devnet'))).toEqual(['own'])
    expect(ids(await storage.unsettled(T + 30, 9, 'other')).toSorted()).toEqual(['first', 'second'])
    expect(await storage.unsettled(T + 30, 9, 'third')).toEqual([])
  }),
  portLaw('an unresolved call is left to people, and may still settle', async (storage) => {
    await completed(storage, 'call')
    const token = await claimed(storage, 'call')
    expect(await storage.finishSettlement('call', token, { kind: 'unresolved' }, { now: T })).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('unresolved')
    expect(await storage.unsettled(T + 10 * HOUR, 9)).toEqual([])
    const claim = await storage.claimSettlement('call', undefined, at())
    expect(claim).toMatchObject({ kind: 'retry', sent: true })
    expect(
      await storage.finishSettlement('call', tokenOf(claim), { kind: 'paid', receipt: receipt() }, { now: T }),
    ).toBe(true)
    expect((await storage.getCall('call'))?.paymentStatus).toBe('settled')
  }),
]

const keeping: readonly Law<Storage>[] = [
  law('putRecord() gives one winner among twenty racers', async (subject) => {
    const [one, two] = await handles(subject)
    const answers = await Promise.all(times(20, (n) => (n % 2 ? one : two).putRecord(record({ data: n }), T)))
    expect(answers.filter(Boolean)).toEqual([true])
    expect((await one.getRecord('asset', 'a', T))?.data).toBe(answers.indexOf(true))
  }),
  portLaw('a record lives exactly until its end, and then makes room', async (storage) => {
    const end = T + HOUR
    expect(await storage.putRecord(record({ expiresAt: end, data: 1 }), T)).toBe(true)
    expect(await storage.putRecord(record({ data: 2 }), end - 1)).toBe(false)
    expect((await storage.getRecord('asset', 'a', end - 1))?.data).toBe(1)
    expect(await storage.getRecord('asset', 'a', end)).toBeUndefined()
    expect(await storage.moveRecord(record({ expiresAt: end + HOUR, data: 2 }), 1, end)).toBe(false)
    expect(await storage.putRecord(record({ owner: 'another', expiresAt: end + 1, data: 2 }), end)).toBe(true)
    expect(await storage.getRecord('asset', 'a', end)).toEqual(
      record({ owner: 'another', expiresAt: end + 1, data: 2 }),
    )
  }),
  portLaw('a record comes back as it was given, and nobody holds it', async (storage) => {
    const odd = { text: 'naïve \u{1F3AB} \u0000 "quoted"', list: [1, -2.5, true, null, { deep: [] }], empty: {} }
    const records = [
      record({ data: odd, expiresAt: Number.MAX_SAFE_INTEGER }),
      record({ id: 'b', data: null }),
      record({ kind: 'number', data: 'the same id of another kind' }),
      record({ kind: 'as', id: 'seta', data: 'not the first, however it is spelled' }),
    ]
    for (const each of records) {
      const given = structuredClone(each)
      const isStored = storage.putRecord(given, T)
      spoil(given)
      expect(await isStored).toBe(true)
    }
    for (const each of records) {
      const read = () => storage.getRecord(each.kind, each.id, T)
      spoil(await read())
      expect(await read()).toEqual(each)
    }
    expect(await storage.getRecord('number', 'b', T)).toBeUndefined()
  }),
  law('moveRecord() is won once among twenty racers', async (subject) => {
    const [one, two] = await handles(subject)
    await one.putRecord(record({ data: { call: 'first' } }), T)
    const answers = await Promise.all(
      times(20, (n) => (n % 2 ? one : two).moveRecord(record({ data: { call: n } }), { call: 'first' }, T)),
    )
    expect(answers.filter(Boolean)).toEqual([true])
    expect((await two.getRecord('asset', 'a', T))?.data).toEqual({ call: answers.indexOf(true) })
  }),
  portLaw('moveRecord() applies only to what its caller has seen, and may name another owner', async (storage) => {
    const seen = { one: 1, list: [1, { two: 2 }], none: null }
    expect(await storage.moveRecord(record(), null, T)).toBe(false)
    await storage.putRecord(record({ data: seen }), T)
    const others: readonly Json[] = [
      null,
      1,
      {},
      [],
      { ...seen, one: 2 },
      { ...seen, more: 1 },
      { one: 1, list: [1, { two: 2 }] },
      { ...seen, list: [{ two: 2 }, 1] },
      { ...seen, list: { 0: 1, 1: { two: 2 } } },
    ]
    for (const other of others) expect([other, await storage.moveRecord(record(), other, T)]).toEqual([other, false])
    expect(await storage.moveRecord(record({ id: 'b' }), seen, T)).toBe(false)
    expect(await storage.getRecord('asset', 'a', T)).toEqual(record({ data: seen }))
    const next = record({ data: 'next', expiresAt: T + 2 * HOUR })
    expect(await storage.moveRecord(next, { none: null, list: [1, { two: 2 }], one: 1 }, T)).toBe(true)
    expect(await storage.getRecord('asset', 'a', T)).toEqual(next)
    const given = { ...next, owner: 'another', data: 'given away' }
    expect(await storage.moveRecord(given, 'next', T)).toBe(true)
    expect(await storage.listRecords('asset', 'another', { now: T, limit: 9 })).toEqual([given])
    expect(await storage.listRecords('asset', PAYER, { now: T, limit: 9 })).toEqual([])
  }),
  law('listRecords() lists the living records of a kind and owner, and no others', async (subject) => {
    const [one, two] = await handles(subject)
    const ours = [
      record({ id: 'a', data: { n: 1 } }),
      record({ id: 'b', data: null }),
      record({ id: 'c', expiresAt: Number.MAX_SAFE_INTEGER }),
    ]
    const others = [
      record({ id: 'd', owner: 'another' }),
      record({ id: 'a', kind: 'number' }),
      record({ id: 'e', kind: 'asset2' }),
      record({ id: 'f', expiresAt: T + 1 }),
    ]
    expect(await one.listRecords('asset', PAYER, { now: T, limit: 10 })).toEqual([])
    for (const each of [...others, ...ours]) expect(await one.putRecord(each, T)).toBe(true)
    const listed = async (now = T + 1, limit = 10) => await two.listRecords('asset', PAYER, { now, limit })
    expect(await listed()).toEqual(ours)
    expect((await listed(T)).map(({ id }) => id)).toEqual(['a', 'b', 'c', 'f'])
    expect((await listed(T + HOUR)).map(({ id }) => id)).toEqual(['c'])
    expect(await listed(T + 1, 2)).toHaveLength(2)
    spoil(await one.listRecords('asset', PAYER, { now: T, limit: 10 }))
    expect(await one.moveRecord(record({ id: 'b', data: 'moved' }), null, T)).toBe(true)
    expect((await listed())[1]).toEqual(record({ id: 'b', data: 'moved' }))
    expect(await two.listRecords('asset', PAYER.toUpperCase(), { now: T, limit: 10 })).toEqual([])
  }),
  law('listRecords() pages through all records by id, whatever moves meanwhile', async (subject) => {
    const [one, two] = await handles(subject)
    const ids = times(25, (n) => `asset-${String(n * 7919).padStart(6, '0')}`)
    for (const id of ids.toReversed()) await one.putRecord(record({ id, data: 0 }), T)
    for (const id of ids.slice(0, 3)) await one.putRecord(record({ id, owner: 'another', kind: 'number' }), T)
    const found: string[] = []
    for (let after = ''; ;) {
      const page = await two.listRecords('asset', PAYER, { now: T, after, limit: 10 })
      found.push(...page.map(({ id }) => id))
      const last = page.at(-1)
      if (!last) break
      after = last.id
      expect(await one.moveRecord({ ...last, data: 1, expiresAt: T + 9 * HOUR }, 0, T)).toBe(true)
      const [first] = page
      if (first) expect(await one.moveRecord({ ...first, data: 1, owner: 'another' }, 0, T)).toBe(true)
    }
    expect(found).toEqual(ids)
  }),
]

const upkeep: readonly Law<Storage>[] = [
  law('two handles on one database agree', async (subject) => {
    const [one, two] = await handles(subject)
    await opened(one, 'call', { workerId: 'me' })
    expect(await two.getCall('call')).toEqual((await one.getCall('call')) as Call)
    await two.moveCall('call', { workStatus: ['queued'] }, { workStatus: 'completed', result: { from: 'two' } })
    expect(await one.getCall('call')).toMatchObject({ workStatus: 'completed', result: { from: 'two' } })
    const token = await claimed(one, 'call')
    expect((await two.claimSettlement('call', undefined, at())).kind).toBe('taken')
    expect(await two.finishSettlement('call', token, { kind: 'paid', receipt: receipt() }, { now: T })).toBe(true)
    expect(await one.getCall('call')).toMatchObject({ paymentStatus: 'settled', receipt: receipt() })
    expect(await one.lease('sweep', 'one', { now: T, until: T + HOUR })).toBe(true)
    expect(await two.lease('sweep', 'two', { now: T, until: T + HOUR })).toBe(false)
  }),
  law('a lease has one owner, exactly until its end', async (subject) => {
    const [one, two] = await handles(subject)
    const answers = await Promise.all(
      times(20, (n) => (n % 2 ? one : two).lease('sweep', `racer ${n}`, { now: T, until: T + 10 })),
    )
    expect(answers.filter(Boolean).length).toBe(1)
    const winner = `racer ${answers.indexOf(true)}`
    expect(await one.lease('relayer', 'other', { now: T, until: T + 99 })).toBe(true)
    expect(await one.lease('sweep', winner, { now: T + 5, until: T + 20 })).toBe(true)
    expect(await one.lease('sweep', 'other', { now: T + 19, until: T + 99 })).toBe(false)
    expect(await one.lease('sweep', 'other', { now: T + 20, until: T + 99 })).toBe(true)
    expect(await one.lease('sweep', winner, { now: T + 21, until: T + 99 })).toBe(false)
    expect(await one.lease('sweep', 'other', { now: T + 22, until: T + 22 })).toBe(true)
    expect(await one.lease('sweep', winner, { now: T + 22, until: T + 99 })).toBe(true)
  }),
  law('a rate window grants its limit and no more, until it resets', async (subject) => {
    const [one, two] = await handles(subject)
    const bucket = { key: 'chat:203.0.113.9', limit: 10, windowMs: 1_000 }
    const raced = await Promise.all(times(20, (n) => (n % 2 ? one : two).hit(bucket, 3, T + n)))
    expect(raced.reduce((sum, { granted }) => sum + granted, 0)).toBe(10)
    expect(
      raced
        .map(({ granted }) => granted)
        .toSorted((a, b) => b - a)
        .slice(0, 5),
    ).toEqual([3, 3, 3, 1, 0])
    const resetAt = raced[0]?.resetAt ?? 0
    expect(await one.hit(bucket, 1, resetAt - 1)).toEqual({ granted: 0, resetAt })
    expect(await one.hit({ ...bucket, key: 'chat:203.0.113.10' }, 1, resetAt - 1)).toMatchObject({ granted: 1 })
    expect(await one.hit(bucket, 1, resetAt)).toEqual({ granted: 1, resetAt: resetAt + 1_000 })
    expect(await one.hit(bucket, 99, resetAt)).toEqual({ granted: 9, resetAt: resetAt + 1_000 })
  }),
  law(
    'a rate limit that several processes share grants its number, and at most a twentieth more for each',
    async (subject) => {
      const [one, two] = await handles(subject)
      const processes = [limits(one), limits(two), limits(one)]
      const hourly = { requests: 100, windowMs: HOUR }
      // A process that the caller reaches once keeps nothing from the others.
      let granted = Number((await limits(two).take('models', '192.0.2.1', hourly, T)).granted)
      for (let at = 0; at < 150; at++) {
        const [process = limits(one)] = processes.slice(Math.floor(at / 3) % 3)
        granted += Number((await process.take('models', '192.0.2.1', hourly, T)).granted)
      }
      expect(granted).toBeGreaterThanOrEqual(100)
      expect(granted).toBeLessThanOrEqual(100 + 4 * 4)
    },
  ),
  portLaw('prune() deletes nothing alive', async (storage) => {
    const past = T + 10 * HOUR
    const alive: string[] = []
    const store = async (
      id: string,
      outcome: Outcome | undefined,
      more: { expiresAt?: number; callExpiresAt?: number } = {},
    ) => {
      await completed(storage, id, { expiresAt: more.expiresAt ?? T + HOUR }, more.callExpiresAt ?? T)
      if (outcome) await storage.finishSettlement(id, await claimed(storage, id), outcome, { now: T })
      alive.push(id)
    }
    await store('settling', { kind: 'unknown' })
    await store('unresolved', { kind: 'unresolved' })
    await store('payable', undefined, { expiresAt: past + 1 })
    await store('refused and payable', { kind: 'refused' }, { expiresAt: past + 1 })
    await store('unclaimed', undefined, { callExpiresAt: past + 1 })
    await store('settled', { kind: 'paid', receipt: receipt() }, { callExpiresAt: past + 1 })
    await opened(storage, 'unfinished', { expiresAt: T + HOUR }, T)
    alive.push('unfinished')
    await storage.lease('sweep', 'me', { now: T, until: past + 1 })
    const bucket = { key: 'chat', limit: 1, windowMs: past + 1 - T }
    await storage.hit(bucket, 1, T)
    await storage.putRecord(record({ expiresAt: past + 1 }), T)
    const before = await Promise.all(alive.map((id) => storage.getCall(id)))

    expect(await storage.prune(past)).toBe(0)
    expect(await Promise.all(alive.map((id) => storage.getCall(id)))).toEqual(before)
    expect(await storage.lease('sweep', 'you', { now: past - 1, until: past + 1 })).toBe(false)
    expect(await storage.hit(bucket, 1, past)).toEqual({ granted: 0, resetAt: past + 1 })
    expect(await storage.getRecord('asset', 'a', past)).toEqual(record({ expiresAt: past + 1 }))
  }),
  portLaw('prune() empties settled calls, and forgets those that can no longer be paid', async (storage) => {
    const past = T + HOUR
    const old = async (id: string, outcome?: Outcome) => {
      await completed(storage, id, { expiresAt: past }, past)
      if (outcome) await storage.finishSettlement(id, await claimed(storage, id), outcome, { now: T })
    }
    await old('settled', { kind: 'paid', receipt: receipt() })
    await old('unclaimed')
    await old('refused', { kind: 'refused' })
    await old('dead', { kind: 'dead' })
    await opened(storage, 'failed', { expiresAt: past + HOUR }, past)
    await storage.moveCall('failed', { workStatus: ['queued'] }, { workStatus: 'failed', error: 'upstream' })
    await storage.lease('sweep', 'me', { now: T, until: past })
    await storage.hit({ key: 'chat', limit: 9, windowMs: HOUR }, 1, T)
    await storage.putRecord(record({ expiresAt: past }), T)
    const settled = await storage.getCall('settled')

    expect(await storage.prune(past)).toBe(8)
    expect(await storage.getCall('settled')).toEqual({ ...settled, request: null, result: null } as Call)
    for (const id of ['unclaimed', 'refused', 'dead', 'failed']) {
      expect(await storage.getCall(id)).toBeUndefined()
      expect((await storage.openCall(newCall(`again ${id}`), signed(keyOf(id)), at(past))).kind).toBe('opened')
    }
    expect(await storage.prune(past)).toBe(0)
  }),
  portLaw('a settled call that was emptied still refuses its authorization', async (storage) => {
    await completed(storage, 'call', { expiresAt: T + 9 * HOUR }, T + HOUR)
    await storage.finishSettlement(
      'call',
      await claimed(storage, 'call'),
      { kind: 'paid', receipt: receipt() },
      { now: T },
    )
    await storage.prune(T + 2 * HOUR)
    expect((await storage.callOf(keyOf('call'), T + 2 * HOUR))?.id).toBe('call')
    expect((await storage.openCall(newCall('thief'), signed(keyOf('call')), at(T + 2 * HOUR))).kind).toBe('replayed')
    expect(await storage.claimSettlement('call', signed('another'), at(T + 2 * HOUR))).toEqual({
      kind: 'settled',
      receipt: receipt(),
    })
  }),
]

const spending: readonly Law<Storage>[] = [
  portLaw('claimSettlement() keeps how many tokens the result took, of the first result only', async (storage) => {
    const claim = (id: string, usage?: Usage | null) =>
      storage.claimSettlement(id, signed(keyOf(id)), {
        ...at(),
        result: { result: 1, expiresAt: T + HOUR, ...(usage !== undefined && { usage }) },
      })
    const used = async (id: string) => (await storage.getCall(id))?.usage
    for (const id of ['counted', 'uncounted', 'without']) await opened(storage, id)
    await claim('counted', { input: 12, output: 34 })
    await claim('counted', { input: 56, output: 78 })
    await claim('uncounted', null)
    await claim('without')
    expect(await used('counted')).toEqual({ input: 12, output: 34 })
    expect([await used('uncounted'), await used('without')]).toEqual([null, null])
  }),
  law(
    'claimSettlement() keeps what is charged with the first result, and says it to every later claim',
    async (subject) => {
      const [storage, another] = await handles(subject)
      const claim = (charge: bigint) =>
        storage.claimSettlement('call', signed(keyOf('call')), {
          ...at(),
          result: { result: 1, expiresAt: T + HOUR, charge: usdc(charge) },
        })
      await opened(storage, 'call')
      const first = await claim(123n)
      expect(first).toMatchObject({ kind: 'yours', charge: usdc(123n) })
      expect((await another.getCall('call'))?.charge).toBe(usdc(123n))
      expect(await exposed(another, T)).toBe(123n)
      await storage.finishSettlement('call', tokenOf(first), { kind: 'unknown' }, { now: T })
      const second = await claim(456n)
      expect(second).toMatchObject({ kind: 'retry', charge: usdc(123n) })
      expect((await storage.getCall('call'))?.charge).toBe(usdc(123n))
      const paid = { kind: 'paid', receipt: { ...receipt(), amount: '123' } } as const
      await storage.finishSettlement('call', tokenOf(second), paid, { now: T })
      expect(await spentOn(another)).toEqual([123n])
    },
  ),
  portLaw('spendByModel() sums what was settled, and nothing else', async (storage) => {
    await spent(storage, 'one', { settledAt: T + 1, usage: { input: 100, output: 7 } })
    await spent(storage, 'two', { settledAt: T + 3, usage: { input: 20, output: 1 } })
    await spent(storage, 'three', { settledAt: T + 2 })
    await spent(storage, 'of another', { payer: '0xsomebody' })
    for (const kind of ['unknown', 'refused', 'dead', 'unresolved'] as const) {
      await completed(storage, kind)
      await storage.finishSettlement(kind, await claimed(storage, kind), { kind }, { now: T })
    }
    await completed(storage, 'claimed')
    await claimed(storage, 'claimed')
    await completed(storage, 'completed')
    await opened(storage, 'queued')
    await opened(storage, 'failed')
    await storage.moveCall(
      'failed',
      { workStatus: ['queued'] },
      { workStatus: 'failed', error: 'upstream', usage: { input: 1, output: 1 } },
    )
    const sum = { ...DEMO, calls: 3, spent: usdc(30_000n), inputTokens: 120, outputTokens: 8, lastAt: T + 3 }
    expect(await storage.spendByModel(PAYER, T)).toEqual([sum])
    expect(await storage.spendByModel('0xnobody', T)).toEqual([])
  }),
  portLaw(
    'spendByModel() sums what the receipts say, exactly, and the quote where one does not say it in base units',
    async (storage) => {
      const amounts = [
        '0',
        '1',
        '9007199254740993',
        '999999999',
        '1000000000',
        '9223372036854775809',
        '99999999999999999999',
      ]
      for (const [n, amount] of amounts.entries()) await spent(storage, `call ${n}`, { amount })
      const sum = amounts.reduce((all, each) => all + BigInt(each), 0n)
      expect(await spentOn(storage)).toEqual([usdc(sum)])
      for (const [n, amount] of ['0.01', '', '-5', '007', '1e6'].entries())
        await spent(storage, `odd ${n}`, { amount, quote: usdc(LARGEST - BigInt(n)) })
      expect(await spentOn(storage)).toEqual([usdc(sum + 5n * LARGEST - 10n)])
    },
  ),
  portLaw('spendByModel() begins exactly at the time that it is given', async (storage) => {
    await spent(storage, 'early', { settledAt: T - 1, amount: '1' })
    await spent(storage, 'exact', { settledAt: T, amount: '2' })
    await spent(storage, 'late', { settledAt: T + HOUR, amount: '4' })
    expect(await spentOn(storage, T - 1)).toEqual([usdc(7n)])
    expect(await spentOn(storage, T)).toEqual([usdc(6n)])
    expect(await spentOn(storage, T + 1)).toEqual([usdc(4n)])
    expect(await spentOn(storage, T + HOUR + 1)).toEqual([])
    const midnight = Math.floor(T / DAY) * DAY
    await spent(storage, 'the night before', { settledAt: midnight - 1, amount: '8' })
    await spent(storage, 'at midnight', { settledAt: midnight, amount: '16' })
    await spent(storage, 'last week', { settledAt: midnight - 7 * DAY, amount: '32' })
    for (const [since, sum] of [
      [midnight + 1, 7n],
      [midnight, 23n],
      [midnight - 1, 31n],
      [midnight - DAY, 31n],
      [midnight - 7 * DAY, 63n],
      [midnight - 7 * DAY + 1, 31n],
      [0, 63n],
    ] as const)
      expect([since, await spentOn(storage, since)]).toEqual([since, [usdc(sum)]])
  }),
  portLaw(
    'spendByModel() keeps gateways, endpoints, models and assets apart, dearest first, then by name',
    async (storage) => {
      const same: readonly Partial<NewCall>[] = [
        { endpoint: 'chat', model: null },
        { endpoint: 'chat', model: '' },
        { endpoint: 'chat', model: 'A' },
        { endpoint: 'chat', model: '\u0000' },
        { endpoint: 'chat', model: 'a', asset: 'eip155:1/0xother' },
        { endpoint: 'chat', model: 'a', asset: 'eip155:1/0xother', gateway: 'elsewhere' },
        { endpoint: 'chat', model: '\u{1F3AB}' },
        { endpoint: 'Chat', model: 'z' },
      ]
      await spent(storage, 'dearest', { endpoint: 'video', model: 'last in the alphabet', amount: '60' })
      for (const [n, shape] of same.entries()) {
        for (const part of ['first', 'second']) await spent(storage, `call ${n} ${part}`, { ...shape, amount: '5' })
      }
      await spent(storage, 'cheapest', { endpoint: 'audio', model: null, amount: '9' })
      expect(await storage.spendByModel(PAYER, T - 2 * DAY)).toEqual(await storage.spendByModel(PAYER, T))
      const order = (await storage.spendByModel(PAYER, T)).map(
        ({ endpoint, model, gateway, asset, calls, spent: sum }) => [endpoint, model, gateway, asset, calls, sum],
      )
      expect(order).toEqual([
        ['video', 'last in the alphabet', 'devnet', ASSET, 1, usdc(60n)],
        ['Chat', 'z', 'devnet', ASSET, 2, usdc(10n)],
        ['chat', null, 'devnet', ASSET, 2, usdc(10n)],
        ['chat', '', 'devnet', ASSET, 2, usdc(10n)],
        ['chat', '\u0000', 'devnet', ASSET, 2, usdc(10n)],
        ['chat', 'A', 'devnet', ASSET, 2, usdc(10n)],
        ['chat', 'a', 'devnet', 'eip155:1/0xother', 2, usdc(10n)],
        ['chat', 'a', 'elsewhere', 'eip155:1/0xother', 2, usdc(10n)],
        ['chat', '\u{1F3AB}', 'devnet', ASSET, 2, usdc(10n)],
        ['audio', null, 'devnet', ASSET, 1, usdc(9n)],
      ])
    },
  ),
  portLaw('spendByModel() knows a wallet by the spelling in which it is stored', async (storage) => {
    const like = '0x00000000000000000000000000000000000000A_'
    for (const [n, payer] of [PAYER, PAYER.toLowerCase(), like, `${PAYER} `].entries())
      await spent(storage, `call ${n}`, { payer, amount: `${1 << n}` })
    const sums = await Promise.all(
      [PAYER, PAYER.toLowerCase(), like, `${PAYER} `, PAYER.toUpperCase(), '%'].map((payer) =>
        spentOn(storage, T, payer),
      ),
    )
    expect(sums).toEqual([[usdc(1n)], [usdc(2n)], [usdc(4n)], [usdc(8n)], [], []])
  }),
  portLaw('what was spent, and for how many tokens, survives prune()', async (storage) => {
    await spent(storage, 'chat', { endpoint: 'chat', usage: { input: 3, output: 4 }, amount: '123' }, T + HOUR)
    await spent(storage, 'image', {}, T + HOUR)
    const before = await storage.spendByModel(PAYER, T)
    await storage.prune(T + HOUR)
    expect(await storage.spendByModel(PAYER, T)).toEqual(before)
    expect(before.length).toBe(2)
    expect(await storage.getCall('chat')).toMatchObject({ usage: { input: 3, output: 4 } })
  }),
  portLaw('pruneLedger() deletes emptied calls that settled long ago, and nothing else', async (storage) => {
    const [settledAt, past] = [T, T + HOUR]
    const settled = async (id: string, more: { expiresAt?: number; callExpiresAt?: number; at?: number } = {}) => {
      await completed(storage, id, { expiresAt: more.expiresAt ?? past }, more.callExpiresAt ?? past)
      const now = more.at ?? settledAt
      await storage.finishSettlement(id, await claimed(storage, id), { kind: 'paid', receipt: receipt() }, { now })
    }
    await settled('old')
    await settled('kept', { callExpiresAt: past + 2 * HOUR })
    await settled('spendable', { expiresAt: past + HOUR })
    await settled('young', { at: settledAt + 1 })
    await completed(storage, 'unresolved', { expiresAt: past }, past)
    await storage.finishSettlement(
      'unresolved',
      await claimed(storage, 'unresolved'),
      { kind: 'unresolved' },
      { now: T },
    )
    await storage.prune(past)
    expect(await storage.pruneLedger(settledAt - 1, past)).toBe(0)
    const [, ...others] = ['old', 'kept', 'spendable', 'young', 'unresolved']
    const before = await Promise.all(others.map((id) => storage.getCall(id)))
    expect(before.every(Boolean)).toBe(true)

    expect(await storage.pruneLedger(settledAt, past)).toBe(1)
    expect(await storage.getCall('old')).toBeUndefined()
    expect(await storage.callOf(keyOf('old'), past)).toBeUndefined()
    expect(await Promise.all(others.map((id) => storage.getCall(id)))).toEqual(before)
    expect(await storage.pruneLedger(settledAt, past)).toBe(0)
    expect(await storage.pruneLedger(settledAt + 1, past + HOUR)).toBe(2)
  }),
]

const archiving: readonly Law<Storage>[] = [
  portLaw(
    'archiveCalls() deletes paid calls whose result is gone, once, and what they paid is still counted',
    async (storage) => {
      const day = Math.floor((T - 40 * DAY) / DAY)
      const at = { settledAt: T - 40 * DAY, expiresAt: T - 39 * DAY }
      for (const [id, amount, model] of [
        ['one', '1', 'a'],
        ['two', '12000000002', 'a'],
        ['zero', '3', 'b'],
      ] as const)
        await spent(storage, id, { ...at, amount, model }, at.expiresAt)
      await spent(storage, 'fresh', { settledAt: T, amount: '4', model: 'a' })
      await storage.prune(T)
      expect((await storage.ledgerRows(T - DAY, T, 9)).map(({ id }) => id)).toEqual(['one', 'two', 'zero'])
      expect((await storage.ledgerRows(T - DAY, T, 1)).map(({ id }) => id)).toEqual(['one'])
      expect(await storage.archiveCalls(['one', 'two', 'zero', 'fresh', 'nobody'], day)).toBe(3)
      expect(await storage.archiveCalls(['one', 'two'], day)).toBe(0)
      expect(await storage.ledgerRows(T, T, 9)).toEqual([])
      expect(await storage.getCall('one')).toBeUndefined()
      expect(await storage.getCall('fresh')).toBeDefined()
      expect(await spentOn(storage, 0)).toEqual([usdc(12_000_000_007n), usdc(3n)])
      expect(await spentOn(storage, T - DAY)).toEqual([usdc(4n)])
      // Their day is that of the archive: the date of the last payment stays.
      expect((await storage.spendByModel(PAYER, 0)).map(({ calls, lastAt }) => [calls, lastAt])).toEqual([
        [3, T],
        [1, at.settledAt],
      ])
    },
  ),
]

export const storageLaws: readonly Law<Storage>[] = [
  ...opening,
  ...exposure,
  ...moves,
  ...ties,
  ...claiming,
  ...finishing,
  ...keeping,
  ...upkeep,
  ...spending,
  ...prepaidLaws,
  ...listingLaws,
  ...archiving,
]

// ── words that the laws are written in ──────────────────────────────────────────────────────────────────────────────

type Shape = Partial<NewCall> & {
  /** Of its authorization. */
  key?: string
  expiresAt?: number
  until?: number
}

const offer: Offer = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '10000',
  asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
  maxTimeoutSeconds: 300,
  extra: { name: 'USDC', version: '2' },
}

function newCall(id: string, shape: Partial<NewCall> = {}): NewCall {
  return {
    id,
    gateway: 'devnet',
    endpoint: 'images',
    model: 'sketch/small',
    payer: PAYER,
    asset: ASSET,
    quote: CENT,
    offer: structuredClone(offer),
    fingerprint: 'a'.repeat(64),
    request: { prompt: 'a cat' },
    createdAt: T,
    workerId: 'me',
    expiresAt: T + 48 * HOUR,
    ...shape,
  }
}

function signed(key: string, expiresAt = T + HOUR): Authorization {
  const payload = { signature: `0x${'5'.repeat(130)}`, authorization: { from: PAYER, nonce: key, value: '10000' } }
  return {
    key,
    payer: PAYER,
    payment: { x402Version: 2, accepted: structuredClone(offer), payload },
    offer: structuredClone(offer),
    expiresAt,
  }
}

function receipt(transaction = '0xtransaction'): Receipt {
  return { transaction, network: 'eip155:84532', payer: PAYER, amount: '10000' }
}

function keyOf(id: string): string {
  return `key of ${id}`
}

/** A verb's times: `until` is a minute ahead. */
function at<C>(now = T, cap?: C): { now: number; until: number; cap?: C } {
  return { now, until: now + MINUTE, ...(cap && { cap }) }
}

/** Opens a call that is queued, until far ahead unless told; `expiresAt` is its authorization's, `shelf` its own. */
async function opened(storage: Storage, id: string, shape: Shape = {}, callExpiresAt = T + 48 * HOUR): Promise<Call> {
  const { key = keyOf(id), until = T + 100 * HOUR, expiresAt = T + HOUR, ...call } = shape
  const answer = await storage.openCall(newCall(id, { ...call, expiresAt: callExpiresAt }), signed(key, expiresAt), {
    now: T,
    until,
  })
  if (answer.kind !== 'opened') throw new Error(`${id} should have been opened, but: ${answer.kind}`)
  return answer.call
}

function record(more: Partial<StoredRecord> = {}): StoredRecord {
  return { kind: 'asset', id: 'a', owner: PAYER, data: null, expiresAt: T + HOUR, ...more }
}

/** A call with a result, unpaid. */
async function completed(storage: Storage, id: string, shape: Shape = {}, callExpiresAt?: number): Promise<void> {
  await opened(storage, id, shape, callExpiresAt)
  await storage.moveCall(id, { workStatus: ['queued'] }, { workStatus: 'completed', result: { made: id }, endedAt: T })
}

/** Claims with the original authorization, for a minute. */
async function claimed(storage: Storage, id: string, now = T): Promise<number> {
  return tokenOf(await storage.claimSettlement(id, signed(keyOf(id)), { now, until: now + MINUTE }))
}

/** Fields of `spendByModel` for a call that is made without a shape, beside the numbers. */
const DEMO = { gateway: 'devnet', endpoint: 'images', model: 'sketch/small', asset: ASSET } satisfies Partial<Spend>

/** A settled call: `amount` is what its receipt says, `shelf` the end of its shelf life. */
async function spent(
  storage: Storage,
  id: string,
  {
    usage,
    amount = '10000',
    settledAt = T,
    ...shape
  }: Partial<NewCall> & { usage?: Usage; amount?: string; settledAt?: number },
  callExpiresAt = T + 48 * HOUR,
): Promise<void> {
  await completed(storage, id, shape, callExpiresAt)
  if (usage) await storage.moveCall(id, { workStatus: ['completed'] }, { usage })
  const outcome: Outcome = { kind: 'paid', receipt: { ...receipt(), amount } }
  await storage.finishSettlement(id, await claimed(storage, id), outcome, { now: settledAt })
}

async function spentOn(storage: Storage, since = T, payer = PAYER): Promise<bigint[]> {
  return (await storage.spendByModel(payer, since)).map((each) => each.spent)
}

/** A completed call whose original authorization has been found dead. */
async function withDeadOriginal(storage: Storage, id: string, shape: Shape = {}): Promise<void> {
  await completed(storage, id, shape)
  await storage.finishSettlement(id, await claimed(storage, id), { kind: 'dead' }, { now: T })
}

/** A payer that holds enough, and may have two calls to `chat` open while it is new. */
const NEWCOMER = {
  observed: usdc(10n ** 9n),
  asOf: T,
  newWallet: { calls: 2, worth: usdc(50_000n), endpoints: ['chat'] },
}

/** The payer's exposure, read by asking for a call that costs nothing more than any cap. */
async function exposed(storage: Storage, now: number, asOf = now, block?: number): Promise<bigint> {
  const probe = usdc(1n << 60n)
  const cap = { observed: usdc(0n), asOf, ...(block !== undefined && { block }) }
  const answer = await storage.openCall(newCall(`probe ${now}`, { quote: probe }), signed(`probe ${now}`), at(now, cap))
  if (answer.kind !== 'over') throw new Error(`the probe was ${answer.kind}`)
  return answer.sum - probe
}

function tokenOf(claim: Claim): number {
  if (claim.kind === 'yours' || claim.kind === 'retry') return claim.token
  throw new Error(`there should have been a token, but: ${claim.kind}`)
}

async function handles(subject: Subject<Storage>): Promise<[Storage, Storage]> {
  return [await subject.open(), await subject.open()]
}

function times<R>(count: number, make: (n: number) => R): R[] {
  return Array.from({ length: count }, (_, n) => make(n))
}

function kinds(answers: readonly (Opened | Claim)[]): Record<string, number> {
  const count: Record<string, number> = {}
  for (const { kind } of answers) count[kind] = (count[kind] ?? 0) + 1
  return count
}

function ids(calls: readonly Call[]): string[] {
  return calls.map((call) => call.id)
}

/** Changes every part of a value that can be changed, as a careless caller might. */
function spoil(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  const fields = value as Record<string, unknown>
  for (const [name, inner] of Object.entries(fields)) {
    spoil(inner)
    if (typeof inner === 'string') fields[name] = 'spoiled'
  }
}
