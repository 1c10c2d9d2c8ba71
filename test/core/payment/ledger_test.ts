import { describe, expect, test } from 'bun:test'
import { type ExposedCall, exposure } from '../../../core/payment/ledger/exposure.ts'
import {
  expiryAction,
  type AuthorizationBinding,
  decideClaim,
  decideFinish,
  decideOpen,
  type Head,
  mayLease,
  mayMove,
  patchOf,
  takePermits,
  UNCLAIMED,
} from '../../../core/payment/ledger/mod.ts'
import { usdc } from '../../../core/x402/money.ts'
import type { Authorization, NewCall, Outcome } from '../../../core/ports/mod.ts'
import { START } from '../../kit.ts'

const T = START
const LIFE = 600_000

const authorization = (key: string, expiresAt = T + LIFE): Authorization => ({
  key,
  payer: 'alice',
  payment: {} as never,
  offer: {} as never,
  expiresAt,
})
const head = (more: Partial<Head> = {}): Head => ({
  id: 'call',
  payer: 'alice',
  workStatus: 'completed',
  paymentStatus: 'verified',
  workerId: 'one',
  leaseExpiresAt: T + 30_000,
  startedAt: null,
  error: null,
  receipt: null,
  charge: null,
  expiresAt: T + LIFE,
  ...UNCLAIMED,
  ...more,
})
const binding = (more: Partial<AuthorizationBinding> = {}): AuthorizationBinding => ({
  key: 'first',
  call: 'call',
  payer: 'alice',
  position: 0,
  status: 'open',
  expiresAt: T + LIFE,
  ...more,
})
const newCall = { id: 'new', payer: 'alice', quote: usdc(22_000n) } as NewCall

describe('opening', () => {
  const open = (bound: Head | undefined, at = { now: T, until: T + 30_000 }) =>
    decideOpen({ call: newCall, authorization: authorization('first') }, { bound, exposedCalls: [] }, at)

  test('asks what a wallet has paid only where its open calls are worth more than a new wallet may have open', () => {
    let questions = 0
    const settled = () => (questions++, usdc(30_000n))
    const opening = (worth: bigint) =>
      decideOpen(
        { call: newCall, authorization: authorization('first') },
        { bound: undefined, exposedCalls: [], settled },
        { now: T, until: T + 30_000, cap: { asOf: T, newWallet: { calls: 2, worth: usdc(worth), endpoints: [] } } },
      ).answer.kind
    expect([opening(22_000n), questions]).toEqual(['opened', 0])
    expect([opening(21_999n), questions]).toEqual(['opened', 1])
  })

  test('over a call that lives is a replay, and writes nothing', () => {
    for (const work of ['queued', 'in_progress', 'completed'] as const)
      expect(open(head({ workStatus: work }))).toEqual({ answer: { kind: 'replayed', id: 'call' }, writes: [] })
    expect(open(head({ workStatus: 'failed', paymentStatus: 'settling' })).answer.kind).toBe('replayed')
  })

  test('over a failed call takes its authorization over', () => {
    expect(open(head({ workStatus: 'failed' })).writes.map(({ kind }) => kind)).toEqual(['insert', 'bind'])
  })

  test('over a call whose owner’s promise has passed fails that call in the same step', () => {
    const lost = head({ workStatus: 'in_progress', leaseExpiresAt: T })
    const { answer, writes } = open(lost)
    expect(answer.kind).toBe('opened')
    expect(writes[0]).toEqual({
      kind: 'patch',
      id: 'call',
      patch: {
        workStatus: 'failed',
        error: 'The work was lost when the server stopped. Nothing was charged.',
        endedAt: T,
      },
    })
    expect(open({ ...lost, leaseExpiresAt: T + 1 }).answer.kind).toBe('replayed')
  })
})

describe('exposure', () => {
  const unpaidRecord = (more: Partial<ExposedCall> = {}): ExposedCall => ({
    id: 'call',
    endpoint: 'images',
    quote: usdc(5n),
    charge: null,
    workStatus: 'completed',
    paymentStatus: 'verified',
    startedAt: null,
    settledAt: null,
    bindingStatus: 'open',
    bindingExpiresAt: T + 1,
    block: null,
    ...more,
  })
  const exposed = (...exposedCalls: readonly ExposedCall[]) =>
    exposure(exposedCalls, { now: T, asOf: T, without: 'let go' })

  test('counts what may still be spent, each call once', () => {
    expect(
      exposed(
        unpaidRecord(),
        unpaidRecord({ bindingStatus: 'sent' }),
        unpaidRecord({ id: 'other', paymentStatus: 'settling' }),
      ),
    ).toBe(usdc(10n))
    expect(
      exposed(
        unpaidRecord({ bindingStatus: 'dead' }),
        unpaidRecord({ bindingStatus: 'paid' }),
        unpaidRecord({ bindingStatus: null, bindingExpiresAt: null }),
      ),
    ).toBe(usdc(0n))
    expect(
      exposed(
        unpaidRecord({ bindingExpiresAt: T }),
        unpaidRecord({ workStatus: 'failed' }),
        unpaidRecord({ id: 'let go' }),
      ),
    ).toBe(usdc(0n))
  })

  test('counts what was settled since the balance was read, less the lag of a node', () => {
    const settled = (settledAt: number) =>
      exposed(unpaidRecord({ paymentStatus: 'settled', bindingStatus: 'paid', settledAt }))
    expect([settled(T), settled(T - 5_000), settled(T - 5_001)]).toEqual([usdc(5n), usdc(5n), usdc(0n)])
  })
})

describe('claiming', () => {
  const claim = (
    call: Head | undefined,
    bindings: readonly AuthorizationBinding[],
    offered?: Authorization,
    bound?: Head,
  ) => decideClaim(call, { bindings, offered, bound }, { now: T, until: T + 45_000 }).answer

  test('of nothing, or of what is not completed, is nothing', () => {
    expect(claim(undefined, [])).toEqual({ kind: 'nothing' })
    for (const work of ['queued', 'in_progress', 'failed'] as const)
      expect(claim(head({ workStatus: work }), [binding()])).toEqual({ kind: 'nothing' })
  })

  test('hands out the earliest authorization that is neither dead nor paid, whatever is offered', () => {
    const bindings = [
      binding({ status: 'dead' }),
      binding({ key: 'second', position: 1, status: 'sent' }),
      binding({ key: 'third', position: 2 }),
    ]
    expect(claim(head(), bindings, authorization('fresh'))).toEqual({
      kind: 'retry',
      token: 1,
      key: 'second',
      sent: true,
    })
    expect(claim(head({ claimToken: 4 }), [binding()], authorization('first'))).toEqual({ kind: 'yours', token: 5 })
    expect(claim(head(), [binding()], authorization('fresh'))).toEqual({
      kind: 'retry',
      token: 1,
      key: 'first',
      sent: false,
    })
  })

  test('with another authorization is possible only when every earlier one is dead, and it serves no other call', () => {
    const dead = [binding({ status: 'dead' })]
    expect(claim(head(), dead, authorization('fresh'))).toEqual({ kind: 'yours', token: 1 })
    expect(claim(head(), dead, authorization('first'))).toEqual({ kind: 'nothing' })
    expect(claim(head(), dead)).toEqual({ kind: 'nothing' })
    expect(claim(head(), dead, authorization('fresh'), head({ id: 'other' }))).toEqual({
      kind: 'replayed',
      id: 'other',
    })
    expect(claim(head(), dead, authorization('fresh'), head({ id: 'other', workStatus: 'failed' }))).toEqual({
      kind: 'yours',
      token: 1,
    })
  })

  test('of a channel, another payment may follow a dead one on the same base, in its place (contract 1.88)', () => {
    const offered = { ...authorization('first'), offer: { scheme: 'batch-settlement' } as never }
    const dead = binding({ status: 'dead' })
    const { answer, writes } = decideClaim(
      head(),
      { bindings: [dead], offered, bound: undefined },
      { now: T, until: T + 1 },
    )
    expect(answer).toEqual({ kind: 'yours', token: 1 })
    expect(writes).toContainEqual({
      kind: 'bind',
      binding: { ...dead, status: 'sent', expiresAt: offered.expiresAt },
      authorization: offered,
    })
    expect(claim(head(), [binding({ status: 'paid' })], offered)).toEqual({ kind: 'nothing' })
  })

  test('marks as sent what may now be sent, and not what is over', () => {
    const marks = (expiresAt: number) =>
      decideClaim(
        head(),
        { bindings: [binding({ expiresAt })], offered: undefined, bound: undefined },
        { now: T, until: T + 1 },
      ).writes.filter(({ kind }) => kind === 'mark')
    expect(marks(T + 1)).toEqual([{ kind: 'mark', key: 'first', status: 'sent' }])
    expect(marks(T)).toEqual([])
  })

  test('puts a later authorization behind all earlier ones', () => {
    const bindings = [binding({ status: 'dead' }), binding({ key: 'second', position: 3, status: 'dead' })]
    const { writes } = decideClaim(
      head(),
      { bindings, offered: authorization('third'), bound: undefined },
      { now: T, until: T + 1 },
    )
    expect(writes).toMatchObject([
      { kind: 'bind', binding: { key: 'third', call: 'call', position: 4, status: 'sent' } },
      { kind: 'patch', patch: { claimKey: 'third', claimFresh: true } },
    ])
  })

  test('is exclusive to the millisecond', () => {
    const claimed = head({ paymentStatus: 'settling', claimKey: 'first', claimExpiresAt: T + 1 })
    expect(claim(claimed, [binding({ status: 'sent' })])).toEqual({ kind: 'taken', until: T + 1 })
    expect(claim({ ...claimed, claimExpiresAt: T }, [binding({ status: 'sent' })])).toMatchObject({
      kind: 'retry',
      sent: true,
    })
  })
})

describe('finishing', () => {
  const claimed = (more: Partial<Head> = {}) =>
    head({
      paymentStatus: 'settling',
      claimToken: 3,
      claimKey: 'first',
      claimExpiresAt: T + 1,
      claimFresh: true,
      ...more,
    })
  const finish = (
    call: Head | undefined,
    outcome: Outcome,
    bindings: readonly AuthorizationBinding[] = [binding({ status: 'sent' })],
    token = 3,
  ) => {
    const { answer, writes } = decideFinish(call, { bindings, token, outcome }, { now: T })
    return {
      answer,
      money: writes.map((write) =>
        write.kind === 'patch' ? write.patch.paymentStatus : `${write.kind} ${'key' in write ? write.key : ''}`,
      ),
    }
  }
  const receipt = { transaction: '0x1', network: 'n', payer: 'alice', amount: '1' }

  test('believes paid whatever the token, and nothing else without the current one', () => {
    expect(finish(claimed(), { kind: 'paid', receipt }, [binding({ status: 'sent' })], 1)).toEqual({
      answer: true,
      money: ['settled'],
    })
    expect(finish(claimed(), { kind: 'paid', receipt })).toEqual({ answer: true, money: ['settled', 'mark first'] })
    for (const kind of ['unknown', 'refused', 'dead', 'unresolved'] as const) {
      expect(finish(claimed(), { kind }, [binding({ status: 'sent' })], 2)).toEqual({ answer: false, money: [] })
      expect(finish(claimed({ claimKey: null }), { kind })).toEqual({ answer: false, money: [] })
      expect(finish(undefined, { kind })).toEqual({ answer: false, money: [] })
      expect(finish(claimed({ paymentStatus: 'settled' }), { kind })).toEqual({ answer: false, money: [] })
    }
    expect(finish(claimed({ paymentStatus: 'settled' }), { kind: 'paid', receipt })).toEqual({
      answer: true,
      money: [],
    })
  })

  test('with a refusal keeps the original bound, and frees a later one that was never sent', () => {
    expect(finish(claimed(), { kind: 'refused' })).toEqual({ answer: true, money: ['refused', 'mark first'] })
    const second = [binding({ status: 'dead' }), binding({ key: 'second', position: 1, status: 'sent' })]
    expect(finish(claimed({ claimKey: 'second' }), { kind: 'refused' }, second)).toEqual({
      answer: true,
      money: ['refused', 'free second'],
    })
    expect(finish(claimed({ claimKey: 'second', claimFresh: false }), { kind: 'refused' }, second)).toEqual({
      answer: true,
      money: ['settling'],
    })
  })

  test('with a death ends in doubt while another authorization may have been sent', () => {
    expect(finish(claimed(), { kind: 'dead' })).toEqual({ answer: true, money: ['refused', 'mark first'] })
    expect(
      finish(claimed(), { kind: 'dead' }, [
        binding({ status: 'sent' }),
        binding({ key: 'second', position: 1, status: 'sent' }),
      ]),
    ).toEqual({ answer: true, money: ['settling', 'mark first'] })
  })
})

describe('the rest', () => {
  test('a compare-and-set applies to the work, owner and money that it names', () => {
    expect(mayMove(head(), { workStatus: ['completed'] })).toBe(true)
    expect(mayMove(head(), { workStatus: ['completed'], workerId: 'one', paymentStatus: 'verified' })).toBe(true)
    expect(mayMove(head(), { workStatus: ['queued'] })).toBe(false)
    expect(mayMove(head(), { workStatus: ['completed'], workerId: 'two' })).toBe(false)
    expect(mayMove(head(), { workStatus: ['completed'], paymentStatus: 'settled' })).toBe(false)
    expect(mayMove(undefined, { workStatus: ['completed'] })).toBe(false)
  })

  test('no patch reaches money past the ledger', () => {
    expect(patchOf({ workStatus: 'failed', paymentStatus: 'settled', receipt: {} } as never)).toEqual({
      workStatus: 'failed',
    })
  })

  test('past its life a call is emptied when settled, forgotten when nothing can pay for it any more, and else kept', () => {
    const fate = (call: Partial<Head>, bindingEnds: number = T, now = T) =>
      expiryAction(head({ expiresAt: T, ...call }), [{ expiresAt: bindingEnds }], now)
    expect([fate({}), fate({}, T, T - 1), fate({}, T + 1), fate({ paymentStatus: 'refused' })]).toEqual([
      'delete',
      'none',
      'none',
      'delete',
    ])
    expect([
      fate({ workStatus: 'failed' }, T + 1),
      fate({ workStatus: 'in_progress' }),
      fate({ paymentStatus: 'settling' }),
      fate({ paymentStatus: 'unresolved' }),
    ]).toEqual(['delete', 'none', 'none', 'none'])
    expect([fate({ paymentStatus: 'settled' }), fate({ paymentStatus: 'settled', emptied: true })]).toEqual([
      'empty',
      'none',
    ])
  })

  test('a lease is taken when it is free, one’s own, or has run out', () => {
    expect(mayLease(undefined, 'one', T)).toBe(true)
    expect(mayLease({ workerId: 'one', expiresAt: T + 1 }, 'one', T)).toBe(true)
    expect(mayLease({ workerId: 'two', expiresAt: T + 1 }, 'one', T)).toBe(false)
    expect(mayLease({ workerId: 'two', expiresAt: T }, 'one', T)).toBe(true)
  })

  test('a window gives what is left of it, and begins anew when it has reset', () => {
    const bucket = { key: 'k', limit: 10, windowMs: 1000 }
    const first = takePermits(undefined, bucket, { take: 7, now: T })
    expect(first).toEqual({ answer: { granted: 7, resetAt: T + 1000 }, window: { used: 7, resetAt: T + 1000 } })
    expect(takePermits(first.window, bucket, { take: 7, now: T + 999 }).answer).toEqual({
      granted: 3,
      resetAt: T + 1000,
    })
    expect(takePermits({ used: 10, resetAt: T + 1000 }, bucket, { take: 1, now: T })).toEqual({
      answer: { granted: 0, resetAt: T + 1000 },
      window: undefined,
    })
    expect(takePermits(first.window, bucket, { take: 7, now: T + 1000 }).answer).toEqual({
      granted: 7,
      resetAt: T + 2000,
    })
  })
})
